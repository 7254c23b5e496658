"""Figure 6: what the confusion matrices show, as two numbers: accuracy, and how often others are called background."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part
from experiments.needs import memorised
from experiments.p004_reweight.settings import OURS, TAKEN, background, reduced_table1, reduced_table2, uniform
from experiments.p004_reweight.table1 import METHODS as IN_TABLE1

METHODS = ("Baseline", OURS)

EXPERIMENT = Experiment(
    name="reweight_fig06",
    paper="004",
    shows="Figure 6",
    what="how much of the noise is left in the predictions, with and without learning to reweight",
    parts=[
        Part(
            "UniformFlip",
            uniform("cifar10", 100, METHODS),
            reduced_table1("cifar10", IN_TABLE1),
            [Claim("Learning to reweight confuses less", [OURS], ["Baseline"], same_as="reweight_table1")],
        ),
        Part(
            "BackgroundFlip",
            background("cifar10", (0.4,), METHODS, extras=(TAKEN,)),
            reduced_table2("cifar10"),
            [
                Claim("Learning to reweight confuses less", [f"{OURS}@40%"], ["Baseline@40%"],
                      same_as="reweight_table2"),
                # The figure prints no shares; a tenth of the noise would be too little to see in it.
                Claim("The baseline calls more rows of other classes background",
                      [f"Baseline: {TAKEN}@40%"], [f"{OURS}: {TAKEN}@40%"], delta=4, needs=[memorised("40%")]),
            ],
        ),
    ],
    minutes=0,
    remarks=["The cells are those of Tables 1 and 2, with what is taken for the background."],
)  # fmt: skip
