"""Figure 13: the trajectories of Figure 6, CIFAR-100."""

from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.fig06 import PAPER, PUBLISHED, REDUCED
from experiments.p000_weighted_distillation.settings import KEPT_OUT, LAST_DIFFERENCE, THROUGHOUT, as_printed

EXPERIMENT = Experiment(
    name="weighted_fig13",
    paper="000",
    shows="Figure 13",
    what="CIFAR-100: test accuracy over the training trajectory (the trainings of Figure 6)",
    parts=[Part("Trajectories", PAPER, REDUCED, [as_printed(THROUGHOUT, PUBLISHED)])],
    minutes=0,
    remarks=[KEPT_OUT, LAST_DIFFERENCE],
)
