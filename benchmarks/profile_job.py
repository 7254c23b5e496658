"""Where the time of a job goes: CPU seconds of ``understudy train`` or ``compare``, by phase, one process.

Texts are passages of three sentences of film reviews (IMDB), each with the sentiment of its review; the pool's labels
have 25% planted errors, and 300 gold rows have both labels. Numbers are a table of 12 columns, labelled by a net of
random weights with as many errors. A phase's seconds are without those of the phases that it
calls.

    make profile                                               # 2,000 and 20,000 rows
    python -m benchmarks.profile_job --rows 100000
    python -m benchmarks.profile_job --data numbers --rows 2000
    python -m benchmarks.profile_job --job compare --rows 20000
"""

import argparse
import re
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from experiments.data import data_file

GOLD, ERRORS, SENTENCES = 300, 0.25, 3

#: What counts as which phase, by module and name; what none of them calls is "the rest".
PHASES = {
    "read files, TF-IDF": ("io.data_options:DataOptions.read",),
    "choose C": ("training.automatic_options:penalty_on_gold", "training.automatic_options:c_on_gold"),
    "neighbours": (
        "reconciling.base_models:NearestNeighbours.predict_out_of_fold",
        "reconciling.base_models:Neighbours.find",
    ),
    "base models": ("reconciling.base_models:TrainedModel.predict_out_of_fold",),
    "students on reconciled labels": ("reconciling.label_sources:cross_validate_student",),
    "weights of sources": ("reconciling.label_sources:reconciled_pool", "reconciling.label_sources:labels_by_fold"),
    "fingerprints": ("store.fingerprints:fingerprint",),
    "files of parts": ("reconciling.cross_fitting:_write", "reconciling.cross_fitting:_read"),
    "fit": ("training.fit:fit_run",),
    "evaluate": ("training.evaluation:evaluate_training",),
    "save": ("training.run:Run.save",),
    "report": ("report.run_page:write_job_report", "report.run_text:print_sources"),
}
#: What is counted as one training.
TRAININGS = ("training.fit:Training.run", "training.fit_together:fit_stacked")


def passages(rows: int) -> tuple[list[str], np.ndarray[Any, Any]]:
    table = pq.read_table(data_file("imdb_50k.parquet"), columns=["text", "label"])
    found: dict[str, int] = {}
    for text, label in zip(table["text"].to_pylist(), table["label"].to_pylist(), strict=True):
        sentences = re.split(r"(?<=[.!?])\s+", text)
        for start in range(0, len(sentences) - SENTENCES + 1, SENTENCES):
            found.setdefault(" ".join(sentences[start : start + SENTENCES]), label)
    chosen = np.random.default_rng(0).permutation(len(found))[:rows]
    texts, labels = list(found), np.array(list(found.values()))
    return [texts[row] for row in chosen], labels[chosen]


def numbers(rows: int) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, 12))
    y = np.tanh(x @ draw.normal(size=(12, 16))) @ draw.normal(size=16) > 0
    return {f"n{column}": x[:, column] for column in range(12)}, y.astype(int)


def write_files(folder: Path, rows: int, data: str) -> tuple[Path, Path]:
    """Gold and pool, whose ``teacher_label`` is wrong on a share of ``ERRORS``."""
    if data == "text":
        texts, y = passages(rows + GOLD)
        columns: dict[str, Any] = {"text": texts}
    else:
        columns, y = numbers(rows + GOLD)
    wrong = np.random.default_rng(1).random(len(y)) < ERRORS
    names = np.array(["negative", "positive"])
    table = pa.table({**columns, "label": names[y], "teacher_label": names[y ^ wrong]})
    gold, pool = folder / "gold.parquet", folder / "pool.parquet"
    pq.write_table(table.slice(0, GOLD), gold)
    pq.write_table(table.slice(GOLD).drop_columns(["label"]), pool)
    return gold, pool


class Clock:
    """CPU seconds and calls by phase."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._stack, self._last = ["the rest"], time.process_time()

    def _switch(self) -> None:
        now = time.process_time()
        self.seconds[self._stack[-1]] += now - self._last
        self._last = now

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            self._switch()
            self._stack.append(phase)
            self.calls[phase] += 1
            try:
                return function(*args, **options)
            finally:
                self._switch()
                self._stack.pop()

        return run

    def watch(self) -> None:
        for phase, places in PHASES.items():
            for place in places:
                _replace(place, lambda function, phase=phase: self.timed(phase, function))
        for place in TRAININGS:
            _replace(place, self._counted)

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            students = len(args[0]) if isinstance(args[0], list) else 1
            for name, count in (("trainings", 1), ("students", students), (f"students: {self._stack[-1]}", students)):
                self.calls[name] += count
            return function(*args, **options)

        return run

    def lines(self) -> Iterator[str]:
        self._switch()
        total = sum(self.seconds.values())
        for phase, seconds in sorted(self.seconds.items(), key=lambda each: -each[1]):
            students = self.calls[f"students: {phase}"]
            shown = f"   {students} students" if students else ""
            yield f"{seconds:8.1f} s {seconds / total:6.0%}  {phase}{shown}"
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        students, trainings = self.calls["students"], self.calls["trainings"]
        yield f"{total:8.1f} s   all; {students} students in {trainings} trainings; {memory:,.0f} MB at most"


def _replace(place: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """A function or method, in every module that has imported it."""
    module_name, name = f"understudy.{place}".split(":")
    module = __import__(module_name, fromlist=["_"])
    if "." in name:
        owner, method = name.split(".")
        setattr(getattr(module, owner), method, wrap(getattr(getattr(module, owner), method)))
        return
    before = getattr(module, name)
    after = wrap(before)
    for each in list(sys.modules.values()):
        if getattr(each, "__name__", "").startswith("understudy") and vars(each).get(name) is before:
            setattr(each, name, after)


def profile(job: str, rows: int, data: str) -> Iterator[str]:
    from understudy.cli import app

    with tempfile.TemporaryDirectory() as folder:
        gold, pool = write_files(Path(folder), rows, data)
        for module in ("comparison.compare", "training.job", "report.run_page"):
            __import__(f"understudy.{module}")
        clock = Clock()
        clock.watch()
        files = ["--gold", gold, "--pool", pool, "--out", Path(folder) / "out"]
        files += ["--text", "text", "--encoder", "none"] if data == "text" else []
        options = ["--workers", 1] if job == "compare" else ["--option", "workers=1"]
        app([job, *map(str, [*files, *options]), "--quiet"], standalone_mode=False)
        yield f"\nunderstudy {job}, {data}, {rows:,} rows"
        yield from clock.lines()


def main() -> None:
    import torch

    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", choices=("train", "compare"), default="train")
    parser.add_argument("--data", choices=("text", "numbers"), default="text")
    parser.add_argument("--rows", type=int, default=20_000, help="of the pool")
    options = parser.parse_args()
    for line in profile(options.job, options.rows, options.data):
        print(line, flush=True)


if __name__ == "__main__":
    main()
