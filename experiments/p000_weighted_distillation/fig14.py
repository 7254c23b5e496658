"""Figure 14: the trajectories of Figure 7, CelebA."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part
from experiments.needs import weighs
from experiments.p000_weighted_distillation.fig07 import PAPER, PUBLISHED, REDUCED
from experiments.p000_weighted_distillation.settings import KEPT_OUT, LAST_DIFFERENCE, as_printed


def throughout(kind: str) -> Claim:
    rows = [f"Weighted {kind}"], [f"Unweighted {kind}"]
    claim = Claim(f"Weighted is above Unweighted almost throughout, {kind}", *rows, measure="average",
                  needs=[weighs(f"Weighted {kind}")])  # fmt: skip
    return as_printed(claim, PUBLISHED, Claim("", *rows))


EXPERIMENT = Experiment(
    name="weighted_fig14",
    paper="000",
    shows="Figure 14",
    what="CelebA: test accuracy over the training trajectory (the trainings of Figure 7)",
    parts=[Part("Trajectories", PAPER, REDUCED, [throughout("conventional"), throughout("VID")])],
    minutes=0,
    remarks=[KEPT_OUT, LAST_DIFFERENCE],
)
