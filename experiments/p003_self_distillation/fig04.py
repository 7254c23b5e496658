"""Figure 4: CIFAR-10 with 40% noise over the epochs; plain training overfits, self-distillation does not."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part
from experiments.p003_self_distillation.settings import paper, reduced

METHODS = ("Baseline", "Self-distillation")

EXPERIMENT = Experiment(
    name="air_fig04",
    paper="003",
    shows="Figure 4",
    what="test accuracy along training under 40% symmetric noise",
    parts=[
        Part(
            "CIFAR-10",
            paper("cifar10", (0.4,), (1.0,), METHODS),
            reduced("fashion_mnist", (0.4,), (1.0,), METHODS),
            [
                Claim("Plain training loses more from its best epoch to its last",
                      ["Baseline"], ["Self-distillation"], measure="drop"),
                Claim("Self-distillation ends above plain training", ["Self-distillation"], ["Baseline"]),
            ],
        )
    ],
    minutes=0.6,
)  # fmt: skip
