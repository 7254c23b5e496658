"""Figure 14: the trajectories of Figure 7, CelebA."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.fig07 import PAPER, REDUCED
from experiments.p000_weighted_distillation.settings import VALIDATION_TRAINS

EXPERIMENT = Experiment(
    name="weighted_fig14",
    paper="000",
    shows="Figure 14",
    what="CelebA: test accuracy over the training trajectory (the trainings of Figure 7)",
    parts=[
        Part(
            "Trajectories",
            PAPER,
            REDUCED,
            [
                Claim("Weighted is above Unweighted almost throughout, conventional distillation",
                      ["Weighted conventional"], ["Unweighted conventional"], measure="average"),
                Claim("Weighted is above Unweighted almost throughout, VID",
                      ["Weighted VID"], ["Unweighted VID"], measure="average"),
            ],
        )
    ],
    minutes=0,
    remarks=[VALIDATION_TRAINS],
)  # fmt: skip
