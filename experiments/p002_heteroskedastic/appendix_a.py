"""Appendix A: a bound for training on the highest losses, which label noise voids. Measured, not only proved.

The appendix has no experiment: net, data and noise are those of Table 1, q is half of a batch of 64.
"""

from dataclasses import replace

from experiments.claims import Claim, larger_lead
from experiments.engines.ordered import NOISE, ORDERED, PLAIN, OrderedSGD
from experiments.experiment import Experiment, Part
from experiments.sweep import Training

NOISY = ("Noisy-Blank", "Noisy-Diverse", "Noisy-Class")

EXPERIMENT = Experiment(
    name="heteroskedastic_appendix_a",
    paper="002",
    shows="Appendix A",
    what="training on the half of each batch with the highest losses, on clean and on heteroskedastic pools",
    parts=[
        Part(
            "Top-q",
            OrderedSGD("svhn", "mlp:512", 32, Training(epochs=50, batch_size=64)),
            OrderedSGD("fashion_mnist", "mlp:128", 32, Training(epochs=10, batch_size=64), rows=1_000,
                       test_rows=3_000, side=14),
            [
                *(replace(larger_lead(f"The highest losses are the worse rows to train on once there is noise, {kind}",
                                      PLAIN, ORDERED, at=kind, than_at="Clean"), delta=1)
                  for kind in NOISY),
                *(Claim(f"Among the rows that count there is more noise than in the pool, {kind}",
                        [f"{ORDERED}: {NOISE}@{kind}"], [f"{PLAIN}: {NOISE}@{kind}"],
                        structural="random labels have a high loss")
                  for kind in NOISY),
            ],
        )
    ],
    minutes=0.7,
    remarks=["Theorem 1 gives no figures; its two statements are put as claims, and a point of accuracy counts as "
             "none. Its bound, evaluated for all 256 labellings of eight points, is a test "
             "(`tests/experiments/theory/test_uniform_convergence.py`)."],
)  # fmt: skip
