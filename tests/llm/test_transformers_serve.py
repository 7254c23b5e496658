"""Asking ``transformers serve``, a server of another make, with a model made on the fly."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy as us
from understudy.llm.request import Prompt, default_prompt

sys.path.insert(0, str(Path(__file__).parent))
from tiny_llama import some_texts, write_tiny_llama

pytest.importorskip("fastapi", reason="transformers serve needs fastapi: pip install 'transformers[serving]'")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Its address, and the model's name."""
    folder = tmp_path_factory.mktemp("served")
    model = write_tiny_llama(folder / "tiny", Prompt(default_prompt(), ["neg", "pos"]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "from transformers.cli.transformers import main; main()"
    arguments = ["serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    log = (folder / "log.txt").open("w")
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=log, stderr=log, env=offline)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "log.txt").read_text()
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1", str(model)
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def test_a_real_server_answers_every_row(served: tuple[str, str], tmp_path: Path) -> None:
    url, model = served
    rows = int(os.environ.get("SERVED_ROWS", "60"))
    texts, truth = some_texts(rows, seed=2)
    asked = us.ask(texts, ["neg", "pos"], model=model, base_url=url, out=tmp_path / "asked", progress=False)
    said = [None if label < 0 else ["neg", "pos"][label] for label in asked.labels.top1().tolist()]
    right = sum(one == other for one, other in zip(said, truth, strict=True))
    print(f"{rows:,} rows, {asked.requests:,} requests, {right / rows:.1%} right")
    assert asked.unanswered == 0 and right >= 0.9 * rows
    # What it does not take (log-probabilities, schemas) it may refuse once, or leave out.
    assert asked.requests <= rows + 2
    again = us.ask(texts, ["neg", "pos"], model=model, base_url=url, out=tmp_path / "asked", progress=False)
    assert again.requests == asked.requests


def test_votes_of_a_server_that_takes_no_n(served: tuple[str, str], tmp_path: Path) -> None:
    url, model = served
    texts, _ = some_texts(6, seed=3)
    asked = us.ask(texts, ["neg", "pos"], model=model, base_url=url, out=tmp_path / "v", votes=3, progress=False)
    assert asked.unanswered == 0 and 18 <= asked.requests <= 21
