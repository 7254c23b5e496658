"""The labelling state: a fold over the lines of an answer book. No disk, no threads, no clock of its own.

Every line is applied in the order it was written, so that a book that is reopened is in the same state. A row is
*finished* when as many people have answered as it needs; a skip is an answer too. The answers of one person to one row
are a stack, because undo removes one answer and the one before holds again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerLine:
    """One line of the book: an answer (``label``; None: skipped), or an undo of the answer called ``undoes``."""

    #: Made by the sender, so that one sent twice is one.
    name: str
    annotator: str
    row: int
    label: str | None = None
    undoes: str | None = None
    #: Whether the row was ever shown to this person with a suggestion.
    suggested: bool = False
    #: From seeing the row to the answer.
    seconds: float | None = None

    def same_as(self, other: "AnswerLine") -> bool:
        return self._content() == other._content()

    def _content(self) -> tuple[str, int, str | None, str | None]:
        return self.annotator, self.row, self.label, self.undoes


@dataclass(frozen=True)
class Lease:
    """A row is reserved for one person until then; others get other rows."""

    tab: str
    until: float


class LabellingState:
    def __init__(self) -> None:
        self.ids: list[str] = []
        self.numbers: dict[str, int] = {}
        self.needed: list[int] = []
        self.chosen: list[bool] = []
        self.lines: dict[str, AnswerLine] = {}
        #: By row and person, the answers that were not undone; no empty ones.
        self.given: dict[int, dict[str, list[AnswerLine]]] = {}
        #: By person, the same by name, in the order given.
        self.history: dict[str, dict[str, AnswerLine]] = defaultdict(dict)
        self.leases: dict[int, dict[str, Lease]] = {}
        self.finished = 0
        #: Rows that several people answered.
        self.shared: set[int] = set()
        #: By person, rows they answered that still need another person.
        self._ahead: Counter[str] = Counter()
        #: By person, a row before which nothing is left to them.
        self._start: Counter[str] = Counter()

    def add_row(self, id: str, needed: int, chosen: bool) -> None:
        self.numbers[id] = len(self.ids)
        self.ids.append(id)
        self.needed.append(needed)
        self.chosen.append(chosen)

    def apply(self, line: AnswerLine) -> None:
        self.lines[line.name] = line
        self._count(line.row, -1)
        stack = self.given.setdefault(line.row, {}).setdefault(line.annotator, [])
        history = self.history[line.annotator]
        if line.undoes is None:
            stack.append(line)
            history[line.name] = line
            self._end_lease(line.row, line.annotator)
        else:
            stack.remove(history.pop(line.undoes))
            # It is free again for people who had passed it as finished.
            for annotator, start in self._start.items():
                self._start[annotator] = min(start, line.row)
        if not stack:
            del self.given[line.row][line.annotator]
        if not self.given[line.row]:
            del self.given[line.row]
        self._count(line.row, 1)
        (self.shared.add if len(self.given.get(line.row, ())) > 1 else self.shared.discard)(line.row)

    def end_leases(self, until: float) -> int:
        """Those that ran out; how many."""
        return self._end([(row, who) for row, who, lease in self._leases() if lease.until <= until])

    def give_back(self, annotator: str, tab: str) -> int:
        return self._end([(row, who) for row, who, lease in self._leases() if (who, lease.tab) == (annotator, tab)])

    def _leases(self) -> Iterator[tuple[int, str, Lease]]:
        return ((row, who, lease) for row, held in self.leases.items() for who, lease in held.items())

    def _end(self, leases: list[tuple[int, str]]) -> int:
        for row, annotator in leases:
            self._end_lease(row, annotator)
        return len(leases)

    def _end_lease(self, row: int, annotator: str) -> None:
        held = self.leases.get(row, {})
        held.pop(annotator, None)
        if not held:
            self.leases.pop(row, None)

    def _count(self, row: int, sign: int) -> None:
        people = self.given.get(row, {})
        if len(people) >= self.needed[row]:
            self.finished += sign
        else:
            for annotator in people:
                self._ahead[annotator] += sign

    def is_finished(self, row: int) -> bool:
        return len(self.given.get(row, ())) >= self.needed[row]

    def left(self, annotator: str) -> int:
        """Rows that this person could still answer, including those reserved for others."""
        return len(self.ids) - self.finished - self._ahead[annotator]

    def is_open(self, row: int, annotator: str) -> bool:
        return annotator not in self.given.get(row, {}) and not self.is_finished(row)

    def free_rows(self, annotator: str, tab: str, without: Collection[int]) -> Iterator[int]:
        """Rows to show, best first: those this tab had already, then new ones, then those in the person's other tabs.

        Leases that ran out must have been ended before.
        """
        mine = sorted(row for row, held in self.leases.items() if annotator in held and self.is_open(row, annotator))
        for row in mine:
            if self.leases[row][annotator].tab == tab and row not in without:
                yield row
        here = {*mine, *without}
        for row in self._open_rows(annotator):
            if row not in here and len(self.given.get(row, ())) + self._others(row, annotator) < self.needed[row]:
                yield row
        for row in mine:
            if self.leases[row][annotator].tab != tab and row not in without:
                yield row

    def _open_rows(self, annotator: str) -> Iterator[int]:
        row = self._start[annotator]
        while row < len(self.ids) and not self.is_open(row, annotator):
            row += 1
        self._start[annotator] = row
        for each in range(row, len(self.ids)):
            if self.is_open(each, annotator):
                yield each

    def _others(self, row: int, annotator: str) -> int:
        """How many other people have the row at the moment, and have not answered it."""
        held, given = self.leases.get(row, {}), self.given.get(row, {})
        return sum(who != annotator and who not in given for who in held)
