"""Figure 6: what the confusion matrices show, as two numbers: accuracy, and how often others are called background."""

from dataclasses import replace

from experiments.claims import Claim
from experiments.engines.noisy import NoisyLabels
from experiments.experiment import Experiment, Part
from experiments.p004_reweight.settings import HYPER_VALIDATION, TRIALS, WIDE, WIDE_TRAINING, background, reduced

OURS = "Learning to reweight"
METHODS = ("Baseline", OURS)
TAKEN = "others taken for the background"

EXPERIMENT = Experiment(
    name="reweight_fig06",
    paper="004",
    shows="Figure 6",
    what="how much of the noise is left in the predictions, with and without learning to reweight",
    parts=[
        Part(
            "UniformFlip",
            NoisyLabels("cifar10", WIDE, "uniform", (0.4,), METHODS, WIDE_TRAINING, gold=(100,),
                        watched=HYPER_VALIDATION, seeds=TRIALS),
            reduced("cifar10", "uniform", (0.4,), METHODS, gold=(20,)),
            [Claim("Learning to reweight confuses less", [OURS], ["Baseline"])],
        ),
        Part(
            "BackgroundFlip",
            replace(background("cifar10", (0.4,), METHODS), confusion=True),
            reduced("cifar10", "background", (0.4,), METHODS, confusion=True),
            [
                Claim("Learning to reweight confuses less", [OURS], ["Baseline"]),
                Claim("The baseline calls more rows of other classes background",
                      [f"Baseline: {TAKEN}"], [f"{OURS}: {TAKEN}"]),
            ],
        ),
    ],
    minutes=0.8,
)  # fmt: skip
