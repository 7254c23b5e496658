"""Figure 1: what the teacher's mistakes cost, and that its margin tells where they are."""

from dataclasses import replace

from experiments.claims import Claim
from experiments.engines.accuracy_curves import MarginAccuracy
from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.settings import KEPT_OUT
from experiments.p000_weighted_distillation.tables import PARTS

# 7,500 labelled, 2,000 validation and 40,500 unlabelled rows.
OF_TEACHERS = "of teachers, not of the method"
PAPER, REDUCED = PARTS["cifar10"].full, PARTS["cifar10"].reduced
ONE_SIZE = replace(PAPER, labelled=(7_500,))

EXPERIMENT = Experiment(
    name="weighted_fig01",
    paper="000",
    shows="Figure 1",
    what="a student of the teacher's correct labels only against one of all its labels; teacher accuracy by margin",
    parts=[
        Part(
            "Left: filtering the teacher's mistakes",
            ONE_SIZE,
            REDUCED,
            [Claim("Without the wrong labels the student is better", ["Correct labels only"], ["Unweighted"],
                   aside=OF_TEACHERS)],
        ),
        Part(
            "Right: the teacher's accuracy by its margin",
            MarginAccuracy(ONE_SIZE),
            MarginAccuracy(replace(REDUCED, methods=())),
            [
                Claim("The teacher is right more often at high margins than in the middle",
                      ["highest margins"], ["middle margins"], aside=OF_TEACHERS),
                Claim("The teacher is right more often at middle margins than at low ones",
                      ["middle margins"], ["lowest margins"], aside=OF_TEACHERS),
            ],
        ),
    ],
    minutes=0.1,
    remarks=[
        KEPT_OUT,
        "The trainings are those of Figure 5.",
        "Theorem 4.1 as Corollary D.2, Proposition E.3, Theorems E.4 and E.5 are tests (`tests/experiments/theory`): "
        "of 60 predictors and 400,000 rows the weighted risk lies within the bound of the clean one, the unweighted "
        "one outside of it.",
    ],
)  # fmt: skip
