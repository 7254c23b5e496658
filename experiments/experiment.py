"""One published table or figure: what the paper says and prints, its setting, and ours.

A file of a paper's folder declares one, named EXPERIMENT; ``experiments.registry`` finds it by its name. Parts are the
sub-tables of one table (CIFAR-10 and CIFAR-100, say), each a sweep of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from experiments.claims import Claim, with_effect
from experiments.sequential import LOOKS
from experiments.sweep import Sweep

PAPERS = {
    "000": "Weighted Distillation with Unlabeled Examples (Iliopoulos et al., NeurIPS 2022)",
    "001": "SLaM: Student-Label Mixing for Distillation with Unlabeled Examples (Kontonis et al., NeurIPS 2023)",
    "002": "Catastrophic Failures of Neural Active Learning on Heteroskedastic Distributions (2021)",
    "003": "Distillation ≈ Early Stopping? (Dong et al., 2019)",
    "004": "Learning to Reweight Examples for Robust Deep Learning (Ren et al., ICML 2018)",
}


@dataclass(frozen=True)
class Published:
    """A table as the paper prints it, cell by cell; it is quoted, never computed with."""

    where: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Part:
    title: str
    full: Sweep
    reduced: Sweep
    claims: Sequence[Claim]
    published: Published | None = None
    """None where the paper only plots it."""

    errors: bool = False
    """Whether lower values are better."""

    @property
    def named(self) -> set[str]:
        """The rows that claims and their preconditions speak of."""
        rows = [
            row for claim in self.claims for row in (*claim.higher, *claim.lower, *(one.row for one in claim.needs))
        ]
        return {row.partition("@")[0] for row in rows}

    def judged(self) -> list[Claim]:
        """The claims with the paper's own effects, as far as its table prints them."""
        table = self.published
        return [with_effect(claim, table.rows, table.columns) for claim in self.claims] if table else [*self.claims]


@dataclass(frozen=True)
class Experiment:
    name: str
    paper: str
    shows: str
    """Which table or figure."""
    what: str
    parts: Sequence[Part]
    minutes: float
    """Of one core at the reduced scale; measured, rounded."""
    not_reproduced: Sequence[str] = ()
    """Rows the paper only quotes, or that cannot be run again."""
    remarks: Sequence[str] = ()
    most_seeds: int = LOOKS[-1]
    """Where adding seeds for open claims ends."""
    most_minutes: float = 20.0
    """The same in CPU minutes, for each part."""

    def sweeps(self, scale: str) -> list[Sweep]:
        return [part.full if scale == "full" else part.reduced for part in self.parts]

    def data(self, scale: str) -> list[str]:
        return list(dict.fromkeys(sweep.data for sweep in self.sweeps(scale)))


def reductions(full: Any, reduced: Any, inside: str = "") -> Iterator[tuple[str, str, str]]:
    """(what, the paper's, ours) for every field in which two settings differ."""
    for field in fields(full):
        before, after = getattr(full, field.name), getattr(reduced, field.name)
        if before == after:
            continue
        name = f"{inside}{field.name}"
        if is_dataclass(before) and is_dataclass(after):
            yield from reductions(before, after, f"{name}.")
        elif _are_labelled(before) and _are_labelled(after):
            yield from _by_label(before, after, name)
        else:
            yield name, shown(before), shown(after)


def _are_labelled(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(hasattr(item, "label") for item in value)


def _by_label(full: Any, reduced: Any, name: str) -> Iterator[tuple[str, str, str]]:
    ours = {item.label: item for item in reduced}
    for item in full:
        if item.label not in ours:
            yield f"{name}: {item.label}", "is there", "left out"
        else:
            yield from reductions(item, ours[item.label], f"{name}: {item.label}, ")
    for label in ours.keys() - {item.label for item in full}:
        yield f"{name}: {label}", "is not there", "added"


def shown(value: Any) -> str:
    if value is None:
        return "no limit"
    if is_dataclass(value) and not isinstance(value, type):
        given = [f"{field.name} {shown(getattr(value, field.name))}" for field in fields(value) if _set(value, field)]
        return " ".join(given)
    if isinstance(value, tuple):
        return ", ".join(shown(item) for item in value) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _set(value: Any, field: Any) -> bool:
    return bool(getattr(value, field.name) != field.default)


def stand_in(part: Part) -> str:
    """ImageNet → CIFAR-10 at 16 × 16, where the reduced run has other data than the paper."""
    full, reduced = (getattr(sweep, "base", sweep) for sweep in (part.full, part.reduced))
    side = getattr(reduced, "side", None)
    ours = name_of(reduced.data) + (f" at {side} × {side}" if side else "")
    paper = name_of(full.data)
    return paper if paper == ours else f"{paper} → {ours}"


NAMES = {
    "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar": "CIFAR-", "svhn": "SVHN", "celeba": "CelebA",
    "imagenet": "ImageNet", "imdb": "Large Movie Reviews", "sst": "SST-", "trec": "TREC",
}  # fmt: skip
ENDS = {
    "binary": "two classes", "animals": "animals or not", "odd": "odd classes or even", "vectors": "vectors",
    "centred": "", "32": "",
}  # fmt: skip


def name_of(data: str) -> str:
    """ "cifar10_binary" as "CIFAR-10, two classes"."""
    start = max((key for key in NAMES if data.startswith(key)), key=len, default="")
    number, _, end = data.removeprefix(start).partition("_")
    name = f"{NAMES.get(start, start)}{number}"
    return ", ".join(text for text in (name, ENDS.get(end, end)) if text)
