"""Rows to other labelling tools and answers back: ids by the letter, classes by name, suggestions marked."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from understudy.cli import app
from understudy.errors import UnderstudyError
from understudy.features.featuriser import FeatureOptions
from understudy.io.exchange import TOOLS, find_tool
from understudy.io.exchange.annotations import Annotation, ExportLayout, collect_annotations
from understudy.io.read import read_examples

NAMES = ("neg", "pos")
TEXTS = ['good & <b>"fine"</b>', "bad\nworse", "so, so", "nöö"]
IDS = ["007", "8", "a b", "10"]
SIZE = FeatureOptions(columns=("size",))
SAID = ["pos", "neg", "skip", ""]
"""What one person answers; the last row stays open."""


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    with (tmp_path / "pool.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "size", "teacher_label"])
        writer.writerows(zip(IDS, TEXTS, range(4), ["pos", "pos", "neg", ""], strict=True))
    return tmp_path / "pool.csv"


def run(*arguments: Any, fails: bool = False) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == (2 if fails else 0), result.output
    return " ".join(result.output.split())


def read_answers(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def answer_label_studio(tasks: Path) -> Path:
    """As Label Studio exports it once somebody has worked through the tasks."""
    content = json.loads(tasks.read_text())
    for number, (task, said) in enumerate(zip(content, SAID, strict=True)):
        value = {"choices": [said]} if said in NAMES else {}
        result = {"from_name": "label", "to_name": "text", "type": "choices", "value": value, "origin": "manual"}
        one = {"id": number, "completed_by": 1, "result": [result] if value else [], "was_cancelled": said == "skip"}
        task |= {"id": 100 + number, "annotations": [one] if said else [], "predictions": task.get("predictions", [])}
    tasks.with_name("export.json").write_text(json.dumps(content))
    return tasks.with_name("export.json")


def answer_prodigy(tasks: Path) -> Path:
    lines = [json.loads(line) for line in tasks.read_text().splitlines()]
    for line, said in zip(lines, SAID, strict=True):
        line |= {"_input_hash": 1, "_task_hash": 2, "_annotator_id": "data-ann", "accept": [said] * (said in NAMES)}
        line |= {"answer": "accept" if said in NAMES else "ignore"} if said else {}
    tasks.with_name("out.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tasks.with_name("out.jsonl")


def answer_argilla(folder: Path) -> Path:
    records = json.loads((folder / "records.json").read_text())
    for record, said in zip(records, SAID, strict=True):
        status = "submitted" if said in NAMES else "discarded"
        one = {"value": said if said in NAMES else None, "user_id": "u1", "status": status}
        record["responses"] = {"label": [one]} if said else {}
    (folder / "records.json").write_text(json.dumps(records))
    return folder


def answer_datasets(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (file,) = (folder / "data").glob("*.parquet")
    table = pq.read_table(file)
    numbers = pa.array([NAMES.index(said) if said in NAMES else None for said in SAID], pa.int64())
    pq.write_table(table.set_column(table.column_names.index("label"), "label", numbers), file)
    return folder


ANSWER: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "label-studio": ("tasks.json", answer_label_studio),
    "prodigy": ("tasks.jsonl", answer_prodigy),
    "argilla": ("folder", answer_argilla),
    "datasets": ("folder", answer_datasets),
}


@pytest.mark.parametrize("suggest", [False, True])
@pytest.mark.parametrize("tool", TOOLS)
def test_round_trip(tool: str, suggest: bool, pool: Path, tmp_path: Path) -> None:
    name, answer = ANSWER[tool]
    flags = ["--show-suggestion"] if suggest else []
    out = tmp_path / name
    assert "4 rows to label" in run(
        "tasks", pool, "--to", tool, "--classes", "neg,pos", "--show", "text", "--out", out, *flags
    )
    written = "".join(file.read_bytes().decode(errors="replace") for file in [out, *out.rglob("*")] if file.is_file())
    # The teacher called "so, so" neg; a hidden suggestion is nowhere in the files.
    assert ("teacher" in written or "accept" in written or '"suggestion"' in written) == suggest
    shown = run(
        "import", answer(out), "--from", tool, "--classes", "neg,pos", "--out", tmp_path / "a.csv", "--pool", pool
    )
    answers = read_answers(tmp_path / "a.csv")
    skipped = [] if tool == "datasets" else [("a b", "skip")]
    assert [(row["id"], row["label"]) for row in answers] == [("007", "pos"), ("8", "neg"), *skipped]
    assert {row["suggestion_shown"] for row in answers} == {str(suggest).lower()}
    assert "1 not answered" in shown or tool == "datasets"
    found = read_examples(pool=pool, chosen=[tmp_path / "a.csv"], classes=NAMES, features=SIZE).gold
    assert found is not None and found.y.tolist() == [1, 0] and bool(found.chosen.all())


def test_a_random_batch_estimates_unless_a_suggestion_was_shown(pool: Path, tmp_path: Path) -> None:
    (tmp_path / "batch.csv").write_text("id,chosen,label,probability\n8,0,,0.5\n007,1,,\na b,0,pos,1\n")
    for number, flags in enumerate(([], ["--show-suggestion"])):
        tasks, out = tmp_path / f"{number}.json", tmp_path / f"{number}.csv"
        asked = ["--to", "label-studio", "--classes", "neg,pos", "--show", "text", "--batch", tmp_path / "batch.csv"]
        assert "2 rows to label" in run("tasks", pool, *asked, "--out", tasks, *flags)
        content = json.loads(tasks.read_text())
        assert [task["data"]["row_id"] for task in content] == ["8", "007"]
        result = {"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": ["neg"]}}
        for task in content:
            task |= {
                "annotations": [{"id": 1, "completed_by": 1, "result": [result]}],
                "predictions": task.get("predictions", []),
            }
        tasks.write_text(json.dumps(content))
        run("import", tasks, "--from", "label-studio", "--classes", "neg,pos", "--out", out)
        gold = read_examples(pool=pool, chosen=[out], classes=NAMES, features=SIZE).gold
        assert gold is not None and gold.calibration_rows().tolist() == ([] if flags else [0])
        assert gold.probability is not None
        assert [None if p != p else p for p in gold.probability.tolist()] == ([None] * 2 if flags else [0.5, None])


def by(row: str, annotator: str, *labels: str, **more: Any) -> Annotation:
    return Annotation(row, annotator, labels, **{"shown": False, **more})


def test_people_who_differ_become_votes(tmp_path: Path) -> None:
    given = [
        by("1", "ann", "pos"), by("1", "bob", "neg"), by("2", "ann", "neg"), by("2", "bob", "neg"),
        by("3", "bob", reason="cancelled"), by("3", "ann", "pos"), by("4", "ann", reason="cancelled"),
    ]  # fmt: skip
    found = collect_annotations(given, NAMES, aliases={}, where="it")
    assert found.votes() == {
        "id": ["1", "2", "3", "4"],
        "teacher_vote_ann": ["pos", "neg", "pos", ""],
        "teacher_vote_bob": ["neg", "neg", "", ""],
    }
    with pytest.raises(UnderstudyError, match=r"it: 1 rows have different labels .*'1'.*--as votes"):
        found.answers("answers", "it")
    agreed = found.answers("agreed", "it")
    assert agreed["id"] == ["2", "3", "4"] and agreed["label"] == ["neg", "pos", "skip"]
    assert "3 of 4 rows have a label (2 people); 1 skipped; 2 cancelled" in found.summary()


def test_contradictory_answers_of_one_person_do_not_count() -> None:
    same = [by("1", "ann", "pos"), by("1", "ann", "pos")]
    assert collect_annotations(same, NAMES, aliases={}, where="it").by_row == {"1": {"ann": "pos"}}
    three = [by("1", "ann", "pos"), by("1", "ann", "neg"), by("1", "ann", "pos")]
    assert collect_annotations(three, NAMES, aliases={}, where="it").by_row == {"1": {"ann": None}}


def test_labels_are_matched_and_never_guessed() -> None:
    given = [by("1", "ann", "Pos"), by("2", "ann", "Pos"), by("3", "ann", "unsure")]
    with pytest.raises(UnderstudyError, match=r"none of the classes \(neg, pos\): 'Pos' 2 times, 'unsure' 1 times"):
        collect_annotations(given, NAMES, aliases={}, where="it")
    found = collect_annotations(given, NAMES, aliases={"Pos": "pos", "unsure": "skip"}, where="it")
    assert found.answers("answers", "it")["label"] == ["pos", "pos", "skip"]
    with pytest.raises(UnderstudyError, match="'positive' is none of the classes"):
        collect_annotations(given, NAMES, aliases={"Pos": "positive"}, where="it")
    # Where a class is called skip, a row without a class is −1.
    found = collect_annotations([by("1", "a", "skip"), by("2", "a", reason="x")], ("skip", "b"), aliases={}, where="it")
    assert found.answers("answers", "it")["label"] == ["skip", "-1"]


def test_suggestions_count_as_shown_where_the_export_does_not_say() -> None:
    found = collect_annotations([by("1", "a", "pos", shown=None), by("2", "a", "pos")], NAMES, aliases={}, where="it")
    assert found.answers("answers", "it")["suggestion_shown"] == ["true", "false"]
    one_of_two = [by("1", "a", "pos", shown=True), by("1", "b", "pos")]
    assert collect_annotations(one_of_two, NAMES, aliases={}, where="it").shown == {"1": True}


def read(tool: str, path: Path, content: Any, classes: tuple[str, ...] = NAMES, **how: Any) -> list[Annotation]:
    lines = "\n".join(map(json.dumps, content)) if path.suffix == ".jsonl" else json.dumps(content)
    path.write_text(content if isinstance(content, str) else lines)
    return find_tool(tool).read_annotations(path, ExportLayout(classes, **how))


def choice(*labels: str, name: str = "label", **more: Any) -> dict[str, Any]:
    return {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": list(labels)}, **more}


@pytest.mark.parametrize(
    ("task", "annotation", "shown"),
    [
        ({"predictions": []}, {}, False),
        ({}, {}, None),
        ({"predictions": [{"result": []}]}, {}, True),
        ({"predictions": [], "total_predictions": 1}, {}, True),
        ({"predictions": []}, {"parent_prediction": 5}, True),
        ({"predictions": []}, {"prediction": {"id": 1}}, True),
        ({"predictions": []}, {"result": [choice("pos", origin="prediction-changed")]}, True),
    ],
)
def test_label_studio_knows_of_predictions(task: Any, annotation: Any, shown: bool | None, tmp_path: Path) -> None:
    one = {"completed_by": {"email": "a@b.c", "id": 4}, "result": [choice("pos")], **annotation}
    found = read("label-studio", tmp_path / "e.json", [{"data": {"row_id": 7}, "annotations": [one], **task}])
    assert found == [Annotation("7", "a@b.c", ("pos",), "", shown)]


def test_what_was_cancelled_counts_as_skipped_whatever_was_chosen_before(tmp_path: Path) -> None:
    for flag in ("was_cancelled", "skipped"):
        task = {"data": {"row_id": "7"}, "annotations": [{"result": [choice("pos")], flag: True}], "predictions": []}
        assert read("label-studio", tmp_path / "e.json", [task]) == [Annotation("7", "unknown", (), "cancelled", False)]


def test_label_studio_small_exports(tmp_path: Path) -> None:
    # Its own number is in "id"; the row's id is ours, and leading zeros stay.
    entries: list[dict[str, Any]] = [
        {"id": 1, "row_id": "007", "label": "pos", "annotator": 2, "annotation_id": 5, "suggestion_shown": False},
        {"id": 2, "row_id": "8", "label": {"choices": ["pos", "neg"]}, "annotator": 2, "annotation_id": 6},
        {"id": 3, "row_id": "9", "annotator": None, "annotation_id": None},
    ]
    found = read("label-studio", tmp_path / "min.json", entries)
    assert [(one.row, one.labels, one.open, one.shown) for one in found] == [
        ("007", ("pos",), False, False), ("8", ("pos", "neg"), False, None), ("9", (), True, None),
    ]  # fmt: skip
    several = '"{""choices"":[""pos"",""neg""]}"'
    header = "annotation_id,annotator,id,label,row_id,suggestion_shown"
    text = f"{header}\n5,x@y.z,1,pos,007,True\n6,x@y.z,2,{several},8,\n,,3,,9,\n"
    found = read("label-studio", tmp_path / "small.csv", text)
    assert [(one.row, one.annotator, one.labels, one.open, one.shown) for one in found] == [
        ("007", "x@y.z", ("pos",), False, True), ("8", "x@y.z", ("pos", "neg"), False, None), ("9", "", (), True, None),
    ]  # fmt: skip
    tabs = "\n".join(text.splitlines()[:2]).replace(",", "\t")
    assert read("label-studio", tmp_path / "small.tsv", tabs) == found[:1]
    gathered = collect_annotations(found, NAMES, aliases={}, where="it")
    assert gathered.by_row == {"007": {"x@y.z": "pos"}, "8": {"x@y.z": None}}
    assert "1 more than one class" in gathered.summary()
    (long,) = read("label-studio", tmp_path / "long.csv", f"{header}\n5,a,1,pos,{'7' * 200_000},\n")
    assert long.row == "7" * 200_000
    with pytest.raises(UnderstudyError, match=r"odd\.csv .*Expected 6 columns, got 5"):
        read("label-studio", tmp_path / "odd.csv", f"{header}\n5,a,1,pos,7\n")
    with pytest.raises(UnderstudyError, match="has no entry 'mood'"):
        read("label-studio", tmp_path / "min2.json", entries, question="mood")
    with pytest.raises(UnderstudyError, match=r"entry 0 has no 'row_id'.*--id NAME"):
        read("label-studio", tmp_path / "min3.json", [{"id": 1, "label": "pos", "annotation_id": 1}])


def test_the_question_must_be_named_where_there_are_several(tmp_path: Path) -> None:
    both = [choice("pos", name="mood"), choice("yes", name="polite")]
    tasks = [{"data": {"row_id": "1"}, "annotations": [{"result": both}], "predictions": []}]
    with pytest.raises(UnderstudyError, match=r"asks 2 questions \(mood, polite\); say which one: --question NAME"):
        read("label-studio", tmp_path / "e.json", tasks)
    assert read("label-studio", tmp_path / "e.json", tasks, question="polite")[0].labels == ("yes",)
    with pytest.raises(UnderstudyError, match="not 'tone'"):
        read("label-studio", tmp_path / "e.json", tasks, question="tone")


def test_prodigy_answers(tmp_path: Path) -> None:
    options = [{"id": 1, "text": "pos"}, {"id": 2, "text": "neg"}]
    lines: list[dict[str, Any]] = [
        {"row_id": "1", "options": options, "accept": [2], "answer": "accept", "_session_id": "set-ann"},
        {"row_id": "2", "options": options, "accept": [2], "answer": "reject"},
        {"row_id": "3", "options": options, "accept": [], "answer": "accept"},
        {"meta": {"row_id": "4"}, "label": "pos", "answer": "reject"},
        {"row_id": "5", "label": "pos", "answer": "accept", "suggestion_shown": False},
        {"row_id": "6", "label": "pos", "answer": "ignore"},
        {"row_id": "7", "options": options},
    ]
    found = read("prodigy", tmp_path / "out.jsonl", lines)
    assert [(one.labels, one.reason, one.open) for one in found] == [
        (("neg",), "", False), ((), "rejected", False), ((), "accepted without a class", False), (("neg",), "", False),
        (("pos",), "", False), ((), "ignored", False), ((), "not answered", True),
    ]  # fmt: skip
    # The label in question is a suggestion itself, whatever the line says.
    assert [one.shown for one in found] == [None, None, None, True, True, True, None] and found[
        0
    ].annotator == "set-ann"
    three = read("prodigy", tmp_path / "out.jsonl", lines[3:4], classes=("neg", "pos", "so"))
    assert three[0].labels == () and three[0].reason == "rejected"
    with pytest.raises(UnderstudyError, match="line 2 is not valid JSON"):
        read("prodigy", tmp_path / "out.jsonl", '{"row_id": 1}\n{')


def test_argilla_records_say_little_of_their_status(tmp_path: Path) -> None:
    one, other = {"value": "pos", "user_id": "u"}, {"value": "neg", "user_id": "v"}
    records: list[dict[str, Any]] = [
        {"id": "007", "status": "completed", "responses": {"label": [one]}, "suggestions": {}},
        {"id": "8", "status": "completed", "responses": {"label": [one, other]}, "suggestions": {}},
        {"id": "9", "status": "pending", "responses": {"label": [one]}, "suggestions": {}},
        {"id": "10", "responses": {"label": [{**one, "status": "draft"}]}},
        {
            "id": "11",
            "responses": {"label": [{**one, "status": "submitted"}]},
            "suggestions": {"label": {"value": "pos"}},
        },
        {"id": "12", "responses": {"label": [{**one, "status": "discarded"}]}},
    ]
    found = read("argilla", tmp_path / "records.json", records)
    assert [(one.row, one.labels, one.open, one.shown) for one in found if not one.open] == [
        ("007", ("pos",), False, False), ("11", ("pos",), False, True), ("12", (), False, False),
    ]  # fmt: skip
    gathered = collect_annotations(found, NAMES, aliases={}, where="it")
    assert "3 of unknown status" in gathered.summary() and gathered.by_row["12"] == {"u": None}


ODD: list[Any] = [None, 3, 1.5, "x", "", [], {}, [1], {"a": 1}, True, ["pos", None]]
SEEDS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("label-studio", ".json"): [
        {"data": {"row_id": "7"}, "annotations": [{"completed_by": {"id": 1}, "result": [choice("pos")]}]}
    ],
    ("prodigy", ".jsonl"): [
        {"row_id": "7", "options": [{"id": "pos", "text": "pos"}], "accept": ["pos"], "answer": "accept", "meta": {}},
        {"row_id": "8", "label": "pos", "answer": "reject"},
    ],
    ("argilla", ".json"): [
        {
            "id": "7", "fields": {"text": "a"}, "metadata": {"chosen": "1"}, "status": "completed",
            "suggestions": {"label": {"value": "pos"}}, "responses": {"label": [{"value": "pos", "user_id": "u"}]},
        }
    ],
}  # fmt: skip


@pytest.mark.parametrize(("tool", "suffix"), SEEDS)
def test_files_of_another_shape_are_read_or_refused_in_a_line(tool: str, suffix: str, tmp_path: Path) -> None:
    for changed in variants(SEEDS[tool, suffix]):
        try:
            found = collect_annotations(read(tool, tmp_path / f"odd{suffix}", changed), NAMES, aliases={}, where="it")
            found.answers("agreed", "it")
        except UnderstudyError as error:
            assert "\n" not in str(error)


def variants(value: Any) -> Iterator[Any]:
    """The same with one part of it exchanged for something else, or left out."""
    if not isinstance(value, dict | list):
        return
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        for other in (*ODD, *variants(part)):
            whole = dict(value) if isinstance(value, dict) else list(value)
            whole[key] = other
            yield whole
        if isinstance(value, dict):
            yield {name: each for name, each in value.items() if name != key}


def test_tasks_say_what_is_wrong(pool: Path, tmp_path: Path) -> None:
    base = ["tasks", pool, "--to", "prodigy", "--classes", "neg,pos", "--out", tmp_path / "t.jsonl"]
    assert "no column 'body' to show" in run(*base, "--show", "body", fails=True)
    assert "--to 'x' is not known" in run(*base[:3], "x", *base[4:], fails=True)
    (tmp_path / "batch.csv").write_text("id,label\n7,\n")
    assert "'7', where there is '007'" in run(*base, "--batch", tmp_path / "batch.csv", fails=True)
    (tmp_path / "batch.csv").write_text("id,label\n77,\n")
    assert "row 0: '77' is not among the ids of" in run(*base, "--batch", tmp_path / "batch.csv", fails=True)
    (tmp_path / "bare.csv").write_text("text\nhello\n")
    assert "no column 'id'" in run("tasks", tmp_path / "bare.csv", *base[2:], fails=True)
    (tmp_path / "two.csv").write_text("id,title,text\n1,a,b\n")
    assert "say which columns people see" in run("tasks", tmp_path / "two.csv", *base[2:], fails=True)
    assert "holds no labels of a teacher" in run(
        "tasks", tmp_path / "two.csv", *base[2:], "--show", "text", "--show-suggestion", fails=True
    )
    run("tasks", tmp_path / "two.csv", *base[2:], "--show", "title", "--show", "text")
    assert json.loads((tmp_path / "t.jsonl").read_text())["text"] == "title: a\n\ntext: b"
    assert "already exists" in run(*base, "--show", "text", fails=True)


def test_votes_beside_the_pool_and_ids_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id,f\n1,0.5\n2,0.25\n3,0.75\n")
    lines: list[dict[str, Any]] = [
        {"row_id": "2", "options": [], "accept": ["pos"], "answer": "accept", "_annotator_id": "ann"},
        {"row_id": "2", "options": [], "accept": ["neg"], "answer": "accept", "_annotator_id": "bob"},
        {"row_id": "3", "options": [], "accept": ["neg"], "answer": "accept", "_annotator_id": "bob"},
    ]
    (tmp_path / "out.jsonl").write_text("\n".join(map(json.dumps, lines)))
    base = [
        "import",
        tmp_path / "out.jsonl",
        "--from",
        "prodigy",
        "--classes",
        "neg,pos",
        "--pool",
        tmp_path / "pool.csv",
    ]
    assert "--as votes" in run(*base, "--out", tmp_path / "a.csv", fails=True)
    run(*base, "--out", tmp_path / "votes.csv", "--as", "votes")
    found = read_examples(pool=tmp_path / "votes.csv", classes=NAMES).pool
    assert found is not None and found.teacher is not None
    assert np.array_equal(found.teacher.answers().numpy(), [[-1, -1], [1, 0], [-1, 0]])
    assert "votes.csv.history" in {path.name for path in tmp_path.iterdir()}
    (tmp_path / "out.jsonl").write_text("\n".join(json.dumps({**line, "row_id": "9"}) for line in lines))
    assert "'9' is not among the ids of" in run(*base, "--out", tmp_path / "v.csv", "--as", "votes", fails=True)


def test_help_loads_no_torch() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom understudy.cli import app\n"
        "print(CliRunner().invoke(app, ['tasks', '--help']).exit_code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["0", "False"]
