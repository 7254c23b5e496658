"""Figure 2: the share of a label vector in the kernel's top five eigenspaces, as labels are flipped."""

from experiments.claims import Claim, Needs
from experiments.engines.kernel import ACCURACY, MAJORITY, PIXELS, RANDOM, TRAINED, UNTRAINED, InformationRatio
from experiments.experiment import Experiment, Part
from experiments.p003_self_distillation.settings import ABOVE, BINARY_TRAINING
from experiments.sweep import Training

NOISE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
LEARNED = Needs("above the larger class by", f"{ACCURACY}@{TRAINED}", f"{MAJORITY}@{TRAINED}", at_least=ABOVE)
ANY = "flips shrink the ratio of any subspace, see the other columns"

EXPERIMENT = Experiment(
    name="air_fig02",
    paper="003",
    shows="Figure 2",
    what="two classes of CIFAR-10: information ratio of a test batch's labels with 0 to 50% of them flipped",
    parts=[
        Part(
            "Information ratio",
            InformationRatio("cifar10_binary", "resnet56", NOISE, BINARY_TRAINING),
            InformationRatio("fashion_mnist_binary", "mlp:128", NOISE, Training(epochs=10), rows=4_000),
            [
                Claim("The net is right more often than the larger class is", [f"{ACCURACY}@{TRAINED}"],
                      [f"{MAJORITY}@{TRAINED}"], aside="the precondition of the next two"),
                Claim("True labels lie more along the trained net's eigenvectors than along an untrained net's",
                      [f"0% flipped@{TRAINED}"], [f"0% flipped@{UNTRAINED}"], needs=[LEARNED]),
                Claim("True labels lie more along the trained net's eigenvectors than along raw pixels",
                      [f"0% flipped@{TRAINED}"], [f"0% flipped@{PIXELS}"], needs=[LEARNED]),
                Claim("True labels lie more along raw pixels than in a random subspace",
                      [f"0% flipped@{PIXELS}"], [f"0% flipped@{RANDOM}"], aside="a control"),
                Claim("20% flips lower the ratio", [f"0% flipped@{TRAINED}"], [f"20% flipped@{TRAINED}"],
                      structural=ANY),
                Claim("40% flips lower it further than 20%", [f"20% flipped@{TRAINED}"], [f"40% flipped@{TRAINED}"],
                      structural=ANY),
            ],
        )
    ],
    minutes=0.2,
    remarks=[
        "The falling curve, all that the figure plots, is no evidence for the trained kernel: flipping a share p of "
        "the labels leaves (1 − 2p) of them along any direction, and an untrained net, raw pixels and random "
        "directions fall alike. What the net adds is how much of the *true* labels its top eigenvectors hold.",
        "Labels are centred first; uncentred ones, as the paper has them, are mostly their mean (two classes of ten "
        "against the rest). If the net were not above the larger class, the claims about its kernel would say nothing.",
    ],
)  # fmt: skip
