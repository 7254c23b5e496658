"""Figure 2: the share of a label vector in the kernel's top five eigenspaces, as labels are flipped."""

from experiments.claims import Claim
from experiments.engines.kernel import InformationRatio
from experiments.experiment import Experiment, Part
from experiments.p003_self_distillation.settings import BINARY_TRAINING
from experiments.sweep import Training

NOISE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)

EXPERIMENT = Experiment(
    name="air_fig02",
    paper="003",
    shows="Figure 2",
    what="two classes of CIFAR-10: information ratio of a test batch's labels with 0 to 50% of them flipped",
    parts=[
        Part(
            "Information ratio",
            InformationRatio("cifar10_binary", "resnet56", NOISE, BINARY_TRAINING),
            InformationRatio("cifar10_binary", "mlp:128", NOISE, Training(epochs=10), rows=4_000, side=16, seeds=5),
            [
                Claim("20% flips lower the ratio", ["0% flipped"], ["20% flipped"]),
                Claim("40% flips lower it further than 20%", ["20% flipped"], ["40% flipped"]),
            ],
        )
    ],
    minutes=0.2,
)
