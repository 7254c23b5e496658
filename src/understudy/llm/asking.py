"""Labels for rows from one LLM or several, at any endpoint that speaks OpenAI's chat completions.

    found = us.ask(texts, ["neg", "pos"], model="llama3", base_url="http://localhost:11434/v1", out="labels", ids=ids)
    pool = us.Pool(x, found.labels)

Every answer is on the disk before it is used: stopped or killed at any moment, the same call continues, and nothing is
paid for twice. ``examples`` (rows and their labels) are shown to the model: never measure its accuracy on them
(``us.Gold(…, chosen=True)``).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from understudy.errors import UnderstudyError
from understudy.labels.answer_labels import Answers, read_answers
from understudy.labels.answer_matching import AnswerReport
from understudy.labels.forms import Labels, Votes
from understudy.labels.label_shards import checked_ids
from understudy.labels.label_store import LabelStore
from understudy.llm.answer_folder import AskFolder, RowAnswers, pin_of
from understudy.llm.ask_options import AskOptions
from understudy.llm.ledger import Ledger
from understudy.llm.request import AskPlan, Message, Row, estimated_tokens, make_plan, most_tokens, schema
from understudy.llm.requester import PendingRow, Requester, StopRequestsError
from understudy.store.arrow import Array
from understudy.store.console import ProgressBar, deferred, ends_on_sigterm, stop_requested, time_left
from understudy.store.files import digest, locked
from understudy.store.log import HISTORY, LabelHistory
from understudy.store.option_fields import checked, spell_out

BUDGET, INTERRUPTED = "budget", "interrupted"


@dataclass(frozen=True)
class Labelled:
    """``labels`` in the order of ``ids``, none where no answer was usable: ``us.Pool(x, labelled.labels)``."""

    ids: Array
    labels: Labels
    classes: tuple[str, ...]
    sources: tuple[str, ...]
    #: By model, how many answers were usable, and why others were not.
    reports: dict[str, AnswerReport]
    #: Rows that at least one model has not answered yet.
    unanswered: int
    #: Failed requests of this run that were repeated, by reason.
    lost: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    #: Of all runs; requests without an answer that may have been charged count in full.
    cost: float = 0.0
    #: Why rows are left; None: all are done.
    stopped: str | None = None

    def __len__(self) -> int:
        return len(self.ids)


def label_answers(
    folder: AskFolder, plan: AskPlan, ids: Sequence[Any]
) -> tuple[Labels, dict[str, AnswerReport], list[Answers]]:
    """Labels of these ids from all answers so far, a report per model, and the answers read."""
    read: list[Answers] = []
    for number in range(len(plan.models)):
        files = [path] if (path := folder.answers(number)).exists() else []
        form = plan.options.form if len(plan.models) == 1 or plan.options.form == "shares" else "hard"
        read.append(read_answers(files, plan.prompt.classes, aliases=plan.options.aliases, form=form))
    reports = {model.name: answers.report for model, answers in zip(plan.models, read, strict=True)}
    if len(read) == 1:
        return read[0].aligned(ids), reports, read
    votes = torch.stack([_vote(answers.aligned(ids), len(plan.prompt.classes)) for answers in read], 1)
    return Votes(votes, len(plan.prompt.classes), sources=[model.name for model in plan.models]), reports, read


def _vote(labels: Labels, classes: int) -> torch.Tensor:
    """One vote a row: the most frequent class; none where two tie."""
    best = labels.top1()
    if labels.ranks and len(labels):
        leading = labels.dense(torch.arange(len(labels)), classes).topk(min(2, classes), 1).values
        best = torch.where(leading[:, 0] > leading[:, 1], best, -1)
    return best


def store_labels(folder: AskFolder, plan: AskPlan, ids: Sequence[Any], labels: Labels, done: Sequence[bool]) -> None:
    """Puts the labels of finished rows into the label store, and those new there into the label history."""
    rows = [row for row, is_done in enumerate(done) if is_done]
    if not rows or not bool(labels.labelled().any()):  # without a label their form is unknown
        return
    names = np.asarray([ids[row] for row in rows])
    some = labels.take(torch.tensor(rows))
    source = ", ".join(str(model) for model in plan.models)
    with LabelStore(folder.path / "labels" / labels.form, plan.prompt.classes, labels.form) as store:
        new = {str(name) for name in store.missing(names).tolist()}
        store.append(names, some, replace=True, source=source)
    classes, pairs = plan.prompt.classes, zip(names.tolist(), some.top1().tolist(), strict=True)
    added = {name: None if label < 0 else classes[label] for name, label in pairs if str(name) in new}
    if added:
        prompt = digest(str(plan.options.prompt).encode())
        LabelHistory(folder.path / HISTORY).add("answered", source, added, prompt=prompt, votes=plan.options.votes)


class AskProgress(ProgressBar):
    """Rows answered, their cost so far, and the time left."""

    def __init__(self, total: int, ledger: Ledger, *, shown: bool) -> None:
        super().__init__("ask", total, shown=shown)
        self.ledger = ledger
        self._next = 0.0

    def answered(self) -> None:
        self.done += 1
        passed = time.monotonic() - self.started
        live = self._bar is not None or self._display is not None
        if self.done < self.total and (passed if live else self.done) < self._next:
            return
        # Five times a second where it is live, 20 lines in a log.
        self._next = passed + 0.2 if live else self.done + self.total / 20
        priced = any(price.input or price.output for price in self.ledger.prices.values())
        cost = f"cost {self.ledger.spent:.4g}" if priced else ""
        self.show("  ".join(filter(None, [cost, time_left(passed / self.done * (self.total - self.done))])))


class AskRun:
    """Rows, the plan of requests about them, and the folder of the answers; the caller holds the folder's lock."""

    def __init__(self, rows: Sequence[Row], ids: Sequence[Any], plan: AskPlan, out: str | Path) -> None:
        self.rows, self.ids, self.plan, self.folder = list(rows), checked_ids(ids), plan, AskFolder(out)
        if len(self.rows) != len(self.ids):
            raise UnderstudyError(f"{len(self.rows):,} rows and {len(self.ids):,} ids; give one for each")
        if len({str(name) for name in self.ids}) < len(self.ids):
            raise UnderstudyError("an id comes twice; ids name one row each (5 and '5' are one id)")
        self.pins = [pin_of(row) for row in self.rows]
        self.stopped: str | None = None
        self.lost: Counter[str] = Counter()
        self.look()

    def look(self) -> None:
        """Reads which answers the folder holds."""
        self.answered = [self.folder.answered(number) for number in range(len(self.plan.models))]
        for answered in self.answered:
            for name, pin in zip(map(str, self.ids), self.pins, strict=True):
                if name in answered and answered[name].pin not in ("", pin):
                    raise UnderstudyError(f"{self.folder.path} answers another text of id {name}; use a new folder")

    def wanted(self, number: int, row: int) -> int:
        """How many choices of this model a row still lacks."""
        answers = self.answered[number].get(str(self.ids[row]), RowAnswers())
        return 0 if answers.refused and not answers.choices else max(0, self.plan.options.votes - answers.choices)

    def todo(self, without: Sequence[set[str]] = ()) -> Iterator[tuple[int, PendingRow]]:
        """Row by row, the number of each model that lacks answers; ``without``: for each, ids in a batch service."""
        for row, name in enumerate(self.ids):
            for number in range(len(self.plan.models)):
                left = self.wanted(number, row)
                if left and not (without and str(name) in without[number]):
                    yield number, PendingRow(name, self.rows[row], self.pins[row], left)

    def forget_unusable(self) -> None:
        """Rows whose answers were unusable count as not answered."""
        _, _, read = label_answers(self.folder, self.plan, self.ids)
        for answered, answers in zip(self.answered, read, strict=True):
            usable = {str(name) for name in answers.ids.tolist()}
            for name in [name for name in answered if name not in usable]:
                del answered[name]

    def ledger(self, budget: float | None = None) -> Ledger:
        prices = {model.name: model.price for model in self.plan.models}
        return Ledger(self.folder.requests, prices, budget, sealed=self.folder.sealed(self.folder.requests))

    def run(self, without: Sequence[set[str]] = ()) -> None:
        """Send requests until every row is done or ``stopped`` gives the reason why not."""
        plan, options = self.plan, self.plan.options
        if options.budget is not None and not any(each.price.input or each.price.output for each in plan.models):
            raise UnderstudyError("a budget needs prices; give --price-in and --price-out per million tokens")
        tasks = list(self.todo(without))
        if not tasks:
            return
        ledger = self.ledger(options.budget)
        models = range(len(plan.models))
        requesters = [Requester(plan, number, self.folder, ledger, self._stopping) for number in models]
        bar = AskProgress(len(tasks), ledger, shown=options.progress)
        try:
            with ends_on_sigterm(), deferred(), bar:  # requests under way are paid for
                _run_anywhere(partial(self._run, tasks, ledger, requesters, bar))
        finally:
            self.look()

    async def _run(
        self, tasks: list[tuple[int, PendingRow]], ledger: Ledger, requesters: list[Requester], bar: AskProgress
    ) -> None:
        queue = iter(tasks)

        async def work() -> None:
            for number, row in queue:
                if self._stopping():
                    return
                try:
                    if await requesters[number].ask(row):
                        bar.answered()
                except StopRequestsError as stop:
                    self.stopped = self.stopped or str(stop)
                except Exception:
                    self.stopped = self.stopped or "error"
                    raise

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(ledger.journal)
            for requester in requesters:
                await stack.enter_async_context(requester.journal)
                await stack.enter_async_context(requester.endpoint.client)
            workers = [asyncio.create_task(work()) for _ in range(min(self.plan.options.concurrency, len(tasks)))]
            try:
                await asyncio.wait(workers)
            except asyncio.CancelledError:
                # Ctrl-C: nothing more is sent, requests under way are waited for; a second one ends everything.
                self.stopped = INTERRUPTED
                await asyncio.wait(workers)
            for requester in requesters:
                self.lost += requester.lost
            if failed := list(filter(None, [worker.exception() for worker in workers])):
                raise failed[0]

    def _stopping(self) -> bool:
        if self.stopped is None and stop_requested():
            self.stopped = INTERRUPTED
        return self.stopped is not None

    def labelled(self) -> Labelled:
        """The labels so far, which are put into the label store."""
        labels, reports, _ = label_answers(self.folder, self.plan, self.ids)
        models, rows = range(len(self.plan.models)), range(len(self.ids))
        done = [all(not self.wanted(number, row) for number in models) for row in rows]
        store_labels(self.folder, self.plan, self.ids, labels, done)
        self.folder.seal()
        ledger = self.ledger()
        return Labelled(
            np.asarray(self.ids), labels, self.plan.prompt.classes, tuple(reports), reports, len(done) - sum(done),
            self.lost, *ledger.totals(), ledger.spent, self.stopped,
        )  # fmt: skip


class CostEstimate(NamedTuple):
    """Of one model; ``most_cost``: an upper bound without retries."""

    model: str
    rows: int
    requests: int
    tokens_in: int
    tokens_out: int
    cost: float
    most_cost: float


def estimate_cost(run: AskRun) -> list[CostEstimate]:
    """Rows, tokens and cost of the rows that are left, by model; tokens are estimated from letters."""
    plan, found = run.plan, []
    answer = 4 + max(len(name.encode()) for name in plan.prompt.classes) // 3 + (4 if plan.features.structured else 0)
    extra = len(str(schema(plan.prompt.classes))) if plan.features.structured else 0
    todo = list(run.todo())
    for number, model in enumerate(plan.models):
        mine = [pending for each, pending in todo if each == number]
        features = run.folder.features(model) or plan.features
        # A server without n gets the prompt once for every vote.
        times = [1 if features.several else pending.wanted for pending in mine]
        messages = [plan.prompt.messages(pending.row, structured=features.structured) for pending in mine]
        tokens_in = sum(estimated_tokens(each) * count for each, count in zip(messages, times, strict=True))
        most_in = sum(most_tokens(each, extra=extra) * count for each, count in zip(messages, times, strict=True))
        wanted = sum(pending.wanted for pending in mine)
        most = model.price.of(most_in, wanted * plan.max_tokens)
        tokens_out = wanted * min(answer, plan.max_tokens)
        cost = model.price.of(tokens_in, tokens_out)
        found.append(CostEstimate(model.name, len(mine), sum(times), tokens_in, tokens_out, cost, most))
    return found


def first_messages(run: AskRun) -> list[Message]:
    """The messages about the first row that is left, as they are sent to the first model."""
    features = run.folder.features(run.plan.models[0]) or run.plan.features
    for _, pending in run.todo():
        return run.plan.prompt.messages(pending.row, structured=features.structured, system=features.system)
    return []


@checked
@spell_out(AskOptions)
def ask(rows: Sequence[Any], classes: Sequence[str], *, out: str | Path, ids: Any = None, **options: Any) -> Labelled:
    """Labels for every row from one LLM or several, and all answers in the folder ``out``.

    ``rows``: texts, or mappings of columns that ``prompt`` (a Jinja template, see ``llm/request.py``) shows. ``ids``:
    one each; default 0, 1, …. ``options``: ``llm/ask_options.py``. Several models give ``us.Votes``; several votes of
    one model give shares. The same call continues where the last one stopped.
    """
    given = AskOptions(**options)
    plan = make_plan(classes, given)
    with locked(Path(out), lend=True):
        run = AskRun(rows, range(len(rows)) if ids is None else ids, plan, out)
        run.folder.begin(plan)
        if given.again:
            run.forget_unusable()
        try:
            run.run()
        finally:
            found = run.labelled()
    check_stopped(found.stopped)
    return found


def check_stopped(why: str | None) -> None:
    """Raises where a run was interrupted or refused; a spent budget is neither."""
    if why == INTERRUPTED:
        raise KeyboardInterrupt
    if why not in (None, BUDGET):
        raise UnderstudyError(str(why))


def _run_anywhere(work: Any) -> None:
    """Also inside a running event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work())
    else:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, work()).result()
