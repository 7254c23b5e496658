"""Figure 2: convergence speed, weighted against unweighted; the sweep of Figure 5."""

from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.fig05 import PAPER, PUBLISHED, REDUCED
from experiments.p000_weighted_distillation.settings import FASTER, KEPT_OUT, LAST_DIFFERENCE, as_printed

EXPERIMENT = Experiment(
    name="weighted_fig02",
    paper="000",
    shows="Figure 2",
    what="how fast the student's test accuracy rises, weighted against unweighted (the trainings of Figure 5)",
    parts=[Part("Convergence", PAPER, REDUCED, [as_printed(FASTER, PUBLISHED)])],
    minutes=0,
    remarks=[KEPT_OUT, LAST_DIFFERENCE],
)
