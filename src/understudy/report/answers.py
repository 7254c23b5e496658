"""What one asks of a trained student first: how good is it, compared with what, can it be trusted, what next.

    found = standing(run, gold=gold, test=test)                    # or right=, of gold rows it was trained without
    for question, sentences in answers(run, found):
        print(question, *sentences)

Every share has its 95% interval (``maths/proportions.py``); what stands beside the student is measured on the same rows
where the teacher spoke of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.comparison.candidates import GOLD_ONLY
from understudy.comparison.interval import percent
from understudy.data.examples import Gold
from understudy.data.pairing import weighed
from understudy.maths.proportions import Share, exact, two_sided
from understudy.training.run import Run

NARROW, LUCK = 0.03, 0.05
"""An interval of ± so much is narrow enough to decide by; what luck does no less often than this may be luck."""


@dataclass(frozen=True)
class Standing:
    """How often the student is right, and whoever stands beside it."""

    student: Share
    rows: str
    """Which rows: "test rows", or "gold rows" that it was trained without."""
    usual: tuple[str, float]
    """The most frequent class among them, and its share: what naming it always would reach."""
    teacher: Share | None = None
    teacher_rows: str = ""
    gold_only: Share | None = None
    """Training on gold alone: on the same rows, or on a pilot's gold rows."""
    apart: tuple[int, int] | None = None
    """Of the same rows, those that only the student and only training on gold alone has right."""

    @property
    def on_test(self) -> bool:
        return self.rows == "test rows"

    @property
    def is_above_chance(self) -> bool:
        return self.student.low > self.usual[1]


def standing(
    run: Run, *, gold: Gold | None = None, test: Gold | None = None, right: Tensor | None = None,
    gold_only: Tensor | None = None,
) -> Standing | None:  # fmt: skip
    """On the test rows, else on gold rows held out; None where nothing is known.

    ``right``: whether each row was named rightly; left out, it is what the run, or its pilot, says of them in all.
    ``gold_only``: the same of a student trained on gold alone.
    """
    piloted, piloted_alone = _of_pilot(run)
    measured = run.metrics("test")
    if test is not None and "accuracy" in measured.get("last", {}):
        accuracy = measured.get("finetuned", measured["last"])["accuracy"]
        share, examples, rows = exact(round(accuracy * len(test)), len(test)), test, "test rows"
    elif gold is not None and right is not None:
        share, examples, rows = _share(right), gold, "gold rows"
    elif gold is not None and piloted is not None:
        share, examples, rows = piloted, gold, "gold rows"
    else:
        return None
    teacher, where = _teacher(examples, gold, rows)
    apart = None
    if right is not None and gold_only is not None:
        apart = int((right & ~gold_only).sum()), int((gold_only & ~right).sum())
    alone = piloted_alone if gold_only is None else _share(gold_only)
    return Standing(share, rows, _usual(run, examples), teacher, where, alone, apart)


def _share(right: Tensor) -> Share:
    return exact(int(right.sum()), len(right))


def _of_pilot(run: Run) -> tuple[Share | None, Share | None]:
    """What the pilot of ``us.auto`` saw of its choice, and of gold alone."""
    decision = run.config.get("auto") or {}
    by_name = {one["method"]: one for one in decision.get("candidates", ())}
    asked = max((one["rows"] for one in by_name.values()), default=0)
    found = [by_name.get(name) for name in (decision.get("choice"), GOLD_ONLY)]
    # Who left the race was asked about some of the rows only.
    shares = [
        None if one is None or one["rows"] < asked else exact(round(one["accuracy"] * asked), asked) for one in found
    ]
    return shares[0], shares[1]


def _usual(run: Run, examples: Gold) -> tuple[str, float]:
    counts = torch.bincount(examples.y)
    most, names = int(counts.argmax()), run.config.get("class_names")
    return (str(most) if names is None else names[most]), float(counts[most]) / len(examples)


def _teacher(examples: Gold, gold: Gold | None, rows: str) -> tuple[Share | None, str]:
    """Where the teacher spoke of the rows; else on gold."""
    for part, where in ((examples, rows), (gold, "gold rows")):
        known = None if part is None else weighed(part, gold)
        at, labels = (torch.empty(0), None) if known is None else known.calibration()
        if known is not None and labels is not None and len(at):
            return exact(float((labels.top1() == known.y[at]).sum()), len(at)), where
    return None, ""


def answers(run: Run, found: Standing | None, warnings: Sequence[str] = ()) -> list[tuple[str, list[str]]]:
    """The four questions, each with its sentences."""
    if found is None:
        unknown = "Nobody can say: there are no test rows, and no gold rows that it was trained without."
        return [("How good is it?", [unknown]), ("What next?", ["Give labelled rows that do not train as --test."])]
    return [
        ("How good is it?", [_how_good(found)]),
        ("Compared with what?", _compared(found)),
        ("Can I trust it?", _trust(run, found, warnings)),
        ("What next?", _next(found)),
    ]


def _how_good(found: Standing) -> str:
    where = (
        "which no training saw"
        if found.on_test
        else "each asked of a student trained without it: there are no test rows"
    )
    rows = f"{found.student.rows:,.0f} {found.rows}"
    return f"It names the right class on {shown(found.student)} of {rows}, {where}."


def _compared(found: Standing) -> list[str]:
    name, share = found.usual
    sentences = [f"Always naming the most frequent class ({name}): {percent(share)}%."]
    if found.teacher is not None:
        same = found.teacher_rows == found.rows and found.teacher.rows == found.student.rows
        where = "the same rows" if same else f"{found.teacher.rows:,.0f} {found.teacher_rows}"
        sentences.append(f"The teacher: {shown(found.teacher)} of {where}.")
    if found.gold_only is not None:
        where = "the same rows" if found.apart is not None or not found.on_test else "gold rows it was trained without"
        sentences.append(f"Training on gold alone: {shown(found.gold_only)} of {where}.")
    return [*sentences, *_verdicts(found)]


def _verdicts(found: Standing) -> list[str]:
    """In a line each, why it might not be the one to take."""
    sentences = []
    if not found.is_above_chance:
        sentences.append("It is not surely better than naming the most frequent class.")
    if found.teacher is not None and found.teacher.low > found.student.high:
        sentences.append("The teacher is better: wherever it can be asked, take its word.")
    if found.apart is not None:
        mine, others = found.apart
        only = f"{mine} rows only this student has right, {others} only training on gold alone"
        if two_sided(mine, mine + others) >= LUCK:
            sentences.append(f"The pool is not shown to help: {only}, which may be luck.")
        elif mine < others:
            sentences.append(f"Training on gold alone is better: {only}.")
        else:
            sentences.append(f"The pool helps: {only}.")
    elif found.gold_only is not None and not found.on_test and found.gold_only.estimate >= found.student.estimate:
        sentences.append("Training on gold alone is as good: the pool is not shown to help.")
    return sentences


def _trust(run: Run, found: Standing, warnings: Sequence[str]) -> list[str]:
    half, rows = found.student.width / 2, round(found.student.rows)
    sentences = [f"The figure is exact to about ±{100 * half:.0f} points, which is what {rows:,} rows can tell."]
    measured = run.metrics("test").get("last", {}) if found.on_test else {}
    if "ece" in measured:
        gap = percent(measured["ece"])
        sentences.append(f"How sure it says it is and how often it is right differ by {gap} points in the mean.")
    if "worst_class" in measured:
        sentences.append(f"On the class it does worst it is right on {percent(measured['worst_class'])}%.")
    if warnings:
        several = f"are {len(warnings)} warnings" if len(warnings) > 1 else "is a warning"
        sentences.append(f"There {several} below.")
    return sentences


def _next(found: Standing) -> list[str]:
    sentences = []
    if not found.is_above_chance:
        sentences.append(
            "Do not use it yet. Look at the labels with understudy audit, at whether the features can tell the classes "
            "apart, and give more gold."
        )
    more = found.student.more_rows_for(NARROW, round(found.student.rows))
    if more > found.student.rows / 4:
        kind = "test" if found.on_test else "gold or test"
        sentences.append(
            f"About {_round(more)} more {kind} rows would make the figure exact to ±{100 * NARROW:.0f} points."
        )
    if found.is_above_chance:
        sentences.append(
            "Apply it to new rows with understudy predict; understudy select picks the rows most worth a label to make "
            "it better."
        )
    return sentences


def _round(rows: int) -> str:
    """Two digits are enough to plan by."""
    digits = max(len(str(rows)) - 2, 0)
    return f"{round(rows, -digits):,}"


def shown(share: Share) -> str:
    return f"{percent(share.estimate)}% (95% interval {percent(share.low)} to {percent(share.high)})"
