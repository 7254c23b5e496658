"""The model that is served: an exported folder, which onnxruntime runs, and the rule that says which rows to defer.

    served = ServedModel.load("runs/first")            # or an exported folder; a run is exported once, into the cache
    worker = BatchWorker(served).start()
    served, probs, deferred = await worker.predict(served.model.sent_rows(["a text"]))

A run is exported by a process of its own, so that this one never loads PyTorch.
"""

import asyncio
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from understudy.errors import UnderstudyError, first_line, optional
from understudy.inference import standalone
from understudy.inference.cascade import COMBINED, TEACHER, Cascade, DeferralRule
from understudy.store.files import cache_folder, digest

NEEDS = "serving needs onnxruntime, starlette and uvicorn"
#: Once so many rows are in a batch, it takes no further request.
MOST_AT_ONCE = 256
#: Seconds; above, a batch would hold up the other connections.
INLINE = 0.02
Row = Mapping[str, Any]
Array = np.ndarray[Any, Any]
Prediction = tuple["ServedModel", Array, Array]


@dataclass(frozen=True)
class ServedModel:
    #: ``inference.standalone.Model``.
    model: Any
    cascade: Cascade
    name: str
    #: Of its files.
    version: str

    @classmethod
    def load(cls, folder: Path, *, defer_below: float | None = None, threads: int = 1) -> "ServedModel":
        """``defer_below``: a confidence below which rows are deferred, instead of the rule in the folder."""
        optional("onnxruntime", NEEDS, "serve")
        cascade, exported = Cascade.load(folder), _exported(folder)
        if defer_below is not None:
            answer = TEACHER if cascade.combination is None else COMBINED
            cascade = Cascade(cascade.combination, DeferralRule([1 - defer_below], answer))
        try:
            model = standalone.Model(exported, threads=threads)
            content = b"".join((exported / name).read_bytes() for name in ("features.json", "model.onnx"))
        except Exception as error:  # whatever the runtime raises
            raise UnderstudyError(f"{exported} cannot be served ({first_line(error)}); export it again") from error
        return cls(model, cascade, folder.resolve().name, digest(content)[:12])

    @property
    def text(self) -> str | None:
        """The column of texts, where a row is nothing else."""
        reads = self.model.parts[0].part["kind"] in ("texts", "encoder", "tfidf")
        return self.model.names[0] if len(self.model.names) == 1 and reads else None

    def predict(self, rows: Sequence[Row]) -> tuple[Array, Array]:
        """Probabilities ``(n, C)``, and which rows are deferred ``(n,)``."""
        probs: Array = self.model.predict_proba({name: [row[name] for row in rows] for name in self.model.names})
        return probs, self.cascade.defer(probs)


def _exported(folder: Path) -> Path:
    if (folder / "model.onnx").exists():
        return folder
    if not (folder / "config.json").exists():
        raise UnderstudyError(f"{folder} is neither a finished run nor an exported folder; name one of them")
    made = cache_folder() / f"served-{digest((folder / 'config.json').read_bytes())[:16]}"
    if not made.exists():
        command = [sys.executable, "-m", "understudy", "export", str(folder.absolute()), "--out", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode and not made.exists():  # another process may have been first
            why = (done.stderr.strip().splitlines() or ["it failed"])[-1].removeprefix("error: ")
            raise UnderstudyError(f"{folder} cannot be exported: {why}")
    return made


class _Job(NamedTuple):
    rows: Sequence[Row]
    future: "asyncio.Future[Prediction] | None"


class BatchWorker:
    """Predicts what arrives together at once; no request waits for a batch to fill.

    Batches that take less time than handing them to a thread would are predicted on the event loop; others by one
    thread, whose next batch is what arrived meanwhile. ``served`` may be replaced at any moment: a batch is predicted
    by one model."""

    def __init__(self, served: ServedModel) -> None:
        self.served, self.rows, self.batches = served, 0, 0
        #: Requests under way.
        self.active = 0
        #: Of the last batches; the least is what a row takes when no other process has the processor.
        self._seconds_per_row = deque([1.0], maxlen=16)
        self._arrived: list[_Job] = []
        self._jobs: queue.SimpleQueue[list[_Job]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="predictions", daemon=True)

    def start(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    def stop(self) -> None:
        self._jobs.put([])
        self._thread.join()

    async def predict(self, rows: Sequence[Row]) -> Prediction:
        if self.active < 2 and len(rows) * min(self._seconds_per_row) < INLINE:  # there is nothing to wait for
            [(_, outcome)] = self._answer([_Job(rows, None)])
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        future: asyncio.Future[Prediction] = self._loop.create_future()
        self._arrived.append(_Job(rows, future))
        if len(self._arrived) == 1:  # after all other requests that are ready now
            self._loop.call_soon(self._take)
        return await future

    def _take(self) -> None:
        jobs, self._arrived = self._arrived, []
        if sum(len(job.rows) for job in jobs) * min(self._seconds_per_row) < INLINE:
            _deliver(self._answer(jobs))
        else:
            self._jobs.put(jobs)

    def _work(self) -> None:
        while jobs := self._jobs.get():
            while sum(len(job.rows) for job in jobs) < MOST_AT_ONCE and not self._jobs.empty():
                more = self._jobs.get()
                jobs = [*jobs, *more]
                if not more:  # the end, after this batch
                    self._jobs.put(more)
                    break
            self._loop.call_soon_threadsafe(_deliver, self._answer(jobs))

    def _answer(self, jobs: list[_Job]) -> list[tuple[_Job, Prediction | Exception]]:
        served, begun = self.served, time.perf_counter()
        try:
            probs, deferred = served.predict([row for job in jobs for row in job.rows])
        except Exception as error:
            # Whose row cannot be read fails alone.
            return [(jobs[0], error)] if len(jobs) == 1 else [each for job in jobs for each in self._answer([job])]
        self.rows, self.batches = self.rows + len(probs), self.batches + 1
        if len(probs):  # no rows take no time, which says nothing of others
            self._seconds_per_row.append((time.perf_counter() - begun) / len(probs))
        ends = list(accumulate(len(job.rows) for job in jobs))
        parts = zip(jobs, [0, *ends], ends, strict=False)
        return [(job, (served, probs[start:end], deferred[start:end])) for job, start, end in parts]


def _deliver(outcomes: list[tuple[_Job, Prediction | Exception]]) -> None:
    for job, outcome in outcomes:
        if job.future is None or job.future.done():  # its client is gone
            continue
        if isinstance(outcome, Exception):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)
