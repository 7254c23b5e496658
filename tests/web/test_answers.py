"""The answer book: lines that are only added, answers that count once, rows that go to one person at a time."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

import understudy as us
from understudy.web.answer_book import AnswerBook, most_common
from understudy.web.cards import Cards


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def book(tmp_path: Path):
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"]) as book:
        book.add([f"r{number}" for number in range(6)])
        yield book


def test_an_answer_is_there_after_the_book_was_closed(book: AnswerBook) -> None:
    book.answer("r1", "pos", annotator="ann")
    book.answer("r2", None, annotator="ann")
    book.close()
    with AnswerBook(book.path) as again:
        assert again.answers() == {"r1": "pos", "r2": None}
        assert again.waiting() == ["r0", "r3", "r4", "r5"] and again.classes == ("neg", "pos")


def test_an_answer_that_is_sent_twice_counts_once(book: AnswerBook) -> None:
    for _ in range(2):
        book.answer("r1", "pos", annotator="ann", name="x")
    assert book.progress("ann")["mine"] == 1
    with pytest.raises(us.UnderstudyError, match="is another one already"):
        book.answer("r1", "neg", annotator="ann", name="x")
    assert book.undo(annotator="ann", undoes="x", name="u") == "r1"
    assert book.undo(annotator="ann", undoes="x", name="u") == "r1"
    book.answer("r1", "pos", annotator="ann", name="x")  # a late retry of what was undone
    assert book.answers() == {} and book.progress("ann")["mine"] == 0


def test_undo_brings_back_the_answer_before(book: AnswerBook) -> None:
    for label in ("pos", "neg"):
        book.answer("r1", label, annotator="ann")
    assert book.answers() == {"r1": "neg"} and book.progress("ann")["finished"] == 1
    book.undo(annotator="ann")
    assert book.answers() == {"r1": "pos"} and book.progress("ann")["finished"] == 1
    book.undo(annotator="ann")
    assert book.answers() == {} and book.undo(annotator="ann") is None


def test_people_undo_only_their_own_answers(book: AnswerBook) -> None:
    book.answer("r1", "pos", annotator="ann", name="x")
    with pytest.raises(us.UnderstudyError, match="not there any more"):
        book.undo(annotator="bob", undoes="x")
    assert book.undo(annotator="bob") is None and book.answers() == {"r1": "pos"}


def test_lines_are_only_added(book: AnswerBook) -> None:
    book.answer("r1", "pos", annotator="ann")
    with sqlite3.connect(book.path) as file:
        for statement in ("UPDATE answers SET label='neg'", "DELETE FROM answers"):
            with pytest.raises(sqlite3.IntegrityError, match="only added"):
                file.execute(statement)
    file.close()


def test_two_people_get_different_rows_until_a_lease_ends(tmp_path: Path) -> None:
    clock = Clock()
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"], lease=60, clock=clock) as book:
        book.add(["r0", "r1", "r2"])
        assert list(book.hand_out("ann", count=2)) == ["r0", "r1"]
        assert list(book.hand_out("bob", count=2)) == ["r2"]
        clock.now += 59
        assert list(book.hand_out("ann", count=2, have=["r0", "r1"])) == []  # renewed
        clock.now += 2
        assert list(book.hand_out("bob", count=2)) == ["r2"]
        clock.now += 60
        assert list(book.hand_out("bob", count=3)) == ["r0", "r1", "r2"]


def test_a_clock_that_is_set_back_keeps_no_lease(tmp_path: Path) -> None:
    clock = Clock()
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"], lease=60, clock=clock) as book:
        book.add(["r0", "r1"])
        book.hand_out("ann", count=2)
        clock.now -= 100_000
        assert list(book.hand_out("bob", count=2)) == []
        clock.now += 61
        assert list(book.hand_out("bob", count=2)) == ["r0", "r1"]


@pytest.mark.parametrize("answered", [True, False])
def test_a_row_keeps_the_content_it_was_added_with(answered: bool, tmp_path: Path) -> None:
    def opened(content: str, rows: str = "id,text,more\nr1,{},x\nr2,fine,y\n", **shown: Any) -> AnswerBook:
        (tmp_path / "rows.csv").write_text(rows.format(content))
        cards = Cards.of(tmp_path / "rows.csv", **{"text": "text", **shown})
        book = AnswerBook(tmp_path / "a.book", ["neg", "pos"], pin=cards.pin)
        book.add(cards.ids)
        return book

    with opened("bad") as book:
        if answered:
            book.answer("r1", "neg", annotator="ann")
    with pytest.raises(us.UnderstudyError, match=r"a.book has row 'r1' with another 'text': .* restore the row"):
        opened("good")
    with pytest.raises(us.UnderstudyError, match="with another 'text'"):
        opened("bad", text="more")  # nothing of what people saw
    same: list[dict[str, Any]] = [{}, {"fields": ["more"]}, {"rows": "id,text\nr2,fine\nr3,new\nr1,{}\n"}]
    for again in same:
        with opened("bad", **again) as book:  # more columns, rows and another order
            assert book.answers() == ({"r1": "neg"} if answered else {})


def test_a_tab_gets_its_rows_again_and_another_tab_others(book: AnswerBook) -> None:
    assert list(book.hand_out("ann", tab="one", count=2)) == ["r0", "r1"]
    assert list(book.hand_out("ann", tab="two", count=2)) == ["r2", "r3"]
    assert list(book.hand_out("ann", tab="one", count=2)) == ["r0", "r1"]
    for id in ("r0", "r1", "r4", "r5"):
        book.answer(id, "pos", annotator="ann")
    assert list(book.hand_out("ann", tab="one", count=2)) == ["r2", "r3"], "of a tab that may be closed by now"


def test_an_undone_row_comes_back_to_its_tab_first(book: AnswerBook) -> None:
    book.hand_out("ann", tab="one", count=2)
    book.answer("r0", "pos", annotator="ann")
    assert book.undo(annotator="ann", tab="one") == "r0"
    assert list(book.hand_out("bob", count=9)) == ["r2", "r3", "r4", "r5"]
    assert list(book.hand_out("ann", tab="one", count=2)) == ["r0", "r1"]


def test_an_undone_row_is_for_everybody_once_its_lease_ends(tmp_path: Path) -> None:
    clock = Clock()
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"], lease=60, clock=clock) as book:
        book.add(["r0", "r1", "r2"])
        book.answer("r0", "pos", annotator="ann")
        assert list(book.hand_out("bob", count=3)) == ["r1", "r2"]
        book.undo(annotator="ann")
        clock.now += 61
        assert list(book.hand_out("bob", count=3)) == ["r0", "r1", "r2"]


@pytest.mark.parametrize("seed", range(4))
def test_against_a_book_that_remembers_everything(tmp_path: Path, seed: int) -> None:
    """Random answers, undos and re-openings, held against lists that are gone through from the start each time."""
    random = Random(seed)
    people, ids = ["ann", "bob", "eve"], [f"r{number}" for number in range(12)]
    book = AnswerBook(tmp_path / "a.book", ["neg", "pos"], overlap=0.5, people=2)
    book.add(ids)
    needed = {id: 2 if book._is_shared(id) else 1 for id in ids}
    said: list[tuple[str, str, str | None]] = []
    for _ in range(60):
        who = random.choice(people)
        mine = [each for each in said if each[0] == who]
        if mine and random.random() < 0.3:
            assert book.undo(annotator=who) == mine[-1][1]
            said.reverse()
            said.remove(mine[-1])
            said.reverse()
        else:
            said.append((who, random.choice(ids), random.choice(["neg", "pos", None])))
            book.answer(said[-1][1], said[-1][2], annotator=who)
        if random.random() < 0.1:
            book.close()
            book = AnswerBook(tmp_path / "a.book")
        stands = {(id, who): label for who, id, label in said}
        count = {id: sum((id, who) in stands for who in people) for id in ids}
        assert book.waiting() == [id for id in ids if count[id] < needed[id]]
        given = {(id, who): line.label for id, each in book.given().items() for who, line in each.items()}
        assert given == stands
        for who in people:
            free = [id for id in ids if count[id] < needed[id] and (id, who) not in stands]
            progress = book.progress(who)
            assert (progress["left"], progress["mine"]) == (len(free), sum(each[0] == who for each in said))
            for each in people:  # an undone row is with whoever undid it
                book.file.give_back(each, "")
            assert list(book.hand_out(who, count=20)) == free
    book.close()


def test_rows_that_overlap_go_to_two_people(tmp_path: Path) -> None:
    ids = [f"row {number}" for number in range(1000)]
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"], overlap=0.25) as book:
        book.add(ids)
        for id in ids:
            book.answer(id, "pos", annotator="ann")
        shared = book.waiting()
        assert 200 < len(shared) < 300 and book.progress("ann")["left"] == 0
        assert book.progress("bob")["left"] == len(shared)
        assert list(book.hand_out("bob", count=2000)) == shared and not book.hand_out("ann", count=9)
        book.answer(shared[0], "neg", annotator="bob")
        assert book.answers()[shared[0]] is None, "a tie is no label"
        assert book.progress("bob")["left"] == len(shared) - 1
    with AnswerBook(tmp_path / "b.book", ["neg", "pos"], overlap=0.25) as other:
        other.add(ids[::-1])
        other.answer(shared[0], "pos", annotator="ann")
        assert shared[0] in other.waiting(), "drawn by the id alone"


def test_votes_are_a_teachers_labels(tmp_path: Path) -> None:
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"], overlap=1.0) as book:
        book.add(["a", "b", "c"])
        book.answer("b", "pos", annotator="bob")
        book.answer("b", "neg", annotator="ann")
        book.answer("c", None, annotator="ann")
        ids, votes = book.votes()
        assert ids == ["b", "c"] and votes.votes.tolist() == [[0, 1], [-1, -1]]
        assert isinstance(votes, us.Votes) and votes.sources == ("ann", "bob")


def test_agreement_is_that_of_the_rows_several_people_labelled(tmp_path: Path) -> None:
    with AnswerBook(tmp_path / "a.book", ["a", "b"], overlap=1.0, people=3) as book:
        book.add(["1", "2", "3", "4", "5"])
        assert book.agreement() == (None, 0)
        for id, labels in {"1": "aa", "2": "ab", "3": "bb", "4": "a", "5": "a-"}.items():
            for who, label in zip(("ann", "bob"), labels, strict=False):
                book.answer(id, None if label == "-" else label, annotator=who)
        alpha, rows = book.agreement()
        assert rows == 3 and alpha == pytest.approx(4 / 9), "by hand in tests/maths/test_agreement.py"
        book.undo(annotator="bob")
        book.undo(annotator="bob")
        assert book.agreement()[1] == 2, "what was undone counts no more"


def test_most_people_decide() -> None:
    assert most_common(["a", "b", "a", None, None, None]) == "a"
    assert most_common(["a", "b"]) is None and most_common([None]) is None


def test_two_processes_share_a_book(book: AnswerBook) -> None:
    """Each sees what the other wrote, rows and leases included."""
    with AnswerBook(book.path) as other:
        other.answer("r0", "pos", annotator="bob", name="x")
        book.answer("r0", "pos", annotator="bob", name="x")
        assert book.progress("bob")["mine"] == 1 and book.waiting()[0] == "r1"
        assert list(other.hand_out("bob", count=1)) == ["r1"] and list(book.hand_out("ann")) == ["r2"]
        book.add(["new"])
        assert other.waiting()[-1] == "new" and not other.wait(0.01, ["new"])
        book.answer("new", "neg", annotator="ann")
        assert other.wait(60, ["new"])


def test_a_failed_write_leaves_nothing_behind(book: AnswerBook) -> None:
    with pytest.raises(KeyboardInterrupt), book.file.writing():
        book.answer("r0", "pos", annotator="ann")
        raise KeyboardInterrupt
    assert book.answers() == {} and book.progress("ann")["finished"] == 0
    book.answer("r0", "neg", annotator="ann")
    assert book.answers() == {"r0": "neg"}


def test_suggestions_are_kept_with_the_answer_and_never_shown_where_rows_estimate(tmp_path: Path) -> None:
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"]) as book:
        book.add(["c", "e"], chosen=[True, False])
        assert book.hand_out("ann", count=2, suggests=lambda id: True) == {"c": True, "e": False}
        book.answer("c", "pos", annotator="ann")
        book.answer("e", "pos", annotator="ann")
        book.answer("c", "pos", annotator="bob")
        given = book.given()
        assert given["c"]["ann"].suggested and not given["e"]["ann"].suggested and not given["c"]["bob"].suggested


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"classes": ["a", "a"]}, "different names"),
        ({"classes": ["a"]}, "two or more classes"),
        ({"classes": ["a", "b"], "overlap": 2.0}, "no share"),
        ({"classes": ["a", "b"], "people": 1}, "two people or more"),
        ({}, "does not exist"),
    ],
)
def test_impossible_books_are_refused(tmp_path: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(us.UnderstudyError, match=words):
        AnswerBook(tmp_path / "a.book", **options)  # type: ignore[arg-type]


def test_a_book_goes_on_as_it_was_begun(book: AnswerBook) -> None:
    book.answer("r1", "pos", annotator="ann")
    with pytest.raises(us.UnderstudyError, match=r"begun with overlap 0\.0"):
        AnswerBook(book.path, overlap=0.5)
    with pytest.raises(us.UnderstudyError, match="holds answers 'pos'"):
        AnswerBook(book.path, ["neg", "neutral"])
    with AnswerBook(book.path, ["neg", "neutral", "pos"]) as more:
        assert more.classes == ("neg", "neutral", "pos")
    with pytest.raises(us.UnderstudyError, match="none of the classes"):
        book.answer("r1", "other", annotator="ann")
    with pytest.raises(us.UnderstudyError, match="not among the rows"):
        book.answer("r99", "pos", annotator="ann")


@pytest.mark.parametrize("table", ["rows", "answers", "settings", "pins"])
def test_cells_that_a_damaged_disk_gives_are_one_line(tmp_path: Path, table: str) -> None:
    """SQLite has no checksums: any cell may come back as something else."""
    path = tmp_path / "rows.book"
    with AnswerBook(path, ["neg", "pos"], pin=lambda id: {"text": id}) as book:
        book.add(["a", "b"])
        book.answer("a", "pos", annotator="ann")
    with sqlite3.connect(path) as file:
        file.execute("DROP TRIGGER answers_stay")
        column = {"rows": "needed", "answers": "row", "settings": "value", "pins": "pin"}[table]
        file.execute(f"UPDATE {table} SET {column}=?", (b"\xe9\xff",))
    file.close()
    refused = pytest.raises(us.UnderstudyError, match=r"cannot use the book .*; check the path, the disk and the file")
    with refused, AnswerBook(path, pin=lambda id: {"text": id}) as book:
        book.add(["a"])


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "theirs.db") as file:
        file.execute("CREATE TABLE theirs(x)")
    file.close()
    (tmp_path / "text.book").write_text("not a database at all, but a text of some length\n" * 40)
    for name, words in (("theirs.db", "another program's"), ("text.book", "not a database")):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(us.UnderstudyError, match=words):
            AnswerBook(tmp_path / name, ["a", "b"])
        assert (tmp_path / name).read_bytes() == before


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    """A process that answers row after row and says so is killed; what it said it had kept is kept."""
    code = """
import sys
from understudy.web.answer_book import AnswerBook
book = AnswerBook(sys.argv[1], ["neg", "pos"])
book.add([str(number) for number in range(10_000)])
for number in range(10_000):
    book.answer(number, "pos", annotator="ann", name=f"n{number}")
    print(number, flush=True)
"""
    path = tmp_path / "a.book"
    worker = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    said = [int(worker.stdout.readline()) for _ in range(40)]
    os.kill(worker.pid, signal.SIGKILL)
    said += [int(line) for line in worker.stdout.read().split("\n")[:-1] if line]
    worker.wait()
    worker.stdout.close()
    with AnswerBook(path) as book:
        kept = len(book.answers())
        assert len(said) <= kept <= len(said) + 1
        book.answer(kept - 1, "pos", annotator="ann", name=f"n{kept - 1}")
        assert len(book.answers()) == kept


def test_every_transaction_is_synced(tmp_path: Path) -> None:
    """Power may go at any moment: 2 is FULL, which syncs the write-ahead log at each commit."""
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"]) as book:
        assert book.file._file.execute("PRAGMA synchronous").fetchone() == (2,)
        assert book.file._file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
