"""A run in sentences (``run.txt.jinja``): its accuracy, its baselines, the uncertainty, the next steps.

Also its facts by names (``fact_names.toml``), and the table of its label sources.

for heading, lines in summary(run):
    print(heading, *lines)
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.comparison.interval import percent
from understudy.maths.metric_scores import ACCURACY, AUC, LOG_LOSS
from understudy.maths.proportions import Share, cross_validated, two_sided, widen
from understudy.reconciling.label_sources import NUMBERS, sources_in
from understudy.report.templates import percent_range, print_table, sentences, wide_console
from understudy.training.job import TrainedJob, reads_texts
from understudy.training.optimizers import ITERATIONS
from understudy.training.options import AUTO, LBFGS
from understudy.training.run import Run

SET_NAMES = {"test": "test set", "select": "validation set"}
NAMES = tomllib.loads(Path(__file__).with_name("fact_names.toml").read_text(encoding="utf-8"))
SOURCE_HEADINGS = ("label source", "what it is", "weight", "accuracy (95% CI)", "log-loss")


def summary(run: Run, warnings: Sequence[str] = ()) -> list[tuple[str, list[str]]]:
    """Headings, each with its sentences."""
    found, p_value, measured = run.evaluation, 1.0, run.metrics("test").get("last", {})
    if found is not None and found.discordant is not None:
        p_value = two_sided(found.discordant[0], sum(found.discordant))
    parts = {
        "Accuracy": sentences("run", "accuracy", found, *_chosen_metric(run)),
        "Baselines": sentences("run", "baselines", found, p_value, run.config.get("class_names")),
        "Uncertainty": sentences("run", "uncertainty", found, measured, warnings),
        "Next steps": sentences("run", "next_steps", found, p_value),
    }
    return [(heading, lines) for heading, lines in parts.items() if lines]


def _chosen_metric(run: Run) -> tuple[str, str | None]:
    """The metric that choices maximised, where it is not the accuracy, and its value with interval."""
    metric = run.config.get("metric", ACCURACY)
    share = None if run.evaluation is None else run.evaluation.metrics.get(metric)
    return capitalised(NAMES["metrics"][metric]), None if share is None else metric_text(metric, share)


def _level(metric: str, value: float) -> str:
    return f"{abs(value):.3f}" if metric in (LOG_LOSS, AUC) else f"{percent(value)}%"


def metric_text(metric: str, share: Share) -> str:
    in_percent = metric not in (LOG_LOSS, AUC)
    return percent_range(share) if in_percent else f"{share.estimate:.3f} ({share.low:.3f}–{share.high:.3f})"


def capitalised(name: str) -> str:
    return name[0].upper() + name[1:]


def result_lines(run: Run) -> list[str]:
    """``test accuracy 90.0% (last epoch)`` and the like, for a terminal."""
    moments = {"last": "last epoch", "finetuned": "after fine-tuning"}
    moments["selected"] = f"epoch {run.selected_epoch}, selected on the validation set"
    metric = run.config.get("metric", ACCURACY)
    return [
        f"{SET_NAMES[prefix].removesuffix(' set')} {NAMES['metrics'][metric]} "
        f"{_level(metric, measured.get('score', measured['accuracy']))} ({moments[when]})"
        for prefix in SET_NAMES
        for when, measured in run.metrics(prefix).items()
        if "accuracy" in measured
    ]


def run_lines(run: Run) -> list[str]:
    """What a training prints at its end, but for the table of label sources."""
    chosen = choice_reason(run)
    lines = [] if chosen is None else [f"Chosen: {chosen}"]
    return [*lines, *result_lines(run), *(" ".join(sentences) for _, sentences in summary(run)[:2])]


def result_table(run: Run) -> list[list[str]]:
    """A row for each set and moment: accuracy, lowest recall, calibration error."""
    moments = {"last": f"last epoch ({len(run.history)})", "finetuned": "after fine-tuning"}
    moments["selected"] = f"selected epoch ({run.selected_epoch})"
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
    return None if decision is None else sentences("run", "choice", decision)[0]


def job_facts(job: TrainedJob) -> dict[str, Any]:
    """The options and the cost of a training from files, for the facts of its report."""
    request, run = job.request, job.run
    data, text_of = request.data, request.data.encoder if request.data.encoder != "none" else "TF-IDF"
    if reads_texts(request.student):
        text_of = "read by the student"
    given = {"gold": request.gold, **{role: [each] for role, each in request.files.items()}}
    files = {
        role: " ".join(str(each) if isinstance(each, str | Path) else "in memory" for each in those)
        for role, those in given.items()
    }
    facts = {
        **{f"{role.capitalize()} file": name for role, name in files.items() if name},
        "Text": data.text and f"{data.text}, {text_of}",
        "Image": data.image and f"{data.image}, {'pixels' if data.encoder == 'none' else data.encoder}",
        "Student": request.student,
        "Method": " ".join([request.method or AUTO, *request.method_options]),
        "Optimizer": optimizer_text(request.training),
        "Seed": request.training["seed"],
        **epochs_fact(run.config),
        "Penalty": _penalty(run.config.get("chosen_penalty")),
        "Chosen": choice_reason(run),
        "Parameters of the student": f"{sum(each.numel() for each in run.student.parameters()):,}",
        "Whole run, seconds": f"{job.seconds:,.1f} ({', '.join(f'{what} {s:,.1f}' for what, s in job.phases.items())})",
    }
    return {name: value for name, value in facts.items() if value is not None}


def _penalty(chosen: Mapping[str, Any] | None) -> str | None:
    if chosen is None:
        return None
    return f"C = {chosen['c']:g}, {'lowest loss on held-out gold' if chosen['losses'] else 'not chosen on gold'}"


def optimizer_text(options: Mapping[str, Any]) -> str:
    if options["optimizer"] == LBFGS:
        return f"{LBFGS}, full batch, at most {options['epochs']} × {ITERATIONS} steps"
    return f"{options['optimizer']} at {options['lr']:g}, {options['schedule']}, batches of {options['batch_size']}"


def epochs_fact(config: Mapping[str, Any]) -> dict[str, str]:
    """The numbers of epochs that were tried, where they were chosen on gold."""
    chosen = config.get("chosen_epochs")
    if chosen is None:
        return {}
    tried = ", ".join(f"{epochs}: {loss:.3f}" for epochs, loss in chosen["losses"].items())
    return {"Epochs": f"{chosen['epochs']}, by the loss on held-out gold ({tried})"}


def source_table(facts: Mapping[str, float]) -> list[tuple[str, str, str, str, str]]:
    """A row for each label source in a run's facts, the largest weight first, under ``SOURCE_HEADINGS``."""
    rows = []
    for one in sources_in(facts):
        accuracy = percent_range(_share(one["accuracy"], one["rows"], one["disagreement"]))
        rows.append((one["name"], _what(one["name"]), f"{one['weight']:.2f}", accuracy, f"{one['log_loss']:.3f}"))
    return rows


def _what(source: str) -> str:
    """What a label source is; of two kinds of features, those of the second are in brackets after its name."""
    name, _, features = source.partition(" (")
    known: str = NAMES["label_sources"].get(name, f"your student, trained by {name}")
    return f"{known}, on {features.removesuffix(')')}" if features else known


def combined_accuracy(facts: Mapping[str, float]) -> str:
    """Accuracy and log-loss of the reconciled labels, in a sentence."""
    single = min(one["log_loss"] for one in sources_in(facts))
    return sentences("run", "reconciled", reconciled_share(facts), facts["reconciled.log_loss"], single)[0]


def reconciled_share(facts: Mapping[str, float]) -> Share | None:
    """The accuracy of the pool's labels; None where gold is too small. N pool rows have one of their own, so that the
    variance is 1 + n / N times that of n gold rows."""
    if "reconciled.accuracy" not in facts:
        return None
    numbers = (facts[f"reconciled.{name}"] for name in ("accuracy", "gold_rows", "disagreement"))
    return widen(_share(*numbers), 1 + facts["reconciled.gold_rows"] / facts["reconciled.pool_rows"])


def _share(accuracy: float, rows: float, disagreement: float) -> Share:
    return cross_validated(round(accuracy * rows), round(rows), disagreement)


def print_sources(facts: Mapping[str, float]) -> None:
    """The table on the terminal; nothing for a run without reconciled labels."""
    if rows := source_table(facts):
        out = wide_console(110)
        title = "Label sources, cross-validated on gold (weight 0: not used)"
        print_table(out, title, SOURCE_HEADINGS, rows, left=2, wraps="what it is")
        out.print(combined_accuracy(facts))


#: The method's own figure again, what the table of results has, and what the table of label sources has.
SHOWN_ELSEWHERE = ("mean_alpha", "mean_k", "finetuned_", *(f"reconciled.{number} of " for number in NUMBERS))


def name_facts(facts: Mapping[str, float]) -> list[tuple[str, str]]:
    """A run's numbers with names a reader understands; an unknown one keeps its own."""
    left_out: tuple[str, ...] = SHOWN_ELSEWHERE
    if "reconciled.log_loss" in facts:  # the labels trained on are then no teacher's, the last training is a small part
        left_out += ("calibration_rows", "pool_rows", "prepare_seconds", "fit_seconds", "evaluation_s", "train_seconds")
    shown = {name: value for name, value in facts.items() if not name.startswith(left_out)}
    # A single weight equals the product of all, which is shown already; and where all are 1, nothing is weighted.
    again = {name for name in shown if "." in name and shown[name] == shown.get(name.partition(".")[2])}
    if shown.get("mean_weight") == shown.get("share_weight_1") == 1:
        again |= {"mean_weight", "share_weight_1"}
    return [(_fact_name(name), _fact(name, value)) for name, value in shown.items() if name not in again]


def _fact_name(name: str) -> str:
    slot, _, what = name.partition(".")
    of_slot = NAMES["facts_of_slots"].get(what)
    plain = name.replace("_", " ") if of_slot is None else of_slot.format(slot.replace("_", " "))
    return str(NAMES["facts"].get(name, plain))


def _fact(name: str, value: float) -> str:
    if name in NAMES["shares"]["facts"] or name.endswith("share_weight_1"):
        return "under 0.1%" if 0 < value < 0.001 else f"{value:.1%}"
    if name.endswith("_seconds"):
        return f"{value:,.1f}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
