"""Table 2: BackgroundFlip at 40%, ResNet-32, 10 clean images per class, with +ES and +FT."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part, Published
from experiments.needs import memorised
from experiments.p004_reweight.settings import FLIP_REMARKS, OURS, TABLE2, background, reduced_table2

METHODS = tuple(TABLE2)


def claim(text: str, higher: str, lower: str, place: int) -> Claim:
    """At 40%; its effect is the difference of the printed means."""
    printed = [float(TABLE2[name][place].split(" ")[0]) for name in (higher, lower)]
    return Claim(text, [f"{higher}@40%"], [f"{lower}@40%"], effect=round(printed[0] - printed[1], 2),
                 needs=[memorised("40%")])  # fmt: skip


def claims(place: int) -> list[Claim]:
    return [
        *(claim(f"Learning to reweight is above {rival}", OURS, rival, place)
          for rival in ("Baseline", "Baseline +ES +FT", "Weighted +FT", "S-Model +Conf +ES +FT")),
        claim("Early stopping helps the baseline", "Baseline +ES", "Baseline", place),
        claim("Early stopping helps the S-Model with confusion", "S-Model +Conf +ES", "S-Model +Conf", place),
        claim("Fine-tuning helps the baseline", "Baseline +FT", "Baseline", place),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="reweight_table2",
    paper="004",
    shows="Table 2",
    what="40% of the labels flipped to one class, with and without 10 clean images per class",
    parts=[
        Part(
            title,
            background(data, (0.4,), METHODS),
            reduced_table2(data),
            claims(place),
            Published(f"Table 2, {title}", ["40%"], {name: [row[place]] for name, row in TABLE2.items()}),
        )
        for place, (data, title) in enumerate([("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")])
    ],
    minutes=4.7,
    remarks=[
        "+ES takes the epoch that held-out noisy rows choose; the paper's early-stopped runs also end at 60K steps.",
        *FLIP_REMARKS,
        "The column without noise belongs to Figure 5.",
    ],
)
