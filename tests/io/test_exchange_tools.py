"""What is written and read for other tools, held against the tools' own packages; skipped where they are not installed.

pip install datasets argilla label-studio-sdk && pytest tests/io/test_exchange_tools.py
"""

import json
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from understudy.io.exchange import find_tool
from understudy.io.exchange.annotations import ExportLayout, collect_annotations
from understudy.io.exchange.tasks import make_tasks
from understudy.io.table import read_table

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ('a "quoted" & <odd> name', "pos")
SAID = ("pos", NAMES[0], None, "pos")


@pytest.fixture
def tasks(tmp_path: Path) -> Any:
    lines = [{"id": name, "text": text} for name, text in (("007", "fine"), ("8", "x < y"), ("9", "ä"), ("10", "no"))]
    for line, label in zip(lines, ["pos", "pos", NAMES[0], ""], strict=True):
        line["teacher_label"] = label
    (tmp_path / "pool.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = read_table(tmp_path / "pool.jsonl")
    return lambda **how: make_tasks(table, NAMES, show=["text"], **how)


def answers(tool: str, path: Path) -> dict[str, list[Any]]:
    found = collect_annotations(
        find_tool(tool).read_annotations(path, ExportLayout(NAMES)), NAMES, aliases={}, where=str(path)
    )
    return found.answers("answers", str(path))


def test_label_studio_takes_the_tasks_and_its_exports_come_back(tasks: Any, tmp_path: Path) -> None:
    pytest.importorskip("label_studio_sdk")
    from label_studio_sdk.converter import Converter
    from label_studio_sdk.label_interface import LabelInterface

    find_tool("label-studio").write_tasks(tmp_path / "tasks.json", tasks(suggest=True))
    config, content = (tmp_path / "tasks.xml").read_text(), json.loads((tmp_path / "tasks.json").read_text())
    interface = LabelInterface(config)
    assert list(interface.get_control("label").labels) == list(NAMES)
    for task in content:
        assert interface.validate_task({"data": task["data"]})
        assert all(interface.validate_prediction(each) for each in task.get("predictions", []))
    assert sum("predictions" in task for task in content) == 3
    for number, (task, said) in enumerate(zip(content, SAID, strict=True)):
        value = {"choices": [said]}
        result = {"from_name": "label", "to_name": "text", "type": "choices", "value": value}
        task |= {"id": 500 + number, "predictions": []}
        task["annotations"] = [{"id": number, "completed_by": 3, "result": [result]}] if said else []
    export = tmp_path / "export.json"
    export.write_text(json.dumps(content))
    whole = answers("label-studio", export)
    assert whole["id"] == ["007", "8", "10"] and whole["label"] == ["pos", NAMES[0], "pos"]
    assert whole["suggestion_shown"] == ["true", "true", "false"]
    converter = Converter(config, str(tmp_path))
    converter.convert_to_json_min(str(export), str(tmp_path / "min"), is_dir=False)
    converter.convert_to_csv(str(export), str(tmp_path / "csv"), is_dir=False, sep=",", header=True)
    assert answers("label-studio", tmp_path / "min" / "result.json") == whole
    assert answers("label-studio", tmp_path / "csv" / "result.csv") == whole


def test_argilla_reads_the_folder_and_its_records_come_back(tasks: Any, tmp_path: Path) -> None:
    argilla = pytest.importorskip("argilla")
    from argilla._models import DatasetModel
    from argilla.client import Argilla
    from argilla.records._io import HFDatasetsIO, JsonIO

    # Its classes ask for a server when they are made; reading and writing files needs none.
    with mock.patch.object(Argilla, "_get_default", mock.MagicMock()), warnings.catch_warnings():
        find_tool("argilla").write_tasks(tmp_path / "folder", tasks(suggest=True))
        settings = argilla.Settings.from_json(tmp_path / "folder" / ".argilla" / "settings.json")
        assert [field.name for field in settings.fields] == ["text"]
        (question,) = settings.questions
        assert question.name == "label" and list(question.labels) == list(NAMES)
        assert (
            DatasetModel(**json.loads((tmp_path / "folder" / ".argilla" / "dataset.json").read_text())).name == "folder"
        )
        records = JsonIO._records_from_json(tmp_path / "folder" / "records.json")
        assert [record.id for record in records] == ["007", "8", "9", "10"]
        assert [suggestion.value for suggestion in records[1].suggestions] == ["pos"]
        user = "f2c7c6a0-0000-4000-8000-000000000001"
        states = ("submitted", "submitted", "discarded", "draft")
        for record, said, status in zip(records, SAID, states, strict=True):
            record.responses.add(argilla.Response("label", said, user_id=user, status=status))
        stored = HFDatasetsIO.to_datasets(records, mock.MagicMock(schema={}))
        stored.save_to_disk(tmp_path / "saved")
        found = answers("argilla", tmp_path / "saved")
    assert found["id"] == ["007", "8", "9"] and found["label"] == ["pos", NAMES[0], "skip"]
    assert found["suggestion_shown"] == ["true", "true", "true"]


@pytest.mark.parametrize("suggest", [False, True])
def test_datasets_loads_the_folder_and_saves_it_back(suggest: bool, tasks: Any, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    find_tool("datasets").write_tasks(tmp_path / "folder", tasks(suggest=suggest))
    loaded = datasets.load_dataset(str(tmp_path / "folder"), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.features["label"].names == list(NAMES) and loaded["id"][:] == ["007", "8", "9", "10"]
    assert ("suggestion" in loaded.column_names) == suggest
    answered = loaded.map(
        lambda row, number: {"label": None if SAID[number] is None else NAMES.index(SAID[number])}, with_indices=True,
        features=loaded.features, cache_file_name=str(tmp_path / "cache" / "mapped.arrow"),
    )  # fmt: skip
    answered.save_to_disk(tmp_path / "saved")
    found = answers("datasets", tmp_path / "saved")
    assert found["id"] == ["007", "8", "10"] and found["label"] == ["pos", NAMES[0], "pos"]
    assert found["suggestion_shown"] == ([*["true"] * 2, "false"] if suggest else ["false"] * 3)
    # What datasets saves is a table for every command, its numbers the names it declares.
    table = read_table(tmp_path / "saved")
    assert table.columns["id"].tolist() == ["007", "8", "9", "10"] and table.declared["label"] == NAMES
    datasets.DatasetDict(train=answered, test=answered).save_to_disk(tmp_path / "both")
    with pytest.raises(Exception, match=r"holds several sets \(train, test\); name one"):
        read_table(tmp_path / "both")
    assert len(read_table(tmp_path / "both" / "test")) == 4
