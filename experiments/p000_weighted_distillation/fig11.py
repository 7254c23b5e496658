"""Figure 11: the trajectories of Figure 4, SVHN, with hard labels (so the caption)."""

from dataclasses import replace

from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.fig04 import PAPER, PUBLISHED, REDUCED
from experiments.p000_weighted_distillation.settings import KEPT_OUT, LAST_DIFFERENCE, THROUGHOUT, as_printed

EXPERIMENT = Experiment(
    name="weighted_fig11",
    paper="000",
    shows="Figure 11",
    what="SVHN: test accuracy over the training trajectory with hard labels",
    parts=[
        Part(
            "Trajectories", replace(PAPER, hard=True), replace(REDUCED, hard=True), [as_printed(THROUGHOUT, PUBLISHED)]
        )
    ],
    minutes=0.4,
    remarks=[KEPT_OUT, LAST_DIFFERENCE],
)
