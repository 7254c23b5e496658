"""Example data: scikit-learn's digits, and messages to a shop's support with the labels of an LLM and of a crowd.

    write_tickets(Path("tickets"))        # mine.csv, messages.csv, answers.jsonl, crowd.csv, gold.csv, test.csv

The messages are made up: each has one intent, which is its class, two in five also mention something else, and six in a
hundred are too vague to classify. The imitated LLM errs where something else is mentioned: every other time it answers
with that. The crowd is six people who each saw half of the messages; four are good, one is careless, and one calls
everything technical. Same seed, same files.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from understudy.errors import UnderstudyError
from understudy.store.files import write_text

if TYPE_CHECKING:
    from torch import Tensor

CLASSES = ("billing", "cancellation", "delivery", "technical")
POOL, GOLD, TEST = 1500, 120, 500

# What customers want (one class each), mention in passing, or write too vaguely to be classified.
PHRASES = json.loads(Path(__file__).with_name("ticket_phrases.json").read_text(encoding="utf-8"))
# Accuracy, and the label where it is wrong; None: any.
CROWD = {
    "ana": (0.95, None), "ben": (0.9, None), "chi": (0.88, None), "dev": (0.85, None), "eli": (0.5, None),
    "fay": (0.0, "technical"),
}  # fmt: skip


@dataclass(frozen=True)
class Ticket:
    id: str
    text: str
    label: str
    mentions: str | None
    vague: bool


def write_tickets(folder: Path, seed: int = 0) -> list[Path]:
    """Six files in a new folder, as a user has them before a training."""
    if folder.exists() and (folder.is_file() or any(folder.iterdir())):
        raise UnderstudyError(f"{folder} already exists and is not empty; choose a new folder with --out")
    random = Random(seed)
    pool, test = make_tickets(random)
    gold = sorted(random.sample(pool, GOLD), key=lambda ticket: ticket.id)
    answers = {ticket.id: _answer(random, ticket) for ticket in pool}
    checked = {ticket.id: ticket.label for ticket in gold}
    mine = ((ticket.text, answers[ticket.id][0], checked.get(ticket.id, "")) for ticket in pool)
    files = {
        "mine.csv": _table(("message", "llm", "checked"), mine),
        "messages.csv": _table(("id", "message"), ((ticket.id, ticket.text) for ticket in pool)),
        "answers.jsonl": "".join(json.dumps({"id": id, "answer": words}) + "\n" for id, (_, words) in answers.items()),
        "crowd.csv": _table(("id", *CROWD), ((ticket.id, *_votes(random, ticket)) for ticket in pool)),
        "gold.csv": _table(("id", "label"), ((ticket.id, ticket.label) for ticket in gold)),
        "test.csv": _table(("id", "message", "label"), ((ticket.id, ticket.text, ticket.label) for ticket in test)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_text(folder / name, content)
    return [folder / name for name in files]


def make_tickets(random: Random) -> tuple[list[Ticket], list[Ticket]]:
    """The pool with its true labels, and the test rows."""
    tickets = [_ticket(random, f"t{number:04d}") for number in range(POOL + TEST)]
    return tickets[:POOL], tickets[POOL:]


def _ticket(random: Random, id: str) -> Ticket:
    label = random.choice(CLASSES)
    mentions = random.choice([name for name in CLASSES if name != label]) if random.random() < 0.4 else None
    vague = random.random() < 0.06
    sentences = [_phrase(random, PHRASES["vague"] if vague else PHRASES["intents"][label])]
    sentences += [_phrase(random, PHRASES["mentions"][mentions])] if mentions else []
    random.shuffle(sentences)
    order = f"Order {random.randrange(10_000, 100_000)}."
    text = " ".join([random.choice(PHRASES["openings"]), *sentences, order, random.choice(PHRASES["closings"])])
    return Ticket(id, text.strip(), label, mentions, vague)


def _phrase(random: Random, phrases: Sequence[str]) -> str:
    chosen = random.choice(phrases)
    return chosen[0].upper() + chosen[1:] + random.choice(".!")


def _answer(random: Random, ticket: Ticket) -> tuple[str, str]:
    """The LLM's label and its answer in words; now and then there is no label."""
    if random.random() < 0.02:
        return "", random.choice(["I cannot tell.", "billing or delivery", "Please give me more context."])
    misled = random.random() < 0.5
    sees = random.random() < (0.25 if ticket.vague else 0.95)
    label = ticket.mentions if misled and ticket.mentions else ticket.label if sees else random.choice(CLASSES)
    return label, random.choice(["{}", "{}", "{}", "{}.", "This is about {}."]).format(label)


def _votes(random: Random, ticket: Ticket) -> Iterable[str]:
    """Each annotator's label; empty where the message was not shown."""
    for accuracy, wrong in CROWD.values():
        answered, correct, guess = random.random() < 0.5, random.random() < accuracy, random.choice(CLASSES)
        yield (ticket.label if correct else wrong or guess) if answered else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def digits() -> "tuple[Tensor, Tensor]":
    """1,797 images of 8×8 in 10 classes: ``x (1797, 64)`` scaled to [0, 1], ``y (1797,)``."""
    # Imported here: they would add seconds to every start.
    import torch
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return torch.from_numpy(bunch.data / 16.0).float(), torch.from_numpy(bunch.target).long()
