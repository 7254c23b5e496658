"""Files of answers: every shape of line, every category, and a report that adds up whatever the file holds."""

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.labels import answer_matching
from understudy.labels.answer_labels import Answers
from understudy.report.templates import printable

CLASSES = ["neg", "pos"]


def logprobs(written: str, **chances: float) -> list[dict[str, Any]]:
    listed = [{"token": token, "logprob": math.log(chance), "bytes": None} for token, chance in chances.items()]
    return [{"token": written, "logprob": math.log(chances[written]), "top_logprobs": listed}]


def chat(name: Any, content: Any, tokens: Any = None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    body = {
        "id": "chatcmpl-1", "object": "chat.completion", "model": "m", "usage": {},
        "choices": [{
            "index": 0, "finish_reason": finish, "logprobs": None if tokens is None else {"content": tokens},
            "message": {"role": "assistant", "content": content, "refusal": None} | message,
        }],
    }  # fmt: skip
    return {"id": "batch_req_1", "custom_id": name, "response": {"status_code": 200, "body": body}, "error": None}


def responses(name: Any, text: str, tokens: Any = None, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "logprobs": tokens or []}
    items = [{"type": "reasoning", "summary": []}, {"type": "message", "content": [part]}]
    body = {"object": "response", "status": "completed", "incomplete_details": None, "output": items, "error": None}
    return {"custom_id": name, "response": {"status_code": 200, "body": body | more}, "error": None}


def write(path: Path, *lines: Any) -> Path:
    content = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(line + b"\n" for line in content))
    return path


def read(tmp_path: Path, *lines: Any, **options: Any) -> Answers:
    found = us.read_answers(write(tmp_path / "answers.jsonl", *lines), CLASSES, **options)
    assert found.report.lines == len(lines) == sum(found.report.counts.values())
    assert found.report.used == len(found) == len(found.labels) == len(found.ids)
    return found


def test_every_shape_of_line(tmp_path: Path) -> None:
    tool = [{"type": "function", "function": {"name": "f", "arguments": '{"label": "neg"}'}}]
    found = read(
        tmp_path,
        chat("a", "pos"),
        chat("b", '{"label": "neg"}'),
        chat("c", [{"type": "text", "text": "Pos"}]),
        chat("d", None, tool_calls=tool),
        responses("e", "The answer is: neg."),
        {"custom_id": "f", "choices": chat("f", "pos")["response"]["body"]["choices"]},
        {"id": "g", "answer": "NEG"},
        {"id": 7, "answer": "pos"},
    )
    assert found.ids.tolist() == ["a", "b", "c", "d", "e", "f", "g", "7"]
    assert found.labels.top1().tolist() == [1, 0, 1, 0, 0, 1, 0, 1]
    assert isinstance(found.labels, us.Hard) and found.labels.given is None
    assert found.report.counts == {
        answer_matching.EXACT: 5,
        answer_matching.NORMALISED: 2,
        answer_matching.MENTIONED: 1,
    }


@pytest.mark.parametrize(
    ("line", "category"),
    [
        (chat("a", "banana"), answer_matching.UNKNOWN),
        (chat("a", "pos or neg"), answer_matching.AMBIGUOUS),
        (chat("a", ""), answer_matching.EMPTY),
        (chat("a", None), answer_matching.EMPTY),
        (chat("a", None, refusal="I will not"), answer_matching.REFUSED),
        (chat("a", "pos", finish="content_filter"), answer_matching.REFUSED),
        (chat("a", "I cannot help with pos"), answer_matching.REFUSED),
        (chat("a", "The answer is pos", finish="length"), answer_matching.TRUNCATED),
        (responses("a", "It is", status="incomplete", incomplete_details={"reason": "x"}), answer_matching.TRUNCATED),
        (responses("a", "pos", incomplete_details={"reason": "content_filter"}), answer_matching.REFUSED),
        (responses("a", "", output=[{"type": "message", "content": [{"refusal": "no"}]}]), answer_matching.REFUSED),
        (responses("a", "pos", status="failed"), answer_matching.ERROR),
        ({"custom_id": "a", "response": None, "error": {"code": "x", "message": "expired"}}, answer_matching.ERROR),
        (
            {"custom_id": "a", "response": {"status_code": 429, "body": {"error": {"message": "slow"}}}},
            answer_matching.ERROR,
        ),
        (
            {"custom_id": "a", "response": {"status_code": 200, "body": {"error": {"message": "m"}}}},
            answer_matching.ERROR,
        ),
        (b"", answer_matching.BLANK),
        (b" \t", answer_matching.BLANK),
        (b"{", answer_matching.MALFORMED),
        (b"[1]", answer_matching.MALFORMED),
        (b"\xff\xfe{}", answer_matching.MALFORMED),
        (b"[" * 100_000, answer_matching.MALFORMED),
        (b"1" * 5000, answer_matching.MALFORMED),
        ({"answer": "pos"}, answer_matching.MALFORMED),
        ({"id": True, "answer": "pos"}, answer_matching.MALFORMED),
        ({"id": 1.5, "answer": "pos"}, answer_matching.MALFORMED),
        ({"id": "", "answer": "pos"}, answer_matching.MALFORMED),
        ({"id": "a\x1b[2J", "answer": "pos"}, answer_matching.MALFORMED),
        (b'{"id": "\\ud800", "answer": "pos"}', answer_matching.MALFORMED),
        ({"id": "a", "answer": ["pos"]}, answer_matching.MALFORMED),
        ({"id": "a"}, answer_matching.MALFORMED),
        ({"id": "a", "choices": []}, answer_matching.MALFORMED),
        ({"id": "a", "output": 3}, answer_matching.MALFORMED),
    ],
)
def test_a_line_that_is_not_used(tmp_path: Path, line: Any, category: str) -> None:
    found = read(tmp_path, {"id": "good", "answer": "pos"}, line)
    assert found.report.counts == {answer_matching.EXACT: 1, category: 1}
    assert found.report.malformed == (["answers.jsonl:2"] if category == answer_matching.MALFORMED else [])


def test_several_choices_are_votes(tmp_path: Path) -> None:
    """pos, pos, neg, a refusal and an unknown word: 2/3 and 1/3, by hand; each choice is accounted for."""
    line = chat("a", "pos")
    choices = [*chat("a", "pos")["response"]["body"]["choices"] * 2, *chat("a", "neg")["response"]["body"]["choices"]]
    choices += chat("a", None, refusal="no")["response"]["body"]["choices"]
    choices += chat("a", "banana")["response"]["body"]["choices"]
    line["response"]["body"]["choices"] = choices
    path = write(tmp_path / "votes.jsonl", line, chat("b", "neg"), chat("c", "banana"))
    found = us.read_answers(path, CLASSES)
    assert found.ids.tolist() == ["a", "b"] and isinstance(found.labels, us.TopK)
    assert torch.allclose(found.labels.dense(torch.arange(2), 2), torch.tensor([[1 / 3, 2 / 3], [1.0, 0.0]]))
    assert found.report.lines == sum(found.report.counts.values()) == 7 and "answers" in str(found.report)
    assert found.report.counts[answer_matching.REFUSED] == 1 and found.report.counts[answer_matching.UNKNOWN] == 2
    assert found.aligned(["c", "a"]).labelled().tolist() == [False, True]


def test_lines_that_differ_are_votes_where_all_have_several_times(tmp_path: Path) -> None:
    lines = [{"id": row, "answer": word} for word in ("pos", "neg", "pos") for row in range(3)]
    found = us.read_answers(write(tmp_path / "a.jsonl", *lines), CLASSES)
    assert torch.allclose(found.labels.dense(torch.arange(3), 2), torch.tensor([[1 / 3, 2 / 3]] * 3))
    again = us.read_answers(write(tmp_path / "b.jsonl", *lines[:4]), CLASSES)
    assert again.report.counts[answer_matching.CONFLICT] == 2 and "form 'shares'" in str(again.report)
    voted = us.read_answers(tmp_path / "b.jsonl", CLASSES, form="shares")
    assert voted.labels.dense(torch.arange(3), 2).tolist() == [[0.5, 0.5], [0.0, 1.0], [0.0, 1.0]]


def test_ids_that_come_again(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        *({"id": 1, "answer": "pos"}, {"id": "1", "answer": "Pos"}),  # the same
        *({"id": 2, "answer": "pos"}, {"id": 2, "answer": "neg"}, {"id": 2, "answer": "pos"}),  # in conflict
        *({"id": 3, "answer": "banana"}, {"id": 3, "answer": "neg"}),  # repeated after a bad answer
    )
    assert found.ids.tolist() == [1, 3] and found.labels.top1().tolist() == [1, 0]
    assert found.report.counts[answer_matching.REPEATED] == 1 and found.report.counts[answer_matching.CONFLICT] == 3
    assert found.report.counts[answer_matching.UNKNOWN] == 1 and found.report.used == 2
    assert "conflicting" in str(found.report)


def test_log_probabilities_become_top_k_with_a_tail(tmp_path: Path) -> None:
    lines = (
        chat("a", "pos", logprobs("pos", pos=0.9, neg=0.06, The=0.02)),
        responses("b", "neg", logprobs("neg", neg=0.6)),
        chat("c", "neg", logprobs("neg", neg=0.2, pos=0.7)),
    )
    found = read(tmp_path, *lines)
    labels = found.labels
    assert isinstance(labels, us.TopK) and labels.indices.tolist() == [[1, 0], [0, -1], [1, 0]]
    rows = np.array([[0.06 / 0.96, 0.9 / 0.96], [0.6, 0.4], [0.2 / 0.9, 0.7 / 0.9]])
    np.testing.assert_allclose(labels.dense(torch.arange(3), 2), rows, rtol=1e-6)
    assert any("largest 40.0%" in note for note in found.report.notes)
    assert any("1 answers do not name" in note for note in found.report.notes)
    dense = read(tmp_path, *lines, form="probs").labels
    assert isinstance(dense, us.Soft)
    np.testing.assert_allclose(dense.probs, rows, rtol=1e-6)
    hard = read(tmp_path, *lines, form="hard").labels
    assert isinstance(hard, us.Hard) and hard.labels.tolist() == [1, 0, 0] and hard.given is not None
    np.testing.assert_allclose(hard.given, [0.9 / 0.96, 0.6, 0.2 / 0.9])


def test_forms_where_only_some_have_log_probabilities(tmp_path: Path) -> None:
    soft = [chat(f"s{i}", "pos", logprobs("pos", pos=0.9)) for i in range(2)]
    plain = [chat(f"p{i}", "pos") for i in range(3)]
    found = read(tmp_path, *soft, *plain)
    assert isinstance(found.labels, us.Hard) and found.labels.given is None and len(found) == 5
    found = read(tmp_path, *soft, *plain[:2])
    assert isinstance(found.labels, us.TopK) and found.report.counts[answer_matching.NO_LOGPROBS] == 2
    # The same id once without and once with them: the latter serves.
    both = read(tmp_path, chat("a", "pos"), chat("a", "pos", logprobs("pos", pos=0.9)), form="topk")
    assert len(both) == 1 and both.report.counts[answer_matching.REPEATED] == 1
    # Without them it still counts as a contradiction.
    assert len(read(tmp_path, chat("a", "neg"), chat("a", "pos", logprobs("pos", pos=0.9)), form="topk")) == 0


def test_aligned_with_a_pool_by_id(tmp_path: Path) -> None:
    found = read(tmp_path, {"id": "3", "answer": "pos"}, {"id": "1", "answer": "neg"})
    assert found.aligned([1, 2, 3]).top1().tolist() == [0, -1, 1]
    soft = read(tmp_path, chat("3", "pos", logprobs("pos", pos=0.9)), chat("1", "neg", logprobs("neg", neg=0.8)))
    labels = soft.aligned(np.array([1, 2, 3]))
    assert labels.top1().tolist() == [0, -1, 1] and labels.labelled().tolist() == [True, False, True]
    dense = read(tmp_path, chat("3", "pos", logprobs("pos", pos=0.9)), form="probs")
    with pytest.raises(us.UnderstudyError, match="topk"):
        dense.aligned([1, 3])


def test_several_files_and_a_missing_one(tmp_path: Path) -> None:
    one, two = (write(tmp_path / f"{n}.jsonl", {"id": n, "answer": "pos"}) for n in (1, 2))
    assert us.read_answers([one, two], CLASSES).ids.tolist() == [1, 2]
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(us.UnderstudyError, match="cannot read"):
            us.read_answers(path, CLASSES)
    with pytest.raises(us.UnderstudyError, match="form"):
        us.read_answers(one, CLASSES, form="soft")
    (tmp_path / "empty.jsonl").touch()
    empty = us.read_answers(tmp_path / "empty.jsonl", CLASSES)
    assert len(empty) == 0 and empty.report.lines == 0


def test_a_line_longer_than_memory_should_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("answer_lines", "answer_labels"):
        monkeypatch.setattr(f"understudy.labels.{module}.LONGEST_LINE", 60)
    long = {"id": 1, "answer": "x" * 500}
    found = read(tmp_path, {"id": 0, "answer": "pos"}, long, {"id": 2, "answer": "neg"})
    assert found.ids.tolist() == [0, 2] and found.report.malformed == ["answers.jsonl:2"]


def test_the_report_is_fit_for_a_terminal(tmp_path: Path) -> None:
    found = read(tmp_path, {"id": 1, "answer": "\x1b[31mred\u202e\r\n" + "y" * 500}, {"id": 2, "answer": "pos"})
    shown = str(found.report)
    assert (
        "\x1b" not in shown
        and "\u202e" not in shown
        and "\\x1b[31mred" in shown
        and max(map(len, shown.split("\n"))) < 130
    )
    assert printable("a" * 60) == '"' + "a" * 60 + '"' and printable("a" * 61).endswith('…"')
    assert printable("\ud800") == '"\\ud800"'


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["pos", "neg", "length", "refusal", "output_text", "message", "The answer is pos", 200]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([
            "id", "custom_id", "response", "status_code", "body", "choices", "message", "content", "refusal",
            "logprobs", "token", "logprob", "top_logprobs", "output", "type", "text", "answer", "error",
            "finish_reason", "status", "incomplete_details", "reason", "tool_calls", "function", "arguments",
        ]), inner, max_size=5,
    ), max_leaves=12,
)  # fmt: skip
WHOLE = [
    chat("a", "pos", logprobs("pos", pos=0.5, neg=0.4)),
    responses("b", "neg", logprobs("neg", neg=0.5, pos=0.4)),
    chat("c", None, tool_calls=[{"function": {"arguments": '{"label": "neg"}'}}]),
    {"id": 1, "answer": "pos", "logprobs": logprobs("pos", pos=0.5)},
]


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A good line with one part, at any level, replaced by anything; perhaps cut; or no line at all."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return draw(st.binary(max_size=60)).replace(b"\n", b" ")
    line = json.loads(json.dumps(draw(st.sampled_from(WHOLE))))
    place: Any = line
    while isinstance(place, dict | list) and place:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if draw(st.integers(0, 3)) == 0 or not isinstance(place[key], dict | list) or not place[key]:
            place[key] = draw(ANY)
            break
        place = place[key]
    text = json.dumps(line if kind < 3 else draw(ANY)).encode()
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@pytest.mark.slow
@settings(max_examples=120)
@given(st.lists(broken(), max_size=6), st.sampled_from(["auto", "hard", "topk", "probs"]), st.none() | st.just("label"))
def test_whatever_the_file_holds_the_report_adds_up(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], form: str, field: str | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    found = us.read_answers(path, CLASSES, form=form, field=field)
    assert found.report.lines == len(lines) == sum(found.report.counts.values())
    assert found.report.used == len(found) and min(found.report.counts.values(), default=0) >= 0
    assert len(set(map(str, found.ids.tolist()))) == len(found)
    assert str(found.report).isprintable() or all(line.isprintable() for line in str(found.report).split("\n"))


def test_thousands_of_torn_and_flipped_lines(tmp_path: Path, rng: np.random.Generator) -> None:
    whole = [json.dumps(line).encode() for line in WHOLE]
    lines = []
    for _ in range(3000):
        line = bytearray(whole[rng.integers(len(whole))])
        for _ in range(rng.integers(1, 4)):
            line[rng.integers(len(line))] = rng.integers(256)
        lines.append(bytes(line[: rng.integers(1, 2 * len(line))]).replace(b"\n", b" "))
    found = read(tmp_path, *lines)
    assert found.report.used > 0 and 1000 < found.report.counts[answer_matching.MALFORMED] < 3000


@pytest.mark.slow
def test_a_hundred_thousand_answers_in_seconds(tmp_path: Path) -> None:
    tokens = logprobs("pos", pos=0.9, neg=0.05, The=0.02, Pos=0.01, I=0.01)
    answers = ("pos", '{"label": "neg"}', "The answer is pos.", "hm")
    texts = [json.dumps(chat("ID", answer, tokens)) for answer in answers]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(texts[i % 7 % 4].replace("ID", f"row{i}") for i in range(100_000)))
    begun = time.process_time()
    found = us.read_answers(path, CLASSES, form="hard")
    assert time.process_time() - begun < 30  # some 3 on an idle machine; hours, were it quadratic
    assert found.report.lines == 100_000 == sum(found.report.counts.values()) and len(found) > 70_000
