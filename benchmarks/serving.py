"""``understudy serve`` beside a bare loop over the same ONNX net behind the same server: requests per second, latency.

A net on 5,000 TF-IDF terms (128 hidden units, 20 classes), one text of 40 words per request, as JSON, over connections
that stay open; 1, 8 and 64 clients in a process of their own. The bare server is a route that reads the JSON, calls
``predict_proba`` and writes the JSON: no batches, checks, counts or log. Rounds alternate; medians. Target: at least
0.8 times the requests per second of the server's processor time, which other processes on the machine do not change
(they do change the latencies); also shown with the log, which has each answer on the disk before it is sent, and
the seconds and megabytes until the first answer, beside importing PyTorch.

    python -m benchmarks.serving
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.figures import Figure, main

TERMS, HIDDEN, CLASSES, WORDS = 5_000, 128, 20, 40
BARE = """
import sys, json, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from understudy.inference.standalone import Model, answer
from understudy.web.server import listening

model = Model(sys.argv[1])

async def predict(request):
    rows = (await request.json())["rows"]
    return JSONResponse({"predictions": answer(model, rows)})

async def health(request):
    return JSONResponse({})

app = Starlette(routes=[Route("/predict", predict, methods=["POST"]), Route("/health", health)])
config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
uvicorn.Server(config).run(sockets=[listening("127.0.0.1", int(sys.argv[2]))])
"""
PORTS = {"bare": 8531, "serve": 8532, "serve, log": 8533}


def write_model(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    folder.mkdir()
    terms = [f"word{number}" for number in range(TERMS)]
    part = {"kind": "tfidf", "name": "text", "terms": terms, "idf": rng.uniform(1, 8, TERMS).tolist()}
    classes = [f"class {number}" for number in range(CLASSES)]
    (folder / "features.json").write_text(
        json.dumps({"classes": classes, "parts": [part], "kinds": {}, "thresholds": {}, "beside": 1.0})
    )
    shapes = {"a": (TERMS, HIDDEN), "b": (HIDDEN, CLASSES)}
    weights = [numpy_helper.from_array(rng.normal(size=size).astype(np.float32), name) for name, size in shapes.items()]
    steps = [("MatMul", ["x", "a"], "h"), ("Relu", ["h"], "r"), ("MatMul", ["r", "b"], "z"), ("Softmax", ["z"], "p")]
    nodes = [helper.make_node(kind, inputs, [output]) for kind, inputs, output in steps]
    ends = [helper.make_tensor_value_info(*each) for each in (("x", TensorProto.FLOAT, [None, TERMS]),)]
    out = helper.make_tensor_value_info("p", TensorProto.FLOAT, [None, CLASSES])
    graph = helper.make_graph(nodes, "net", ends, [out], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx"
    )
    return folder


def start(name: str, folder: Path) -> tuple[subprocess.Popen[bytes], float]:
    port, model = str(PORTS[name]), str(folder / "model")
    words = ["-c", BARE, model, port]
    if name != "bare":
        words = ["-m", "understudy", "serve", model, "--port", port]
        words += ["--log", str(folder / "log"), "--log-content"] if "log" in name else []
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
            return process, time.perf_counter() - begun
        except OSError:
            assert process.poll() is None and time.perf_counter() - begun < 60
            time.sleep(0.02)


async def client(port: int, bodies: list[bytes], seconds: float) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        body = bodies[len(times) % len(bodies)]
        head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        await reader.readexactly(int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        times.append(time.perf_counter() - begun)
    writer.close()
    return times


async def load(pid: int, port: int, clients: int, bodies: list[bytes], seconds: float) -> tuple[float, float, float]:
    """Requests per second of processor time, and the median and 99th percentile in milliseconds."""
    begun = processor_seconds(pid)
    parts = await asyncio.gather(*(client(port, bodies[number:], seconds) for number in range(clients)))
    times = np.concatenate(parts) * 1000
    return len(times) / (processor_seconds(pid) - begun), float(np.median(times)), float(np.percentile(times, 99))


def figures(rounds: int = 5, seconds: float = 2.0) -> list[Figure]:
    rng = np.random.default_rng(1)
    texts = [" ".join(f"word{number}" for number in rng.integers(0, TERMS, WORDS)) for _ in range(200)]
    bodies = [json.dumps({"rows": [text]}).encode() for text in texts]
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        write_model(Path(name) / "model")
        started = {each: start(each, Path(name)) for each in PORTS}
        try:
            for clients in (1, 8, 64):
                runs: dict[str, list[Any]] = {each: [] for each in PORTS}
                for turn in range(rounds + 1):
                    for each, port in PORTS.items():
                        measured = asyncio.run(load(started[each][0].pid, port, clients, bodies, seconds))
                        runs[each] += [measured] if turn else []
                for each in ("serve", "serve, log"):
                    found += _beside(each, clients, runs)
            memory = _megabytes(started["serve"][0].pid)
        finally:
            for process, _ in started.values():
                process.terminate()
                process.wait(20)
    begun = time.perf_counter()
    code = "import resource, torch; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    torch_memory = float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    torch_seconds, first = time.perf_counter() - begun, started["serve"][1]
    found.append(Figure("start to first answer", "s", first, "import torch", torch_seconds, first / torch_seconds))
    found.append(Figure("memory while serving", "MB", memory, "import torch", torch_memory, memory / torch_memory))
    return found


def _beside(name: str, clients: int, runs: dict[str, list[Any]]) -> list[Figure]:
    median = {each: [statistics.median(column) for column in zip(*runs[each], strict=True)] for each in (name, "bare")}
    ratio = statistics.median(ours[0] / bare[0] for ours, bare in zip(runs[name], runs["bare"], strict=True))
    (rate, *ours), (bare_rate, *theirs) = median[name], median["bare"]
    what = f"{name}, {clients} client{'s' if clients > 1 else ''}"
    target = "≥ 0.8" if name == "serve" else ""
    times = zip(("median", "p99"), ours, theirs, strict=True)
    return [
        Figure(what, "requests/cpu s", rate, "bare loop", bare_rate, ratio, target),
        *(Figure(f"{what}, {which}", "ms", mine, "bare loop", bare, mine / bare) for which, mine, bare in times),
    ]


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024


if __name__ == "__main__":
    main(figures)
