"""CSV and JSON lines as text editors, spreadsheets, crashed programs and enemies write them."""

import csv
import io
import json
import random
from pathlib import Path

from fuzz.damage import damaged
from fuzz.good import check_examples
from understudy.features.featuriser import FeatureOptions
from understudy.io.read import read_examples

HEADER = ["id", "text", "teacher_label"]
CELLS = [
    "good film",
    "",
    '"',
    'a "quoted" b',
    "a,b",
    "a\nb",
    "a\rb",
    "a\r\nb",
    "\0",
    "é",
    "NULL",
    "NaN",
    "=1+1",
    "'",
    "\ufeff",
]
ENCODINGS = ["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "utf-32", "cp500"]


def csv_text(draw: random.Random, given: Path, made: Path) -> None:
    """Rows are written by hand, so that quotes and lengths can be wrong; Python's own reader says what they hold."""
    rows = [[f"r{row}", draw.choice(["good film", "bad film"]), str(row % 2)] for row in range(8)]
    for _ in range(draw.randrange(4)):
        draw.choice(rows)[draw.randrange(2)] = draw.choice(CELLS)
    ragged = draw.random() < 0.3
    if ragged:
        row = draw.choice(rows)
        row[:] = draw.choice([row[:-1], [*row, "more"], row[:1], [*row, "", ""]])
    written = io.StringIO()
    csv.writer(written, lineterminator=draw.choice(["\n", "\r\n"])).writerows([HEADER, *rows])
    text = written.getvalue()
    how = draw.choice(["as it is", "as it is", "as it is", "semicolons", "no header", "twice", "quote", "blank lines"])
    text = {
        "semicolons": lambda: text.replace(",", ";"),
        "no header": lambda: text.split("\n", 1)[1],
        "twice": lambda: text + text,
        "quote": lambda: text + '"',
        "blank lines": lambda: "\n\n" + text.replace("\n", "\n\n"),
    }.get(how, lambda: text)()
    encoding = draw.choice(ENCODINGS)
    path = given / "rows.csv"
    path.write_bytes(text.encode(encoding, errors="replace"))
    examples = read_examples(pool=path, features=FeatureOptions(text="text"))
    check_examples(examples)
    if how == "as it is" and encoding.startswith("utf-8"):
        assert not ragged, "accepted ragged rows"
        assert examples.pool is not None and examples.pool.ids is not None
        assert examples.pool.ids.tolist() == [row[0] for row in rows], "ids are not those of the file"


def json_text(draw: random.Random, given: Path, made: Path) -> None:
    lines = [json.dumps({"id": f"r{row}", "width": row / 2, "teacher_label": row % 2}) for row in range(8)]
    for _ in range(draw.choice([0, 1, 1, 2])):
        lines.insert(draw.randrange(len(lines) + 1), draw.choice(GARBAGE))
    ending = draw.choice(["\n", "\r\n", "\n\n", " ", "\u2028", "\r", ","])
    content = (ending.join(lines) + draw.choice(["", "\n", "\n{", "\0"])).encode(
        draw.choice(ENCODINGS), errors="replace"
    )
    path = given / "rows.jsonl"
    path.write_bytes(damaged(content, draw) if draw.random() < 0.2 else content)
    check_examples(read_examples(pool=path))


GARBAGE = [
    "null", "1", "[]", "{}", '"text"', "{", "}", "{}}", "NaN", "# comment", "{'id': 1}", '{"id": 1,}', "\ufeff{}",
    '{"id": "a", "id": "b"}', '{"width": 1e999}', '{"width": NaN}', '{"width": -Infinity}', '{"width": "1"}',
    '{"width": [1]}', '{"width": {"a": 1}}', '{"width": true}', '{"width": 123456789012345678901234567890}',
    '{"id": "\\ud800"}', '{"id": "\\u0000"}', '{"id": 1}', '{"id": 1.5}', '{"id": null}', '{"id": ""}', '{"id": "r1"}',
    '{"": 1}', '{"teacher_label": "a"}', '{"teacher_label": -7}', '{"teacher_label": 1e18}', '{"x": [1, [2]]}',
    '{"width": ' + "9" * 5_000 + "}", "[" * 5_000, '{"a":' * 3_000, '{"width": 1}' * 2, "\x00\x00", "\x1b[31m{}",
    '{"id": "' + "a" * 100_000 + '", "width": 1, "teacher_label": 1}',
]  # fmt: skip
