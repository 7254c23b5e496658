"""How long an answer takes on the label page's server, with 100,000 rows of which half are answered.

    python benchmarks/label_page.py            # about a minute; median and 99th percentile, in milliseconds

One answer is one request over a kept connection: the answer is synced to the disk, the next row is leased and sent. Two
people take turns, a fifth of the rows overlaps. The time is until the response, in a process of its own.
"""

import argparse
import http.client
import json
import multiprocessing
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Cards
from understudy.web.serve import LabelServer


class Person:
    def __init__(self, port: int, url: str, book: str, name: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.headers = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}
        self.connection.request("GET", "/open/" + url.rsplit("/", 1)[1])
        response = self.connection.getresponse()
        self.headers["Cookie"] = str(response.headers["set-cookie"]).split(";")[0]
        response.read()
        self.common: dict[str, Any] = {"book": book, "annotator": name, "tab": "t", "count": 4}
        self.name, self.count = name, 0
        self.queue: list[str] = self.sync([])

    def sync(self, events: list[dict[str, Any]]) -> list[str]:
        have = getattr(self, "queue", [])
        body = json.dumps(self.common | {"events": events, "have": have})
        self.connection.request("POST", "/api/sync", body, self.headers)
        answer = json.loads(self.connection.getresponse().read())
        assert all(result["kept"] for result in answer["results"])
        return [*have, *(row["id"] for row in answer["rows"])]

    def answer(self) -> float:
        id = self.queue.pop(0)
        self.count += 1
        event = {"name": f"{self.name}-{self.count:08}", "id": id, "label": "pos", "seconds": 2.0}
        start = time.perf_counter()
        self.queue = self.sync([event])
        return time.perf_counter() - start


def visit(port: int, urls: Mapping[str, str], book: str, answers: int) -> list[float]:
    people = [Person(port, url, book, name) for name, url in urls.items()]
    return [people[turn % len(people)].answer() for turn in range(answers)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--answers", type=int, default=2_000)
    options = parser.parse_args()
    texts = np.array(
        [f"The text of row {n}: " + "some words of a review " * 12 for n in range(options.rows)], dtype=object
    )
    cards = Cards.of({"id": np.arange(options.rows), "text": texts})
    with (
        tempfile.TemporaryDirectory() as folder,
        AnswerBook(Path(folder) / "a.book", ["neg", "pos"], overlap=0.2) as book,
    ):
        book.add(cards.ids)
        with book.together():
            for id in cards.ids[: options.rows // 2]:
                book.answer(id, "pos", annotator="ann")
        begun = time.perf_counter()
        AnswerBook(book.path).close()
        print(f"opening a book of {options.rows:,} rows, half of them answered: {time.perf_counter() - begun:.2f} s")
        server = LabelServer(book, cards, annotators=["ann", "bob"])
        with server, multiprocessing.get_context("spawn").Pool(1) as pool:
            given = (server.port, server.urls, book.settings["book"], options.answers)
            times = np.array(pool.apply(visit, given)) * 1000
        start = time.perf_counter()
        _, shared = book.agreement()
        print(f"agreement on {shared:,} rows: {(time.perf_counter() - start) * 1000:.0f} ms (requested apart)")
    median, most, worst = np.median(times), np.percentile(times, 99), times.max()
    print(f"{options.answers:,} answers: median {median:.1f} ms, p99 {most:.1f} ms, longest {worst:.1f} ms")


if __name__ == "__main__":
    main()
