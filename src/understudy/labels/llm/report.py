"""What became of every line of a file of answers: each falls into one category, and the counts add up to the lines.

print(answers.report)                    # a small table, with a few examples of what could not be used
answers.report.counts["unknown answer"]
"""

from collections import Counter
from dataclasses import dataclass, field

EXACT = "exactly a class name"
NORMALISED = "other case, spaces or punctuation"
ALIAS = "an alias"
MENTIONED = "one class named in a sentence"
NEAR = "near miss (typing error)"
PREFIX = "cut off, but only one class begins so"
USED = (EXACT, NORMALISED, ALIAS, MENTIONED, NEAR, PREFIX)

UNKNOWN = "unknown answer"
AMBIGUOUS = "ambiguous answer"
EMPTY = "empty answer"
REFUSED = "refused"
TRUNCATED = "cut off (token limit)"
ERROR = "error of the service"
MALFORMED = "malformed line"
BLANK = "blank line"
NO_LOGPROBS = "no usable log-probabilities"
REPEATED = "repeated, same answer"
CONFLICT = "conflicting answers for one id"
NOT_USED = (
    *(UNKNOWN, AMBIGUOUS, EMPTY, REFUSED, TRUNCATED, ERROR),
    *(MALFORMED, BLANK, NO_LOGPROBS, REPEATED, CONFLICT),
)

_EXAMPLES = 5
_WIDTH = 60


@dataclass
class Report:
    lines: int = 0
    """Answers that were judged: a line's, or each of a line's several choices."""
    unit: str = "lines"
    """What they are called: ``answers`` where a line held several."""
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """``file:line`` and text by category; the text as it came, not fit for a terminal before ``printable``."""
    malformed: list[str] = field(default_factory=list)
    """``file:line`` of every malformed line."""
    notes: list[str] = field(default_factory=list)

    @property
    def used(self) -> int:
        return sum(self.counts[name] for name in USED)

    def count(self, category: str, where: str, text: str) -> None:
        self.counts[category] += 1
        if category == MALFORMED:
            self.malformed.append(where)
        if category in NOT_USED:
            shown = self.examples.setdefault(category, [])
            if len(shown) < _EXAMPLES:
                shown.append((where, text))

    def __str__(self) -> str:
        return "\n".join([*self._table(), *self._shown(), *(f"note: {note}" for note in self.notes)])

    def _table(self) -> list[str]:
        rows = [("used", self.used), *_indented(self.counts, USED)]
        rows += [("not used", self.lines - self.used), *_indented(self.counts, NOT_USED), (self.unit, self.lines)]
        wide, long = max(len(name) for name, _ in rows), max(len(f"{number:,}") for _, number in rows)
        return [f"{name:{wide}}  {number:>{long},}" for name, number in rows]

    def _shown(self) -> list[str]:
        """Up to five of the lines that were not used: the first of every category before the second of any."""
        mine = [(name, self.examples[name]) for name in NOT_USED if name in self.examples and name != BLANK]
        turns = [(name, shown[turn]) for turn in range(_EXAMPLES) for name, shown in mine if turn < len(shown)]
        lines = [f"  {where}: {name}: {printable(text)}" for name, (where, text) in turns[:_EXAMPLES]]
        return ["not used, for example:", *lines] if lines else []


def _indented(counts: Counter[str], names: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(f"  {name}", counts[name]) for name in names if counts[name]]


def printable(text: str, width: int = _WIDTH) -> str:
    """A stranger's text for a terminal: one line, cut to ``width``, control and direction characters escaped."""
    start = text[: width + 1]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in start)
    return f'"{safe}"' if len(safe) <= width else f'"{safe[:width]}…"'
