"""Figure 15: the trajectories of Figure 8, ImageNet, hard labels above and soft ones below."""

from dataclasses import replace

from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.fig08 import HARD, PAPER, REDUCED, SOFT
from experiments.p000_weighted_distillation.settings import KEPT_OUT, LAST_DIFFERENCE, THROUGHOUT, as_printed

EXPERIMENT = Experiment(
    name="weighted_fig15",
    paper="000",
    shows="Figure 15",
    what="ImageNet: test accuracy over the training trajectory (the trainings of Figure 8)",
    parts=[
        Part("Hard labels", replace(PAPER, hard=True), replace(REDUCED, hard=True), [as_printed(THROUGHOUT, HARD)]),
        Part("Soft labels", PAPER, REDUCED, [as_printed(THROUGHOUT, SOFT)]),
    ],
    minutes=0,
    remarks=[KEPT_OUT, LAST_DIFFERENCE],
)
