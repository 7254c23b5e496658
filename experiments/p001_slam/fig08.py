"""Figure 8: the landscape of SLaM's loss for a halfspace in the plane; as large here as in the paper."""

from experiments.claims import Claim
from experiments.engines.landscape import Landscape
from experiments.experiment import Experiment, Part

GAINING, CHORD, RIGHT = "steps that gain on the truth", "midpoints above the chord", "rows right after descent"
SLAM = "SLaM's loss"
LEMMA = "the paper's Lemma E.3"

EXPERIMENT = Experiment(
    name="slam_fig08",
    paper="001",
    shows="Figure 8",
    what="a non-convex loss whose gradients nevertheless point towards the true halfspace",
    parts=[
        Part(
            "Landscape",
            Landscape(rows=20_000, points=81, pairs=20_000, steps=400, starts=20, seeds=5),
            Landscape(),
            [
                Claim("The loss is not convex: midpoints lie above their chord", [f"{CHORD}@{SLAM}"],
                      structural="a mean of bounded functions of z that are not constant"),
                Claim("Nearly all gradient steps gain on the truth", [f"{GAINING}@{SLAM}"], beyond=0.9,
                      structural=LEMMA),
                Claim("Descent finds the halfspace", [f"{RIGHT}@{SLAM}"], beyond=0.95, structural=LEMMA),
            ],
        )
    ],
    minutes=0.1,
    remarks=["What a theorem promises is no evidence; the page shows that the library's mixing has this landscape.",
             "Cross-entropy on the noisy labels is beside it for comparison; the paper does not show it."],
)  # fmt: skip
