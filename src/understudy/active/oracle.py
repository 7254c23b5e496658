"""Who answers the questions: a function, an array of held-out labels, or a person with a file.

    as_oracle(lambda rows: ask_an_expert(rows), size=len(x))    # row numbers in, labels out; None or −1: cannot label
    as_oracle(y, size=len(x))                                   # held-out labels; −1: cannot label
    as_oracle("questions/", size=len(x))                        # a folder: one CSV per round, filled in by a person
    as_oracle("questions.parquet", size=len(x))                 # the same as questions-001.parquet, … in this format

Every oracle returns labels in the order asked, −1 where it cannot label, or None where the answers are not there yet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.active.question import Question, read_answers, write_question
from understudy.errors import UnderstudyError

CANNOT_LABEL = -1


@dataclass(frozen=True)
class Function:
    """``ask(rows)`` with the row numbers (n,) of the batch returns n labels."""

    ask: Callable[[Tensor], Any]

    def answers(self, question: Question) -> Tensor | None:
        said = self.ask(question.rows)
        return _as_labels(said, f"the oracle's answer in round {question.round}", len(question.rows))

    def waits_for(self, question: Question) -> Path | None:
        return None


@dataclass(frozen=True)
class HeldOut:
    labels: Tensor

    def answers(self, question: Question) -> Tensor | None:
        return self.labels[question.rows]

    def waits_for(self, question: Question) -> Path | None:
        return None


@dataclass(frozen=True)
class HandOver:
    """A file per round: written once, then read until every row has an answer."""

    folder: Path
    stem: str
    suffix: str

    def answers(self, question: Question) -> Tensor | None:
        path = self.waits_for(question)
        if not path.exists():
            write_question(path, question)
            return None
        return read_answers(path, question)

    def waits_for(self, question: Question) -> Path:
        return self.folder / f"{self.stem}-{question.round:03}{self.suffix}"


Oracle = Function | HeldOut | HandOver


def as_oracle(value: Any, *, size: int) -> Oracle:
    """Whatever a user passes as the oracle of a pool of ``size`` rows."""
    if isinstance(value, Function | HeldOut | HandOver):
        return value
    if isinstance(value, str | Path):
        path = Path(value)
        if path.suffix.lower() in (".csv", ".parquet"):
            return HandOver(path.parent, path.stem, path.suffix.lower())
        if path.suffix and not path.is_dir():
            raise UnderstudyError(f"oracle={str(path)!r}: name a folder, or a file ending in .csv or .parquet")
        return HandOver(path, "round", ".csv")
    if isinstance(value, Tensor | np.ndarray | Sequence):
        return HeldOut(_as_labels(value, "oracle", size))
    if callable(value):
        return Function(value)
    raise UnderstudyError(
        f"the oracle is a {type(value).__name__}; pass a function (rows -> labels), an array with one label per pool "
        "row, or a folder for the questions"
    )


def _as_labels(value: Any, where: str, count: int) -> Tensor:
    """Whole numbers ≥ −1, ``count`` of them; None and NaN count as "cannot label"."""
    if isinstance(value, Tensor | np.ndarray):
        numbers = torch.as_tensor(value).detach().cpu()
    else:
        try:
            numbers = torch.tensor([CANNOT_LABEL if label is None else label for label in value])
        except (TypeError, ValueError, RuntimeError) as error:
            raise UnderstudyError(
                f"{where} is no sequence of labels: {error}; return one class number a row"
            ) from error
    if numbers.shape != (count,):
        raise UnderstudyError(f"{where} has shape {tuple(numbers.shape)}; {count} rows need {count} labels")
    if numbers.is_floating_point():
        numbers = numbers.nan_to_num(nan=CANNOT_LABEL)
        if bool((numbers != numbers.round()).any()):
            raise UnderstudyError(f"{where} holds fractions; labels are class numbers from 0, −1 for none")
    numbers = numbers.long()
    if count and int(numbers.min()) < CANNOT_LABEL:
        raise UnderstudyError(f"{where} holds {int(numbers.min())}; labels are class numbers from 0, −1 for none")
    return numbers
