"""Labels for rows from one LLM or several, at any endpoint that speaks OpenAI's chat completions.

    asked = us.ask(texts, ["neg", "pos"], model="llama3", base_url="http://localhost:11434/v1", out="labels", ids=ids)
    pool = us.Pool(x, asked.labels)

Every answer is on the disk before anything else is done with it: stopped or killed at any moment, the same call goes on
where it was, and nothing is paid for twice. ``examples`` (rows and their labels) are shown to the model: never let them
estimate how good it is (``us.Gold(…, chosen=True)``).
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from understudy.arguments import checked
from understudy.errors import UnderstudyError
from understudy.labels.store.label_store import checked_ids
from understudy.llm.answered import Labelled, keep, label_answers
from understudy.llm.endpoint import Endpoint
from understudy.llm.folder import AskFolder, Kept, check_pins, pin_of
from understudy.llm.ledger import Ledger
from understudy.llm.plan import Plan, make_plan
from understudy.llm.progress import AskProgress
from understudy.llm.prompt import Row
from understudy.llm.voter import Asked, StopAskingError, Voter
from understudy.store.files import locked
from understudy.store.stopping import deferred, ends_on_sigterm, stop_asked

BUDGET, INTERRUPTED = "budget", "interrupted"


class Asking:
    """Rows, what is asked about them, and the folder that the answers are in. The folder's lock is the caller's."""

    def __init__(self, rows: Sequence[Row], ids: Sequence[Any], plan: Plan, out: str | Path) -> None:
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
        """At what the folder holds."""
        self.kept = [self.folder.kept(number) for number in range(len(self.plan.sources))]
        for kept in self.kept:
            check_pins(self.ids, self.pins, kept, self.folder.path)

    def begin(self) -> None:
        self.folder.begin(self.plan)

    def wanted(self, number: int, row: int) -> int:
        """How many choices of this model a row still lacks."""
        kept = self.kept[number].get(str(self.ids[row]), Kept())
        return 0 if kept.refused and not kept.choices else max(0, self.plan.manner.votes - kept.choices)

    def todo(self, without: Sequence[set[str]] = ()) -> Iterator[tuple[int, Asked]]:
        """Row by row, of each model; ``without``: for each model, ids that somebody else is asking about."""
        for row, name in enumerate(self.ids):
            for number in range(len(self.plan.sources)):
                left = self.wanted(number, row)
                if left and not (without and str(name) in without[number]):
                    yield number, Asked(name, self.rows[row], self.pins[row], left)

    def forget_unusable(self) -> None:
        """Rows whose answers were of no use count as not asked."""
        _, _, read = label_answers(self.folder, self.plan, self.ids)
        for kept, answers in zip(self.kept, read, strict=True):
            usable = {str(name) for name in answers.ids.tolist()}
            for name in [name for name in kept if name not in usable]:
                del kept[name]

    def ledger(self, budget: float | None = None) -> Ledger:
        prices = {source.model: source.price for source in self.plan.sources}
        return Ledger(self.folder.requests, prices, budget)

    def run(
        self, *, budget: float | None = None, concurrency: int = 8, timeout: float = 60.0, progress: bool = True,
        without: Sequence[set[str]] = (),
    ) -> None:  # fmt: skip
        """Ask about everything that is to do, until it is done or ``stopped`` says why not."""
        if concurrency < 1 or not timeout > 0:
            raise UnderstudyError(f"concurrency={concurrency} must be 1 or more, timeout={timeout} above 0")
        if budget is not None and not any(each.price.input or each.price.output for each in self.plan.sources):
            raise UnderstudyError("a budget needs prices; give --price-in and --price-out per million tokens")
        tasks = list(self.todo(without))
        if not tasks:
            return
        ledger = self.ledger(budget)
        endpoints = [Endpoint(each.model, each.base_url, each.key_env, timeout=timeout) for each in self.plan.sources]
        bar = AskProgress(len(tasks), ledger, shown=progress)
        try:
            with ends_on_sigterm(), deferred(), bar:  # what is under way is paid for
                _run_anywhere(partial(self._run, tasks, ledger, endpoints, concurrency, bar))
        finally:
            self.look()

    async def _run(
        self, tasks: list[tuple[int, Asked]], ledger: Ledger, endpoints: list[Endpoint], concurrency: int,
        bar: AskProgress,
    ) -> None:  # fmt: skip
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(ledger.journal)
            voters = [await stack.enter_async_context(self._voter(*each, ledger)) for each in enumerate(endpoints)]
            queue, errors = iter(tasks), list[Exception]()

            async def work() -> None:
                for number, asked in queue:
                    try:
                        if self._stopping():
                            return
                        if await voters[number].ask(asked):
                            bar.answered()
                    except StopAskingError as stop:
                        self.stopped = self.stopped or str(stop)
                    except Exception as error:
                        self.stopped = self.stopped or "error"
                        errors.append(error)

            await self._finish([asyncio.create_task(work()) for _ in range(min(concurrency, len(tasks)))])
            for voter in voters:
                self.lost += voter.lost
            if errors:
                raise errors[0]

    async def _finish(self, workers: list["asyncio.Task[None]"]) -> None:
        """Ctrl-C: nothing more is sent, and what is on its way is waited for; a second one ends everything."""
        try:
            await asyncio.wait(workers)
        except asyncio.CancelledError:
            self.stopped = INTERRUPTED
            await asyncio.wait(workers)

    def _stopping(self) -> bool:
        if self.stopped is None and stop_asked():
            self.stopped = INTERRUPTED
        return self.stopped is not None

    def _voter(self, number: int, endpoint: Endpoint, ledger: Ledger) -> Voter:
        source, plan = self.plan.sources[number], self.plan
        known = self.folder.features(source)
        return Voter(
            endpoint, plan.prompt, plan.manner, ledger, self.folder.answers(number), known or plan.wished,
            known=known is not None, stopping=self._stopping, remember=partial(self.folder.remember, source),
        )  # fmt: skip

    def labelled(self) -> Labelled:
        """What is known now, put into the label store."""
        labels, reports, _ = label_answers(self.folder, self.plan, self.ids)
        models, rows = range(len(self.plan.sources)), range(len(self.ids))
        done = [all(not self.wanted(number, row) for number in models) for row in rows]
        keep(self.folder, self.plan, self.ids, labels, done)
        ledger = self.ledger()
        requests, tokens_in, tokens_out = ledger.totals()
        return Labelled(
            np.asarray(self.ids), labels, self.plan.classes, tuple(reports), reports, len(done) - sum(done), self.lost,
            requests, tokens_in, tokens_out, ledger.spent, self.stopped,
        )  # fmt: skip


@checked
def ask(
    rows: Sequence[Any],
    classes: Sequence[str],
    *,
    model: str | Sequence[str],
    out: str | Path,
    ids: Any = None,
    base_url: str | Sequence[str] | None = None,
    key_env: str | Sequence[str] | None = None,
    descriptions: Mapping[str, str] | None = None,
    examples: Sequence[Any] = (),
    prompt: str | None = None,
    votes: int = 1,
    temperature: float | None = None,
    max_tokens: int | None = None,
    logprobs: int | None = None,
    structured: bool = True,
    form: str = "auto",
    aliases: Mapping[str, str] | None = None,
    price_in: float | Sequence[float] = 0.0,
    price_out: float | Sequence[float] = 0.0,
    budget: float | None = None,
    concurrency: int = 8,
    timeout: float = 60.0,
    retries: int = 8,
    again: bool = False,
    progress: bool = True,
) -> Labelled:
    """Ask one LLM or several about every row, and keep what they say in the folder ``out``.

    ``rows``: texts, or mappings of columns that ``prompt`` (a Jinja template, see ``llm/prompt.py``) shows. ``ids``:
    one each, 0, 1, … without. ``model``: several are several voters (``us.Votes``); ``base_url``, ``key_env`` (the name
    of the environment variable with the key) and the prices per million tokens are one for all or one for each.
    ``examples``: pairs of a row and its label. ``votes``: how often each model is asked; labels are then the shares.
    ``again``: rows whose answer was of no use are asked once more. The same call goes on where the last one stopped.
    """
    plan = make_plan(
        classes, model, base_url=base_url, key_env=key_env, price_in=price_in, price_out=price_out,
        descriptions=descriptions, examples=[(row, label) for row, label in examples], prompt=prompt, votes=votes,
        temperature=temperature, max_tokens=max_tokens, logprobs=logprobs, structured=structured, retries=retries,
        form=form, aliases=aliases,
    )  # fmt: skip
    with locked(Path(out), lend=True):
        asking = Asking(rows, range(len(rows)) if ids is None else ids, plan, out)
        asking.begin()
        if again:
            asking.forget_unusable()
        try:
            asking.run(budget=budget, concurrency=concurrency, timeout=timeout, progress=progress)
        finally:
            found = asking.labelled()
    check_stopped(found.stopped)
    return found


def check_stopped(why: str | None) -> None:
    """An interruption goes on its way, a server that refuses is an error; a budget is neither."""
    if why == INTERRUPTED:
        raise KeyboardInterrupt
    if why not in (None, BUDGET):
        raise UnderstudyError(str(why))


def _run_anywhere(work: Any) -> None:
    """Also where an event loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work())
        return
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
