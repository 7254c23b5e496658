"""The file of an answer book: SQLite with a write-ahead log, every transaction synced; its state is kept in memory.

    with file.looking() as state: ...          # what all processes have written until now
    with file.writing() as state: file.add_line(line)

Several threads and several processes may have it open. Answers are append-only, which triggers in the file enforce;
the state in memory is folded from them, updated where another process has written, and folded anew where a transaction
failed half-way.
"""

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError, first_line
from understudy.store.files import timestamp
from understudy.web.labelling_state import AnswerLine, LabellingState, Lease

FORMAT = 1
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
    "CREATE TABLE suggested(row INTEGER, annotator TEXT, PRIMARY KEY(row, annotator))",
    "CREATE TRIGGER answers_stay BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'answers are only added'); END",
    "CREATE TRIGGER answers_last BEFORE DELETE ON answers BEGIN SELECT RAISE(ABORT, 'answers are only added'); END",
)
_LINE = "name, annotator, row, label, undoes, suggested, seconds"


class BookFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        #: Held while looking or writing; notified of every line.
        self.changed = threading.Condition(threading.RLock())
        self._forget()
        try:
            # Two threads never use it at once: ``changed`` sees to that.
            self._file = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self._begin()
        except sqlite3.Error as error:
            raise self._broken(error) from error

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
        with self.changed:
            try:
                self._catch_up()
                yield self._state
            except sqlite3.Error as error:
                raise self._broken(error) from error

    @contextmanager
    def writing(self) -> Iterator[LabellingState]:
        """All of it is on the disk when the block ends, or nothing is. Inner blocks are part of the outermost."""
        with self.changed:
            if self._file.in_transaction:
                yield self._state
                return
            before = self._file.total_changes
            try:
                self._file.execute("BEGIN IMMEDIATE")
                self._catch_up()
                yield self._state
                self._file.execute("COMMIT")
            except BaseException as error:
                self._file.rollback()
                if self._file.total_changes != before:
                    self._forget()
                if isinstance(error, sqlite3.Error):
                    raise self._broken(error) from error
                raise

    def _forget(self) -> None:
        self._state, self._seen, self._version = LabellingState(), 0, -1

    def _catch_up(self) -> None:
        """Applies what other processes wrote; SQLite's counter shows whether there is anything."""
        version = self._file.execute("PRAGMA data_version").fetchone()[0]
        if version == self._version:
            return
        state, ask = self._state, self._file.execute
        for id, needed, chosen in ask(
            "SELECT id, needed, chosen FROM rows WHERE number>=? ORDER BY number", (len(state.ids),)
        ):
            state.add_row(id, needed, bool(chosen))
        for number, name, annotator, row, label, undoes, suggested, seconds in ask(
            f"SELECT number, {_LINE} FROM answers WHERE number>? ORDER BY number", (self._seen,)
        ):
            state.apply(AnswerLine(name, annotator, row, label, undoes, bool(suggested), seconds))
            self._seen = number
        state.leases.clear()
        for row, annotator, tab, until in ask("SELECT * FROM leases"):
            state.leases.setdefault(row, {})[annotator] = Lease(tab, until)
        self._version = version

    def settings(self) -> dict[str, Any]:
        return {name: json.loads(value) for name, value in self._file.execute("SELECT name, value FROM settings")}

    def set_settings(self, settings: dict[str, Any]) -> None:
        pairs = [(name, json.dumps(value)) for name, value in settings.items()]
        self._file.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", pairs)

    def add_rows(self, rows: Iterable[tuple[str, int, bool]]) -> None:
        """Id, how many people are to answer, and whether a strategy chose it."""
        start = len(self._state.ids)
        for row in rows:
            self._state.add_row(*row)
        state, numbers = self._state, range(start, len(self._state.ids))
        new = [(number, state.ids[number], state.needed[number], state.chosen[number]) for number in numbers]
        self._file.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", new)

    def add_line(self, line: AnswerLine) -> None:
        values = (
            line.name,
            line.annotator,
            line.row,
            line.label,
            line.undoes,
            line.suggested,
            line.seconds,
            timestamp(),
        )
        added = self._file.execute(f"INSERT INTO answers({_LINE}, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        self._file.execute("DELETE FROM leases WHERE row=? AND annotator=?", (line.row, line.annotator))
        self._state.apply(line)
        self._seen = int(added.lastrowid or 0)
        self.changed.notify_all()

    def add_leases(self, rows: Iterable[int], annotator: str, lease: Lease) -> None:
        new = [(row, annotator, lease.tab, lease.until) for row in rows]
        self._file.executemany("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)", new)
        for row, *_ in new:
            self._state.leases.setdefault(row, {})[annotator] = lease

    def end_leases(self, until: float) -> None:
        """Deletes those that ran out."""
        if self._state.end_leases(until):
            self._file.execute("DELETE FROM leases WHERE until<=?", (until,))

    def give_back(self, annotator: str, tab: str) -> None:
        if self._state.give_back(annotator, tab):
            self._file.execute("DELETE FROM leases WHERE annotator=? AND tab=?", (annotator, tab))

    def add_suggested(self, rows: Iterable[int], annotator: str) -> None:
        """This person saw a suggestion for these rows."""
        self._file.executemany("INSERT OR IGNORE INTO suggested VALUES (?, ?)", [(row, annotator) for row in rows])

    def was_suggested(self, row: int, annotator: str) -> bool:
        found = self._file.execute("SELECT 1 FROM suggested WHERE row=? AND annotator=?", (row, annotator)).fetchone()
        return found is not None

    def _broken(self, error: sqlite3.Error) -> UnderstudyError:
        cure = "end the other process" if "locked" in str(error) else "check the path, the disk and the file"
        return UnderstudyError(f"cannot use the book {self.path}: {first_line(error)}; {cure}")
