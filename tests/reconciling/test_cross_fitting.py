"""Who is asked about what: nobody about rows it learned from, every row once; parts that are kept; who may fail."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import understudy as us
from three_blobs import CLASSES, RECIPE, student, world
from understudy.parallel.executors import InProcess
from understudy.reconciling import cross_fitting
from understudy.reconciling.base_models import Fold, TrainedModel
from understudy.reconciling.cross_fitting import CrossFit
from understudy.reconciling.relabel import default_base_models
from understudy.training.options import TrainingOptions

HERE = InProcess()


@dataclass
class Told:
    """A member that says what it is told to, by the fold it is asked in."""

    say: Callable[[Fold], Tensor]

    def predict_out_of_fold(self, folds: Sequence[Fold]) -> list[Tensor]:
        return [self.say(fold) for fold in folds]


def number(fold: Fold) -> Tensor:
    """Its fold's number, everywhere."""
    return torch.full((len(fold.held_out) + len(fold.pool), CLASSES), float(fold.number))


def crossfit(gold: us.Gold, pool: us.Pool, members: dict[str, Any], **options: Any) -> CrossFit:
    return CrossFit(student, gold, pool, members, RECIPE, CLASSES, **{"folds": 4, "needed": ()} | options)


def test_no_member_learns_from_rows_it_is_asked_about() -> None:
    gold, pool, _ = world(ids=torch.arange(60))
    pool = us.Pool(pool.x, pool.teacher, ids=torch.arange(100, 400))
    fitted = crossfit(gold, pool, {})
    asked: list[int] = []
    for each in (fitted.fold(number) for number in range(4)):
        assert gold.ids is not None and each.gold.ids is not None and each.held_out.ids is not None
        assert not set(each.gold.ids) & set(each.held_out.ids)
        assert set(each.gold.ids) | set(each.held_out.ids) == set(gold.ids)
        mine = (fitted.pool_fold == each.number).nonzero().squeeze(1)
        assert not set(each.training_rows.tolist()) & set(mine.tolist())
        learned = each.pool.take(each.training_rows)
        assert learned.ids is not None and set(learned.ids) == {100 + row for row in each.training_rows.tolist()}
        asked += each.held_out.ids.tolist()
    assert sorted(asked) == list(range(60))
    counts = torch.bincount(fitted.pool_fold)
    assert counts.tolist() == [75] * 4
    # Not stratified: the rows that train say nothing about the held-out ones.
    held_out = [torch.bincount(fitted.fold(k).held_out.y).tolist() for k in range(4)]
    assert all(sum(counts) == 15 for counts in held_out) and held_out != [[5, 5, 5]] * 4


def test_a_pool_row_has_its_own_folds_word_and_a_row_that_trains_nobody_the_mean() -> None:
    gold, pool, _ = world()
    assert isinstance(pool.teacher, us.Hard)
    named = pool.teacher.labels.clone()
    named[::5] = -1
    pool = us.Pool(pool.x, us.Hard(named, classes=CLASSES))
    fitted = crossfit(gold, pool, {"told": Told(number)}, rows=100)
    assert int((fitted.pool_fold >= 0).sum()) == 100 and bool((fitted.pool_fold[::5] == -1).all())
    said = fitted.run(HERE)
    expected = torch.where(fitted.pool_fold < 0, 1.5, fitted.pool_fold.float())  # (0 + 1 + 2 + 3) / 4
    torch.testing.assert_close(said.pool["told"], expected.unsqueeze(1).expand(-1, CLASSES))
    torch.testing.assert_close(said.gold["told"][:, 0], fitted.gold_fold.float())
    assert [float(words[0, 0]) for words in said.by_fold["told"]] == [0, 1, 2, 3]


def test_chosen_rows_train_and_are_never_asked_about() -> None:
    chosen = torch.arange(60) < 12
    gold, pool, _ = world(chosen=chosen)
    fitted = crossfit(gold, pool, {"told": Told(number)})
    said = fitted.run(HERE).gold["told"]
    assert said[:12].isnan().all() and not said[12:].isnan().any() and len(fitted.evaluation_rows) == 48
    assert all(int(fitted.fold(k).gold.chosen.sum()) == 12 for k in range(4))


def test_rows_that_estimate_only_are_asked_about() -> None:
    gold, pool, _ = world(estimate_only=torch.arange(60) < 30)
    assert not crossfit(gold, pool, {"told": Told(number)}).run(HERE).gold["told"].isnan().any()


KINDS = ("plain", "twice in gold", "in the pool", "estimate only", "chosen")


@pytest.mark.parametrize(
    ("form", "kind"),
    [*((form, "plain") for form in ("hard", "topk", "votes")), *product(("soft", "votes by gold"), KINDS)],
)
def test_the_truth_of_a_row_changes_nothing_that_is_predicted_of_its_fold(form: str, kind: str) -> None:
    """Bit for bit, by every base model: also of a row that stands twice in gold, or in the pool under another id."""
    marked = {"estimate only": "estimate_only", "chosen": "chosen"}.get(kind)
    gold, pool, _ = world(form.partition(" ")[0], **{} if marked is None else {marked: torch.arange(60) % 3 == 0})
    if kind == "twice in gold":
        gold.x[1::2] = gold.x[::2].clone()
    elif kind == "in the pool":
        pool.x[:60] = gold.x
    for part in (gold, pool) if form == "votes by gold" else ():
        assert part.teacher is not None
        part.teacher = us.Votes(part.teacher.answers(), CLASSES, by="gold")
    predicted, row = [], 7
    for y in (gold.y, torch.where(torch.arange(60) == row, (gold.y + 1) % CLASSES, gold.y)):
        gold.y = y
        fitted = crossfit(gold, pool, default_base_models(gold, pool, CLASSES, RECIPE))
        predicted.append((fitted.gold_fold, fitted.run(HERE)))
    (fold, one), (same, other) = predicted
    assert same.equal(fold) and len(one.gold) == len(other.gold) >= 6
    mine, number = fold == fold[row], int(fold[row])
    for name, probs in one.gold.items():
        assert probs[mine].equal(other.gold[name][mine]), name
        assert np.array_equal(one.by_fold[name][number], other.by_fold[name][number]), name
    assert not one.gold["gold only"][~mine].equal(other.gold["gold only"][~mine]), "others learn from it"


def test_memorised_labels_reach_nobody_who_is_asked_about_them() -> None:
    """Truth and labels are random: whoever is right about them more often than a guess has seen them."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(300, 100, generator=draw)  # enough columns to know every row by
    y = torch.randint(CLASSES, (300,), generator=draw)
    gold = us.Gold(x[:150], y[:150], us.Hard(y[:150], classes=CLASSES))
    pool = us.Pool(x[150:], us.Hard(y[150:], classes=CLASSES))
    recipe = TrainingOptions(epochs=2, optimizer="lbfgs")
    members = {"gold only": TrainedModel(us.vanilla(), gold_only=True), "vanilla": TrainedModel(us.vanilla())}
    fitted = CrossFit(us.models.linear(100, CLASSES), gold, pool, members, recipe, CLASSES)
    said = fitted.run(HERE)
    for name in members:
        for words, truth in ((said.gold[name], gold.y), (said.pool[name], y[150:])):
            assert float((words.argmax(1) == truth).double().mean()) < 0.45, name
    # Where it learned from the row, it knows it.
    learned = fitted.fold(0).training_rows
    seen = said.by_fold["vanilla"][0][learned].argmax(1) == y[150:][learned]
    assert float(seen.double().mean()) > 0.7


def test_who_fails_is_left_out_with_a_word_and_whoever_is_needed_ends_it() -> None:
    gold, pool, _ = world()

    def fails(fold: Fold) -> Tensor:
        if fold.number == 1:
            raise us.UnderstudyError("no class 2 here")
        return number(fold)

    members = {"weak": Told(fails), "told": Told(number)}
    with pytest.warns(us.UnderstudyWarning, match="weak is left out: trained without a part of gold, no class 2 here"):
        said = crossfit(gold, pool, members).run(HERE)
    assert list(said.pool) == ["told"] and list(said.by_fold) == ["told"]
    with pytest.raises(us.UnderstudyError, match="weak, trained without a part of gold: no class 2 here"):
        crossfit(gold, pool, members, needed=("weak",)).run(HERE)


@pytest.mark.parametrize("together", [False, True])
def test_folds_are_asked_for_together_where_they_train_in_step(together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, _ = world()
    monkeypatch.setattr(cross_fitting, "can_stack", lambda *given: together)
    members = {name: Told(number) for name in ("one", "other")}
    asked, real = [], CrossFit.predict_part
    monkeypatch.setattr(CrossFit, "predict_part", lambda self, part: asked.append(part) or real(self, part))
    crossfit(gold, pool, members).run(HERE)
    folds = [(0, 1, 2, 3)] if together else [(0,), (1,), (2,), (3,)]
    assert asked == [(name, each) for name in members for each in folds]


def test_finished_parts_are_kept_and_of_other_work_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, _ = world()
    asked: list[int] = []
    monkeypatch.setattr(cross_fitting, "can_stack", lambda *given: False)

    def counted(fold: Fold) -> Tensor:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(fold.number)
        return number(fold)

    member = Told(counted)
    with pytest.raises(KeyboardInterrupt):
        crossfit(gold, pool, {"told": member}, folder=tmp_path).run(HERE)
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["told-0.npy", "told-1.npy"]
    asked[:] = []
    member.say = counted
    fitted = crossfit(gold, pool, {"told": member}, folder=tmp_path)
    with pytest.raises(us.UnderstudyError, match="another folds"):
        replace(fitted, folds=3).run(HERE)
    with pytest.raises(us.UnderstudyError, match="another student"):
        replace(fitted, student=us.models.linear(4, 3)).run(HERE)
    with pytest.raises(us.UnderstudyError, match="another pool"):
        replace(fitted, pool=pool.take(torch.arange(20))).run(HERE)
    one, other = tmp_path / "parts" / "told-0.npy", tmp_path / "parts" / "told-1.npy"
    whole, theirs = one.read_bytes(), other.read_bytes()
    for wrong in (theirs, whole[:-40] + b"\x01" + whole[-39:], whole[:-1], whole[:-32], whole + b"\n"):
        one.write_bytes(wrong)
        with pytest.raises(us.UnderstudyError, match=r"told-0\.npy .*remove it to run that part again"):
            fitted.run(HERE)
    one.write_bytes(whole)
    said = fitted.run(HERE)
    assert asked == [2, 3]
    whole = crossfit(gold, pool, {"told": Told(number)}).run(HERE)
    assert said.pool["told"].equal(whole.pool["told"]) and said.gold["told"].equal(whole.gold["told"])


def test_all_base_models_have_a_penalty_chosen_on_gold(tmp_path: Path) -> None:
    gold, pool, _ = world()
    recipe = replace(RECIPE, optimizer="lbfgs", weight_decay="auto")
    linear = us.models.linear(4, CLASSES)
    told = {"told": Told(lambda fold: torch.full_like(number(fold), fold.c[1] if fold.c else -1.0))}
    first = CrossFit(linear, gold, pool, told, recipe, CLASSES, folder=tmp_path, needed=())
    said = first.run(HERE)
    assert first.c is not None and first.c[1] > 0 and (said.pool["told"] == first.c[1]).all()
    again = replace(first, c=None)
    again.run(HERE)
    assert again.c == first.c and again.chosen_penalties == first.chosen_penalties


def test_what_fails_before_its_first_part_leaves_nothing(tmp_path: Path) -> None:
    gold, pool, _ = world()

    def fails(fold: Fold) -> Tensor:
        raise us.UnderstudyError("no")

    with pytest.raises(us.UnderstudyError):
        crossfit(gold, pool, {"told": Told(fails)}, needed=("told",), folder=tmp_path / "parts").run(HERE)
    assert not (tmp_path / "parts").exists()
    with pytest.raises(us.UnderstudyError, match="rows=0 must be at least 1"):
        crossfit(gold, pool, {}, rows=0)


def test_what_fails_at_once_leaves_the_files_of_others(tmp_path: Path) -> None:
    gold, pool, _ = world()
    (tmp_path / "thesis.txt").write_text("mine")

    def fails(fold: Fold) -> Tensor:
        raise us.UnderstudyError("no")

    with pytest.raises(us.UnderstudyError, match="no"):
        crossfit(gold, pool, {"fails": Told(fails)}, needed=("fails",), folder=tmp_path).run(HERE)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
