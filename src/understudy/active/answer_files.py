"""A person with a spreadsheet as oracle: each batch is a file, and answers may also stand in a file of their own.

    oracle = AnswerFiles(Path("camp"), names=("neg", "pos"), given=Path("answers.csv"))

A round's batch is written as ``batch-003.csv`` (``id``, ``row``, ``score``, ``why``, ``label``) unless ``given``
(``id`` and ``label``) answers all of its rows. The round goes on when each row has an answer in one of the two; where
both have one, the batch's counts. Labels are class names (numbers, where classes have none), or ``skip``.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from understudy.active.oracle import CANNOT_LABEL, Question, asked_by_name, write_question
from understudy.errors import UnderstudyError
from understudy.io.answer_file import is_skipped, text_columns
from understudy.labels.class_names import ClassNames


@dataclass(frozen=True)
class AnswerFiles:
    folder: Path
    names: tuple[str, ...] | None = None
    """Of the classes; None: they are numbers."""
    given: Path | None = None
    kind: str = "answers in files"

    def answers(self, question: Question) -> Tensor | None:
        asked, said = asked_by_name(question), self._said(question)
        if not all(said.get(name) for name in asked):
            if not self.batch(question).exists():
                write_question(self.batch(question), question)
            return None
        return torch.tensor([self._number(said[name], name, question.classes) for name in asked])

    def waiting(self, question: Question) -> str:
        asked, said = asked_by_name(question), self._said(question)
        left = sum(not said.get(name) for name in asked)
        where = self.batch(question) if self.given is None else f"{self.batch(question)} (or add them to {self.given})"
        what = "a class number" if self.names is None else "a class"
        return (
            f"round {question.round} waits for {left} of {len(asked)} answers: fill in the column 'label' of {where}, "
            f"{what} or skip, then give the same command again"
        )

    def batch(self, question: Question) -> Path:
        return self.folder / f"batch-{question.round:03}.csv"

    def _said(self, question: Question) -> dict[str, str]:
        """By id, what stands in the two files."""
        by = "row" if question.ids is None else "id"
        said = {} if self.given is None else _column(self.given, by)
        path = self.batch(question)
        if path.exists():
            mine = _column(path, by)
            if strange := set(mine) - set(asked_by_name(question)):
                raise UnderstudyError(f"{path}: {by} {min(strange)} was not asked for; answer the rows as given")
            said |= {name: label for name, label in mine.items() if label}
        return said

    def _number(self, text: str, name: str, classes: int) -> int:
        names = ClassNames(self.names or ())
        if is_skipped(text, names):
            return CANNOT_LABEL
        where = f"the answer to {name}"
        number = names.number(text, where)
        if number >= classes:
            raise UnderstudyError(f"{where} is {text!r}; write a class number from 0 to {classes - 1}, or skip")
        return number


def _column(path: Path, by: str) -> dict[str, str]:
    columns = text_columns(path)
    for name in (by, "label"):
        if name not in columns:
            raise UnderstudyError(f"{path} has no column {name!r}; answers need {by!r} and 'label'")
    said: dict[str, str] = {}
    for name, label in zip(columns[by], columns["label"], strict=True):
        if name in said and said[name] != label.strip():
            raise UnderstudyError(f"{path} answers {by} {name} twice and differently; keep one line")
        said[name] = label.strip()
    return said
