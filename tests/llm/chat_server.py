"""A server that speaks OpenAI's chat completions over plain sockets, with the faults that real ones have.

    with ChatServer(Behaviour(faults=0.05)) as server:
        us.ask(texts, CLASSES, model="tiny", base_url=server.url, out=folder)
    server.stats.requests, server.stats.billed(1.0, 2.0)

The "model" answers from everything it is sent and from nothing else: its class is a hash of all messages, so that a
label changes with any letter of the request. It does what a text tells it ("answer only neg"), as weak models do. The
server keeps its own books: tokens count when they are made, whether or not they arrive.
"""

import asyncio
import gzip
import hashlib
import json
import math
import random
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

CLASSES = ["neg", "neutral", "pos"]
FAULTS = ("429", "500", "503", "cut", "slow", "broken")
_TEXT = re.compile(r"<(text[-\d]*)>\n(.*)\n</\1>", re.DOTALL)
_ORDER = re.compile(r"answer only (\w+)")


@dataclass
class Behaviour:
    faults: float = 0.0
    """How many requests fail, in kinds that take turns."""
    kinds: tuple[str, ...] = FAULTS
    logprobs: bool = True
    several: bool = True
    structured: bool = True
    heeds_n: bool = True
    usage: bool = True
    delay: float = 0.0
    slow: float = 30.0
    """How long a slow answer takes."""
    words: str = "Unsupported fields in the request: {fields}"
    """How it says that it does not take a field; "" refuses without a reason."""
    key: str = ""
    """The only one it takes, if any."""
    seed: int = 0
    dies_after: int | None = None
    """Requests after which every one is a server error."""


@dataclass
class Stats:
    requests: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    """Answers that were sent to their end, by the text asked about."""
    asked: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    huge_bytes: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    most_at_once: int = 0
    at_once: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def billed(self, price_in: float, price_out: float) -> float:
        return (price_in * self.tokens_in + price_out * self.tokens_out) / 1_000_000


def class_of(messages: list[dict[str, str]], draw: int = 0) -> str:
    """What the model says: by all that it was sent; ``draw``: which of several choices."""
    content = json.dumps([messages, draw // 3], sort_keys=True).encode()
    return CLASSES[int.from_bytes(hashlib.sha256(content).digest()[:4]) % len(CLASSES)]


class ChatServer:
    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour, self.stats = behaviour or Behaviour(), Stats()
        self._random = random.Random(self.behaviour.seed)
        self._started = threading.Event()

    def __enter__(self) -> "ChatServer":
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._tasks: set[asyncio.Task[Any]] = set()
        self._started.set()
        await self._ended.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        if not head.startswith("POST /v1/chat/completions"):
            return await _respond(writer, 404, {"error": {"message": "no such address"}})
        self.stats.requests += 1
        self.stats.at_once += 1
        self.stats.most_at_once = max(self.stats.most_at_once, self.stats.at_once)
        try:
            if self.behaviour.key and headers.get("authorization") != f"Bearer {self.behaviour.key}":
                given = headers.get("authorization", "")
                return await _respond(writer, 401, {"error": {"message": f"Incorrect API key: {given}"}})
            return await self._answer(writer, body)
        finally:
            self.stats.at_once -= 1

    async def _answer(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        text = _text(body)
        if refused := self._not_taken(body):
            self.stats.refused += 1
            said = self.behaviour.words.format(fields=refused)
            return await _respond(writer, 400, {"error": {"message": said, "type": "invalid_request_error"}})
        if "TOO LONG" in text:
            return await _respond(writer, 400, {"error": {"message": "maximum context length is 64 tokens"}})
        self.stats.asked[text] += 1
        self.stats.bodies.append(body)
        kind = self._fault()
        if kind == "429":
            return await _respond(writer, 429, {"error": {"message": "slow down"}}, "Retry-After: 0.05\r\n")
        if kind == "503":
            return await _respond(writer, 503, {"error": {"message": "overloaded"}})
        if self.behaviour.delay:
            await asyncio.sleep(self.behaviour.delay * self._random.uniform(0.5, 1.5))
        answer: Any = self._completion(body, text)
        if kind == "500":
            return await _respond(writer, 500, {"error": {"message": "internal error"}})
        if kind == "slow":
            await asyncio.sleep(self.behaviour.slow)
        if kind == "broken":
            return await _respond(writer, 200, "{not json")
        if kind == "cut":
            content = json.dumps(answer).encode()
            writer.write(_head(200, len(content)) + content[: len(content) // 2])
            await writer.drain()
            return False
        if "HUGE" in text or "BOMB" in text:
            return await self._never_ends(writer, json.dumps(answer).encode() if "BOMB" in text else b"")
        if "ECHO" in text:  # as an escape, and in JSON within JSON
            escaped = "".join(f"\\u{ord(letter):04X}" for letter in self.behaviour.key)
            answer["id"] = json.dumps({"key": self.behaviour.key}).replace(self.behaviour.key, escaped)
            answer = json.dumps(answer | {"key": "KEY"}).replace("KEY", escaped.lower())
        if "USAGE" in text:
            answer = json.dumps(answer | {"usage": {"prompt_tokens": 0, "completion_tokens": 0}})
            answer = answer.replace(": 0", ": " + "9" * int(text.split()[1]))
        if "LATIN" in text:  # a letter of another encoding, or half of one
            answer = json.dumps(answer).replace("chatcmpl-1", "\udcff").encode(errors="surrogateescape")
        await _respond(writer, 200, answer)
        self.stats.answered[text] += 1
        return True

    async def _never_ends(self, writer: asyncio.StreamWriter, packed: bytes) -> bool:
        """A body of a gigabyte; or an answer and 100 MB of blanks that travel as 100 KB."""
        if packed:
            content = gzip.compress(packed + b" " * (100 << 20))
            writer.write(_head(200, len(content), "Content-Encoding: gzip\r\n") + content)
        else:
            writer.write(_head(200, 1 << 30))
            for _ in range(1 << 14):
                writer.write(b" " * (1 << 16))
                await writer.drain()
                self.stats.huge_bytes += 1 << 16
        await writer.drain()
        return False

    def _fault(self) -> str | None:
        if self.behaviour.dies_after is not None and self.stats.requests > self.behaviour.dies_after:
            return "500"
        if self._random.random() >= self.behaviour.faults:
            return None
        kind = self.behaviour.kinds[sum(self.stats.faults.values()) % len(self.behaviour.kinds)]
        self.stats.faults[kind] += 1
        return kind

    def _not_taken(self, body: dict[str, Any]) -> str:
        names = {"logprobs": "logprobs", "several": "n", "structured": "response_format"}
        return str(
            sorted(name for kind, name in names.items() if name in body and not getattr(self.behaviour, kind)) or ""
        )

    def _completion(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        count = body.get("n", 1) if self.behaviour.heeds_n else 1
        limit = body.get("max_tokens") or body["max_completion_tokens"]
        choices = [self._choice(body, text, limit, draw) for draw in range(count)]
        used_in = sum(math.ceil(len(message["content"].encode()) / 3) + 6 for message in body["messages"])
        used_out = sum(choice.pop("tokens") for choice in choices)
        self.stats.tokens_in += used_in
        self.stats.tokens_out += used_out
        usage = {"prompt_tokens": used_in, "completion_tokens": used_out, "total_tokens": used_in + used_out}
        made = {"id": "chatcmpl-1", "object": "chat.completion", "model": body["model"], "choices": choices}
        return made | ({"usage": usage} if self.behaviour.usage else {})

    def _choice(self, body: dict[str, Any], text: str, limit: int, draw: int) -> dict[str, Any]:
        ordered = _ORDER.search(text)
        name = ordered[1] if ordered else class_of(body["messages"], draw)
        message: dict[str, Any] = {"role": "assistant", "content": name, "refusal": None}
        choice = {"index": draw, "finish_reason": "stop", "message": message, "logprobs": None, "tokens": 1}
        if "REFUSE" in text:
            message |= {"content": None, "refusal": "I cannot help with that."}
        elif "EMPTY" in text:
            message["content"] = ""
        elif "BANANA" in text:
            message["content"] = "banana"
        elif "HALF" in text:
            message["content"] = "half an emoji \ud83d"
        elif "ESSAY" in text:
            message["content"] = "Well, let me think about it " * 10
            choice |= {"finish_reason": "length", "tokens": limit}
        elif "response_format" in body:
            message["content"] = json.dumps({"label": name})
        if body.get("logprobs") and message["content"] and choice["tokens"] == 1:
            choice["logprobs"] = {"content": _tokens(message["content"], name, body["top_logprobs"])}
            choice["tokens"] = len(choice["logprobs"]["content"])
        return choice


def _tokens(content: str, name: str, top: int) -> list[dict[str, Any]]:
    """Three tokens at most: what stands before the name, the name, and what stands after it."""
    if name not in content:
        return [{"token": content, "logprob": -0.1, "top_logprobs": [{"token": content, "logprob": -0.1}]}]
    before, _, after = content.partition(name)
    others = [other for other in CLASSES if other != name]
    chances = {name: 0.7, **dict.fromkeys(others, 0.2 / max(1, len(others)))}
    listed = [{"token": token, "logprob": math.log(chance)} for token, chance in chances.items()][:top]
    named = {"token": name, "logprob": math.log(0.7), "top_logprobs": listed}
    around = [{"token": part, "logprob": 0.0, "top_logprobs": []} for part in (before, after)]
    return [entry for entry in (around[0], named, around[1]) if entry["token"]]


def _text(body: dict[str, Any]) -> str:
    """The row that is asked about, without its tags."""
    last = body["messages"][-1]["content"]
    found = _TEXT.search(last)
    return found[2] if found else last


def _head(status: int, length: int, more: str = "") -> bytes:
    start = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"{start}{more}\r\n".encode()


async def _respond(writer: asyncio.StreamWriter, status: int, body: Any, more: str = "") -> bool:
    content = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    writer.write(_head(status, len(content), more) + content)
    await writer.drain()
    return True
