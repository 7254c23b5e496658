"""What stands first on a run's page: how good it is, compared with what, whether to trust it, what next."""

from pathlib import Path
from typing import Any

import pytest
import torch

import understudy as us
from understudy.report.answers import answers, standing
from understudy.report.page import OF_SOURCES, curves_read, name_facts, write_run_report
from understudy.training.held_out import ask_held_out
from understudy.training.options import TrainingOptions


def a_run(accuracy: float | None = None, **config: Any) -> us.Run:
    measured = {} if accuracy is None else {"test_accuracy": accuracy, "test_ece": 0.0421, "test_worst_class": 0.5}
    return us.Run(us.models.linear(1, 2), [{"epoch": 1, "loss": 0.5, **measured}], {}, config=config)


def some_gold(rows: int, right: int | None = None) -> us.Gold:
    """Three quarters are class 1; the teacher is right on the first ``right`` rows."""
    y = torch.arange(rows).remainder(4).clamp(max=1)
    said = None if right is None else torch.where(torch.arange(rows) < right, y, 1 - y)
    return us.Gold(torch.zeros(rows, 1), y, teacher=said)


def said(run: us.Run, **given: Any) -> dict[str, str]:
    warnings = given.pop("warnings", ())
    return {question: " ".join(lines) for question, lines in answers(run, standing(run, **given), warnings)}


def test_on_test_rows() -> None:
    """180 of 200: Clopper and Pearson's interval is 85.0 to 93.8 (R's binom.test); the teacher is right on 150."""
    told = said(
        a_run(0.9, class_names=["no", "yes"]), gold=some_gold(20), test=some_gold(200, 150), warnings=["so", "so"]
    )
    assert "90.0% (95% interval 85.0 to 93.8) of 200 test rows, which no training saw" in told["How good is it?"]
    assert "the most frequent class (yes): 75.0%" in told["Compared with what?"]
    assert "The teacher: 75.0% (95% interval 68.4 to 80.8) of the same rows." in told["Compared with what?"]
    assert "±4 points" in told["Can I trust it?"] and "4.2 points" in told["Can I trust it?"]
    assert "are 2 warnings" in told["Can I trust it?"]
    # ± 4.40 points to ± 3: 200 · (4.40 / 3)² = 430, 230 more.
    assert "About 230 more test rows" in told["What next?"] and "understudy predict" in told["What next?"]


def test_a_student_at_chance_is_not_to_be_used() -> None:
    told = said(a_run(0.76), gold=some_gold(20), test=some_gold(200, 190))
    assert "not surely better than naming the most frequent class" in told["Compared with what?"]
    assert "The teacher is better: wherever it can be asked, take its word." in told["Compared with what?"]
    assert "Do not use it yet" in told["What next?"] and "understudy predict" not in told["What next?"]


@pytest.mark.parametrize(
    ("mine", "others", "verdict"),
    [
        (8, 0, "The pool helps: 8 rows only this student has right, 0 only training on gold alone."),
        (0, 8, "Training on gold alone is better: 0 rows only this student has right, 8 only training on gold alone."),
        (
            5,
            0,
            "The pool is not shown to help: 5 rows only this student has right, 0 only training on gold alone, which",
        ),
    ],
)
def test_gold_alone_on_the_same_rows(mine: int, others: int, verdict: str) -> None:
    """A coin falls 8 to 0, one way or the other, with p = 2/2⁸ = 0.008, and 5 to 0 with 0.06."""
    right, alone = torch.ones(40, dtype=torch.bool), torch.ones(40, dtype=torch.bool)
    alone[:mine], right[40 - others :] = False, False
    told = said(a_run(), gold=some_gold(40), right=right, gold_only=alone)
    assert "of 40 gold rows, each asked of a student trained without it" in told["How good is it?"]
    assert verdict in told["Compared with what?"] and "of the same rows" in told["Compared with what?"]


def test_what_a_pilot_saw() -> None:
    seen = [{"method": "slam", "rows": 40, "accuracy": 0.85}, {"method": "gold only", "rows": 40, "accuracy": 0.9}]
    run = a_run(auto={"choice": "slam", "candidates": seen})
    told = said(run, gold=some_gold(40))
    assert "85.0%" in told["How good is it?"] and "Training on gold alone is as good" in told["Compared with what?"]
    seen[1]["rows"] = 10
    assert "gold alone" not in said(run, gold=some_gold(40))["Compared with what?"], "it left the race"


def test_nothing_is_known_without_rows() -> None:
    told = said(a_run(), gold=some_gold(8))
    assert "Nobody can say" in told["How good is it?"] and "--test" in told["What next?"]


def test_rows_are_asked_of_students_that_did_not_see_them() -> None:
    """A student that learns its rows by heart knows none of those held out: the sign is drawn for each row."""
    draw = torch.Generator().manual_seed(0)
    x = torch.eye(40)
    y = torch.randint(2, (40,), generator=draw)
    gold, recipe = us.Gold(x, y), TrainingOptions(epochs=60, lr=0.1)
    build = lambda: us.models.linear(40, 2)  # noqa: E731
    student = us.train(build, gold, None, us.vanilla(), epochs=60, lr=0.1, progress=False).student
    assert us.evaluate(student, gold)["accuracy"] == 1.0
    right = ask_held_out(build, gold, None, us.vanilla(), recipe)
    assert right is not None and len(right) == 40 and float(right.double().mean()) < 0.8
    assert ask_held_out(build, gold.take(torch.arange(19)), None, us.vanilla(), recipe) is None


def test_curves_are_explained_as_they_are() -> None:
    plain, tested = curves_read([{"loss": 1.0}]), curves_read([{"loss": 1.0, "test_accuracy": 0.5}])
    assert "loss that still falls" in plain and "rises" not in plain and "rows that do not train" in plain
    assert "accuracy that still rises" in tested


def test_facts_are_words() -> None:
    facts = {"class_shift": 0.1234, "class_shift_p": 0.00017, "debias.mean_weight": 0.5, "mean_weight": 0.25}
    facts |= {"mean_alpha": 0.9, "slam.mean_alpha": 0.9, "train_seconds": 3.14159, "finetuned_test_loss": 1.0}
    assert name_facts(facts) == [
        ("Share of rows by which the teacher's classes differ between gold and pool", "12.3%"),
        ("Chance of so large a difference by luck", "under 0.1%"),
        ("Mean weight of a pool row by debias", "0.5"),
        ("Mean weight of a pool row", "0.25"),
        ("Teacher's accuracy on the pool, as estimated from gold (mean α)", "90.0%"),
        ("Seconds in all", "3.1"),
    ]


@pytest.mark.filterwarnings("ignore::understudy.errors.UnderstudyWarning")
def test_no_fact_of_a_method_is_a_raw_name() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=draw)
    y = (x[:, 0] > 0).long()
    chance = torch.sigmoid(3 * x[:, 0] + torch.randn(60, generator=draw))
    probs = torch.stack([1 - chance, chance], 1)
    gold, pool = us.Gold(x[:30], y[:30], teacher=probs[:30]), us.Pool(x[30:], probs[30:])
    needed: dict[str, list[Any]] = {"oracle": [y[30:]], "class_ratio": [[0.5, 0.5]]}
    for name, method in us.METHODS.items():
        objective = method(*needed.get(name, []))
        student = us.models.mlp(3, 2, hidden=(4,))
        run = us.train(student, gold, pool, objective, epochs=1, pretrain_epochs=1, progress=False)
        shown = name_facts({fact: value for fact, value in run.facts.items() if not fact.startswith(OF_SOURCES)})
        assert all(words[0].isupper() and "_" not in words for words, _ in shown), (name, shown)


def test_the_answers_come_first_and_the_rest_is_folded(tmp_path: Path) -> None:
    test = some_gold(200, 150)
    run = a_run(0.9)
    write_run_report(tmp_path / "r.html", run, gold=some_gold(20), found=standing(run, test=test), warnings=["careful"])
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    first, fold = text.index("How good is it?"), text.index("<details>")
    assert text.index("<h1>") < first < text.index("careful") < fold < text.index("<h2>Result")
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>")
