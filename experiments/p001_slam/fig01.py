"""Figure 1: learning the teacher's accuracy by isotonic regression and by nearest neighbours."""

from experiments.claims import Claim
from experiments.engines.accuracy_curves import AccuracyCurves
from experiments.experiment import Experiment, Part
from experiments.p001_slam.settings import FEW_LABELS
from experiments.vision import full, reduced

EXPERIMENT = Experiment(
    name="slam_fig01",
    paper="001",
    shows="Figure 1",
    what="α(x) of a CIFAR-100 teacher from 500 rows: the mean of (right − α)² on unseen rows, and how much α changes "
    "from one set of rows to another; lower is better",
    parts=[
        Part(
            "Estimating α(x)",
            AccuracyCurves(full("cifar100", (5_000,), 500, ()), (500,)),
            AccuracyCurves(reduced("cifar100", FEW_LABELS[:1], ()), (100, 500), seeds=5),
            [
                Claim("The curve of nearest neighbours is less stable",
                      ["Nearest neighbours: change"], ["Isotonic regression: change"], delta=0.5),
                Claim("Nearest neighbours err more", ["Nearest neighbours"], ["Isotonic regression"], delta=0.1),
                Claim("One accuracy for all rows errs more", ["Constant"], ["Isotonic regression"], delta=0.1),
            ],
        )
    ],
    minutes=0.3,
    remarks=[
        "The paper shows one pair of curves and says that isotonic regression is more stable and robust; the number of "
        "neighbours, which it does not give, is chosen here on the same rows by leaving one out.",
        "A difference of 0.001 in the squared error, or of half a point in α, is taken as none.",
    ],
)  # fmt: skip
