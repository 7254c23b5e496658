"""How much a method's slots change, as numbers that stand on every run; a warning where they change nothing.

    run.facts["mean_weight"], run.facts["share_weight_1"]        # all weights of a row multiplied; the share exactly 1
    run.facts["mean_alpha"], run.facts["mean_k"]                 # where SLaM mixes

Each slot's own are there too (``debias.mean_weight``). Weights that are made batch by batch (``us.l2rw_weight``) have
no column: their mean is taken over training.
"""

import torch
from torch import Tensor

from understudy.errors import warn
from understudy.objective import Columns, Objective, Weight


def effect_of(objective: Objective, columns: Columns) -> dict[str, float]:
    """Facts about prepared weights, alphas and ks."""
    facts: dict[str, float] = {}
    for slot in objective.slots():
        for name, value in _effect(columns, slot.name).items():
            facts[f"{slot.name}.{name}"] = value
            if name in ("mean_alpha", "mean_k"):
                facts[name] = value
    weights = [slot for slot in objective.slots() if isinstance(slot, Weight)]
    if not weights:
        return facts | {"mean_weight": 1.0, "share_weight_1": 1.0}
    if all(type(slot).__call__ is Weight.__call__ and f"{slot.name}.weight" in columns for slot in weights):
        product = torch.stack([columns[f"{slot.name}.weight"] for slot in weights]).prod(0)
        facts |= _of_weights(product)
    return facts


def _effect(columns: Columns, slot: str) -> dict[str, float]:
    facts: dict[str, float] = {}
    if (weight := columns.get(f"{slot}.weight")) is not None:
        facts |= _of_weights(weight)
    for name in ("alpha", "k"):
        if (column := columns.get(f"{slot}.{name}")) is not None:
            facts[f"mean_{name}"] = float(column.double().mean())
    return facts


def _of_weights(weight: Tensor) -> dict[str, float]:
    return {"mean_weight": float(weight.double().mean()), "share_weight_1": float((weight == 1).double().mean())}


def warn_if_idle(objective: Objective, columns: Columns) -> None:
    """A slot whose every weight or alpha is 1 leaves the loss as it is: that must not pass for a result."""
    for slot in objective.slots():
        for value, reason in (("weight", "every weight"), ("alpha", "every alpha")):
            column = columns.get(f"{slot.name}.{value}")
            if column is not None and bool((column == 1).all()):
                warn(
                    f"{objective.name}: {reason} of {slot.name!r} is 1, so it changes nothing here; take another "
                    "method, or read in docs/methods.md when a method does nothing"
                )
