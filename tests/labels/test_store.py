"""The label store: every form there and back, never twice, never lost, damage named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from understudy.labels.forms import Labels
from understudy.labels.label_store import Appended

from ..forked_program import Program

CLASSES = ["neg", "neutral", "pos"]
IDS = ["a", "b", "c", "d"]
FORMS: dict[str, Any] = {
    "hard": np.array([2, 0, -1, 1]),
    "hard_confidence": us.Hard([2, 0, -1, 1], [0.9, 0.5, float("nan"), 0.7]),
    "dense": np.array([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.4, 0.3, 0.3]], dtype=np.float32),
    "topk": us.TopK([[2, 0], [0, -1], [-1, -1], [1, 2]], [[0.7, 0.2], [0.6, 0], [0, 0], [0.5, 0.5]], 3),
}


def store(folder: Path, form: str = "hard", **options: Any) -> us.LabelStore:
    return us.LabelStore(folder / "labels", CLASSES, form, **options)


def shards(folder: Path) -> list[Path]:
    return sorted((folder / "labels").glob("*.parquet"))


def same(one: Labels, other: Labels) -> bool:
    rows = torch.arange(len(one))
    labelled = one.labelled()
    # Rows are stored as 32-bit floats.
    return (
        one.top1().equal(other.top1())
        and one.dense(rows[labelled], 3).allclose(other.dense(rows[labelled], 3), rtol=1e-6)
        and one.confidence("margin")[labelled].allclose(other.confidence("margin")[labelled], rtol=1e-6)
    )


@pytest.mark.parametrize("form", FORMS)
def test_every_form_there_and_back(tmp_path: Path, form: str) -> None:
    given = us.Pool(np.zeros((4, 1)), FORMS[form]).teacher
    assert given is not None
    with store(tmp_path, form) as mine:
        assert mine.append(IDS[:2], given.take(torch.arange(2))) == Appended(2, 0, 0)
        assert same(mine.labels(IDS[:2]), given.take(torch.arange(2)))
        mine.append(IDS[2:], given.take(torch.arange(2, 4)))
    again = us.LabelStore(tmp_path / "labels")
    assert again.classes == tuple(CLASSES) and again.form == form and len(again) == 4 and len(shards(tmp_path)) == 2
    order = torch.tensor([3, 0, 2, 1])
    assert same(again.labels([IDS[i] for i in order]), given.take(order))
    assert again.append(IDS, FORMS[form]) == Appended(0, 4, 0)
    # Ids that are not there have no label.
    found = again.labels(["d", "x", "a"])
    assert found.top1().tolist() == [int(given.top1()[3]), -1, int(given.top1()[0])]
    np.testing.assert_allclose(found.dense(torch.tensor([0, 2]), 3), given.dense(torch.tensor([3, 0]), 3), rtol=1e-6)
    again.compact()
    assert len(shards(tmp_path)) == 1 and same(us.LabelStore(tmp_path / "labels").labels(IDS), given)


def test_what_still_has_to_be_asked(tmp_path: Path) -> None:
    with store(tmp_path) as mine:
        assert mine.missing(range(3)).tolist() == [0, 1, 2]
        mine.append([1, 5], ["pos", None])
        assert mine.missing([7, 1, 5, 7, 3]).tolist() == [7, 3]
        assert mine.missing([1, 5, 3], unlabelled=True).tolist() == [5, 3]
        assert 1 in mine and 7 not in mine
        assert mine.missing([]).tolist() == []


def test_a_label_that_is_there_already(tmp_path: Path) -> None:
    with store(tmp_path) as mine:
        mine.append([1, 2, 3], [0, 1, -1])
        assert mine.append([1, 2], ["neg", "neutral"]) == Appended(0, 2, 0)
        with pytest.raises(us.UnderstudyError, match=r"id 2 \(1 such ids\); pass replace=True"):
            mine.append([9, 2], [0, 2])
        assert 9 not in mine  # all or nothing
        assert mine.append([3], [2]) == Appended(0, 0, 1)  # an answer where there was none
        assert mine.append([2, 4], [2, 0], replace=True) == Appended(1, 0, 1)
        assert mine.append([5, 5], [1, 1]) == Appended(1, 1, 0)
        with pytest.raises(us.UnderstudyError, match="6 comes twice"):
            mine.append([6, 6], [1, 2], replace=True)
        assert mine.labels([1, 2, 3, 4, 5]).top1().tolist() == [0, 2, 2, 0, 1]
        before = shards(tmp_path)
    again = us.LabelStore(tmp_path / "labels")
    assert again.labels([1, 2, 3, 4, 5]).top1().tolist() == [0, 2, 2, 0, 1]
    assert set(before) <= set(shards(tmp_path))  # the old shards stay


def test_top_k_lists_of_unequal_depth(tmp_path: Path) -> None:
    with store(tmp_path, "topk") as mine:
        mine.append(["a"], us.TopK([[2]], [[0.6]], 3))
        mine.append(["b"], us.TopK([[1, 0]], [[0.6, 0.3]], 3))
        assert mine.append(["a"], us.TopK([[2, -1]], [[0.6, 0.0]], 3)) == Appended(0, 1, 0)
        assert mine.labels(["b", "a"]).dense(torch.arange(2), 3).sum(1).tolist() == pytest.approx([1, 1])
        mine.compact()
    found = us.LabelStore(tmp_path / "labels").labels(["a", "b"])
    np.testing.assert_allclose(found.dense(torch.arange(2), 3), [[0.2, 0.2, 0.6], [0.3, 0.6, 0.1]], rtol=1e-6)


def test_rows_are_on_the_disk_when_append_returns(tmp_path: Path) -> None:
    mine = store(tmp_path)
    for i in range(3):
        mine.append([i], [0])
        assert len(shards(tmp_path)) == len(us.LabelStore(tmp_path / "labels")) == i + 1


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.labels import label_shards as store_shards

    mine = store(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(store_shards, "write_named", lambda *_: (_ for _ in ()).throw(us.UnderstudyError("no space left")))
        with pytest.raises(us.UnderstudyError, match="no space"):
            mine.append([1], [0])
    assert not shards(tmp_path) and mine.labels([1]).top1().tolist() == [-1]
    mine.append([1, 2], [0, 1])
    mine.close()
    assert us.LabelStore(tmp_path / "labels").labels([1, 2]).top1().tolist() == [0, 1]


def test_a_store_nobody_closed_lets_others_write_when_it_goes(tmp_path: Path) -> None:
    mine = store(tmp_path)
    mine.append([1], [0])
    del mine
    assert us.LabelStore(tmp_path / "labels").append([2], [0]) == Appended(1, 0, 0)


def test_one_writes_and_many_read(tmp_path: Path) -> None:
    with store(tmp_path) as mine:
        mine.append([1], [0])
        reader = us.LabelStore(tmp_path / "labels")
        assert reader.missing([1, 2]).tolist() == [2]
        with pytest.raises(us.UnderstudyError, match="another process"):
            reader.append([2], [0])
        mine.append([2], [1])
        assert reader.missing([1, 2]).tolist() == [] and reader.labels([2]).top1().tolist() == [1]
        mine.compact()
        assert reader.labels([1, 2]).top1().tolist() == [0, 1]
    assert reader.append([3], [2]) == Appended(1, 0, 0)  # the lock is free again
    reader.close()


def test_shards_merged_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.labels import label_shards as contents

    with store(tmp_path) as mine:
        for i in range(3):
            mine.append([i], [i])
        reader, real, merged = us.LabelStore(tmp_path / "labels"), contents.read_shard, []

        def unlucky(*arguments: Any) -> Any:
            if not merged:
                merged.append(True)
                mine.compact()
            return real(*arguments)

        monkeypatch.setattr(contents, "read_shard", unlucky)
        assert reader.labels([2, 0, 1]).top1().tolist() == [2, 0, 1]


def test_a_damaged_shard_is_named_and_can_be_set_aside(tmp_path: Path) -> None:
    with store(tmp_path) as mine:
        for i in range(3):
            mine.append([i], [i])
    bad = shards(tmp_path)[1]
    content = bad.read_bytes()
    for damage in (content[:-7], b"", content[:20] + b"X" + content[21:], content + b"0"):
        bad.write_bytes(damage)
        with pytest.raises(us.UnderstudyError, match=bad.name.split(".")[1]):
            us.LabelStore(tmp_path / "labels")
    assert us.LabelStore.set_aside_damaged(tmp_path / "labels") == [bad.with_name(bad.name + ".damaged")]
    with us.LabelStore(tmp_path / "labels") as mine:
        assert mine.missing([0, 1, 2]).tolist() == [1]
        mine.append([1], [1])
        mine.compact()
        mine.append([3], [0])
        assert us.LabelStore(tmp_path / "labels").labels([0, 1, 2, 3]).top1().tolist() == [0, 1, 2, 0]
    assert us.LabelStore.set_aside_damaged(tmp_path / "labels") == []


def test_a_shard_that_is_gone_is_noticed(tmp_path: Path) -> None:
    with store(tmp_path) as mine:
        for i in range(3):
            mine.append([i], [i])
    first = shards(tmp_path)[0]
    first.unlink()
    with pytest.raises(us.UnderstudyError, match="00000001 is missing") as error:
        us.LabelStore(tmp_path / "labels")
    name = next(word for word in str(error.value).split() if word.endswith(".damaged"))
    (tmp_path / "labels" / name).touch()
    assert us.LabelStore(tmp_path / "labels").missing([0, 1]).tolist() == [0]


def test_a_merge_that_was_killed_before_the_old_shards_went(tmp_path: Path) -> None:
    with store(tmp_path) as mine:
        for i in range(3):
            mine.append([i, 9], [i, i], replace=True)
        kept = {path: path.read_bytes() for path in shards(tmp_path)}
        mine.compact()
    for path, content in kept.items():
        path.write_bytes(content)
    (tmp_path / "labels" / ".00000004-00000004.x.parquet.0123456789abcdef").touch()
    again = us.LabelStore(tmp_path / "labels")
    assert again.labels([0, 1, 2, 9]).top1().tolist() == [0, 1, 2, 2]
    again.append([3], [0])  # the writer clears up
    again.close()
    assert len(shards(tmp_path)) == 2 and not list((tmp_path / "labels").glob(".*.parquet*"))


def test_foreign_things_in_the_folder(tmp_path: Path) -> None:
    with store(tmp_path) as mine:
        mine.append([1], [0])
    (tmp_path / "labels" / "mine.parquet").touch()
    with pytest.raises(us.UnderstudyError, match=r"mine\.parquet is no shard"):
        us.LabelStore(tmp_path / "labels")
    (tmp_path / "labels" / "mine.parquet").unlink()
    settings = tmp_path / "labels" / "store.json"
    for content in ("{", "[]", "{}", json.dumps({"format": 1, "classes": CLASSES, "form": "hard"})):
        settings.write_text(content)
        with pytest.raises(us.UnderstudyError, match=r"store\.json"):
            us.LabelStore(tmp_path / "labels")
    settings.unlink()
    with pytest.raises(us.UnderstudyError, match=r"no store\.json"):
        us.LabelStore(tmp_path / "labels", CLASSES, "hard")


@pytest.mark.parametrize(
    ("ids", "labels", "message"),
    [
        ([1, 2], [0], "2"),
        ([1], [3], "3 classes"),
        ([1], ["cat"], "cat"),
        ([1], [0.5], "whole"),
        ([1], [[0.2, 0.3, 0.5]], "one integer|form 'dense'"),
        ([1], us.Hard([1], [0.5]), "hard_confidence"),
        ([1], us.Soft(torch.tensor([[0.5, 0.5]])), "2 classes"),
        ([1.5], [0], "ids are"),
        ([[1]], [0], "ids are"),
        ([1, "a"], [0, 0], "one kind"),
        (["a"], [0], "whole numbers"),
        (["\ud800"], [0], "valid text"),
        ([2**63], [0], "64-bit|ids are"),
    ],
)
def test_refused(tmp_path: Path, ids: Any, labels: Any, message: str) -> None:
    with store(tmp_path) as mine:
        mine.append([0], [0])
        with pytest.raises(us.UnderstudyError, match=message):
            mine.append(ids, labels)
        assert len(mine) == 1


def test_a_store_keeps_its_classes_and_form(tmp_path: Path) -> None:
    with pytest.raises(us.UnderstudyError, match="no label store"):
        us.LabelStore(tmp_path / "labels")
    with store(tmp_path) as mine:
        mine.append([0], [0])
    for classes, form in ((CLASSES[::-1], None), (["a", "b"], None), (None, "dense"), (None, "soft"), (3, None)):
        with pytest.raises(us.UnderstudyError, match=r"classes|form"):
            us.LabelStore(tmp_path / "labels", classes, form)
    assert us.LabelStore(tmp_path / "numbers", 2, "hard").classes == ("0", "1")
    assert not (tmp_path / "numbers").exists()  # looking makes nothing


def test_teach_fills_a_store_and_goes_on_with_it(tmp_path: Path) -> None:
    x = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    asked: list[float] = []

    def teacher(rows: torch.Tensor) -> torch.Tensor:
        asked.extend(rows[:, 0].tolist())
        if len(asked) == 6:
            raise ConnectionError("gone")
        return torch.cat([rows, rows[:, :1]], 1).softmax(1)

    with store(tmp_path, "dense") as mine:
        with pytest.raises(ConnectionError):
            us.teach(teacher, x, output="probs", ids=range(10), store=mine, batch_size=2, save_every=1)
        assert len(mine) == 4
        found = us.teach(teacher, x, output="probs", ids=range(10), store=mine, batch_size=2, save_every=1)
    assert len(asked) == 6 + 6  # only the batch in flight was asked again
    torch.testing.assert_close(found, us.teach(lambda r: torch.cat([r, r[:, :1]], 1).softmax(1), x))
    with pytest.raises(us.UnderstudyError, match="ids"):
        us.teach(teacher, x, store=us.LabelStore(tmp_path / "labels"))
    with pytest.raises(us.UnderstudyError, match="dense"):
        us.teach(teacher, x, ids=range(10), store=us.LabelStore(tmp_path / "other", CLASSES, "hard"))


def test_the_loop_asks_for_what_is_missing(tmp_path: Path) -> None:
    batches: list[list[int]] = []

    def ask(ids: np.ndarray[Any, Any]) -> list[str]:
        batches.append(ids.tolist())
        return [CLASSES[i % 3] for i in ids]

    with store(tmp_path) as mine:
        mine.append([1, 3], [1, 0])
        assert us.label_missing(mine, range(7), ask, batch=2) == 5
        assert batches == [[0, 2], [4, 5], [6]] and us.label_missing(mine, range(7), ask) == 0
        assert mine.labels(range(7)).top1().tolist() == [0, 1, 2, 0, 1, 2, 0]
        with pytest.raises(us.UnderstudyError, match="batch"):
            us.label_missing(mine, range(9), ask, batch=0)


KILLED = """
import os, random, sys
import understudy as us
from kill_points import forked

KILLS, folder, ids = int(sys.argv[2]), sys.argv[1], [f"row{i}" for i in range(600)]
random.seed(0)

def truth(name):
    return int(name[3:]) % 3

def run(number):
    log = os.open(f"{folder}/asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    def ask(batch):
        os.write(log, "".join(f"{number} {name}\\n" for name in batch.tolist()).encode())
        return [truth(name) for name in batch.tolist()]
    with us.LabelStore(f"{folder}/store", 3, "hard") as store:
        us.label_missing(store, ids, ask, batch=10)

# The first dies at its first write, the others some of the sixty batches on.
for number in range(KILLS):
    kill = ("half written", "not yet renamed", "renamed")[number % 3], random.randint(2, 6) if number else 1
    assert forked(lambda: run(number), kill) is None, f"never came to {kill}"
assert forked(lambda: run(KILLS)) is not None
store = us.LabelStore(f"{folder}/store")
assert len(store) == len(ids) and store.labels(ids).top1().tolist() == [truth(name) for name in ids]
"""


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.torture)])
def test_killed_again_and_again_nothing_is_lost_and_nothing_paid_twice(kills: int, tmp_path: Path) -> None:
    program = Program(KILLED, tmp_path, kills)
    assert program.rest() == "" and program.wait() == 0
    runs: dict[int, list[str]] = {}
    for line in (tmp_path / "asked").read_text().splitlines():
        number, name = line.split()
        runs.setdefault(int(number), []).append(name)
    assert len(runs) == kills + 1  # every kill hit the work
    asked: set[str] = set()
    flight: list[str] = []
    for number in sorted(runs):
        assert len(set(runs[number])) == len(runs[number])
        # Only what was in flight when the last run died is asked again.
        assert asked & set(runs[number]) <= set(flight)
        asked |= set(runs[number])
        flight = runs[number][(len(runs[number]) - 1) // 10 * 10 :]
    assert len(asked) == 600
