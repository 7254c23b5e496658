"""Figure 7: training curves under BackgroundFlip at 40%; "S-Model" there starts from the confusion."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part
from experiments.p004_reweight.settings import background, reduced

OURS = "Learning to reweight"
METHODS = ("Baseline", "S-Model +Conf", OURS)

EXPERIMENT = Experiment(
    name="reweight_fig07",
    paper="004",
    shows="Figure 7",
    what="test accuracy along training: the baseline and the S-Model overfit, learning to reweight does not",
    parts=[
        Part(
            "CIFAR-10",
            background("cifar10", (0.4,), METHODS),
            reduced("cifar10", "background", (0.4,), METHODS),
            [
                Claim("The baseline loses more from its best epoch to its last", ["Baseline"], [OURS], measure="drop"),
                Claim(
                    "The S-Model loses more from its best epoch to its last", ["S-Model +Conf"], [OURS], measure="drop"
                ),
            ],
        )
    ],
    minutes=0.7,
    remarks=["The paper plots accuracy on its noisy hyper-validation rows; here it is the clean test rows."],
)
