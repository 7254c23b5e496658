"""Tables 1, 2, 5 and 6 with teacher and student of one family, as the paper's pairs are, and with *gold only*.

Two LeNets on CIFAR-10 at 16 × 16 with flips and shifts, and two MLPs on its images as vectors of
EfficientNet-lite0. The validation rows train too (4.1). SLaM is the library's, which drops the labels' tails; beside
it, for soft labels, as printed.
"""

from dataclasses import replace

from experiments.claims import Claim
from experiments.engines.distil import Distillation, Method
from experiments.experiment import Experiment, Part
from experiments.p001_slam import table1, table2, table5, table6
from experiments.p001_slam.settings import AS_PRINTED, above
from experiments.vision import LENETS, on_vectors

# Weights once, before the validation rows have trained the student: after that it says nothing honest of them.
METHODS = (Method("Vanilla", "vanilla"), Method("Weighted", "weighted"), Method("SLaM", "slam"))
PRINTED = Method("SLaM as printed", "slam", fixed=AS_PRINTED)

IMAGES = replace(LENETS, labelled=(1_000,), methods=(*METHODS, PRINTED), validation=500, seeds=5)
VECTORS = on_vectors("cifar10_vectors", 200, 150, 8_000, (*METHODS, PRINTED))


def claims(ours: Distillation) -> list[Claim]:
    found = above("Vanilla", "Weighted")
    if PRINTED not in ours.methods:
        return found
    return [*found, Claim("As printed it is above Vanilla", ["SLaM as printed"], ["Vanilla"], needs=found[0].needs)]


def parts(title: str, ours: Distillation, soft: Experiment, hard: Experiment) -> list[Part]:
    """With soft and with hard labels."""
    full, published = soft.parts[0].full, soft.parts[0].published
    untailed = tuple(method for method in ours.methods if method is not PRINTED)
    return [
        Part(f"{title}, soft labels", full, ours, claims(ours), published),
        Part(
            f"{title}, hard labels", replace(full, hard=True), replace(ours, hard=True, methods=untailed),
            claims(ours)[:2], hard.parts[0].published,
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="slam_pairs",
    paper="001",
    shows="Tables 1, 2, 5 and 6, one family of nets",
    what="teacher and student of one family: SLaM against vanilla, weighted and gold only, soft and hard labels",
    parts=[
        *parts("CIFAR-10 (at 16 × 16)", IMAGES, table1.EXPERIMENT, table5.EXPERIMENT),
        *parts("CIFAR-100 (CIFAR-10 as vectors)", VECTORS, table2.EXPERIMENT, table6.EXPERIMENT),
    ],
    minutes=17,
    remarks=[
        "In Tables 2 to 4, 6 and 7 the student is of a weaker kind than its teacher and cannot reach it; SLaM is below "
        "vanilla there. Here students end level with their teachers or above.",
        "Gold only takes as many steps on the labelled and the validation rows.",
    ],
)
