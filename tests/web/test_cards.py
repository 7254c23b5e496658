"""Cards: what is shown of a row, by the letter, and nothing of what others said of it."""

import io
from pathlib import Path

import numpy as np
import pytest

import understudy as us
from understudy.web.cards import Cards, marked, picture


def test_ids_and_fields_are_kept_by_the_letter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,zip,age,label,teacher_label\n007,00742,31,x,y\n08,10115,4.5,x,y\n")
    cards = Cards.of(tmp_path / "a.csv")
    assert cards.ids == ["007", "08"]
    assert (
        cards.card("007")["fields"] == [["zip", "00742"], ["age", "31"]] and cards.card("08")["fields"][1][1] == "4.5"
    )


def test_a_chosen_batch_is_shown_as_the_pool_has_it(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id,text,teacher_label\na,It was good fun,pos\nb,It was a bore,neg\n")
    (tmp_path / "batch.csv").write_text("id,score,why,predicted,confidence,label\nb,0.1,pos or neg?,pos,0.6,\n")
    cards = Cards.of(tmp_path / "batch.csv", tmp_path / "pool.csv")
    cards.classes = ["neg", "pos"]
    assert cards.ids == ["b"] and cards.text == "text" and cards.chosen is None
    shown = cards.card("b")
    assert shown == {"id": "b", "text": [("It was a bore", False)], "image": False, "fields": []}
    assert cards.suggestion("b") == {"label": "pos", "confidence": 0.6, "by": "student"}
    pool = Cards.of(tmp_path / "pool.csv")
    pool.classes = ["neg", "pos"]
    assert pool.suggestion("b") == {"label": "neg", "confidence": None, "by": "teacher"}


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id,text\n7,It was good fun\n")
    (tmp_path / "batch.csv").write_text("id,label\n007,\n")
    (tmp_path / "none.csv").write_text("text\nIt was good fun\n")
    with pytest.raises(us.UnderstudyError, match="leading zeros"):
        Cards.of(tmp_path / "batch.csv", tmp_path / "pool.csv")
    with pytest.raises(us.UnderstudyError, match="--pool FILE"):
        Cards.of(tmp_path / "batch.csv")
    with pytest.raises(us.UnderstudyError, match="no column 'id'"):
        Cards.of(tmp_path / "none.csv")
    with pytest.raises(us.UnderstudyError, match="no column 'body' for --text"):
        Cards.of(tmp_path / "pool.csv", text="body")


def test_passages_are_marked() -> None:
    assert marked("A start of art.", ["art"]) == [("A start of ", False), ("art", True), (".", False)]
    assert marked("Good. GOOD!", ["good"]) == [("Good", True), (". ", False), ("GOOD", True), ("!", False)]
    assert marked("a+b (c)", ["+b", "(c)"]) == [("a", False), ("+b", True), (" ", False), ("(c)", True)]
    assert marked("a new art", ["new", "new art"]) == [("a ", False), ("new art", True)], "the longest"
    assert marked("", ["x"]) == [("", False)] and marked("a b") == [("a b", False)]


def test_a_confidence_that_is_missing_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,predicted,confidence\na,one word,neg,\nb,two words,pos,0.7\nc,three,,\n")
    cards = Cards.of(tmp_path / "a.csv")
    cards.classes = ("neg", "pos")
    found = [cards.suggestion(id) for id in "abc"]
    assert [each and each["confidence"] for each in found] == [None, 0.7, None] and found[0] is not None


def test_pictures_of_arrays_and_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    assert np.array_equal(np.asarray(image.open(io.BytesIO(picture(pixels, tmp_path, "x")[0]))), pixels)
    colours = np.random.default_rng(0).integers(0, 256, (3, 5, 4), dtype=np.uint8)
    content, kind = picture(colours, tmp_path, "x")
    assert kind == "image/png" and np.array_equal(
        np.asarray(image.open(io.BytesIO(content))), colours.transpose(1, 2, 0)
    )
    flat, _ = picture(pixels.astype(np.float32)[:, :3].reshape(-1) / 255, tmp_path, "x")
    assert np.abs(np.asarray(image.open(io.BytesIO(flat)), dtype=int) - pixels[:, :3]).max() <= 1
    image.fromarray(pixels).save(tmp_path / "a.tiff")
    image.fromarray(pixels).save(tmp_path / "a.jpg")
    assert picture("a.tiff", tmp_path, "x")[1] == "image/png" and picture("a.jpg", tmp_path, "x")[1] == "image/jpeg"
    (tmp_path / "b.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    for path in ("b.svg", "../a.jpg", "/etc/passwd"):
        with pytest.raises(us.UnderstudyError):
            picture(path, tmp_path, "x")
