"""Figure 6: temperatures for labelled and unlabelled rows, with and without SLaM (CIFAR-100)."""

from itertools import product

from experiments.claims import Claim
from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part
from experiments.p001_slam.settings import CIFAR_LABELS, FEW_LABELS, LEAD_IN_TABLE_2, PLOTTED, SELECT, few
from experiments.vision import full

TEMPERATURES = (0.01, 0.1, 0.5, 0.8, 1.0, 2.0, 5.0, 10.0, 100.0)
Pairs = tuple[tuple[float, ...], ...]


def methods(pairs: Pairs) -> tuple[Method, ...]:
    return (
        Method("Vanilla, best temperatures", "vanilla_temperature", pairs),
        Method("SLaM, best temperatures", "slam_temperature", pairs),
    )


EXPERIMENT = Experiment(
    name="slam_fig06",
    paper="001",
    shows="Figure 6",
    what="the best pair of temperatures for labelled and unlabelled rows, chosen on held-out rows",
    parts=[
        Part(
            "CIFAR-100",
            full("cifar100", CIFAR_LABELS, 500, methods(tuple(product(TEMPERATURES, repeat=2))), select=SELECT),
            few("cifar100", FEW_LABELS[:1], methods=methods(((1.0, 0.5), (1.0, 1.0), (1.0, 2.0), (2.0, 2.0)))),
            [Claim("SLaM with temperature is above vanilla with temperature",
                   ["SLaM, best temperatures"], ["Vanilla, best temperatures"], effect=LEAD_IN_TABLE_2)],
        )
    ],
    minutes=0.6,
    remarks=[PLOTTED,
             "No loss is multiplied by the square of its temperature, SLaM's or vanilla's: the paper prints none."],
)  # fmt: skip
