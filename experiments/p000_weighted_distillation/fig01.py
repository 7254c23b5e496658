"""Figure 1: what the teacher's mistakes cost, and that its margin tells where they are."""

from dataclasses import replace

from experiments.claims import Claim, larger_lead
from experiments.engines.accuracy_curves import MarginAccuracy
from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part
from experiments.vision import columns, full, reduced

METHODS = (Method("Correct labels only", "oracle"), Method("All labels", "vanilla"))
PAPER = full("cifar10", (7_500,), 2_000, METHODS, unlabelled=40_500)
OURS = reduced("cifar10", METHODS)

EXPERIMENT = Experiment(
    name="weighted_fig01",
    paper="000",
    shows="Figure 1",
    what="a student of the teacher's correct labels only against one of all its labels; teacher accuracy by margin",
    parts=[
        Part(
            "Left: filtering the teacher's mistakes",
            PAPER,
            OURS,
            [
                Claim("Without the wrong labels the student is better", ["Correct labels only"], ["All labels"]),
                larger_lead("The gap is larger where the teacher is worse", "Correct labels only", "All labels",
                            at=columns("cifar10")[0], than_at=columns("cifar10")[1]),
            ],
        ),
        Part(
            "Right: the teacher's accuracy by its margin",
            MarginAccuracy(PAPER),
            MarginAccuracy(replace(OURS, methods=())),
            [
                Claim("The teacher is right more often at high margins than in the middle",
                      ["highest margins"], ["middle margins"]),
                Claim("The teacher is right more often at middle margins than at low ones",
                      ["middle margins"], ["lowest margins"]),
            ],
        ),
    ],
    minutes=0.7,
    remarks=["The second claim of the left part is ours: the paper shows a single size."],
)  # fmt: skip
