"""Figure 12: the trajectories of Figure 5, CIFAR-10."""

from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.fig05 import PAPER, PUBLISHED, REDUCED
from experiments.p000_weighted_distillation.settings import KEPT_OUT, LAST_DIFFERENCE, THROUGHOUT, as_printed

EXPERIMENT = Experiment(
    name="weighted_fig12",
    paper="000",
    shows="Figure 12",
    what="CIFAR-10: test accuracy over the training trajectory (the trainings of Figure 5)",
    parts=[Part("Trajectories", PAPER, REDUCED, [as_printed(THROUGHOUT, PUBLISHED)])],
    minutes=0,
    remarks=[KEPT_OUT, LAST_DIFFERENCE],
)
