"""A labelling campaign over files: a loop whose rounds people label in files or on the label page.

    run_campaign(CampaignOptions(budget=500), files, DataOptions(text="review"), {"epochs": 5}, echo=print)

After every round it gives ``echo`` a line and writes the page ``report.html`` (``report/campaign_page.py``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from understudy.active.loop import Loop
from understudy.active.loop_options import CampaignOptions, LoopOptions
from understudy.active.loop_state import round_gains
from understudy.active.oracles import AnswerFiles, LabelPage, Oracle
from understudy.errors import UnderstudyError
from understudy.inference.passes import usable_device
from understudy.io.data_options import DataOptions
from understudy.io.read import Examples, named_answers
from understudy.labels.class_names import is_number
from understudy.method_options import read_options
from understudy.methods import METHODS
from understudy.objective import Objective
from understudy.store.console import collected_warnings, from_report
from understudy.training.job import resolve_student, student_builder
from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Cards
from understudy.web.serve import PORT, LabelServer, free_port

REPORT, BOOK = "report.html", "answers.book"
Echo = Callable[[str], Any]


@dataclass(frozen=True)
class CampaignFiles:
    pool: Path
    out: Path
    gold: Sequence[str] = ()
    test: Path | None = None


def run_campaign(
    options: CampaignOptions, files: CampaignFiles, data: DataOptions, training: Mapping[str, Any], echo: Echo = print
) -> None:
    """Runs rounds until the loop stops; on the label page it waits for answers."""
    data = _with_classes(options, files, data)
    with collected_warnings() as warnings:
        examples = data.for_student(options.student).read(files.gold, pool=files.pool, test=files.test)
        if examples.pool is None:
            raise UnderstudyError(f"{files.pool} holds no rows to label; name a pool file")
        examples.leaks().warn()
        classes = _classes(data, examples)
        with _page(options, files, data, examples, classes) as page:
            oracle: Oracle = (
                AnswerFiles(files.out, examples.class_names, options.answers, again="give the same command again")
                if page is None
                else LabelPage(page[0])
            )

            def report(records: list[dict[str, Any]], message: str = "") -> None:
                _write(options, files, records, warnings, message)

            def on_round(records: list[dict[str, Any]]) -> None:
                gain = round_gains(records, options.price)[-1]
                echo(*from_report("templates").sentences("campaign", "round_line", gain, records[-1].get("watch")))
                report(records)

            loop = _loop(options, files, examples, classes, training, oracle, on_round)
            report(loop.state.records)  # a kill may have come before the last page
            result = loop.run()
            while page is not None and result.stopped == "waiting":
                book, server = page
                echo(f"{result.message.partition(';')[0]}: open {server.url}")
                while not book.wait(60):
                    pass
                result = loop.run()
    report(result.records, result.message)
    echo(result.message)
    if result.records:
        echo(f"Report: {files.out / REPORT}")


def _with_classes(options: CampaignOptions, files: CampaignFiles, data: DataOptions) -> DataOptions:
    """With the classes of the answers or the test rows, where no other file has them."""
    labelled = [path for path in (options.answers, files.test) if path is not None and path.exists()]
    found = named_answers(labelled) if labelled and data.classes is None and not files.gold else set()
    if not found:
        return data
    numbers = all(map(is_number, found))
    return replace(data, classes=max(map(int, found), default=1) + 1 if numbers else sorted(found))


def _classes(data: DataOptions, examples: Examples) -> int:
    try:
        return data.count_classes(examples)
    except UnderstudyError as error:
        raise UnderstudyError(f"{error} (or name the classes: --classes neg,pos)") from error


@contextmanager
def _page(
    options: CampaignOptions, files: CampaignFiles, data: DataOptions, examples: Examples, classes: int
) -> Iterator[tuple[AnswerBook, LabelServer] | None]:
    """The label page over the pool's rows, served to this machine; None where people label in files."""
    if options.label != "page":
        yield None
        return
    if examples.pool is None or examples.pool.ids is None:
        raise UnderstudyError(f"{files.pool} has no column 'id', by which the page finds its rows; add it")
    names = examples.class_names or tuple(map(str, range(classes)))
    cards = Cards.of(
        files.pool, None, columns=data.columns, text=data.text or examples.text, image=data.image, fields=data.use
    )
    files.out.mkdir(parents=True, exist_ok=True)
    port, title = free_port("127.0.0.1", PORT), files.pool.name
    with AnswerBook(files.out / BOOK, names) as book, LabelServer(book, cards, port=port, title=title) as server:
        yield book, server


def _loop(
    options: CampaignOptions, files: CampaignFiles, examples: Examples, classes: int, training: Mapping[str, Any],
    oracle: Oracle, on_round: Callable[[list[dict[str, Any]]], None],
) -> Loop:  # fmt: skip
    assert examples.pool is not None
    student, resolved = resolve_student(options.student, examples, training)
    pool, objective = examples.pool, _objective(options)
    if objective is not None and pool.teacher is None:
        raise UnderstudyError(
            f"--method {options.method} trains on the pool's labels, and {files.pool} has none; leave it out"
        )
    own = {each.name: getattr(options, each.name) for each in fields(LoopOptions)}
    own |= {"held_out": examples.test is None, "progress": False}
    return Loop(
        student_builder(student, examples, classes), pool.rows, oracle, options.strategy, out=files.out,
        gold=examples.gold, test=examples.test, ids=pool.ids, class_names=examples.class_names,
        teacher=None if objective is None else pool.teacher, objective=objective, on_round=on_round,
        **own, **resolved | {"device": usable_device(resolved["device"])},
    )  # fmt: skip


def _objective(options: CampaignOptions) -> Objective | None:
    if options.method is None:
        if options.method_options:
            raise UnderstudyError("--option sets something of a method; name it by --method")
        return None
    if options.method not in METHODS:
        raise UnderstudyError(f"there is no method {options.method!r}; use one of {', '.join(METHODS)}")
    factory = METHODS[options.method]
    objective: Objective = factory(**read_options(factory, options.method_options or []))
    return objective


def _write(
    options: CampaignOptions, files: CampaignFiles, records: Sequence[Mapping[str, Any]], warnings: Sequence[str],
    message: str,
) -> None:  # fmt: skip
    if records:
        settings = {
            "Pool file": files.pool, "Strategy": options.strategy, "Budget": f"{options.budget:,} labels",
            "Price of a label": f"{options.price:g}",
            "Accuracy measured on": files.test or "rows drawn at random, cross-validated",
        }  # fmt: skip
        from_report("campaign_page").write_campaign_report(
            files.out / REPORT, records, price=options.price, message=message, warnings=warnings, settings=settings
        )
