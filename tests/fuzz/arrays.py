"""Arrays, tensors and lists handed to the library in Python."""

import math
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

import understudy as us
from fuzz.good import check_rows

ROWS, CLASSES = 6, 3
DTYPES = [
    "f2",
    "f4",
    "f8",
    ">f4",
    "i1",
    "i8",
    "u1",
    "u2",
    "u8",
    "?",
    "c8",
    "c16",
    "O",
    "U3",
    "S3",
    "M8[s]",
    "m8[s]",
    "f16",
]
SHAPES: list[tuple[int, ...]] = [
    (),
    (0,),
    (ROWS,),
    (ROWS, 0),
    (ROWS, 1),
    (ROWS, CLASSES),
    (ROWS - 1, CLASSES),
    (0, 3),
    (2, 3, 4),
]
ODD: list[Any] = [
    *(None, "text", b"bytes", 3, 2.5, math.nan, True, {}, {"a": 1}, set(), object(), range(ROWS), iter([1, 2])),
    *([[1, 2], [3]], [None] * ROWS, ["a"] * ROWS, [[]], [], (), [1e400] * ROWS, [10**30] * ROWS, [2**63] * ROWS),
    *(torch.empty(0), torch.tensor(3.0), torch.ones(ROWS, dtype=torch.complex64), lambda x: x, np.float64(1)),
    *(torch.ones(ROWS, CLASSES).to_sparse(), torch.ones(ROWS, CLASSES, requires_grad=True)),
    *(torch.ones(ROWS, CLASSES, dtype=torch.bfloat16), torch.ones(ROWS, CLASSES).to_mkldnn()),
    *(torch.ones(2, 2, device="meta"), np.ma.masked, np.ma.masked_array(np.zeros(ROWS), mask=True)),
    *(np.zeros((ROWS, 3))[::-1], np.zeros(ROWS, dtype=[("a", "f4")]), np.full((ROWS, CLASSES), 1 / 3, dtype="f2")),
    *(np.array([1, "a", None], dtype=object), np.zeros((1,) * 20), memoryview(b"abc")),
]  # fmt: skip


def rows(draw: random.Random) -> np.ndarray[Any, Any]:
    return np.random.default_rng(draw.randrange(1 << 30)).normal(size=(ROWS, CLASSES))


def labels(draw: random.Random) -> np.ndarray[Any, Any]:
    return np.array([draw.randrange(CLASSES) for _ in range(ROWS)])


def probs(draw: random.Random) -> np.ndarray[Any, Any]:
    scores = np.exp(rows(draw))
    return scores / scores.sum(1, keepdims=True)


def bad(draw: random.Random, good: Any) -> Any:
    """Something else than this, or this with one thing wrong."""
    what = draw.choice(["odd", "kind", "entry", "entry", "entry", "length", "layout", "scale", "list"])
    if what == "odd":
        return draw.choice(ODD)
    if what == "kind":
        values = np.zeros(draw.choice(SHAPES), dtype=draw.choice(DTYPES))
        return torch.from_numpy(values) if values.dtype.str in ("<f4", "<i8", "|u1") and draw.random() < 0.5 else values
    good = np.array(good)
    if what == "entry":
        kind = np.float64 if draw.random() < 0.7 else good.dtype
        good = good.astype(kind)
        good.flat[draw.randrange(good.size)] = draw.choice(
            [math.nan, math.inf, -math.inf, -1, -2, 0.5, 7, 1e300] if kind is np.float64 else [-1, -2, 7, 2**31]
        )
        return good
    if what == "length":
        return draw.choice(
            [good[:-1], good[:0], np.concatenate([good, good]), good[:1], good.T, good[None], good[..., None]]
        )
    if what == "layout":
        good.setflags(write=False)
        twice = np.repeat(good, 2, axis=0)[::2]
        return draw.choice(
            [good, twice, np.asfortranarray(good), good[::-1], good.astype(">f8"), good.view(np.recarray)]
        )
    if what == "scale":
        return good * draw.choice([-1, 2, 0.999, 1.1, 1e30, 1e-30])
    return draw.choice(
        [good.tolist(), tuple(good.tolist()), good.astype(str).tolist(), good.astype(object), iter(good)]
    )


def maybe(draw: random.Random, good: Any, chance: float = 0.4) -> Any:
    return bad(draw, good) if draw.random() < chance else good


def check_labels(teacher: Any, count: int) -> None:
    assert len(teacher) == count
    said = teacher.labelled().nonzero().squeeze(1)
    if len(said):
        classes = teacher.classes or int(teacher.top1().max()) + 1
        dense = teacher.dense(said, classes).double()
        assert bool(dense.isfinite().all()) and bool((dense >= 0).all()), "labels are not finite"
        assert bool(((dense.sum(1) - 1).abs() < 5e-3).all()), "labels do not sum to 1"
        for measure in ("margin", "entropy"):
            assert teacher.confidence(measure).shape == (count,)


def teacher(draw: random.Random, wrong: bool) -> Any:
    """A label form built of good or bad arrays."""
    pick = bad if wrong else (lambda _draw, good: good)
    form = draw.choice(["soft", "hard", "Hard", "TopK", "Votes"])
    classes = draw.choice([CLASSES, CLASSES, 2, 1, 0, -1, 2**40, 2.5, "3", None]) if wrong else CLASSES
    if form == "soft":
        return pick(draw, probs(draw))
    if form == "hard":
        return pick(draw, labels(draw))
    if form == "Hard":
        return us.Hard(maybe(draw, labels(draw)) if wrong else labels(draw), pick(draw, rows(draw)[:, 0]))
    if form == "Votes":
        votes = np.stack([labels(draw), labels(draw)], axis=1)
        return us.Votes(pick(draw, votes), classes, by=draw.choice(["majority", "dawid_skene"]))
    index = np.argsort(-probs(draw), axis=1)[:, :2]
    said = np.tile([0.6, 0.3], (ROWS, 1))
    tail = draw.choice([None, np.full(ROWS, 0.1), pick(draw, np.full(ROWS, 0.1))])
    return us.TopK(maybe(draw, index) if wrong else index, pick(draw, said), classes, tail)


def gold_arrays(draw: random.Random, given: Path, made: Path) -> None:
    x, y = maybe(draw, rows(draw)), maybe(draw, labels(draw))
    ids = maybe(draw, np.arange(ROWS)) if draw.random() < 0.5 else None
    said = teacher(draw, draw.random() < 0.5) if draw.random() < 0.5 else None
    chosen = draw.choice(
        [False, False, True, torch.zeros(ROWS, dtype=torch.bool), torch.zeros(2), None, "yes", np.zeros(ROWS)]
    )
    gold = us.Gold(x, y, said, ids, chosen)
    assert len(gold) == len(gold.rows) == len(gold.y) == len(gold.chosen) > 0 and int(gold.y.min()) >= 0
    assert gold.ids is None or len(set(gold.ids.tolist())) == len(gold)
    if hasattr(gold.rows, "x"):
        check_rows(gold.rows)
    if gold.teacher is not None:
        check_labels(gold.teacher, len(gold.teacher_rows))
    both = gold + gold if gold.ids is None else gold.take(torch.arange(len(gold)))
    assert len(both) in (len(gold), 2 * len(gold))


def pool_arrays(draw: random.Random, given: Path, made: Path) -> None:
    said = teacher(draw, draw.random() < 0.7)
    named = [f"r{row}" for row in range(ROWS)]
    ids = draw.choice(
        [None, None, named, ["a"] * ROWS, named[:-1], maybe(draw, np.arange(ROWS)), np.array(named, object)]
    )
    pool = us.Pool(maybe(draw, rows(draw)), said, ids)
    assert pool.ids is None or len(set(pool.ids.tolist())) == len(pool)
    if hasattr(pool.rows, "x"):
        check_rows(pool.rows)
    check_labels(pool.teacher, len(pool))


def training_arrays(draw: random.Random, given: Path, made: Path) -> None:
    """Whole trainings of one epoch, a few of their arguments wrong."""
    said = draw.choice([probs(draw), probs(draw), None, labels(draw)])
    gold = us.Gold(maybe(draw, rows(draw), 0.15), maybe(draw, labels(draw), 0.15), said)
    pool = us.Pool(maybe(draw, rows(draw), 0.15), maybe(draw, probs(draw), 0.15))
    options: dict[str, Any] = {"epochs": 1, "lr": 0.1, "batch_size": 4, "seed": 0}
    for name in draw.sample(sorted(OPTIONS), draw.choice([0, 1, 1, 2])):
        options[name] = draw.choice(OPTIONS[name])
    method = draw.choice([us.vanilla, us.slam, us.weighted, us.gce])
    student = us.models.linear(draw.choice([CLASSES, CLASSES, CLASSES, 7]), draw.choice([CLASSES, CLASSES, 2]))
    if draw.random() < 0.2:
        gold, pool, student = (draw.choice([one, one, *ODD[:12]]) for one in (gold, pool, student))
    try:
        run = us.train(student, gold, pool, method(), out=made / "run", progress=False, **options)
    except us.UnderstudyError:
        # What has begun can be resumed.
        if (made / "run" / "checkpoint").exists():
            shutil.rmtree(made / "run")
        raise
    # None is what suits the rows.
    assert options["epochs"] in (None, len(run.history))
    assert all(bool(value.isfinite().all()) for value in run.student.state_dict().values())
    said = run.predict(rows(draw).astype(np.float32))
    assert said.shape == (ROWS, CLASSES) and bool(((said.sum(1) - 1).abs() < 1e-4).all())


OPTIONS: dict[str, list[Any]] = {
    "epochs": [0, -1, 1.5, "1", None, True, 2],
    "lr": [0.0, -1.0, math.nan, math.inf, 1e30, "0.1", None],
    "batch_size": [0, -1, 1, 10**9, 2.5, None, "4"],
    "seed": [-1, 2**63, 2**70, 1.5, None, "0"],
    "schedule": ["cosine", "nothing", 5, None, [], [(0.5,)], [(2, -1.0)]],
    "optimizer": ["sgd", "lion", None, 3],
    "device": ["cpu", "tpu", "cuda:99", 3, ""],
    "clip": [0.0, -1.0, 1.0, math.nan, "1"],
    "test": [(), (1, 2), 5, "file", None, (np.zeros((2, 3), "f4"), [0, 9])],
    "gold_weight": [0.0, -1.0, math.nan, None],
    "pretrain_epochs": [1, -1, 0.5, None],
}
