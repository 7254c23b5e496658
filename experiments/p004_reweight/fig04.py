"""Figure 4: how many clean images are needed (CIFAR-10, 40% flipped to class 3).

The text names 15, 100 and 1,000 clean images; the other ticks are not printed.
"""

from dataclasses import replace

from experiments.claims import Claim, larger_lead
from experiments.experiment import Experiment, Part
from experiments.needs import memorised
from experiments.p004_reweight.settings import FLIP_REMARKS, MEMORISED, OURS, background, reduced
from experiments.sweep import Training

TUNED = "Baseline +ES +FT"
METHODS = (OURS, "Baseline", "Baseline +FT", TUNED, "Clean only")
FEW, MANY = "2 clean per class", "50 clean per class"
HAS_MEMORISED = memorised(FEW)

EXPERIMENT = Experiment(
    name="reweight_fig04",
    paper="004",
    shows="Figure 4",
    what="learning to reweight and fine-tuning with few and many clean images",
    parts=[
        Part(
            "CIFAR-10",
            background("cifar10", (0.4,), METHODS, gold=(2, 5, 10, 50, 100), backgrounds=(3,)),
            reduced("cifar10", "background", (0.4,), METHODS, gold=(2, 50), backgrounds=(3,), extras=(MEMORISED,),
                    training=Training(epochs=40, batch_size=100, schedule="cosine")),
            # Plotted, not printed. Two points are what the paper calls the small loss of its own method.
            [
                Claim("With 2 clean rows per class learning to reweight is above fine-tuning",
                      [f"{OURS}@{FEW}"], [f"{TUNED}@{FEW}"], delta=2, needs=[HAS_MEMORISED]),
                replace(larger_lead("Few clean rows cost fine-tuning more than learning to reweight", OURS, TUNED,
                                    at=FEW, than_at=MANY), delta=2, needs=[HAS_MEMORISED]),
                Claim("Fine-tuning gains from more clean rows", [f"{TUNED}@{MANY}"], [f"{TUNED}@{FEW}"], delta=2,
                      needs=[HAS_MEMORISED]),
            ],
        )
    ],
    minutes=2,
    remarks=[FLIP_REMARKS[0]],
)  # fmt: skip
