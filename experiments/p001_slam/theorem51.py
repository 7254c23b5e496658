"""Theorem 5.1: how many examples a halfspace needs, by its margin and the error asked for."""

from experiments.claims import Claim
from experiments.engines.halfspace_rate import HalfspaceRate
from experiments.experiment import Experiment, Part

COUNTS = (250, 1_000, 4_000)
THEOREM = "Theorem 5.1"

EXPERIMENT = Experiment(
    name="slam_theorem51",
    paper="001",
    shows=THEOREM,
    what="error of the halfspace that SLaM's iteration finds, by the margin γ and the number of examples T; 30% of the "
    "positives are flipped",
    parts=[
        Part(
            "Halfspaces",
            HalfspaceRate((0.025, 0.05, 0.1, 0.2), (250, 1_000, 4_000, 16_000, 64_000), fresh=100_000, seeds=20),
            HalfspaceRate((0.05, 0.1, 0.2), COUNTS),
            [
                Claim("Sixteen times as many examples, a lower error", ["SLaM, T = 250"], ["SLaM, T = 4,000"],
                      structural=THEOREM),
                Claim("A wider margin, a lower error", ["SLaM, T = 1,000@γ = 0.05"], ["SLaM, T = 1,000@γ = 0.2"],
                      structural=THEOREM),
                Claim("With 1,000 examples below the backward correction", ["backward correction, T = 1,000"],
                      ["SLaM, T = 1,000"], aside="a comparison of bounds in the paper"),
            ],
        )
    ],
    minutes=0.2,
    remarks=["*Bound*, in percent, is error · β γ √T: the theorem holds where it stays below one constant as T grows "
             "and γ shrinks. 20 dimensions, one pass, errors on 20,000 fresh rows with clean labels.",
             "Proposition 3.4 (C.1), that the truth minimises the loss in expectation, is a test "
             "(`tests/experiments/theory/test_slam_consistency.py`)."],
)  # fmt: skip
