"""Texts as they are, for a student that reads them itself (``us.text``): nothing is learned here.

Texts.fit(raw, "review")(raw)              # TextRows, which become tokens where they meet the student
"""

from dataclasses import dataclass
from typing import Self

from understudy.data.texts import TextRows
from understudy.features.part import Part, RawColumns


@dataclass(eq=False)
class Texts(Part):
    kind = "texts"
    name: str

    def __post_init__(self) -> None:
        self.names, self.shape = (self.name,), ()

    @classmethod
    def fit(cls, raw: RawColumns, name: str) -> Self:
        raw.texts(name)  # says what is wrong with them
        return cls(name)

    def __call__(self, raw: RawColumns) -> TextRows:
        return TextRows(raw.texts(self.name))
