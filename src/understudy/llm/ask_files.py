"""The files of ``understudy ask``: the rows to label, the gold rows to show as examples, and the labels.

And request files for a batch service, and its output files as answers:

    written = write_batches(run)               # out/batch/requests-0001.jsonl …, for one model each
    read_output(run, ["output.jsonl"])         # its lines into the answers

A row in a request file is under way: no other batch or request holds it until its line of the output is read, which
takes it out of the file. A file that is deleted counts as never sent, and its rows are free again.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from understudy.data.checks import is_index, is_reserved
from understudy.errors import UnderstudyError
from understudy.io.gold_pool import is_one_file, split_gold_pool
from understudy.io.label_columns import SAW
from understudy.io.table import Stored, Table, read_table
from understudy.io.write import WRITERS
from understudy.labels.forms import Labels, Votes, aligned, named_columns
from understudy.llm.answer_folder import answer_line
from understudy.llm.asking import AskRun, Labelled
from understudy.llm.ledger import usage_of
from understudy.llm.request import AskPlan, Row, most_tokens, request_body
from understudy.store.files import appearing_whole, write_bytes
from understudy.store.log import Log

# Just below OpenAI's limits of one file.
MOST_REQUESTS, MOST_BYTES = 50_000, 190_000_000
URL = "/v1/chat/completions"
POOL, GOLD = "pool.parquet", "gold.parquet"


@dataclass
class AskFiles:
    pool: Table
    gold: Table | None
    classes: Sequence[str]
    #: The column of texts; None where the user's prompt shows other columns.
    text: str | None
    #: Of the pool's rows, then of the gold rows that are not in the pool.
    ids: list[Any]
    rows: list[Row]
    #: The label of every gold row, by its index in ``rows``; in the order of gold.
    truth: dict[int, str] = field(default_factory=dict)
    #: The gold rows that are not in the pool, by their index in gold.
    own: Sequence[int] = ()

    @classmethod
    def read(
        cls, pool: Path, gold: Path | None, classes: Sequence[str], *, text: str | None, columns: Mapping[str, str],
        as_rows: bool,
    ) -> Self:  # fmt: skip
        table = read_table(pool, columns=columns)
        trusted = None if gold is None or is_one_file(gold, pool) else read_table(gold, columns=columns)
        if gold is not None and trusted is None:
            trusted, table = split_gold_pool(table, classes)
        table.refuse_labels()
        ids = table.known_ids(" by which rows are known; add it")
        name = text or _text_column(table, required=not as_rows)
        files = cls(table, trusted, classes, name, ids.tolist(), _rows(table, name, as_rows))
        if trusted is not None:
            files._add_gold(trusted, as_rows)
        return files

    def _add_gold(self, gold: Table, as_rows: bool) -> None:
        if "label" not in gold.names:
            raise UnderstudyError(f"{gold.path} has no column 'label'; gold needs the true class of every row")
        gold.refuse_labels()
        gold.check_spelling(self.pool)
        places = gold.rows_in(self.pool).tolist()
        self.own = [row for row, place in enumerate(places) if place < 0]
        if self.own and self.text is not None and self.text not in gold.names:
            missing = f"{gold.path} row {self.own[0]} is not in {self.pool.path}"
            raise UnderstudyError(f"{missing}; add it there, or its text here in a column {self.text!r}")
        if self.own:
            theirs = _rows(gold, self.text, as_rows)
            names = [f"gold:{row}" for row in range(len(gold))] if gold.ids is None else gold.ids.tolist()
            start = len(self.rows)
            self.rows += [theirs[row] for row in self.own]
            self.ids += [names[row] for row in self.own]
            if len({type(name) for name in self.ids}) > 1:
                self.ids = [str(name) for name in self.ids]
            for place, row in enumerate(self.own, start):
                places[row] = place
        labels = [str(label).strip() for label in gold.columns["label"].tolist()]
        unknown = [label for label in labels if label not in self.classes]
        if unknown:
            raise UnderstudyError(f"{gold.where('label')} holds {unknown[0]!r}, which --classes does not name")
        self.truth = dict(zip(places, labels, strict=True))

    def examples(self, count: int, seed: int) -> list[int]:
        """Indices of gold rows to show, drawn at random, balanced over classes."""
        if count > len(self.truth):
            cure = "name gold by --gold" if self.gold is None else "take fewer"
            raise UnderstudyError(f"--examples {count}: there are {len(self.truth)} gold rows; {cure}")
        draw = random.Random(seed)
        by_class = {name: [place for place in sorted(self.truth) if self.truth[place] == name] for name in self.classes}
        for places in by_class.values():
            draw.shuffle(places)
        shown: list[int] = []
        while len(shown) < count:
            turn = [places.pop() for places in by_class.values() if places]
            draw.shuffle(turn)
            shown += turn
        return shown[:count]

    def run(self, plan: AskPlan, out: Path, shown: Sequence[int]) -> AskRun:
        """The run over every row but those that are shown."""
        left = set(shown)
        places = [place for place in range(len(self.rows)) if place not in left]
        return AskRun([self.rows[place] for place in places], [self.ids[place] for place in places], plan, out)

    def write(self, out: Path, found: Labelled, shown: Sequence[int]) -> None:
        """Writes the pool with its labels, and gold where it has rows that are not in the pool."""
        if not bool(found.labels.labelled().any()):
            return
        labels = aligned(found.labels, found.ids, self.ids)
        saw = np.zeros(len(self.rows), dtype=bool)
        saw[list(shown)] = True
        rows = len(self.pool)
        _write(out / POOL, self.pool, labels.take(torch.arange(rows)), saw[:rows], found)
        if self.own and self.gold is not None:
            places = list(self.truth)
            _write(out / GOLD, self.gold, labels.take(torch.tensor(places)), saw[places], found)


def _write(path: Path, table: Table, labels: Labels, saw: Any, found: Labelled) -> None:
    columns: dict[str, Stored] = {name: table.stored(name) for name in table.names}
    if "id" not in columns and table.ids is not None:
        columns = {"id": table.ids, **columns}
    columns |= named_columns(labels, found.classes)
    if isinstance(labels, Votes):  # a column for each model
        votes = columns.pop("teacher_votes")
        columns |= {f"teacher_vote_{model}": votes[:, number] for number, model in enumerate(found.sources)}
    if saw.any():
        columns[SAW] = saw
    with appearing_whole(path) as temporary:
        WRITERS[path.suffix](temporary, columns)


def _text_column(table: Table, *, required: bool) -> str | None:
    """The column called text, or else the only one of texts."""
    if "text" in table.names:
        return "text"
    others = [name for name in table.names if not (is_reserved(name) or is_index(name))]
    texts = [name for name in others if table.columns[name].dtype.kind in "OU"]
    if required and len(texts) != 1:
        raise UnderstudyError(f"{table.path} has {len(texts)} columns of texts ({', '.join(texts)}); name it by --text")
    return texts[0] if len(texts) == 1 else None


def _rows(table: Table, text: str | None, as_rows: bool) -> list[Row]:
    """Texts, or for the user's prompt all columns by name; never labels."""
    if text is not None and text not in table.names:
        raise UnderstudyError(f"{table.path} has no column {text!r}; name the one with the texts by --text")
    if text is not None:
        table.expect({text: "texts"})
        texts = table.columns[text].tolist()
        empty = [row for row, value in enumerate(texts) if value is None or not str(value).strip()]
        if empty:
            raise UnderstudyError(f"{table.where(text)} row {empty[0]} is empty ({len(empty)} such rows); fill it in")
        if not as_rows:
            return [str(value) for value in texts]
    names = [name for name in table.names if not (is_index(name) or (is_reserved(name) and name != "id"))]
    columns = {name: table.columns[name].tolist() for name in names}
    if text is not None:
        columns["text"] = columns[text]
    return [{name: column[row] for name, column in columns.items()} for row in range(len(table))]


def _places(run: AskRun) -> dict[str, tuple[int, int]]:
    """By the name of a request, the number of its model and row: the row's id, after the model's where several are."""
    names = [""] if len(run.plan.models) == 1 else [f"{number + 1}:" for number in range(len(run.plan.models))]
    return {f"{name}{row_id}": (number, row) for row, row_id in enumerate(run.ids) for number, name in enumerate(names)}


def rows_under_way(run: AskRun) -> list[set[str]]:
    """For each model, the ids in request files that have no answer yet."""
    waiting: list[set[str]] = [set() for _ in run.plan.models]
    places, left = _places(run), {(number, str(pending.name)) for number, pending in run.todo()}
    for path in sorted(run.folder.batch.glob("requests-*.jsonl")):
        for entry in _entries(path):
            number, row = places.get(str(entry.get("custom_id")), (-1, -1))
            if row >= 0 and (number, str(run.ids[row])) in left:
                waiting[number].add(str(run.ids[row]))
    return waiting


def write_batches(run: AskRun) -> list[Path]:
    """Writes request files for the rows that are left and in none yet."""
    names = {(number, str(run.ids[row])): name for name, (number, row) in _places(run).items()}
    todo, batches = list(run.todo(rows_under_way(run))), list[list[bytes]]()
    for number, model in enumerate(run.plan.models):
        batches.append([])
        size, features = 0, run.folder.features(model) or run.plan.features
        for pending in (pending for each, pending in todo if each == number):
            body = request_body(run.plan, model.name, features, pending.row, pending.wanted)
            entry = {"custom_id": names[number, str(pending.name)], "method": "POST", "url": URL, "body": body}
            line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
            if len(batches[-1]) == MOST_REQUESTS or size + len(line) > MOST_BYTES:
                batches.append([])
                size = 0
            batches[-1].append(line)
            size += len(line)
    written = [int(path.stem.rpartition("-")[2]) for path in run.folder.batch.glob("requests-*.jsonl")]
    new: list[Path] = []
    for number, lines in enumerate(filter(None, batches), max([0, *written]) + 1):
        new.append(run.folder.batch / f"requests-{number:04d}.jsonl")
        write_bytes(new[-1], b"".join(lines))
    return new


def read_output(run: AskRun, files: Sequence[str | Path]) -> Counter[str]:
    """Stores the answers in a batch's output and error files; counts lines by outcome."""
    counts: Counter[str] = Counter()
    answers: list[tuple[int, int, dict[str, Any]]] = []
    seen: set[str] = set()
    places = _places(run)
    left = {(number, str(pending.name)): pending.wanted for number, pending in run.todo()}
    for entry in (entry for path in files for entry in _entries(Path(path), counts)):
        name = str(entry.get("custom_id"))
        number, row = places.get(name, (-1, -1))
        response = entry.get("response")
        body = response.get("body") if isinstance(response, dict) else None
        choices = body.get("choices") if isinstance(body, dict) else None
        seen.add(name)
        if row < 0:
            counts["of no row"] += 1
        elif not isinstance(body, dict) or not isinstance(choices, list) or not choices:
            counts["failed"] += 1
        elif left.get((number, str(run.ids[row])), 0) <= 0:
            counts["known already"] += 1
        else:
            counts["taken"] += 1
            left[number, str(run.ids[row])] -= len(choices)
            answers.append((number, row, body))
    _keep(run, answers)
    _leave_out(run.folder.batch, seen)
    run.look()
    return counts


def _entries(path: Path, counts: Counter[str] | None = None) -> Iterator[dict[str, Any]]:
    """The objects of a file's lines; others are counted as malformed, or refused in a file of ours."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UnderstudyError(f"cannot read {path}: {error.strerror}; name the output file of a batch") from error
    for number, line in ((number, line) for number, line in enumerate(lines, 1) if line.strip()):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if isinstance(entry, dict):
            yield entry
        elif counts is None:
            raise UnderstudyError(f"{path}: line {number} is not as it was written; restore it")
        else:
            counts["malformed"] += 1


def _keep(run: AskRun, answers: Sequence[tuple[int, int, dict[str, Any]]]) -> None:
    lines: list[list[dict[str, Any]]] = [[] for _ in run.plan.models]
    requests = []
    for number, row, body in answers:
        model, most = run.plan.models[number].name, run.plan.max_tokens * len(body["choices"])
        lines[number].append(answer_line(run.ids[row], run.pins[row], model, body))
        used = usage_of(body) or (most_tokens(run.plan.prompt.messages(run.rows[row], structured=True)), most)
        requests.append((model, *used))
    for number, mine in enumerate(lines):
        Log(run.folder.answers(number)).append(mine)
    run.ledger().add_batch(requests)


def _leave_out(folder: Path, seen: set[str]) -> None:
    """Takes rows that came back, answered or failed, out of the request files."""
    for path in sorted(folder.glob("requests-*.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        rest = [line for line in lines if str(json.loads(line).get("custom_id")) not in seen]
        if not rest:
            path.unlink()
        elif len(rest) < len(lines):
            write_bytes(path, b"".join(rest))
