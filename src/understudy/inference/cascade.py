"""Student and teacher together: what both say of a row, and which rows are left to the teacher. numpy alone.

    cascade = Cascade.load(folder)                  # of a run, or of an exported folder
    deferred = cascade.defer(probs)                 # (n,): send these to the teacher (or to a person)
    cascade.combine(probs, labels)                  # (n, C); labels (n,), −1: none; or the teacher's probabilities

Where the teacher's label l of a row is known, the classes' probabilities are

    log q(y | x) = b_0 · log P(l | y) + b_1 · log p_student(y | x) + a_y − log Z(x)

and, of a soft label s, + b_2 · log s(y). ``combination.py`` fits b, a and P(l | y), ``auditing/deferral.py``
chooses the threshold; ``probs`` are the student's probabilities at the run's temperature (``Run.predict``).
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from understudy.errors import UnderstudyError
from understudy.store.checked_folder import read_checked, write_checked

COMBINATION, DEFERRAL = "combination.safetensors", "deferral.json"
# No probability counts for more than 10,000 to 1, as in reconciled labels.
LEAST = 1e-4
#: What the cascade answers where it asks: both together, the teacher's label, or nothing.
COMBINED, TEACHER, ABSTAIN = "combined", "teacher", "abstain"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Combination:
    #: b, ``(2,)``; ``(3,)`` for soft labels.
    weights: Array
    #: a, ``(C,)``.
    bias: Array
    #: log P(label | y), ``(C, C)``: truth, label.
    log_likelihood: Array

    def __call__(self, probs: Array, teacher: Array) -> Array:
        """q ``(n, C)`` float64; ``teacher``: labels ``(n,)`` or probabilities ``(n, C)``, of rows that have one."""
        scores = [self.log_likelihood.T[teacher if teacher.ndim == 1 else teacher.argmax(1)], _log(probs)]
        if len(self.weights) > 2:
            # A hard label where soft ones were fitted: all of its probability is on one class.
            soft = np.eye(len(self.bias))[teacher] if teacher.ndim == 1 else teacher
            scores.append(_log(soft))
        return _softmax(sum(b * each for b, each in zip(self.weights, scores, strict=False)) + self.bias)

    def to_bytes(self) -> bytes:
        arrays = {name: np.ascontiguousarray(value, np.float64) for name, value in vars(self).items()}
        return safetensors.numpy.save(arrays)


@dataclass(frozen=True)
class DeferralRule:
    """Rows with a score above the threshold are deferred."""

    #: One for all rows, or one by the class that the student predicts.
    thresholds: list[float]
    #: ``combined``, ``teacher`` or ``abstain``.
    answer: str
    #: How it was chosen and what it promises (``auditing/deferral.py``).
    details: dict[str, Any] | None = None

    def save(self, folder: Path) -> None:
        write_checked(folder / DEFERRAL, asdict(self))


@dataclass(frozen=True)
class Cascade:
    combination: Combination | None = None
    rule: DeferralRule | None = None

    @classmethod
    def load(cls, folder: str | Path) -> "Cascade":
        """Of a run or an exported folder; without the parts that it has not."""
        folder, rule, combination = Path(folder), None, None
        try:
            if (folder / DEFERRAL).exists():
                rule = DeferralRule(**read_checked(folder / DEFERRAL, cure="run understudy defer again"))
            if (folder / COMBINATION).exists():
                combination = Combination(**safetensors.numpy.load((folder / COMBINATION).read_bytes()))
        except (TypeError, safetensors.SafetensorError) as error:
            raise UnderstudyError(f"{folder}: {DEFERRAL} or {COMBINATION} is damaged ({error}); restore it") from error
        return cls(combination, rule)

    def defer(self, probs: Array) -> Array:
        """``(n,)`` bool: the rows to send to the teacher or to a person; none where there is no rule.

        By one minus the student's confidence: the expected gain of asking, by the combination's confusions, ranks rows
        no better (within 0.8 points at any share, on reviews and on Banking77)."""
        if self.rule is None or not len(probs):
            return np.zeros(len(probs), bool)
        thresholds = np.array(self.rule.thresholds)
        limits = thresholds[probs.argmax(1)] if len(thresholds) > 1 else thresholds[0]
        return np.asarray(1 - probs.max(1).astype(np.float64) > limits)

    def combine(self, probs: Array, teacher: Array) -> Array:
        """``(n, C)``: the answer where the teacher's labels are known: ``(n,)``, −1 where not; or ``(n, C)``, NaN.

        Without a combination that helps, the student's; of rows that a rule leaves to the teacher, its label.
        """
        teacher = np.asarray(teacher)
        known = teacher >= 0 if teacher.ndim == 1 else ~np.isnan(teacher).any(1)
        answer = probs.astype(np.float64)
        if self.combination is not None:
            answer[known] = self.combination(answer[known], teacher[known])
        elif self.rule is not None and self.rule.answer == TEACHER:
            known &= self.defer(probs)
            hard = teacher[known] if teacher.ndim == 1 else teacher[known].argmax(1)
            answer[known] = np.eye(probs.shape[1])[hard]
        return answer


def _log(probs: Array) -> Array:
    logs: Array = np.log(np.maximum(np.asarray(probs, np.float64), LEAST))
    return np.asarray(logs - np.log(np.exp(logs).sum(1, keepdims=True)))


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))
