"""Figure 2: MNIST 4 against 9 with growing imbalance, LeNet. Of the plotted ratios the text names 200:1.

The paper says SGD at 1e-3 for 8,000 steps and does not name a momentum; without any, training without weights never
leaves the larger class at 200:1, so 0.9 is used, as in its other experiments. Reduced: two of five ratios.
"""

from dataclasses import replace

from experiments.claims import Claim, Needs, larger_lead
from experiments.engines.imbalance import GOLD_ONLY, METHODS, OURS, Imbalance
from experiments.experiment import Experiment, Part
from experiments.sweep import Training

# A net that says 9 to every row errs on half of them.
LEARNED = tuple(Needs(f"errors of learning to reweight at {ratio}", f"{OURS}@{ratio}", at_most=0.4)
                for ratio in ("20:1", "200:1"))  # fmt: skip
RIVALS = [name for name in METHODS if name not in (OURS, GOLD_ONLY)]

EXPERIMENT = Experiment(
    name="reweight_fig02",
    paper="004",
    shows="Figure 2",
    what="test error on balanced rows of 4 and 9 where 9s dominate the training rows, 10 clean images",
    parts=[
        Part(
            "MNIST 4 and 9",
            Imbalance("mnist", "lenet", (10, 20, 50, 100, 200),
                      Training(steps=8_000, batch_size=100, lr=1e-3, optimizer="sgd"), seeds=10),
            Imbalance("mnist", "lenet", (20, 200),
                      Training(steps=8_000, batch_size=100, lr=1e-3, optimizer="sgd"), mild=(OURS, "Baseline")),
            # Plotted; of its own method the text says "a small increase of error rate around 2%" at 200:1.
            [
                *(Claim(f"At 200:1 {rival} errs more than learning to reweight", [f"{rival}@200:1"], [f"{OURS}@200:1"],
                        delta=2, needs=LEARNED)
                  for rival in RIVALS),
                replace(larger_lead("The baseline suffers more from 20:1 to 200:1 than learning to reweight",
                                    "Baseline", OURS, at="200:1", than_at="20:1"), delta=2,
                        needs=LEARNED),
            ],
            errors=True,
        )
    ],
    minutes=40,
    remarks=[
        "Values are errors: lower is better.",
        "A seed takes 13 CPU minutes: with three, every claim is open. Five seeds at 200:1 without momentum are on the "
        "page of [noisy labels](../noisy_labels.md#learning-to-reweight-under-class-imbalance).",
        "All methods have the same 5,000 rows; ten are split off to steer learning to reweight, which trains on "
        "the rest.",
        "The paper gives no momentum; 0.9 is used: without any, training without weights stays at one class.",
    ],
)  # fmt: skip
