"""A labelling campaign over files: a loop whose rounds people label in files or on the label page.

    run_campaign(CampaignOptions(budget=500, pool=pool, out=out), DataOptions(text="review"), {"epochs": 5}, echo=print)

After every round it gives ``echo`` a line and writes the page ``report.html`` (``report/campaign_page.py``).

The pool may be the log of ``understudy serve``: the rows that were deferred, and how many still would be. A row that
was sent often is one row. The campaign keeps the log as it was at its beginning, however it grows.

    pool, share = read_served(log, out)                   # OUT/log.parquet, and the share of all rows sent
    deferred_at_equal_accuracy(run, test, {"share": 0.3})     # after the first round: the accuracy of that share
    deferred_at_equal_accuracy(run, test, {"accuracy": 0.9})  # later: the share that reaches it
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.active.loop import Loop
from understudy.active.loop_options import CampaignOptions, LoopOptions
from understudy.active.loop_state import DEFERRED, STATE, round_gains
from understudy.active.oracles import AnswerFiles, LabelPage, Oracle
from understudy.auditing.deferral import AnsweredRows
from understudy.comparison.candidates import build_method
from understudy.data.examples import Gold
from understudy.errors import UnderstudyError
from understudy.inference.passes import predict_logits, usable_device
from understudy.io.batch_answers import named_answers
from understudy.io.data_options import DataOptions
from understudy.io.read import Examples
from understudy.io.table import text_columns
from understudy.io.write import write_table
from understudy.labels.class_names import is_number
from understudy.llm.answer_folder import pin_of
from understudy.maths.temperature import fit_temperature
from understudy.store.arrow import object_column
from understudy.store.checked_folder import read_checked, write_checked
from understudy.store.console import collected_warnings, from_report
from understudy.store.log import Log
from understudy.training.held_out import LEAST_ROWS, HeldOutRows
from understudy.training.job import resolve_student, student_builder
from understudy.training.run import Run
from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Cards
from understudy.web.serve import LabelServer

REPORT, BOOK = "report.html", "answers.book"
#: Of the log of ``understudy serve``.
POOL, COUNTS = "log.parquet", "log.json"


def run_campaign(
    options: CampaignOptions, data: DataOptions, training: Mapping[str, Any], echo: Callable[[str], Any] = print
) -> None:
    """Runs rounds until the loop stops; on the label page it waits for answers."""
    served = 0.0
    if options.from_log:
        if not options.gold:
            raise UnderstudyError("deferred rows are no random sample of all; --from-log needs --gold FILE beside them")
        pool, served = read_served(options.pool, options.out)
        options = replace(options, pool=pool, start=0)
    data = _with_classes(options, data)
    with collected_warnings() as warnings:
        examples = data.for_student(options.student).read(options.gold or [], pool=options.pool, test=options.test)
        if examples.pool is None:
            raise UnderstudyError(f"{options.pool} holds no rows to label; name a pool file")
        examples.leaks().warn()
        try:
            classes = data.count_classes(examples)
        except UnderstudyError as error:
            raise UnderstudyError(f"{error} (or name the classes: --classes neg,pos)") from error
        with _page(options, data, examples, classes) as page:
            again = "give the same command again"
            shown = {name: cells for name, cells in text_columns(options.pool).items() if name != "id"}
            oracle: Oracle = AnswerFiles(
                options.out, examples.class_names, options.answers, again=again,
                content=shown if options.from_log else {},
            )  # fmt: skip
            if page is not None:
                oracle = LabelPage(page[0])

            def on_round(records: list[dict[str, Any]]) -> None:
                gain = round_gains(records, options.price)[-1]
                echo(*from_report("templates").sentences("campaign", "round_line", gain, records[-1].get("watch")))
                _write(options, records, warnings)

            loop = _loop(options, examples, classes, training, oracle, on_round)
            if (test := examples.test) is not None and options.from_log:
                loop.measure = lambda run, records: _deferred(run, test, records, served)
            _write(options, loop.state.records, warnings)  # a kill may have come before the last page
            result = loop.run()
            while page is not None and result.stopped == "waiting":
                echo(f"{result.message.partition(';')[0]}: open {page[1].url}")
                while not page[0].wait(60):
                    pass
                result = loop.run()
    _write(options, result.records, warnings, result.message)
    echo(result.message)
    if result.records:
        echo(f"Report: {options.out / REPORT}")


def _deferred(run: Run, test: Gold, records: Sequence[Mapping[str, Any]], served: float) -> dict[str, Any]:
    """For a record: the share of rows to defer for the accuracy that the first round has with the log's share."""
    wanted = {"accuracy": records[0][DEFERRED]["accuracy"]} if records and DEFERRED in records[0] else {"share": served}
    return {DEFERRED: found} if (found := deferred_at_equal_accuracy(run, test, wanted)) else {}


def _with_classes(options: CampaignOptions, data: DataOptions) -> DataOptions:
    """With the classes of the answers or the test rows, where no other file has them."""
    labelled = [path for path in (options.answers, options.test) if path is not None and path.exists()]
    found = named_answers(labelled) if labelled and data.classes is None and not options.gold else set()
    if not found:
        return data
    return replace(data, classes=max(map(int, found)) + 1 if all(map(is_number, found)) else sorted(found))


def _kept(path: Path) -> Path:
    """The path of a file that is there as soon as a campaign has begun."""
    if (path.parent / STATE).exists() and not (path.is_file() and path.stat().st_size):
        raise UnderstudyError(f"{path.parent} was begun without {path.name} or lost it; restore it or use a new folder")
    return path


@contextmanager
def _page(
    options: CampaignOptions, data: DataOptions, examples: Examples, classes: int
) -> Iterator[tuple[AnswerBook, LabelServer] | None]:
    """The label page over the pool's rows, served to this machine; None where people label in files."""
    if options.label != "page":
        yield None
        return
    if examples.pool is None or examples.pool.ids is None:
        raise UnderstudyError(f"{options.pool} has no column 'id', by which the page finds its rows; add it")
    names = examples.class_names or tuple(map(str, range(classes)))
    shown: dict[str, Any] = {"text": data.text or examples.text, "image": data.image, "fields": data.use}
    cards = Cards.of(options.pool, None, columns=data.mapping, **shown)
    path = _kept(options.out / BOOK)
    options.out.mkdir(parents=True, exist_ok=True)
    book = AnswerBook(path, names, pin=cards.pin)
    with book, LabelServer(book, cards, port=None, title=options.pool.name) as server:
        yield book, server


def _loop(
    options: CampaignOptions, examples: Examples, classes: int, training: Mapping[str, Any], oracle: Oracle,
    on_round: Callable[[list[dict[str, Any]]], None],
) -> Loop:  # fmt: skip
    assert examples.pool is not None
    student, resolved = resolve_student(options.student, examples, training)
    pool, objective = examples.pool, None
    if options.method is not None:
        objective, _ = build_method(options.method, options.method_options or [], auto=False)
        if pool.teacher is None:
            trains = f"--method {options.method} trains on the pool's labels"
            raise UnderstudyError(f"{trains}, and {options.pool} has none; leave it out")
    elif options.method_options:
        raise UnderstudyError("--option sets something of a method; name it by --method")
    own = {each.name: getattr(options, each.name) for each in fields(LoopOptions)}
    own |= {"held_out": examples.test is None, "progress": False}
    return Loop(
        student_builder(student, examples, classes), pool.rows, oracle, options.strategy, out=options.out,
        gold=examples.gold, test=examples.test, ids=pool.ids, class_names=examples.class_names,
        teacher=None if objective is None else pool.teacher, objective=objective, on_round=on_round,
        **own, **resolved | {"device": usable_device(resolved["device"])},
    )  # fmt: skip


def _write(options: CampaignOptions, records: list[dict[str, Any]], warnings: Sequence[str], message: str = "") -> None:
    if records:
        settings = {
            "Pool file": options.pool, "Strategy": options.strategy, "Budget": f"{options.budget:,} labels",
            "Price of a label": f"{options.price:g}",
            "Accuracy measured on": options.test or "rows drawn at random, cross-validated",
        }  # fmt: skip
        from_report("campaign_page").write_campaign_report(
            options.out / REPORT, records, price=options.price, message=message, warnings=warnings, settings=settings
        )


def read_served(log: Path, out: Path) -> tuple[Path, float]:
    """The file of the deferred rows, and which share of all rows they are; made once."""
    if not _kept(out / COUNTS).exists():
        entries = [entry for file in sorted(log.glob("requests-*.jsonl")) for entry in Log(file).entries()]
        if any("served_deferred" not in entry for entry in entries):
            raise UnderstudyError(f"{log} holds lines that understudy serve did not write; restore it")
        rows = {pin_of(row): row for entry in entries if entry["served_deferred"] and (row := _content(entry))}
        if not rows:
            raise UnderstudyError(f"{log} holds no deferred rows; serve with --log-content and a rule of defer")
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
