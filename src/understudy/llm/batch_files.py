"""Request files for a batch service, and its output files as answers.

    written = write_batches(run)               # out/batch/requests-0001.jsonl …, for one model each
    read_output(run, ["output.jsonl"])         # its lines into the answers' journal

A row in a request file is under way: no other batch or request holds it until its line of the output is read, which
takes it out of the file. A file that is deleted counts as never sent, and its rows are free again.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.llm.asking import AskRun
from understudy.llm.ledger import Journal, usage_of
from understudy.llm.request import most_tokens, request_body
from understudy.store.files import write_bytes

# Just below OpenAI's limits of one file.
MOST_REQUESTS, MOST_BYTES = 50_000, 190_000_000
URL = "/v1/chat/completions"


def custom_id(run: AskRun, number: int, name: Any) -> str:
    """The row's id; with several models, after the number of the model."""
    return str(name) if len(run.plan.models) == 1 else f"{number + 1}:{name}"


def rows_under_way(run: AskRun) -> list[set[str]]:
    """For each model, the ids in request files that have no answer yet."""
    waiting: list[set[str]] = [set() for _ in run.plan.models]
    known = {custom_id(run, number, name): (number, str(name)) for number, name in _every(run)}
    left = {(number, str(pending.name)) for number, pending in run.todo()}
    for path in sorted(run.folder.batch.glob("requests-*.jsonl")):
        for entry in _requests(path):
            number, name = known.get(str(entry.get("custom_id")), (-1, ""))
            if (number, name) in left:
                waiting[number].add(name)
    return waiting


def _requests(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield dict(json.loads(line))
            except (ValueError, TypeError) as error:
                raise UnderstudyError(f"{path}: line {number} is not as it was written; restore it") from error


def _every(run: AskRun) -> Iterator[tuple[int, Any]]:
    return ((number, name) for name in run.ids for number in range(len(run.plan.models)))


def write_batches(run: AskRun) -> list[Path]:
    """Writes request files for the rows that are left and in none yet."""
    lines: list[list[bytes]] = [[] for _ in run.plan.models]
    for number, pending in run.todo(rows_under_way(run)):
        model = run.plan.models[number]
        features = run.folder.features(model) or run.plan.features
        body = request_body(model.name, run.plan.prompt, run.plan.request, features, pending.row, pending.wanted)
        entry = {"custom_id": custom_id(run, number, pending.name), "method": "POST", "url": URL, "body": body}
        lines[number].append(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
    written: list[Path] = []
    for mine in lines:
        for part in _parts(mine):
            written.append(_new_file(run.folder.batch))
            write_bytes(written[-1], b"".join(part))
    return written


def _parts(lines: list[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and (len(part) == MOST_REQUESTS or size + len(line) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def _new_file(folder: Path) -> Path:
    numbers = [int(path.stem.rpartition("-")[2]) for path in folder.glob("requests-*.jsonl")]
    return folder / f"requests-{max(numbers, default=0) + 1:04d}.jsonl"


def read_output(run: AskRun, files: Sequence[str | Path]) -> Counter[str]:
    """Stores the answers in a batch's output and error files; counts lines by outcome."""
    counts: Counter[str] = Counter()
    answers: list[tuple[int, int, dict[str, Any]]] = []
    seen: set[str] = set()
    place = {custom_id(run, number, name): (number, row) for row, name in enumerate(run.ids)
             for number in range(len(run.plan.models))}  # fmt: skip
    left = {(number, str(pending.name)): pending.wanted for number, pending in run.todo()}
    for entry in _lines(files, counts):
        name = str(entry.get("custom_id"))
        number, row = place.get(name, (-1, -1))
        response = entry.get("response")
        body = response.get("body") if isinstance(response, dict) else None
        choices = body.get("choices") if isinstance(body, dict) else None
        seen.add(name)
        if row < 0:
            counts["of no row"] += 1
        elif not isinstance(body, dict) or not isinstance(choices, list) or not choices:
            counts["failed"] += 1
        elif left.get((number, str(run.ids[row])), 0) <= 0:
            counts["known already"] += 1
        else:
            counts["taken"] += 1
            left[number, str(run.ids[row])] -= len(choices)
            answers.append((number, row, body))
    asyncio.run(_keep(run, answers))
    _leave_out(run.folder.batch, seen)
    run.look()
    return counts


def _lines(files: Sequence[str | Path], counts: Counter[str]) -> Iterator[dict[str, Any]]:
    for path in map(Path, files):
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise UnderstudyError(f"cannot read {path}: {error.strerror}; name the output file of a batch") from error
        for line in filter(bytes.strip, lines):
            try:
                entry = json.loads(line)
            except ValueError:
                entry = None
            if isinstance(entry, dict):
                yield entry
            else:
                counts["malformed"] += 1


async def _keep(run: AskRun, answers: Sequence[tuple[int, int, dict[str, Any]]]) -> None:
    async with AsyncExitStack() as stack:
        ledger = run.ledger()
        await stack.enter_async_context(ledger.journal)
        paths = [run.folder.answers(number) for number in range(len(run.plan.models))]
        journals = [await stack.enter_async_context(Journal(path)) for path in paths]
        for number, row, body in answers:
            name, model = run.ids[row], run.plan.models[number].name
            line = {"custom_id": name, "row": run.pins[row], "model": model, "error": None}
            journals[number].note({**line, "response": {"status_code": 200, "body": body}})
            most = most_tokens(run.plan.prompt.messages(run.rows[row], structured=True))
            used = usage_of(body) or (most, run.plan.request.max_tokens * len(body["choices"]))
            ledger.note(model, *used)


def _leave_out(folder: Path, seen: set[str]) -> None:
    """Takes rows that came back, answered or failed, out of the request files."""
    for path in sorted(folder.glob("requests-*.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        rest = [line for line in lines if str(json.loads(line).get("custom_id")) not in seen]
        if not rest:
            path.unlink()
        elif len(rest) < len(lines):
            write_bytes(path, b"".join(rest))
