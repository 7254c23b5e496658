"""Figure 7: CelebA, weighting combined with Variational Information Distillation; Figure 14: its curves."""

from experiments.claims import Claim
from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part, Published
from experiments.needs import useful_teacher, weighs
from experiments.p000_weighted_distillation.settings import (
    CELEBA_LABELS,
    KEPT_OUT,
    LAST_DIFFERENCE,
    as_printed,
    few,
    one_shot,
)

# The paper does not print its VID coefficient; SLaM's paper gives this grid for the same loss.
GRID = (0.001, 0.1, 0.2, 0.5, 0.8, 1.0, 2.0, 10.0, 50.0, 100.0)


def methods(grid: tuple[float, ...]) -> tuple[Method, ...]:
    return (
        Method("Weighted VID", "weighted_vid", grid),
        Method("Weighted conventional", "weighted_margin"),
        Method("Unweighted VID", "vid", grid),
        Method("Unweighted conventional", "vanilla"),
    )


PAPER = one_shot("celeba", CELEBA_LABELS, methods=methods(GRID), select=500)
REDUCED = few("celeba", methods((0.01, 0.1)), select=500)
PUBLISHED = Published(
    "Figure 7",
    [f"{count:,}" for count in CELEBA_LABELS],
    {
        "Teacher": ["91.59", "93.76", "94.41", "94.86", "94.92"],
        "Weighted VID": ["94.35 ± 0.11", "95.01 ± 0.17", "95.73 ± 0.04", "95.89 ± 0.08", "96.11 ± 0.08"],
        "Weighted conventional": ["94.06 ± 0.04", "95.14 ± 0.1", "95.56 ± 0.03", "95.86 ± 0.03", "95.92 ± 0.01"],
        "Unweighted VID": ["94.11 ± 0.11", "94.76 ± 0.14", "95.46 ± 0.11", "95.69 ± 0.05", "95.88 ± 0.03"],
        "Unweighted conventional": ["93.68 ± 0.01", "94.92 ± 0.02", "95.38 ± 0.07", "95.69 ± 0.05", "95.73 ± 0.09"],
    },
)

NAMES = {"VID": "VID", "conventional": "conventional distillation"}


def claim(text: str, kind: str, measure: str = "last") -> Claim:
    mine = f"Weighted {kind}"
    return Claim(text, [mine], [f"Unweighted {kind}"], measure=measure, needs=(useful_teacher(2), weighs(mine)))


def throughout(kind: str) -> Claim:
    text = f"Weighted is above Unweighted almost throughout, {kind}"
    return as_printed(claim(text, kind, "average"), PUBLISHED, claim("", kind))


ENDS = [claim(f"Weighting helps {name}", kind) for kind, name in NAMES.items()]
ALONG = [throughout(kind) for kind in reversed(NAMES)]
EXPERIMENTS = [
    Experiment(
        "weighted_fig07", "000", "Figure 7",
        "CelebA, male against female: weighting helps conventional distillation and VID alike",
        [Part("CelebA", PAPER, REDUCED, ENDS, PUBLISHED)], minutes=0.6, remarks=[KEPT_OUT],
    ),
    Experiment(
        "weighted_fig14", "000", "Figure 14",
        "CelebA: test accuracy over the training trajectory (the trainings of Figure 7)",
        [Part("Trajectories", PAPER, REDUCED, ALONG)], minutes=0, remarks=[KEPT_OUT, LAST_DIFFERENCE],
    ),
]  # fmt: skip
