"""Planted copies are found, all of them and nothing else; chance makes none; what is message is safe to print."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from understudy.data import lookalikes
from understudy.data.leaks import (
    CONTRADICTION,
    EXACT,
    NEAR,
    OTHER_CONTENT,
    REPEATED,
    SAME_ID,
    Leak,
    Leaks,
    RowSet,
    find_leaks,
    leaks_between,
)
from understudy.data.lookalikes import TOLERANCE, normalise_texts

WORDS = np.array(["the", "of", "film", "plot", "actor", "bad", "good", "long", "short", "scene", "story", "never"])


def _count(leaks: Leaks, kind: str, a: str, b: str) -> int:
    """Rows of ``b`` that have such a counterpart in ``a``."""
    return sum(leak.rows for leak in leaks if leak.kind == kind and leak.sets == (a, b))


def sentences(rng: np.random.Generator, n: int) -> list[str]:
    return [" ".join(rng.choice(WORDS, 14)) for _ in range(n)]


def test_planted_rows_of_numbers(rng: np.random.Generator) -> None:
    pool, test = (rng.normal(size=(n, 16)).astype(np.float32) for n in (3000, 700))
    test[:40] = pool[1000:1040]
    test[40:100] = pool[2000:2060].astype(np.float16)
    leaks = find_leaks({"test": RowSet(test), "pool": RowSet(pool)})
    assert (_count(leaks, EXACT, "pool", "test"), _count(leaks, NEAR, "pool", "test")) == (40, 60)
    exact, near = leaks.found
    assert exact.examples == tuple((1000 + i, i) for i in range(5)) and exact.of == 700
    assert near.examples == tuple((2000 + i, 40 + i) for i in range(5))


@given(st.integers(0, 10_000), st.integers(1, 3), st.booleans())
def test_small_sets_against_brute_force(seed: int, width: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    kind = np.int32 if whole else np.float64
    a, b = (rng.integers(-2, 3, size=(n, width)).astype(kind) for n in rng.integers(1, 30, 2))
    labels = rng.integers(-1, 2, len(a))
    leaks = find_leaks({"gold": RowSet(a, labels=labels), "test": RowSet(b)})
    rows_a = [tuple(row) for row in a.tolist()]
    assert _count(leaks, EXACT, "gold", "test") == sum(tuple(row) in rows_a for row in b.tolist())
    for first, second in (pair for leak in leaks if leak.kind == EXACT for pair in leak.examples):
        assert rows_a[first] == tuple(b[second].tolist()) and rows_a.index(rows_a[first]) == first
    message = [{labels[j] for j in range(len(a)) if rows_a[j] == row and labels[j] >= 0} for row in rows_a]
    expected = sum(len(message[i]) > 1 and labels[i] >= 0 for i in range(len(a)))
    assert _count(leaks, CONTRADICTION, "gold", "gold") == expected


def test_rows_that_gold_repeats(rng: np.random.Generator) -> None:
    """Cross-validation would ask about a row whose copy trained. Few do no harm; of a coarse table they are chance."""
    x, ids = rng.normal(size=(100, 8)), [f"r{row}" for row in range(100)]
    assert not find_leaks({"gold": RowSet(x, ids), "test": RowSet(x[:0])})
    x[90:93] = x[:3]
    (leak,) = find_leaks({"gold": RowSet(x, ids)})
    assert (leak.kind, leak.sets, leak.rows, leak.of, leak.by_chance) == (REPEATED, ("gold", "gold"), 3, 100, False)
    assert leak.examples == (("r0", "r90"), ("r1", "r91"), ("r2", "r92"))
    with pytest.warns(us.UnderstudyWarning, match="3 of 100 rows of gold are exact .*r90.* = .*r0.*keep one"):
        find_leaks({"gold": RowSet(x, ids)}).warn()
    x[92] = rng.normal(size=8)
    assert not find_leaks({"gold": RowSet(x)}), "two of a hundred"
    (coarse,) = find_leaks({"gold": RowSet(rng.integers(0, 3, (300, 2)))})
    assert coarse.by_chance and coarse.rows == 291
    (texts,) = find_leaks({"gold": RowSet(["refund please", "Refund, please", "no card", "refund please"])})
    assert texts.kind == REPEATED and texts.rows == 1, "an exact copy"
    neighbours = np.repeat(rng.normal(size=(100, 8)), 2, axis=0)
    (leak,) = find_leaks({"gold": RowSet(neighbours)})
    assert leak.rows == 100 and not leak.by_chance, "copies that lie next to each other"


@given(st.integers(0, 10_000))
def test_near_numbers_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(30, 9)), rng.normal(size=(20, 9))
    b[:10] = a[:10] + rng.choice([0.3, 0.7, 3.0], (10, 1)) * TOLERANCE * rng.uniform(-1, 1, (10, 9))
    a, b = a.astype(np.float32), b.astype(np.float32)
    both = np.concatenate([a, b])
    room = TOLERANCE * (both.std(0) + np.abs(a - both.mean(0)))
    alike = (np.abs(a[None] - b[:, None]) <= room).all(2).any(1)
    exact = (a[None] == b[:, None]).all(2).any(1)
    assert _count(find_leaks({"gold": RowSet(a), "test": RowSet(b)}), NEAR, "gold", "test") == (alike & ~exact).sum()


def test_random_rows_are_no_leaks(rng: np.random.Generator) -> None:
    for width in (2, 8, 50):
        sets = {name: RowSet(rng.normal(size=(2000, width))) for name in ("gold", "pool", "test")}
        assert not find_leaks(sets)
    assert not find_leaks({name: RowSet(sentences(rng, 500)) for name in ("gold", "test")})
    noise = {name: RowSet(rng.random((300, 20, 20)), images=True) for name in ("gold", "test")}
    assert not find_leaks(noise)


def test_people_with_equal_columns_are_no_copies(rng: np.random.Generator) -> None:
    def people(count: int) -> np.ndarray[Any, Any]:
        return np.stack([np.minimum(rng.geometric(0.2, count), 40) for _ in range(4)], 1).astype(np.float32)

    gold, pool, test = people(300), people(3900), people(1000)
    sets = {"gold": RowSet(gold, labels=np.arange(300) % 2), "pool": RowSet(pool), "test": RowSet(test)}
    leaks = find_leaks(sets)
    assert _count(leaks, "exact", "pool", "test") > 200 and all(leak.by_chance for leak in leaks)
    assert all("probably different examples with equal features" in line for line in leaks.lines())
    with warnings.catch_warnings(action="error"):
        leaks.warn()
    # Copies beyond that are copies, and so are all of them where features tell rows apart.
    sets["test"] = RowSet(np.concatenate([pool[rng.choice(3900, 500)], test]))
    assert {leak.sets for leak in find_leaks(sets) if not leak.by_chance} == {("pool", "test")}

    rich = rng.normal(size=(600, 3))
    doubled = find_leaks(
        {"pool": RowSet(np.concatenate([rich, rich])), "test": RowSet(np.concatenate([rich[:60], -rich]))}
    )
    assert [(leak.rows, leak.by_chance) for leak in doubled] == [(60, False)]


def test_people_who_differ_by_a_little_in_one_column_are_no_near_copies() -> None:
    """Seven columns of few values and an income, in which many are nearly equal; then a tenth of test is copied."""
    rng = np.random.default_rng(0)

    def people(rows: int) -> np.ndarray:
        return np.column_stack([rng.random((rows, 7)) < 0.3, np.exp(rng.normal(10, 0.1, rows))])

    pool, test = people(4000), people(500)
    leaks = find_leaks({"pool": RowSet(torch.tensor(pool)), "test": RowSet(torch.tensor(test))})
    assert _count(leaks, "near", "pool", "test") > 20 and all(leak.by_chance for leak in leaks)
    test[:150] = pool[:150]
    test[:150, 7] *= 1 + 1e-6
    found = find_leaks({"pool": RowSet(torch.tensor(pool)), "test": RowSet(torch.tensor(test))})
    assert [leak.by_chance for leak in found if leak.kind == "near"] == [False]


def coarse_tables(seed: int) -> dict[str, RowSet]:
    """Up to eleven columns of few values and an income."""
    rng = np.random.default_rng(seed)
    shares = [rng.dirichlet(np.ones(levels)) for levels in rng.integers(2, 8, size=rng.integers(1, 12))]

    def people(rows: int) -> np.ndarray:
        coarse = [rng.choice(len(share), rows, p=share) for share in shares]
        return np.column_stack([*coarse, np.exp(rng.normal(10, 0.5, rows))]).astype(np.float32)

    return {name: RowSet(people(rows)) for name, rows in (("gold", 300), ("pool", 3900), ("test", 1000))}


def test_a_fine_column_among_coarse_ones_leads_to_hardly_any_warning() -> None:
    """Where rows are equal or nearly so by chance, though seldom."""
    warned = [leak for seed in range(30) for leak in find_leaks(coarse_tables(seed)) if not leak.by_chance]
    assert len(warned) <= 4 and all(leak.rows <= 3 for leak in warned)


@pytest.mark.parametrize("features", [3, 5])
def test_copies_are_rare_by_chance_only_where_features_are_few(features: int, rng: np.random.Generator) -> None:
    """As many rows of test as repeat in the pool, 1 in 500: of five fine features these are copies."""
    pool = rng.normal(size=(5000, features)).astype(np.float32)
    pool[:10] = pool[10:20]
    sets = {"pool": RowSet(pool), "test": RowSet(np.concatenate([pool[-4:], -pool[:1996]]))}
    assert [(leak.rows, leak.by_chance) for leak in find_leaks(sets)] == [(4, features < 5)]


def test_texts_that_differ_in_case_space_and_punctuation(rng: np.random.Generator) -> None:
    pool = sentences(rng, 800)
    changes: list[Callable[[str], str]] = [
        str.upper,
        lambda text: text.replace(" ", "  \t"),
        lambda text: f"«{text.replace(' ', ', ')}!»\n",
        lambda text: text.replace("fi", "ﬁ").title(),
    ]
    near = [changes[i % 4](text) for i, text in enumerate(pool[100:200])]
    test = np.array([*pool[:30], *near, *sentences(rng, 200)], dtype=object)
    leaks = find_leaks({"pool": RowSet(pool), "test": RowSet(test)})
    assert (_count(leaks, EXACT, "pool", "test"), _count(leaks, NEAR, "pool", "test")) == (30, 100)
    assert next(leak for leak in leaks if leak.kind == NEAR).examples[0] == (100, 30)
    # Nothing but punctuation is not one and the same text.
    assert not find_leaks({"gold": RowSet(["!!!", "😀"]), "test": RowSet(["???", "😂"])})
    assert normalise_texts(["It's  ＦＩＮＥ—isn't it?", "हिन्दी।"]) == ["it s fine isn t it", "हिन्दी"]


def pictures(rng: np.random.Generator, n: int, size: int = 32) -> np.ndarray[Any, Any]:
    """Smooth random images with a plain border, as photographs of things have."""
    coarse = rng.random((n, 6, 6))
    fine = np.kron(coarse, np.ones((1, 4, 4)))
    for _ in range(3):
        fine = (fine + np.roll(fine, 1, 1) + np.roll(fine, 1, 2)) / 3
    edge = (size - fine.shape[1]) // 2
    return (np.pad(fine, ((0, 0), (edge, edge), (edge, edge))) * 255).astype(np.uint8)


def test_images_with_other_brightness_and_noise(rng: np.random.Generator) -> None:
    pool = pictures(rng, 600)
    changed = pool[200:260] * 0.9 + 8 + rng.normal(size=(60, 32, 32)) * 1.5
    test = np.concatenate([pool[:20], changed.clip(0, 255).astype(np.uint8), pictures(rng, 300)])
    leaks = find_leaks({"pool": RowSet(pool, images=True), "test": RowSet(test, images=True)})
    assert (_count(leaks, EXACT, "pool", "test"), _count(leaks, NEAR, "pool", "test")) == (20, 60)
    assert next(leak for leak in leaks if leak.kind == NEAR).examples[0] == (200, 20)


def test_images_alike_only_from_afar_are_not_near(rng: np.random.Generator) -> None:
    plain = np.kron(rng.random((20, 8, 9)), np.ones((1, 8, 8)))
    stripes = np.tile([[0.2], [0.2], [0.2], [0.2], [-0.2], [-0.2], [-0.2], [-0.2]], (8, 72))
    sets = {"gold": RowSet(plain, images=True), "test": RowSet(plain + stripes, images=True)}
    assert not find_leaks(sets)
    sets["test"] = RowSet(plain + 0.05 * stripes, images=True)
    assert _count(find_leaks(sets), NEAR, "gold", "test") == 20


def test_ids_in_two_sets() -> None:
    gold = RowSet(np.array([[1.0], [2.0], [3.0]]), ids=["a", "b", "c"])
    test = RowSet(np.array([[1.0], [9.0], [2.0], [7.0]]), ids=np.array(["a", "c", "z", "y"]))
    leaks = find_leaks({"gold": gold, "test": test})
    assert [(leak.kind, leak.examples) for leak in leaks] == [
        (SAME_ID, (("a", "a"),)), (EXACT, (("b", "z"),)), (OTHER_CONTENT, (("c", "c"),)),
    ]  # fmt: skip
    # Numbers in one file, words in the other; no content at all.
    alone = find_leaks({"gold": RowSet(ids=[1, 2]), "test": RowSet(ids=["2", "3", "4"])})
    assert [(leak.kind, leak.rows, leak.of, leak.examples) for leak in alone] == [(SAME_ID, 1, 3, ((2, "2"),))]


def test_the_worst_comes_first_and_each_kind_warns_once() -> None:
    same = RowSet(np.array([[1, 2]]))
    leaks = find_leaks({"select": same, "pool": same, "test": same, "gold": same})
    assert [leak.sets for leak in leaks] == list(us.data.leaks.PAIRS)
    with pytest.warns(us.UnderstudyWarning) as told:
        leaks.warn()
    assert len(told) == 1 and "exact copies of rows of gold" in str(told[0].message)
    assert "also 1 in pool/test" in str(told[0].message)
    assert len(leaks.lines()) == 6 and "remove these rows from gold" in leaks.lines()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_leaks({"gold": same, "test": RowSet(np.array([[3, 4]]))}).warn()


def test_what_is_printed_cannot_harm() -> None:
    evil = "\x1b[2J\nid\u202e" + "x" * 999
    line = Leak(EXACT, ("gold", "test"), 1, 2, ((evil, evil),)).line()
    assert line.isprintable() and len(line) < 300 and "\\x1b[2J\\nid\\u202e" in line


def test_numbers_are_compared_as_the_student_sees_them() -> None:
    a = np.array([[0.1, -0.0], [np.nan, 1.0]])
    leaks = find_leaks({"gold": RowSet(a), "test": RowSet(torch.tensor([[0.1, 0.0], [float("nan"), 1.0]]))})
    assert _count(leaks, EXACT, "gold", "test") == 2
    large = np.array([[2**53], [2**53 + 1]])
    assert _count(find_leaks({"gold": RowSet(large[:1]), "test": RowSet(large)}), EXACT, "gold", "test") == 1


def test_too_many_candidates_are_said(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    gold, test = rng.normal(size=(40, 10)), rng.normal(size=(40, 10))
    gold[:20] = gold[0] + 1e-5 * np.arange(20)[:, None]
    test[:20] = gold[0] + 1e-5 * np.arange(0.5, 20)[:, None]
    sets = {"gold": RowSet(gold), "test": RowSet(test)}
    assert _count(find_leaks(sets), NEAR, "gold", "test") == 20 and not find_leaks(sets).notes
    monkeypatch.setattr(lookalikes, "MOST_CANDIDATES", 10)
    found = find_leaks(sets)
    assert _count(found, NEAR, "gold", "test") < 20 and "not all were compared for near copies" in found.lines()[-1]


def test_between_the_sets_of_a_training(rng: np.random.Generator) -> None:
    x = rng.normal(size=(60, 10)).astype(np.float32)
    gold = us.Gold(x[:10], np.arange(10) % 2, ids=np.arange(10))
    pool = us.Pool(x[10:50], np.arange(40) % 2, ids=np.arange(10, 50))
    test = us.Gold(np.concatenate([x[50:], x[3:5], x[12:13]]), np.zeros(13, int), ids=np.arange(50, 63))
    leaks = leaks_between(gold=gold, pool=pool.take(torch.arange(40)), test=test)
    assert [(leak.kind, leak.sets, leak.rows) for leak in leaks] == [
        (EXACT, ("gold", "test"), 2), (EXACT, ("pool", "test"), 1),
    ]  # fmt: skip
    twice = us.Gold(np.concatenate([x[:10], x[:2]]), [0] * 10 + [1, 0])
    assert (
        leaks_between(gold=twice).lines()[0].startswith("2 of 12 rows of gold have copies in gold with another label")
    )
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(x))
    unread = leaks_between(gold=gold, pool=us.Pool(dataset))
    assert not unread and "pool is a Dataset" in unread.lines()[0]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"gold": RowSet(np.zeros((2, 3))), "test": RowSet(np.zeros((2, 4)))}, "gold 3, test 4"),
        ({"gold": RowSet(np.zeros((2, 3))), "test": RowSet(["a"])}, "gold numbers, test texts"),
        ({"gold": RowSet(["a", None])}, "gold row 1 is a NoneType"),
        ({"gold": RowSet([b"a", "b"])}, "gold row 0 is a bytes"),
        ({"gold": RowSet([1.5])}, "gold row 0 is a float"),
        ({"gold": RowSet(["a", "b"], labels=[1])}, "gold.labels has 1 rows"),
    ],
)
def test_mistakes_are_explained(sets: dict[str, RowSet], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        find_leaks(sets)


def test_empty_sets_are_fine() -> None:
    assert not find_leaks({}) and not find_leaks({"gold": RowSet(), "test": RowSet([])})


@pytest.mark.slow
def test_the_known_copies_in_imdb(shared_data: Callable[[str], Path]) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(shared_data("imdb_50k.parquet"), columns=["split", "text"])
    split, text = np.array(table["split"].to_pylist()), np.array(table["text"].to_pylist(), dtype=object)
    leaks = find_leaks({"gold": RowSet(text[split == "train"]), "test": RowSet(text[split == "test"])})
    train = set(text[split == "train"])
    assert _count(leaks, EXACT, "gold", "test") == sum(one in train for one in text[split == "test"]) == 123
