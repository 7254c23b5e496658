"""What a loop gives back."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from understudy.data.examples import Gold
from understudy.training.run import Run


@dataclass(frozen=True)
class Result:
    """Where a loop stands."""

    stopped: str
    """budget, stable (predictions no longer change), exhausted (no row is left to ask) or waiting (for answers)."""
    message: str
    """The same in words."""
    records: list[dict[str, Any]]
    """One per round: labels so far, metrics on the test rows, the noise watch, the share of changed predictions."""
    rows: Tensor
    """Every row asked, in order."""
    labels: Tensor
    """The answers; −1 where skipped."""
    rounds: Tensor
    """The round of each; 0 is the random start."""
    gold: Gold | None
    """All labelled rows; those a strategy picked are marked as chosen."""
    run: Run | None
    """The last round's training."""


def record_line(record: dict[str, Any], strategy: str) -> str:
    """A round in one line, for the terminal."""
    line = f"{strategy}  round {record['round']}  {record['labelled']} labels"
    if record["test"] is not None:
        line += f"  test accuracy {record['test']['accuracy']:.4f}"
    if record["watch"] is not None:
        line += f"  noisy {record['watch']['share']:.0%} (random {record['watch']['random_share']:.0%})"
    return line
