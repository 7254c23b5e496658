"""Files of gold and pool, damaged in their bytes or wrong in their content."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.content import spoil
from fuzz.damage import damaged
from fuzz.good import GOLD, SUFFIXES, Cells, Sample, check_examples, good_sample, must_refuse, write_cells
from fuzz.harness import Family
from understudy.io.read import Examples, read_examples
from understudy.io.table import read_table


def read_pool(sample: Sample, path: Path) -> Examples:
    """The bad file as the pool, beside a small gold file that is right."""
    good = path.parent / "gold.jsonl"
    named = isinstance(sample.cells["label"][0], str)
    labels: list[Any] = ["neg", "pos", "neutral é"] * 2 if named else [0, 1, 2] * 2
    write_cells(good, {"id": sample.cells["id"][:GOLD], "label": labels})
    return read_examples(gold=good, pool=path, features=sample.features, classes=sample.classes)


def read_gold(sample: Sample, path: Path) -> Examples:
    return read_examples(gold=path, features=sample.features, classes=sample.classes)


def use(draw: random.Random, sample: Sample, path: Path) -> Examples:
    examples = draw.choice([read_pool, read_gold])(sample, path)
    check_examples(examples)
    return examples


def broken_bytes(suffix: str, draw: random.Random, given: Path, made: Path) -> None:
    sample, path = good_sample(draw, suffix), given / f"rows{suffix}"
    write_cells(path, sample.cells)
    path.write_bytes(damaged(path.read_bytes(), draw))
    table = read_table(path)
    assert all(len(table.columns[name]) == len(table) > 0 for name in table.columns)
    use(draw, sample, path)


def broken_array(draw: random.Random, given: Path, made: Path) -> None:
    kinds: list[Callable[[], Any]] = [
        lambda: np.zeros((6, 2), dtype=draw.choice(["<f4", ">f8", "<f2", "<i8", "?", "<c8", "<M8[s]"])),
        lambda: np.array([(1, 0.5)] * 6, dtype=[("label", "i8"), ("width", "f8")]),
        lambda: np.array(["a", "b"]),
        lambda: np.array(3.0),
        lambda: np.asfortranarray(np.zeros((5, 3))),
    ]
    path = given / "x.npy"
    np.save(path, draw.choice(kinds)())
    path.write_bytes(damaged(path.read_bytes(), draw))
    source = path if draw.random() < 0.5 else given
    table = read_table(source)
    assert all(len(table.columns[name]) == len(table) > 0 for name in table.columns)
    check_examples(read_examples(pool=source))


def wrong_content(suffix: str, draw: random.Random, given: Path, made: Path) -> None:
    sample, path = good_sample(draw, suffix), given / f"rows{suffix}"
    cells = spoil(sample.cells, draw)
    write_cells(path, cells)
    as_gold = draw.random() < 0.5
    examples = (read_gold if as_gold else read_pool)(sample, path)
    reason = must_refuse(cells, as_gold=as_gold, flat=suffix == ".csv")
    assert reason is None, f"accepted: {reason}"
    check_examples(examples)
    _check_ids(examples, cells, suffix)


def _check_ids(examples: Examples, cells: Cells, suffix: str) -> None:
    """Every id as it was written, and none beside."""
    found = [part.ids for part in (examples.gold, examples.pool) if part is not None]
    if "id" not in cells:
        return
    read = {repr(value) for ids in found if ids is not None for value in ids.tolist()}
    plain = {str(cell) for cell in cells["id"]}
    if suffix == ".csv":
        assert {text.strip("'\"") for text in read} <= plain | {ascii(text)[1:-1] for text in plain}
    else:
        written = {repr(cell) for cell in cells["id"]} | {repr(ascii(cell)) for cell in cells["id"]}
        assert read <= written | {repr(str(cell)) for cell in cells["id"]}, f"{sorted(read - written)[:3]}"


def wrong_suffix(draw: random.Random, given: Path, made: Path) -> None:
    """The content of one kind of file under the name of another, and names that are no files."""
    sample = good_sample(draw, ".csv")
    content = given / f"content{draw.choice(SUFFIXES)}"
    write_cells(content, sample.cells)
    path = given / f"rows{draw.choice([*SUFFIXES, '.npy', '.CSV', '.txt', '.parquet.gz', '', '.pkl'])}"
    what = draw.choice(["renamed", "renamed", "linked", "folder", "dangling", "circle", "device", "fifo", "missing"])
    if what == "renamed":
        content.rename(path)
    elif what == "linked":
        path.symlink_to(content)
    elif what == "folder":
        path.mkdir()
    elif what == "dangling":
        path.symlink_to(given / "nowhere")
    elif what == "circle":
        path.symlink_to(path.name)
    elif what == "device":
        path.symlink_to(draw.choice(["/dev/zero", "/dev/null", "/proc/self/mem", "/proc/self/environ"]))
    elif what == "fifo":
        import os

        os.mkfifo(path)
    use(draw, sample, path)


def folders(draw: random.Random, given: Path, made: Path) -> None:
    """Folders of shards and of columns, one of them damaged, of another kind, or missing rows."""
    sample = good_sample(draw, ".parquet")
    folder = given / "rows"
    folder.mkdir()
    if draw.random() < 0.5:
        for number, start in enumerate(range(0, 12, 4)):
            part = {name: column[start : start + 4] for name, column in sample.cells.items()}
            cells = spoil(part, draw) if draw.random() < 0.3 else part
            write_cells(folder / f"{number}.parquet", cells)
    else:
        x = [[float(row), 1.0] for row in range(12)]
        for name, column in {
            "id": sample.cells["id"],
            "x": x,
            "teacher_label": [0, 1] * 6,
            "label": [0, 1] * 6,
        }.items():
            cut = 5 if draw.random() < 0.1 else 12
            np.save(folder / f"{name}.npy", np.array(column[:cut]))
        sample = Sample({"id": sample.cells["id"], "label": [0, 1] * 6})
    victim = draw.choice(sorted(folder.iterdir()))
    what = draw.choice(["bytes", "empty", "other", "hidden", "link", "nothing"])
    if what == "bytes":
        victim.write_bytes(damaged(victim.read_bytes(), draw))
    elif what == "empty":
        victim.write_bytes(b"")
    elif what == "other":
        (folder / draw.choice(["notes.txt", "a.csv", "x.npy", "z.parquet", "a.png"])).write_bytes(b"hello")
    elif what == "hidden":
        (folder / draw.choice(["._x.parquet", "_SUCCESS", ".x.npy"])).write_bytes(b"hello")
    elif what == "link":
        victim.unlink()
        victim.symlink_to("/dev/zero")
    use(draw, sample, folder)


BYTES: dict[str, Family] = {f"{suffix[1:]} bytes": partial(broken_bytes, suffix) for suffix in SUFFIXES}
CONTENT: dict[str, Family] = {f"{suffix[1:]} content": partial(wrong_content, suffix) for suffix in SUFFIXES}
