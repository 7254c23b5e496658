"""What several people's answers come to: the label of most, votes as a teacher's labels, and how far they agree.

votes_of({"r1": {"ann": "pos", "bob": None}}, classes=("neg", "pos"))      # us.Votes with sources ("ann", "bob")
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.labels.votes import Votes


def most_common(labels: Iterable[str | None]) -> str | None:
    """The label that most people gave; None where two are level, or nobody could say."""
    counts = Counter(label for label in labels if label is not None).most_common(2)
    return None if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]) else counts[0][0]


def votes_of(given: Mapping[str, Mapping[str, str | None]], classes: Sequence[str], by: str = "majority") -> "Votes":
    """A column for each person, in the order of their names; who was not asked, or could not say, abstains."""
    from understudy.labels.votes import Votes

    people = sorted({who for each in given.values() for who in each})
    said = [[each.get(who) for who in people] for each in given.values()]
    return Votes(_numbered(said, classes), len(classes), by=by, sources=people)


def agreement_of(rows: Iterable[Iterable[str | None]], classes: Sequence[str]) -> tuple[float | None, int]:
    """Krippendorff's alpha of the rows with two labels or more, and how many these are."""
    import torch

    from understudy.maths.agreement import krippendorff_alpha

    labels = [[label for label in row if label is not None] for row in rows]
    labels = [row for row in labels if len(row) > 1]
    if not labels:
        return None, 0
    # Who said it does not matter to alpha: the answers of a row stand side by side, and gaps behind.
    width = max(map(len, labels))
    votes = _numbered([[*row, *[None] * (width - len(row))] for row in labels], classes)
    return krippendorff_alpha(torch.tensor(votes), len(classes)), len(labels)


def _numbered(rows: Iterable[Iterable[str | None]], classes: Sequence[str]) -> list[list[int]]:
    place = {name: number for number, name in enumerate(classes)}
    return [[-1 if label is None else place[label] for label in row] for row in rows]
