"""What each command prints as a 95% interval, from one simulated data set, beside the truth it is meant to hold.

PARTS["audit"](signal="weak", gold_rows=50, seed=0)["recall of a class"]    # [Found(estimate, low, high, truth), …]
"""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata

import understudy as us
from experiments.coverage_data import Array, World, world_of
from understudy.active.label_plan import measure_source
from understudy.active.loop_state import round_gains
from understudy.auditing import measures
from understudy.comparison.interval import Interval
from understudy.inference.combination import fit_on
from understudy.labels.votes import Votes
from understudy.maths.classification_metrics import by_class, confusion_counts, overall
from understudy.maths.proportions import Share, area
from understudy.maths.source_confusion import fit_votes
from understudy.report.run_text import reconciled_share
from understudy.training.evaluation import StudentCalibration


class Found(NamedTuple):
    estimate: float
    low: float
    high: float
    truth: float


#: What is printed -> its intervals in this data set.
Intervals = dict[str, list[Found]]


def of(interval: Share | Interval, truth: float) -> Found:
    centre = interval.estimate if isinstance(interval, Share) else interval.mean
    return Found(float(centre), float(interval.low), float(interval.high), float(truth))


def roc_area(scores: Array, positive: Array) -> float:
    ranks, ours = rankdata(scores), int(positive.sum())
    return float((ranks[positive].sum() - ours * (ours + 1) / 2) / (ours * (len(scores) - ours)))


@cache
def teacher_truth(signal: str) -> dict[str, Any]:
    """Measures of the teacher on the population of three classes."""
    drawn = world_of(signal, 3).population
    label, top = drawn.probs.argmax(1), np.sort(drawn.probs, axis=1)
    joint = np.bincount(drawn.y * 3 + label, minlength=9).reshape(3, 3) / len(label)
    margin = top[:, -1] - top[:, -2]
    order = margin.argsort()
    parts = np.array_split(order, 400)
    return {
        "joint": joint,
        "accuracy": joint.trace(),
        "precision": joint.diagonal() / joint.sum(0),
        "recall": joint.diagonal() / joint.sum(1),
        "top2": (drawn.probs.argsort(1)[:, 1:] == drawn.y[:, None]).any(1).mean(),
        "gap": (top[:, -1] - drawn.right).mean(),
        "auc": roc_area(-margin, ~drawn.right),
        "margins": np.array([margin[part].mean() for part in parts]),
        "right": np.array([drawn.right[part].mean() for part in parts]),
    }


def audit(signal: str, gold_rows: int, seed: int) -> Intervals:
    """The audit's shares; of the pool the truth is what it holds, of the teacher what it is."""
    truth, data = teacher_truth(signal), world_of(signal, 3).data(gold_rows, seed, pool_rows=2_000)
    record, pool = measures.audit_data(data.gold, data.pool, None), data.on_pool
    noise, strata = measures.pool_noise(record)
    accuracy, confusion = measures.accuracy_of(record), measures.confusion_of(record, strata, most=8)
    label = pool.probs.argmax(1)
    result: Intervals = {
        "noise of the pool": [of(noise.pool, 1 - pool.right.mean())],
        "teacher's accuracy": [of(accuracy.overall, truth["accuracy"])],
        "macro precision": [of(accuracy.macro_precision, truth["precision"].mean())],
        "macro recall": [of(accuracy.macro_recall, truth["recall"].mean())],
        "top-2 accuracy": [of(accuracy.top_k[1], truth["top2"])],
        "rate of a confusion": [
            of(pair.rate, (pool.y[label == pair.predicted] == pair.truth).mean()) for pair in confusion.pairs
        ],
    }
    for each, precision, recall in zip(accuracy.per_class, truth["precision"], truth["recall"], strict=True):
        if each.precision.known:
            result.setdefault("precision of a class", []).append(of(each.precision, precision))
        if each.recall.known:
            result.setdefault("recall of a class", []).append(of(each.recall, recall))
    assert record.gold.confidence is not None
    separates = area(-record.gold.confidence, record.wrong)
    if separates.known:
        result["ROC-AUC of the confidence"] = [of(separates, truth["auc"])]
    return result


def audit_curves(signal: str, gold_rows: int, seed: int) -> Intervals:
    """What takes longer in an audit: calibration, the band of the accuracy by confidence, the suspects' ranking."""
    truth, data = teacher_truth(signal), world_of(signal, 3).data(gold_rows, seed)
    found, wrong = us.audit(data.gold, data.pool, seed=seed), ~data.on_pool.right
    calibration, curve, suspects = found.calibration, found.curve, found.suspects
    assert calibration is not None and curve is not None and suspects is not None
    true_curve = np.interp(curve.confidence, truth["margins"], truth["right"])
    points = zip(curve.accuracy, curve.low, curve.high, true_curve, strict=True)
    result = {
        "confidence minus accuracy": [Found(calibration.gap, calibration.low, calibration.high, truth["gap"])],
        "accuracy by confidence": [Found(*map(float, point)) for point in points],
    }
    shown = [one.row for one in suspects.top]
    errors = suspects.errors  # only the interval is printed
    result["wrong labels among the suspects"] = [Found(np.nan, errors.low, errors.high, float(wrong[shown].mean()))]
    if suspects.roc.known:
        result["ROC-AUC of the suspects"] = [of(suspects.roc, roc_area(suspects.probability, wrong))]
    return result


@cache
def metrics_truth(signal: str) -> dict[str, Any]:
    drawn = world_of(signal, 3).population
    every = by_class(confusion_counts(drawn.y, drawn.probs.argmax(1), classes=3))
    shown = overall(drawn.probs, drawn.y)
    return {name: share.estimate for name, share in shown.items()} | {"f1": [one.f1.estimate for one in every]}


def metrics(signal: str, gold_rows: int, seed: int) -> Intervals:
    """The metrics of a run's page on so many test rows, here of the teacher's probabilities; truth: the population."""
    drawn, truth = world_of(signal, 3).data(gold_rows, seed, pool_rows=1).on_gold, metrics_truth(signal)
    counts = confusion_counts(drawn.y, drawn.probs.argmax(1), classes=3)
    result = {
        name.replace("_", " "): [of(share, truth[name])]
        for name, share in overall(drawn.probs, drawn.y).items()
        if share.known and name != "accuracy"
    }
    each = zip(by_class(counts), truth["f1"], strict=True)
    return result | {"F1 of a class": [of(one.f1, f1) for one, f1 in each if one.f1.known]}


def calibration(signal: str, gold_rows: int, seed: int) -> Intervals:
    """Mean confidence minus accuracy of held-out logits, here the teacher's, before and at the fitted temperature."""
    world = world_of(signal, 2)
    drawn = world.data(gold_rows, seed, pool_rows=1).on_gold
    found = StudentCalibration.fit(torch.from_numpy(drawn.probs).log(), torch.from_numpy(drawn.y))
    many = torch.from_numpy(world.population.probs).log()
    before, after = (
        float((many / each).softmax(1).amax(1).mean()) - world.population.right.mean()
        for each in (1.0, found.temperature)
    )
    return {
        "confidence minus accuracy": [of(found.before, before)],
        "the same, at the temperature": [of(found.after, after)],
    }


#: Accuracies of four annotators of two classes, and how often each answers.
SOURCES = {"noise": (0.5, 0.5, 0.5, 0.5), "weak": (0.6, 0.7, 0.6, 0.5), "strong": (0.9, 0.8, 0.95, 0.5)}
ANSWERS = (1.0, 0.8, 0.6, 0.9)


def _votes(signal: str, rows: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    y = rng.integers(0, 2, rows)[:, None]
    right = rng.random((rows, 4)) < SOURCES[signal]
    votes = np.where(rng.random((rows, 4)) < ANSWERS, np.where(right, y, 1 - y), -1)
    return torch.from_numpy(votes), torch.from_numpy(y[:, 0])


@cache
def _many_votes(signal: str) -> tuple[torch.Tensor, torch.Tensor]:
    votes, y = _votes(signal, 5_000, np.random.default_rng(1 << 42))
    return votes[(votes >= 0).any(1)], y[(votes >= 0).any(1)]


def votes(signal: str, gold_rows: int, seed: int) -> Intervals:
    """The audit's table of sources and what ``us.plan_labels`` prints of a source."""
    given, y = _votes(signal, gold_rows, np.random.default_rng([seed, gold_rows, len(signal)]))
    names = tuple("abcd")
    found = us.audit(us.Gold(torch.zeros(gold_rows, 1), y, teacher=Votes(given, 2, sources=names)), rows_wrong=0)
    assert found.sources is not None
    many, many_y = _many_votes(signal)
    kept = (given >= 0).any(1)
    fit = fit_votes(given[kept], y[kept], 2)
    every, says = fit.log_likelihood(many), fit.confusion.log().transpose(1, 2)

    def loss(scores: torch.Tensor) -> torch.Tensor:
        return -fit.sharpened(scores).gather(1, many_y[:, None])[:, 0]

    gains = [
        float((loss(every - says[at][torch.where(many[:, at] < 0, 2, many[:, at])]) - loss(every)).mean())
        for at in range(4)
    ]
    majority = (Votes(many, 2).top1() == many_y).double().mean()
    weighted = (fit.posterior_of(many).argmax(1) == many_y).double().mean()
    planned = [measure_source(name, 1.0, given[:, at], y, 2).accuracy for at, name in enumerate(names)]
    return {
        "source: accuracy": [
            of(one.accuracy, SOURCES[signal][names.index(one.name)]) for one in found.sources.each if one.accuracy.known
        ],
        "source: gain": [of(one.gain, gains[names.index(one.name)]) for one in found.sources.each],
        "votes by majority": [of(found.sources.majority, float(majority))],
        "votes weighted by gold": [of(found.sources.accuracy, float(weighted))],
        "accuracy of a source": [of(one, SOURCES[signal][at]) for at, one in enumerate(planned) if one.known],
    }


WHAT = ("share", "accuracy", "precision", "recall", "f1")


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _of_pool(what: str, label: int | None, y: Array, predicted: Array) -> float:
    if what == "accuracy":
        return float((y == predicted).mean())
    both, true, named = ((y == label) & (predicted == label)).mean(), (y == label).mean(), (predicted == label).mean()
    parts = {"share": (true, 1.0), "precision": (both, named), "recall": (both, true), "f1": (2 * both, named + true)}
    return _ratio(*parts[what])


def estimate(signal: str, gold_rows: int, seed: int) -> Intervals:
    """``us.estimate``: what the very pool holds, also by group; beside it what gold alone says."""
    data = world_of(signal, 3).data(gold_rows, seed, pool_rows=2_000)
    y, predicted = data.on_pool.y, data.on_pool.probs.argmax(1)
    # Groups by a feature, which a signal ties to the class.
    groups = tuple(np.where(drawn.x[:, 0] > 0.5, "high", "low") for drawn in (data.on_gold, data.on_pool))
    result: Intervals = {}
    for one in us.estimate(data.gold, data.pool, what=list(WHAT), by=groups):
        if np.isnan(one.value.estimate):  # a class that no gold row of the group has
            continue
        inside = np.ones(len(y), dtype=bool) if one.group is None else groups[1] == one.group
        truth = _of_pool(one.what, one.label, y[inside], predicted[inside])
        name = one.what
        if one.difference:
            truth -= _of_pool(one.what, one.label, y[~inside], predicted[~inside])
            name += ", difference of groups"
        elif one.group is not None:
            name += " in a group"
        result.setdefault(name, []).append(of(one.value, truth))
        if one.gold_only is not None and one.gold_only.known and one.group is None:
            result.setdefault(f"{name}, gold alone", []).append(of(one.gold_only, truth))
    return result


LINEAR = partial(us.models.linear, inputs=5, classes=2)


def train(signal: str, gold_rows: int, seed: int) -> Intervals:
    """``us.train(evaluate=True)``, cross-validated on gold and on a test set; the truth is on fresh rows."""
    world = world_of(signal, 2)
    data = world.data(gold_rows, seed)
    result: Intervals = {}
    drawn = world.draw(gold_rows, np.random.default_rng([seed, gold_rows, len(signal), 1]))
    tested = us.Gold(drawn.x, drawn.y, teacher=drawn.probs)
    for name, test in (("cross-validated", None), ("test set", tested)):
        run = us.train(LINEAR, data.gold, data.pool, us.vanilla(), test=test, evaluate=True, seed=seed, progress=False)
        if run.evaluation is not None:
            result[f"accuracy, {name}"] = [of(run.evaluation.accuracy, world.accuracy(run.student))]
            if run.evaluation.calibration is not None:
                fitted = run.evaluation.calibration
                for at, (temperature, share) in enumerate(((1.0, fitted.before), (fitted.temperature, fitted.after))):
                    kind = ("confidence minus accuracy", "the same, at the temperature")[at]
                    result[f"{kind}, {name}"] = [of(share, world.gap(run.student, temperature))]
            unseen = run.evaluation.held_out
            if run.evaluation.combined is not None and unseen is not None and unseen.teacher is not None:
                both = fit_on(unseen.probs.double(), unseen.teacher, unseen.y)
                truth = world.together(run.student, run.temperature, both)
                result[f"student and teacher together, {name}"] = [of(run.evaluation.combined, truth)]
            if test is None:
                result["teacher's accuracy"] = [of(run.evaluation.teacher, world.population.right.mean())]
                alone = us.train(LINEAR, data.gold, None, us.vanilla(), seed=seed, progress=False)
                if run.evaluation.gold_only is not None:
                    result["gold alone"] = [of(run.evaluation.gold_only, world.accuracy(alone.student))]
    return result


class TrueAccuracies(us.Callback):
    """What the student of every cell of a comparison really knows, by method."""

    def __init__(self, world: World) -> None:
        self.world, self.found = world, dict[str, list[float]]()

    def on_end(self, view: Any) -> None:
        self.found.setdefault(view.config["compared_as"], []).append(self.world.accuracy(view.student()))


def compare(signal: str, gold_rows: int, seed: int) -> Intervals:
    """``us.compare`` without test rows: five folds of gold. The truth is the mean of the five students' accuracies."""
    world = world_of(signal, 2)
    data, known = world.data(gold_rows, seed), TrueAccuracies(world)
    seeds = range(5 * seed, 5 * seed + 5)
    compared = us.compare(
        LINEAR, data.gold, data.pool, [], seeds=seeds, workers=1, callbacks=[known], epochs=3, progress=False
    )
    truth = {name: float(np.mean(values)) for name, values in known.found.items()}
    truth["teacher"] = float(world.population.right.mean())
    result: Intervals = {}
    for row in compared.rows():
        kind = "teacher's accuracy" if row.method == "teacher" else "accuracy of a method"
        result.setdefault(kind, []).append(of(row.last, truth[row.method]))
        if row.difference is not None:
            kind = "teacher minus vanilla" if row.method == "teacher" else "difference of methods"
            gap = truth[row.method] - truth[compared.reference]
            result.setdefault(kind, []).append(of(row.difference, gap))
    advice = compared.recommendation
    assert advice is not None
    for name, (low, high) in advice.intervals.items():
        found = Found(advice.expected[name], low, high, truth[name])
        result.setdefault("expected accuracy", []).append(found)
        if name == advice.choice:
            result["expected accuracy of the choice"] = [found]
    return result


def auto(signal: str, gold_rows: int, seed: int) -> Intervals:
    """``us.auto(evaluate=True)`` and its reconciled labels."""
    world = world_of(signal, 2)
    data = world.data(gold_rows, seed)
    run = us.auto(LINEAR, data.gold, data.pool, evaluate=True, seed=seed, workers=1, progress=False)
    result: Intervals = {}
    if run.evaluation is not None:
        result["accuracy, cross-validated"] = [of(run.evaluation.accuracy, world.accuracy(run.student))]
    if share := reconciled_share(run.facts):
        labels = run.columns["reconciled.label"].numpy()
        result["reconciled labels"] = [of(share, (labels == data.on_pool.y).mean())]
    return result


def campaign(signal: str, gold_rows: int, seed: int) -> Intervals:
    """Three rounds of a loop by margin, cross-validated on the rows that were drawn at random."""
    world = world_of(signal, 2)
    data, truth = world.data(gold_rows, seed), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        loop: us.active.Loop = us.active.Loop(
            LINEAR, data.on_pool.x, data.on_pool.y, "margin", out=folder, start=gold_rows, batch=20,
            budget=gold_rows + 40, held_out=True, progress=False, seed=seed, epochs=30, lr=0.01,
            on_round=lambda records: truth.append(world.accuracy(loop.last.student)),  # type: ignore[union-attr]
        )  # fmt: skip
        rounds = round_gains(loop.run().records, 1.0)
    result: Intervals = {}
    for at, one in enumerate(rounds):
        if one.accuracy is not None:
            result.setdefault("accuracy of a round", []).append(of(one.accuracy, truth[at]))
        if one.gain is not None:
            result.setdefault("gain of a round", []).append(of(one.gain, truth[at] - truth[at - 1]))
    return result


Part = Callable[[str, int, int], Intervals]
#: In the order of what they cost: from 0.1 to 3 seconds for a data set.
PARTS: dict[str, Part] = {
    "audit": audit, "metrics": metrics, "calibration": calibration, "audit, curves": audit_curves, "votes": votes,
    "estimate": estimate, "campaign": campaign, "train": train, "compare": compare, "auto": auto,
}  # fmt: skip


def measure(part: str, signal: str, gold_rows: int, seed: int) -> Iterator[tuple[str, list[Found]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", us.UnderstudyWarning)  # little gold, on purpose
        yield from PARTS[part](signal, gold_rows, seed).items()
