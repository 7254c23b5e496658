"""Rounds over what was served: deferred rows of the log are labelled, and fewer are left to the teacher."""

import csv
import random
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from understudy.cli import app
from understudy.serving.service import STRANGER, Service, Settings
from understudy.web.access import Access
from understudy.web.server import HttpServer

from .test_service import Client
from .tiny_model import write_model

#: The served model and gold know the first of each class alone.
WORDS = {"neg": ["bad", "awful", "poor"], "neutral": ["fine", "usual", "normal"], "pos": ["good", "great", "superb"]}


def rows(count: int, words: slice, seed: int) -> list[tuple[str, str]]:
    drawn = random.Random(seed)
    labels = [drawn.choice(list(WORDS)) for _ in range(count)]
    return [
        (f"{drawn.choice(WORDS[label][words])} thing {seed}{number:03}", label) for number, label in enumerate(labels)
    ]


def write(path: Path, some: list[tuple[str, str]]) -> str:
    """With a teacher's labels, every tenth of them wrong."""
    other = dict(zip(WORDS, [*WORDS][1:] + [*WORDS][:1], strict=True))
    lines = [[text[-4:], text, label, other[label] if n % 10 == 0 else label] for n, (text, label) in enumerate(some)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text", "label", "teacher_label"], *lines])
    return str(path)


def campaign(folder: Path, *more: str) -> Any:
    sizes = ["--budget", "40", "--batch", "20", "--text", "text", "--student", "linear", "--strategy", "confidence"]
    files = ["--from-log", "--pool", str(folder / "served"), "--out", str(folder / "camp")]
    return CliRunner().invoke(app, ["campaign", *files, *sizes, *more])


def better_model(batch: Path, out: Path) -> None:
    """As ``understudy ask --pool BATCH`` leaves its labels: by the rows' content."""
    with batch.open(newline="") as file:
        shown = {row["id"]: row["text"] for row in csv.DictReader(file)}
    truth = {word: label for label, words in WORDS.items() for word in words}
    with out.open("a", newline="") as file:
        csv.writer(file).writerows([id, truth[text.split()[0]]] for id, text in shown.items())


def serve(folder: Path, sent: list[str], *, content: bool = True) -> None:
    settings = Settings(write_model(folder / "model"), log=folder / "served", content=content, defer_below=0.9)
    service = Service(settings, Access("127.0.0.1", {}, "understudy-serve", STRANGER, False, frozenset()))
    with HttpServer(service.asgi, host="127.0.0.1", port=0, name="test", lifespan="on") as server:
        Client(service, server).predict(*sent)


def test_labels_of_deferred_rows_leave_fewer_to_the_teacher(tmp_path: Path) -> None:
    sent = [text for text, _ in rows(150, slice(None), 0)]
    serve(tmp_path, [*sent, *sent[:50]])
    gold = write(tmp_path / "gold.csv", rows(40, slice(0, 1), 1))
    given = ["--gold", gold, "--test", write(tmp_path / "test.csv", rows(200, slice(None), 2))]
    given += ["--answers", str(tmp_path / "big.csv")]
    (tmp_path / "big.csv").write_text("id,teacher_label\nother,pos\n")
    output = ""
    for number in (1, 2):
        found = campaign(tmp_path, *given)
        assert found.exit_code == 0 and f"round {number} waits for 20 of 20 answers" in found.output, found.output
        output += found.output
        better_model(tmp_path / "camp" / f"batch-00{number}.csv", tmp_path / "big.csv")
    output += campaign(tmp_path, *given).output
    shares = [int(share) for share in re.findall(r", (\d+)% deferred for [\d.]+%", output)]
    assert len(shares) == 3 and shares[0] > 55 and shares[2] < shares[0] - 20
    with (tmp_path / "camp" / "labelled.csv").open(newline="") as file:
        assert [row["chosen"] for row in csv.DictReader(file)] == ["1"] * 40
    # Each row once, however often it was sent, and only those that were deferred: the model knows the first words.
    with (tmp_path / "camp" / "batch-001.csv").open(newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    assert len({*texts}) == 20 and not {text.split()[0] for text in texts} & {"bad", "fine", "good"}
    pool = (tmp_path / "camp" / "log.parquet").read_bytes()
    (tmp_path / "camp" / "log.json").unlink()
    found = campaign(tmp_path, *given)
    assert found.exit_code == 2 and "was begun without log.json or lost it; restore it" in found.stderr
    assert (tmp_path / "camp" / "log.parquet").read_bytes() == pool
    page = (tmp_path / "camp" / "report.html").read_text()
    assert ">deferred<" in page and f"<td>{shares[2]}%</td>" in page and "after the first round it took" in page


def test_a_log_without_content_or_no_gold_is_refused(tmp_path: Path) -> None:
    serve(tmp_path, ["unknown"], content=False)
    gold = write(tmp_path / "gold.csv", rows(40, slice(0, 1), 1))
    assert "--log-content" in campaign(tmp_path, "--gold", gold).output
    found = campaign(tmp_path)
    assert found.exit_code == 2 and "needs --gold" in found.output
    log = next((tmp_path / "served").glob("requests-*.jsonl"))
    log.write_text(log.read_text().replace('"served_deferred"', '"served_defered"'))
    found = campaign(tmp_path, "--gold", gold)
    assert found.exit_code == 2 and "lines that understudy serve did not write" in found.stderr
