"""The answer book: rows in, people's answers kept, in one file that loses nothing (``web/book_file.py``).

    book = AnswerBook("batch.book", classes=["neg", "pos"], overlap=0.2)
    book.add(["r1", "r2"])                             # rows to label, in this order; known ones stay
    book.answer("r1", "pos", annotator="ann")          # None: cannot say. On the disk when it returns
    book.undo(annotator="ann")                         # another line: nothing is ever changed
    book.answers(), book.waiting(), book.votes(), book.wait(60)  # until every row is answered, or 60 s
    book.close()

An answer has a name that whoever answers has made: one that is sent twice, because the response was lost, is one
answer. Another answer of the same person to the same row replaces the one before. The book may be open in several
processes at once (the page here, a campaign there).

A row is leased to whoever is shown it, so that two people are not asked the same; a share of the rows (``overlap``,
drawn by their ids) goes to ``people`` annotators each, to see whether they agree.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from understudy.errors import UnderstudyError
from understudy.web.book_file import BookFile
from understudy.web.opinions import agreement_of, most_common, votes_of
from understudy.web.standing import Lease, Line, Standing

if TYPE_CHECKING:
    from understudy.labels.votes import Votes

LEASE = 600.0
"""Seconds that a row stays with whoever was shown it and has gone silent."""
_LAST = 30
"""Answers that tell a person's pace."""


@dataclass(frozen=True)
class Progress:
    """How far one person is."""

    rows: int
    finished: int
    mine: int
    """Answers this person gave."""
    left: int
    """Rows this person could still answer."""
    pace: float | None
    """Seconds for a row, the median of the last ones."""


class AnswerBook:
    """``classes``, ``overlap`` and ``people`` of a book that is there already may be left out."""

    def __init__(
        self,
        path: str | Path,
        classes: Sequence[str] | None = None,
        *,
        overlap: float | None = None,
        people: int | None = None,
        lease: float = LEASE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path, self.lease, self._clock = Path(path), lease, clock
        if classes is None and not self.path.exists():
            raise UnderstudyError(f"{self.path} is not there; begin a book with its classes, or check the path")
        _check_sizes(0.0 if overlap is None else overlap, 2 if people is None else people)
        self.file = BookFile(self.path)
        with self.file.writing() as standing:
            self.settings = self._settled(standing, classes, {"overlap": overlap, "people": people})
            self.file.settle(self.settings)

    def _settled(
        self, standing: Standing, classes: Sequence[str] | None, asked: Mapping[str, float | None]
    ) -> dict[str, Any]:
        """The settings of a new book, or those it was begun with; classes may come, and no answered one go."""
        known = self.file.settings()
        settings = {"overlap": 0.0, "people": 2, "book": secrets.token_hex(8)} | known
        for name, value in asked.items():
            if value is not None and known.get(name, value) != value:
                raise UnderstudyError(
                    f"{self.path} was begun with {name} {known[name]}, not {value}; leave it as it was"
                )
            settings[name] = settings[name] if value is None else value
        names = list(known.get("classes", ())) if classes is None else [str(name) for name in classes]
        if len(names) < 2 or len(set(names)) < len(names) or not all(name.strip() for name in names):
            shown = ", ".join(map(repr, names[:5])) or "none"
            raise UnderstudyError(f"a page needs two or more classes, each with a name of its own; given: {shown}")
        used = {line.label for line in standing.lines.values() if line.label is not None}
        if gone := used - set(names):
            raise UnderstudyError(f"{self.path} holds answers {min(gone)!r}; keep it among the classes")
        return settings | {"classes": names}

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.settings["classes"])

    def add(self, ids: Sequence[Any], *, chosen: bool | Sequence[bool] = True) -> int:
        """Rows to label, after those that are there; how many were new.

        ``chosen``: picked by a strategy, so that their answers train and never estimate.
        """
        names = [str(id) for id in ids]
        if len(set(names)) < len(names) or not all(names):
            raise UnderstudyError("ids of rows to label are empty or repeated; give each row an id of its own")
        marks = [chosen] * len(names) if isinstance(chosen, bool) else [bool(mark) for mark in chosen]
        with self.file.writing() as standing:
            new = [
                (name, int(self.settings["people"]) if self._is_shared(name) else 1, mark)
                for name, mark in zip(names, marks, strict=True)
                if name not in standing.numbers
            ]
            self.file.add_rows(new)
        return len(new)

    def _is_shared(self, id: str) -> bool:
        """Whether several people get a row: decided by its id alone, in every book alike."""
        drawn = int.from_bytes(hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        return drawn < float(self.settings["overlap"]) * 2**64

    def answer(
        self, id: Any, label: str | None, *, annotator: str, name: str | None = None, seconds: float | None = None
    ) -> None:
        """One person's answer; None: cannot say. ``name``: of the answer, where it may be sent again."""
        if label is not None and label not in self.settings["classes"]:
            raise UnderstudyError(f"{label!r} is none of the classes of {self.path}; answer one of them, or skip")
        with self.file.writing() as standing:
            row = _number(standing, id)
            shown = self.file.was_suggested(row, annotator)
            self._write(standing, Line(name or _name(), annotator, row, label, suggested=shown, seconds=seconds))

    def undo(self, *, annotator: str, undoes: str | None = None, name: str | None = None, tab: str = "") -> str | None:
        """Takes one of a person's answers back, the last unless one is named, and gives them the row again.

        The row's id; None where there is nothing to undo.
        """
        with self.file.writing() as standing:
            history = standing.history[annotator]
            undoes = undoes or next(reversed(history), None)
            if undoes is None:
                return None
            answered = standing.lines.get(undoes)
            line = Line(name or _name(), annotator, -1 if answered is None else answered.row, undoes=undoes)
            if line.name not in standing.lines and undoes not in history:
                raise UnderstudyError("that answer is not there any more; undo another one")
            self._write(standing, line)
            self.file.add_leases([line.row], annotator, Lease(tab, self._clock() + self.lease))
            return standing.ids[line.row]

    def _write(self, standing: Standing, line: Line) -> None:
        before = standing.lines.get(line.name)
        if before is None:
            self.file.add_line(line)
        elif not before.same_as(line):
            raise UnderstudyError(f"answer {line.name} says something else already; give each answer its own name")

    def hand_out(
        self,
        annotator: str,
        *,
        tab: str = "",
        count: int = 1,
        have: Collection[str] = (),
        suggests: Callable[[str], bool] | None = None,
    ) -> dict[str, bool]:
        """Rows for a person to look at, so that with those that they ``have`` there are ``count``; leased, all of them.

        By id, whether it may be shown with a suggestion: ``suggests`` says which ids have one, and rows that may
        estimate are never shown with any. It is kept, so that such an answer never estimates.
        """
        with self.file.writing() as standing:
            now = self._clock()
            self.file.end_leases(now)
            kept = [row for id in have if standing.is_open(row := _number(standing, id), annotator)]
            free = standing.free_rows(annotator, tab, kept)
            rows = [row for row, _ in zip(free, range(count - len(kept)), strict=False)]
            self.file.add_leases([*kept, *rows], annotator, Lease(tab, now + self.lease))
            return self._shown(standing, rows, annotator, suggests)

    def give_back(self, annotator: str, *, tab: str = "") -> None:
        """The rows that a tab had go to whoever comes next."""
        with self.file.writing():
            self.file.give_back(annotator, tab)

    def show(self, id: str, annotator: str, suggests: Callable[[str], bool] | None = None) -> bool:
        """Whether a row that a person has may be shown to them with a suggestion; kept, as in ``hand_out``."""
        with self.file.writing() as standing:
            return self._shown(standing, [_number(standing, id)], annotator, suggests)[id]

    def _shown(
        self, standing: Standing, rows: Sequence[int], annotator: str, suggests: Callable[[str], bool] | None
    ) -> dict[str, bool]:
        shown = {row: suggests is not None and standing.chosen[row] and suggests(standing.ids[row]) for row in rows}
        self.file.add_suggested([row for row, mark in shown.items() if mark], annotator)
        return {standing.ids[row]: mark for row, mark in shown.items()}

    def are_open(self, ids: Collection[str], annotator: str) -> list[str]:
        """Those that this person could still answer."""
        with self.file.looking() as standing:
            return [id for id in ids if id in standing.numbers and standing.is_open(standing.numbers[id], annotator)]

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is done in this block is on the disk when it ends, and synced once."""
        with self.file.writing():
            yield

    def progress(self, annotator: str) -> Progress:
        with self.file.looking() as standing:
            mine = standing.history[annotator]
            last = [line.seconds for line, _ in zip(reversed(mine.values()), range(_LAST), strict=False)]
            times = [seconds for seconds in last if seconds is not None]
            pace = median(times) if times else None
            return Progress(len(standing.ids), standing.finished, len(mine), standing.left(annotator), pace)

    def history(self, annotator: str, count: int = 50) -> list[tuple[str, str, str | None]]:
        """A person's last answers that stand, the newest first: name, id, label."""
        with self.file.looking() as standing:
            lines = zip(reversed(standing.history[annotator].values()), range(count), strict=False)
            return [(line.name, standing.ids[line.row], line.label) for line, _ in lines]

    def given(self) -> dict[str, dict[str, Line]]:
        """By id and person, the answer that stands."""
        with self.file.looking() as standing:
            return {
                standing.ids[row]: {who: stack[-1] for who, stack in standing.given[row].items()}
                for row in sorted(standing.given)
            }

    def answers(self) -> dict[str, str | None]:
        """The label of every row that has answers: that of most people; None where they tie, or none could say."""
        return {id: most_common(line.label for line in people.values()) for id, people in self.given().items()}

    def waiting(self) -> list[str]:
        """Ids of the rows that need more answers, in their order."""
        with self.file.looking() as standing:
            return [id for row, id in enumerate(standing.ids) if not standing.is_finished(row)]

    def chosen(self) -> dict[str, bool]:
        """By id, in their order, whether a strategy picked the row."""
        with self.file.looking() as standing:
            return dict(zip(standing.ids, standing.chosen, strict=True))

    def annotators(self) -> list[str]:
        """Everybody with an answer that stands."""
        with self.file.looking() as standing:
            return sorted(who for who, lines in standing.history.items() if lines)

    def votes(self, by: str = "majority") -> "tuple[list[str], Votes]":
        """Ids with an answer, and what everybody said of them, as a teacher's labels."""
        given = {id: {who: line.label for who, line in people.items()} for id, people in self.given().items()}
        if not given:
            raise UnderstudyError(f"{self.path} holds no answers yet; label some rows first")
        return list(given), votes_of(given, self.classes, by)

    def agreement(self) -> tuple[float | None, int]:
        """Krippendorff's alpha of the rows that several people gave a class, and how many these are."""
        with self.file.looking() as standing:
            shared = [[stack[-1].label for stack in standing.given[row].values()] for row in standing.shared]
        return agreement_of(shared, self.classes)

    def wait(self, seconds: float, ids: Collection[str] | None = None) -> bool:
        """Until these rows (or all) have their answers, from any process, or the time is up; whether they have."""
        end = time.monotonic() + seconds
        with self.file.changed:
            while True:
                with self.file.looking() as standing:
                    rows = range(len(standing.ids)) if ids is None else [_number(standing, id) for id in ids]
                    if all(map(standing.is_finished, rows)):
                        return True
                if (left := end - time.monotonic()) <= 0:
                    return False
                # Other processes do not wake us.
                self.file.changed.wait(min(left, 0.5))

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_sizes(overlap: float, people: int) -> None:
    if not 0 <= overlap <= 1:
        raise UnderstudyError(f"overlap={overlap} is no share of the rows; give a number from 0 to 1")
    if people < 2:
        raise UnderstudyError(f"people={people}: rows that overlap go to two people or more")


def _name() -> str:
    return secrets.token_hex(16)


def _number(standing: Standing, id: Any) -> int:
    if str(id) not in standing.numbers:
        raise UnderstudyError(f"{str(id)!r} is not among the rows to label; check the id")
    return standing.numbers[str(id)]
