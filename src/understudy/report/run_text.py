"""A run in sentences: its accuracy, its baselines, the uncertainty, the next steps; and its facts by names.

for heading, sentences in summary(run):
    print(heading, *sentences)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from understudy.comparison.candidates import RECONCILED, VANILLA
from understudy.comparison.interval import percent, signed
from understudy.maths.proportions import two_sided
from understudy.report.formatting import p_text, percent_ci
from understudy.training.evaluation import Evaluation
from understudy.training.job import TrainRequest
from understudy.training.optimizers import ITERATIONS
from understudy.training.options import LBFGS
from understudy.training.run import Run
from understudy.training.students import reads_texts

#: The half-width of an interval that is narrow enough to decide by, and the level of McNemar's test.
NARROW, SIGNIFICANT = 0.03, 0.05
SET_NAMES = {"test": "test set", "select": "validation set"}


def summary(run: Run, warnings: Sequence[str] = ()) -> list[tuple[str, list[str]]]:
    """Headings, each with its sentences."""
    found = run.evaluation
    if found is None:
        return [
            ("Accuracy", ["Unknown: no held-out labels."]),
            ("Next steps", ["Give labelled rows that do not train as --test, or more gold rows to cross-validate on."]),
        ]
    return [
        ("Accuracy", [accuracy_sentence(found)]),
        ("Baselines", baseline_sentences(found, run.config.get("class_names"))),
        ("Uncertainty", _uncertainty(run, found, warnings)),
        ("Next steps", _next_steps(found)),
    ]


def accuracy_sentence(found: Evaluation) -> str:
    rows = f"{found.accuracy.rows:,.0f}"
    where = f" on {rows} test rows" if found.on_test else f", cross-validated on {rows} gold rows"
    return f"Accuracy {percent_ci(found.accuracy)}{where}."


def baseline_sentences(found: Evaluation, class_names: Sequence[str] | None = None) -> list[str]:
    """The majority class, the teacher and training on gold alone, and whether the student is better."""
    name = found.majority_class if class_names is None else class_names[found.majority_class]
    sentences = [f"Majority class ({name}): {percent(found.majority)}%."]
    if found.teacher is not None:
        same = found.teacher_rows == found.rows and found.teacher.rows == found.accuracy.rows
        where = "the same rows" if same else f"{found.teacher.rows:,.0f} {found.teacher_rows} rows"
        sentences.append(f"Teacher: {percent_ci(found.teacher)} on {where}.")
    if found.gold_only is not None:
        same = found.discordant is not None or not found.on_test
        where = "on the same rows" if same else "cross-validated on gold"
        sentences.append(f"Training on gold alone: {percent_ci(found.gold_only)} {where}.")
    if not found.beats_majority:
        sentences.append("Not significantly better than the majority class.")
    if found.teacher is not None and found.teacher.low > found.accuracy.high:
        sentences.append("The teacher is more accurate: prefer its labels where they can be had.")
    return [*sentences, *_effect_of_pool(found)]


def _effect_of_pool(found: Evaluation) -> list[str]:
    if found.discordant is not None:
        only_student, only_gold = found.discordant
        p_value = two_sided(only_student, only_student + only_gold)
        effect = "The pool helps" if only_student > only_gold else "Training on gold alone is better"
        effect = effect if p_value < SIGNIFICANT else "No significant effect of the pool"
        counts = f"{only_student} rows are correct only with the pool, {only_gold} only without"
        return [f"{effect}: {counts} (McNemar {p_text(p_value)})."]
    if found.gold_only is not None and not found.on_test and found.gold_only.estimate >= found.accuracy.estimate:
        return ["Training on gold alone is as accurate: no effect of the pool is shown."]
    return []


def _is_hurt_by_pool(found: Evaluation) -> bool:
    only_student, only_gold = found.discordant or (0, 0)
    return only_gold > only_student and two_sided(only_student, only_student + only_gold) < SIGNIFICANT


def _uncertainty(run: Run, found: Evaluation, warnings: Sequence[str]) -> list[str]:
    half, rows = found.accuracy.width / 2, round(found.accuracy.rows)
    sentences = [f"95% CI ±{100 * half:.0f} points with {rows:,} rows."]
    measured = run.metrics("test").get("last", {}) if found.on_test else {}
    if "ece" in measured:
        sentences.append(f"Expected calibration error {percent(measured['ece'])} points.")
    if "worst_class" in measured:
        sentences.append(f"Lowest recall of a class {percent(measured['worst_class'])}%.")
    if warnings:
        sentences.append(f"{len(warnings)} {'warning' if len(warnings) == 1 else 'warnings'} below.")
    return sentences


def _next_steps(found: Evaluation) -> list[str]:
    sentences = []
    if not found.beats_majority:
        sentences.append(
            "Do not deploy it yet: check the labels with understudy audit, check that the features separate the "
            "classes, and add gold rows."
        )
    rows = round(found.accuracy.rows)
    more = found.accuracy.more_rows_for(NARROW, rows)
    if more > rows / 4:
        # Two digits are enough to plan by.
        about = round(more, -max(len(str(more)) - 2, 0))
        kind = "test" if found.on_test else "gold or test"
        sentences.append(f"About {about:,} more {kind} rows would narrow the 95% CI to ±{100 * NARROW:.0f} points.")
    if _is_hurt_by_pool(found):
        sentences.append("Train on gold alone, or improve the pool's labels first: understudy audit, --method auto.")
    elif found.beats_majority:
        sentences.append(
            "Apply it to new rows with understudy predict; understudy select picks the most informative rows to label "
            "next."
        )
    return sentences


def result_lines(run: Run) -> list[str]:
    """``test accuracy 90.0% (last epoch)`` and the like, for a terminal."""
    moments = {"last": "last epoch", "finetuned": "after fine-tuning"}
    moments["selected"] = f"epoch {run.selected_epoch}, selected on the validation set"
    return [
        f"{SET_NAMES[prefix].removesuffix(' set')} accuracy {percent(measured['accuracy'])}% ({moments[when]})"
        for prefix in SET_NAMES
        for when, measured in run.metrics(prefix).items()
        if "accuracy" in measured
    ]


def result_table(run: Run) -> list[list[str]]:
    """A row for each set and moment: accuracy, lowest recall, calibration error."""
    moments = {
        "last": f"last epoch ({len(run.history)})",
        "selected": f"selected epoch ({run.selected_epoch})",
        "finetuned": "after fine-tuning",
    }
    units = {"accuracy": "%", "worst_class": "%", "ece": " points"}
    return [
        [f"{name}, {moments[when]}", *(percent(measured[each]) + unit for each, unit in units.items())]
        for prefix, name in SET_NAMES.items()
        for when, measured in run.metrics(prefix).items()
        if "accuracy" in measured
    ]


def choice_reason(run: Run) -> str | None:
    """The method that ``us.auto`` chose, and why, in one line; None for a run without a pilot."""
    decision = run.config.get("auto")
    if decision is None:
        return None
    choice, by_name = decision["choice"], {one["method"]: one for one in decision["candidates"]}
    if not by_name:
        return f"{choice}, because gold has too few rows to choose a method on"
    chosen, rival = by_name[choice], decision.get("ruled_out")
    reference = RECONCILED if RECONCILED in by_name else VANILLA
    where = f"cross-validated on {chosen['rows']:,} gold rows in a pilot on {decision['pilot_rows']:,} pool rows"
    if choice == reference:
        reason = f"{choice}: no other method is significantly better {where}"
    else:
        score = f"{signed(chosen['gain'])} ± {100 * chosen['error']:.1f} points"
        reason = f"{choice}: score {score} over {reference} (accuracy {signed(chosen['accuracy_gain'])}) {where}"
    if choice == RECONCILED:
        weights = [f"{one['name']} {one['weight']:.2f}" for one in decision["sources"] if one["weight"] > 0.005]
        reason += f"; weights: {', '.join(weights)}"
    if rival is not None:
        reason += f"; {rival} was ahead, but not more accurate than the teacher, which the full pool would approach"
    return reason


def request_facts(request: TrainRequest, run: Run) -> dict[str, Any]:
    """The options of a training from files, for the facts of its report."""
    data, text_of = request.data, "read by the student" if reads_texts(request.student) else request.data.encoder
    files = {"gold": " ".join(request.gold) or None, **request.files}
    facts = {
        **{f"{role.capitalize()} file": name for role, name in files.items() if name is not None},
        "Text": None if data.text is None else f"{data.text}, {text_of}",
        "Image": data.image,
        "Student": request.student,
        "Method": " ".join([request.method, *request.method_options]),
        "Optimizer": optimizer_text(request.training),
        "Seed": request.training["seed"],
        **epochs_fact(run.config),
        "Penalty": _penalty(run.config.get("chosen_penalty")),
        "Chosen": choice_reason(run),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _penalty(chosen: Mapping[str, Any] | None) -> str | None:
    if chosen is None:
        return None
    return f"C = {chosen['c']:g}, {'lowest loss on held-out gold' if chosen['losses'] else 'not chosen on gold'}"


def optimizer_text(options: Mapping[str, Any]) -> str:
    if options["optimizer"] == LBFGS:
        return f"{LBFGS}, full batch, at most {options['epochs']} × {ITERATIONS} steps"
    return f"{options['optimizer']}, {options['lr']:g}, {options['schedule']}, batches of {options['batch_size']}"


def epochs_fact(config: Mapping[str, Any]) -> dict[str, str]:
    """The numbers of epochs that were tried, where they were chosen on gold."""
    chosen = config.get("chosen_epochs")
    if chosen is None:
        return {}
    tried = ", ".join(f"{epochs}: {loss:.3f}" for epochs, loss in chosen["losses"].items())
    return {"Epochs": f"{chosen['epochs']}, by the loss on held-out gold ({tried})"}


def curves_text(history: Sequence[Mapping[str, float]]) -> str:
    """How to read the training curves that are there."""
    texts = ["A training loss that still falls at the end means that more epochs would fit these labels better"]
    if any("test_accuracy" in record or "select_accuracy" in record for record in history[:1]):
        texts.append("an accuracy that still rises, that they would help")
        texts.append("a test loss that rises at constant accuracy is growing overconfidence")
    else:
        texts.append("whether that would help needs labelled rows that do not train")
    return "; ".join(texts) + "."


FACT_NAMES = {
    "gold_rows": "Gold rows",
    "calibration_rows": "Gold rows that measure the teacher",
    "pool_rows": "Pool rows with a teacher label",
    "pool_rows_without_label": "Pool rows without a label (left out)",
    "slam.mean_alpha": "Estimated teacher accuracy on the pool (mean α)",
    "slam.mean_k": "Candidate classes per pool row (mean k)",
    "slam.share_at_lower_bound": "Share of pool rows at the lower bound of α",
    "estimate_only_rows": "Gold rows that measure the teacher and never train",
    "mean_weight": "Mean weight of a pool row",
    "share_weight_1": "Share of pool rows with weight exactly 1",
    "cross_fitted_folds": "Cross-fitting folds of the pretrained student on gold",
    "gold_memorised": "Student seems to have memorised gold (1: yes)",
    "class_shift": "Total variation distance of the predicted classes, gold vs pool",
    "class_shift_p": "Significance of that distance (p-value)",
    "ups.share_selected": "Share of pool rows with a selected class",
    "oracle.share_right": "Share of correct pool labels",
    "confident.kept_rows": "Pool rows kept for their confidence",
    "co_teaching.forget_rate": "Share of a batch dropped for its large loss",
    "transition.mean_accuracy": "Teacher accuracy on gold, macro average",
    "reconciled.log_loss": "Log-loss of the reconciled labels on gold, cross-fitted",
    "reconciled.accuracy": "Accuracy of the reconciled labels on gold, cross-fitted",
    "reconciled.gold_rows": "Gold rows that weight the sources",
    "prepare_seconds": "Preparation, seconds",
    "train_seconds": "Total, seconds",
}
SHARES = (
    "slam.mean_alpha", "slam.share_at_lower_bound", "share_weight_1", "reconciled.accuracy", "class_shift",
    "ups.share_selected", "oracle.share_right", "co_teaching.forget_rate", "transition.mean_accuracy",
)  # fmt: skip
#: Facts that several slots have, each of itself: ``debias.mean_weight``.
OF_SLOTS = {
    "mean_weight": "Mean weight of a pool row by {}",
    "share_weight_1": "Share of pool rows with weight exactly 1 by {}",
    "largest_weight": "Largest weight of a pool row by {}",
    "mean_alpha": "Estimated teacher accuracy on the pool by {}",
    "mean_k": "Candidate classes per pool row by {}",
}
#: The method's own figure again, and what the table of results has.
SHOWN_ELSEWHERE = ("mean_alpha", "mean_k", "finetuned_")


def name_facts(facts: Mapping[str, float]) -> list[tuple[str, str]]:
    """A run's numbers with names a reader understands; an unknown one keeps its own."""
    left_out: tuple[str, ...] = SHOWN_ELSEWHERE
    if "reconciled.accuracy" in facts:  # the labels trained on are then no teacher's
        left_out += ("calibration_rows", "pool_rows")
    shown = {name: value for name, value in facts.items() if not name.startswith(left_out)}
    # A single weight equals the product of all, which is shown already; and where all are 1, nothing is weighted.
    again = {name for name in shown if "." in name and shown[name] == shown.get(name.partition(".")[2])}
    if shown.get("mean_weight") == shown.get("share_weight_1") == 1:
        again |= {"mean_weight", "share_weight_1"}
    return [(_fact_name(name), _fact(name, value)) for name, value in shown.items() if name not in again]


def _fact_name(name: str) -> str:
    slot, _, what = name.partition(".")
    if name in FACT_NAMES:
        return FACT_NAMES[name]
    return OF_SLOTS[what].format(slot.replace("_", " ")) if what in OF_SLOTS else name.replace("_", " ")


def _fact(name: str, value: float) -> str:
    if name in SHARES or name.endswith("share_weight_1"):
        return "under 0.1%" if 0 < value < 0.001 else f"{value:.1%}"
    if name.endswith("_seconds"):
        return f"{value:,.1f}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
