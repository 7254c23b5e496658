"""understudy ask: files in, labels beside them, and what is trained on them obeys the marks."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.io.read import read_examples
from understudy.io.table import read_table
from understudy.io.write import write_table

sys.path.insert(0, str(Path(__file__).parents[1] / "llm"))
from chat_server import CLASSES, Behaviour, ChatServer

ROWS = 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pool.csv and gold.csv of id and label; own.csv has texts of its own, half of them not in the pool."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("understudy.llm.requester.PAUSE", 0.01)
    texts = np.array([f"message number {row}, of some length" for row in range(ROWS)], dtype=object)
    labels = np.array(CLASSES, dtype=object)[np.arange(ROWS) % 3]
    write_table("pool.csv", {"id": np.arange(ROWS), "message": texts, "stars": np.arange(ROWS) % 5})
    write_table("gold.csv", {"id": np.arange(12), "label": labels[:12]})
    own = np.arange(ROWS - 6, ROWS + 6)
    more = np.array([f"message number {row}, of some length" for row in own], dtype=object)
    write_table("own.csv", {"id": own, "message": more, "label": np.array(CLASSES, dtype=object)[own % 3]})
    return tmp_path


def call(line: str, server: ChatServer | None = None, code: int = 0) -> Any:
    words = line.split() + ([] if server is None else ["--base-url", server.url, "--text", "message", "--quiet"])
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == code, result.output
    return result


ASK = "ask --pool pool.csv --classes neg,neutral,pos --model tiny"


def test_labels_that_train_takes(folder: Path) -> None:
    with ChatServer() as server:
        shown = call(f"{ASK} --gold gold.csv --examples 4 --out llm_labels", server).stdout
        assert server.stats.requests == ROWS - 4 and "36 labels (topk): llm_labels/pool.parquet" in shown
        assert "understudy audit --gold gold.csv --pool llm_labels/pool.parquet --text message" in shown
        seen = [turn["content"] for turn in server.stats.bodies[0]["messages"]]
    table = read_table("llm_labels/pool.parquet")
    saw = table.columns["teacher_saw"]
    assert (
        saw.sum() == 4 and (saw[:12].sum() == 4) and table.columns["stars"].tolist() == [row % 5 for row in range(ROWS)]
    )
    assert all(any(f"number {row}," in text for text in seen) for row in np.flatnonzero(saw))
    examples = read_examples(gold="gold.csv", pool="llm_labels/pool.parquet", features=_text())
    assert examples.gold is not None and examples.pool is not None
    # Shown rows train and never calibrate, without an option.
    assert examples.gold.chosen.tolist() == saw[:12].tolist() and len(examples.gold.training_rows()) == 12
    assert len(examples.gold.calibration_rows()) == 8 and len(examples.pool) == ROWS - 12
    with pytest.raises(us.UnderstudyError, match="was shown to the teacher with its label"):
        read_examples(test="gold.csv", pool="llm_labels/pool.parquet", features=_text())
    call("train --gold gold.csv --pool llm_labels/pool.parquet --text message --method vanilla --epochs 1 --out run")
    facts = json.loads(Path("run/config.json").read_text())
    assert "36" not in str(facts.get("gold_rows")), facts
    lines = call("history llm_labels").stdout
    assert "tiny at http://127.0.0.1" in lines and "36 rows" in lines


def _text() -> Any:
    from understudy.features.featuriser import FeatureOptions

    return FeatureOptions(text="message")


def test_gold_rows_outside_the_pool_are_labelled_too(folder: Path) -> None:
    with ChatServer() as server:
        shown = call(f"{ASK} --gold own.csv --examples 3 --out llm_labels", server).stdout
        assert server.stats.requests == ROWS + 6 - 3 and "--gold llm_labels/gold.parquet" in shown
    examples = read_examples(gold="llm_labels/gold.parquet", pool="llm_labels/pool.parquet", features=_text())
    assert examples.gold is not None and int(examples.gold.chosen.sum()) == 3
    assert len(examples.gold) == 12 and len(examples.gold.calibration_rows()) == 9


def test_a_dry_run_sends_nothing(folder: Path) -> None:
    with ChatServer() as server:
        prices = "--price-in 1 --price-out 2 --budget 3"
        shown = call(f"{ASK} --gold gold.csv --examples 2 {prices} --out llm_labels --dry-run", server).stdout
        assert server.stats.requests == 0 and not Path("llm_labels").exists()
        assert "  system:\n    You classify texts" in shown and "    - neg\n    - neutral\n    - pos\n" in shown
        assert "  user:\n    <text>\n    message number 0, of some length\n    </text>\n" in shown
        assert "38 of 38 rows left" in shown and "estimated from letters" in shown and "nothing was sent" in shown
        about, most = (float(word) for word in shown.split("about ")[-1].split(" without")[0].split(", at most "))
        call(f"{ASK} --gold gold.csv --examples 2 {prices} --out llm_labels", server)
        assert about / 3 < server.stats.billed(1.0, 2.0) < most


def test_several_models_are_columns_of_votes(folder: Path) -> None:
    with ChatServer(Behaviour(logprobs=False)) as server:
        shown = call(f"{ASK} --model other/one --gold gold.csv --out llm_labels", server).stdout
        assert server.stats.requests - server.stats.refused == 2 * ROWS and "--votes gold" in shown
    examples = read_examples(gold="gold.csv", pool="llm_labels/pool.parquet", features=_text(), votes="gold")
    assert examples.pool is not None and isinstance(examples.pool.teacher, us.Votes)
    assert examples.pool.teacher.sources == ("tiny", "other/one")


def test_batches_are_written_and_read(folder: Path) -> None:
    with ChatServer() as server:
        shown = call(f"{ASK} --votes 3 --out llm_labels --batch", server).stdout
        assert "llm_labels/batch/requests-0001.jsonl" in shown and server.stats.requests == 0
        lines = [json.loads(line) for line in Path("llm_labels/batch/requests-0001.jsonl").read_text().splitlines()]
        assert [line["custom_id"] for line in lines] == [str(row) for row in range(ROWS)]
        assert {line["url"] for line in lines} == {"/v1/chat/completions"} and lines[0]["body"]["n"] == 3
        # What waits in a file is in no other request.
        assert "40 rows wait" in call(f"{ASK} --votes 3 --out llm_labels --batch", server).stdout
        call(f"{ASK} --votes 3 --out llm_labels", server)
        assert server.stats.requests == 0
        body = {"choices": [{"message": {"content": word}} for word in ("neg", "neg", "pos")]}
        body["usage"] = {"prompt_tokens": 7, "completion_tokens": 3}  # type: ignore[assignment]
        done = [{"custom_id": str(row), "response": {"status_code": 200, "body": body}} for row in range(30)]
        failed = [
            {"custom_id": str(row), "response": None, "error": {"code": "batch_expired"}} for row in range(30, 35)
        ]
        Path("output.jsonl").write_text("\n".join(map(json.dumps, [*done, *failed, {"custom_id": "no"}, *done[:1]])))
        shown = call(f"{ASK} --votes 3 --out llm_labels --batch-output output.jsonl", server).stdout
        assert "30 taken, 5 failed, 1 of no row, 1 known already" in shown and "210 tokens in, 90 out" in shown
        assert "10 rows are not answered yet" in shown and server.stats.requests == 0
        call(f"{ASK} --votes 3 --out llm_labels", server)
        assert server.stats.requests == 5  # those that failed; five still wait in the file
    table = read_table("llm_labels/pool.parquet")
    assert table.columns["teacher_topk_index"][0].tolist()[:2] == ["neg", "pos"]
    assert np.allclose(table.columns["teacher_topk_prob"][0][:2], [2 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{ASK} --budget 3", "a budget needs prices"),
        (f"{ASK} --examples 3", "name gold by --gold"),
        (f"{ASK} --describe bad=x", "not among the classes"),
        (f"{ASK} --describe neg", "is not like CLASS=DESCRIPTION"),
        (f"{ASK} --votes 3 --temperature 0", "the same answer each time"),
        (f"{ASK} --model tiny", "--votes asks one model several times"),
        (f"{ASK} --prompt nowhere.jinja", "cannot read nowhere.jinja"),
        (f"{ASK} --price-in 1 --price-in 2", "give one, or one for each"),
        (f"{ASK} --base-url http://me:key@host/v1", "keys come from the environment"),
        (f"{ASK}", "has no OPENAI_API_KEY"),
        ("ask --pool gold.csv --classes neg,pos --model tiny", "0 columns of texts"),
        ("ask --pool own.csv --classes neg,pos --model tiny --gold own.csv --examples 1", "does not name"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(folder: Path, line: str, expected: str) -> None:
    result = call(line + " --out llm_labels", code=2)
    assert (
        expected in result.stderr
        and len(result.stderr.strip().splitlines()) == 1
        and not Path("llm_labels/answers-1.jsonl").exists()
    )


def test_a_prompt_of_ones_own_sees_every_column(folder: Path) -> None:
    Path("mine.jinja").write_text("{% block user %}{{ row.stars }} stars: {{ text | delimited }}{% endblock %}")
    with ChatServer() as server:
        call(f"{ASK} --prompt mine.jinja --out llm_labels", server)
        contents = {body["messages"][-1]["content"] for body in server.stats.bodies}
    assert "3 stars: <text>\nmessage number 3, of some length\n</text>" in contents
