"""The server of the label page, in a thread of its own, for a command, a campaign or a notebook; and its files.

    with LabelServer(book, cards, annotators=["ann", "bob"]) as server:
        print(server.urls)                         # a secret link for each
        book.wait(3600)

It listens on this machine alone (127.0.0.1) unless another host is named. It may be stopped, or killed, at any moment:
the book has every answer, and links stay valid when it is started again on the same port.

    write_answers(book, Path("batch-answers.csv"), rows=Path("batch.csv"))     # what train --gold +FILE takes

A row's label is the majority's; where people tie, or all skipped, it is ``skip``, which trains nothing. ``chosen`` is
0 where the row is of a random sample, so that it may calibrate; ``suggestion_shown`` is true where a person saw a
suggestion, and then it never does. An earlier export is replaced, unless it was changed since.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError, optional, warn
from understudy.io.label_columns import DRAWN, SHOWN
from understudy.io.table import Stored, text_columns
from understudy.io.write import WRITERS
from understudy.store.arrow import object_column
from understudy.store.files import appearing_whole, current_user, digest
from understudy.store.log import LabelHistory, history_beside
from understudy.web.answer_book import AnswerBook, most_common
from understudy.web.cards import Cards, read_guideline
from understudy.web.server import LOOPBACK, HttpServer, free_port

PORT = 8420
ANSWERS, VOTES = (".csv", ".parquet"), (".parquet", ".csv", ".jsonl")


class LabelServer(HttpServer):
    """``urls``: by annotator; ``url``: of the first. ``port``: 0: any that is free; None: the usual one, or another."""

    def __init__(
        self,
        book: AnswerBook,
        cards: Cards,
        *,
        annotators: Sequence[str] | None = None,
        host: str = "127.0.0.1",
        port: int | None = 0,
        title: str | None = None,
        guideline: str | Path | None = None,
        show_suggestion: bool = False,
    ) -> None:
        for module in ("starlette", "uvicorn"):
            optional(module, "the label page needs starlette and uvicorn", "label")
        from understudy.web.access import Access, stored_secret, token_of
        from understudy.web.app import STRANGER, LabelApp

        people = [current_user()] if annotators is None else list(annotators)
        for name in people:
            if not 0 < len(name) <= 60 or not name.isprintable() or name != name.strip():
                raise UnderstudyError(f"{name!r} cannot be an annotator's name; use up to 60 letters")
        if len(set(people)) < len(people) or not people:
            raise UnderstudyError("annotators are named twice, or not at all; name each once")
        if guideline is not None:
            read_guideline(Path(guideline))  # a mistake shows now
        self.book, self.cards, cards.classes = book, cards, book.classes
        if host not in LOOPBACK:
            warn(f"the page is served to {host}, unencrypted: rows and answers can be read on the network")
        secret = stored_secret(book.path.with_name(f"{book.path.name}.key"))
        tokens = {name: token_of(secret, name) for name in people}
        # One cookie per book: they are not separate by port.
        access = Access(host, tokens, f"understudy-{book.settings['book']}", STRANGER)
        app = LabelApp(
            book, cards, access, title=title or book.path.stem, show_suggestion=show_suggestion,
            guideline=None if guideline is None else Path(guideline),
        )  # fmt: skip
        port = free_port(host, PORT) if port is None else port
        super().__init__(app.asgi, host=host, port=port, name="label page", lifespan="off")
        self.urls = {name: f"{self.address}/open/{token}" for name, token in tokens.items()}

    @property
    def url(self) -> str:
        return next(iter(self.urls.values()))


def add_rows(book: AnswerBook, cards: Cards, *, random: bool) -> None:
    """Adds the rows to label; whether a row is chosen or random may not change."""
    marks, known = cards.chosen or [not random] * len(cards.ids), book.chosen()
    for id, mark in zip(cards.ids, marks, strict=True):
        if known.get(id, mark) != mark:
            was = "picked by a strategy" if known[id] else "one of a random sample"
            raise UnderstudyError(f"{book.path} has row {id!r} as {was}; keep --random as it was, or another --book")
    book.add(cards.ids, chosen=marks)
    missing = [id for id in book.waiting() if id not in cards.places]
    if missing:
        lacks = f"{len(missing)} rows that {cards.rows.path} does not have ({missing[0]!r} …)"
        raise UnderstudyError(f"{book.path} waits for {lacks}; name another --book")


def serve_rows(server: LabelServer, out: Path, *, echo: Callable[[str], Any] = print) -> None:
    """Serves until Ctrl-C; writes the answers when all are there, and at the end."""
    book, cards, left = server.book, server.cards, len(server.book.waiting())
    echo(f"{len(cards.ids):,} rows, {left:,} to answer; every answer is stored in {book.path}")
    for name, url in server.urls.items():
        echo(f"{name}: {url}" if len(server.urls) > 1 else f"Open {url}")
    try:
        with server:
            echo("Ctrl-C ends it.")  # from here on
            while left and not book.wait(60):
                pass
            if left:
                echo("All rows are answered.")
                _write(book, cards, out, echo)
            while True:
                server.wait(60)
    except KeyboardInterrupt:
        echo("")
    finally:
        _write(book, cards, out, echo)


def _write(book: AnswerBook, cards: Cards, out: Path, echo: Callable[[str], Any]) -> None:
    people = book.annotators()
    if not people:
        echo("No answers yet; nothing is written.")
        return
    echo(write_answers(book, out, rows=cards.rows.path))
    if len(people) > 1:
        votes = out.with_name(f"{out.stem.removesuffix('-answers')}-votes.parquet")
        write_votes(book, votes, cards)
        alpha, shared_rows = book.agreement()
        agreed = "" if alpha is None else f"; they agree with alpha {alpha:.2f} on {shared_rows:,} rows"
        echo(f"Votes of {len(people)} people{agreed}: {votes}")


def write_answers(book: AnswerBook, path: Path, *, rows: Path | None = None) -> str:
    """Returns what was written, in a line. ``rows``: the file of the rows, whose label history is continued."""
    given, chosen = book.given(), book.chosen()
    if not given:
        raise UnderstudyError(f"{book.path} holds no answers yet; label some rows first")
    nothing = next(word for word in ("skip", "nan", "-1") if word not in book.classes)
    labels = {id: most_common(line.label for line in people.values()) for id, people in given.items()}
    shown = [any(line.suggested for line in people.values()) for people in given.values()]
    columns: dict[str, Stored] = {
        "id": object_column(list(given)),
        "label": object_column([nothing if label is None else label for label in labels.values()]),
        "chosen": np.array([int(chosen[id]) for id in given]),
        SHOWN: object_column(["true" if mark else "false" for mark in shown]),
        "answers": np.array([len(people) for people in given.values()]),
    }
    # As the file of the rows has it, so that estimates may use the labels.
    if rows is not None and DRAWN in (batch := text_columns(rows)) and "id" in batch:
        drawn = dict(zip(batch["id"], batch[DRAWN], strict=True))
        columns[DRAWN] = object_column([drawn.get(id, "") for id in given])
    _replace(book, path, columns, ANSWERS)
    _add_to_history(book, path, rows)
    open_ones = [id for id, label in labels.items() if label is None]
    tied = sum(any(line.label is not None for line in given[id].values()) for id in open_ones)
    counts = {"skipped": len(open_ones) - tied, "without a majority (skip)": tied}
    parts = [f"{len(labels) - len(open_ones):,} labels", *(f"{n:,} {what}" for what, n in counts.items() if n)]
    return f"{', '.join(parts)}: {path}"


def write_votes(book: AnswerBook, path: Path, cards: Cards) -> None:
    """Writes each person's labels as a column ``teacher_vote_NAME`` beside the rows: a pool that ``train``, ``audit``
    and ``reconcile`` read."""
    given = book.given()
    ids = [id for id in given if id in cards.places]
    if not ids:
        raise UnderstudyError(f"{book.path} holds no answers about rows of {cards.rows.path}; label some first")
    places = np.array([cards.places[id] for id in ids])
    columns: dict[str, Stored] = {"id": object_column(ids)}
    columns |= {name: cards.shown.taken(name, places) for name in cards.features()}
    for who in book.annotators():
        votes = [given[id][who].label if who in given[id] else None for id in ids]
        columns[f"teacher_vote_{who}"] = object_column([label or "" for label in votes])
    _replace(book, path, columns, VOTES)


def check_export(book: AnswerBook, path: Path, kinds: tuple[str, ...] = ANSWERS) -> None:
    """Refuses a path where answers cannot be written; called before people begin, too."""
    if path.suffix.lower() not in kinds:
        raise UnderstudyError(f"{path}: answers are written as {' or '.join(kinds)}; end the name in one of them")
    if path.exists() and digest(path.read_bytes()) not in book.file.settings().get(_mark(path), ()):
        raise UnderstudyError(f"{path} was not written by {book.path}, or was changed since; name another file: --out")


def _mark(path: Path) -> str:
    return f"exported {path.absolute()}"


def _replace(book: AnswerBook, path: Path, columns: Mapping[str, Stored], kinds: tuple[str, ...]) -> None:
    check_export(book, path, kinds)
    with appearing_whole(path) as temporary:
        WRITERS[path.suffix.lower()](temporary, columns)
        with book.file.writing():
            # Both checksums, in case of a kill before the new file replaces the old one.
            before = book.file.settings().get(_mark(path), [])
            book.file.set_settings({_mark(path): [*before, digest(temporary.read_bytes())][-2:]})


def _add_to_history(book: AnswerBook, path: Path, rows: Path | None) -> None:
    """Adds what was answered, or undone, since the last export to the label history."""
    history = LabelHistory(history_beside(path))
    if rows is not None and not history.path.exists() and history_beside(rows).exists():
        history.append(LabelHistory(history_beside(rows)).entries())
    source = f"label page, {book.path.name}"
    before_by: dict[str, dict[str, Any]] = {}
    for entry in history.entries():
        if entry.get("source") == source:
            before_by.setdefault(entry["who"], {}).update(entry["answers"])
    now_by: dict[str, dict[str, str | None]] = {}
    for id, people in book.given().items():
        for who, line in people.items():
            now_by.setdefault(who, {})[id] = "skip" if line.label is None else line.label
    for who in sorted({*before_by, *now_by}):
        before, now = before_by.get(who, {}), now_by.get(who, {})
        new = {id: label for id, label in now.items() if before.get(id) != label}
        gone = {id: None for id, label in before.items() if label is not None and id not in now}
        if new:
            history.add("answered", source, new, who=who)
        if gone:
            history.add("taken back", source, gone, who=who)
