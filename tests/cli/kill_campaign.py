"""Kills campaigns at steps drawn at random and gives the same command again: python kill_campaign.py FOLDER MOMENTS

Each runs in a process that gets a real SIGKILL at a step of its own (``tests/kill_points.py``). In turn, answers come
from a file, and from the label page's book, where a simulated person answers row by row and is paid for each.
"""

import csv
import json
import random
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
from typer.testing import CliRunner

from understudy import cli
from understudy.active import campaign as campaign_rounds
from understudy.active.oracles import LabelPage, LabelRequest
from understudy.web.answer_book import AnswerBook

sys.path.insert(0, str(Path(__file__).parents[1]))
from kill_points import draw_kill, forked

NAMES, ROWS, BUDGET = ("left", "right"), 120, 40


def truth(row: int) -> str:
    return NAMES[(row * 7 % 12) > 5]


def write_files(folder: Path) -> None:
    draw = random.Random(0)
    for name, header in (("pool.csv", "id,a,b"), ("truth.csv", "id,label"), ("test.csv", "id,a,b,label")):
        lines = [header]
        for row in range(ROWS) if name != "test.csv" else range(ROWS, ROWS + 40):
            side = 1 if truth(row) == "right" else -1
            numbers = f"{side + draw.gauss(0, 1):.4f},{draw.gauss(0, 1):.4f}"
            end = {"pool.csv": numbers, "truth.csv": truth(row), "test.csv": f"{numbers},{truth(row)}"}[name]
            lines.append(f"r{row},{end}")
        (folder / name).write_text("\n".join(lines) + "\n")


class Paid(LabelPage):
    """The page with a person who answers at once, each row for money."""

    def answers(self, question: LabelRequest) -> torch.Tensor | None:
        self.book.add(question.names(), chosen=question.round > 0)
        for id in self.book.waiting():
            self.book.answer(id, truth(int(id[1:])), annotator="ann")
        return super().answers(question)


def run(folder: Path, out: Path, by: str) -> None:
    files = ["--pool", str(folder / "pool.csv"), "--test", str(folder / "test.csv"), "--out", str(out)]
    sizes = ["--start", "20", "--batch", "10", "--budget", str(BUDGET), "--epochs", "3", "--batch-size", "16"]
    who = ["--answers", str(folder / "truth.csv")] if by == "file" else ["--label", "page"]
    with patch.object(campaign_rounds, "LabelPage", Paid):
        done = CliRunner().invoke(cli.app, ["campaign", *files, *sizes, *who, "--student", "mlp:8", "--price", "2"])
    assert done.exit_code == 0, done.output


def check(out: Path, undisturbed: Path, by: str) -> None:
    """No label requested or paid for twice, and the result is the same."""
    state = json.loads((out / "state.json").read_text())
    assert len(state["rows"]) == len(set(state["rows"])) == BUDGET
    lines = [json.loads(line) for line in (out / "label_history.jsonl").read_text().splitlines()]
    answered = Counter(id for line in lines for id in line["answers"])
    assert len(answered) == BUDGET and set(answered.values()) == {1}, answered.most_common(3)
    assert (out / "labelled.csv").read_bytes() == (undisturbed / "labelled.csv").read_bytes()
    weights = [next(folder.glob("round-*/student.safetensors")).read_bytes() for folder in (out, undisturbed)]
    assert weights[0] == weights[1]
    assert (out / "report.html").exists()
    with (out / "labelled.csv").open(newline="") as file:
        assert all(line["label"] == truth(int(line["id"][1:])) for line in csv.DictReader(file))
    if by == "page":
        with AnswerBook(out / "answers.book") as book:
            assert sum(len(people) for people in book.given().values()) == BUDGET
            assert len(book.history("ann", 10_000)) == BUDGET and not book.waiting()


def main(folder: Path, moments: int) -> None:
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder)
    run(folder, folder / "warm-up", "file")  # the first also loads a part of torch, once for all forks
    counts = {by: forked(partial(run, folder, folder / f"undisturbed-{by}", by)) for by in ("file", "page")}
    draw = random.Random(0)
    for moment in range(moments):
        by = ("file", "page")[moment % 2]
        steps = counts[by]
        assert steps is not None
        out = folder / f"killed-{moment}"
        kill = draw_kill(steps, moment // 2, draw)
        assert forked(partial(run, folder, out, by), kill) is None, f"never came to {kill}"
        assert forked(partial(run, folder, out, by)) is not None
        check(out, folder / f"undisturbed-{by}", by)
        print(f"killed-{moment}:", by, *kill, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
