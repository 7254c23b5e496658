"""Figure 7: training curves under BackgroundFlip at 40%; "S-Model" there starts from the confusion."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part
from experiments.needs import memorised
from experiments.p004_reweight.settings import FLIP_REMARKS, OURS, background, reduced_table2

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
            reduced_table2("cifar10"),
            # The curves print no figures; what early stopping gains in Table 2 is what was lost at the end.
            [
                Claim("The baseline falls more from its best epochs to its last than learning to reweight",
                      ["Baseline@40%"], [f"{OURS}@40%"], measure="drop", effect=5.42, needs=[memorised("40%")]),
                Claim("The S-Model falls more from its best epochs to its last than learning to reweight",
                      ["S-Model +Conf@40%"], [f"{OURS}@40%"], measure="drop", effect=10.31, needs=[memorised("40%")]),
            ],
        )
    ],
    minutes=0,
    remarks=[
        "The paper plots accuracy on its noisy hyper-validation rows; here it is the clean test rows.",
        "A fall is taken between means of three epochs: single ones go up and down by as much as the effect.",
        FLIP_REMARKS[1],
    ],
)  # fmt: skip
