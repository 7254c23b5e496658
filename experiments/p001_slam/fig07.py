"""Figure 7: SLaM with PolyLoss (ε = 2) and with Taylor-CE (degree 2), CIFAR-100 and ImageNet."""

from experiments.claims import Claim
from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part
from experiments.p001_slam.settings import CIFAR_LABELS, IMAGENET_LABELS
from experiments.vision import full, reduced

METHODS = (
    Method("PolyLoss", "poly"),
    Method("SLaM + PolyLoss", "slam_poly"),
    Method("Taylor-CE", "taylor"),
    Method("SLaM + Taylor-CE", "slam_taylor"),
)
CLAIMS = [
    Claim("SLaM improves PolyLoss", ["SLaM + PolyLoss"], ["PolyLoss"]),
    Claim("SLaM improves Taylor-CE", ["SLaM + Taylor-CE"], ["Taylor-CE"]),
]

EXPERIMENT = Experiment(
    name="slam_fig07",
    paper="001",
    shows="Figure 7",
    what="SLaM with other losses than cross-entropy",
    parts=[
        Part("CIFAR-100", full("cifar100", CIFAR_LABELS, 500, METHODS), reduced("cifar100", METHODS), CLAIMS),
        Part("ImageNet", full("imagenet", IMAGENET_LABELS, 10_000, METHODS), reduced("imagenet", METHODS), CLAIMS),
    ],
    minutes=2.0,
)
