"""``us.auto``: the judge against hand-worked and brute-force numbers, and the pilot end to end."""

import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from understudy.comparison.auto import Pilot, _choice, best_features, nested_predictions, run_pilots
from understudy.comparison.candidate_scores import Candidate, choose, score_candidates
from understudy.comparison.candidates import candidates
from understudy.comparison.comparison_options import AutoOptions
from understudy.maths.metric_scores import mean_and_error, row_scores
from understudy.parallel.executors import InProcess
from understudy.reconciling.cross_fitting import CrossFit
from understudy.reconciling.relabel import View
from understudy.report.run_text import choice_reason
from understudy.training import automatic_options
from understudy.training.evaluation import gold_only_options
from understudy.training.options import TrainingOptions

AUTO = sys.modules["understudy.comparison.auto"]  # us.auto is the function


def probabilities(rows: int, skill: float, seed: int = 0, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (rows,), generator=draw)
    logits = torch.randn(rows, classes, generator=draw) + skill * torch.nn.functional.one_hot(y, classes)
    return logits.softmax(1), y


def test_a_teacher_saturated_on_gold_but_not_on_the_pool_takes_nobody_down() -> None:
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 3
    x = torch.randn(200, 4, generator=draw) + 2 * torch.nn.functional.one_hot(y, 4)
    sure = torch.nn.functional.one_hot(y, 3).float()
    soft = (3 * torch.rand(200, 1, generator=draw) * sure).softmax(1)
    gold, pool = us.Gold(x[:40], y[:40], teacher=sure[:40]), us.Pool(x[40:], soft[40:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", us.UnderstudyWarning)  # says that slam is left out, and why
        run = us.auto(
            us.models.linear(4, 3), gold, pool, methods=["slam", "gce"], reconcile=False, folds=2, epochs=1, workers=1,
            progress=False,
        )  # fmt: skip
    assert run.config["auto"]["choice"] in ("gold only", "vanilla", "confident", "gce")


def truth_probability(probs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return row_scores("log_loss", probs, y).exp()


def test_the_temperature_is_the_best_of_a_grid() -> None:
    probs, y = probabilities(200, 2.0)
    sharp = (3 * probs.log()).softmax(1)
    found = truth_probability(sharp, y)
    losses = {}
    for temperature in np.exp(np.linspace(0, 2, 201)):
        losses[temperature] = float(
            torch.nn.functional.nll_loss((sharp.log().double() / temperature).log_softmax(1), y)
        )
    best = min(losses, key=lambda temperature: losses[temperature])
    expected = (sharp.double().log() / best).softmax(1).gather(1, y.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)
    # However sure a candidate is of itself, only its ranking of cases counts.
    torch.testing.assert_close(found, truth_probability(probs, y), atol=1e-3, rtol=0)


def test_rows_not_asked_stay_out() -> None:
    probs, y = probabilities(40, 1.0)
    holes = probs.clone()
    holes[10:] = math.nan
    found = truth_probability(holes, y)
    assert found[10:].isnan().all() and not found[:10].isnan().any()
    judged = score_candidates({"vanilla": probs, "late": holes}, y)["late"]
    assert judged.rows == 10
    assert truth_probability(torch.full((3, 2), math.nan), torch.tensor([0, 1, 0])).isnan().all()


def test_judge_by_hand() -> None:
    # s = √(((−1)² + 0² + 1²) / 2) = 1, error 1 / √3.
    assert mean_and_error(torch.tensor([1.0, 2.0, 3.0])) == pytest.approx((2.0, 1 / math.sqrt(3)))
    assert mean_and_error(torch.tensor([1.0])) == (1.0, math.inf)
    probs, y = probabilities(100, 1.0)
    better, _ = probabilities(100, 2.0)
    found = score_candidates({"vanilla": probs, "better": better}, y)
    right = [(some.argmax(1) == y).double() for some in (better, probs)]
    gains = 0.75 * (truth_probability(better, y) - truth_probability(probs, y)) + 0.25 * (right[0] - right[1])
    assert found["better"].gain == pytest.approx(float(gains.mean()))
    assert found["better"].error == pytest.approx(float(gains.std()) / 10)
    assert found["better"].accuracy == pytest.approx(float((better.argmax(1) == y).double().mean()))
    assert found["vanilla"].gain == 0 and found["vanilla"].accuracy_gain == 0
    assert choose(found) == "better"


def one(method: str, gain: float, error: float, accuracy: float = 0.5) -> Candidate:
    return Candidate(method, 100, accuracy, gain, gain, error)


def test_vanilla_has_the_benefit_of_the_doubt() -> None:
    base = one("vanilla", 0.0, 0.0)
    assert choose({"vanilla": base, "slam": one("slam", 0.03, 0.04)}) == "vanilla"
    assert choose({"vanilla": base, "slam": one("slam", 0.03, 0.01)}) == "slam"
    # A sure gain goes before a larger one that may be luck.
    assert choose({"vanilla": base, "slam": one("slam", 0.03, 0.005), "gce": one("gce", 0.05, 0.04)}) == "slam"
    assert choose({"vanilla": base}) == "vanilla"


def test_gold_alone_must_also_beat_the_teacher_where_only_a_slice_was_seen() -> None:
    gold = us.Gold(torch.randn(10, 2), torch.zeros(10).long(), teacher=torch.tensor([0] * 8 + [1] * 2))
    base = {"vanilla": one("vanilla", 0.0, 0.0), "slam": one("slam", 0.02, 0.01)}
    for accuracy, all_rows, choice in ((0.7, True, "gold only"), (0.7, False, "slam"), (0.9, False, "gold only")):
        judged = {**base, "gold only": one("gold only", 0.1, 0.01, accuracy)}
        assert _choice(judged, gold, all_rows=all_rows) == (choice, "gold only" if choice == "slam" else None)
    unknown = us.Gold(gold.x, gold.y)
    assert _choice({**base, "gold only": one("gold only", 0.1, 0.01, 0.99)}, unknown, all_rows=False)[0] == "slam"
    assert _choice({}, gold, all_rows=True) == ("vanilla", None)


def test_the_figure_is_of_what_is_chosen_without_the_rows_it_is_measured_on() -> None:
    """gce knows the second fold and errs on the first, vanilla knows little: each fold gets what suits the other."""
    fold, y = torch.arange(40) // 20, torch.arange(40) % 2
    right = torch.where(fold == 1, y, 1 - y)
    sure = torch.nn.functional.one_hot(right, 2).double() * 0.8 + 0.1
    known = torch.arange(40) % 3 > 0
    plain = torch.nn.functional.one_hot(torch.where(known, y, 1 - y), 2).double() * 0.2 + 0.4
    gold, predictions = us.Gold(torch.zeros(40, 1), y), {"vanilla": plain, "gce": sure}
    probs, truth = nested_predictions({"": predictions}, gold, fold, all_rows=True)
    correct = probs.argmax(1) == truth
    assert not correct[:20].any(), "gce was chosen on the second fold"
    assert correct[20:].equal(known[20:]), "vanilla was chosen on the first"
    left = {**predictions, "slam": torch.full((40, 2), torch.nan)}
    fold[0] = -1
    kept, _ = nested_predictions({"": left}, gold, fold, all_rows=True)
    assert len(kept) == 39, "neither chosen rows nor dropped methods"


def blobs(noise: float, gold_rows: int = 60) -> tuple[us.Gold, us.Pool, us.Gold]:
    """Three blobs; every wrong label is the next class."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(500) % 3
    x = torch.randn(500, 4, generator=draw) + 2.0 * torch.nn.functional.one_hot(y, 4)
    named = us.Hard(torch.where(torch.rand(500, generator=draw) < noise, (y + 1) % 3, y), classes=3)
    at = [torch.arange(gold_rows), torch.arange(100, 400), torch.arange(400, 500)]
    gold, pool, test = at
    return (
        us.Gold(x[gold], y[gold], teacher=named.take(gold)),
        us.Pool(x[pool], named.take(pool)),
        us.Gold(x[test], y[test]),
    )


def student() -> torch.nn.Module:
    return us.models.mlp(inputs=4, classes=3, hidden=(16,))


FAST: dict[str, Any] = {"epochs": 4, "lr": 0.02, "batch_size": 64, "progress": False, "workers": 1}


def test_the_short_list_suits_the_labels() -> None:
    gold, pool, _ = blobs(0.3)
    assert list(candidates(gold, pool)) == [
        "gold only", "vanilla", "self_distillation", "gce", "slam", "weighted:refresh_every=5", "forward",
    ]  # fmt: skip
    soft = us.Pool(pool.x, torch.rand(300, 3).softmax(1))
    assert "self_distillation" not in candidates(gold, pool, converges=True)
    sources = candidates(gold, pool, sources=True)
    assert list(sources) == ["gold only", "vanilla", "self_distillation", "gce", "forward"]
    assert {"vanilla:hard=true", "confident"} <= set(candidates(us.Gold(gold.x, gold.y), soft))
    assert not {"slam", "forward"} & set(candidates(us.Gold(gold.x, gold.y), soft))
    assert list(candidates(us.Gold(gold.x, gold.y), soft, sources=True)) == list(sources)[:4]


def test_what_is_chosen_is_trained_in_full(tmp_path: Path) -> None:
    gold, pool, test = blobs(0.45)
    run = us.auto(student, gold, pool, test=test, out=tmp_path / "run", **FAST | {"epochs": 12, "seed": 1})
    said = run.config["auto"]
    assert said["choice"] == "reconciled" and said["pilot_rows"] == 300
    rows = {one["method"]: one for one in said["candidates"]}
    assert rows["vanilla"]["rows"] == 60 and rows["vanilla"]["gain"] < -rows["vanilla"]["error"]
    assert {"teacher confusion", "neighbours", "linear", "gold only"} <= {one["name"] for one in said["sources"]}
    plain = us.train(student, gold, pool, us.vanilla(), test=test, epochs=12, lr=0.02, batch_size=64, progress=False)
    assert run.history[-1]["test_accuracy"] > plain.history[-1]["test_accuracy"] + 0.05
    assert us.Run.load(tmp_path / "run").config["auto"] == said
    # The pilot has seen the whole pool, and made the labels that the method makes by itself from the same members.
    assert run.facts["reconciled.log_loss"] < 0.5
    right = run.columns["reconciled.label"] == (torch.arange(100, 400) % 3)
    wrong = pool.teacher is not None and pool.teacher.top1() == (torch.arange(100, 400) % 3)
    assert right.double().mean() > torch.as_tensor(wrong).double().mean() + 0.2


def test_without_reconciling_one_method_is_chosen() -> None:
    gold, pool, test = blobs(0.45)
    run = us.auto(student, gold, pool, reconcile=False, evaluate=True, **FAST)
    said = run.config["auto"]
    assert run.temperature == said["calibration"]["temperature"] != 1 and said["calibration"]["before"]["rows"] == 60
    rows = {one["method"]: one for one in said["candidates"]}
    assert said["choice"] not in ("vanilla", "reconciled") and not said["sources"]
    assert rows[said["choice"]]["gain"] > rows[said["choice"]]["error"]
    alone = said["choice"] == "gold only"
    again = us.train(
        student, gold, None if alone else pool, candidates(gold, pool)[said["choice"]], epochs=4, lr=0.02, test=test,
        batch_size=64, progress=False, gold_repeat=6 if alone else 1,
    )  # fmt: skip
    assert again.history[-1]["loss"] == run.history[-1]["loss"]


def test_stopped_anywhere_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, test = blobs(0.45)
    told: Any = {"test": test, **FAST}
    whole = us.auto(student, gold, pool, out=tmp_path / "whole", **told)
    done, real = [], CrossFit.predict_part

    def predict_part(self: CrossFit, part: tuple[str, tuple[int, ...]]) -> Any:
        if len(done) > 5:
            raise KeyboardInterrupt
        done.extend((part[0], number) for number in part[1])
        return real(self, part)

    monkeypatch.setattr(CrossFit, "predict_part", predict_part)
    with pytest.raises(KeyboardInterrupt):
        us.auto(student, gold, pool, out=tmp_path / "run", **told)
    assert len(list((tmp_path / "run" / "pilot" / "parts").iterdir())) == len(done) == 8
    with pytest.raises(us.UnderstudyError, match="go on with resume=True"):
        us.auto(student, gold, pool, out=tmp_path / "run", **told)
    with pytest.raises(us.UnderstudyError, match="was begun with another recipe"):
        us.auto(student, gold, pool, out=tmp_path / "run", resume=True, **told | {"lr": 0.5})
    again: list[Any] = []
    monkeypatch.setattr(CrossFit, "predict_part", lambda self, part: again.append(part) or real(self, part))
    stopping = AUTO.train_method

    def stop(*parts: Any, **options: Any) -> us.Run:
        raise KeyboardInterrupt

    monkeypatch.setattr(AUTO, "train_method", stop)
    with pytest.raises(KeyboardInterrupt):
        us.auto(student, gold, pool, out=tmp_path / "run", resume=True, **told)
    monkeypatch.setattr(AUTO, "train_method", stopping)
    assert ("reconciled", (0, 1, 2, 3)) in again, "its folds are trained together"
    assert not {(name, number) for name, numbers in again for number in numbers} & set(done)
    again.clear()
    resumed = us.auto(student, gold, pool, out=tmp_path / "run", resume=True, **told)
    assert not again and resumed.config["auto"] == whole.config["auto"]
    states = [(tmp_path / name / "student.safetensors").read_bytes() for name in ("run", "whole")]
    assert states[0] == states[1]
    assert not (tmp_path / "run" / "pilot").exists()
    finished = us.auto(student, gold, pool, out=tmp_path / "run", resume=True, **told)
    assert not again and finished.history == resumed.history


def _pilot(gold: us.Gold, pool: us.Pool, folder: Path | None = None) -> Pilot:
    own = AutoOptions(folds=4, pilot_rows=300, reconcile=False)
    return Pilot(View(student, gold, pool, {}), {"vanilla": us.vanilla()}, TrainingOptions(epochs=1), own, folder)


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    gold, pool, _ = blobs(0.3)
    pilot = _pilot(gold, pool, tmp_path)
    pilot.base_models.run(InProcess())
    (part, *_) = sorted((tmp_path / "parts").iterdir())
    part.write_bytes(part.read_bytes()[:-200])
    with pytest.raises(us.UnderstudyError, match=f"{part.name} cannot be read .* remove it"):
        pilot.base_models.run(InProcess())
    np.save(part, np.zeros((2, 3)))
    with pytest.raises(us.UnderstudyError, match="is damaged"):
        pilot.base_models.run(InProcess())


def test_the_choice_in_words() -> None:
    def run(auto: Any) -> us.Run:
        return us.Run(student=student(), history=[], columns={}, config={"auto": auto} if auto else {}, facts={})

    rows = [
        {"method": name, "rows": 60, "gain": gain, "error": 0.01, "accuracy_gain": -gain}
        for name, gain in (("vanilla", 0.0), ("slam", 0.051))
    ]
    said = {"choice": "slam", "ruled_out": None, "pilot_rows": 5000, "candidates": rows}
    where = ", cross-validated on 60 gold rows in a pilot on 5,000 pool rows"
    assert choice_reason(run(None)) is None
    assert choice_reason(run(said)) == f"slam: score +5.1 ± 1.0 points over vanilla (accuracy −5.1){where}"
    vanilla = said | {"choice": "vanilla"}
    assert choice_reason(run(vanilla)) == f"vanilla: no other method is significantly better{where}"
    assert "; gold only was ahead, but not more accurate than the teacher" in str(
        choice_reason(run(vanilla | {"ruled_out": "gold only"}))
    )
    weights = [{"name": "gce", "weight": 0.5}, {"name": "linear", "weight": 0.0}]
    rows = [*rows, rows[0] | {"method": "reconciled"}]
    reconciled = said | {"choice": "reconciled", "candidates": rows, "sources": weights}
    assert choice_reason(run(reconciled)) == (
        f"reconciled: no other method is significantly better{where}; weights: gce 0.50"
    )
    assert "over reconciled" in str(choice_reason(run(reconciled | {"choice": "slam"})))
    assert choice_reason(run(said | {"candidates": []})) == "slam, because gold has too few rows to choose a method on"


def test_a_pilot_that_fails_at_once_leaves_nothing(tmp_path: Path) -> None:
    gold, pool, _ = blobs(0.3)
    with pytest.raises(us.UnderstudyError, match=r"gold only, trained without .*: device 'nowhere' is unknown"):
        us.auto(student, gold, pool, out=tmp_path / "run", **FAST | {"device": "nowhere"})
    assert not (tmp_path / "run").exists()
    us.auto(student, gold, pool, out=tmp_path / "run", folds=np.int64(4), **FAST)  # type: ignore[arg-type]
    with pytest.raises(us.UnderstudyError, match="begun with another folds"):
        us.auto(student, gold, pool, out=tmp_path / "run", folds=3, resume=True, **FAST)


def test_gold_alone_sees_as_many_rows_as_the_others() -> None:
    """50 gold rows; of the 300 pool rows 100 have a label."""
    gold, pool, _ = blobs(0.3, gold_rows=50)
    assert isinstance(pool.teacher, us.Hard)
    labels = pool.teacher.labels.clone()
    labels[100:] = -1
    some, few = us.Pool(pool.x, us.Hard(labels)), pool.take(torch.arange(20))
    for repeat, unlabelled, passes in ((1, some, 3), (10, some, 12), (0, few, 1)):
        assert gold_only_options(TrainingOptions(epochs=1, gold_repeat=repeat), gold, unlabelled).gold_repeat == passes


def test_votes_may_be_weighed_by_gold() -> None:
    gold, pool, _ = blobs(0.2)
    assert isinstance(gold.teacher, us.Hard) and isinstance(pool.teacher, us.Hard)
    three = [
        torch.stack([part.labels, part.labels, -torch.ones_like(part.labels)], 1)
        for part in (gold.teacher, pool.teacher)
    ]
    voted = [us.Votes(votes, 3, by="gold") for votes in three]
    run = us.auto(student, us.Gold(gold.x, gold.y, teacher=voted[0]), us.Pool(pool.x, voted[1]), **FAST)
    assert {one["method"] for one in run.config["auto"]["candidates"]} >= {"gold only", "reconciled", "gce"}


def test_good_labels_stay_with_vanilla() -> None:
    gold, pool, _ = blobs(0.0)
    run = us.auto(student, gold, pool, methods=["slam", "forward"], reconcile=False, **FAST)
    assert run.config["auto"]["choice"] == "vanilla"


def test_the_pilot_asks_about_every_gold_row_once_and_never_about_chosen_ones() -> None:
    gold, pool, _ = blobs(0.3)
    gold.chosen[:12] = True
    pilot = _pilot(gold, pool)
    predictions, _ = run_pilots({"": pilot}, InProcess())
    assert score_candidates(predictions[""], gold.y)["vanilla"].rows == 48
    folds = [pilot.base_models.fold(number) for number in range(4)]
    assert sum(len(fold.held_out) for fold in folds) == 48 and (pilot.base_models.gold_fold[:12] == -1).all()
    for fold in folds:
        assert len(fold.gold) + len(fold.held_out) == 60 and int(fold.gold.chosen.sum()) == 12
        assert len(fold.training_rows) == 225


def _linear() -> torch.nn.Module:
    return us.models.linear(4, 3)


@pytest.mark.parametrize("sources_only", [False, True])
def test_sources_may_see_other_features_than_the_student(tmp_path: Path, sources_only: bool) -> None:
    """The main features are the first of four, which tell little; the others are all four."""
    gold, pool, test = blobs(0.3)
    first = torch.tensor([1.0, 0.0, 0.0, 0.0])
    poor_gold, poor_pool = us.Gold(gold.x * first, gold.y, gold.teacher), us.Pool(pool.x * first, pool.teacher)
    options = {"epochs": 5, "optimizer": "lbfgs", "weight_decay": 0.01, "seed": 0}
    view = View(_linear, gold, pool, options, test, None, sources_only)
    own = {"methods": ["gce"], "folds": 2, "workers": 1, "progress": False}
    taken: list[str] = []

    def auto(**more: Any) -> us.Run:
        return us.auto(
            _linear, poor_gold, poor_pool, test=us.Gold(test.x * first, test.y), features="poor",
            others={"rich": view}, on_features=taken.append, **own, **options, **more,
        )  # fmt: skip

    run = auto(out=tmp_path / "run")
    decision = run.config["auto"]
    assert taken == ["poor" if sources_only else "rich"] == [decision["features"]]
    names = {source["name"]: source["weight"] for source in decision["sources"]}
    assert {"vanilla", "gce", "vanilla (rich)", "gce (rich)", "neighbours (rich)"} <= names.keys()
    rich = sum(weight for name, weight in names.items() if name.endswith("(rich)"))
    assert rich > 1.5 * sum(weight for name, weight in names.items() if name[-1] != ")" and "teacher" not in name)
    if not sources_only:
        assert decision["by_features"]["rich"] > decision["by_features"]["poor"] + 0.1
        assert float((run.predict(test.x).argmax(1) == test.y).float().mean()) > 0.8
    assert auto(out=tmp_path / "run", resume=True).config["auto"] == decision
    with pytest.raises(us.UnderstudyError, match=r"another gold \(rich\)"):
        view = View(_linear, poor_gold, pool, options, None, None, sources_only)
        auto(out=tmp_path / "run", resume=True)


def test_the_best_features_by_hand() -> None:
    """Both right on 3 of 4 rows; the second is surer, at its best temperature too."""
    y = torch.tensor([0, 0, 1, 1])
    flat = torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.4, 0.6], [0.6, 0.4]])
    sure = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.51, 0.49]])
    found = {"a": {"reconciled": flat}, "b": {"reconciled": sure, "vanilla": flat}}
    assert best_features(found, y) == "b"
    assert best_features({"a": found["a"], "c": {"reconciled": flat, "vanilla": sure}}, y) == "a"
    assert best_features({"a": found["a"], "c": {"vanilla": sure}}, y) == "c"


def test_too_little_gold_is_said() -> None:
    gold, pool, _ = blobs(0.3, gold_rows=12)
    with pytest.warns(us.UnderstudyWarning, match="12 gold rows are too few to choose a method on"):
        run = us.auto(student, gold, pool, **FAST)
    assert run.config["auto"]["choice"] == "vanilla"


def test_mistakes() -> None:
    gold, pool, _ = blobs(0.3)
    with pytest.raises(TypeError, match="unknown option 'learning_rate' of auto"):
        us.auto(student, gold, pool, epochs=1, learning_rate=1)  # type: ignore[call-arg]
    with pytest.raises(us.UnderstudyError, match="auto needs gold and a pool"):
        us.auto(student, None, pool, epochs=1)  # type: ignore[arg-type]
    with pytest.raises(us.UnderstudyError, match="pilot_rows=0"):
        us.auto(student, gold, pool, epochs=1, pilot_rows=0)
    with pytest.raises(us.UnderstudyError, match="workers=0"):
        us.auto(student, gold, pool, epochs=1, workers=0)
    with pytest.raises(us.UnderstudyError, match="epochs=0 must be"):
        us.auto(student, gold, pool, epochs=1, pilot_epochs=0, workers=1)
    with pytest.warns(us.UnderstudyWarning, match=r"60 gold rows are too few .* \(61 or more are needed\)"):
        us.auto(student, gold, pool, folds=61, **FAST)


def test_the_penalty_of_the_pilot_is_not_chosen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once on gold alone and once with the pool; the final training takes the one that its candidate had."""
    gold, pool, _ = blobs(0.3)
    chosen: list[float] = []
    choose = automatic_options.choose_c

    def noted(*given: Any, **options: Any) -> Any:
        chosen.append(choose(*given, **options)[0])
        return choose(*given, **options)

    monkeypatch.setattr(automatic_options, "choose_c", noted)
    given: dict[str, Any] = {"methods": ["gce"], "reconcile": False, "workers": 1, "progress": False}
    run = us.auto("linear", gold, pool, **given)
    choice, penalty = run.config["auto"]["choice"], run.config["chosen_penalty"]
    assert len(chosen) == 2 and penalty["c"] == chosen[choice != "gold only"] and penalty["losses"]
    assert penalty == run.config["auto"]["chosen_penalty"]
    rows = len(gold) + (0 if choice == "gold only" else len(pool))
    assert run.config["weight_decay"] == us.l2_of_c(penalty["c"], rows, 3)
