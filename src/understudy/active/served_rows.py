"""The log of ``understudy serve`` as the pool of a campaign: the rows that were deferred, and how many still would be.

    pool, share = read_served(log, out)                   # OUT/log.parquet, and the share of all rows sent
    deferred_at_equal_accuracy(run, test, {"share": 0.3})     # after the first round: the accuracy of that share
    deferred_at_equal_accuracy(run, test, {"accuracy": 0.9})  # later: the share that reaches it

A row that was sent often is one row. The campaign keeps the log as it was at its beginning, however it grows.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy.auditing.deferral import AnsweredRows
from understudy.data.examples import Gold
from understudy.errors import UnderstudyError
from understudy.inference.passes import predict_logits
from understudy.io.readers import object_column
from understudy.io.write import write_table
from understudy.llm.answer_folder import pin_of
from understudy.maths.temperature import fit_temperature
from understudy.store.checked_folder import read_checked, write_checked
from understudy.store.log import Log
from understudy.training.held_out import LEAST_ROWS, HeldOutRows
from understudy.training.run import Run

POOL, COUNTS = "log.parquet", "log.json"


def read_served(log: Path, out: Path) -> tuple[Path, float]:
    """The file of the deferred rows, and which share of all rows they are; made once."""
    if not (out / COUNTS).exists():
        files = sorted(log.glob("requests-*.jsonl"))
        entries = [entry for file in files for entry in Log(file).entries()]
        rows = {pin_of(row): row for entry in entries if entry["served_deferred"] and (row := _content(entry))}
        if not rows:
            cure = "serve with --log and --log-content, and a rule of understudy defer"
            raise UnderstudyError(f"{log} holds no deferred rows with their content; {cure}")
        names = dict.fromkeys(name for row in rows.values() for name in row)
        columns = {name: object_column([row.get(name) for row in rows.values()]) for name in names}
        out.mkdir(parents=True, exist_ok=True)
        (out / POOL).unlink(missing_ok=True)  # of a beginning that was killed
        write_table(out / POOL, {"id": object_column(list(rows)), **columns})
        write_checked(out / COUNTS, {"rows": len(entries), "deferred": sum(e["served_deferred"] for e in entries)})
    counts = read_checked(out / COUNTS)
    return out / POOL, counts["deferred"] / counts["rows"]


def deferred_at_equal_accuracy(run: Run, test: Gold, wanted: Mapping[str, float]) -> dict[str, float] | None:
    """The least ``share`` of test rows to leave to the teacher for the ``accuracy`` wanted (1: none is enough), or the
    ``accuracy`` at the ``share``; None where too few of the rows have a teacher's label."""
    if len(test.calibration_rows()) < LEAST_ROWS:
        return None
    logits = predict_logits(run.student, test.rows)
    rows = AnsweredRows.of(HeldOutRows.of(logits, test, fit_temperature(logits, test.y)), abstain=False)
    own = rows.candidates(next(iter(rows.if_deferred)))
    if "accuracy" in wanted:
        enough = np.flatnonzero(own.accuracy >= wanted["accuracy"])
        return {**wanted, "share": float(own.share[enough[-1]]) if len(enough) else 1.0}
    place = int(np.abs(own.share - wanted["share"]).argmin())
    return {"share": float(own.share[place]), "accuracy": float(own.accuracy[place])}


def _content(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The row's own columns."""
    ours = ("time", "id", "after", "teacher_label")
    return {name: cell for name, cell in entry.items() if name not in ours and not name.startswith("served_")}
