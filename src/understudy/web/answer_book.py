"""The answer book: rows to label and people's answers, in one file (``web/book_file.py``).

    book = AnswerBook("batch.book", classes=["neg", "pos"], overlap=0.2)
    book.add(["r1", "r2"])                             # rows to label, in this order; known ones stay
    book.answer("r1", "pos", annotator="ann")          # None: skipped. On the disk when it returns
    book.undo(annotator="ann")                         # another line: nothing is ever changed
    book.answers(), book.waiting(), book.votes(), book.wait(60)  # until every row is answered, or 60 s
    book.close()

An answer has a name that its sender has made: one that is sent twice, because the response was lost, is one answer.
Another answer of the same person to the same row replaces the one before. The book may be open in several processes at
once (the page in one, a campaign in another).

A row is leased to the person it is shown to, so that two people do not get the same; a share of the rows (``overlap``,
drawn by their ids) goes to ``people`` annotators each, to measure their agreement.
"""

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Self

from understudy.errors import UnderstudyError
from understudy.web.book_file import AnswerLine, BookFile, LabellingState

if TYPE_CHECKING:
    from understudy.labels.votes import Votes

#: Seconds that a row stays reserved for a person who does not answer.
LEASE = 600.0
#: Whether a row, by its id, has a suggestion; None: no row is shown with one.
Suggests = Callable[[str], bool] | None
#: Answers over which a person's pace is measured.
_LAST = 30


class AnswerBook:
    """``classes``, ``overlap`` and ``people`` of a book that is there already may be left out.

    ``pin``: by column, a digest of what is shown of an id; a row that is shown with other content later is refused."""

    def __init__(
        self,
        path: str | Path,
        classes: Sequence[str] | None = None,
        *,
        overlap: float | None = None,
        people: int | None = None,
        lease: float = LEASE,
        clock: Callable[[], float] = time.time,
        pin: Callable[[str], Mapping[str, str]] | None = None,
    ) -> None:
        self.path, self.lease, self._clock, self._pin = Path(path), lease, clock, pin
        if classes is None and not self.path.exists():
            raise UnderstudyError(f"{self.path} does not exist; begin a book with its classes, or check the path")
        if overlap is not None and not 0 <= overlap <= 1:
            raise UnderstudyError(f"overlap={overlap} is no share of the rows; give a number from 0 to 1")
        if people is not None and people < 2:
            raise UnderstudyError(f"people={people}: rows that overlap go to two people or more")
        self.file = BookFile(self.path)
        with self.file.writing() as state:
            self.settings = self._resolve(state, classes, {"overlap": overlap, "people": people})
            self.file.set_settings(self.settings)

    def _resolve(
        self, state: LabellingState, classes: Sequence[str] | None, given: Mapping[str, float | None]
    ) -> dict[str, Any]:
        """The settings of a new book, or those it was begun with; classes with answers may not be removed."""
        known = self.file.settings()
        settings = {"overlap": 0.0, "people": 2, "book": secrets.token_hex(8)} | known
        for name, value in given.items():
            if value is not None and known.get(name, value) != value:
                raise UnderstudyError(f"{self.path} was begun with {name} {known[name]}, not {value}; keep it")
            settings[name] = settings[name] if value is None else value
        names = list(known.get("classes", ())) if classes is None else [str(name) for name in classes]
        if len(names) < 2 or len(set(names)) < len(names) or not all(name.strip() for name in names):
            shown = ", ".join(map(repr, names[:5])) or "none"
            raise UnderstudyError(f"a page needs two or more classes with different names; given: {shown}")
        used = {line.label for line in state.lines.values() if line.label is not None}
        if gone := used - set(names):
            raise UnderstudyError(f"{self.path} holds answers {min(gone)!r}; keep it among the classes")
        return settings | {"classes": names}

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.settings["classes"])

    def add(self, ids: Sequence[Any], *, chosen: bool | Sequence[bool] = True) -> int:
        """Rows to label, after those that are there; how many were new.

        ``chosen``: picked by a strategy, so that their answers train and never calibrate.
        """
        names = [str(id) for id in ids]
        if len(set(names)) < len(names) or not all(names):
            raise UnderstudyError("ids of rows to label are empty or repeated; give each row an id of its own")
        marks = [chosen] * len(names) if isinstance(chosen, bool) else [bool(mark) for mark in chosen]
        pins = {} if self._pin is None else {name: self._pin(name) for name in names}
        with self.file.writing() as state:
            self._check_pins(pins)
            self.file.add_pins(pins)
            new = [
                (name, int(self.settings["people"]) if self._is_shared(name) else 1, mark)
                for name, mark in zip(names, marks, strict=True)
                if name not in state.numbers
            ]
            self.file.add_rows(new)
        return len(new)

    def _check_pins(self, pins: Mapping[str, Mapping[str, str]]) -> None:
        """Answers belong to what people saw; columns that are shown now and were not then do not matter."""
        for id, before in self.file.pins().items():
            now = pins.get(id, before)
            changed = [name for name in before if now.get(name, before[name]) != before[name]]
            if changed or not before.keys() & now.keys():
                other = f"row {id!r} with another {(changed or list(before))[0]!r}: its answers belong to that"
                raise UnderstudyError(f"{self.path} has {other}; restore the row, or give the changed one a new id")

    def _is_shared(self, id: str) -> bool:
        """Whether several people get a row: a function of its id alone, the same in every book."""
        drawn = int.from_bytes(hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        return drawn < float(self.settings["overlap"]) * 2**64

    def answer(
        self, id: Any, label: str | None, *, annotator: str, name: str | None = None, seconds: float | None = None
    ) -> None:
        """One person's answer; None: skipped. ``name``: of the answer, where it may be sent again."""
        if label is not None and label not in self.settings["classes"]:
            raise UnderstudyError(f"{label!r} is none of the classes of {self.path}; answer one of them, or skip")
        with self.file.writing() as state:
            row = _number(state, id)
            shown = self.file.was_suggested(row, annotator)
            name = name or secrets.token_hex(16)
            self._write(state, AnswerLine(name, annotator, row, label, suggested=shown, seconds=seconds))

    def undo(self, *, annotator: str, undoes: str | None = None, name: str | None = None, tab: str = "") -> str | None:
        """Undoes one of a person's answers, by default the last, and leases them the row again.

        Returns the row's id; None where there is nothing to undo.
        """
        with self.file.writing() as state:
            history = state.history[annotator]
            undoes = undoes or next(reversed(history), None)
            if undoes is None:
                return None
            row = state.lines[undoes].row if undoes in state.lines else -1
            line = AnswerLine(name or secrets.token_hex(16), annotator, row, undoes=undoes)
            if line.name not in state.lines and undoes not in history:
                raise UnderstudyError("that answer is not there any more; undo another one")
            self._write(state, line)
            self.file.add_leases([line.row], annotator, tab, self._clock() + self.lease)
            return state.ids[line.row]

    def _write(self, state: LabellingState, line: AnswerLine) -> None:
        before = state.lines.get(line.name)
        if before is None:
            self.file.add_line(line)
        elif before.content() != line.content():
            raise UnderstudyError(f"answer {line.name} is another one already; give each answer its own name")

    def hand_out(
        self, annotator: str, *, tab: str = "", count: int = 1, have: Collection[str] = (), suggests: Suggests = None
    ) -> dict[str, bool]:
        """Leases rows to a person, so that with those that they ``have`` there are ``count``.

        Returns, by id, whether it may be shown with a suggestion: ``suggests`` gives whether an id has one, and rows
        that may calibrate are never shown with any. It is recorded, so that such an answer never calibrates.
        """
        with self.file.writing() as state:
            now = self._clock()
            kept = [row for id in have if state.is_open(row := _number(state, id), annotator)]
            free = state.free_rows(annotator, tab, kept, self.file.leases(now, self.lease))
            rows = list(islice(free, max(count - len(kept), 0)))
            self.file.add_leases([*kept, *rows], annotator, tab, now + self.lease)
            return self._shown(state, rows, annotator, suggests)

    def show(self, id: str, annotator: str, suggests: Suggests = None) -> bool:
        """Whether a leased row may be shown with a suggestion; recorded, as in ``hand_out``."""
        with self.file.writing() as state:
            return self._shown(state, [_number(state, id)], annotator, suggests)[id]

    def _shown(self, state: LabellingState, rows: Sequence[int], annotator: str, suggests: Suggests) -> dict[str, bool]:
        shown = {row: suggests is not None and state.chosen[row] and suggests(state.ids[row]) for row in rows}
        self.file.add_suggested([row for row, mark in shown.items() if mark], annotator)
        return {state.ids[row]: mark for row, mark in shown.items()}

    def are_open(self, ids: Collection[str], annotator: str) -> list[str]:
        """Those that this person could still answer."""
        with self.file.looking() as state:
            return [id for id in ids if id in state.numbers and state.is_open(state.numbers[id], annotator)]

    def progress(self, annotator: str) -> dict[str, Any]:
        """Numbers of one person: ``mine``, answers given; ``left``, rows still to answer; ``pace``, seconds a row."""
        with self.file.looking() as state:
            mine = state.history[annotator]
            times = [line.seconds for line in islice(reversed(mine.values()), _LAST) if line.seconds is not None]
            return {
                "rows": len(state.ids), "finished": state.finished, "mine": len(mine), "left": state.left(annotator),
                "pace": median(times) if times else None,
            }  # fmt: skip

    def history(self, annotator: str, count: int = 50) -> list[tuple[str, str, str | None]]:
        """A person's last answers, the newest first: name, id, label."""
        with self.file.looking() as state:
            lines = islice(reversed(state.history[annotator].values()), count)
            return [(line.name, state.ids[line.row], line.label) for line in lines]

    def given(self) -> dict[str, dict[str, AnswerLine]]:
        """By id and person, the last answer that was not undone."""
        with self.file.looking() as state:
            rows = sorted(state.given.items())
            return {state.ids[row]: {who: stack[-1] for who, stack in people.items()} for row, people in rows}

    def answers(self) -> dict[str, str | None]:
        """By id, the majority label of every row with answers; None where people tie, or all skipped."""
        return {id: most_common(line.label for line in people.values()) for id, people in self.given().items()}

    def waiting(self) -> list[str]:
        """Ids of the rows that need more answers, in their order."""
        with self.file.looking() as state:
            return [id for row, id in enumerate(state.ids) if not state.is_finished(row)]

    def chosen(self) -> dict[str, bool]:
        """By id, in their order, whether a strategy picked the row."""
        with self.file.looking() as state:
            return dict(zip(state.ids, state.chosen, strict=True))

    def annotators(self) -> list[str]:
        """All people with an answer that was not undone."""
        with self.file.looking() as state:
            return sorted(who for who, lines in state.history.items() if lines)

    def votes(self, by: str = "majority") -> "tuple[list[str], Votes]":
        """Ids with an answer, and everyone's answers as votes."""
        from understudy.labels.votes import Votes

        given, people = self.given(), self.annotators()
        if not given:
            raise UnderstudyError(f"{self.path} holds no answers yet; label some rows first")
        labels = [[each[who].label if who in each else None for who in people] for each in given.values()]
        return list(given), Votes(self._numbered(labels), len(self.classes), by=by, sources=people)

    def agreement(self) -> tuple[float | None, int]:
        """Krippendorff's alpha of the rows that several people gave a class, and how many these are."""
        import torch

        from understudy.maths.annotators import krippendorff_alpha

        with self.file.looking() as state:
            shared = [[stack[-1].label for stack in by.values()] for by in state.given.values() if len(by) > 1]
        labels = [[label for label in row if label is not None] for row in shared]
        # Alpha does not depend on the person: the answers of a row come first, and gaps after.
        votes = self._numbered(zip(*zip_longest(*(row for row in labels if len(row) > 1)), strict=True))
        return (krippendorff_alpha(torch.tensor(votes), len(self.classes)), len(votes)) if votes else (None, 0)

    def _numbered(self, rows: Iterable[Iterable[str | None]]) -> list[list[int]]:
        place: dict[str | None, int] = {name: number for number, name in enumerate(self.classes)}
        return [[place.get(label, -1) for label in row] for row in rows]

    def wait(self, seconds: float, ids: Collection[str] | None = None) -> bool:
        """Whether these rows (or all) have their answers, after waiting for them up to so many seconds."""
        end = time.monotonic() + seconds
        with self.file.changed:
            while True:
                with self.file.looking() as state:
                    rows = range(len(state.ids)) if ids is None else [_number(state, id) for id in ids]
                    if all(map(state.is_finished, rows)):
                        return True
                if (left := end - time.monotonic()) <= 0:
                    return False
                # Other processes do not wake us.
                self.file.changed.wait(min(left, 0.5))

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _number(state: LabellingState, id: Any) -> int:
    if str(id) not in state.numbers:
        raise UnderstudyError(f"{str(id)!r} is not among the rows to label; check the id")
    return state.numbers[str(id)]


def most_common(labels: Iterable[str | None]) -> str | None:
    """The majority label; None where two tie, or all skipped."""
    counts = Counter(label for label in labels if label is not None).most_common(2)
    return None if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]) else counts[0][0]
