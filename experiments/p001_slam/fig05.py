"""Figure 5: SLaM on top of fidelity weights, for every strength β and size of the labelled set (CIFAR-100)."""

from experiments.claims import Claim
from experiments.engines.distil import Distillation, Method
from experiments.experiment import Experiment, Part
from experiments.p001_slam.settings import CIFAR_LABELS, FEW_LABELS, LEAD_IN_TABLE_2, PLOTTED
from experiments.vision import full, reduced

BETAS = (0.1, 0.2, 1.0, 1.2, 2.0, 5.0, 10.0, 20.0)
FEW_BETAS = (0.2, 2.0, 10.0)


def methods(betas: tuple[float, ...]) -> tuple[Method, ...]:
    return (
        Method("SLaM", "slam"),
        *(Method(f"Fidelity, β = {beta:g}", "fidelity_passes", (beta,)) for beta in betas),
        *(Method(f"SLaM + fidelity, β = {beta:g}", "slam_fidelity", (beta,)) for beta in betas),
    )


PAPER: Distillation = full("cifar100", CIFAR_LABELS, 500, methods(BETAS))
REDUCED = reduced("cifar100", FEW_LABELS[:1], methods(FEW_BETAS))
FIDELITY = [f"Fidelity, β = {beta:g}" for beta in FEW_BETAS]
BOTH = [f"SLaM + fidelity, β = {beta:g}" for beta in FEW_BETAS]

EXPERIMENT = Experiment(
    name="slam_fig05",
    paper="001",
    shows="Figure 5",
    what="composing SLaM with fidelity weights from ten augmented teacher passes",
    parts=[
        Part(
            "CIFAR-100",
            PAPER,
            REDUCED,
            [
                Claim("SLaM on top improves the fidelity weights, over all β", BOTH, FIDELITY,
                      effect=LEAD_IN_TABLE_2),
                Claim("SLaM alone is above the fidelity weights", ["SLaM"], FIDELITY, effect=LEAD_IN_TABLE_2),
            ],
        )
    ],
    minutes=0.7,
    remarks=[PLOTTED],
)  # fmt: skip
