"""What was found to be shared between sets that should have nothing in common, in counts and in plain sentences.

for line in leaks.lines():
    print(line)
leaks.warn()
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from understudy.errors import UnderstudyWarning

SAME_ID, OTHER_CONTENT, EXACT, NEAR, CONTRADICTION = "same id", "other content", "exact", "near", "contradiction"
KINDS = (SAME_ID, EXACT, NEAR, OTHER_CONTENT, CONTRADICTION)

# The worst first: a score measured on rows that were trained on is worth nothing.
PAIRS = (
    ("gold", "test"),
    ("pool", "test"),
    ("select", "test"),
    ("gold", "select"),
    ("pool", "select"),
    ("gold", "pool"),
)
EXAMPLES = 5
_LONGEST_ID = 40

_WHAT = {
    SAME_ID: "are in {a} too, under the same id",
    OTHER_CONTENT: "share an id with a row of {a} but not the content",
    EXACT: "are exact copies of rows of {a}",
    NEAR: "are nearly the same as rows of {a}",
    CONTRADICTION: "have copies in {a} with another label",
}
_CURE = {
    "test": "scores on test are too good to be true; remove these rows from {a}",
    "select": "the epoch is chosen on rows that were trained on; remove these rows from {a}",
    "pool": "remove these rows from the pool",
    OTHER_CONTENT: "give every example one id of its own",
    CONTRADICTION: "decide on one label or remove them",
}


@dataclass(frozen=True)
class Leak:
    """``rows`` of the ``of`` rows of the second set have a counterpart in the first (for contradictions: the same)."""

    kind: str
    sets: tuple[str, str]
    rows: int
    of: int
    examples: tuple[tuple[Any, Any], ...]
    """Up to five pairs of ids (row numbers where there are none), in the order of ``sets``."""

    def line(self) -> str:
        a, b = self.sets
        cure = _CURE.get(self.kind) or _CURE.get(b, "remove them from {a}")
        pairs = ", ".join(f"{shown(second)} = {shown(first)}" for first, second in self.examples)
        what = _WHAT[self.kind].format(a=a)
        return f"{self.rows:,} of {self.of:,} rows of {b} {what} ({pairs}): {cure.format(a=a)}"


@dataclass(frozen=True)
class Leaks:
    found: tuple[Leak, ...]
    """The most severe first."""
    notes: tuple[str, ...] = ()
    """What could not be searched, and why."""

    def __bool__(self) -> bool:
        return bool(self.found)

    def __iter__(self) -> Iterator[Leak]:
        return iter(self.found)

    def count(self, kind: str, a: str, b: str) -> int:
        """Rows of ``b`` that have such a counterpart in ``a``."""
        return sum(leak.rows for leak in self.found if leak.kind == kind and leak.sets == (a, b))

    def lines(self) -> list[str]:
        return [leak.line() for leak in self.found] + list(self.notes)

    def warn(self) -> None:
        """One warning per kind: its worst case in full, the others in numbers."""
        for kind in KINDS:
            alike = [leak for leak in self.found if leak.kind == kind]
            if alike:
                more = ", ".join(f"{leak.rows:,} in {'/'.join(dict.fromkeys(leak.sets))}" for leak in alike[1:])
                warnings.warn(alike[0].line() + (f" (also {more})" if more else ""), UnderstudyWarning, stacklevel=2)


def severity(leak: Leak) -> tuple[int, int]:
    kind = KINDS.index(leak.kind)
    if leak.sets[0] == leak.sets[1]:
        return len(PAIRS) + 1, kind
    return PAIRS.index(leak.sets) if leak.sets in PAIRS else len(PAIRS), kind


def shown(name: Any) -> str:
    """An id as it may be printed: short, on one line, nothing that a terminal would obey."""
    text = str(name)
    # repr escapes control characters and those that turn the direction of writing.
    return repr(text if len(text) <= _LONGEST_ID else text[: _LONGEST_ID - 1] + "…")
