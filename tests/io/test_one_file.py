"""One file that is gold and pool at once reads as the two files it could have been."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import understudy as us
from understudy.cli import app
from understudy.errors import UnderstudyError
from understudy.features.featuriser import FeatureOptions
from understudy.io.gold_pool import is_one_file
from understudy.io.read import Examples

NAMES = ("neg", "pos")
ROWS = [(0.0, "neg", "neg"), (1.0, "pos", ""), (2.0, "", "pos"), (3.0, "pos", ""), (4.0, "neg", "")]


def csv_of(rows: list[tuple[float, str, str]], *, ids: bool = False) -> str:
    header, start = ("id,size,llm,checked\n", "r") if ids else ("size,llm,checked\n", None)
    lines = [f"{size},{llm},{checked}" for size, llm, checked in rows]
    return header + "".join(f"{start}{row},{line}\n" if ids else f"{line}\n" for row, line in enumerate(lines))


def read(gold: object, pool: object) -> Examples:
    columns = {"label": "checked", "teacher_label": "llm"}
    return us.read_examples(gold=gold, pool=pool, columns=columns, classes=["neg", "pos"])


@pytest.mark.parametrize("ids", [False, True])
def test_rows_with_a_label_are_gold_and_leave_the_pool(tmp_path: Path, ids: bool) -> None:
    (tmp_path / "mine.csv").write_text(csv_of(ROWS, ids=ids))
    (tmp_path / "gold.csv").write_text("id,checked\nr0,neg\nr2,pos\n")
    (tmp_path / "pool.csv").write_text(csv_of([(size, llm, "") for size, llm, _ in ROWS], ids=True))
    one, two = (
        read(tmp_path / gold, str(tmp_path / pool)) for gold, pool in (("mine.csv",) * 2, ("gold.csv", "pool.csv"))
    )
    assert one.gold is not None and one.pool is not None and two.gold is not None and two.pool is not None
    assert one.gold.y.tolist() == [0, 1] and len(one.pool) == 3
    assert torch.equal(one.gold.x, two.gold.x)
    assert torch.equal(one.pool.rows.take(torch.arange(3)), two.pool.rows.take(torch.arange(3)))
    assert one.gold.teacher is not None and one.pool.teacher is not None and two.pool.teacher is not None
    # The teacher said nothing of the row labelled pos.
    assert one.gold.teacher.top1().tolist() == [0]
    assert torch.equal(one.pool.teacher.top1(), two.pool.teacher.top1())
    assert one.pool.ids is not None and one.pool.ids.tolist() == (["r1", "r3", "r4"] if ids else [1, 3, 4])


def test_gaps_of_every_kind_of_file(tmp_path: Path) -> None:
    sizes, llm = [row[0] for row in ROWS], [0, 1, -1, 1, 0]
    checked: list[int | None] = [0, None, 1, None, None]
    records = [{"size": size, "llm": said, "checked": own} for size, said, own in zip(sizes, llm, checked, strict=True)]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "mine.parquet")
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    lines = [f"{r['size']},{r['llm']},{'' if r['checked'] is None else r['checked']}\n" for r in records]
    (tmp_path / "mine.csv").write_text("size,llm,checked\n" + "".join(lines))
    np.savez(tmp_path / "mine.npz", size=sizes, llm=llm, checked=[-1 if own is None else own for own in checked])
    for name in ("mine.parquet", "mine.jsonl", "mine.csv", "mine.npz"):
        found = us.read_examples(
            gold=tmp_path / name, pool=tmp_path / name, columns={"label": "checked", "teacher_label": "llm"}
        )
        assert found.gold is not None and found.pool is not None, name
        assert found.gold.y.tolist() == [0, 1] and found.pool.ids is not None, name
        assert found.pool.ids.tolist() == [1, 3, 4] and found.class_names is None, name


def test_what_cannot_be_parted_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(csv_of([(size, llm, "") for size, llm, _ in ROWS]))
    with pytest.raises(UnderstudyError, match="column 'checked' is empty in every row; label some"):
        read(path, path)
    path.write_text(csv_of([(size, llm, "neg") for size, llm, _ in ROWS]))
    with pytest.raises(UnderstudyError, match="every row also serves as gold"):
        read(path, path)
    with pytest.raises(UnderstudyError, match=r"has no column 'label' for your own labels .* --label \(label=\)"):
        us.read_examples(gold=path, pool=path, columns={"teacher_label": "llm"})


def test_one_file_is_known_however_its_name_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_one_file("mine.csv", tmp_path / "mine.csv") and is_one_file("./a/../mine.csv", "mine.csv")
    frame = {"label": ["a", "b"]}
    assert is_one_file(frame, frame) and not is_one_file(frame, dict(frame))
    assert (
        not is_one_file("mine.csv", "other.csv") and not is_one_file(None, None) and not is_one_file("mine.csv", frame)
    )


def test_rows_of_the_class_minus_one_are_gold_and_rows_without_a_label_are_not(tmp_path: Path) -> None:
    columns = {"size": [0.0, 1.0, 2.0, 3.0], "label": [-1, None, 1, 0], "teacher_label": [-1, 1, None, 0]}
    pq.write_table(pa.table(columns), tmp_path / "mine.parquet")
    for classes, truth in ((["-1", "0", "1"], [0, 2, 1]), (["0", "1"], [1, 0])):
        examples = us.read_examples(gold=tmp_path / "mine.parquet", pool=tmp_path / "mine.parquet", classes=classes)
        assert examples.gold is not None and examples.gold.y.tolist() == truth


def test_a_row_without_a_known_class_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(csv_of([*ROWS, (5.0, "", "angry")]))
    said = r"mine\.csv \(rows with a label\) line 7: column 'checked' row 2 is 'angry'"
    with pytest.raises(UnderstudyError, match=said):
        read(tmp_path / "mine.csv", tmp_path / "mine.csv")
    (tmp_path / "mine.csv").write_text("size,Checked,llm\n1,neg,neg\n")
    with pytest.raises(UnderstudyError, match=r"no column 'checked' \(to serve as 'label'\); did you mean 'Checked'"):
        read(tmp_path / "mine.csv", tmp_path / "mine.csv")


def test_names_of_columns_hold_for_answers_too(tmp_path: Path) -> None:
    pool = csv_of([(size, llm, "") for size, llm, _ in ROWS], ids=True).replace("id,", "key,")
    (tmp_path / "pool.csv").write_text(pool)
    (tmp_path / "answers.csv").write_text("key;checked\nr1;pos\nr3;neg\nr4;skip\n")
    found = us.read_examples(
        pool=tmp_path / "pool.csv", gold={"key": ["r0"], "checked": ["neg"]}, chosen=[tmp_path / "answers.csv"],
        columns={"id": "key", "label": "checked", "teacher_label": "llm"}, classes=["neg", "pos"],
    )  # fmt: skip
    assert found.gold is not None and found.gold.y.tolist() == [0, 1, 0]
    assert found.line is not None and found.pool is not None and [found.line(row) for row in range(2)] == [4, 6]


COMMANDS = {
    "audit": "",
    "estimate": "--what share,accuracy --by zone",
    "budget": "--price human=1 --trusted human --budget 5 --out plan",
    "ask": "--classes neg,pos --model none --base-url http://localhost:1 --dry-run --text note",
    "reconcile": "--methods vanilla --folds 2 --workers 1 --student linear --out labels.npz --quiet",
    "compare": "--methods gce --seeds 1 --workers 1 --epochs 2 --student linear --out compared --quiet",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_one_file_once(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prints is the same where the file is named as the pool too."""
    rng, lines = np.random.default_rng(0), ["size,zone,note,checked" + ",llm" * (command != "ask")]
    for row in range(90):
        truth, wrong = row % 2, row % 10 == 0
        checked = ["neg", "pos"][truth] if row < 30 else ""
        llm = "," + ["neg", "pos"][truth ^ wrong]
        lines.append(
            f"{truth + rng.normal():.3f},{'ab'[row % 3 == 0]},a note {row},{checked}{llm * (command != 'ask')}"
        )
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("\n".join(lines) + "\n")
    printed = []
    trains = command in ("reconcile", "compare")
    for pool in ([],) if trains else ([], ["--pool", "mine.csv"]):
        names = ["--label", "checked", *(["--teacher", "llm"] if command != "ask" else [])]
        used = ["--use", "size"] if command in ("audit", "estimate", "reconcile", "compare") else []
        result = CliRunner().invoke(
            app, [command, "--gold", "mine.csv", *pool, *names, *used, *COMMANDS[command].split()]
        )
        assert result.exit_code == 0, result.output
        printed.append(result.output)
        shutil.rmtree("plan", ignore_errors=True)
    assert trains or printed[0] == printed[1]
    if command not in ("ask", "budget"):
        assert "mine.csv: 30 rows with a label are gold, the other 60 the pool" in printed[0]


def test_without_a_teacher_or_a_pool_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text(csv_of(ROWS))
    Path("all.csv").write_text(csv_of([(size, llm, "neg") for size, llm, _ in ROWS]))
    for line, said in {
        "audit --gold mine.csv --label checked": r"csv line 3: .* row 1 is empty \(3 of 5 rows\).*--teacher",
        "estimate --gold all.csv --label checked --teacher llm": r"all\.csv has no row with a teacher's.*--pool",
        "budget --price human=1 --budget 5": "--pool",
    }.items():
        result = CliRunner().invoke(app, line.split())
        assert result.exit_code == 2 and re.search(said, result.output), result.output


def test_marks_of_gold_rows_are_read_from_one_file(tmp_path: Path) -> None:
    """A label given with a suggestion in view does not measure the teacher, in one file as in two."""
    rows = "size,llm,checked,suggestion_shown\n0,neg,neg,true\n1,pos,pos,false\n2,pos,,\n3,neg,,\n"
    (tmp_path / "mine.csv").write_text(rows)
    found = read(tmp_path / "mine.csv", None)
    assert found.gold is not None and found.gold.chosen.tolist() == [True, False]


def test_what_a_stranger_should_know_is_said(tmp_path: Path) -> None:
    """A column that counts the rows is named; a wrong name is answered in the file's own names."""
    lines = [f"{700 + row};{row % 3};{NAMES[row % 2]};{NAMES[row % 2] if row < 9 else ''}" for row in range(30)]
    (tmp_path / "mine.csv").write_text("\n".join(["Customer no;size;llm;checked", *lines]) + "\n")
    counted = "column 'Customer no' is a feature; if it only names the rows, say --id 'Customer no'"
    assert counted in read(tmp_path / "mine.csv", None).notes
    named = us.read_examples(
        gold=tmp_path / "mine.csv", columns={"id": "Customer no", "label": "checked", "teacher": "llm"}
    )
    assert counted not in named.notes and named.featuriser.names == ("size",)
    options = FeatureOptions(text="sice")
    said = r"no column 'sice', which you name; did you mean 'size'\? it has 'Customer no', 'size', 'llm', 'checked'$"
    with pytest.raises(UnderstudyError, match=said):
        us.read_examples(gold=tmp_path / "mine.csv", columns={"label": "checked", "teacher": "llm"}, features=options)
