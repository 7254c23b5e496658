"""Table 1, upper half: ResNet-18, with the clean column; reduced to a ResNet-8 on small images."""

from experiments.engines.active import Active
from experiments.experiment import Experiment, Part, Published
from experiments.p002_heteroskedastic.settings import COLUMNS, REMARKS, STRATEGIES, claims, paper

PUBLISHED = Published(
    "Table 1, ResNet; in brackets the share of original rows among the selected ones",
    COLUMNS,
    {
        "random": ["78.6", "64.0 (20.7)", "50.8 (19.6)", "25.3 (20.5)"],
        "confidence": ["68.5", "57.9 (0.00)", "55.9 (42.4)", "23.4 (14.2)"],
        "margin": ["73.6", "72.9 (82.6)", "60.8 (44.5)", "30.6 (15.9)"],
        "badge": ["76.3", "75.2 (99.0)", "57.0 (29.2)", "32.9 (30.1)"],
        "s_badge": ["76.0", "74.7 (99.0)", "67.1 (50.0)", "30.1 (36.9)"],
    },
)

EXPERIMENT = Experiment(
    name="heteroskedastic_table1_resnet",
    paper="002",
    shows="Table 1, ResNet",
    what="the same with a ResNet",
    parts=[
        Part(
            "ResNet",
            paper("resnet18"),
            Active("fashion_mnist", "cifar_resnet:depth=8", STRATEGIES, start=100, batch=100, budget=200, epochs=10,
                   rows=300, batch_size=32, test_rows=1_000, side=12),
            claims(noise=10.6, fewer=20.7, below=6.1, diverse=20.8, in_class=6.8, ends={"Noisy-Diverse": 10.1},
                   margin=15.0),
            PUBLISHED,
        )
    ],
    minutes=2.3,
    remarks=[*REMARKS, "The paper's own S-Badge is below BADGE on Noisy-Blank and Noisy-Class: no claim."],
)  # fmt: skip
