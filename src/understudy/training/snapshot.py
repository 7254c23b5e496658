"""All that changes while a training runs, taken down and put back: what a checkpoint holds.

Student, the method's own modules, optimizer, moving average, refined labels, random states, the place in the epoch,
the history so far and the epoch chosen on gold. What is *not* in it is made again from the arguments: data, objective,
schedule, the order of an epoch (a function of seed and epoch). With both, a training goes on to the same bits.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.objective import Objective
from understudy.store.fingerprint import fingerprint
from understudy.training.ema import EMA
from understudy.training.recipe import Recipe
from understudy.training.run import flat, nested
from understudy.training.scoring import Scorer

PHASES = ("pretrain", "train", "finetune")
# Settings that are hashes, which would tell a user nothing.
_HASHED = dict.fromkeys(("gold", "pool", "test", "select"), "rows or labels") | {
    "student": "layers or sizes", "method": "its loss or one of its parts", "augment": "function or settings",
}  # fmt: skip


@dataclass
class Progress:
    """Where a training stands."""

    phase: str = PHASES[0]
    epoch: int = 0
    """Epochs of this phase that are finished."""
    batch: int = 0
    """Batches of the epoch under way that are done."""
    total: Tensor = field(default_factory=lambda: torch.zeros(()))
    """Their summed loss."""
    history: list[dict[str, float]] = field(default_factory=list)
    selected_epoch: int = 0
    best: float = -1.0
    selected_state: dict[str, Tensor] | None = None

    def is_past(self, phase: str) -> bool:
        return PHASES.index(self.phase) > PHASES.index(phase)

    def enter(self, phase: str) -> None:
        if self.phase != phase:
            self.phase, self.epoch, self.batch = phase, 0, 0


def take(
    progress: Progress,
    scorer: Scorer,
    optimizer: torch.optim.Optimizer,
    generators: dict[str, Generator],
    ema: EMA | None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON of a checkpoint. ``scorer`` is the main phase's, whatever phase is under way."""
    groups: dict[str, dict[str, Tensor]] = {
        "student": scorer.student.state_dict(),
        "modules": flat({name: module.state_dict() for name, module in scorer.modules.items()}),
        "optimizer": _optimizer_tensors(optimizer),
        "random": {"torch": torch.get_rng_state(), **{name: made.get_state() for name, made in generators.items()}},
        "progress": {"total": progress.total},
    }
    if scorer.device.type == "cuda":
        groups["random"]["cuda"] = torch.cuda.get_rng_state(scorer.device)
    if scorer.refinery is not None:
        groups["refinery"] = {name: part for name, part in vars(scorer.refinery).items() if isinstance(part, Tensor)}
    if ema is not None and progress.phase != "pretrain":
        groups["ema"] = ema.state_dict()
    if progress.selected_state is not None:
        groups["selected"] = progress.selected_state
    state = {
        "phase": progress.phase,
        "epoch": progress.epoch,
        "batch": progress.batch,
        "history": progress.history,
        "selected_epoch": progress.selected_epoch,
        "best": progress.best,
        "facts": scorer.facts,
    }
    return flat(groups), state


def put_back(
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    progress: Progress,
    scorer: Scorer,
    optimizer: torch.optim.Optimizer,
    generators: dict[str, Generator],
    ema: EMA | None,
) -> None:
    groups = nested(tensors)
    scorer.student.load_state_dict(groups["student"])
    for name, values in nested(groups.get("modules", {})).items():
        scorer.modules[name].load_state_dict(values)
    _put_back_optimizer(optimizer, groups.get("optimizer", {}))
    if scorer.refinery is not None:
        for name, value in groups["refinery"].items():
            getattr(scorer.refinery, name).copy_(value)
    if ema is not None and "ema" in groups:
        ema.load_state_dict(groups["ema"])
    scorer.facts = state["facts"]
    for name in ("phase", "epoch", "batch", "history", "selected_epoch", "best"):
        setattr(progress, name, state[name])
    progress.total = groups["progress"]["total"].to(scorer.device)
    if "selected" in groups:
        progress.selected_state = {name: value.to(scorer.device) for name, value in groups["selected"].items()}
    for name, generator in generators.items():
        generator.set_state(groups["random"][name])
    torch.set_rng_state(groups["random"]["torch"])
    if "cuda" in groups["random"]:
        torch.cuda.set_rng_state(groups["random"]["cuda"], scorer.device)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """``number of the parameter.name`` -> its state; the groups' settings come from the arguments again."""
    state = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": value
        for number, values in state.items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }


def _put_back_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        parameter = parameters[int(number)]
        if value.shape == parameter.shape and value.dim():
            # With the parameter's own strides (channels_last): the fused kernels walk both in memory order.
            value = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def settings_of(
    recipe: Recipe,
    objective: Objective,
    student: nn.Module,
    rows: Mapping[str, Gold | Pool | None],
    config: dict[str, Any],
) -> dict[str, Any]:
    """What must be the same for a training to go on: the arguments, and fingerprints of student and data."""
    slots = {
        f"{objective.name}.{slot.name}.{name}": value
        for slot in objective.slots()
        for name, value in vars(slot).items()
        if isinstance(value, int | float | str | None)
    }
    return {
        **config,
        "temperature": list(objective.temperatures),
        "refresh_every": objective.refresh_every,
        **slots,
        "method": fingerprint(objective),
        "schedule": recipe.schedule if isinstance(recipe.schedule, str) else fingerprint(recipe.schedule),
        "augment": None if recipe.augment is None else fingerprint(recipe.augment),
        "student": _layers(student),
        **{name: fingerprint(examples) for name, examples in rows.items()},
    }


def check_same(before: dict[str, Any], now: dict[str, Any], folder: Any) -> None:
    # Through JSON, as what was stored went.
    now = json.loads(json.dumps(now))
    other = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if other:
        name = other[0]
        told = _HASHED.get(name) or f"{before.get(name)}, now {now.get(name)}"
        raise UnderstudyError(
            f"{folder} was begun with another {name} ({told}); resume with the same arguments, or choose a new folder"
        )


def _layers(student: nn.Module) -> str:
    shapes = [(name, list(value.shape)) for name, value in student.state_dict().items()]
    return hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16]
