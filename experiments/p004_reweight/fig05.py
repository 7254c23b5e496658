"""Figure 5: background noise from 0 to 50%, ResNet-32 on CIFAR-10 and CIFAR-100.

The reduced run has no noise and the 40% of Table 2, whose trainings these are.
"""

from experiments.claims import Claim, larger_lead, needing
from experiments.experiment import Experiment, Part
from experiments.needs import memorised
from experiments.p004_reweight.settings import CURVES, OURS, background, reduced_table2

CLAIMS = needing([
    larger_lead("The baseline loses more to the noise than learning to reweight", OURS, "Baseline",
                at="40%", than_at="0%", effect=34),
    Claim("With noise learning to reweight is above the baseline", [f"{OURS}@40%"], ["Baseline@40%"],
          same_as="reweight_table2"),
    # "Slightly" has no number in the paper. Two points are a third of what it says its method loses to 50% noise.
    Claim("At 0% noise learning to reweight is at most 2 points below the baseline", [f"{OURS}@0%"], ["Baseline@0%"],
          beyond=-0.02),
], memorised("40%"))  # fmt: skip

EXPERIMENT = Experiment(
    name="reweight_fig05",
    paper="004",
    shows="Figure 5",
    what="test accuracy against the noise level",
    parts=[
        Part(title, background(data, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), CURVES), reduced_table2(data), CLAIMS)
        for data, title in [("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")]
    ],
    minutes=0,
    remarks=[
        "The paper: from 0% to 50% noise its method drops 6%, the baseline more than 40%, and at 0% its method only "
        "slightly underperforms the baseline. The limit of 2 points for *slightly* is ours; steered by 100 rows at "
        "this scale it can cost more than that."
    ],
)
