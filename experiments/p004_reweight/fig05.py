"""Figure 5: background noise from 0 to 50%, ResNet-32 on CIFAR-10 and CIFAR-100."""

from experiments.claims import Claim, larger_lead
from experiments.experiment import Experiment, Part
from experiments.p004_reweight.settings import background, reduced

OURS = "Learning to reweight"
METHODS = (OURS, "Baseline", "Baseline +ES", "Baseline +ES +FT")
CLAIMS = [
    larger_lead("From 0% to 50% noise the baseline loses more than learning to reweight", OURS, "Baseline",
                at="50%", than_at="0%"),
    Claim("At 50% noise learning to reweight is above the baseline", [f"{OURS}@50%"], ["Baseline@50%"]),
    Claim("At 0% noise the baseline is above learning to reweight", ["Baseline@0%"], [f"{OURS}@0%"]),
]  # fmt: skip

EXPERIMENT = Experiment(
    name="reweight_fig05",
    paper="004",
    shows="Figure 5",
    what="test accuracy against the noise level",
    parts=[
        Part(
            title,
            background(data, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), METHODS),
            reduced(data, "background", (0.0, 0.25, 0.5), METHODS),
            CLAIMS,
        )
        for data, title in [("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")]
    ],
    minutes=5,
)
