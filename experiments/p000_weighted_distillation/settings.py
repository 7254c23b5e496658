"""What the figures of this paper share."""

from experiments.claims import Claim
from experiments.engines.distil import Method

ONE_SHOT = (Method("Weighted", "weighted_margin"), Method("Unweighted", "vanilla"))
CIFAR_LABELS = (7_500, 10_000, 12_500, 15_000, 17_500)
CELEBA_LABELS = (10_000, 15_000, 20_000, 25_000, 30_000)
# 5% and 10% of ImageNet.
IMAGENET_LABELS = (64_058, 128_116)

BETTER = Claim("Weighted ends above Unweighted", ["Weighted"], ["Unweighted"])
BEATS_TEACHER = Claim("The weighted student ends above its teacher", ["Weighted"], ["Teacher"])
THROUGHOUT = Claim("Weighted is above Unweighted almost throughout training", ["Weighted"], ["Unweighted"],
                   measure="average")  # fmt: skip
FASTER = Claim("Weighted converges faster", ["Weighted"], ["Unweighted"], measure="early")
VALIDATION_TRAINS = (
    "The validation rows also train the student, weighted or not; "
    "the paper allows it (Remark 2.1) but keeps them out here (3.1)."
)
