"""The page in a real browser: two people, kills, reloads, undo, lost responses; no answer is lost or counts twice."""

import csv
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from understudy.web.answers import AnswerBook

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]

ODD = 'A <script>alert("x")</script> & <img src=x onerror=alert(1)> \u202egpj.exe\u202c, \u05e9\u05dc\u05d5\u05dd 123'
CLASSES = ["neg", "neutral", "pos"]


class Server:
    """``understudy label`` as people start it, on a port that stays the same."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.folder = folder
        self.command = [sys.executable, "-m", "understudy", "label", "rows.csv", "--port", str(port), *options]
        self.urls: dict[str, str] = {}

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.kill()

    def start(self) -> None:
        environment = {**os.environ, "UNDERSTUDY_USER": "ann"}
        self.process = subprocess.Popen(
            self.command, cwd=self.folder, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "http://" in line:
                name, url = line.replace("Open", "ann:").split()
                self.urls[name.rstrip(":")] = url
            if "Ctrl-C" in line:
                return
        self.process.communicate(timeout=60)
        raise AssertionError("the server did not start")

    def kill(self, number: int = signal.SIGKILL) -> str:
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=60)
        return str(rest)


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    """Starts servers, and sees to it that none is left."""
    with ExitStack() as started:
        yield lambda *options: started.enter_context(Server(*options))


@pytest.fixture
def browser() -> Iterator[Any]:
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=CHROMIUM, args=[*options, "--disable-sync", "--no-first-run"], headless=True
        )
        yield opened
        opened.close()


class Person:
    """Somebody at a keyboard, who remembers what they meant to say."""

    def __init__(self, browser: Any, url: str) -> None:
        self.page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        self.alarms: list[str] = []
        self.page.on("dialog", lambda dialog: self.alarms.append(dialog.message))
        self.page.on("pageerror", lambda error: self.alarms.append(str(error)))
        self.said: dict[str, str | None] = {}
        self.presses = 0
        self.page.goto(url)
        self.settled()

    def settled(self) -> None:
        """The server has been heard, and everything is on the disk."""
        self.page.wait_for_function("() => session && progress && !busy && !failures && !pending().length")

    @property
    def id(self) -> str:
        return str(self.page.inner_text("#id"))

    def answer(self, *, wait: bool = True) -> str | None:
        """By the keyboard; None where there is no row."""
        id = self.id
        if not id:
            return None
        place = sum(map(ord, id)) % 4
        self.page.keyboard.press("s" if place == 3 else str(place + 1))
        self.said[id] = None if place == 3 else CLASSES[place]
        self.presses += 1
        if wait:
            self.settled()
        return id

    def undo(self) -> str:
        self.page.keyboard.press("u")
        self.settled()
        self.said.pop(self.id)
        return self.id


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        texts = [ODD, *(f"The text of row {number}, of some length." for number in range(1, 60))]
        csv.writer(file).writerows([("id", "text"), *((f"{n:03}", text) for n, text in enumerate(texts))])
    return tmp_path


def test_two_people_label_sixty_rows_through_kills(rows: Path, browser: Any, serving: Any) -> None:
    options = ["--annotator", "ann", "--annotator", "bob", "--overlap", "0.25", "--classes", ",".join(CLASSES)]
    server = serving(rows, *options)
    ann, bob = Person(browser, server.urls["ann"]), Person(browser, server.urls["bob"])
    assert ann.id == "000" and ann.page.url.endswith("/"), "the token is gone from the address"
    shown = ann.page.inner_text(".text")
    assert '<script>alert("x")</script> & <img src=x onerror=alert(1)>' in shown
    assert "RLO" in shown and "\u202e" not in shown, "shown, and not obeyed"
    assert bob.page.evaluate("queue.map(card => card.id)")[1:] == ["004", "005", "006"], "ann has 001 to 003"

    for _ in range(5):
        ann.answer(), bob.answer()
    before = ann.id
    last = ann.answer()
    assert ann.undo() == last == before, "undo gives the row again"
    ann.page.reload()
    ann.settled()
    assert ann.id == before, "and a reload keeps it"
    ann.answer()
    ann.page.reload()
    ann.settled()
    assert ann.undo() == before, "undo reaches behind a reload"
    ann.answer()

    # The response is lost after the answer was kept: it is sent again, and counts once.
    lost: list[Any] = []

    def lose(route: Any) -> None:
        route.fetch()
        route.abort()
        lost.append(route)

    ann.page.route("**/api/sync", lose, times=1)
    ann.answer()
    assert lost

    # Killed between two answers; the next ones wait in the browser, even when it is reloaded half-way.
    ann.answer(), bob.answer()
    server.kill()
    ann.answer(wait=False), ann.answer(wait=False)
    ann.page.wait_for_selector("#trouble:not([hidden])")
    assert "2 answers wait" in ann.page.inner_text("#trouble")
    server.start()
    ann.settled()
    ann.page.wait_for_selector("#trouble", state="hidden")
    # Killed while an answer is on its way.
    bob.page.keyboard.press("1")
    bob.said[bob.page.evaluate("history.at(-1).id")] = "neg"
    bob.presses += 1
    server.kill()
    server.start()
    bob.settled()

    while ann.answer() or bob.answer():
        pass
    for person in (ann, bob):
        person.page.wait_for_function("() => document.body.innerText.includes('All rows are answered. Thank you.')")
        assert not person.alarms
    assert "All rows are answered" in server.kill(signal.SIGTERM)

    with AnswerBook(rows / "rows.book") as book:
        given = {(id, who): line.label for id, people in book.given().items() for who, line in people.items()}
        assert book.waiting() == [] and book.progress("ann").rows == 60
    expected = {(id, "ann"): label for id, label in ann.said.items()}
    assert given == expected | {(id, "bob"): label for id, label in bob.said.items()}
    with closing(sqlite3.connect(rows / "rows.book")) as file:
        (answers, undone) = file.execute("SELECT count(*) - count(undoes), count(undoes) FROM answers").fetchone()
    assert answers == ann.presses + bob.presses and undone == 2
    with (rows / "rows-answers.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 60


def test_two_tabs_of_one_person_share_the_rows(rows: Path, browser: Any, serving: Any) -> None:
    server = serving(rows, "--classes", ",".join(CLASSES), "--annotator", "ann")
    one = Person(browser, server.urls["ann"])
    two = one.page.context.new_page()
    two.goto(server.urls["ann"])
    two.wait_for_function("() => queue.length")
    assert two.inner_text("#id") != one.id
    mine = two.inner_text("#id")
    two.close(run_before_unload=False)
    one.answer()
    server.kill()
    with AnswerBook(rows / "rows.book") as book:
        assert len(book.answers()) == 1 and mine in book.waiting()


def test_many_classes_are_searched_by_the_keyboard(rows: Path, browser: Any, serving: Any) -> None:
    (rows / "classes.txt").write_text(
        "\n".join(["card lost", "card late", "Überweisung", *(f"other {c}" for c in "abcdefghij")])
    )
    server = serving(rows, "--classes", "classes.txt", "--annotator", "ann")
    ann = Person(browser, server.urls["ann"])
    for typed, label in (("late", "card late"), ("uber", "Überweisung"), ("card", "card lost")):
        id = ann.id
        ann.page.keyboard.type(typed)
        ann.page.keyboard.press("Enter")
        ann.settled()
        ann.said[id] = label
    ann.page.keyboard.type("card")
    id = ann.id
    ann.page.keyboard.press("2")
    ann.settled()
    ann.said[id] = "card late"
    server.kill()
    with AnswerBook(rows / "rows.book") as book:
        assert book.answers() == ann.said
