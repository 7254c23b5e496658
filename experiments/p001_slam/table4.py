"""Table 4: ImageNet, soft labels. UPS is missing in the paper too: it did not improve on the pretrained student."""

from dataclasses import replace

from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part, Published
from experiments.p001_slam.settings import (
    AS_PRINTED,
    FEW_IMAGENET_LABELS,
    IMAGENET_LABELS,
    PERCENT,
    SELECT,
    above,
    few,
    lead,
)
from experiments.vision import IMAGENET_TRAINING, full


def methods(*, taylor: tuple[int, ...], vid: tuple[float, ...], slam: tuple[float, ...]) -> tuple[Method, ...]:
    """D.1: k fixed at 5, weights from margins and once, as their own paper has it on ImageNet, grids for the rest."""
    return (
        Method("Vanilla", "vanilla"),
        Method("Taylor-CE", "taylor", taylor),
        Method("VID", "vid", vid),
        Method("Weighted", "weighted_margin"),
        Method("SLaM", "slam_k5", slam, AS_PRINTED),
    )


PAPER = full(
    "imagenet",
    IMAGENET_LABELS,
    10_000,
    methods(taylor=(1, 2, 3, 4, 5, 6, 10, 20, 50, 80, 100), vid=(0.1, 0.3, 0.5), slam=(0.55, 0.6, 0.65, 0.7)),
    training=replace(IMAGENET_TRAINING, augment=("flip", "crop_resize")),
    select=SELECT,
    seeds=4,
)
REDUCED = few(
    "imagenet", FEW_IMAGENET_LABELS, methods=methods(taylor=(2, 5), vid=(0.1, 0.5), slam=(0.55, 0.7)), validation=100
)
PUBLISHED = Published(
    "Table 4",
    PERCENT["imagenet"],
    {
        "Teacher": ["39.48", "52.96", "59.64", "63.62", "66.00", "67.85"],
        "Vanilla": ["41.67 ± 0.05", "55.9 ± 0.06", "62.3 ± 0.09", "65.91 ± 0.05", "67.98 ± 0.07", "69.12 ± 0.08"],
        "Taylor-CE": ["41.61 ± 0.06", "56.43 ± 0.06", "62.38 ± 0.11", "65.86 ± 0.08", "67.70 ± 0.22", "68.62 ± 0.07"],
        "VID": ["40.12 ± 0.04", "52.75 ± 0.04", "58.01 ± 0.03", "61.21 ± 0.06", "62.37 ± 0.06", "63.05 ± 0.07"],
        "Weighted": ["41.67 ± 0.04", "55.96 ± 0.07", "62.29 ± 0.08", "65.91 ± 0.05", "67.96 ± 0.06", "69.16 ± 0.08"],
        "SLaM": ["48.1 ± 0.05", "59.51 ± 0.07", "64.08 ± 0.06", "66.72 ± 0.11", "68.17 ± 0.07", "69.07 ± 0.05"],
    },
)

EXPERIMENT = Experiment(
    name="slam_table4",
    paper="001",
    shows="Table 4",
    what="ImageNet, soft labels: five distillation methods at six sizes of the labelled set",
    parts=[
        Part(
            "ImageNet",
            PAPER,
            REDUCED,
            [*above("Vanilla", "Taylor-CE", "VID", "Weighted"), lead(PUBLISHED, FEW_IMAGENET_LABELS)],
            PUBLISHED,
        )
    ],
    minutes=1.8,
)
