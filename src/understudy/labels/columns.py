"""What the columns of files and label stores that hold a teacher's labels are called, and what they hold.

Every form of labels lists its columns (``Soft.columns``, …); readers, the label store and ``understudy import`` go by
these lists, so that the name of a column stands in one place.
"""

from dataclasses import dataclass
from typing import Literal

from understudy.store.arrow import Array

Columns = dict[str, Array]


@dataclass(frozen=True)
class Column:
    name: str
    dtype: str
    """As the label store writes it."""
    missing: float
    """What a row without a label holds: −1, 0 or NaN."""
    holds: Literal["class", "number", "number per class"] = "number"
    """Class numbers may stand in files as names; "number per class" as a record by class name."""
    lists: bool = False
    """Several per row."""
    uneven: bool = False
    """Lists in a file may differ in length; the shorter ones are filled up with ``missing``."""
    may_be_empty: bool = False
    """An empty cell of a file stands for ``missing``; elsewhere it is an error."""
    required: bool = True
    """Whether the form cannot do without it."""
    prefix: str | None = None
    """A file may also spread it over several columns, whose names begin so."""
