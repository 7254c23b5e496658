"""Top-k labels stand for the dense rows whose unlisted classes share the tail evenly."""

import numpy as np
import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.labels.forms import Hard, Soft
from understudy.labels.soft import TopK
from understudy.maths.losses import cross_entropy
from understudy.maths.mixing import slam_mix, top_mask


def _spread(rows: int, classes: int, listed: int, seed: int = 0) -> tuple[TopK, Tensor, Tensor]:
    """Top-k labels, the same rows dense in float64, and truths that follow the teacher."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((rows, classes))
    truth = rng.integers(0, classes, rows)
    logits[np.arange(rows), truth] += rng.gamma(2, 2, rows)
    probs = torch.tensor(logits, dtype=torch.float64).softmax(1)
    top = probs.topk(listed)
    share = (1 - top.values.sum(1, keepdim=True)) / (classes - listed)
    dense = share.repeat(1, classes).scatter_(1, top.indices, top.values)
    shuffled = torch.tensor(np.argsort(rng.random((rows, listed)), axis=1))
    labels = TopK(top.indices.gather(1, shuffled), top.values.gather(1, shuffled), classes)
    return labels, dense, torch.tensor(truth)


def test_worked_by_hand() -> None:
    """Classes 4 and 1 of 5 hold 0.3 and 0.5; the other three share 0.2."""
    labels = TopK([[4, 1]], [[0.3, 0.5]], classes=5)
    third = 0.2 / 3
    assert labels.top1().tolist() == [1]
    assert labels.dense(torch.tensor([0]), 5)[0].tolist() == pytest.approx([third, 0.5, third, third, 0.3])
    assert labels.confidence("margin").tolist() == pytest.approx([0.2])
    expected = -(0.5 * np.log(0.5) + 0.3 * np.log(0.3) + 3 * third * np.log(third))
    assert labels.confidence("entropy").tolist() == pytest.approx([expected])
    leading = labels.leading(0, 1, 2)
    assert leading.probs[0].tolist() == pytest.approx([0.5, 0.3])
    assert leading.rest.tolist() == pytest.approx([third])
    assert labels.positions(torch.tensor([4])).tolist() == [1]
    assert labels.positions(torch.tensor([0])).tolist() == [5]


def test_tail_as_given_and_as_computed() -> None:
    computed = TopK([[0]], [[0.7]], 4)
    assert TopK([[0]], [[0.7]], 4, tail=[0.3]).rest.tolist() == pytest.approx(computed.rest.tolist())
    assert computed.rest.tolist() == pytest.approx([0.1])
    assert TopK([[0, 1]], [[0.6, 0.4]], 2).rest.tolist() == pytest.approx([0.0], abs=1e-7)


def test_ties_stay_as_listed() -> None:
    assert TopK([[3, 0, 2]], [[0.3, 0.4, 0.3]], 4).indices.tolist() == [[0, 3, 2]]


@pytest.mark.parametrize(("classes", "listed"), [(12, 3), (12, 12), (2, 1), (40, 1)])
def test_equals_the_dense_rows_it_stands_for(classes: int, listed: int) -> None:
    labels, dense, _ = _spread(200, classes, min(listed, classes - 1), seed=classes)
    if listed == classes:
        order = dense.sort(dim=1, descending=True)
        labels = TopK(order.indices, order.values, classes)
    soft = Soft(dense)
    torch.testing.assert_close(labels.dense(torch.arange(200), classes), dense.float())
    assert labels.top1().equal(soft.top1())
    for measure in ("margin", "entropy"):
        torch.testing.assert_close(labels.confidence(measure), soft.confidence(measure))
    leading, expected = labels.leading(3, 50, 1), soft.leading(3, 50, 1)
    torch.testing.assert_close(leading.probs, expected.probs)
    torch.testing.assert_close(leading.rest, expected.rest)


@pytest.mark.parametrize("covariate", ["margin", "entropy"])
def test_slam_loss_equals_that_of_dense_labels(covariate: str) -> None:
    """10 of 1,000 classes: same alpha, same k where it is at most 10, C elsewhere, and so the same loss to 1e-6."""
    classes, listed = 1000, 10
    gold, gold_dense, truth = _spread(600, classes, listed, seed=1)
    pool, pool_dense, _ = _spread(400, classes, listed, seed=2)
    sparse = us.Reliability.fit(gold, truth, 0.5, 0.8, covariate=covariate)
    full = us.Reliability.fit(gold_dense, truth, 0.5, 0.8, covariate=covariate)
    alpha, k = sparse.alpha(pool), sparse.k(pool)
    dense_k = full.k(pool_dense)
    dense_k = torch.where(dense_k > listed, classes, dense_k)
    assert 0.2 < float((k < classes).double().mean()) < 0.98
    assert k.equal(dense_k)
    torch.testing.assert_close(alpha, full.alpha(pool_dense), atol=1e-9, rtol=0)
    logits = torch.randn(400, classes, generator=torch.Generator().manual_seed(0))
    rows = torch.arange(400)
    losses = [
        cross_entropy(slam_mix(logits, a.float(), top_mask(teacher, counts)), teacher)
        for teacher, a, counts in (
            (pool.dense(rows, classes), alpha, k),
            (Soft(pool_dense).dense(rows, classes), full.alpha(pool_dense), dense_k),
        )
    ]
    assert float((losses[0] - losses[1]).abs().max()) < 1e-6


def test_a_million_rows_in_120_mb() -> None:
    rows = 1_000_000
    indices = torch.arange(10, dtype=torch.int16).repeat(rows, 1)
    probs = torch.full((1, 10), 0.09).expand(rows, 10)
    labels = TopK(indices, probs, classes=1000)
    parts = (labels.indices, labels.probs, labels.rest)
    size = sum(part.numel() * part.element_size() for part in parts)
    assert size == rows * (10 * 2 + 10 * 4 + 4) < 120e6
    # The parts own no more memory than they say.
    assert sum(part.untyped_storage().nbytes() for part in parts) == size
    assert TopK([[40_000]], [[1.0]], 50_000).indices.dtype == torch.int32


def test_padding_and_rows_without_a_label() -> None:
    """The second row lists one class: the other three share 0.3. The third says nothing."""
    labels = TopK([[0, 1], [2, -1], [-1, -1]], [[0.5, 0.3], [0.7, 0.0], [0.0, 0.0]], 4)
    assert labels.top1().tolist() == [0, 2, -1]
    assert labels.labelled().tolist() == [True, True, False]
    assert labels.dense(torch.tensor([1]), 4)[0].tolist() == pytest.approx([0.1, 0.1, 0.7, 0.1])
    whole = Soft(torch.tensor([[0.1, 0.1, 0.7, 0.1]]))
    for measure in ("margin", "entropy"):
        assert labels.confidence(measure)[1].item() == pytest.approx(whole.confidence(measure).item(), abs=1e-6)


def test_sure_rows_are_hard_labels() -> None:
    plain = TopK([[3, 1], [0, 2]], [[1.0, 0.0], [1.0, 0.0]], 4).simplest()
    assert isinstance(plain, Hard)
    assert plain.labels.tolist() == [3, 0]
    assert isinstance(TopK([[3, 1]], [[0.9, 0.1]], 4).simplest(), TopK)


def test_float16_is_kept() -> None:
    labels = TopK([[0, 1]], torch.tensor([[0.6, 0.3]]).half(), 3)
    assert labels.probs.dtype == torch.float16
    assert labels.dense(torch.tensor([0]), 3).sum().item() == pytest.approx(1, abs=1e-3)


def test_bad_rows_are_found_past_the_first_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.labels.soft._ROWS", 2)
    with pytest.raises(us.UnderstudyError, match="row 3 lists a class outside"):
        TopK([[0], [1], [2], [9]], [[0.9]] * 4, 4)
    assert len(TopK([[0], [1], [2]], [[0.9], [0.8], [0.9]], 4).confidence("margin")) == 3


NAN = float("nan")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 4]], [[0.5, 0.5]], 4), "row 0 lists a class outside 0 to 3"),
        (([[0, -2]], [[0.5, 0.5]], 4), "row 0 lists a class outside"),
        (([[0, 1], [2, 2]], [[0.5, 0.4], [0.5, 0.4]], 4), "row 1 lists a class twice"),
        (([[0, 1]], [[0.5, NAN]], 4), "row 0 holds NaN"),
        (([[0, 1]], [[-0.1, -2.0]], 4), "row 0 holds a negative probability"),
        (([[0, 1]], [[0.8, 0.4]], 4), "row 0 sums to more than 1"),
        (([[0, 1]], [[0.5, 0.4]], 4, [0.5]), "row 0 and its tail do not sum to 1"),
        (([[0, 1]], [[0.5, 0.5]], 4, [-0.5]), "row 0 has a negative tail"),
        (([[0, 1]], [[0.5, 0.4]], 2), "row 0 lists every class and still misses mass"),
        (([[0, -1]], [[0.5, 0.4]], 4), "row 0 gives a probability to index"),
        (([[0]], [[0.2]], 3), "row 0 leaves more for each unlisted class"),
        (([[0, 1]], [[0.5]], 4), "shape"),
        (([[0, 1, 2]], [[0.5, 0.2, 0.3]], 2), "shape"),
        (([[0.0]], [[0.5]], 2), "integers"),
        (([[0]], [[1]], 2), "floating-point"),
        (([[0]], [[0.5]], 1), "whole number, 2 to"),
        (([[0]], [[0.9]], 2, [[0.1]]), "tail has shape"),
        (([[0]], [[0.9]], 2, [0.1, 0.1]), "tail has shape"),
    ],
)
def test_bad_lists_are_errors(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        TopK(*arguments)  # type: ignore[arg-type]


def test_joining_needs_like_lists() -> None:
    one, two = TopK([[0]], [[0.9]], 4), TopK([[0, 1]], [[0.9, 0.1]], 4)
    assert TopK.concatenate([one, one]).top1().tolist() == [0, 0]
    with pytest.raises(us.UnderstudyError, match="top-1 and top-2"):
        TopK.concatenate([one, two])
    with pytest.raises(us.UnderstudyError, match="classes"):
        TopK.concatenate([one, TopK([[0]], [[0.9]], 5)])


def test_a_shorter_list_gives_a_smaller_k() -> None:
    """Curves of a top-3 teacher, applied to top-2 rows: k past 2 is only certain at C."""
    gold, _, truth = _spread(300, 20, 3)
    trust = us.Reliability.fit(gold, truth, 0.5, 0.6)
    shorter, _, _ = _spread(50, 20, 2, seed=9)
    assert set(trust.k(shorter).tolist()) <= {2, 20}
    with pytest.raises(us.UnderstudyError, match="list 2 classes"):
        trust.topk_accuracy(shorter, 3)
