"""A watch in a folder, and the files it reads and writes.

    watch.json       the anchors with their truth, how many looks a year has, the last line of the log
    looks.jsonl      an append-only log (``store/log.py``): every look's answers, and what was found; answers that came
                     after the look of their week, which are part of the next one

A look is on the disk before its result is shown; killed at any moment, the same command continues. What was found is
stored with the answers, so that an alarm once given stays given.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import torch

from understudy.auditing.teacher_watch import Look, TeacherWatch
from understudy.data.checks import is_reserved
from understudy.errors import UnderstudyError
from understudy.io.label_columns import Labelling, read_teacher
from understudy.io.table import Table, read_table
from understudy.io.write import write_table
from understudy.labels.class_names import ClassNames
from understudy.maths.random_order import uniform
from understudy.store.checked_folder import Finding, FolderKind, Manifest
from understudy.store.files import as_given, digest, local_path, split_part, timestamp, work_folder
from understudy.store.log import Log

LOOKS = "looks.jsonl"
LOOKS_A_YEAR = 52

Answers = list[tuple[str, str]]


def _also(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    yield from Log(folder / LOOKS).verify(manifest.get("last", ""))


WATCH = FolderKind("watch", "watch.json", _also)


class WatchFolder:
    """A watch that is continued from its folder, which is locked by the caller.

    ``truth``: of the anchors; may be left out where the watch was begun before, and may not differ. ``reference``: the
    teacher's answers to them from before, the first look of a new watch.
    """

    def __init__(
        self, folder: Path, truth: Mapping[str, str] | None = None, *, looks_a_year: int | None = None,
        reference: Answers | None = None,
    ) -> None:  # fmt: skip
        self.folder = work_folder(folder)
        self._log = Log(self.folder / LOOKS)
        begun = (self.folder / WATCH.manifest).exists()
        if not begun and truth is None:
            raise UnderstudyError(f"{folder} holds no watch yet; begin it with its anchors: --gold FILE")
        new: Manifest = {"truth": truth, "looks_a_year": looks_a_year or LOOKS_A_YEAR, "last": ""}
        self._settings = WATCH.read(self.folder) if begun else new
        if truth is not None and dict(truth) != self._settings["truth"]:
            raise UnderstudyError(f"{folder} was begun with other anchors, or other truths; begin a new folder")
        if looks_a_year not in (None, of_year := self._settings["looks_a_year"]):
            raise UnderstudyError(f"{folder} was begun with {of_year} looks a year, not {looks_a_year}; leave it out")
        self.watch = TeacherWatch(self._settings["truth"], looks_a_year=of_year)
        self._sources: set[str] = set()
        #: Answers that were read, by week, time and id; and those of them that no look has yet.
        self._counted: Counter[str] = Counter()
        self._late: Answers = []
        if begun:
            self._restore()
        else:
            if any(entry.get("source") != "reference" for entry in self._log.entries()):
                raise UnderstudyError(f"{folder} holds {LOOKS} but no {WATCH.manifest}; restore it or use a new folder")
            self._log.path.unlink(missing_ok=True)  # of a beginning that was killed
            if reference:
                self.add(reference, name="reference", source="reference")
            WATCH.write(self.folder, self._settings)

    def _restore(self) -> None:
        for entry in list(self._log.entries(self._settings["last"])):  # the last line is known to be whole at the end
            self._counted.update(entry.get("rows", ()))
            if "late" in entry:
                self._late += [(id, label) for id, label in entry["late"]]
                continue
            self._late = [] if "rows" in entry else self._late
            self.watch.append(entry["answers"], entry["new"])
            self.watch.looks.append(Look.restore(entry["look"]))
            self._sources.add(entry["source"])
        if self._log.last() != self._settings["last"]:  # killed before it was written down
            self._seal(self._log.last())

    def _seal(self, last: str) -> None:
        self._settings["last"] = last
        WATCH.write(self.folder, self._settings)

    def add(self, answers: Answers, *, name: str, source: str, rows: Sequence[str] = ()) -> Look | None:
        """Adds a look; None where one of the same ``source`` is there already. ``rows``: week, time and id of each."""
        if source in self._sources:
            return None
        look = self.watch.add(answers, name=name)
        anchors, new = self.watch.counted(answers)
        entry = {"look": look.stored(), "answers": anchors, "new": new, "source": source, "when": timestamp()}
        self._seal(self._log.append([entry | ({"rows": rows} if rows else {})]))
        self._sources.add(source)
        self._counted.update(rows)
        return look

    def read(self, path: Path, columns: Mapping[str, str] | None = None) -> list[Look]:
        """The looks that a file of answers adds: itself, or the weeks of its ``time`` that are over. Answers that come
        after the look of their week are part of the next one."""
        table = read_table(path, columns=columns)
        answers = list(zip(_ids(table), _labels(table, self.watch.classes[:-1]), strict=True))
        if "time" not in table.names:
            _once(table, Counter(id for id, _ in answers))
            source = f"{as_given(path)} {digest(split_part(local_path(path))[0].read_bytes())}"
            look = self.add(answers, name=as_given(path), source=source)
            return [] if look is None else [look]
        left, new, looks = self._counted.copy(), list[tuple[str, tuple[str, str]]](), list[Look | None]()
        last = max((key.split()[0] for key in left), default="")
        for week, some in _weeks(table, answers):
            for key, answer in some:
                if left[key]:
                    left[key] -= 1
                else:
                    new.append((key, answer))
            if week > last and new:
                rows, given = zip(*new, strict=True)
                looks.append(self.add([*self._late, *given], name=week, source=week, rows=rows))
                self._late, new = [], []
        if new:
            rows, given = zip(*new, strict=True)
            self._seal(self._log.append([{"late": given, "rows": rows}]))
            self._late += given
            self._counted.update(rows)
        return [look for look in looks if look is not None]

    def draw(self, n: int, gold: Path, out: Path, columns: Mapping[str, str] | None = None) -> None:
        """Writes n anchors to ask next, drawn at random, as gold has them but without their labels."""
        table = read_table(gold, columns=columns)
        rows = np.flatnonzero([id in self.watch.truth for id in _ids(table)])
        if not 0 < n <= len(rows):
            raise UnderstudyError(f"--draw {n}: there are {len(rows)} anchors in {gold}; draw 1 to {len(rows)}")
        everyone = torch.ones(len(rows), dtype=torch.bool)
        picks = rows[uniform([slice(0, len(rows))], n, available=everyone, key=1 + len(self.watch.looks)).numpy()]
        names = [name for name in table.names if name == "id" or not is_reserved(name)]
        write_table(out, {name: table.taken(name, picks) for name in names})


def read_anchors(path: Path, columns: Mapping[str, str] | None = None) -> tuple[dict[str, str], Answers]:
    """The truth of the gold rows that have one, and the teacher's answers to them where the file has these."""
    table = read_table(path, columns=columns)
    if "label" not in table.names:
        raise UnderstudyError(f"{path} has no column 'label'; anchors need their true class")
    if twice := [id for id, count in Counter(_ids(table)).items() if count > 1]:
        raise UnderstudyError(f"{path} holds the id {twice[0]!r} more than once; an anchor has one true class")
    truth = {id: label.strip() for id, label in zip(_ids(table), table.texts("label"), strict=True) if label.strip()}
    if not any(name.startswith("teacher_") for name in table.names):
        return truth, []
    answers = zip(_ids(table), _labels(table, sorted(set(truth.values()))), strict=True)
    return truth, [(id, label) for id, label in answers if id in truth and label]


def _ids(table: Table) -> list[str]:
    if "id" not in table.names:
        raise UnderstudyError(f"{table.path} has no column 'id', by which anchors are known; add it")
    return table.texts("id")


def _labels(table: Table, classes: list[str]) -> list[str]:
    """The teacher's classes as text, '' where there is none; in a file without its columns, ``label``."""
    teacher = [name for name in table.names if name.startswith("teacher_")]
    name = "teacher_label" if "teacher_label" in teacher else "label"
    if name in table.names and (name == "teacher_label" or not teacher):
        return [label.strip() for label in table.texts(name)]
    labels = read_teacher(table, Labelling(ClassNames(tuple(classes)), len(classes)))
    if labels is None:
        raise UnderstudyError(f"{table.path} has no answers of the teacher; add teacher_label, or label")
    return ["" if code < 0 else classes[code] for code in labels.top1().tolist()]


def _weeks(table: Table, answers: Answers) -> list[tuple[str, list[tuple[str, tuple[str, str]]]]]:
    """The answers of every week that is over, in order, each with its week, time and id."""
    weeks: dict[str, list[tuple[str, tuple[str, str]]]] = {}
    now = datetime.now(UTC)
    for row, (text, answer) in enumerate(zip(table.texts("time"), answers, strict=True)):
        try:
            time = datetime.fromisoformat(text.strip())
        except ValueError as error:
            raise UnderstudyError(f"{table.where('time')} row {row} is {text!r}; write it like 2026-03-31") from error
        if time.date() > now.date() + timedelta(days=1):  # in every time zone
            raise UnderstudyError(f"{table.where('time')} row {row} is {text!r}, which is to come; correct it")
        weeks.setdefault(_week(time), []).append((f"{_week(time)} {time.isoformat()} {answer[0]}", answer))
    _once(table, Counter(key for some in weeks.values() for key, (id, _) in some if id))
    return [(name, weeks[name]) for name in sorted(weeks) if name < _week(now)]


def _week(time: datetime) -> str:
    year, week, _ = time.isocalendar()
    return f"{year:04}-W{week:02}"


def _once(table: Table, counts: Counter[str]) -> None:
    """An answer that is written twice would count as two."""
    if twice := [key for key, count in counts.items() if key and count > 1]:
        raise UnderstudyError(f"{table.path} holds {twice[0]!r} more than once; keep each answer once, or add its time")
