"""Figure 16: temperatures on CIFAR-100 with 12,500 labels."""

from experiments.claims import Claim
from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part, Published
from experiments.p000_weighted_distillation.settings import KEPT_OUT, NEEDS, few, one_shot

METHODS = (Method("Unweighted", "vanilla"), Method("Weighted", "weighted"))
PUBLISHED = Published(
    "Figure 16",
    ["T = 0.01", "0.1", "0.5", "0.8", "1", "2", "3", "5"],
    {
        "Unweighted": ["52.84 ± 0.08", "54.63 ± 0.09", "56.45 ± 0.12", "56.67 ± 0.12", "57.17 ± 0.15",
                       "57.54 ± 0.11", "57.20 ± 0.18", "56.92 ± 0.11"],
        "Weighted": ["53.73 ± 0.11", "54.84 ± 0.12", "57.01 ± 0.1", "57.60 ± 0.15", "57.56 ± 0.09",
                     "57.8 ± 0.21", "57.09 ± 0.25", "57.01 ± 0.2"],
    },
)  # fmt: skip

EXPERIMENT = Experiment(
    name="weighted_fig16",
    paper="000",
    shows="Figure 16",
    what="weighting helps at nearly every distillation temperature",
    parts=[
        Part(
            "CIFAR-100",
            one_shot("cifar100", (12_500,), 500, methods=METHODS,
                     temperatures=(0.01, 0.1, 0.5, 0.8, 1.0, 2.0, 3.0, 5.0)),
            few("cifar100", METHODS, labelled=(1_000,), validation=500, temperatures=(0.1, 1.0, 2.0), curve_rows=0),
            [
                Claim("Weighted is above Unweighted over all temperatures", ["Weighted"], ["Unweighted"], needs=NEEDS),
                Claim("T = 2 is above T = 0.1 for the weighted student", ["Weighted@T = 2"], ["Weighted@T = 0.1"],
                      effect=57.8 - 54.84),
            ],
            PUBLISHED,
        )
    ],
    minutes=0.5,
    remarks=[
        KEPT_OUT,
        "The loss at a temperature is not multiplied by its square, as the paper prints none; the teacher's and the "
        "student's logits are divided by it, in the loss and in the distortion alike.",
    ],
)  # fmt: skip
