"""Table 2: BackgroundFlip at 40%, ResNet-32, 10 clean images per class, with +ES and +FT."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part, Published
from experiments.p004_reweight.settings import background, reduced

PUBLISHED = {
    "Baseline": ("59.54 ± 2.16", "37.82 ± 0.69"),
    "Baseline +ES": ("64.96 ± 1.19", "39.08 ± 0.65"),
    "Random": ("69.51 ± 1.36", "36.56 ± 0.44"),
    "Weighted": ("79.17 ± 1.36", "36.56 ± 0.44"),
    "Reed soft +ES": ("63.47 ± 1.05", "38.44 ± 0.90"),
    "Reed hard +ES": ("65.22 ± 1.06", "39.03 ± 0.55"),
    "S-Model": ("58.60 ± 2.33", "37.02 ± 0.34"),
    "S-Model +Conf": ("68.93 ± 1.09", "46.72 ± 1.87"),
    "S-Model +Conf +ES": ("79.24 ± 0.56", "54.50 ± 2.51"),
    "Clean only": ("15.90 ± 3.32", "8.06 ± 0.76"),
    "Baseline +FT": ("82.82 ± 0.93", "54.23 ± 1.75"),
    "Baseline +ES +FT": ("85.19 ± 0.46", "55.22 ± 1.40"),
    "Weighted +FT": ("85.98 ± 0.47", "53.99 ± 1.62"),
    "S-Model +Conf +FT": ("81.90 ± 0.85", "53.11 ± 1.33"),
    "S-Model +Conf +ES +FT": ("85.86 ± 0.63", "55.75 ± 1.26"),
    "Learning to reweight": ("86.73 ± 0.48", "59.30 ± 0.60"),
}
METHODS = tuple(PUBLISHED)
OURS = "Learning to reweight"
CLAIMS = [
    *(Claim(f"Learning to reweight is above {rival}", [OURS], [rival])
      for rival in ("Baseline", "Baseline +ES +FT", "Weighted +FT", "S-Model +Conf +ES +FT")),
    Claim("Early stopping helps the baseline", ["Baseline +ES"], ["Baseline"]),
    Claim("Early stopping helps the S-Model with confusion", ["S-Model +Conf +ES"], ["S-Model +Conf"]),
    Claim("Fine-tuning helps the baseline", ["Baseline +FT"], ["Baseline"]),
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
            reduced(data, "background", (0.4,), METHODS),
            CLAIMS,
            Published(f"Table 2, {title}", ["40%"], {name: [row[place]] for name, row in PUBLISHED.items()}),
        )
        for place, (data, title) in enumerate([("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")])
    ],
    minutes=6,
    remarks=[
        "+ES takes the epoch that held-out noisy rows choose; the paper's early-stopped runs also end at 60K steps."
    ],
)
