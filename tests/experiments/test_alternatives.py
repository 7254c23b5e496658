"""Ours beside what a user would pick instead: no row in two sets, a filter handed over row by row, honest tables."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from experiments.alternatives_data import HELD_OUT, SETTINGS, Source, imdb, unavailable
from experiments.alternatives_methods import C, Case, on_everything
from experiments.alternatives_page import Cell
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import understudy as us
from experiments import alternatives, alternatives_methods, alternatives_page, peers
from understudy.data.rows import SparseRows


def source(rows: int = 60) -> Source:
    x = sparse.csr_matrix(np.arange(rows * 3, dtype=np.float32).reshape(rows, 3))
    every = torch.arange(rows)
    return Source(x, every % 3, every[:50], every[50:], {})


def test_no_row_is_in_two_sets_and_every_row_keeps_its_own_features_truth_and_label() -> None:
    given = source()
    labels = us.Hard(torch.arange(60) % 3, classes=3)
    dealt = given.deal(labels, 10, seed=3, without=torch.arange(5))
    gold, pool, test = (set(part.ids.tolist()) for part in (dealt.gold, dealt.pool, dealt.test))
    assert (len(gold), len(pool), len(test)) == (10, 35, 10)
    assert gold | pool == set(range(5, 50)) and test == set(range(50, 60)), "and rows the teacher learned from are out"
    assert isinstance(dealt.pool.rows, SparseRows)
    row = dealt.pool.ids.tolist().index(20)
    assert dealt.pool.rows.take(torch.tensor([row])).tolist() == [[60.0, 61.0, 62.0]]
    assert dealt.truth is not None and int(dealt.truth[row]) == 2 and int(dealt.pool.teacher.top1()[row]) == 2
    assert torch.equal(dealt.gold.y, torch.tensor(dealt.gold.ids.tolist()) % 3)
    other = given.deal(labels, 10, seed=4)
    assert set(other.gold.ids.tolist()) != gold, "another seed deals other rows"


def test_held_out_settings_are_settings_and_missing_nets_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(HELD_OUT) < set(SETTINGS)
    monkeypatch.delenv("UNDERSTUDY_MINILM", raising=False)
    assert unavailable("TREC, rules, MiniLM") == "UNDERSTUDY_MINILM is not set"
    assert unavailable("TREC, rules") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["SMS, rules", "SST-2, small model", pytest.param("IMDB, real model", marks=pytest.mark.torture)]
)
def test_real_sets_are_dealt_without_overlap(name: str) -> None:
    try:
        dealt = SETTINGS[name](1)
    except us.UnderstudyError as error:
        pytest.skip(str(error))
    sets = [set(part.ids.tolist()) for part in (dealt.gold, dealt.pool, dealt.test)]
    assert sum(map(len, sets)) == len(set.union(*sets))
    assert len(dealt.truth) == len(dealt.pool)
    imdb.cache_clear()


def votes_case(seed: int = 0) -> Case:
    """Two classes separated by the first number; two annotators, neither of whom spoke of every fifth row."""
    draw = np.random.default_rng(seed)
    y = np.arange(60) % 2
    x = sparse.csr_matrix((np.eye(3)[:2][y] + draw.normal(size=(60, 3)) / 10).astype(np.float32))
    votes = np.stack([y, np.where(np.arange(60) % 7 == 0, 1 - y, y)], axis=1)
    votes[np.arange(60) % 5 == 0] = -1
    every = torch.arange(60)
    given = Source(x, torch.from_numpy(y), every[:50], every[50:], {}).deal(us.Votes(votes, 2), 10, seed)
    return Case(given, seed)


def test_everything_is_gold_first_and_then_the_rows_the_teacher_spoke_of() -> None:
    case = votes_case()
    x, y = case.everything
    spoken = [row % 5 != 0 for row in case.given.pool.ids.tolist()]
    assert case.labelled.tolist() == spoken and x.shape[0] == len(y) == 10 + sum(spoken)
    assert y[:10].tolist() == case.given.gold.y.tolist()
    assert np.array_equal(x[:10].toarray(), case.gold.toarray())
    assert y[10:].tolist() == case.labels.top1().numpy()[case.labelled].tolist()
    by_hand = LogisticRegression(C=C, max_iter=300).fit(x, y).score(case.test, case.y_test)
    assert on_everything(case) == pytest.approx(by_hand)


def test_the_filter_sees_out_of_fold_probabilities_and_drops_pool_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    case, seen = votes_case(), {}

    def ask(task: str, **arrays: Any) -> np.ndarray[Any, Any]:
        seen.update(arrays)
        assert task == "cleanlab"
        issues = np.zeros(len(arrays["labels"]), dtype=bool)
        issues[[0, 10, 12]] = True  # a gold row, and the first and third labelled row of the pool
        return issues

    monkeypatch.setattr(alternatives_methods.peers, "ask", ask)
    keep = case.kept(C)
    labelled = np.flatnonzero(case.labelled)
    assert np.flatnonzero(~keep).tolist() == labelled[[0, 2]].tolist()
    assert np.allclose(seen["probs"].sum(1), 1) and seen["probs"].shape == (len(seen["labels"]), 2)
    x, y = case.joined(case.labels.top1().numpy(), keep)
    assert len(y) == 10 + len(labelled) - 2 == x.shape[0], "every gold row stays"


WORKER = """
import sys, numpy as np
for line in sys.stdin:
    task, source, target = line.rstrip("\\n").split("\\t")
    with np.load(source) as given:
        np.save(target, given["a"] + 1)
    print("done 0.5" if task == "add" else "ValueError: no such task", flush=True)
"""


def test_arrays_go_to_another_python_and_come_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    monkeypatch.setenv(peers.PYTHON, sys.executable)
    monkeypatch.setattr(peers, "WORKER", script)
    monkeypatch.setattr(peers, "_SPENT", {})
    peers._worker.cache_clear()
    try:
        assert peers.ask("add", a=np.arange(3)).tolist() == [1, 2, 3]
        assert peers.ask("add", a=np.zeros((2, 2))).shape == (2, 2), "one worker serves several requests"
        assert peers._SPENT == {"add": 1.0}
        with pytest.raises(us.UnderstudyError, match="ValueError: no such task"):
            peers.ask("other", a=np.arange(3))
    finally:
        worker = peers._worker(os.getpid())
        worker.stdin.close()
        worker.stdout.close()
        worker.wait()
        peers._worker.cache_clear()


def cells(**accuracies: list[float | None]) -> list[Cell]:
    seeds = len(next(iter(accuracies.values())))
    return [
        Cell({name: values[seed] for name, values in accuracies.items()}, dict.fromkeys(accuracies, 1.0))
        for seed in range(seeds)
    ]


def found(auto: float) -> dict[str, list[Cell]]:
    lr, gold = "LR, everything", "LR, gold"
    return {
        "TREC, rules": cells(**{lr: [0.60, 0.62], gold: [0.58, 0.62], "teacher": [0.9, 0.9], "auto": [0.66, 0.66]}),
        "SMS, rules": cells(**{lr: [0.90, 0.92], gold: [0.94, 0.92], "auto": [auto, auto]}),
    }


def test_differences_are_to_the_best_alternative_of_each_setting_paired_by_seed() -> None:
    given = found(0.94)
    assert alternatives_page.best(given["TREC, rules"], ["LR, everything", "LR, gold"]) == "LR, everything"
    assert alternatives_page.gap(given["TREC, rules"], "auto") == pytest.approx([0.06, 0.04]), "the teacher is no rival"
    assert alternatives_page.gap(given["SMS, rules"], "auto") == pytest.approx([0.0, 0.02])
    assert alternatives_page.gap(given["SMS, rules"], "reconciled, linear") is None
    text = alternatives_page.page(given, {"IMDB, real model": "not here"})
    assert "| SMS, rules (held out) | – | – | LR, gold 93.0 | auto 94.0 | 94.0 | +1.0 (" in text
    assert "- IMDB, real model: not here" in text


@pytest.mark.parametrize(
    ("auto", "answers"), [(0.94, ["yes", "yes"]), (0.923, ["yes", "**no**"]), (0.91, ["**no**"] * 2)]
)
def test_targets_are_decided_by_the_numbers(auto: float, answers: list[str]) -> None:
    """Means +5 and +1, −0.7, −2: in the mean +3, +2.15, +1.5."""
    lines = alternatives_page.targets(found(auto), "auto").splitlines()
    assert [line.split(" | ")[-1].strip(" |") for line in lines[2:4]] == answers


def test_a_setting_that_was_not_run_keeps_no_target() -> None:
    given = found(0.94)
    given["digits (ten)"] = cells(**{"LR, gold": [0.8, 0.8], "auto": [0.9, None]})
    assert alternatives_page.targets(given, "auto").count("**no**") == 2
    assert "2 of 3 settings" in alternatives_page.targets(given, "auto")


def test_cells_are_filled_method_by_method(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: list[str] = []

    def method(name: str) -> Any:
        def tested(case: Any) -> float | None:
            called.append(name)
            if name == "broken":
                raise us.UnderstudyError("it does not work here; leave it out")
            return None if name == "nowhere" else 0.5

        return tested

    monkeypatch.setattr(alternatives, "METHODS", {name: method(name) for name in ("one", "two", "nowhere", "broken")})
    monkeypatch.setattr(alternatives, "SETTINGS", {"a setting": lambda seed: None})
    monkeypatch.setattr(alternatives, "Case", lambda given, seed: None)

    def go(*methods: str, again: bool = False) -> list[str]:
        called.clear()
        alternatives.run_all(tmp_path, ["a setting"], methods, seeds=1, workers=1, again=again)
        return list(called)

    assert go("one", "nowhere", "broken") == ["one", "nowhere", "broken"]
    assert go("one", "two", "nowhere", "broken") == ["two", "broken"], "what failed is tried again"
    assert go("one", again=True) == ["one"]
    cell = alternatives.read_cell(tmp_path, "a setting", 0)
    assert cell.accuracy == {"one": 0.5, "two": 0.5, "nowhere": None} and set(cell.seconds) == set(cell.accuracy)
