"""Figure 15: the trajectories of Figure 8, ImageNet, hard labels above and soft ones below."""

from dataclasses import replace

from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.fig08 import PAPER, REDUCED
from experiments.p000_weighted_distillation.settings import FASTER, THROUGHOUT, VALIDATION_TRAINS

EXPERIMENT = Experiment(
    name="weighted_fig15",
    paper="000",
    shows="Figure 15",
    what="ImageNet: test accuracy over the training trajectory (the trainings of Figure 8)",
    parts=[
        Part("Hard labels", replace(PAPER, hard=True), replace(REDUCED, hard=True), [THROUGHOUT, FASTER]),
        Part("Soft labels", PAPER, REDUCED, [THROUGHOUT, FASTER]),
    ],
    minutes=0,
    remarks=[VALIDATION_TRAINS],
)
