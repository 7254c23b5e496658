"""Figures 4 to 6 and 8, tables of accuracies at sizes of the labelled set; Figures 2, 11 to 13 and 15: their curves.

Reduced, 2,000 validation rows estimate the weights, as in the paper, and a weight is the mean of 23 neighbours. Of 150
it would be the mean of 7, and most weights that should be a half would be 1.
"""

from dataclasses import replace

from experiments.claims import Claim
from experiments.engines.distil import Distillation, Method
from experiments.experiment import Experiment, Part, Published
from experiments.needs import useful_teacher, weighs
from experiments.p000_weighted_distillation.settings import (
    ABOVE_ITS_TEACHER,
    BETTER,
    CIFAR_LABELS,
    FASTER,
    IMAGENET_LABELS,
    KEPT_OUT,
    LAST_DIFFERENCE,
    ONE_SHOT,
    THROUGHOUT,
    as_printed,
    few,
    one_shot,
)

COST = (
    "The weights take 0.2% of a training of 200 epochs, the paper's length, and 1.3% of one of 30 "
    "([benchmarks](../../benchmarks.md)); the paper: under 1%."
)
COUNTS = [f"{count:,}" for count in CIFAR_LABELS]
SVHN = Published("Figure 4", COUNTS, {
    "Teacher": ["87.31", "88.5", "88.45", "91.38", "91.32"],
    "Weighted": ["90.41 ± 0.12", "91.21 ± 0.09", "92.4 ± 0.12", "92.64 ± 0.14", "92.85 ± 0.1"],
    "Unweighted": ["89.89 ± 0.09", "90.86 ± 0.11", "91.99 ± 0.1", "92.51 ± 0.07", "92.45 ± 0.07"],
})  # fmt: skip
CIFAR10 = Published("Figure 5", COUNTS, {
    "Teacher": ["67.17", "71.39", "74.69", "77", "78.46"],
    "Weighted": ["69.01 ± 0.25", "72.96 ± 0.1", "75.33 ± 0.43", "77.69 ± 0.35", "78.34 ± 0.16"],
    "Unweighted": ["68.27 ± 0.22", "72.48 ± 0.26", "74.95 ± 0.2", "76.85 ± 0.32", "77.92 ± 0.06"],
})  # fmt: skip
CIFAR100 = Published("Figure 6", COUNTS, {
    "Teacher": ["44.1", "51.31", "55.54", "59.05", "62.17"],
    "Weighted": ["46.81 ± 0.34", "53.31 ± 0.66", "57.5 ± 0.3", "60.94 ± 0.32", "62.86 ± 0.41"],
    "Unweighted": ["46.29 ± 0.04", "52.83 ± 0.53", "56.89 ± 0.65", "60.73 ± 0.03", "62.79 ± 0.09"],
})  # fmt: skip
SHARES = ["5% of ImageNet", "10% of ImageNet"]
IMAGENET = Published("Figure 8, left", SHARES, {
    "Teacher": ["36.74", "51.88"],
    "Weighted": ["38.60 ± 0.07", "53.59 ± 0.09"],
    "Unweighted": ["38.44 ± 0.06", "53.43 ± 0.08"],
})  # fmt: skip
IMAGENET_HARD = Published("Figure 8, right", SHARES, {
    "Teacher": ["36.74", "51.88"],
    "Weighted": ["38.56 ± 0.07", "53.34 ± 0.11"],
    "Unweighted": ["38.42 ± 0.06", "53.18 ± 0.07"],
})  # fmt: skip

# Figure 1 asks for the last one; it is no method, since it knows the truth.
METHODS = (*ONE_SHOT, Method("Correct labels only", "oracle"))
EVERY = Method("Weighted every epoch", "weighted", (1,))
EVERY_EPOCH = Claim("Estimated every epoch, above Unweighted", [EVERY.label], ["Unweighted"],
                    needs=(useful_teacher(10), weighs(EVERY.label)))  # fmt: skip


def hard(part: Part, published: Published, *claims: Claim) -> Part:
    """A part again with hard labels."""
    return Part("Hard labels", *(replace(sweep, hard=True) for sweep in (part.full, part.reduced)), claims, published)


def part(title: str, paper: Distillation, ours: Distillation, published: Published, *claims: Claim) -> Part:
    return Part(title, paper, ours, (BETTER, *claims), published)


PARTS = {
    "svhn": part("SVHN", one_shot("svhn", CIFAR_LABELS), few("svhn"), SVHN),
    "cifar10": part("CIFAR-10", one_shot("cifar10", CIFAR_LABELS, methods=METHODS),
                    few("cifar10", (*METHODS, EVERY)), CIFAR10, as_printed(EVERY_EPOCH, CIFAR10)),
    "cifar100": part("CIFAR-100", one_shot("cifar100", CIFAR_LABELS), few("cifar100"), CIFAR100),
    # Ten trials in the paper.
    "imagenet": part("Soft labels", one_shot("imagenet", IMAGENET_LABELS, 10_000, seeds=10),
                     few("imagenet"), IMAGENET),
}  # fmt: skip
PARTS["imagenet, hard"] = hard(PARTS["imagenet"], IMAGENET_HARD, BETTER)


def table(number: int, what: str, *sets: str, minutes: float, remarks: tuple[str, ...] = ()) -> Experiment:
    parts = [PARTS[name] for name in sets]
    name = f"weighted_fig{number:02}"
    return Experiment(name, "000", f"Figure {number}", what, parts, minutes, remarks=[KEPT_OUT, *remarks])


def curves(number: int, what: str, *sets: str, claim: Claim = THROUGHOUT) -> Experiment:
    """The trainings of a table, followed; their effects are those of the table."""
    parts = []
    for name in sets:
        of, title = PARTS[name], PARTS[name].title if len(sets) > 1 else "Trajectories"
        assert of.published is not None
        parts.append(replace(of, title=title, claims=[as_printed(claim, of.published)], published=None))
    name = f"weighted_fig{number:02}"
    return Experiment(name, "000", f"Figure {number}", what, parts, 0, remarks=[KEPT_OUT, LAST_DIFFERENCE])


SIZES = "weighted against unweighted distillation at five sizes of the labelled set"
OVER = "test accuracy over the training trajectory"
PARTS["svhn, hard"] = hard(PARTS["svhn"], SVHN)
EXPERIMENTS = [
    curves(2, "how fast the student's test accuracy rises, weighted against unweighted (the trainings of Figure 5)",
           "cifar10", claim=FASTER),
    table(4, f"SVHN: {SIZES}", "svhn", minutes=0.6, remarks=(ABOVE_ITS_TEACHER, COST)),
    table(5, f"CIFAR-10: {SIZES}", "cifar10", minutes=0.8, remarks=(ABOVE_ITS_TEACHER,)),
    table(6, f"CIFAR-100: {SIZES}", "cifar100", minutes=0.7, remarks=(ABOVE_ITS_TEACHER,)),
    table(8, "ImageNet at 5% and 10% labels: weighted against unweighted, soft and hard labels", "imagenet",
          "imagenet, hard", minutes=0.5),
    # With hard labels: so its caption.
    curves(11, f"SVHN: {OVER} with hard labels", "svhn, hard"),
    curves(12, f"CIFAR-10: {OVER} (the trainings of Figure 5)", "cifar10"),
    curves(13, f"CIFAR-100: {OVER} (the trainings of Figure 6)", "cifar100"),
    curves(15, f"ImageNet: {OVER} (the trainings of Figure 8)", "imagenet, hard", "imagenet"),
]  # fmt: skip
