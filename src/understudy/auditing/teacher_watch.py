"""Whether a teacher still answers as it did: it labels anchors, rows whose truth is known, again and again.

    watch = us.TeacherWatch({"r1": "pos", "r2": "neg"})          # anchors: id -> true class
    watch.add({"r1": "pos", "r2": "neg"}, name="reference")      # the first look is what the others are compared with
    look = watch.add({"r2": "pos", "r9": "neg"}, name="week 1")  # r9 is no anchor: a new row
    look.alarm, look.changes, look.accuracy

*No change* means: the teacher answers an anchor in the same way at every look, always alike or at random, so that the
answers to one anchor could have come in any order. Then each anchor is compared with itself alone, and neither the
accuracy nor how often answers vary needs to be known or estimated (``maths/change_test.py``). Anchors may be sent
as often as you like, in any choice that does not depend on earlier answers. New rows have no truth; their class shares
are compared as if every look drew rows from the same source, so that they also change when the rows do.

Every look compares its last 1, 2, 4, 8, … looks with all before. At most ``ALARM`` of whole years may hold a false
alarm: the tests of a year's looks share that chance (Bonferroni), half for a loss of accuracy, a quarter each for the
classes' shares on anchors and in new rows. A year has a fixed number of looks; the next one has its own chance.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.maths.change_test import ChangeTest, compare_counts, confidence_sequence
from understudy.maths.proportions import UNKNOWN, Share
from understudy.store.option_fields import checked_plainly

#: The share of years that may hold a false alarm, and what part of it goes to which comparison.
ALARM = 0.05
ALARM_SHARES = {"accuracy": 0.5, "share": 0.25, "share of new rows": 0.25}
# Counts that are fewer standard deviations off give no alarm, and hardly could: their chance is above 1%.
BEYOND = 2.0
#: How an answer that names none of the classes is listed.
NO_CLASS = "(no class)"


@dataclass(frozen=True)
class Change:
    """A share that fell or rose by more than chance explains."""

    #: "accuracy", "share" (of a class, on anchors) or "share of new rows".
    what: str
    #: The class; None: the accuracy.
    label: str | None
    #: How many of the last looks were compared with all before.
    looks: int
    test: ChangeTest
    #: The chance of such counts if nothing changed, and the largest that gives an alarm.
    p_value: float
    limit: float


@dataclass(frozen=True)
class Look:
    name: str
    #: Answers to anchors, and how many of them are right; one without a class is wrong.
    anchors: int
    right: int
    new_rows: int
    without_class: int
    #: Over all looks so far, with a 95% interval that holds at all of them together as long as nothing changes.
    accuracy: Share
    #: What gives an alarm.
    changes: tuple[Change, ...] = ()

    @property
    def alarm(self) -> bool:
        return bool(self.changes)

    def stored(self) -> dict[str, Any]:
        """Ready for JSON: an accuracy that is not known is None."""
        return asdict(self) | {"accuracy": asdict(self.accuracy) if self.accuracy.known else None}

    @classmethod
    def restore(cls, stored: Mapping[str, Any]) -> "Look":
        changes = tuple(Change(**{**each, "test": ChangeTest(**each["test"])}) for each in stored["changes"])
        accuracy = UNKNOWN if stored["accuracy"] is None else Share(**stored["accuracy"])
        return cls(**{**stored, "accuracy": accuracy, "changes": changes})


def _as_text(given: Any, name: str) -> list[tuple[str, str]]:
    """Pairs of id and class; "" where there is none."""
    try:
        pairs = given.items() if isinstance(given, Mapping) else given
        return [(str(id), "" if label is None or label != label else str(label)) for id, label in pairs]
    except (TypeError, ValueError):
        raise UnderstudyError(f"{name}: not a dict of ids and classes; pass {{'r1': 'pos', …}}") from None


class TeacherWatch:
    """``truth``: the true class of every anchor; ``looks_a_year``: how many share the chance of a false alarm."""

    @checked_plainly
    def __init__(self, truth: Mapping[Any, Any], *, looks_a_year: int = 52) -> None:
        if not truth or looks_a_year < 1:
            raise UnderstudyError("a watch needs anchors (id and true class) and at least 1 look a year; give both")
        self.truth = dict(_as_text(truth, "truth"))
        if nameless := [id for id, label in self.truth.items() if not label]:
            raise UnderstudyError(f"anchor {nameless[0]!r} has no true class; leave it out, or name its class")
        self.looks_a_year = looks_a_year
        #: As the shares of classes are listed.
        self.classes = [*sorted(set(self.truth.values())), NO_CLASS]
        self.looks: list[Look] = []
        self._codes = {label: code for code, label in enumerate(self.classes)}
        self._places = {id: place for place, id in enumerate(self.truth)}
        self._truth = np.array([self._codes[label] for label in self.truth.values()])
        #: Of every answer to an anchor: whose, at which look, which class. Of every look: new rows by class.
        self._answers = np.empty((0, 3), dtype=np.int64)
        self._new = np.empty((0, len(self.classes)), dtype=np.int64)

    def add(self, answers: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, name: str = "") -> Look:
        """One look: the teacher's class of each row, by id; None or "": it gave none."""
        given = _as_text(answers, name or "answers")
        # A teacher that gives no class at all any more is a change; one that gives other classes is a mistake here.
        silent = self.looks and given and not any(label for _, label in given)
        if not silent and not any(label in self._codes for _, label in given):
            some, known = sorted({label for _, label in given})[:3], self.classes[:-1]
            raise UnderstudyError(f"{name}: none of the answers {some} is one of {known[:5]}; spell both alike")
        anchors, new = self.counted(given)
        added = self.append(anchors, new)
        right = self._answers[:, 2] == self._truth[self._answers[:, 0]]
        number, without = len(self.looks), sum(label == NO_CLASS for _, label in anchors) + new[-1]
        accuracy = confidence_sequence(int(right.sum()), len(right))
        correct = int(right[len(right) - added :].sum())
        self.looks.append(Look(name, added, correct, sum(new), without, accuracy, self._changes(number)))
        return self.looks[-1]

    def counted(self, given: Iterable[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[int]]:
        """The answers to anchors, and the new rows by class."""
        anchors, new = [], [0] * len(self.classes)
        for id, label in given:
            label = label if label in self._codes else NO_CLASS
            if id in self._places:
                anchors.append((id, label))
            else:
                new[self._codes[label]] += 1
        return anchors, new

    def append(self, anchors: Iterable[tuple[str, str]], new: list[int]) -> int:
        """Adds what ``counted`` gives to the next look; how many answers to anchors there were."""
        lines = [(self._places[id], len(self.looks), self._codes[label]) for id, label in anchors]
        self._answers = np.concatenate([self._answers, np.array(lines, dtype=np.int64).reshape(-1, 3)])
        self._new = np.vstack([self._new, new])
        return len(lines)

    def _changes(self, number: int) -> tuple[Change, ...]:
        """What gives an alarm at this look; of several numbers of last looks, the one with the strongest evidence."""
        windows = [2**power for power in range(number.bit_length()) if 2**power <= min(number, self.looks_a_year)]
        sides = {what: 1 if what == "accuracy" else 2 * len(self.classes) for what in ALARM_SHARES}
        found: dict[tuple[str, str | None], Change] = {}
        for window in windows:
            for what, label, test in self._compared(number, window):
                limit = ALARM * ALARM_SHARES[what] / (self.looks_a_year * len(windows) * sides[what])
                p_value = test.fell if what == "accuracy" else min(test.fell, test.rose)
                if p_value <= min(limit, found[what, label].p_value if (what, label) in found else 1):
                    found[what, label] = Change(what, label, window, test, p_value, limit)
        return tuple(sorted(found.values(), key=lambda one: one.p_value / one.limit))

    def _compared(self, number: int, window: int) -> Iterator[tuple[str, str | None, ChangeTest]]:
        anchor, look, answer = self._answers.T
        cell, (anchors, classes) = anchor * len(self.classes) + answer, (len(self.truth), len(self.classes))
        parts = (cell, cell[look > number - window])
        whole, late = (np.bincount(part, minlength=anchors * classes).reshape(anchors, classes) for part in parts)
        # Of every anchor, the right answers and those of each class.
        hits, seen = (np.column_stack([each[np.arange(anchors), self._truth], each]) for each in (whole, late))
        tests = compare_counts(whole.sum(1), late.sum(1), hits, seen, beyond=BEYOND)
        yield "accuracy", None, tests[0]
        yield from (("share", label, test) for label, test in zip(self.classes, tests[1:], strict=True))
        new, last = self._new.sum(0), self._new[-window:].sum(0)
        if new.any():
            sums = new.sum(keepdims=True), last.sum(keepdims=True)
            tests = compare_counts(*sums, new[None], last[None], beyond=BEYOND)
            yield from (("share of new rows", label, test) for label, test in zip(self.classes, tests, strict=True))
