"""The sentences about a run: its accuracy, baselines, uncertainty and next steps; and its facts by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import understudy as us
from understudy.maths.proportions import Share, exact, widen
from understudy.report.run_page import run_parts, write_run_report
from understudy.report.run_text import name_facts, result_lines, summary
from understudy.report.templates import percent_range, sentences
from understudy.training.evaluation import Evaluation, StudentCalibration


def a_run(evaluation: Evaluation | None = None, accuracy: float | None = None, **config: Any) -> us.Run:
    measured = {} if accuracy is None else {"test_accuracy": accuracy, "test_ece": 0.0421, "test_worst_class": 0.5}
    history = [{"epoch": 1, "loss": 0.5, **measured}]
    return us.Run(us.models.linear(1, 2), history, {}, config=config, evaluation=evaluation)


def on_test(hits: int, teacher: int) -> Evaluation:
    """200 test rows, three quarters of them of class 1."""
    return Evaluation(exact(hits, 200), "test", 1, 0.75, exact(teacher, 200), "test")


def text_of(run: us.Run, warnings: list[str] | None = None) -> dict[str, str]:
    return {heading: " ".join(sentences) for heading, sentences in summary(run, warnings or [])}


def test_on_a_test_set() -> None:
    """180 of 200: the mid-P interval is 85.2 to 93.6, Clopper and Pearson's 85.0 to 93.8 (R's binom.test)."""
    text = text_of(a_run(on_test(180, 150), 0.9, class_names=["no", "yes"]), ["one", "two"])
    assert text["Accuracy"] == "Accuracy 90.0% (95% CI 85.2–93.6) on 200 test rows."
    assert "Majority class (yes): 75.0%." in text["Baselines"]
    assert "Teacher: 75.0% (95% CI 68.6–80.6) on the same rows." in text["Baselines"]
    assert "95% CI ±4 points" in text["Uncertainty"] and "calibration error 4.2 points" in text["Uncertainty"]
    assert "2 warnings below" in text["Uncertainty"]
    # ± 4.18 points to ± 3: 200 · (4.18 / 3)² = 389, 189 more.
    assert "About 190 more test rows" in text["Next steps"] and "understudy predict" in text["Next steps"]


def test_the_metric_that_choices_maximised_comes_first() -> None:
    shares = {"macro_f1": Share(0.812, 0.77, 0.853, 200), "log_loss": Share(0.4, 0.35, 0.46, 200)}
    found = replace(on_test(180, 150), metrics=shares, confusion=[[40, 10], [10, 140]])
    run = a_run(found, 0.9, metric="macro_f1", class_names=["no", "yes"])
    assert text_of(run)["Accuracy"].startswith("Macro-F1 81.2% (95% CI 77.0–85.3), which choices maximised. Accuracy")
    assert run_parts(run)["metrics"][0] == ("Macro-F1", "81.2% (77.0–85.3)")
    run.config["metric"] = "log_loss"
    run.history[-1]["test_score"] = -0.4
    assert text_of(run)["Accuracy"].startswith("Log-loss 0.400 (95% CI 0.350–0.460)")
    assert result_lines(run) == ["test log-loss 0.400 (last epoch)"]


def test_confidence_before_and_after_the_temperature() -> None:
    found = StudentCalibration(2.3125, Share(0.221, 0.15, 0.2911, 200), Share(-0.003, -0.07, 0.068, 200))
    text = text_of(a_run(replace(on_test(180, 150), calibration=found), 0.9))
    assert text["Accuracy"].endswith(
        " on 200 test rows. Mean confidence minus accuracy: +22.1 points (95% CI +15.0 to +29.1); −0.3 points (95% CI "
        "−7.0 to +6.8) at temperature 2.31, which predictions use."
    )
    assert "calibration error" not in text["Uncertainty"]


def test_a_student_at_chance_is_not_to_be_deployed() -> None:
    text = text_of(a_run(on_test(152, 190), 0.76))
    assert "Not significantly better than the majority class" in text["Baselines"]
    assert "The teacher is more accurate" in text["Baselines"]
    assert "Do not deploy it yet" in text["Next steps"] and "understudy predict" not in text["Next steps"]


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ((8, 0), "The pool helps: 8 rows are correct only with the pool, 0 only without (McNemar p = 0.0078)."),
        ((0, 8), "Training on gold alone is better: 0 rows are correct only with the pool, 8 only without"),
        ((5, 0), "No significant effect of the pool: 5 rows are correct only with the pool, 0 only without (McNemar p"),
    ],
)
def test_gold_alone_on_the_same_rows(pair: tuple[int, int], sentence: str) -> None:
    """A coin falls 8 to 0, one way or the other, with p = 2/2⁸ = 0.008, and 5 to 0 with 0.06."""
    text = text_of(a_run(Evaluation(exact(35, 40), "gold", 1, 0.5, gold_only=exact(30, 40), discordant=pair)))
    assert text["Accuracy"].endswith("cross-validated on 40 gold rows.")
    assert sentence in text["Baselines"] and "on the same rows" in text["Baselines"]
    assert ("Train on gold alone" in text["Next steps"]) == (pair == (0, 8))


@pytest.mark.parametrize("rows", ["gold", "test"])
def test_gold_alone_on_other_rows_is_said_so(rows: str) -> None:
    text = text_of(a_run(Evaluation(exact(34, 60), rows, 1, 0.5, gold_only=exact(36, 59))))["Baselines"]
    assert "cross-validated on 59 gold rows." in text and "same rows" not in text


def test_gold_alone_in_a_pilot() -> None:
    text = text_of(a_run(Evaluation(exact(34, 40), "gold", 1, 0.5, gold_only=exact(36, 40))))
    assert "85.0%" in text["Accuracy"] and "Training on gold alone is as accurate" in text["Baselines"]


def test_without_an_evaluation_the_accuracy_is_unknown() -> None:
    text = text_of(a_run())
    assert text["Accuracy"] == "Unknown: no held-out labels." and "--test" in text["Next steps"]


def test_curves_are_explained_as_they_are() -> None:
    plain, tested = (sentences("run", "curves", is_tested)[0] for is_tested in (False, True))
    assert "loss that still falls" in plain and "rises" not in plain and "rows that do not train" in plain
    assert "accuracy that still rises" in tested


def test_facts_have_readable_names() -> None:
    facts = {"class_shift": 0.1234, "class_shift_p": 0.00017, "debias.mean_weight": 0.5, "mean_weight": 0.25}
    facts |= {"mean_alpha": 0.9, "slam.mean_alpha": 0.9, "train_seconds": 3.14159, "finetuned_test_loss": 1.0}
    assert name_facts(facts) == [
        ("Total variation distance of the predicted classes, gold vs pool", "12.3%"),
        ("Significance of that distance (p-value)", "0.00017"),
        ("Mean weight of a pool row by debias", "0.5"),
        ("Mean weight of a pool row", "0.25"),
        ("Estimated teacher accuracy on the pool (mean α)", "90.0%"),
        ("Last training and its evaluation, seconds", "3.1"),
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
        shown = name_facts(run.facts)
        assert all(name[0].isupper() or name.startswith("p-") for name, _ in shown) and not any(
            "_" in name for name, _ in shown
        ), (name, shown)


def test_the_summary_comes_first_and_the_rest_is_folded(tmp_path: Path) -> None:
    gold = us.Gold(torch.zeros(20, 1), torch.arange(20) % 2)
    write_run_report(tmp_path / "r.html", a_run(on_test(180, 150), 0.9), gold=gold, warnings=["careful"])
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    first, fold = text.index("<dt>Accuracy"), text.index("<details>")
    assert text.index("<h1>") < first < text.index("careful") < fold < text.index("<h2>Results")
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>")


def test_the_metrics_of_classes_are_as_wide_as_the_folds_make_them(tmp_path: Path) -> None:
    """Recall 40 of 50, and its interval with twice the variance."""
    found = replace(on_test(180, 150), rows="gold", confusion=[[40, 10], [10, 140]])
    for effect in (1.0, 2.0):
        write_run_report(tmp_path / f"{effect}.html", a_run(replace(found, effect=effect), 0.9))
        text = (tmp_path / f"{effect}.html").read_text(encoding="utf-8")
        interval = percent_range(widen(exact(40, 50), effect)).partition(" ")[2]
        assert f'80.0% <span class="ci">{interval}</span>' in text
