"""Students of several sets of rows, as of the folds of a cross-validation, trained in step with each other.

    students = fit_students(build, [(gold, pool, options), …], us.gce())

Small nets of the same layers take one program: their weights are stacked, ``(K, out, in)``, and each step makes one
product per layer, one pass back and one step of the optimizer for all. Each net sees its own batches, in its own order,
and its own slots score them: what it learns is what it learns alone, but for rounding. Other students, and those of
which an epoch has different numbers of steps, are trained one after the other.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from understudy.errors import UnderstudyWarning
from understudy.models.registry import Student, initial_student
from understudy.models.small_nets import SparseLinear
from understudy.objective import Objective
from understudy.training.distributed import current
from understudy.training.fit import finite, fit_session
from understudy.training.optimizers import make_optimizer
from understudy.training.options import TrainingOptions, set_lr
from understudy.training.prepare import FitPart
from understudy.training.session import Session, seeded_student

#: Weights of a net, with more of which products take the time and not the steps around them.
MOST_WEIGHTS = 300_000
_KNOWN = (nn.Sequential, nn.Flatten, nn.Linear, SparseLinear, nn.ReLU)
#: Options that stacked nets can have; all others must be as by default.
_FREE = {
    "epochs", "batch_size", "lr", "seed", "metric", "optimizer", "weight_decay", "momentum", "schedule", "warmup",
    "gold_repeat", "gold_weight", "pass_batch_size", "device", "workers",
}  # fmt: skip
_DEFAULT = vars(TrainingOptions(epochs=1, refine=False))

#: ``(session, student, gold, pool, options) -> (session, options, …)``: what is left to choose, chosen.
MakeReady = Callable[..., tuple[Any, ...]]


def fit_students(
    student: Student, parts: Sequence[FitPart], objective: Objective, ready: MakeReady | None = None
) -> list[nn.Module]:
    """A fresh student of each part, in eval mode. Warnings about gold are given where the user's is trained."""

    def make(part: FitPart) -> tuple[Session, TrainingOptions]:
        gold, pool, options = part
        session = Session.from_options(seeded_student(student, options), gold, pool, objective, options, warn=False)
        return (session, options) if ready is None else ready(session, student, *part)[:2]

    together = len(parts) > 1 and can_stack(student, parts[0].options, objective)
    with torch.random.fork_rng(), warnings.catch_warnings(action="ignore", category=UnderstudyWarning):
        if not together:  # sessions are made when their turn comes
            return [fit_session(*make(part)) for part in parts]
        made = [make(part) for part in parts]
        sizes, sets = {session.batches_per_epoch for session, _ in made}, [part[:2] for part in parts]
        sparse = any(each is not None and each.rows.is_sparse for part in sets for each in part)
        if len(sizes) > 1 or sparse or made[0][0].module_parameters():
            return [fit_session(*each) for each in made]
        fit_stacked([session for session, _ in made], made[0][1])
        return [session.student.eval() for session, _ in made]


def can_stack(student: Student, options: TrainingOptions, objective: Objective) -> bool:
    """Whether students of these options, which may differ in seed and batch size, can be trained in step."""
    changed = (name for name, value in vars(options).items() if name not in _FREE and value != _DEFAULT[name])
    if options.is_full_batch or any(changed) or current() is not None or objective.alignment_rows:
        return False
    if objective.scorer or objective.relabel or objective.can_vanish or objective.wants_features:
        return False
    net = student if isinstance(student, nn.Module) else initial_student(student, 0)
    return bool(_layers(net)) and sum(parameter.numel() for parameter in net.parameters()) <= MOST_WEIGHTS


def _layers(net: nn.Module) -> list[nn.Module]:
    """The layers of a net of fully connected ones, in their order; none where it has others, or uses one twice."""
    every = [module for _, module in net.named_modules(remove_duplicate=False)]
    layers = [module for module in every if not list(module.children())]
    known = all(type(each) in _KNOWN and not each._forward_hooks and not each._forward_pre_hooks for each in every)
    late = any(isinstance(each, nn.Flatten) for each in layers[1:])
    weights = [each for layer in layers for each in (getattr(layer, "weight", None), getattr(layer, "bias", None))]
    own = [each for each in net.parameters() if each.requires_grad]
    linear = sum(isinstance(each, nn.Linear) for each in layers)
    return layers if known and not late and len(own) == 2 * linear == sum(w is not None for w in weights) else []


class _Stacked(nn.Module):
    """K nets of the same layers; their parameters become parts of its own."""

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.kinds = [type(layer) for layer in _layers(nets[0])]
        own = [list(net.parameters()) for net in nets]
        self.every = nn.ParameterList(torch.stack([each.detach() for each in same]) for same in zip(*own, strict=True))
        for number, parameters in enumerate(own):
            for parameter, stacked in zip(parameters, self.every, strict=True):
                parameter.data = stacked.data[number]

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(K, B, C)`` of each net's own rows, ``(K, B, …)``."""
        weights = iter(self.every)
        for kind in self.kinds:
            if kind is nn.ReLU:
                x = x.relu()
            elif kind is nn.Flatten:
                x = x.flatten(2)
            else:
                weight, bias = next(weights), next(weights)
                x = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
        return x


def fit_stacked(sessions: Sequence[Session], options: TrainingOptions) -> None:
    for session in sessions:
        session.prepare()
    net = _Stacked([session.student for session in sessions])
    optimizer, parameters = make_optimizer(options, net), list(net.parameters())
    for epoch in range(options.epochs):
        total = torch.zeros(())
        for batches in zip(*(session.batches(epoch) for session in sessions), strict=True):
            set_lr(optimizer, options.lr_at(batches[0].progress))
            # The last batches of an epoch may differ by some rows; a net's own rows are cut from what is padded.
            logits = net(pad_sequence([batch.x for batch in batches], batch_first=True))
            losses = []
            for session, batch, own in zip(sessions, batches, logits, strict=True):
                known = own[: len(batch)]
                scored = session.score(lambda x, known=known: known, batch)  # in the place of the net
                losses.append(scored.total / batch.step_rows)
            loss = torch.stack(losses).sum()
            loss.backward()
            total += loss.detach()
            optimizer.step()
            for parameter in parameters:
                parameter.grad = None
        finite(float(total), epoch)
    for session in sessions:
        for parameter in session.student.parameters():
            parameter.data = parameter.data.clone()
