"""``understudy serve`` as a process: what it loads, and what signals do to it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from understudy.cli import app
from understudy.store.log import Log

from ..llm.chat_server import Behaviour, ChatServer
from .tiny_model import write_model

WHAT_IS_LOADED = """
import asyncio, json, sys
from pathlib import Path
import understudy.cli
from understudy.llm.ask_options import TeacherOptions
from understudy.serving.service import Service, Settings
from understudy.web.access import Access

teacher = TeacherOptions(model="m", base_url="http://127.0.0.1:9/v1", timeout=0.2)
access = Access("127.0.0.1", {}, "c", "", False)
service = Service(Settings(Path("model"), Path("log"), defer_below=0.9, teacher=teacher), access)

async def main():
    async with service._lifespan(None):
        served, [answer] = await service.answers([{"text": "nothing"}])
    assert answer["note"] in ("failed", "time-out"), answer

asyncio.run(main())
print(json.dumps(sorted(sys.modules)))
"""


class Process:
    def __init__(self, folder: Path, *more: str) -> None:
        words = ["-m", "understudy", "serve", str(folder / "model"), "--port", "0", *more]
        self.process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, (line, self.process.stderr and self.process.stderr.read())
        self.url = found[0]

    def predict(self, *rows: str) -> list[dict[str, Any]]:
        body = json.dumps({"rows": rows}).encode()
        with urllib.request.urlopen(f"{self.url}/predict", body, timeout=60) as response:
            found: list[dict[str, Any]] = json.load(response)["predictions"]
        return found

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode


def test_serving_loads_nothing_that_trains(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    command = [sys.executable, "-W", "ignore", "-c", WHAT_IS_LOADED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    ours = {name.removeprefix("understudy.") for name in loaded if name.startswith("understudy.")}
    assert "serving.teacher_client" in ours and not {"torch", "sklearn", "scipy", "pandas"} & set(loaded)
    # The command line reads tables of options; nothing else of what trains.
    trains = ("training", "methods", "models", "data", "reconciling", "comparison", "objective", "features", "hf")
    options = {"training.options", "io.data_options", "comparison.comparison_options"}
    assert not {name for name in ours if name.startswith(trains) and "." in name} - options


@pytest.mark.slow
def test_killed_and_started_again_it_loses_no_answer_and_pays_for_none_twice(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    with ChatServer(Behaviour(delay=0.05)) as server:
        more = ["--teacher-url", server.url, "--teacher-model", "m", "--defer-below", "0.9"]
        more += ["--log", str(tmp_path / "log"), "--log-content"]
        first = Process(tmp_path, *more)
        texts, answers = [f"row {number}" for number in range(6)], {}

        def ask(text: str) -> None:
            with suppress(OSError):  # of a server that was killed
                answers[text] = first.predict(text)[0]

        threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
        for thread in threads[:3]:
            thread.start()
            thread.join()
        for thread in threads[3:]:
            thread.start()
        first.end(signal.SIGKILL)
        for thread in threads:
            thread.join()
        stored = {entry["text"]: entry for entry in Log(tmp_path / "log" / "requests-0001.jsonl").entries()}
        assert len(answers) >= 3 and all(
            stored[text]["served_label"] == each["label"] for text, each in answers.items()
        )
        journal = {entry["custom_id"] for entry in Log(tmp_path / "log" / "teacher" / "answers-1.jsonl").entries()}
        again, before = Process(tmp_path, *more), server.stats.requests
        assert {row["answered_by"] for row in again.predict(*texts)} == {"teacher"}
        assert server.stats.requests - before == len(texts) - len(journal)  # what is in the journal is not asked again
        late = threading.Thread(target=lambda: answers.update(late=again.predict("a last row")[0]))
        late.start()
        while server.stats.asked["a last row"] == 0:
            time.sleep(0.005)
        assert again.end(signal.SIGTERM) == 128 + signal.SIGTERM
        late.join()
        assert answers["late"]["answered_by"] == "teacher"  # it was accepted before the signal


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal")
def test_sighup_reads_the_folder_again(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    process = Process(tmp_path, "--log", str(tmp_path / "log"))
    os.kill(process.process.pid, signal.SIGHUP)  # before the loop runs, which it must outlive
    sure = process.predict("good")[0]["confidence"]
    write_model(tmp_path / "model", strength=1.0)
    os.kill(process.process.pid, signal.SIGHUP)
    end = time.monotonic() + 30
    while process.predict("good")[0]["confidence"] == sure:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert process.end(signal.SIGINT) == 130


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--teacher-url", "http://localhost:1/v1"], "--teacher-url needs --log"),
        (["--log-content"], "--log-content needs --log"),
        (["--pattern", "("], "is no regular expression"),
        (["--pattern", "x"], "has no group for the row"),
        (["--host", "0.0.0.0"], "needs a token of 16 letters"),
        (["--teacher-url", "http://localhost:1/v1", "--log", "l"], "has no rule, so that no row would be sent"),
        (["--teacher-url", "http://localhost:1/v1", "--log", "l", "--defer-below", "1"], "give --teacher-model"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model")
    done = CliRunner().invoke(app, ["serve", "model", *words])
    assert done.exit_code == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["serve", str(tmp_path)])
    assert done.exit_code == 2 and "neither a finished run nor an exported folder" in done.stderr


@pytest.mark.torture
@pytest.mark.parametrize("seconds", [int(os.environ.get("UNDERSTUDY_LOAD_SECONDS", "180"))])
def test_under_load_with_a_teacher_that_fails_nothing_is_lost_or_paid_twice(tmp_path: Path, seconds: int) -> None:
    """One call in ten fails, is cut, slow or refused; the folder is reloaded all the time, the server killed once."""
    write_model(tmp_path / "model")
    behaviour = Behaviour(faults=0.1, delay=0.01, slow=3.0)
    with ChatServer(behaviour) as server:
        more = ["--teacher-url", server.url, "--teacher-model", "m", "--defer-below", "0.9", "--timeout", "2"]
        more += ["--log", str(tmp_path / "log"), "--log-content"]
        served = [Process(tmp_path, *more)]
        end, answers, lost, notes = time.monotonic() + seconds, {}, [], Counter()

        def ask(client: int) -> None:
            number = 0
            while time.monotonic() < end:
                number += 1
                text, process = f"row {client} {number}" if number % 3 else f"good {client} {number}", served[-1]
                try:
                    answers[text] = found = process.predict(text)[0]
                    notes[found["note"] or found["answered_by"]] += 1
                except (OSError, http.client.HTTPException):
                    lost.append(process)
                    time.sleep(0.1)

        threads = [threading.Thread(target=ask, args=(client,)) for client in range(8)]
        for thread in threads:
            thread.start()
        killed = False
        while time.monotonic() < end:
            time.sleep(2)
            served[-1].process.send_signal(signal.SIGHUP)
            if not killed and time.monotonic() > end - seconds / 2:
                killed = True
                served[0].end(signal.SIGKILL)
                served.append(Process(tmp_path, *more))
        for thread in threads:
            thread.join()
        assert served[-1].end(signal.SIGTERM) == 128 + signal.SIGTERM
        assert set(lost) <= {served[0]}  # only to the one that was killed
        stored = {entry["text"]: entry for entry in Log(tmp_path / "log" / "requests-0001.jsonl").entries()}
        assert all(stored[text]["served_label"] == found["label"] for text, found in answers.items())
        journal = Counter(entry["row"] for entry in Log(tmp_path / "log" / "teacher" / "answers-1.jsonl").entries())
        assert max(journal.values()) == 1
        # Sent to its end twice: only rows under way when it was killed, or whose client had gone at the time-out.
        twice = sum(count > 1 for count in server.stats.answered.values())
        assert twice <= 16 + server.stats.faults["slow"], server.stats.answered.most_common(3)
        print(f"{len(answers):,} rows, {len(lost)} at the kill, {server.stats.faults}, {notes}, {twice} twice")
