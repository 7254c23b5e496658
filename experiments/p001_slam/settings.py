"""What the tables of this paper share: its baselines, its grids, and what it says of all of them."""

from experiments.claims import Claim, larger_lead
from experiments.engines.distil import Method
from experiments.vision import columns

CIFAR_LABELS = (5_000, 7_500, 10_000, 12_500, 15_000, 17_500)
# 2% to 7% of the training images.
CELEBA_LABELS = (3_256, 4_883, 6_510, 8_138, 9_766, 11_394)
# 5% to 30%.
IMAGENET_LABELS = (64_058, 128_116, 192_174, 256_232, 320_290, 384_348)
PERCENT = {"celeba": ["2%", "3%", "4%", "5%", "6%", "7%"], "imagenet": ["5%", "10%", "15%", "20%", "25%", "30%"]}
VID_GRID = (0.001, 0.1, 0.2, 0.5, 0.8, 1.0, 2.0, 10.0, 50.0, 100.0)
REFRESH_GRID = (1, 25, 50, 100, 200)
SELECT = 500
"""Rows kept out to choose from a grid; the paper takes the best on its test rows."""


def methods(*, vid: tuple[float, ...] = (0.001,), refresh: tuple[int, ...] = (1,)) -> tuple[Method, ...]:
    """D.1: SLaM with lower bound 0.5 and threshold 0.9; a grid only for VID and the weights' refreshing."""
    return (
        Method("Vanilla", "vanilla"),
        Method("Taylor-CE", "taylor"),
        Method("UPS", "ups"),
        Method("VID", "vid", vid),
        Method("Weighted", "weighted", refresh),
        Method("SLaM", "slam"),
    )


FULL_METHODS = methods(vid=VID_GRID, refresh=REFRESH_GRID)


def claims(data: str, *, rivals: tuple[str, ...] = ("Vanilla", "Taylor-CE", "UPS", "VID", "Weighted")) -> list[Claim]:
    fewest, most = columns(data)
    return [
        *(Claim(f"SLaM is above {rival}", ["SLaM"], [rival]) for rival in rivals),
        larger_lead("SLaM's lead on Vanilla is larger with few labels", "SLaM", "Vanilla", at=fewest, than_at=most),
    ]


def plotted(data: str) -> list[Claim]:
    """What a plot of the table shows at a glance."""
    return claims(data, rivals=("Vanilla", "Weighted"))
