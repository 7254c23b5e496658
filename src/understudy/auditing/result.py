"""What an audit found, as plain values."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.auditing.measures import Accuracy, Calibration, Confusion, Noise
from understudy.auditing.record import Floats
from understudy.auditing.sources import AuditedSources
from understudy.auditing.suspects import Suspects
from understudy.labels.evidence import ClassShift
from understudy.maths.proportions import Share
from understudy.store.notebook import Shown


@dataclass(frozen=True)
class Curve:
    """Estimated accuracy against the teacher's confidence, with its 95% band, at the confidences of the gold rows."""

    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    marks: Floats
    """The confidence of every gold row, and whether the teacher was wrong there."""
    wrong: NDArray[np.bool_]


@dataclass(frozen=True)
class GoldSize:
    """Whether gold is large enough for these estimates."""

    rows: int
    wanted: int
    """At least so many for a steady estimate of trust."""
    half_width: float
    """The noise is known to ± this."""
    target: float
    more: int
    """About how many more rows bring it to ± ``target``."""

    @property
    def enough(self) -> bool:
        return self.rows >= self.wanted


@dataclass(frozen=True)
class Expectation:
    method: str
    outlook: str
    """Better than vanilla ("baseline")? "likely", "possible", "unlikely" or "not possible"."""
    reason: str


@dataclass(frozen=True)
class Audit(Shown):
    """Everything measured; ``verdict`` says it in sentences, ``expectations`` what follows for each method."""

    class_names: list[str]
    form: str
    gold_rows: int
    """Rows that measure the teacher."""
    pool_rows: int | None
    """With a label."""
    unlabelled: int
    accuracy: Accuracy
    noise: Noise
    confusion: Confusion
    calibration: Calibration | None
    telling: Share | None
    """How well the teacher's confidence tells its right answers from its wrong ones (ROC-AUC); None without one."""
    curve: Curve | None
    shift: ClassShift | None
    size: GoldSize
    suspects: Suspects | None
    sources: AuditedSources | None = None
    """Each annotator or rule, where the labels are votes of several."""
    expectations: Sequence[Expectation] = ()
    verdict: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def flow_name(self, truth: int, named: int) -> str:
        return f"{self.class_names[truth]}→{self.class_names[named]}"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; without the curve and the chance of every single pool row."""
        values = asdict(self)
        values.pop("curve")
        if values["suspects"] is not None:
            values["suspects"].pop("chance")
        # JSON knows no NaN: what is not known is null.
        text = json.dumps(values, default=np.ndarray.tolist)
        plain: dict[str, Any] = json.loads(text, parse_constant=lambda name: None)
        return plain
