"""Figure 7: SLaM with PolyLoss (ε = 2) and with Taylor-CE (degree 2), CIFAR-100 and ImageNet."""

from experiments.claims import Claim
from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part
from experiments.p001_slam.settings import (
    CIFAR_LABELS,
    FEW_IMAGENET_LABELS,
    FEW_LABELS,
    IMAGENET_LABELS,
    LEAD_IN_TABLE_2,
    LEAD_IN_TABLE_4,
    PLOTTED,
    SELECT,
    few,
)
from experiments.vision import full

PLAIN = (Method("PolyLoss", "poly"), Method("Taylor-CE", "taylor"))
CIFAR100 = (*PLAIN, Method("SLaM + PolyLoss", "slam_poly"), Method("SLaM + Taylor-CE", "slam_taylor"))


def imagenet(bounds: tuple[float, ...]) -> tuple[Method, ...]:
    """D.1, as in Table 4: k = 5 and a grid for the lower bound."""
    slam = (Method("SLaM + PolyLoss", "slam_k5_poly", bounds), Method("SLaM + Taylor-CE", "slam_k5_taylor", bounds))
    return (*PLAIN, *slam)


def claims(effect: float) -> list[Claim]:
    return [
        Claim(f"SLaM improves {loss}", [f"SLaM + {loss}"], [loss], effect=effect) for loss in ("PolyLoss", "Taylor-CE")
    ]


EXPERIMENT = Experiment(
    name="slam_fig07",
    paper="001",
    shows="Figure 7",
    what="SLaM with other losses than cross-entropy",
    parts=[
        Part(
            "CIFAR-100",
            full("cifar100", CIFAR_LABELS, 500, CIFAR100),
            few("cifar100", FEW_LABELS[:1], methods=CIFAR100),
            claims(LEAD_IN_TABLE_2),
        ),
        Part(
            "ImageNet",
            full("imagenet", IMAGENET_LABELS, 10_000, imagenet((0.55, 0.6, 0.65, 0.7)), select=SELECT),
            few("imagenet", FEW_IMAGENET_LABELS[:1], methods=imagenet((0.55, 0.7)), validation=100),
            claims(LEAD_IN_TABLE_4),
        ),
    ],
    minutes=0.9,
    remarks=[PLOTTED],
)
