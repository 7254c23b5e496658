"""Figure 1: learning the teacher's accuracy by isotonic regression and by nearest neighbours."""

from dataclasses import replace

from experiments.claims import Claim
from experiments.engines.accuracy_curves import AccuracyCurves
from experiments.experiment import Experiment, Part
from experiments.vision import full, reduced

EXPERIMENT = Experiment(
    name="slam_fig01",
    paper="001",
    shows="Figure 1",
    what="α(x) of a CIFAR-100 teacher from 500 rows; the mean of (right − α)² on unseen rows, lower is better",
    parts=[
        Part(
            "Estimating α(x)",
            AccuracyCurves(full("cifar100", (5_000,), 500, ()), (500,)),
            AccuracyCurves(replace(reduced("cifar100", ()), labelled=(1_000,)), (100, 500), seeds=5),
            [
                Claim("Nearest neighbours err more than isotonic regression",
                      ["Nearest neighbours"], ["Isotonic regression"]),
                Claim("One accuracy for all rows errs more than isotonic regression",
                      ["Constant"], ["Isotonic regression"]),
            ],
        )
    ],
    minutes=0.3,
)  # fmt: skip
