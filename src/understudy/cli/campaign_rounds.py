"""What ``understudy campaign`` does: the files, the loop over them, a line and a page after every round."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from understudy.active.loop import Loop
from understudy.active.oracles import AnswerFiles, LabelPage, Oracle
from understudy.active.round_gain import round_gains
from understudy.active.state import Result
from understudy.cli.label import PORT
from understudy.errors import UnderstudyError
from understudy.inference.passes import usable_device
from understudy.io.answer_file import named_answers
from understudy.io.data_options import DataOptions
from understudy.io.read import Examples
from understudy.labels.class_names import is_number
from understudy.method_options import read_options
from understudy.methods import METHODS
from understudy.objective import Objective
from understudy.report.campaign import round_line, write_campaign_report
from understudy.store.console import collected_warnings
from understudy.training.students import resolve_student, student_builder
from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Cards
from understudy.web.serve import LabelServer, free_port

REPORT, BOOK = "report.html", "answers.book"


@dataclass(frozen=True)
class Campaign:
    """What was asked for."""

    pool: Path
    out: Path
    gold: list[str]
    test: Path | None
    start: int
    batch: int
    budget: int
    strategy: str
    on_page: bool
    answers: Path | None
    price: float
    method: str | None
    options: list[str]
    stop_after: int | None
    stop_change: float
    student: str
    quiet: bool


def run_campaign(asked: Campaign, data: DataOptions, recipe: dict[str, Any]) -> None:
    data = _with_classes(asked, data)
    with collected_warnings() as warnings:
        examples = data.for_student(asked.student).read(asked.gold, pool=asked.pool, test=asked.test)
        if examples.pool is None:
            raise UnderstudyError(f"{asked.pool} holds no rows to label; name a pool file")
        examples.leaks().warn()
        with _page(asked, data, examples) as page:
            oracle: Oracle = (
                AnswerFiles(asked.out, examples.class_names, asked.answers) if page is None else LabelPage(page.book)
            )
            loop = _loop(asked, data, examples, recipe, oracle, warnings)
            _write(asked, loop.state.records, warnings)  # a kill may have come before the last page
            result = loop.run()
            while page is not None and result.stopped == "waiting":
                page.wait_for_answers(result.message)
                result = loop.run()
    _write(asked, result.records, warnings, result)
    typer.echo(result.message)
    if result.records:
        typer.echo(f"Report: {asked.out / REPORT}")


def _with_classes(asked: Campaign, data: DataOptions) -> DataOptions:
    """Where only the answers or the test rows show them."""
    files = [path for path in (asked.answers, asked.test) if path is not None and path.exists()]
    found = named_answers(files) if files and data.classes is None and not asked.gold else set()
    if not found:
        return data
    numbers = all(map(is_number, found))
    return replace(data, classes=max(map(int, found), default=1) + 1 if numbers else sorted(found))


class _Served:
    """The label page, while a campaign runs."""

    def __init__(self, book: AnswerBook, server: LabelServer) -> None:
        self.book, self.server = book, server

    def wait_for_answers(self, message: str) -> None:
        """Until nothing is open; other processes may answer too."""
        typer.echo(f"{message.partition(';')[0]}: open {self.server.url}")
        while not self.book.wait(60):
            pass


@contextmanager
def _page(asked: Campaign, data: DataOptions, examples: Examples) -> Iterator[_Served | None]:
    """The page over the pool's rows, served to this machine; None where files are answered."""
    if not asked.on_page:
        yield None
        return
    assert examples.pool is not None
    if examples.pool.ids is None:
        raise UnderstudyError(f"{asked.pool} has no column 'id', by which the page finds its rows; add it")
    names = examples.class_names or tuple(map(str, range(_classes(data, examples))))
    cards = Cards.of(
        asked.pool, None, columns=data.columns, text=data.text or examples.text, image=data.image, fields=data.use
    )
    asked.out.mkdir(parents=True, exist_ok=True)
    port, title = free_port("127.0.0.1", PORT), asked.pool.name
    with AnswerBook(asked.out / BOOK, names) as book, LabelServer(book, cards, port=port, title=title) as server:
        yield _Served(book, server)


def _loop(
    asked: Campaign, data: DataOptions, examples: Examples, recipe: dict[str, Any], oracle: Oracle,
    warnings: Sequence[str],
) -> Loop:  # fmt: skip
    assert examples.pool is not None
    classes = _classes(data, examples)
    student, options = resolve_student(asked.student, examples, recipe)
    pool, objective = examples.pool, _objective(asked)
    if objective is not None and pool.teacher is None:
        raise UnderstudyError(
            f"--method {asked.method} trains on the pool's labels, and {asked.pool} has none; leave it out"
        )

    def on_round(records: list[dict[str, Any]]) -> None:
        typer.echo(round_line(round_gains(records, asked.price)[-1], records[-1]))
        _write(asked, records, warnings)

    return Loop(
        student_builder(student, examples, classes), pool.rows, oracle, asked.strategy,
        out=asked.out, start=asked.start, batch=asked.batch, budget=asked.budget, gold=examples.gold,
        test=examples.test, ids=pool.ids, class_names=examples.class_names, stop_after=asked.stop_after,
        stop_change=asked.stop_change, teacher=None if objective is None else pool.teacher, objective=objective,
        held_out=examples.test is None, on_round=on_round, progress=False,
        **options | {"device": usable_device(options["device"])},
    )  # fmt: skip


def _objective(asked: Campaign) -> Objective | None:
    if asked.method is None:
        if asked.options:
            raise UnderstudyError("--option sets something of a method; name it by --method")
        return None
    if asked.method not in METHODS:
        raise UnderstudyError(f"there is no method {asked.method!r}; use one of {', '.join(METHODS)}")
    objective: Objective = METHODS[asked.method](**read_options(METHODS[asked.method], asked.options))
    return objective


def _classes(data: DataOptions, examples: Examples) -> int:
    """Without gold and test the pool may show none."""
    try:
        return data.count_classes(examples)
    except UnderstudyError as error:
        raise UnderstudyError(f"{error} (or say which classes there are: --classes neg,pos)") from error


def _write(
    asked: Campaign, records: Sequence[Mapping[str, Any]], warnings: Sequence[str], result: Result | None = None
) -> None:
    if not records:
        return
    settings = {
        "Pool file": asked.pool, "Strategy": asked.strategy, "Budget": f"{asked.budget:,} rows",
        "Price of a label": f"{asked.price:g}", "Judged on": asked.test or "rows drawn at random, each held out",
    }  # fmt: skip
    write_campaign_report(
        asked.out / REPORT, records, price=asked.price, message="" if result is None else result.message,
        warnings=warnings, settings=settings,
    )  # fmt: skip
