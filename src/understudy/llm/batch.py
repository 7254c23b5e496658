"""Asking by files: request files for a batch service, and its output files as answers.

    written = write_batches(asking)               # out/batch/requests-0001.jsonl …, for one model each
    read_output(asking, ["output.jsonl"])         # its lines into the answers' journal

A row in a request file is being asked about: neither another batch nor a request asks about it until its line of the
output was read, which takes it out of the file. A file that is deleted was never sent, and its rows are free again.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.llm.asking import Asking
from understudy.llm.journal import Journal, entries
from understudy.llm.ledger import usage_of
from understudy.llm.tokens import at_most
from understudy.llm.voter import request_body
from understudy.store.files import write_bytes

# What OpenAI takes in one file, less a little.
MOST_REQUESTS, MOST_BYTES = 50_000, 190_000_000
URL = "/v1/chat/completions"


def custom_id(asking: Asking, number: int, name: Any) -> str:
    """The row's id; where several models are asked, behind the number of the model."""
    return str(name) if len(asking.plan.sources) == 1 else f"{number + 1}:{name}"


def pending(asking: Asking) -> list[set[str]]:
    """For each model, the ids in request files that have no answer yet."""
    waiting: list[set[str]] = [set() for _ in asking.plan.sources]
    known = {custom_id(asking, number, name): (number, str(name)) for number, name in _every(asking)}
    left = {(number, str(asked.name)) for number, asked in asking.todo()}
    for path in sorted(asking.folder.batch.glob("requests-*.jsonl")):
        for entry in entries(path):
            number, name = known.get(str(entry.get("custom_id")), (-1, ""))
            if (number, name) in left:
                waiting[number].add(name)
    return waiting


def _every(asking: Asking) -> Iterator[tuple[int, Any]]:
    return ((number, name) for name in asking.ids for number in range(len(asking.plan.sources)))


def write_batches(asking: Asking) -> list[Path]:
    """Request files for what is to do and in none of them yet."""
    lines: list[list[bytes]] = [[] for _ in asking.plan.sources]
    for number, asked in asking.todo(pending(asking)):
        source = asking.plan.sources[number]
        features = asking.folder.features(source) or asking.plan.wished
        body = request_body(source.model, asking.plan.prompt, asking.plan.manner, features, asked.row, asked.wanted)
        entry = {"custom_id": custom_id(asking, number, asked.name), "method": "POST", "url": URL, "body": body}
        lines[number].append(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
    written: list[Path] = []
    for mine in lines:
        for part in _parts(mine):
            written.append(_new_file(asking.folder.batch))
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


def read_output(asking: Asking, files: Sequence[str | Path]) -> Counter[str]:
    """A batch's output and error files as answers; how many lines were taken, known already, failed or of no row."""
    counts: Counter[str] = Counter()
    answers: list[tuple[int, int, dict[str, Any]]] = []
    seen: set[str] = set()
    place = {custom_id(asking, number, name): (number, row) for row, name in enumerate(asking.ids)
             for number in range(len(asking.plan.sources))}  # fmt: skip
    left = {(number, str(asked.name)): asked.wanted for number, asked in asking.todo()}
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
        elif left.get((number, str(asking.ids[row])), 0) <= 0:
            counts["known already"] += 1
        else:
            counts["taken"] += 1
            left[number, str(asking.ids[row])] -= len(choices)
            answers.append((number, row, body))
    asyncio.run(_keep(asking, answers))
    _leave_out(asking.folder.batch, seen)
    asking.look()
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


async def _keep(asking: Asking, answers: Sequence[tuple[int, int, dict[str, Any]]]) -> None:
    async with AsyncExitStack() as stack:
        ledger = asking.ledger()
        await stack.enter_async_context(ledger.journal)
        paths = [asking.folder.answers(number) for number in range(len(asking.plan.sources))]
        journals = [await stack.enter_async_context(Journal(path)) for path in paths]
        for number, row, body in answers:
            name, model = asking.ids[row], asking.plan.sources[number].model
            line = {"custom_id": name, "row": asking.pins[row], "model": model, "error": None}
            journals[number].note({**line, "response": {"status_code": 200, "body": body}})
            most = at_most(asking.plan.prompt.messages(asking.rows[row], structured=True))
            took = usage_of(body) or (most, asking.plan.manner.max_tokens * len(body["choices"]))
            ledger.note(model, *took)


def _leave_out(folder: Path, seen: set[str]) -> None:
    """What came back, answered or failed, is no longer under way."""
    for path in sorted(folder.glob("requests-*.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        rest = [line for line in lines if str(json.loads(line).get("custom_id")) not in seen]
        if not rest:
            path.unlink()
        elif len(rest) < len(lines):
            write_bytes(path, b"".join(rest))
