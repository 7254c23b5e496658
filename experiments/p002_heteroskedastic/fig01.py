"""Figure 1, right: S-Badge beside least-confidence sampling. Its bars are cells of Table 1; the MLP's are used."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part
from experiments.p002_heteroskedastic.settings import REDUCED_MLP, paper

# From Table 1, MLP.
EFFECTS = {"Noisy-Blank": 35.0, "Noisy-Diverse": 16.5, "Noisy-Class": 6.8}

EXPERIMENT = Experiment(
    name="heteroskedastic_fig01",
    paper="002",
    shows="Figure 1",
    what="S-Badge against confidence sampling on the original data and on three kinds of noise",
    parts=[
        Part(
            "S-Badge and confidence",
            paper("mlp:512"),
            REDUCED_MLP,
            [
                Claim("On the original data the two are alike (the claim is that there is no difference)",
                      ["s_badge@Clean"], ["confidence@Clean"], delta=2.8),
                *(Claim(f"S-Badge greatly outperforms confidence on {kind}",
                        [f"s_badge@{kind}"], [f"confidence@{kind}"], effect=effect)
                  for kind, effect in EFFECTS.items()),
            ],
        )
    ],
    minutes=0,
    remarks=["*Alike* is read as the 2.8 points by which the two differ in the paper's own Table 1 (MLP, clean)."],
)  # fmt: skip
