"""SLaM on other losses and weights, mostly on CIFAR-100: Figure 5, fidelity weights of every strength β; Figure 6,
temperatures for labelled and unlabelled rows; Figure 7, PolyLoss (ε = 2) and Taylor-CE (degree 2), on ImageNet too."""

from itertools import product

from experiments.claims import Claim
from experiments.engines.distil import Distillation, Method
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
from experiments.vision import full, reduced

BETAS = (0.1, 0.2, 1.0, 1.2, 2.0, 5.0, 10.0, 20.0)
FEW_BETAS = (0.2, 2.0, 10.0)


def fidelity(betas: tuple[float, ...]) -> tuple[Method, ...]:
    return (
        Method("SLaM", "slam"),
        *(Method(f"Fidelity, β = {beta:g}", "fidelity_passes", (beta,)) for beta in betas),
        *(Method(f"SLaM + fidelity, β = {beta:g}", "slam_fidelity", (beta,)) for beta in betas),
    )


PAPER: Distillation = full("cifar100", CIFAR_LABELS, 500, fidelity(BETAS))
REDUCED = reduced("cifar100", FEW_LABELS[:1], fidelity(FEW_BETAS))
FIDELITY = [f"Fidelity, β = {beta:g}" for beta in FEW_BETAS]
BOTH = [f"SLaM + fidelity, β = {beta:g}" for beta in FEW_BETAS]

FIVE = Experiment(
    name="slam_fig05",
    paper="001",
    shows="Figure 5",
    what="composing SLaM with fidelity weights from ten augmented teacher passes",
    parts=[
        Part(
            "CIFAR-100",
            PAPER,
            REDUCED,
            [
                Claim("SLaM on top improves the fidelity weights, over all β", BOTH, FIDELITY,
                      effect=LEAD_IN_TABLE_2),
                Claim("SLaM alone is above the fidelity weights", ["SLaM"], FIDELITY, effect=LEAD_IN_TABLE_2),
            ],
        )
    ],
    minutes=0.7,
    remarks=[PLOTTED],
)  # fmt: skip
TEMPERATURES = (0.01, 0.1, 0.5, 0.8, 1.0, 2.0, 5.0, 10.0, 100.0)
Pairs = tuple[tuple[float, ...], ...]


def tempered(pairs: Pairs) -> tuple[Method, ...]:
    return (
        Method("Vanilla, best temperatures", "vanilla_temperature", pairs),
        Method("SLaM, best temperatures", "slam_temperature", pairs),
    )


SIX = Experiment(
    name="slam_fig06",
    paper="001",
    shows="Figure 6",
    what="the best pair of temperatures for labelled and unlabelled rows, chosen on held-out rows",
    parts=[
        Part(
            "CIFAR-100",
            full("cifar100", CIFAR_LABELS, 500, tempered(tuple(product(TEMPERATURES, repeat=2))), select=SELECT),
            few("cifar100", FEW_LABELS[:1], methods=tempered(((1.0, 0.5), (1.0, 1.0), (1.0, 2.0), (2.0, 2.0)))),
            [Claim("SLaM with temperature is above vanilla with temperature",
                   ["SLaM, best temperatures"], ["Vanilla, best temperatures"], effect=LEAD_IN_TABLE_2)],
        )
    ],
    minutes=0.6,
    remarks=[PLOTTED,
             "No loss is multiplied by the square of its temperature, SLaM's or vanilla's: the paper prints none."],
)  # fmt: skip
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


SEVEN = Experiment(
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
EXPERIMENTS = [FIVE, SIX, SEVEN]
