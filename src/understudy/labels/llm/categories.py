"""Categories of an LLM's answers: each answer falls into one of them, and the counts add up to the answers.

answers.report.counts["unknown answer"]
print(answers.report)                    # a small table, with a few examples of what could not be used
"""

from collections import Counter
from dataclasses import dataclass, field

from understudy.store.display import from_report

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

# Kept of each category.
EXAMPLES = 5


@dataclass
class AnswerReport:
    """How many answers fell into each category, with examples of those that could not be used."""

    lines: int = 0
    """Answers that were read: one per line, or each of a line's several choices."""
    unit: str = "lines"
    """``answers`` where a line held several choices."""
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """``file:line`` and text by category; the raw text, not safe for a terminal."""
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
            if len(shown) < EXAMPLES:
                shown.append((where, text))

    def __str__(self) -> str:
        text: str = from_report("llm_labels").answer_report_text(self)
        return text
