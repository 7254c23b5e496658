"""A hundred accidents to every file of a run, a training under way, a comparison, a label store and a loop.

    PYTHONPATH=src:tests python -m fuzz.corruption --count 100          # all kinds; about 5 minutes of one core
    PYTHONPATH=src:tests python -m fuzz.corruption --kind run --kind store

An accident is *detected* (one line that names the folder), *without effect* (what comes out is the same, to the bit),
or *silent*, which is a bug. The seeds are fixed: the same accidents every time. Expected: no silent one.
"""

import argparse
import json
import random
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from typer.testing import CliRunner

import understudy as us
from fuzz.damage import damaged
from understudy import cli
from understudy.active import Loop
from understudy.data.rows import Rows
from understudy.inference.passes import predict
from understudy.io.gold_pool import features_of, load_featuriser
from understudy.io.table import Table, read_table
from understudy.training.checkpoint import Checkpoints

GENERATOR = torch.Generator().manual_seed(0)
Y = torch.randint(3, (90,), generator=GENERATOR)
X = 2 * torch.eye(3, 4)[Y] + torch.randn(90, 4, generator=GENERATOR)
STUDENT = partial(us.models.linear, 4, 3)
IDS = [f"row{number}" for number in range(40)]
SECONDS = ("seconds", "train_seconds", "prepare_seconds", "fit_seconds", "evaluation_seconds")


def command(line: str) -> None:
    result = CliRunner().invoke(cli.app, line.split())
    if result.exit_code == 2 and "error: " in result.stderr:
        raise us.UnderstudyError(result.stderr.partition("error: ")[2])
    assert result.exit_code == 0, result.output


def timeless(content: Any) -> Any:
    """Without what the clock says."""
    if isinstance(content, dict):
        return {name: timeless(value) for name, value in content.items() if name not in SECONDS}
    return [timeless(value) for value in content] if isinstance(content, list) else content


def make_run(folder: Path, seed: int) -> None:
    """With everything that a run may hold: features, a moving average, a chosen epoch, a label history."""
    gold, select = folder.with_suffix(".csv"), folder.with_name(f"{folder.name}-select.csv")
    for path, rows in ((gold, range(40)), (select, range(40, 60))):
        cells = "".join(f"{k},{100 * X[k, 0]:.3f},{X[k, 1]:.3f},{int(Y[k])}\n" for k in rows)
        path.write_text("id,weight,age,label\n" + cells)
    scale = " --no-scale" if seed else ""
    command(
        f"train --gold {gold} --select {select} --method vanilla --ema --student linear --epochs 2 --batch-size 16 "
        f"--quiet --seed {seed}{scale} --out {folder}"
    )
    (folder / "report.html").unlink()  # for people: no command reads it


def _rows(folder: Path, config: Any, table: Table) -> Rows:
    return features_of(table, load_featuriser(folder, config, table))


def use_run(folder: Path, whole: Path) -> Any:
    run = us.Run.load(folder)
    assert run.ema is not None
    rows = _rows(folder, run.config, read_table(whole.with_suffix(".csv")))
    said = [predict(one, rows).tolist() for one in (run.student, run.ema.module, run.selected())]
    columns = {name: one.tolist() for name, one in run.columns.items()}
    return [run.history, run.facts, run.config, columns, said]


def make_training(folder: Path, seed: int) -> None:
    """Stopped in the middle of the second of three epochs."""
    gold = folder.with_suffix(".csv")
    said = [(int(Y[k]) + (k % (4 - seed) == 0)) % 3 for k in range(90)]
    cells = [f"{k},{100 * X[k, 0]:.3f},{X[k, 1]:.3f},{int(Y[k])},{said[k]}\n" for k in range(90)]
    gold.write_text("id,weight,age,label,teacher_label\n" + "".join(cells[:40]))
    pool = folder.with_name(f"{folder.name}-pool.csv")
    pool.write_text("id,weight,age,label,teacher_label\n" + "".join(cells[40:]))
    saved, real = iter(range(5)), Checkpoints.save

    def save(self: Checkpoints, *rest: Any) -> None:
        real(self, *rest)
        if next(saved) == 4:
            raise KeyboardInterrupt

    line = f"train --gold {gold} --pool {pool} --method forward --student linear --optimizer sgd --epochs 3 "
    line += f"--batch-size 16 --checkpoint-every 2 --quiet --seed {seed} --out {folder}"
    with patch.object(Checkpoints, "save", save):
        assert CliRunner().invoke(cli.app, line.split()).exit_code == 130


def use_training(folder: Path, whole: Path) -> Any:
    command(f"train --resume --quiet --out {folder}")
    run = us.Run.load(folder)
    rows = _rows(folder, run.config, read_table(whole.with_suffix(".csv")))
    columns = {name: one.tolist() for name, one in run.columns.items()}
    return [timeless(run.history), predict(run.student, rows).tolist(), columns]


def compare(folder: Path, shift: int = 0) -> Any:
    teacher = (Y + (torch.arange(90) % 4 == 0).long() * (1 + shift)) % 3
    gold = us.Gold(X[:30], Y[:30], us.Hard(teacher[:30]))
    return us.compare(
        STUDENT, gold, us.Pool(X[30:60], us.Hard(teacher[30:60])), ["gce"], seeds=2, out=folder, epochs=1,
        batch_size=16, pretrain_epochs=1, test=us.Gold(X[60:], Y[60:]), workers=1, progress=False,
    )  # fmt: skip


def make_comparison(folder: Path, seed: int) -> None:
    compare(folder, seed)


def use_comparison(folder: Path, whole: Path) -> Any:
    # One cell is made anew, from the start that is there.
    (folder / "cells" / "gce-0.json").unlink(missing_ok=True)
    return timeless(json.loads(json.dumps(compare(folder).as_dict())))


def make_store(folder: Path, seed: int) -> None:
    with us.LabelStore(folder, ["a", "b", "c"], "hard") as store:
        for start in range(0, 40, 20):
            store.append(IDS[start : start + 20], (Y[start : start + 20].numpy() + seed) % 3, source=f"teacher {seed}")


def use_store(folder: Path, whole: Path) -> Any:
    command(f"history {folder}")
    with us.LabelStore(folder) as store:
        answers = store.labels(IDS).top1().tolist()
        store.append(["another"], [1])
    return [store.classes, store.form, len(store), store.missing(IDS).tolist(), answers]


def run_loop(folder: Path, seed: int = 0, budget: int = 30) -> Any:
    oracle: Callable[[Any], Any] = lambda rows: Y[rows]  # noqa: E731
    student = partial(us.models.mlp, 4, 3, hidden=(6,))
    loop = Loop(
        student, X, oracle, "s_badge", out=folder, start=15, batch=5, budget=budget, epochs=3, batch_size=8,
        seed=seed, ids=np.arange(90) + seed, progress=False,
    )  # fmt: skip
    result = loop.run()
    assert result.run is not None
    records = json.loads(json.dumps(result.records))
    return [result.rows.tolist(), result.labels.tolist(), timeless(records), result.run.predict(X).tolist()]


def make_loop(folder: Path, seed: int) -> None:
    run_loop(folder, seed, budget=25)


def use_loop(folder: Path, whole: Path) -> Any:
    return run_loop(folder)


KINDS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path, Path], Any]]] = {
    "run": (make_run, use_run),
    "training": (make_training, use_training),
    "comparison": (make_comparison, use_comparison),
    "store": (make_store, use_store),
    "loop": (make_loop, use_loop),
}


def make(kind: str, home: Path) -> Path:
    """A folder of this kind, and beside it another one."""
    for number, name in enumerate((kind, f"{kind}-other")):
        KINDS[kind][0](home / name, number)
    return home / kind


class Files(NamedTuple):
    """What an accident may meet: the file, its folder, and another folder of the same kind."""

    path: Path
    folder: Path
    other: Path


def _delete(files: Files, draw: random.Random) -> None:
    files.path.unlink()


def _truncate(files: Files, draw: random.Random) -> None:
    content = files.path.read_bytes()
    files.path.write_bytes(content[: draw.choice([0, len(content) - 1, draw.randrange(len(content))])])


def _flip(files: Files, draw: random.Random) -> None:
    content = bytearray(files.path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    files.path.write_bytes(content)


def _append(files: Files, draw: random.Random) -> None:
    content = files.path.read_bytes()
    extra = draw.choice([b"\n", b" ", b"\0", b"{}\n", content, draw.randbytes(9)])
    files.path.write_bytes(content + extra)


def _block(files: Files, draw: random.Random) -> None:
    files.path.write_bytes(damaged(files.path.read_bytes(), draw))


def _anothers(files: Files, draw: random.Random) -> None:
    """Of the same name where there is one, in another folder of the kind."""
    same = [one for one in sorted(files.other.rglob("*")) if one.name == files.path.name]
    alike = [one for one in sorted(files.other.rglob(f"*{files.path.suffix}")) if one.is_file()]
    files.path.write_bytes(draw.choice(same or alike).read_bytes())


def _exchange(files: Files, draw: random.Random) -> None:
    """Two files of one folder."""
    alike = [one for one in sorted(files.path.parent.iterdir()) if one.suffix == files.path.suffix]
    mate, content = draw.choice([one for one in alike if one != files.path] or alike), files.path.read_bytes()
    files.path.write_bytes(mate.read_bytes())
    mate.write_bytes(content)


def _edit(files: Files, draw: random.Random) -> None:
    """One value of a JSON file, or of a line of one, is another of its type; a file of bytes gets another word."""
    content = files.path.read_bytes()
    try:
        lines = [json.loads(line) for line in content.splitlines()] if files.path.suffix == ".jsonl" else None
        changed = lines if lines is not None else json.loads(content)
        holder, key = draw.choice(list(_places(changed)))
        holder[key] = _other(holder[key], draw)
        text = "".join(json.dumps(line) + "\n" for line in lines) if lines is not None else json.dumps(changed)
        files.path.write_bytes(text.encode())
    except (ValueError, IndexError):
        place = draw.randrange(len(content))
        files.path.write_bytes(content[:place] + draw.randbytes(4) + content[place + 4 :])


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(content) if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], dict | list):
            yield from _places(content[key])


def _other(value: Any, draw: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return draw.choice([value + 1, -value - 1, 0 if value else 7])
    if isinstance(value, str):
        return draw.choice([value + "x", value[:-1] if value else "y", value[::-1] + "z"])
    if isinstance(value, list):
        return value[:-1] if value else [1]
    return {} if value else {"a": 1} if isinstance(value, dict) else 1


ACCIDENTS: dict[str, Callable[[Files, random.Random], None]] = {
    "deleted": _delete,
    "another's": _anothers,
    "exchanged": _exchange,
    "bit flipped": _flip,
    "truncated": _truncate,
    "appended": _append,
    "edited": _edit,
    "block damaged": _block,
}
# There is one way to delete, and few to exchange; of the others there are many.
_AGAIN = (
    ["bit flipped"] * 6 + ["truncated"] * 2 + ["appended"] * 2 + ["edited"] * 5 + ["block damaged"] * 4 + ["another's"]
)


class Outcome(NamedTuple):
    kind: str
    file: str
    accident: str
    verdict: str
    """"detected", "without effect" or "silent"; "not an accident" where the bytes came out the same."""
    said: str


def accidents(kind: str, whole: Path, scratch: Path, count: int, *, in_turn: bool = False) -> Iterator[Outcome]:
    """``count`` accidents to each file, one at a time, and what became of them; ``in_turn``: each file begins with the
    next sort.
    """
    use, copy = KINDS[kind][1], scratch / "copy"
    shutil.copytree(whole, copy)
    right = _quiet(use, copy, whole)
    names = sorted(path.relative_to(whole).as_posix() for path in whole.rglob("[!.]*") if path.is_file())
    for name in names:
        draw = random.Random(f"{kind} {names.index(name)}")  # names hold checksums
        sorts = list(ACCIDENTS)[names.index(name) % len(ACCIDENTS) if in_turn else 0 :]
        done = 0
        while done < count:
            shutil.rmtree(copy)
            shutil.copytree(whole, copy)
            what = sorts[done] if done < len(sorts) else draw.choice(_AGAIN)
            ACCIDENTS[what](Files(copy / name, copy, whole.with_name(f"{whole.name}-other")), draw)
            done += 1
            if (copy / name).exists() and (copy / name).read_bytes() == (whole / name).read_bytes():
                yield Outcome(kind, name, what, "not an accident", "")
                continue
            try:
                outcome = _quiet(use, copy, whole)
            except us.UnderstudyError as error:
                where = str(scratch) in str(error)
                yield Outcome(kind, name, what, "detected" if where else "silent", str(error))
            else:
                yield Outcome(kind, name, what, "without effect" if outcome == right else "silent", "")


def _quiet(use: Callable[[Path, Path], Any], copy: Path, whole: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", us.UnderstudyWarning)
        return use(copy, whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--count", type=int, default=100)
    given = parser.parse_args()
    torch.set_num_threads(1)
    silent = 0
    for kind in given.kind or KINDS:
        with tempfile.TemporaryDirectory() as home:
            (Path(home) / "scratch").mkdir()
            outcomes = list(accidents(kind, make(kind, Path(home)), Path(home) / "scratch", given.count))
        files = len({outcome.file for outcome in outcomes})
        verdicts = Counter(outcome.verdict for outcome in outcomes)
        print(f"{kind}: {len(outcomes)} accidents to {files} files: {dict(verdicts)}", flush=True)
        for accident in ACCIDENTS:
            some = Counter(outcome.verdict for outcome in outcomes if outcome.accident == accident)
            print(f"    {accident:14} {dict(some)}", flush=True)
        for outcome in outcomes:
            if outcome.verdict == "silent":
                print(f"    SILENT {outcome}", flush=True)
        silent += verdicts["silent"]
    raise SystemExit(1 if silent else 0)


if __name__ == "__main__":
    main()
