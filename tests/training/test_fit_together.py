"""Students that are trained in step learn what each learns alone; those that cannot be are trained one by one."""

from typing import Any

import pytest
import torch
from torch import nn

import understudy as us
from understudy.objective import Objective
from understudy.training import fit_together
from understudy.training.evaluation import as_many_steps
from understudy.training.fit_together import can_stack, fit_students
from understudy.training.options import TrainingOptions
from understudy.training.prepare import FitPart

from ..three_blobs import CLASSES, world

OPTIONS = TrainingOptions(epochs=3, batch_size=32, lr=0.02, schedule="cosine", refine=False)


def net() -> nn.Module:
    return us.models.mlp(4, CLASSES, hidden=[16])


def parts(form: str = "hard") -> list[FitPart]:
    """Without a part of gold and pool each: 47 + 250 rows and twice 48 + 250, whose last batches differ."""
    gold, pool, _ = world(form)
    rows = [torch.arange(13), torch.arange(13, 25), torch.arange(25, 37)]
    return [
        FitPart(gold.without(left_out), pool.take(torch.arange(250) + 20 * k), OPTIONS.replace(seed=k))
        for k, left_out in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("objective", "form"),
    [
        (us.vanilla(), "soft"), (us.gce(), "hard"), (us.forward(), "hard"), (us.self_distillation(), "soft"),
        (us.slam(), "soft"), (us.weighted(refresh_every=1), "hard"),
    ],
)  # fmt: skip
def test_each_learns_what_it_learns_alone(objective: Objective, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, together, real = parts(form), [], fit_together.fit_stacked
    monkeypatch.setattr(fit_together, "fit_stacked", lambda *args: together.append(args) or real(*args))
    before = torch.get_rng_state()
    students = fit_students(net, given, objective)
    assert len(together) == 1 and torch.get_rng_state().equal(before)
    for part, student in zip(given, students, strict=True):
        alone = fit_students(net, [part], objective)[0]
        assert not student.training
        for mine, theirs in zip(student.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_gold_alone_and_batches_of_other_sizes() -> None:
    gold, _, _ = world()
    rests = [gold.without(torch.arange(k, 60, 4)) for k in range(4)]
    given = [FitPart(rest, None, as_many_steps(OPTIONS, gold, rest, None)) for rest in rests]
    for part, student in zip(given, fit_students(net, given, us.vanilla()), strict=True):
        alone = fit_students(net, [part], us.vanilla())[0]
        torch.testing.assert_close(student.state_dict(), alone.state_dict(), rtol=1e-4, atol=1e-5)


def test_others_are_trained_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    features: Any = torch.zeros(CLASSES, 4)
    dropout, frozen = us.models.mlp(4, CLASSES, hidden=[8], dropout=0.5), net()
    next(frozen.parameters()).requires_grad_(False)
    assert can_stack(net, OPTIONS, us.vanilla()) and can_stack(us.models.linear(4, CLASSES), OPTIONS, us.gce())
    assert not can_stack(dropout, OPTIONS, us.vanilla()) and not can_stack(frozen, OPTIONS, us.vanilla())
    layer = nn.Linear(4, 4)
    others = [nn.Sequential(layer, nn.ReLU(), layer), nn.Sequential(layer, nn.Flatten(), nn.Linear(4, 3)), nn.Tanh()]
    others += [nn.Sequential(nn.Linear(4, 3, bias=False)), nn.Sequential(layer, nn.Tanh())]
    assert not any(can_stack(other, OPTIONS, us.vanilla()) for other in others)
    assert not can_stack(us.models.mlp(4000, CLASSES), OPTIONS, us.vanilla()), "the products take the time"
    for change in ({"clip": 1.0}, {"optimizer": "lbfgs"}, {"accumulate": 2}, {"pretrain_epochs": 1}):
        assert not can_stack(net, OPTIONS.replace(**change), us.vanilla())
    for objective in (us.l2rw(), us.co_teaching(), us.reconciled(), us.vanilla(terms=(us.vid_term(features),))):
        assert not can_stack(net, OPTIONS, objective), objective.name
    monkeypatch.setattr(fit_together, "fit_stacked", None)
    longer = [part._replace(options=part.options.replace(gold_repeat=1 + 2 * k)) for k, part in enumerate(parts())]
    assert len(fit_students(net, longer, us.vanilla())) == 3, "their epochs have other numbers of steps"
    assert len(fit_students(net, parts("soft"), us.s_model())) == 3, "it trains a module beside the student"
