"""Figure 2: MNIST 4 against 9 with growing imbalance, LeNet. Of the plotted ratios the text names 200:1."""

from experiments.claims import Claim, larger_lead
from experiments.engines.imbalance import METHODS, Imbalance
from experiments.experiment import Experiment, Part
from experiments.sweep import Training

OURS = "Learning to reweight"
RIVALS = [name for name in METHODS if name != OURS]

EXPERIMENT = Experiment(
    name="reweight_fig02",
    paper="004",
    shows="Figure 2",
    what="test error on balanced rows of 4 and 9 where 9s dominate the training rows, 10 clean images",
    parts=[
        Part(
            "MNIST 4 and 9",
            Imbalance("mnist", "lenet", (10, 20, 50, 100, 200),
                      Training(steps=8_000, batch_size=100, lr=1e-3, optimizer="sgd", momentum=0.0), seeds=10),
            Imbalance("mnist", "mlp:128", (20, 200),
                      Training(steps=2_000, batch_size=100, lr=1e-2, optimizer="sgd", momentum=0.0)),
            [
                *(Claim(f"At 200:1 {rival} errs more than learning to reweight", [f"{rival}@200:1"], [f"{OURS}@200:1"])
                  for rival in RIVALS),
                larger_lead("The baseline suffers more from 20:1 to 200:1 than learning to reweight",
                            "Baseline", OURS, at="200:1", than_at="20:1"),
            ],
        )
    ],
    minutes=3,
    remarks=["Values are errors: lower is better. `experiments/reweight_mnist.py` runs it longer, and with the LeNet."],
)  # fmt: skip
