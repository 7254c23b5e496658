"""The page in a real browser: two people, kills, reloads, undo, lost responses; no answer is lost or counts twice."""

import csv
import shutil
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Cards
from understudy.web.serve import LabelServer

from ..forked_program import UNDERSTUDY, Program

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]

ODD = 'A <script>alert("x")</script> & <img src=x onerror=alert(1)> \u202egpj.exe\u202c, \u05e9\u05dc\u05d5\u05dd 123'
CLASSES = ["neg", "neutral", "pos"]
ROWS = 28


class Server:
    """``understudy label`` as people start it, on a port that stays the same."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.folder = folder
        self.arguments = ["label", "rows.csv", "--port", str(port), *options]
        self.urls: dict[str, str] = {}

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.kill()

    def start(self) -> None:
        code = f"import os; os.environ['UNDERSTUDY_USER'] = 'ann'; {UNDERSTUDY}"
        self.process = Program(code, *self.arguments, folder=self.folder)
        for line in self.process.stdout:
            if "http://" in line:
                name, url = line.replace("Open", "ann:").split()
                self.urls[name.rstrip(":")] = url
            if "Ctrl-C" in line:
                return
        self.process.wait()
        raise AssertionError("the server did not start")

    def kill(self, number: int = signal.SIGKILL) -> str:
        self.process.send_signal(number)
        return self.process.rest()


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    """Starts servers, and sees to it that none is left."""
    with ExitStack() as started:
        yield lambda *options: started.enter_context(Server(*options))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=CHROMIUM, args=[*options, "--disable-sync", "--no-first-run"], headless=True
        )
        yield opened
        opened.close()


def visit(page: Any, url: str) -> None:
    """The link leads on to the page, which has classes once it knows who one is."""
    page.goto(url)
    page.wait_for_selector("#classes button")


class Person:
    """Somebody at a keyboard, who remembers what they meant to say."""

    def __init__(self, browser: Any, url: str) -> None:
        self.page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        self.alarms: list[str] = []
        self.page.on("dialog", lambda dialog: self.alarms.append(dialog.message))
        self.page.on("pageerror", lambda error: self.alarms.append(str(error)))
        self.given: dict[str, str | None] = {}
        self.presses = 0
        visit(self.page, url)
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
        self.given[id] = None if place == 3 else CLASSES[place]
        self.presses += 1
        if wait:
            self.settled()
        return id

    def undo(self) -> str:
        self.page.keyboard.press("u")
        self.settled()
        self.given.pop(self.id)
        return self.id


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        texts = [ODD, *(f"The text of row {number}, of some length." for number in range(1, ROWS))]
        csv.writer(file).writerows([("id", "text"), *((f"{n:03}", text) for n, text in enumerate(texts))])
    return tmp_path


def test_two_people_label_all_rows_through_kills(rows: Path, browser: Any, serving: Any) -> None:
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
    ann.page.wait_for_function("() => $('trouble').textContent.includes('2 answers wait')")
    server.start()
    ann.settled()
    ann.page.wait_for_selector("#trouble", state="hidden")
    # Killed while an answer is on its way.
    bob.page.keyboard.press("1")
    bob.given[bob.page.evaluate("history.at(-1).id")] = "neg"
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
        assert book.waiting() == [] and book.progress("ann")["rows"] == ROWS
    expected = {(id, "ann"): label for id, label in ann.given.items()}
    assert given == expected | {(id, "bob"): label for id, label in bob.given.items()}
    with closing(sqlite3.connect(rows / "rows.book")) as file:
        (answers, undone) = file.execute("SELECT count(*) - count(undoes), count(undoes) FROM answers").fetchone()
    assert answers == ann.presses + bob.presses and undone == 2
    with (rows / "rows-answers.csv").open() as file:
        assert len(list(csv.DictReader(file))) == ROWS


@pytest.fixture
def near(rows: Path) -> Iterator[Callable[[list[str]], tuple[str, AnswerBook]]]:
    """A page served by this process."""
    with ExitStack() as opened:

        def serve(classes: list[str]) -> tuple[str, AnswerBook]:
            cards = Cards.of(rows / "rows.csv")
            book = opened.enter_context(AnswerBook(rows / "near.book", classes))
            book.add(cards.ids)
            return opened.enter_context(LabelServer(book, cards, annotators=["ann"])).url, book

        yield serve


def test_two_tabs_of_one_person_share_the_rows(browser: Any, near: Any) -> None:
    url, book = near(CLASSES)
    one = Person(browser, url)
    two = one.page.context.new_page()
    visit(two, url)
    two.wait_for_function("() => queue.length")
    assert (one.id, two.inner_text("#id")) == ("000", "004")
    two.keyboard.press("1")
    two.wait_for_function("() => !busy && !pending().length")
    one.answer()
    # Undo is this tab's, though the other tab answered later.
    two.keyboard.press("2")
    two.wait_for_function("() => !busy && !pending().length")
    assert one.undo() == "000" and set(book.answers()) == {"004", "005"}
    # Whoever closes a tab gives its rows back at once.
    two.goto("about:blank")
    one.page.bring_to_front()
    # It had 009 before that; 006 was with the other tab.
    assert [one.answer() for _ in range(6)] == ["000", "001", "002", "003", "009", "006"]


def test_many_classes_are_searched_by_the_keyboard(browser: Any, near: Any) -> None:
    url, book = near(["card lost", "card late", "Überweisung", *(f"other {sign}" for sign in "abcdefghij")])
    ann = Person(browser, url)
    for typed, pressed, label in (
        ("late", "Enter", "card late"), ("uber", "Enter", "Überweisung"), ("card", "Enter", "card lost"),
        ("card", "2", "card late"),
    ):  # fmt: skip
        ann.given[ann.id] = label
        ann.page.keyboard.type(typed)
        ann.page.keyboard.press(pressed)
        ann.settled()
    assert book.answers() == ann.given


def test_classes_called_by_digits_have_their_own_keys(browser: Any, near: Any) -> None:
    url, book = near([str(digit) for digit in range(10)])
    ann = Person(browser, url)
    for digit in "307":
        ann.page.keyboard.press(digit)
        ann.settled()
    assert book.answers() == {"000": "3", "001": "0", "002": "7"}


def test_on_a_phone_everything_is_within_reach(browser: Any, near: Any) -> None:
    """At 375 pixels nothing is cut off, and every button is large enough for a thumb."""
    url, _ = near(["grant the loan", "refuse", "ask a colleague"])
    page = browser.new_context(viewport={"width": 375, "height": 667}, has_touch=True, is_mobile=True).new_page()
    visit(page, url)
    page.wait_for_function("() => queue.length")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    for button in page.query_selector_all("button:visible"):
        box = button.bounding_box()
        assert box["height"] >= 44 and box["width"] >= 44 and box["x"] >= 0 and box["x"] + box["width"] <= 375
        assert box["y"] + box["height"] <= 667, button.inner_text()
    page.tap("#classes button >> nth=2")
    page.wait_for_function("() => !busy && !pending().length && progress.mine === 1")
