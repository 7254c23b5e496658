"""Figure 5: the information gained by self-distilled labels over the noisy ones, along training.

The paper follows the first 1,500 steps (about four epochs) and does not give the noise; 40% is used. Reduced, the two
classes are halves of the ten: of two classes against eight (appendix B) the net stays at the eight, with 20% and 40%
flipped, 4,000 to 40,000 rows, because its own answers are soon most of its labels.
"""

from experiments.claims import Claim, Needs
from experiments.engines.kernel import ACCURACY, MAJORITY, NO_NET, InformationGain
from experiments.experiment import Experiment, Part
from experiments.p003_self_distillation.settings import ABOVE, BINARY_TRAINING
from experiments.sweep import Training

LEARNED = Needs("above the larger class by", ACCURACY, MAJORITY, at_least=ABOVE)
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
            InformationGain("fashion_mnist_odd", "mlp:128", 0.4, LOOKS, Training(epochs=10), rows=8_000),
            [
                Claim("The net is right more often than the larger class is", [ACCURACY], [MAJORITY],
                      aside="the precondition of the others"),
                Claim("The gain is above zero, mean over the epochs", ["gain"],
                      aside="answers of any net that learned gain along any smooth kernel, see the last rows"),
                *(Claim(f"The gain is larger along the net's own eigenvectors than along raw pixels, epoch {look}",
                        [f"gain@epoch {look}"], [f"gain along raw pixels@epoch {look}"], needs=[LEARNED])
                  for look in LOOKS),
                Claim("The gain is larger along the net's own eigenvectors than along an untrained net's",
                      ["gain"], [NO_NET], needs=[LEARNED]),
            ],
        )
    ],
    minutes=0.2,
    remarks=[
        "Labels are centred first. Uncentred, as the paper has them, a student that always answers the larger given "
        "class gains information too (last row): without centring the figure says nothing of what was learned.",
        "The gain is also measured along the eigenvectors of an untrained net and of raw pixels: as far as it is there "
        "too, it is the smoothness of any student's answers, not this kernel's.",
        "The paper's two classes stand against eight. There the net stays at the larger class, with 20 and 40% flipped "
        "and of 4,000, 20,000 or 40,000 rows, so that its labels tell nothing: five classes stand against five.",
    ],
)  # fmt: skip
