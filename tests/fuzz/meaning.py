"""Tables whose meaning is known, through train → predict → select: every one is understood right, or refused.

A *world* is a pool, gold and test of which it is known what each cell means: the class follows from a category
(``zip``) or from the numbers, the teacher is right, so a linear student is right about every row unless something was
misunderstood on the way. Classes, categories and ids come in spellings that invite mistakes (7 and 007, 1e3, 12.0, 19
digits, true, nan, skip …), every file in a format and with types of its own. After training come tables to predict and
to select from, some of them bent: columns in another order, renamed, missing, an index column, other types, ids and
labels respelled. Then

    right      what was written is what was meant (predictions, accuracy, ids, rows never to be picked)
    refused    one line of error, exit code 2
    silent     anything else: a wrong result without an error

    PYTHONPATH=tests python -m fuzz.meaning 3000      # so many tables; counts by kind, exit code 1 if any is silent

One world again: ``run_world(17, folder, tally)``.
"""

import csv
import gzip
import io
import json
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from understudy import cli

CLASSES = [
    ("neg", "pos"), ("0", "1", "2"), ("1", "2", "5"), ("7", "007", "x"), ("01", "02", "10"), ("1e3", "1000", "y"),
    ("1.0", "1.5", "2.0"), ("7", "900000", "1000001"), ("skip", "nan", "pos"), ("True", "False"),
    ("true", "false", "0"),
    ("Yes", "yes", "no"), ("1234567890123456789", "1234567890123456788", "z"), ("a b", "a-b", "é"), ("0", "1", "x"),
    ("10", "9", "8"), ("1", "01", "001"), ("None", "NULL", "NA"), ("0x1", "1", "b"), ("inf", "-inf", "q"),
]  # fmt: skip
ZIPS = [
    ("01", "02", "a1", "1"), ("red", "blue", "green", "black"), ("true", "false", "maybe", "0"), ("1", "2", "3", "x"),
    ("2020-01-01", "2020-01-02", "later", "7"), ("1.0", "1", "01", "one"), ("NA", "nan", "none", "some"),
]  # fmt: skip
IDS: list[Callable[[int], str]] = [
    lambda row: f"{row}", lambda row: f"{row:04}", lambda row: f"r{row}", lambda row: f"{1234567890123456000 + row}",
    lambda row: f"{row}" if row % 5 else f"x{row}", lambda row: f"{row * 7 + 1}", lambda row: f"{row}.5",
]  # fmt: skip
FORMATS = (".csv", ".csv", ".csv", ".tsv", ".csv.gz", ".parquet", ".jsonl")
EACH = 6
"""Rows of each category."""


@dataclass(frozen=True)
class Row:
    id: str
    label: str
    zip: str
    numbers: tuple[float, ...]


class SilentError(AssertionError):
    """A wrong result without an error."""


def is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and str(int(text)) == text and len(text) < 19


def cells(draw: random.Random, texts: Sequence[str]) -> list[Any]:
    """The same letters as text, or as numbers where these are spelled so."""
    return [int(text) for text in texts] if all(map(is_whole, texts)) and draw.random() < 0.6 else list(texts)


def write(path: Path, columns: dict[str, list[Any]], draw: random.Random | None = None) -> Path:
    """``draw``: of delimiters, decimal marks and byte-order marks."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        delimiter = "\t" if ".tsv" in path.suffixes else "," if draw is None else draw.choice(",,;;\t")
        commas = delimiter == ";" and draw is not None and draw.random() < 0.7
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\r\n" if commas else "\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([str(cell).replace(".", ",") if commas and type(cell) is float else cell for cell in row])
        content = (b"\xef\xbb\xbf" if commas else b"") + text.getvalue().encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


class Refusal(Exception):
    pass


def call(*words: Any) -> tuple[str, str]:
    """What a command says; ``Refusal`` where it refuses as it should."""
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code == 0:
        return result.stdout, result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert result.exit_code == 2 and len(errors) == 1, f"exit code {result.exit_code}: {result.stderr[-300:]}"
    raise Refusal(errors[0])


class World:
    def __init__(self, draw: random.Random, folder: Path) -> None:
        self.draw, self.folder = draw, folder
        self.classes = list(draw.choice(CLASSES))
        self.by_zip = draw.random() < 0.6
        zips = draw.choice(ZIPS)
        spell = draw.choice(IDS)
        places = [number % len(self.classes) for number in range(len(zips)) for _ in range(EACH)]
        self.rows = []
        for number, place in enumerate(places):
            at = [8.0 * (place == each) + draw.random() for each in range(len(self.classes))]
            self.rows.append(Row(spell(number), self.classes[place], zips[number // EACH], tuple(at)))
        draw.shuffle(self.rows)
        self.gold, self.test = self.rows[:8], self.rows[8:14]
        self.kind = "as it is"
        """How the tables of the training were bent."""
        renamed = ["id", "label", "zip" if self.by_zip else "n0"] if draw.random() < 0.3 else []
        self.theirs = {name: f"Their {name}" for name in renamed}
        """What the files call columns, and ``--column`` tells."""

    def write(self, name: str, columns: dict[str, list[Any]]) -> Path:
        named = {self.theirs.get(each, each): values for each, values in columns.items()}
        return write(self.folder / f"{name}{self.draw.choice(FORMATS)}", named, self.draw)

    def features(self, rows: Sequence[Row]) -> dict[str, list[Any]]:
        if self.by_zip:
            return {"zip": [row.zip for row in rows], "f": [round(row.numbers[0] % 1, 4) for row in rows]}
        columns = range(len(self.classes))
        return {f"n{number}": [row.numbers[number] for row in rows] for number in columns}

    def columns(self, rows: Sequence[Row], *names: str) -> dict[str, list[Any]]:
        parts: dict[str, list[Any]] = {}
        for name in names:
            if name == "features":
                parts |= self.features(rows)
            else:
                parts[name] = cells(self.draw, [row.id if name == "id" else row.label for row in rows])
        return self.shuffled(parts)

    def shuffled(self, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
        order = list(columns)
        self.draw.shuffle(order)
        return {name: columns[name] for name in order}

    def pool(self) -> dict[str, list[Any]]:
        rows = self.rows[14:] if self.draw.random() < 0.3 else self.rows
        columns = self.columns(rows, "id", "features")
        form = self.draw.choice(["label", "label", "probs", "votes"])
        if form == "label":
            columns["teacher_label"] = cells(self.draw, [row.label for row in rows])
        elif form == "probs":
            columns |= {f"teacher_prob_{name}": [float(row.label == name) for row in rows] for name in self.classes}
        else:
            for annotator in ("ann", "bob", "cy"):
                columns[f"teacher_vote_{annotator}"] = cells(self.draw, [row.label for row in rows])
        return columns


# Bent tables: how gold's cells are respelled before training. Each tells whether it bent anything.


def respelled(texts: Sequence[Any], how: str) -> list[Any]:
    """Ids or labels as programs that do not keep the letters write them."""
    if how == "with a point":
        return [f"{text}.0" if is_whole(str(text)) else text for text in texts]
    if how == "without zeros":
        return [str(text).lstrip("0") or "0" if str(text).isdigit() else text for text in texts]
    if how == "with zeros":
        return [f"{int(text):07}" if is_whole(str(text)) else text for text in texts]
    assert how == "with spaces"
    return [f" {text} " for text in texts]


def changed(before: Sequence[Any], after: Sequence[Any], known: Sequence[str]) -> bool:
    """Whether some are spelled otherwise, and none like another one that is known: nobody could tell that."""
    pairs = [(str(one), str(other)) for one, other in zip(before, after, strict=True) if str(one) != str(other)]
    return bool(pairs) and not any(other in known for _, other in pairs)


RESPELLED = ("with a point", "without zeros", "with zeros", "with spaces")


def bend_gold(world: World, gold: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Gold with one column respelled, of another type, or missing; ``world.kind`` then says what was done."""
    draw, what = world.draw, world.draw.choice(["id", "label", "label", "truth values", "missing"])
    if what in ("id", "label"):
        how = draw.choice(RESPELLED)
        bent = respelled(gold[what], how)
        if changed(gold[what], bent, world.classes if what == "label" else [row.id for row in world.rows]):
            world.kind = f"gold {what} {how}"
            return gold | {what: bent}
    elif what == "truth values" and world.classes != ["True", "False"]:
        world.kind = "gold label true or false"
        return gold | {"label": [bool(place % 2) for place in range(len(world.gold))]}
    elif what == "missing":
        name = draw.choice([name for name in gold if name != "id"])
        world.kind = "gold without a column"
        return {each: values for each, values in gold.items() if each != name}
    return gold


def train(world: World) -> str:
    """Writes pool, gold and test, trains, and says of which kind the tables were."""
    draw, pool = world.draw, world.pool()
    in_pool = set(map(str, pool["id"]))
    # Gold of id and label takes its features from the pool.
    own = not {row.id for row in world.gold} <= in_pool or draw.random() < 0.5
    gold = world.columns(world.gold, "id", "label", *(["features"] if own else []))
    if draw.random() < 0.4:
        gold = bend_gold(world, gold)
    test = world.columns(world.test, "id", "features", "label")
    files = {"gold": gold, "pool": pool, "test": test}
    words = [word for name, columns in files.items() for word in (f"--{name}", world.write(name, columns))]
    # A column that may be digits alone in one file is declared, as a user would.
    types = ["--types", "zip=text"] if world.by_zip and draw.random() < 0.5 else []
    renamed = [word for ours, theirs in world.theirs.items() for word in ("--column", f"{ours}={theirs}")]
    out, _ = call("train", *words, *types, *renamed, *FIXED.split(), "--out", world.folder / "run")
    if "test accuracy 100.0%" not in out:
        raise SilentError(f"trained, and {[line for line in out.splitlines() if 'accuracy' in line]}")
    _check_apart(world, in_pool)
    return world.kind


FIXED = "--method vanilla --student linear --optimizer lbfgs --weight-decay 0 --epochs 2 --quiet"


def _check_apart(world: World, in_pool: set[str]) -> None:
    """Rows that are gold or test are no pool rows."""
    left = set(map(str, pq.read_table(world.folder / "run" / "columns.parquet")["id"].to_pylist()))
    held_out = {row.id for row in (*world.gold, *world.test)}
    if left & held_out or left != in_pool - held_out:
        raise SilentError(f"{len(left & held_out)} rows of gold or test are in the pool")


Columns = dict[str, list[Any]]


def _letters(columns: Columns, world: World) -> Columns | None:
    """Labels respelled: what is then scored must still be the same classes."""
    how = world.draw.choice(RESPELLED)
    labels = respelled(columns["label"], how)
    return columns | {"label": labels} if changed(columns["label"], labels, world.classes) else None


def _truth_values(columns: Columns, world: World) -> Columns | None:
    if world.classes == ["True", "False"]:  # by the letter, in CSV
        return None
    return columns | {"label": [world.draw.random() < 0.5 for _ in columns["label"]]}


def _numbers_for_names(columns: Columns, world: World) -> Columns | None:
    if any(map(is_whole, world.classes)):
        return None
    order = sorted(world.classes)
    return columns | {"label": [(order.index(str(label)) + 1) % len(order) for label in columns["label"]]}


def _feature(columns: Columns) -> str:
    return next(name for name in columns if name not in ("id", "label"))


def _renamed(columns: Columns, world: World) -> Columns:
    name = _feature(columns)
    return {(name.upper() if each == name else each): values for each, values in columns.items()}


def _missing(columns: Columns, world: World) -> Columns:
    return {name: values for name, values in columns.items() if name != _feature(columns)}


def _index(columns: Columns, world: World) -> Columns:
    index = world.draw.choice(["", "__index_level_0__", "Unnamed: 0", "ID", "Label"])
    return {index: list(range(len(columns["id"])))} | columns


def _gap(columns: Columns, world: World) -> Columns:
    name = "f" if world.by_zip else "n0"
    return columns | {name: [None, *columns[name][1:]]}


def _other_type(columns: Columns, world: World) -> Columns:
    name = _feature(columns)
    values = columns[name]
    if isinstance(values[0], str):
        return columns | {name: [int(value) if is_whole(value) else 987654 for value in values]}
    return columns | {name: [str(value) if world.draw.random() < 0.5 else "x" for value in values]}


BENT: dict[str, Callable[[Columns, World], Columns | None]] = {
    "labels respelled": _letters, "truth values as labels": _truth_values, "numbers for names": _numbers_for_names,
    "a feature in capitals": _renamed, "a feature missing": _missing, "an index or lookalike": _index,
    "an empty number": _gap, "another type": _other_type,
}  # fmt: skip


def some_rows(world: World) -> list[Row]:
    """All, or those of some categories or classes, so that a column may happen to hold digits alone."""
    draw, what = world.draw, world.draw.choice(["all", "zip", "label", "one"])
    if what == "one":
        return [draw.choice(world.rows)]
    if what == "all":
        return list(world.rows)
    kept = draw.sample(sorted({getattr(row, what) for row in world.rows}), draw.choice([1, 2]))
    return [row for row in world.rows if getattr(row, what) in kept]


def predict(world: World, number: int) -> str:
    """Predictions for a table of this kind ("as it is", or one of ``BENT``), each held against what was meant."""
    rows, kind = some_rows(world), world.kind
    with_label = kind != "as it is" or world.draw.random() < 0.7
    columns = world.columns(rows, "id", "features", *(["label"] if with_label else []))
    if kind in BENT:
        bent = BENT[kind](columns, world)
        columns, kind = (columns, "as it is") if bent is None else (bent, kind)
        world.kind = kind
    out = world.folder / f"said{number}.jsonl"
    shown, stderr = call("predict", world.folder / "run", world.write(f"new{number}", columns), "--out", out)
    said = [json.loads(line) for line in out.read_text().splitlines()]
    if [str(line["id"]) for line in said] != [row.id for row in rows]:
        raise SilentError(f"ids came back as {said[0]['id']!r} …")
    if kind == "another type" and "training did not know" in stderr:
        return kind  # reported, and nothing can be said of such rows
    wrong = [
        f"{row.label!r} as {line['label']!r}"
        for row, line in zip(rows, said, strict=True)
        if str(line["label"]) != row.label
    ]
    if wrong:
        raise SilentError(f"{len(wrong)} of {len(rows)} predictions are wrong: {wrong[0]}")
    accuracy = [line for line in shown.splitlines() if line.startswith("accuracy")]
    if kind in ("truth values as labels", "numbers for names") and accuracy and "100.0%" not in accuracy[0]:
        raise SilentError(f"{accuracy[0]}, of labels that mean nothing here")
    if kind not in ("truth values as labels", "numbers for names") and accuracy and "100.0%" not in accuracy[0]:
        raise SilentError(accuracy[0])
    if kind == "as it is" and with_label and not accuracy and "trained the student" not in stderr:
        raise SilentError(f"no accuracy: {stderr}")
    return kind


def select(world: World, number: int) -> str:
    """A batch that holds none of the rows which a file of labelled ones names, however it spells their ids."""
    draw, kind = world.draw, world.kind
    labelled = draw.sample(world.rows, draw.randrange(4, 12))
    columns = world.columns(labelled, "id", *(["label"] if draw.random() < 0.5 else []))
    if kind in RESPELLED:
        before = columns["id"]
        bent = respelled(before, kind)
        if changed(before, bent, [row.id for row in world.rows]):
            columns["id"] = bent
        else:
            world.kind = kind = "as it is"
    elif kind == "from elsewhere":
        columns = {name: [*values, values[0]] for name, values in columns.items()}
        columns["id"] = [*map(str, columns["id"][:-1]), "elsewhere"]
    elif kind == "ids in capitals":
        columns["ID"] = columns.pop("id")
    out, pool = (
        world.folder / f"batch{number}.csv",
        world.write(f"pool{number}", world.columns(world.rows, "id", "features")),
    )
    _, stderr = call(
        "select", world.folder / "run", pool, "--strategy", "margin", "-n", 2, "--out", out, "--labelled",
        world.write(f"labelled{number}", columns),
    )  # fmt: skip
    with out.open(newline="") as file:
        picked = {line["id"] for line in csv.DictReader(file)}
    again = picked & {row.id for row in labelled}
    if again or len(picked) != 2 or not picked <= {row.id for row in world.rows}:
        raise SilentError(f"{len(again)} of {len(picked)} picks were labelled already, or are none of the pool's")
    if kind == "from elsewhere" and "are not in" not in stderr:
        raise SilentError("an id that is not in the pool was not reported")
    return kind


@dataclass
class Tally:
    ends: Counter[tuple[str, str]]
    """By kind and end: right, refused, silent."""
    silent: list[str]
    tables: int = 0

    def count(self, kind: str, end: str, tables: int = 1) -> None:
        self.ends[kind, end] += tables
        self.tables += tables

    def __str__(self) -> str:
        kinds = sorted({kind for kind, _ in self.ends})
        width = max(map(len, kinds))
        lines = [f"{'':{width}}  {'right':>7} {'refused':>7} {'silent':>7}"]
        for kind in [*kinds, "all"]:
            counts = [
                sum(n for (name, each), n in self.ends.items() if each == end and kind in (name, "all"))
                for end in ("right", "refused", "silent")
            ]
            lines.append(f"{kind:{width}}  " + " ".join(f"{count:7,}" for count in counts))
        return "\n".join(lines)


def judged(tally: Tally, command: str, world: World, tables: int, run: Callable[[], str], place: str) -> bool:
    """Counts how it ends; whether it was right."""
    try:
        found = run()
        tally.count(f"{command}: {found}", "right", tables)
        return True
    except Refusal as refusal:
        name = f"{command}: {world.kind}"
        if world.kind == "as it is":
            # Nothing was bent: that it is refused is wrong too, and said.
            tally.count(name, "silent", tables)
            tally.silent.append(f"{place} {name}: refused as it is: {refusal}")
        else:
            tally.count(name, "refused", tables)
    except SilentError as error:
        name = f"{command}: {world.kind}"
        tally.count(name, "silent", tables)
        tally.silent.append(f"{place} {name}: {error}")
    return False


def run_world(number: int, folder: Path, tally: Tally) -> None:
    folder.mkdir(parents=True)
    world = World(random.Random(f"meaning {number}"), folder)
    with warnings.catch_warnings(), mock.patch("understudy.report.run_page.write_run_report"):
        warnings.simplefilter("ignore")
        if not judged(tally, "train", world, 3, lambda: train(world), f"world {number}"):
            return
        for place, kind in enumerate(["as it is", "as it is", *world.draw.sample(sorted(BENT), 4)]):
            world.kind = kind
            judged(tally, "predict", world, 1, lambda: predict(world, place), f"world {number}, {place}")  # noqa: B023
        bent = [*RESPELLED, "from elsewhere", "ids in capitals"]
        for place, kind in enumerate(["as it is", *world.draw.sample(bent, 3)]):
            world.kind = kind
            judged(tally, "select", world, 2, lambda: select(world, place), f"world {number}, {place}")  # noqa: B023


def run_tables(tables: int, root: Path, *, show: bool = False) -> Tally:
    """Worlds until so many tables were tried; ``show``: silent errors as they are found."""
    tally, number = Tally(Counter(), []), 0
    while tally.tables < tables:
        known = len(tally.silent)
        with tempfile.TemporaryDirectory(dir=root) as folder:
            run_world(number, Path(folder) / "world", tally)
        if show and tally.silent[known:]:
            print("\n".join(tally.silent[known:]), flush=True)
        number += 1
    return tally


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = run_tables(int(sys.argv[1]) if len(sys.argv) > 1 else 3_000, Path(scratch), show=True)
    print(found)
    sys.exit(bool(found.silent))
