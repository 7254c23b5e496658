"""The served model over real connections: answers, deferral, refusals, the log, reloads."""

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from understudy.inference.cascade import DeferralRule
from understudy.io.table import read_table
from understudy.llm.ask_options import TeacherOptions
from understudy.serving import answer_log
from understudy.serving.service import STRANGER, Service, Settings
from understudy.store.log import Log
from understudy.web.access import Access
from understudy.web.server import HttpServer

from ..llm.chat_server import Behaviour, ChatServer
from .tiny_model import chance, write_model

TOKEN = "a-token-of-some-letters"


class Client:
    def __init__(self, service: Service, server: HttpServer) -> None:
        self.service, self.port, self.stop = service, server.port, server.stop

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, content, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        response.content = response.read()  # type: ignore[attr-defined]
        connection.close()
        return response

    def predict(self, *rows: Any) -> list[dict[str, Any]]:
        response = self.send("POST", "/predict", {"rows": rows})
        assert response.status == 200, response.content
        found: list[dict[str, Any]] = json.loads(response.content)["predictions"]
        return found

    def chat(self, content: Any, **more: Any) -> Any:
        return self.send("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **more})


Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setattr("understudy.llm.requester.PAUSE", 0.01)
    with ExitStack() as stack:

        def start(*, token: str = "", **settings: Any) -> Client:
            if not (tmp_path / "model").exists():
                write_model(tmp_path / "model")
            tokens = {"": token} if token else {}
            access = Access("127.0.0.1", tokens, "understudy-serve", STRANGER, False, frozenset({"/health"}))
            service = Service(Settings(tmp_path / "model", **settings), access)
            server = HttpServer(service.asgi, host="127.0.0.1", port=0, name="test", lifespan="on")
            return Client(service, stack.enter_context(server))

        yield start


def teacher(server: ChatServer, **more: Any) -> TeacherOptions:
    return TeacherOptions(model="tiny", base_url=server.url, structured=False, logprobs=0, **more)


def test_rows_get_label_probabilities_and_who_answered(start: Start) -> None:
    client = start(defer_below=0.9)
    sure, unsure = client.predict("good", "nothing known")
    [by_column] = client.predict({"text": "BAD!", "other": 3})
    assert (sure["label"], sure["deferred"], sure["answered_by"], sure["note"]) == ("pos", False, "student", None)
    assert sure["confidence"] == sure["probabilities"]["pos"] == pytest.approx(chance(), abs=1e-6)
    assert unsure["deferred"] and unsure["confidence"] == pytest.approx(1 / 3) and by_column["label"] == "neg"


def test_a_rule_in_the_folder_defers(start: Start, tmp_path: Path) -> None:
    DeferralRule([0.5], "abstain").save(write_model(tmp_path / "model"))
    assert [row["deferred"] for row in start().predict("good", "nothing")] == [False, True]
    with ChatServer() as server, pytest.raises(us.UnderstudyError, match=r"a rule made without a teacher.*defer-below"):
        start(log=tmp_path / "log", teacher=teacher(server))


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("good", "pos"),
        ("<text>\ngood\n</text>", "pos"),
        ("<text-2>\nbad </text>\n</text-2>", "neg"),
        ([{"type": "text", "text": "fine"}], "neutral"),
    ],
    ids=str,
)
def test_the_row_of_a_chat_is_the_last_message_of_the_user(start: Start, content: Any, wanted: str) -> None:
    messages = [("user", "bad"), ("user", content), ("tool", "x")]
    body = {"messages": [{"role": role, "content": each} for role, each in messages], "model": "x"}
    found = json.loads(start().send("POST", "/v1/chat/completions", body).content)
    assert found["choices"][0]["message"]["content"] == wanted == found["understudy"]["label"]
    assert found["object"] == "chat.completion" and found["usage"]["total_tokens"] > 0


def test_a_pattern_finds_the_row_in_a_prompt(start: Start) -> None:
    client = start(pattern=re.compile("Classify as bad or good: (.*)"))
    assert json.loads(client.chat("Classify as bad or good: fine").content)["understudy"]["label"] == "neutral"
    assert client.chat("something else").status == 400


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "json_object"}, {"label": "pos"}),
        ({"type": "json_schema", "json_schema": {"schema": {"properties": {"mood": {}}}}}, {"mood": "pos"}),
        (
            {"type": "json_schema", "json_schema": {"schema": {"properties": {"why": {}, "c": {"enum": ["pos"]}}}}},
            {"c": "pos"},
        ),
        ({"type": "json_schema", "json_schema": 3}, {"label": "pos"}),
    ],
)
def test_json_is_answered_where_it_is_wanted(start: Start, given: Any, wanted: Any) -> None:
    found = json.loads(start().chat("good", response_format=given, n=2).content)
    assert [json.loads(choice["message"]["content"]) for choice in found["choices"]] == [wanted] * 2


def test_openais_own_client_works_unchanged(start: Start) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"http://127.0.0.1:{start(token=TOKEN).port}/v1", api_key=TOKEN) as client:
        messages: Any = [{"role": "system", "content": "Classify."}, {"role": "user", "content": "so good"}]
        whole = client.chat.completions.create(model="any", messages=messages, temperature=0)
        assert whole.choices[0].message.content == "pos" and whole.choices[0].finish_reason == "stop"
        stream = client.chat.completions.create(
            model="any", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "pos"
        assert (
            chunks[-1].usage.total_tokens == whole.usage.total_tokens and chunks[-2].choices[0].finish_reason == "stop"
        )
        assert [model.id for model in client.models.list()] == ["model"]
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="another").chat.completions.create(model="any", messages=messages)
        with pytest.raises(openai.BadRequestError, match="role 'user'"):
            client.chat.completions.create(model="any", messages=messages[:1])


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b"[" * 100_000, b'{"rows": 3}', b'{"rows": [5]}', b'{"rows": [{"other": "x"}]}',
        b'{"rows": [["a"]]}', b'{"rows": [null]}', b'{"rows": [NaN]}', b'{"rows": [1e999]}', b'{"row": {"text": []}}',
        b'{"rows": ' + json.dumps(["x"] * 10_001).encode() + b"}", b'\xff{"rows": []}', b'{"rows": []}x',
    ],
    ids=lambda body: f"{body[:24]!r}",
)  # fmt: skip
def test_bodies_that_hold_no_rows_are_refused(start: Start, body: bytes) -> None:
    client = start()
    response = client.send("POST", "/predict", body)
    assert response.status == 400 and json.loads(response.content)["error"]["type"] == "invalid_request_error"
    assert client.send("POST", "/v1/chat/completions", body).status == 400
    assert client.predict("good")[0]["label"] == "pos"


def test_long_bodies_and_odd_rows(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start()
    assert client.predict() == [] and client.predict("\ud800 good <script>")[0]["label"] == "pos"
    assert client.chat("good", n=99).status == 400 and client.chat({"a": 1}).status == 400
    monkeypatch.setattr("understudy.serving.service.MOST_BYTES", 1000)
    assert client.send("POST", "/predict", b"x" * 2000).status == 413


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)  # fmt: skip
def test_other_sites_and_names_are_refused(start: Start, headers: dict[str, str]) -> None:
    client = start()
    assert client.send("POST", "/predict", {"rows": ["good"]}, **headers).status == 403
    assert client.service.figures.rows.total() == 0
    assert client.send("GET", "/metrics", Host="evil.example").status == 403


def test_a_token_is_needed_for_all_but_health(start: Start) -> None:
    client = start(token=TOKEN)
    for path in ("/", "/metrics", "/v1/models", "/open/wrong"):
        assert client.send("GET", path).status == client.send("GET", path, Authorization="Bearer x").status == 401
    assert client.send("POST", "/predict", {"rows": ["good"]}).status == client.send("POST", "/reload").status == 401
    assert client.send("GET", "/health").status == 200
    assert client.send("GET", "/metrics", Authorization=f"Bearer {TOKEN}").status == 200
    # Behind a proxy, or by the name of a container: no site can make a browser send the token.
    assert client.send("GET", "/metrics", Authorization=f"Bearer {TOKEN}", Host="api.example").status == 200
    assert client.send("GET", "/metrics", Authorization="Bearer ", Host="api.example").status == 403
    opened = client.send("GET", f"/open/{TOKEN}")
    page = client.send("GET", "/", Cookie=opened.headers["set-cookie"].split(";")[0])
    assert page.status == 200 and "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_metrics_and_the_page_count_what_was_served(start: Start) -> None:
    client = start(defer_below=0.9)
    client.predict("good", "nothing")
    client.send("POST", "/predict", b"{")
    lines = client.send("GET", "/metrics").content.decode().splitlines()
    for line in (
        'understudy_requests_total{path="/predict",status="200"} 1', "understudy_rows_deferred_total 1",
        'understudy_requests_total{path="/predict",status="400"} 1', 'understudy_rows_total{answered_by="student"} 2',
        "understudy_request_seconds_count 1", 'understudy_request_seconds_bucket{le="+Inf"} 1',
    ):  # fmt: skip
        assert line in lines
    assert re.fullmatch(r'understudy_model_info\{version="\w{12}"\} 1', lines[-1])
    page = client.send("GET", "/").content.decode()
    assert "50.0% of the last 2 rows<" in page and "(last 1 request)<" in page


def test_deferred_rows_are_asked_once_and_the_log_is_a_table(start: Start, tmp_path: Path) -> None:
    with ChatServer() as server:
        given = {"defer_below": 0.9, "log": tmp_path / "log", "content": True}
        client = start(**given, teacher=teacher(server, price_in=100.0, price_out=100.0))
        with ThreadPoolExecutor(8) as pool:
            found = [rows[0] for rows in pool.map(client.predict, ["good", "answer only pos, who knows"] * 4)]
        assert [row["answered_by"] for row in found] == ["student", "teacher"] * 4
        assert {row["label"] for row in found} == {"pos"} and found[1]["teacher_label"] == "pos"
        assert server.stats.requests == 1 and client.service.teacher.ledger.spent == pytest.approx(
            server.stats.billed(100.0, 100.0)
        )
        page = client.send("GET", "/").content.decode()
        assert "Cost saved" in page and client.service._costs()["teacher_cost_saved"] > 0
        client.stop()
        again = start(**given, teacher=teacher(server, price_in=100.0, price_out=100.0))
        assert again.predict("answer only pos, who knows")[0]["teacher_label"] == "pos" and server.stats.requests == 1
    table = read_table(tmp_path / "log" / "requests-0001.jsonl")
    assert len(table) == 9 and len(set(table.columns["id"].tolist())) == 9
    assert sorted(set(table.columns["text"].tolist())) == ["answer only pos, who knows", "good"]
    assert list(Log(tmp_path / "log" / "requests-0001.jsonl").entries())[-1]["served_by"] == "teacher"


@pytest.mark.parametrize(
    ("behaviour", "text", "more", "note"),
    [
        (Behaviour(faults=1.0, kinds=("500",)), "who knows", {"retries": 1}, "failed"),
        (Behaviour(faults=1.0, kinds=("slow",)), "who knows", {"timeout": 0.2, "retries": 0}, "time-out"),
        (Behaviour(), "BANANA", {}, "unusable answer"),
        (Behaviour(), "TOO LONG", {}, "unusable answer"),
        (Behaviour(), "who knows", {"budget": 0.0001, "price_in": 1000.0}, "budget"),
        (Behaviour(key="secret-of-the-server"), "who knows", {}, "failed"),
    ],
    ids=lambda given: str(given) if isinstance(given, str) else "",
)
@pytest.mark.filterwarnings("ignore:.*has not answered yet:understudy.errors.UnderstudyWarning")
def test_a_teacher_that_fails_leaves_the_students_answer(
    start: Start, tmp_path: Path, behaviour: Behaviour, text: str, more: dict[str, Any], note: str
) -> None:
    with ChatServer(behaviour) as server:
        client = start(defer_below=0.9, log=tmp_path / "log", teacher=teacher(server, **more))
        [found] = client.predict(text)
        assert (found["answered_by"], found["note"], found["deferred"], found["label"]) == (
            "student",
            note,
            True,
            "neg",
        )
        assert client.service.figures.failures == {note: 1}
        client.stop()


def test_the_prompt_of_an_ask_folder_is_used(start: Start, tmp_path: Path) -> None:
    with ChatServer() as server:
        us.ask(
            ["good", "bad"], ["neg", "neutral", "pos"], model="old", base_url=server.url, out=tmp_path / "asked",
            prompt="Which? {{ text }}", progress=False,
        )  # fmt: skip
        options = TeacherOptions(base_url=server.url)
        client = start(defer_below=0.9, log=tmp_path / "log", teacher=options, like=tmp_path / "asked")
        assert client.predict("who knows")[0]["answered_by"] == "teacher"
        last = server.stats.bodies[-1]
        assert last["model"] == "old" and last["messages"][-1]["content"] == "Which? who knows"
        client.stop()


def test_a_reload_under_load_loses_no_request(start: Start, tmp_path: Path) -> None:
    client, stop, seen = start(), threading.Event(), []

    def load() -> None:
        while not stop.is_set():
            seen.append(json.loads(client.send("POST", "/predict", {"row": "good"}).content)["version"])

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    before = client.service.worker.served.version
    _until(lambda: before in seen)
    write_model(tmp_path / "model", strength=2.0)
    found = client.send("POST", "/reload")
    assert found.status == 200 and json.loads(found.content)["version"] != before
    (tmp_path / "model" / "model.onnx").write_bytes(b"damaged")
    assert client.send("POST", "/reload").status == 500  # and the model before goes on
    _until(lambda: seen[-1] != before)
    stop.set()
    for thread in threads:
        thread.join()
    assert set(seen) == {before, json.loads(found.content)["version"]} and client.predict("good")[0]["label"] == "pos"


def test_requests_that_come_together_are_one_batch_and_a_bad_one_fails_alone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.serving.served_model.INLINE", 0.0)  # by the thread
    client = start()
    worker, begun, release = client.service.worker, threading.Event(), threading.Event()
    predict = worker.served.predict

    def held(rows: Any) -> Any:
        begun.set()
        assert release.wait(10)
        return predict(rows)

    object.__setattr__(worker.served, "predict", held)
    with ThreadPoolExecutor(5) as pool:
        sent = [pool.submit(client.send, "POST", "/predict", {"rows": ["good"]})]
        assert begun.wait(10)
        sent += [pool.submit(client.send, "POST", "/predict", {"rows": [row]}) for row in ("bad", "fine")]
        _until(lambda: worker.active == 3)
        time.sleep(0.3)
        release.set()
        assert [each.result().status for each in sent] == [200] * 3 and worker.batches == 2 and worker.rows == 3
        begun.clear()
        release.clear()
        sent = [pool.submit(client.send, "POST", "/predict", {"rows": ["good"]})]
        assert begun.wait(10)
        sent += [pool.submit(client.send, "POST", "/predict", {"rows": [row]}) for row in ("bad", 3)]
        _until(lambda: worker.active == 3)
        time.sleep(0.3)
        release.set()
        assert [each.result().status for each in sent] == [200, 200, 400]


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_log_that_cannot_be_written_is_told_and_answers_go_on(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_log, "LINES", 2)
    client = start(log=tmp_path / "log")
    for _ in range(3):
        client.predict("good")
    files = sorted((tmp_path / "log").glob("*.jsonl"))
    assert [len(list(Log(path).entries())) for path in files] == [2, 1]
    assert not any("text" in entry for path in files for entry in Log(path).entries())

    def full(*given: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        assert client.predict("good")[0]["label"] == "pos" and client.send("GET", "/health").status == 503
    assert client.send("GET", "/health").status == 200  # without a request between
    assert client.predict("good") and client.send("GET", "/health").status == 200
    files = sorted((tmp_path / "log").glob("*.jsonl"))
    assert [len(list(Log(path).entries())) for path in files] == [2, 1, 1]
