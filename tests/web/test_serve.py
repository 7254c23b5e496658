"""What the server lets through and what it refuses, over real connections."""

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy as us
from understudy.web.access import Access
from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Cards
from understudy.web.serve import LabelServer

SCRIPT = '<script>alert("x")</script> \u202efdp.exe\u202c'


@pytest.fixture
def served(tmp_path: Path) -> Iterator["Client"]:
    texts = [SCRIPT, *(f"text {number}" for number in range(1, 10))]
    cards = Cards.of({"id": np.arange(10), "text": np.array(texts, dtype=object)})
    (tmp_path / "guide.md").write_text(
        "# Hi\n\n<script>x</script> [bad](javascript:alert(1)) [good](https://a.example)"
    )
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"]) as book:
        book.add(cards.ids)
        with LabelServer(book, cards, annotators=["ann", "bob"], guideline=tmp_path / "guide.md") as server:
            yield Client(server, book)


class Client:
    """A browser's requests, without the browser."""

    def __init__(self, server: LabelServer, book: AnswerBook) -> None:
        self.server, self.book = server, book
        self.origin = f"http://127.0.0.1:{server.port}"
        opened = self.get(server.urls["ann"].removeprefix(self.origin), cookie=None)
        self.set_cookie = opened.headers["set-cookie"]
        self.cookie = self.set_cookie.split(";")[0]

    def ask(self, method: str, path: str, body: Any = None, **headers: str | None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        given = {
            "Cookie": getattr(self, "cookie", None),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, content, {name: value for name, value in given.items() if value is not None})
        response = connection.getresponse()
        response.content = response.read()  # type: ignore[attr-defined]
        connection.close()
        return response

    def get(self, path: str, *, cookie: str | None = "own", **headers: str) -> Any:
        return self.ask("GET", path, **({} if cookie == "own" else {"Cookie": cookie}), **headers)

    def sync(self, *events: dict[str, Any], have: tuple[str, ...] = (), count: int = 2, **headers: str | None) -> Any:
        body = {"book": self.book.settings["book"], "annotator": "ann", "tab": "t", "have": have, "count": count}
        return self.ask("POST", "/api/sync", body | {"events": events}, **{"Origin": self.origin, **headers})


def test_rows_come_and_answers_go(served: Client) -> None:
    first = json.loads(served.sync().content)
    assert [row["id"] for row in first["rows"]] == ["0", "1"] and first["rows"][0]["text"] == [[SCRIPT, False]]
    assert first["rows"][0]["suggestion"] is None
    event = {"name": "a" * 8, "id": "0", "label": "pos", "seconds": 1.5}
    for _ in range(2):
        second = json.loads(served.sync(event, have=("1",)).content)
        assert second["results"] == [{"name": "a" * 8, "kept": True}]
    assert served.book.answers() == {"0": "pos"}
    assert second["progress"] == {"rows": 10, "finished": 1, "mine": 1, "left": 9, "pace": 1.5}
    undone = json.loads(served.sync({"name": "b" * 8, "undoes": "a" * 8}, have=("1",)).content)
    assert undone["results"][0]["row"]["id"] == "0" and served.book.answers() == {}


def test_an_answer_that_cannot_be_is_refused_and_stops_no_other(served: Client) -> None:
    events = [
        {"name": "n" * 8, "id": "0", "label": "other"}, {"name": "m" * 8, "id": "99", "label": "pos"},
        {"name": "o" * 8, "undoes": "nothing-of-mine"}, {"name": "p" * 8, "id": "3", "label": None},
    ]  # fmt: skip
    results = json.loads(served.sync(*events).content)["results"]
    assert [result["kept"] for result in results] == [False, False, False, True]
    assert served.book.answers() == {"3": None}


def test_without_the_token_nothing_is_served(served: Client) -> None:
    for path in ("/", "/page.js", "/page.css", "/api/session", "/api/agreement", "/image?id=0", "/open/wrong"):
        for cookie in (None, f"{served.cookie[:-1]}x", served.cookie.replace("=", "x=")):
            answer = served.get(path, cookie=cookie)
            assert answer.status == 401 and SCRIPT.encode() not in answer.content, path
    assert served.sync({"name": "a" * 8, "id": "0", "label": "pos"}, Cookie=None).status == 401
    assert served.book.answers() == {}


def test_the_cookie_is_kept_from_scripts_and_other_sites(served: Client) -> None:
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(re.split("; ?", served.set_cookie))
    assert served.get("/").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "evil.example"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_requests_of_other_sites_are_refused(served: Client, headers: dict[str, str | None]) -> None:
    assert served.sync({"name": "a" * 8, "id": "0", "label": "pos"}, **headers).status == 403
    assert served.book.answers() == {}


def test_other_sites_cannot_read(served: Client) -> None:
    assert served.get("/api/session", Host="evil.example").status == 403
    assert served.get("/image?id=0", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert served.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200
    assert served.get("/api/session", Host=f"localhost:{served.server.port}").status == 200


def test_every_response_has_its_headers(served: Client) -> None:
    for answer in (served.get("/"), served.get("/nothing"), served.get("/", cookie=None), served.sync()):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "script-src 'self'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Cache-Control"] == "no-store"
    page = served.get("/").content.decode()
    assert not re.search(r"""(src|href)="(?!/page|data:,|https://a\.example)""", page), "something from elsewhere"


def test_the_guideline_is_shown_as_text(served: Client) -> None:
    page = served.get("/").content.decode()
    assert "&lt;script&gt;x&lt;/script&gt;" in page and 'href="javascript' not in page
    assert 'href="https://a.example"' in page


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"events": 3}', b"[" * 100_000, b"x" * 300_000, b'{"book": 1}', json.dumps({"a": 1}).encode()],
    ids=lambda body: f"{body[:12]!r}",
)
def test_bodies_that_no_page_sends_are_refused(served: Client, body: bytes) -> None:
    assert served.ask("POST", "/api/sync", body, Origin=served.origin).status in (400, 413)


@pytest.mark.parametrize(
    ("was", "odd"),
    [
        ('"count": 2', '"count": 1e999'),
        ('"have": []', '"have": ["\\ud800"]'),
        ('"events": []', '"events": [{"name": "aaaaaaaa", "undoes": ""}]'),
    ],
)
def test_odd_parts_of_bodies_are_refused(served: Client, was: str, odd: str) -> None:
    body = {"book": served.book.settings["book"], "annotator": "ann", "tab": "t", "have": [], "count": 2, "events": []}
    sent = json.dumps(body).replace(was, odd).encode()
    assert odd.encode() in sent and served.ask("POST", "/api/sync", sent, Origin=served.origin).status == 400


def test_a_tab_of_another_person_or_book_gets_a_conflict(served: Client) -> None:
    """Two links opened in one browser share its cookie: the first tab must not answer as the second person."""
    body = {"book": served.book.settings["book"], "annotator": "bob", "tab": "", "have": [], "count": 1, "events": []}
    assert served.ask("POST", "/api/sync", body, Origin=served.origin).status == 409
    assert served.ask("POST", "/api/sync", body | {"annotator": "ann", "book": "0"}, Origin=served.origin).status == 409


def test_links_hold_when_the_server_is_started_again(served: Client) -> None:
    again = LabelServer(served.book, Cards.of({"id": np.arange(10), "a": np.arange(10)}), annotators=["ann", "bob"])
    again.stop()
    before, after = ([url.rsplit("/", 1)[1] for url in server.urls.values()] for server in (served.server, again))
    assert before == after and before[0] != before[1]
    key = served.book.path.with_name("a.book.key")
    assert key.stat().st_mode & 0o077 == 0


def test_another_host_is_warned_about_and_names_are_not_rebound(tmp_path: Path) -> None:
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"]) as book:
        book.add(["1"])
        cards = Cards.of({"id": np.arange(1, 3), "a": np.arange(2)})
        with pytest.warns(us.UnderstudyWarning, match="unencrypted"):
            LabelServer(book, cards, host="0.0.0.0").stop()
    access = Access("0.0.0.0", {"ann": "t"}, "understudy-b", "")
    assert access.refusal("GET", {"host": "192.168.1.7:80"}) is None
    assert access.refusal("GET", {"host": "evil.example"}) is not None


def test_what_cannot_be_served_says_so(tmp_path: Path, served: Client) -> None:
    cards = Cards.of({"id": np.arange(10), "a": np.arange(10)})
    with pytest.raises(us.UnderstudyError, match=r"cannot serve at .*; choose another"):
        LabelServer(served.book, cards, port=served.server.port)
    with pytest.raises(us.UnderstudyError, match="annotator's name"):
        LabelServer(served.book, cards, annotators=["a\nb"])
    with pytest.raises(us.UnderstudyError, match="named twice"):
        LabelServer(served.book, cards, annotators=["a", "a"])


@pytest.mark.parametrize("shown", [False, True])
def test_suggestions_are_hidden_by_default_and_always_for_random_rows(tmp_path: Path, shown: bool) -> None:
    table = {"id": np.arange(2), "a": np.arange(2), "teacher_label": np.array(["pos", "neg"], dtype=object)}
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"]) as book:
        book.add(["0", "1"], chosen=[True, False])
        with LabelServer(book, Cards.of(table), annotators=["ann"], show_suggestion=shown) as server:
            client = Client(server, book)
            rows = json.loads(client.sync().content)["rows"]
            seen = {"label": "pos", "confidence": None, "by": "teacher"}
            assert [row["suggestion"] for row in rows] == [seen if shown else None, None]
            events = [{"name": f"answer-{id}", "id": id, "label": "pos"} for id in "01"]
            client.sync(*events)
            undone = json.loads(client.sync({"name": "u" * 8, "undoes": "answer-0"}).content)
            assert undone["results"][0]["row"]["suggestion"] == (seen if shown else None)
            client.sync({"name": "again-00", "id": "0", "label": "neg"})
        given = book.given()
        assert (given["0"]["ann"].suggested, given["1"]["ann"].suggested) == (shown, False)
