"""Every form of labels with every method: it trains, or says in one line why it cannot and what to use."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.labels.forms import Labels, as_labels
from understudy.labels.soft import TopK
from understudy.labels.votes import Votes

CLASSES, GOLD, POOL = 4, 60, 90


def _problem() -> tuple[Tensor, Tensor, Tensor]:
    rng = np.random.default_rng(0)
    y = np.arange(GOLD + POOL) % CLASSES
    x = np.eye(CLASSES)[y] + 0.5 * rng.standard_normal((len(y), CLASSES))
    logits = 2 * np.eye(CLASSES)[y] + rng.standard_normal((len(y), CLASSES))
    return torch.tensor(x).float(), torch.tensor(y), torch.tensor(logits).softmax(1).float()


def _votes(probs: Tensor) -> Tensor:
    rng = np.random.default_rng(1)
    votes = np.stack([[rng.choice(CLASSES, p=row / row.sum()) for row in probs.double().numpy()] for _ in range(5)], 1)
    votes[rng.random(votes.shape) < 0.3] = -1
    return torch.tensor(votes)


def _topk(probs: Tensor) -> TopK:
    top = probs.topk(2)
    return TopK(top.indices, top.values, CLASSES)


def _fit(probs: Tensor) -> Any:
    return Votes(_votes(probs), CLASSES).dawid_skene()


FORMS: dict[str, Callable[[Tensor], Any]] = {
    "soft": lambda probs: probs,
    "float16": lambda probs: probs.half(),
    "hard": lambda probs: probs.argmax(1),
    "hard with confidence": lambda probs: us.Hard(probs.argmax(1), (10 * probs.amax(1)).round() / 10),
    "one-hot": lambda probs: torch.eye(CLASSES)[probs.argmax(1)],
    "top-k": _topk,
    "majority": lambda probs: Votes(_votes(probs), CLASSES),
    "one annotator": lambda probs: Votes(probs.argmax(1, keepdim=True), CLASSES),
    "by gold": lambda probs: Votes(_votes(probs), CLASSES, by="gold"),
    "dawid-skene": lambda probs: Votes(_votes(probs), CLASSES, by=_fit(_problem()[2])),
}
# Needs more than labels; see the method's own tests.
REASONS = ("pass", "needs", "need", "use ", "give")


def _gold_and_pool(form: str) -> tuple[us.Gold, us.Pool]:
    x, y, probs = _problem()
    labels = as_labels(FORMS[form](probs))
    gold, pool = (labels.take(torch.arange(*span)) for span in ((0, GOLD), (GOLD, GOLD + POOL)))
    return us.Gold(x[:GOLD], y[:GOLD], gold), us.Pool(x[GOLD:], pool)


# Reconciling takes seconds; tests/reconciling has it for every form.
EVERY = [(form, name) for form in FORMS for name in us.METHODS if name != "reconciled" or form in ("soft", "by gold")]


@pytest.mark.parametrize(("form", "name"), EVERY)
def test_trains_or_says_why_not(form: str, name: str) -> None:
    gold, pool = _gold_and_pool(form)
    net = us.models.mlp(inputs=CLASSES, hidden=(8,), classes=CLASSES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", us.UnderstudyWarning)
        try:
            run = us.train(net, gold, pool, us.METHODS[name](), epochs=1, batch_size=32, progress=False)
        except us.UnderstudyError as error:
            assert any(reason in str(error) for reason in REASONS), f"{name} does not say what to do: {error}"
            assert "\n" not in str(error)
            return
    assert np.isfinite([record["loss"] for record in run.history]).all()
    assert all(value.isfinite().all() for value in run.student.state_dict().values())


@pytest.mark.parametrize("name", ["vanilla", "weighted", "slam"])
@pytest.mark.parametrize("form", FORMS)
def test_the_papers_methods_take_every_form(form: str, name: str) -> None:
    gold, pool = _gold_and_pool(form)
    net = us.models.mlp(inputs=CLASSES, hidden=(8,), classes=CLASSES)
    run = us.train(net, gold, pool, us.METHODS[name](), epochs=1, batch_size=32, progress=False)
    unlabelled = int((~pool.teacher.labelled()).sum())  # type: ignore[union-attr]
    assert run.facts["pool_rows_without_label"] == unlabelled
    if name == "slam":
        alpha = run.columns["slam.alpha"]
        assert int(alpha.isnan().sum()) == unlabelled
        assert alpha[~alpha.isnan()].min() >= 0.5


@pytest.mark.parametrize("form", FORMS)
def test_forms_agree_with_themselves(form: str) -> None:
    """take, concatenate, top1 and dense tell the same story."""
    _, y, probs = _problem()
    labels: Labels = as_labels(FORMS[form](probs))
    labels = labels.cross_fitted(y, torch.ones(len(y), dtype=torch.bool))
    rows = torch.tensor([7, 3, 3, 11])
    part = labels.take(rows)
    assert part.top1().equal(labels.top1()[rows])
    labelled = part.labelled().nonzero().squeeze(1)
    assert part.dense(labelled, CLASSES).equal(labels.dense(rows[labelled], CLASSES))
    assert part.dense(labelled, CLASSES).argmax(1).equal(part.top1()[labelled])
    joined = type(labels).concatenate([part, part])
    assert joined.top1().equal(part.top1().repeat(2))
    for measure in ("margin", "entropy"):
        assert part.confidence(measure)[labelled].equal(labels.confidence(measure)[rows[labelled]])
