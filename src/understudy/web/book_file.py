"""The file of an answer book: SQLite with a write-ahead log, every transaction synced; its answers folded in memory.

    with file.looking() as state: ...          # what all processes have written until now
    with file.writing() as state: file.add_line(line)

Several threads and several processes may have it open. Answers are append-only, which triggers in the file enforce;
the state in memory is folded from them, updated where another process has written, and folded anew where a transaction
failed half-way.
"""

import json
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from understudy.errors import UnderstudyError, first_line
from understudy.store.files import timestamp

FORMAT = 2
# "USLB": marks an SQLite file as a book.
_KIND = 0x55534C42
_SCHEMA = (
    "CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE rows(
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, needed INTEGER NOT NULL, chosen INTEGER NOT NULL)""",
    """CREATE TABLE answers(
        number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, row INTEGER NOT NULL,
        label TEXT, undoes TEXT UNIQUE, suggested INTEGER NOT NULL, seconds REAL, at TEXT NOT NULL)""",
    """CREATE TABLE leases(
        row INTEGER, annotator TEXT, tab TEXT NOT NULL, until REAL NOT NULL, PRIMARY KEY(row, annotator))""",
    "CREATE TABLE pins(id TEXT PRIMARY KEY, pin TEXT NOT NULL)",
    "CREATE TABLE suggested(row INTEGER, annotator TEXT, PRIMARY KEY(row, annotator))",
    "CREATE TRIGGER answers_stay BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'answers are only added'); END",
    "CREATE TRIGGER answers_last BEFORE DELETE ON answers BEGIN SELECT RAISE(ABORT, 'answers are only added'); END",
)
# Of cells that a damaged file gives: SQLite keeps no checksums.
_DAMAGED = (sqlite3.Error, TypeError, ValueError, LookupError)
_LINE = "name, annotator, row, label, undoes, suggested, seconds"


class AnswerLine(NamedTuple):
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

    def content(self) -> tuple[str, int, str | None, str | None]:
        return self.annotator, self.row, self.label, self.undoes


class LabellingState:
    """A fold over the lines of a book: applied in the order written, so that a reopened book is in the same state.

    A row is *finished* when as many people have answered as it needs; a skip is an answer too. The answers of one
    person to one row are a stack, because undo removes one answer and the one before holds again.
    """

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
        self.finished = 0
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

    def _count(self, row: int, sign: int) -> None:
        if self.is_finished(row):
            self.finished += sign
        else:
            for annotator in self.given.get(row, ()):
                self._ahead[annotator] += sign

    def is_finished(self, row: int) -> bool:
        return len(self.given.get(row, ())) >= self.needed[row]

    def left(self, annotator: str) -> int:
        """Rows that this person could still answer, including those reserved for others."""
        return len(self.ids) - self.finished - self._ahead[annotator]

    def is_open(self, row: int, annotator: str) -> bool:
        return annotator not in self.given.get(row, {}) and not self.is_finished(row)

    def free_rows(
        self, annotator: str, tab: str, without: Collection[int], leases: Mapping[int, Mapping[str, str]]
    ) -> Iterator[int]:
        """Rows to show, best first: those this tab had already, then new ones, then those in the person's other tabs.

        ``leases``: by row and person, the tab.
        """
        mine = sorted(row for row, held in leases.items() if annotator in held and self.is_open(row, annotator))
        here = [row for row in mine if leases[row][annotator] == tab and row not in without]
        yield from here
        for row in self._open_rows(annotator):
            given = self.given.get(row, {})
            # Other people have it at the moment, and have not answered it.
            others = sum(who != annotator and who not in given for who in leases.get(row, ()))
            if row not in mine and row not in without and len(given) + others < self.needed[row]:
                yield row
        yield from (row for row in mine if row not in here and row not in without)

    def _open_rows(self, annotator: str) -> Iterator[int]:
        while self._start[annotator] < len(self.ids) and not self.is_open(self._start[annotator], annotator):
            self._start[annotator] += 1
        return (row for row in range(self._start[annotator], len(self.ids)) if self.is_open(row, annotator))


class BookFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        #: Held while looking or writing; notified of every line.
        self.changed = threading.Condition(threading.RLock())
        self._forget()
        with self._refusing(_DAMAGED):
            # Two threads never use it at once: ``changed`` sees to that.
            self._file = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self._begin()

    def _begin(self) -> None:
        ask = self._file.execute
        kind, form = ask("PRAGMA application_id").fetchone()[0], ask("PRAGMA user_version").fetchone()[0]
        if kind != _KIND and self._tables():
            raise UnderstudyError(f"{self.path} holds another program's tables; choose another name for the book")
        if kind == _KIND and form != FORMAT:
            raise UnderstudyError(f"{self.path} is a book of format {form}, this version reads {FORMAT}; use another")
        ask("PRAGMA journal_mode=WAL")
        ask("PRAGMA synchronous=FULL")
        ask("BEGIN IMMEDIATE")
        if not self._tables():  # another process may have been faster
            for statement in _SCHEMA:
                ask(statement)
            ask(f"PRAGMA application_id={_KIND}")
            ask(f"PRAGMA user_version={FORMAT}")
        ask("COMMIT")

    def _tables(self) -> int:
        return int(self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    def close(self) -> None:
        with self.changed:
            self._file.close()

    @contextmanager
    def looking(self) -> Iterator[LabellingState]:
        with self.changed, self._refusing():
            self._catch_up()
            yield self._state

    @contextmanager
    def writing(self) -> Iterator[LabellingState]:
        """All of it is on the disk when the block ends, or nothing is. Inner blocks are part of the outermost."""
        with self.changed, self._refusing():
            if self._file.in_transaction:
                yield self._state
                return
            before = self._file.total_changes
            try:
                self._file.execute("BEGIN IMMEDIATE")
                self._catch_up()
                yield self._state
                self._file.execute("COMMIT")
            except BaseException:
                self._file.rollback()
                if self._file.total_changes != before:
                    self._forget()
                raise

    def _forget(self) -> None:
        self._state, self._seen, self._version = LabellingState(), 0, -1

    def _catch_up(self) -> None:
        """Applies what other processes wrote; SQLite's counter shows whether there is anything."""
        version = self._file.execute("PRAGMA data_version").fetchone()[0]
        if version == self._version:
            return
        state, ask = self._state, self._file.execute
        rows = ask("SELECT id, needed, chosen FROM rows WHERE number>=? ORDER BY number", (len(state.ids),))
        with self._refusing(_DAMAGED):
            for id, needed, chosen in rows:
                state.add_row(id, int(needed), bool(chosen))
            new = ask(f"SELECT number, {_LINE} FROM answers WHERE number>? ORDER BY number", (self._seen,))
            for number, *line in new:
                state.apply(AnswerLine(*line))
                self._seen = number
        self._version = version

    def settings(self) -> dict[str, Any]:
        with self._refusing(_DAMAGED):
            return {name: json.loads(value) for name, value in self._file.execute("SELECT name, value FROM settings")}

    def set_settings(self, settings: dict[str, Any]) -> None:
        pairs = [(name, json.dumps(value)) for name, value in settings.items()]
        self._file.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", pairs)

    def add_rows(self, rows: Iterable[tuple[str, int, bool]]) -> None:
        """Id, how many people are to answer, and whether a strategy chose it."""
        for row in rows:
            self._file.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", (len(self._state.ids), *row))
            self._state.add_row(*row)

    def pins(self) -> dict[str, dict[str, str]]:
        """By id and column, a digest of what was shown when the row was added."""
        with self._refusing(_DAMAGED):
            return {id: json.loads(pin) for id, pin in self._file.execute("SELECT id, pin FROM pins")}

    def add_pins(self, pins: Mapping[str, Mapping[str, str]]) -> None:
        new = [(id, json.dumps(pin)) for id, pin in pins.items()]
        self._file.executemany("INSERT OR IGNORE INTO pins VALUES (?, ?)", new)

    def add_line(self, line: AnswerLine) -> None:
        values = (*line, timestamp())
        added = self._file.execute(f"INSERT INTO answers({_LINE}, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        self._file.execute("DELETE FROM leases WHERE row=? AND annotator=?", (line.row, line.annotator))
        self._state.apply(line)
        self._seen = int(added.lastrowid or 0)
        self.changed.notify_all()

    def add_leases(self, rows: Iterable[int], annotator: str, tab: str, until: float) -> None:
        """Reserves rows for a person until then; others get other rows."""
        new = [(row, annotator, tab, until) for row in rows]
        self._file.executemany("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)", new)

    def leases(self, now: float, longest: float) -> dict[int, dict[str, str]]:
        """By row and person, the tab; those that ran out are deleted. After a clock was set back, none is longer."""
        self._file.execute("DELETE FROM leases WHERE until<=?", (now,))
        self._file.execute("UPDATE leases SET until=? WHERE until>?", (now + longest, now + longest))
        held: dict[int, dict[str, str]] = {}
        for row, annotator, tab in self._file.execute("SELECT row, annotator, tab FROM leases"):
            held.setdefault(row, {})[annotator] = tab
        return held

    def give_back(self, annotator: str, tab: str) -> None:
        """Ends the leases of a tab."""
        self._file.execute("DELETE FROM leases WHERE annotator=? AND tab=?", (annotator, tab))

    def add_suggested(self, rows: Iterable[int], annotator: str) -> None:
        """This person saw a suggestion for these rows."""
        self._file.executemany("INSERT OR IGNORE INTO suggested VALUES (?, ?)", [(row, annotator) for row in rows])

    def was_suggested(self, row: int, annotator: str) -> bool:
        found = self._file.execute("SELECT 1 FROM suggested WHERE row=? AND annotator=?", (row, annotator)).fetchone()
        return found is not None

    @contextmanager
    def _refusing(self, kinds: tuple[type[Exception], ...] = (sqlite3.Error,)) -> Iterator[None]:
        """One line in the place of what SQLite raises."""
        try:
            yield
        except kinds as error:
            cure = "end the other process" if "locked" in str(error) else "check the path, the disk and the file"
            raise UnderstudyError(f"cannot use the book {self.path}: {first_line(error)}; {cure}") from error
