"""Figure 4: CIFAR-10 with 40% noise over the epochs; plain training overfits, self-distillation does not."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part
from experiments.needs import memorised
from experiments.p003_self_distillation.settings import FASHION, HARD, SOFT, paper

EXPERIMENT = Experiment(
    name="air_fig04",
    paper="003",
    shows="Figure 4",
    what="test accuracy along training under 40% symmetric noise",
    parts=[
        Part(
            "CIFAR-10",
            paper("cifar10_centred", (0.4,), (1.0,), ("Baseline", HARD, SOFT)),
            FASHION,
            # Plotted: two points are less than the figure's line width shows.
            [
                *(Claim(f"Plain training falls more from its best epochs to its last than self-distillation, {how}",
                        ["Baseline@40%"], [f"{row}@40%"], measure="drop", delta=2, needs=[memorised("40%")])
                  for how, row in (("low temperature", SOFT), ("best class as target", HARD))),
                *(Claim(f"Self-distillation, {how}, ends above plain training", [f"{row}@40%"], ["Baseline@40%"],
                        delta=2, needs=[memorised("40%")])
                  for how, row in (("low temperature", SOFT), ("best class as target", HARD))),
            ],
        )
    ],
    minutes=0,
    remarks=[
        "The trainings are those of Table 1, Fashion-MNIST.",
        "A fall is taken between means of three epochs: single ones go up and down by as much as the effect.",
    ],
)  # fmt: skip
