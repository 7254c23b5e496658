"""The files of ``understudy budget``: the labels of the sources so far, and the rows that each should label.

given = read_sources(gold, pool, known, ["small", "human"], columns, classes=None)
write_plan(out, plan_labels(prices, budget, answers=given.answers, …), given)
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from understudy.active.label_plan import LabelPlan
from understudy.data.checks import check_labels
from understudy.errors import UnderstudyError
from understudy.features.raw_columns import no_column
from understudy.io.gold_pool import is_one_file, split_gold_pool
from understudy.io.label_columns import Labelling, find_labelling, read_teacher
from understudy.io.table import Table, read_table, spell_ids_alike
from understudy.io.write import write_columns
from understudy.labels.forms import Hard, Labels
from understudy.labels.votes import Votes
from understudy.store.console import from_report
from understudy.store.files import folder_appearing_whole, write_json

GOLD_FILE, PLAN = "gold.csv", "plan.json"
COLUMNS = ("id", "purpose", "gain", "why", "predicted", "confidence", "label")
#: The source of a single ``teacher_label``.
TEACHER = "teacher"


class GivenSources(NamedTuple):
    #: Of all sources: those with a price, then the others of the files.
    names: list[str]
    classes: int
    class_names: Sequence[str]
    #: Of the pool's rows that are not gold; those of gold are ``gold_ids``.
    ids: np.ndarray[Any, Any]
    gold_ids: np.ndarray[Any, Any]
    #: ``(N, A)``, −1: none.
    answers: Tensor
    gold_answers: Tensor
    gold_y: Tensor
    #: Class probabilities ``(N, C)``.
    known: Tensor | None


def read_sources(
    gold: Path | None, pool: Path, known: Path | None, priced: Sequence[str], columns: Mapping[str, str],
    classes: int | Sequence[str] | None,
) -> GivenSources:  # fmt: skip
    table = read_table(pool, columns=columns)
    tables = {} if gold is None or is_one_file(gold, pool) else {"gold": read_table(gold, columns=columns)}
    if is_one_file(gold, pool):
        tables["gold"], table = split_gold_pool(table, classes)
    # What reconcile wrote, or predict, whose column has another name.
    of_known = [] if known is None else [read_table(known, columns={"teacher_probs": "probabilities"})]
    for one in (table, *tables.values(), *of_known):
        if "id" not in one.names:
            raise no_column(f"{one.path}", "id", one.names, ", by which answers are joined to rows; add it")
    spell_ids_alike([table, *tables.values(), *of_known])
    how = find_labelling(tables, table, classes, "majority")
    labels = read_teacher(table, how)
    count = _count(how, labels, classes)
    names = [*priced, *(name for name in _names(labels) if name not in priced)]
    votes = _votes(labels, names, len(table))
    assert table.ids is not None
    stays, y, on_gold, gold_ids = np.arange(len(table)), torch.empty(0, dtype=torch.long), votes[:0], table.ids[:0]
    if gold is not None:
        trusted = tables["gold"]
        if "label" not in trusted.names:
            raise no_column(f"{gold}", "label", trusted.names, ", the true class of every gold row")
        y = check_labels(how.numbers(trusted, "label"), trusted.where("label"))
        at = torch.from_numpy(trusted.rows_in(table))
        own = _votes(read_teacher(trusted, how), names, len(trusted))
        on_pool = torch.where((at >= 0).unsqueeze(1), votes[at.clamp_min(0)], -1)
        assert trusted.ids is not None
        on_gold, gold_ids = torch.where(own >= 0, own, on_pool), trusted.ids
        stays = table.rows_without([trusted])
        count = max(count, int(y.max()) + 1)
    if not len(stays):
        raise UnderstudyError(f"{pool}: every row is gold; add other pool rows")
    ids = table.ids[stays]
    names_of = how.names.names if how.names is not None else tuple(map(str, range(count)))
    probs = _probabilities(of_known[0], table.rows_in(of_known[0])[stays], ids, how, count) if of_known else None
    return GivenSources(names, count, names_of, ids, gold_ids, votes[torch.from_numpy(stays)], on_gold, y, probs)


def _count(how: Labelling, labels: Labels | None, classes: Any) -> int:
    if how.names is not None:
        return len(how.names)
    seen = 0 if labels is None else int(labels.answers().max()) + 1
    return max(2, how.classes or 0, seen, classes if isinstance(classes, int) else 0)


def _names(labels: Labels | None) -> Sequence[str]:
    if labels is None:
        return ()
    if isinstance(labels, Votes):
        return labels.sources or tuple(map(str, range(labels.votes.shape[1])))
    if isinstance(labels, Hard):
        return (TEACHER,)
    raise UnderstudyError(f"labels of the pool are {labels.title}; use --known, or columns teacher_vote_NAME")


def _votes(labels: Labels | None, names: Sequence[str], rows: int) -> Tensor:
    """``(rows, A)`` in the order of ``names``, −1 where a source has no label."""
    votes = torch.full((rows, len(names)), -1)
    given = () if labels is None else labels.answers().long().reshape(rows, -1).T
    for name, column in zip(_names(labels), given, strict=True):
        if name in names:
            votes[:, names.index(name)] = column
    return votes


def _probabilities(table: Table, at: Any, ids: Any, how: Labelling, classes: int) -> Tensor:
    """In the order of the pool's rows, which are the rows ``at`` of the table."""
    labels = read_teacher(table, how)
    if labels is None:
        raise UnderstudyError(f"{table.path} lacks teacher_probs or probabilities; name a file of reconcile or predict")
    if (at < 0).any():
        missing = ids[int((at < 0).argmax())]
        raise UnderstudyError(f"{table.path} has no row of id {missing!r}; it must cover the whole pool")
    return labels.dense(torch.from_numpy(at), classes).double()


def write_plan(out: Path, plan: LabelPlan, given: GivenSources) -> list[str]:
    """Writes a file for every source with rows to label; returns the names of the files."""
    files, tables = file_names([one.name for one in plan.sources]), {}
    for one in plan.sources:
        rows = {"trial": plan.trials, "beside new gold": plan.gold_asks, "better or more labels": plan.asks}
        mine = {purpose: by[one.name] for purpose, by in rows.items() if one.name in by}
        if lines := [line for purpose, part in mine.items() for line in _lines(plan, given, part, purpose)]:
            tables[files[one.name]] = _columns(lines)
    if len(plan.gold):
        # Drawn at random, so that they may calibrate (io/read.py).
        chosen = {"chosen": [0] * len(plan.gold)}
        tables[GOLD_FILE] = _columns(_lines(plan, given, plan.gold, "new gold")) | chosen
    with folder_appearing_whole(out) as folder:
        for name, columns in tables.items():
            write_columns(folder / name, columns)
        write_json(folder / PLAN, _numbers(plan))
    return [*tables, PLAN]


def file_names(sources: Sequence[str]) -> dict[str, str]:
    """A file name for each source: an LLM may be called ``maker/model``, a person ``gold``."""
    files: dict[str, str] = {}
    taken = {GOLD_FILE, PLAN}
    for name in sources:
        plain = re.sub(r"[^\w.@+-]+", "_", name).lstrip(".") or "_"
        number = 1
        while (file := f"{plain}{'' if number == 1 else f'-{number}'}.csv").casefold() in taken:
            number += 1
        taken.add(file.casefold())
        files[name] = file
    return files


def _lines(plan: LabelPlan, given: GivenSources, rows: Tensor, purpose: str) -> list[tuple[Any, ...]]:
    """Cells of ``COLUMNS``, a tuple for each row; those of a trial are gold."""
    if purpose == "trial":
        ids = given.gold_ids[rows.numpy()].tolist()
        return [(id, purpose, None, "to measure its accuracy", None, None, None) for id in ids]
    shares, labels = plan.known[rows].max(1)
    ids, gains, two = given.ids[rows.numpy()].tolist(), plan.gain[rows].tolist(), plan.known[rows].topk(2, dim=1)
    each = zip(two.indices.tolist(), two.values.tolist(), gains, strict=True)
    reasons = from_report("templates").sentences("label_budget", "row_reasons", each, given.class_names)
    return [
        (id, purpose, round(gain, 4), why, given.class_names[label], round(share, 4), None)
        for id, gain, why, label, share in zip(ids, gains, reasons, labels.tolist(), shares.tolist(), strict=True)
    ]


def _columns(lines: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: list(cells) for name, cells in zip(COLUMNS, zip(*lines, strict=True), strict=True)}


def _numbers(plan: LabelPlan) -> dict[str, Any]:
    return {
        "format": 1, "budget": plan.budget, "cost": plan.cost, "trusted": plan.trusted,
        "sentences": list(plan.sentences),
        "expected_errors": {"now": plan.errors[0], "then": plan.errors[1]},
        "clean_labels": {"now": plan.clean[0], "then": plan.clean[1]},
        "new_gold": len(plan.gold),
        "splits": [{"new_gold": count, "clean_labels": value} for count, value in plan.splits],
        "sources": [
            {
                "name": one.name, "price": one.price, "rows": len(plan.asks.get(one.name, ())),
                "beside_new_gold": len(plan.gold_asks.get(one.name, ())), "trial": len(plan.trials.get(one.name, ())),
                "accuracy": one.accuracy.estimate if one.accuracy.known else None,
                "accuracy_interval": [one.accuracy.low, one.accuracy.high] if one.accuracy.known else None,
                "gold_rows": int(one.accuracy.rows), "left_out": one.left_out or None,
            }
            for one in plan.sources
        ],
    }  # fmt: skip
