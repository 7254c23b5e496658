"""Figure 11: the trajectories of Figure 4, SVHN, with hard labels (so the caption)."""

from dataclasses import replace

from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.fig04 import PAPER, REDUCED
from experiments.p000_weighted_distillation.settings import FASTER, THROUGHOUT, VALIDATION_TRAINS

EXPERIMENT = Experiment(
    name="weighted_fig11",
    paper="000",
    shows="Figure 11",
    what="SVHN: test accuracy over the training trajectory with hard labels",
    parts=[Part("Trajectories", replace(PAPER, hard=True), replace(REDUCED, hard=True), [THROUGHOUT, FASTER])],
    minutes=0.6,
    remarks=[VALIDATION_TRAINS],
)
