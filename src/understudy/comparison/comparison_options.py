"""The options of ``us.compare``, ``us.auto`` and ``us.reconcile`` beside those of ``us.train``.

Their functions and commands take them from these tables. This file loads without PyTorch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from understudy.store.option_fields import OptionTable, option

Table = TypeVar("Table")
#: Names, or names with what a method returns, or a function without arguments that returns it.
Methods = Sequence[str] | Mapping[str, Any]
WORKERS = "Processes of one thread each. Default: one per core."


def split_names(text: str) -> list[str]:
    """``"slam, gce"`` as a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


@dataclass(frozen=True)
class CompareOptions(OptionTable):
    seeds: int | Iterable[int] = option(5, help="How many seeds, each with its own split and student.", typed=int)
    workers: int | None = option(None, help=WORKERS, typed=int | None, least=1)


@dataclass(frozen=True)
class ReconcileOptions(OptionTable):
    methods: Methods | None = option(
        None, help="Methods for base models, e.g. gce,slam. Default: chosen automatically.", typed=str | None,
        read=lambda text: None if text is None else split_names(text),
    )  # fmt: skip
    folds: int = option(4, help="Parts of gold; each base model is trained once without each.", typed=int, least=2)
    rows: int | None = option(20_000, help="Pool rows that train base models; all get a label.", typed=int, least=1)
    workers: int | None = option(None, help=WORKERS, typed=int | None, least=1)


@dataclass(frozen=True)
class AutoOptions(OptionTable):
    methods: Methods | None = option(None, help="Candidates; None: chosen by the form of the labels.")
    reconcile: bool = option(True, help="Whether reconciled labels are a candidate.")
    pilot_rows: int = option(20_000, help="Pool rows that train the pilot's candidates.", least=1)
    pilot_epochs: int | None = option(None, help="Their epochs; None: as many as the training, at most 30.", least=1)
    folds: int = option(4, help="Parts of gold; each candidate is trained once without each.", least=2)
    workers: int | None = option(None, help=WORKERS, least=1)


def take_options(table: type[Table], options: Mapping[str, Any]) -> tuple[Table, dict[str, Any]]:
    """The options of a table, checked, and the others."""
    names = {each.name for each in fields(table)}  # type: ignore[arg-type]
    mine = {name: value for name, value in options.items() if name in names}
    return table(**mine), {name: value for name, value in options.items() if name not in names}
