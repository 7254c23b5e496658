"""Figure 10: weighting, fidelity weights and their product on CIFAR-10 and CIFAR-100; Figure 3: with 7, as curves."""

from dataclasses import replace

from experiments.claims import Claim
from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part, Published
from experiments.p000_weighted_distillation import fig07
from experiments.p000_weighted_distillation.settings import CIFAR_LABELS
from experiments.vision import full, reduced


def methods(refresh_every: int | None) -> tuple[Method, ...]:
    """C.3: on CIFAR-10 the weights are estimated again every epoch, on CIFAR-100 once."""
    return (
        Method("Weighted", "weighted", (refresh_every,)),
        Method("Fidelity", "fidelity"),
        Method("Composition", "weighted_fidelity", (refresh_every,)),
    )


COLUMNS = [f"{count:,}" for count in CIFAR_LABELS]
# As the validation rows train, they must be few beside the labelled ones.
FEW_LABELS = (1_000,)
CIFAR10 = Published(
    "Figure 10, top",
    COLUMNS,
    {
        "Teacher": ["67.55", "72.85", "74.85", "77.63", "78.40"],
        "Weighted": ["70.59 ± 0.05", "74.59 ± 0.07", "75.75 ± 0.32", "78.56 ± 0.14", "79.21 ± 0.17"],
        "Fidelity": ["69.31 ± 0.41", "73.39 ± 0.44", "74.69 ± 0.31", "77.10 ± 0.16", "78.19 ± 0.19"],
        "Composition": ["71.20 ± 0.097", "75.54 ± 0.21", "76.80 ± 0.29", "79.55 ± 0.22", "80.28 ± 0.28"],
    },
)
CIFAR100 = Published(
    "Figure 10, bottom",
    COLUMNS,
    {
        "Teacher": ["44.70", "51.45", "56.00", "58.70", "61.82"],
        "Weighted": ["46.18 ± 0.25", "53.15 ± 0.16", "57.51 ± 0.4", "59.65 ± 0.4", "62.02 ± 0.25"],
        "Fidelity": ["46.32 ± 0.23", "52.92 ± 0.20", "57.40 ± 0.47", "59.48 ± 0.17", "61.39 ± 0.09"],
        "Composition": ["46.62 ± 0.44", "53.39 ± 0.16", "57.11 ± 0.41", "59.63 ± 0.15", "62.30 ± 0.26"],
    },
)
CLAIMS = [
    Claim("The product is above the fidelity weights alone", ["Composition"], ["Fidelity"]),
    Claim("The product is above weighting alone", ["Composition"], ["Weighted"]),
    Claim("Weighting is above the fidelity weights", ["Weighted"], ["Fidelity"]),
]

FIGURE10 = Experiment(
    name="weighted_fig10",
    paper="000",
    shows="Figure 10",
    what="combining and comparing with fidelity weights",
    parts=[
        Part(
            title,
            full(name, CIFAR_LABELS, 500, methods(every)),
            reduced(name, FEW_LABELS, methods(every)),
            claims,
            published,
        )
        for title, name, every, claims, published in [
            ("CIFAR-10", "cifar10", 1, CLAIMS, CIFAR10),
            ("CIFAR-100", "cifar100", None, CLAIMS[:1], CIFAR100),
        ]
    ],
    minutes=0.6,
    remarks=[
        "The validation rows train every student, as in the paper's C.3; the weights that are estimated again after an "
        "epoch are then read off rows that the student has fitted.",
        "On CIFAR-100 the paper's own differences to weighting alone are smaller than its spread, so that nothing is "
        "claimed of them.",
    ],
)  # fmt: skip


def again(part: Part, name: str) -> Part:
    return replace(part, claims=[replace(claim, same_as=name) for claim in part.judged()], published=None)


FIGURE3 = Experiment(
    name="weighted_fig03",
    paper="000",
    shows="Figure 3",
    what="weighting with VID and with fidelity weights: the trainings of Figures 7 and 10, plotted",
    parts=[again(part, made.name) for made in (fig07.EXPERIMENTS[0], FIGURE10) for part in made.parts],
    minutes=0,
)
EXPERIMENTS = [FIGURE3, FIGURE10]
