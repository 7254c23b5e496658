"""What people said in another tool: one opinion per person and row, and what becomes of them together.

    opinions = TOOLS["label-studio"].read(path, Reading(("neg", "pos")))
    gathered = gather(opinions, ("neg", "pos"), aliases={}, where=str(path))
    gathered.answers("answers")        # id, label, suggestion_shown: what --gold +answers.csv takes
    gathered.votes()                   # id, teacher_vote_NAME: what each person said, for a pool

Labels are matched by the letter, or by the aliases a user gives; one that is no class ends the reading, with how many
there are. An answer given with a suggestion in view leans to it and must never estimate: it is marked. Where a file
does not say whether there was one, there was.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from understudy.errors import UnderstudyError
from understudy.io.answers import SHOWN, TRUE

SKIP = "skip"
OPEN = "not answered"
SEVERAL = "more than one class, or a class and others"


@dataclass(frozen=True)
class Opinion:
    id: str
    who: str
    labels: tuple[str, ...] = ()
    """What was chosen; nothing, where ``why`` says so."""
    why: str = ""
    """Why there is no label."""
    open: bool = False
    """Nobody has answered, or not finally: not the same as a row that was passed over."""
    shown: bool | None = None
    """Whether a suggestion was in view; None: the file does not say."""
    chosen: bool | None = None
    """Whether a strategy picked the row; None: the task did not say."""


@dataclass(frozen=True)
class Reading:
    """What is looked for in a file."""

    classes: Sequence[str]
    question: str | None = None
    """What the question for the class is called; None: the only one, or ours."""
    row: str | None = None
    """The entry that holds the row's id; None: the one we write."""


@dataclass
class Gathered:
    classes: Sequence[str]
    by_row: dict[str, dict[str, str | None]]
    """Row, person, class (None: skipped); whoever contradicts themselves is left out."""
    shown: dict[str, bool]
    chosen: dict[str, bool | None]
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def people(self) -> list[str]:
        return list(dict.fromkeys(who for said in self.by_row.values() for who in said))

    def split(self) -> list[str]:
        """Rows that people call by different classes."""
        return [name for name, said in self.by_row.items() if len(_classes(said)) > 1]

    def answers(self, form: str, where: str) -> dict[str, list[Any]]:
        """One answer per row; rows that people disagree on are refused, or left out where ``form`` is "agreed"."""
        split = set(self.split())
        if split and form != "agreed":
            raise UnderstudyError(
                f"{where}: {len(split)} rows are called by different classes by several people ({min(split)!r} …); "
                "--as votes keeps what each person said, --as agreed leaves these rows out"
            )
        rows = [name for name in self.by_row if name not in split]
        passed = "-1" if SKIP in self.classes else SKIP
        columns: dict[str, list[Any]] = {
            "id": rows,
            "label": [next(iter(_classes(self.by_row[name])), passed) for name in rows],
        }
        if any(self.chosen[name] is not None for name in rows):
            columns["chosen"] = [int(self.chosen[name] is not False) for name in rows]
        return columns | {SHOWN: [str(self.shown[name]).lower() for name in rows]}

    def votes(self) -> dict[str, list[Any]]:
        """What each person said of each row; empty: nothing."""
        said = self.by_row
        by_person = {f"teacher_vote_{who}": [said[name].get(who) or "" for name in said] for who in self.people}
        return {"id": list(said)} | by_person

    def account(self) -> str:
        """What became of everything in the file, in a line."""
        skipped = sum(not _classes(said) for said in self.by_row.values())
        labelled = f"{len(self.by_row) - skipped:,} of {len(self.by_row):,} rows have a label"
        parts = [f"{labelled} ({_counted(len(self.people), 'person', 'people')})"]
        parts += [f"{skipped:,} skipped"] if skipped else []
        parts += [f"{count:,} {what}" for what, count in self.counts.items() if count]
        marked = sum(self.shown.values())
        return "; ".join(parts) + (f"; {marked:,} with a suggestion in view, which never estimate" if marked else "")


def gather(opinions: Iterable[Opinion], classes: Sequence[str], *, aliases: Mapping[str, str], where: str) -> Gathered:
    """Opinions by row and person, labels as classes."""
    opinions = list(opinions)
    meant = _meanings(opinions, classes, aliases, where)
    found = Gathered(classes, {}, {}, {})
    against: set[tuple[str, str]] = set()
    for one in opinions:
        label = meant[one.labels[0]] if len(one.labels) == 1 else None
        if one.open:
            found.counts[one.why] += 1
            continue
        if len(one.labels) > 1 or one.why:
            found.counts[one.why or SEVERAL] += 1
        said = found.by_row.setdefault(one.id, {})
        if one.who in said and (one.id, one.who) not in against:
            same = said[one.who] == label
            found.counts["repeated, same answer" if same else "by one person, different answers: none counts"] += 1
            if not same:
                against.add((one.id, one.who))
        said[one.who] = None if (one.id, one.who) in against else label
        found.shown[one.id] = found.shown.get(one.id, False) or one.shown is not False
        if found.chosen.get(one.id) is not True:
            found.chosen[one.id] = one.chosen
    if not found.by_row:
        raise UnderstudyError(f"{where}: nothing is answered yet ({len(opinions)} entries); label some rows first")
    return found


def true_of(value: Any) -> bool | None:
    """A mark of ours as it came back, perhaps as text; None: there is none."""
    return None if value is None or value == "" else str(value).strip().lower() in TRUE


def row_name(value: Any, where: str, key: str) -> str:
    """An id by the letter."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise UnderstudyError(
            f"{where} has no {key!r} with the id of its row ({value!r}); name the entry that holds it: --id NAME"
        )
    return str(value)


def only_question(found: Iterable[str], reading: Reading, where: str) -> str:
    """The question that asks for the class."""
    names = sorted(set(found))
    if reading.question is not None:
        if names and reading.question not in names:
            raise UnderstudyError(f"{where} asks {', '.join(names)}, not {reading.question!r}; correct --question")
        return reading.question
    if len(names) > 1:
        raise UnderstudyError(
            f"{where} asks {len(names)} questions ({', '.join(names)}); say which one: --question NAME"
        )
    return names[0] if names else ""


def _meanings(
    opinions: Iterable[Opinion], classes: Sequence[str], aliases: Mapping[str, str], where: str
) -> dict[str, str | None]:
    for word, name in aliases.items():
        if name not in classes and name != SKIP:
            raise UnderstudyError(f"--alias {word}={name}: {name!r} is none of the classes ({', '.join(classes)})")
    known = {name: name for name in classes} | dict(aliases)
    words = Counter(label for one in opinions for label in one.labels)
    unknown = {word: count for word, count in words.items() if word not in known}
    if unknown:
        listed = ", ".join(f"{word!r} {count} times" for word, count in list(unknown.items())[:5])
        raise UnderstudyError(
            f"{where}: labels that are none of the classes ({', '.join(classes[:8])}): {listed}; say what they mean: "
            "--alias WORD=CLASS (or WORD=skip), or correct --classes"
        )
    return {word: None if name == SKIP and SKIP not in classes else name for word, name in known.items()}


def _classes(said: Mapping[str, str | None]) -> set[str]:
    return {label for label in said.values() if label is not None}


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
