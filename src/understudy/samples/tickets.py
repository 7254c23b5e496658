"""Messages to a shop's support, what an LLM and a crowd made of them, and some labels that are right.

    write_tickets(Path("tickets"))        # mine.csv, messages.csv, answers.jsonl, crowd.csv, gold.csv, test.csv

The messages are made up: each has one intent, which is its class, two in five also mention something else, and six in a
hundred are too vague to tell. The imitated LLM errs where something else is mentioned: it names that every other time.
The crowd is six people who each saw half of the messages; four are good, one is careless, and one calls everything
technical. Same seed, same files.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from understudy.errors import UnderstudyError
from understudy.store.files import write_text

CLASSES = ("billing", "cancellation", "delivery", "technical")
POOL, GOLD, TEST = 1500, 120, 500

# What somebody wants, in words that a hundred labels do not exhaust.
INTENTS = {
    "billing": """I was charged twice|my card was debited again|the sum is wrong|you took 40 euros too much|where is my
        money|the discount is missing|I never agreed to this fee|the tax is not listed|send me a corrected invoice|I
        expect a refund|the voucher was not counted|why did the amount go up|I need a receipt|the bank reversed it|a
        reminder came although I paid|my bill shows two items instead of one|please change the payer|the rate is not
        what we agreed|what is this surcharge for|our accountant asks about the balance|you owe me the deposit|PayPal
        says it failed|split it into instalments|the currency is wrong""",
    "cancellation": """I want to leave|close my account|end the subscription|please do not renew|we are moving to a
        competitor|stop everything at once|take me off the list|I no longer need it|how do I get out of this|my notice
        is attached|terminate the contract|this was only a trial|delete my data|my father has died and cannot use it|I
        withdraw from the purchase|we shut down the company|I regret signing up|let it run out in May|unsubscribe me|
        goodbye and no hard feelings|I quit|turn off the automatic extension|make this my last month|we part here""",
    "delivery": """my parcel has not arrived|the box came damaged|it went to a neighbour I do not know|the tracking has
        not moved|half of it was missing|you sent the wrong size|it is stuck in customs|nobody rang the bell|I moved,
        here is the new address|can I collect it myself|the driver threw it over the fence|when will it be here|it was
        left in the rain|the label was torn off|I am away until Friday|the glass is broken|I got somebody else's
        things|it is two weeks late|please leave it with the porter|the depot knows nothing|ship it again|the seal was
        open|is Saturday possible|I still wait for the second half""",
    "technical": """the screen stays black|I cannot log in|it crashes when I tap save|error 502 again|the password
        mail never comes|my photos are gone|it freezes after a minute|the button does nothing|nothing loads|it drains
        the battery|sound is out of sync|the export is empty|dark mode is unreadable|since the update it is slow|it
        does not find my printer|the search returns rubbish|two-factor codes are refused|the map is upside down|my
        settings are forgotten|it asks for permission each time|the keyboard covers the field|Bluetooth drops|the
        installer hangs at 99 percent|notifications arrive twice""",
}
# What is said by the way.
MENTIONS = {
    "billing": "I paid by card|the invoice is from March|the price is fine|the refund came, thanks",
    "cancellation": "otherwise I will cancel|my sister has cancelled already|I had a subscription before",
    "delivery": "the parcel itself came on time|I ordered on Monday|the courier was friendly",
    "technical": "I wrote through the app|the website works fine|I am no good with computers",
}
# Nobody can tell what these are about.
VAGUE = "please call me back|it has happened again|nobody has answered me yet|I am really disappointed"
OPENINGS = ("Hello,", "Hi there,", "Good morning,", "To whom it may concern,", "Hey,", "Dear team,", "")
CLOSINGS = ("Thanks.", "Best wishes", "Please hurry.", "Regards, a customer", "I have waited for days.", "")
# Right how often, and what is said where it is not: None is anything.
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
    """Six files in a new folder: what one has before a training."""
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
    """The pool, whose truth nobody is told, and the test rows."""
    tickets = [_ticket(random, f"t{number:04d}") for number in range(POOL + TEST)]
    return tickets[:POOL], tickets[POOL:]


def _ticket(random: Random, id: str) -> Ticket:
    label = random.choice(CLASSES)
    mentions = random.choice([name for name in CLASSES if name != label]) if random.random() < 0.4 else None
    vague = random.random() < 0.06
    said = [_phrase(random, VAGUE if vague else INTENTS[label])]
    said += [_phrase(random, MENTIONS[mentions])] if mentions else []
    random.shuffle(said)
    order = f"Order {random.randrange(10_000, 100_000)}."
    text = " ".join([random.choice(OPENINGS), *said, order, random.choice(CLOSINGS)])
    return Ticket(id, text.strip(), label, mentions, vague)


def _phrase(random: Random, phrases: str) -> str:
    chosen = " ".join(random.choice(phrases.split("|")).split())
    return chosen[0].upper() + chosen[1:] + random.choice(".!")


def _answer(random: Random, ticket: Ticket) -> tuple[str, str]:
    """What the LLM means, and the words it might use; now and then it means nothing."""
    if random.random() < 0.02:
        return "", random.choice(["I cannot tell.", "billing or delivery", "Please give me more context."])
    misled = random.random() < 0.5
    sees = random.random() < (0.25 if ticket.vague else 0.95)
    label = ticket.mentions if misled and ticket.mentions else ticket.label if sees else random.choice(CLASSES)
    return label, random.choice(["{}", "{}", "{}", "{}.", "This is about {}."]).format(label)


def _votes(random: Random, ticket: Ticket) -> Iterable[str]:
    """What each of the crowd said; nothing where it did not see the message."""
    for right, else_said in CROWD.values():
        answered, correct, guess = random.random() < 0.5, random.random() < right, random.choice(CLASSES)
        yield (ticket.label if correct else else_said or guess) if answered else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()
