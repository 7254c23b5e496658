"""Table 1, lower half: an MLP with one layer of 512, with the clean column."""

from experiments.experiment import Experiment, Part, Published
from experiments.p002_heteroskedastic.settings import COLUMNS, REDUCED_MLP, REMARKS, claims, paper

PUBLISHED = Published(
    "Table 1, MLP; in brackets the share of original rows among the selected ones",
    COLUMNS,
    {
        "random": ["70.6", "49.5 (20.3)", "46.5 (20.2)", "41.5 (19.9)"],
        "confidence": ["73.1", "35.0 (0.67)", "36.2 (12.9)", "40.9 (14.5)"],
        "margin": ["75.0", "65.2 (83.8)", "60.5 (60.0)", "46.7 (19.4)"],
        "badge": ["74.7", "69.1 (99.0)", "48.7 (19.8)", "43.8 (24.1)"],
        "s_badge": ["70.3", "70.0 (99.0)", "52.7 (22.5)", "47.7 (28.2)"],
    },
)

ENDS = {"Noisy-Diverse": 4.0, "Noisy-Class": 3.9, "Noisy-Blank": 0.9}

EXPERIMENT = Experiment(
    name="heteroskedastic_table1_mlp",
    paper="002",
    shows="Table 1, MLP",
    what="active learning on SVHN with 80% noise of three kinds, and clean: accuracy and share of original rows picked",
    parts=[
        Part(
            "MLP",
            paper("mlp:512"),
            REDUCED_MLP,
            claims(noise=38.1, fewer=19.6, below=14.5, diverse=2.7, in_class=4.1, ends=ENDS, margin=30.2),
            PUBLISHED,
        )
    ],
    minutes=1.7,
    remarks=[
        *REMARKS,
        "The paper prints no intervals. Its S-Badge is below BADGE on clean rows only; here it is in all four columns.",
        "`experiments/heteroskedastic.py` is this benchmark at a larger scale, with core-set, entropy and LHD.",
    ],
)
