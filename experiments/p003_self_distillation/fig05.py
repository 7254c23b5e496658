"""Figure 5: the information gained by self-distilled labels over the noisy ones, along training.

The paper follows the first 1,500 steps (about four epochs) and does not give the noise; 40% is used.
"""

from experiments.claims import Claim
from experiments.engines.kernel import InformationGain
from experiments.experiment import Experiment, Part
from experiments.p003_self_distillation.settings import BINARY_TRAINING
from experiments.sweep import Training

LOOKS = (1, 2, 5, 10)

EXPERIMENT = Experiment(
    name="air_fig05",
    paper="003",
    shows="Figure 5",
    what="two classes of CIFAR-10: information ratio of self-distilled labels minus that of the given noisy ones",
    parts=[
        Part(
            "Information gain",
            InformationGain("cifar10_binary", "resnet56", 0.4, (1, 2, 3, 4), BINARY_TRAINING),
            InformationGain("cifar10_binary", "mlp:128", 0.4, LOOKS, Training(epochs=10), rows=4_000, side=16, seeds=5),
            [
                Claim("The gain is above zero, mean over the epochs", ["gain"]),
                *(Claim(f"The gain is above zero after epoch {look}", [f"gain@epoch {look}"]) for look in LOOKS),
            ],
        )
    ],
    minutes=0.5,
)
