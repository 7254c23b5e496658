"""Estimates from a sharded pool: what gold alone tells is sent to every shard, what the pool tells is added up.

    counts = class_counts(shards, how, executor)                         # how often the teacher names each class
    fit = fit_votes_over(shards, how, executor)                          # Dawid–Skene: counts of each EM step
    terms, texts_with = terms_over(shards, "text", executor, …)          # TF-IDF's document frequencies
    kept = most_confident(shards, how, 0.5, executor)                    # confident's quantile, exactly
    us.map_shards(Trust(reliability, how), "pool", "trust")              # alpha and k by a curve of gold

Sums are taken in the order of the shards, whoever is first: they do not depend on the number of workers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.features.tfidf import choose_terms, term_counts
from understudy.io.labelling import Labelling, read_teacher
from understudy.io.table import Table
from understudy.labels.forms import Labels
from understudy.labels.reliability import Reliability
from understudy.labels.votes import Votes
from understudy.maths.confidence import MEASURES
from understudy.maths.dawid_skene import DawidSkene, VoteCounts, fit_counts
from understudy.parallel.executors import Executor
from understudy.parallel.map_shards import Columns
from understudy.parallel.shards import OnTable, Shards, gathered
from understudy.store.arrow import Array

NO_COLUMNS: Mapping[str, str] = {}


def labels_of(table: Table, how: Labelling) -> Labels:
    labels = read_teacher(table, how)
    if labels is None:
        raise UnderstudyError(f"{table.path} has no column of a teacher's labels; label it first (understudy teach)")
    if isinstance(labels, Votes) and how.votes in ("dawid_skene", "gold"):  # each shard's labels by a model of its own
        raise UnderstudyError(
            f"votes={how.votes!r} is fitted to all votes, and {table.path} is a part; fit it first (fit_votes_over, "
            "us.fit_votes) and pass the model as votes="
        )
    return labels


@dataclass(frozen=True)
class ClassCounts:
    how: Labelling

    def __call__(self, table: Table) -> Tensor:
        best = labels_of(table, self.how).top1()
        return torch.bincount(best[best >= 0], minlength=self.how.classes or 0)


def class_counts(shards: Shards, how: Labelling, executor: Executor, columns: Mapping[str, str] = NO_COLUMNS) -> Tensor:
    """``(C,)``: how many rows the teacher names each class on."""
    total = torch.zeros(0, dtype=torch.long)
    for _, counts in gathered(executor, OnTable(ClassCounts(how), columns), shards):
        size = max(len(total), len(counts))
        total = sum(torch.nn.functional.pad(part, (0, size - len(part))) for part in (total, counts))  # type: ignore[assignment]
    return total


@dataclass(frozen=True)
class VoteStep:
    """A shard's part of an EM step; ``model`` None: of the start."""

    how: Labelling
    model: DawidSkene | None

    def __call__(self, table: Table) -> VoteCounts:
        labels = labels_of(table, replace(self.how, votes="majority"))
        if not isinstance(labels, Votes):
            raise UnderstudyError(f"{table.path} holds {labels.title}; Dawid–Skene weighs votes")
        return VoteCounts.of(labels.votes, labels.classes, self.model)


def fit_votes_over(
    shards: Shards,
    how: Labelling,
    executor: Executor,
    columns: Mapping[str, str] = NO_COLUMNS,
    *,
    smoothing: float = 0.01,
    abstentions: bool | None = None,
) -> DawidSkene:
    """``us.Votes(…).dawid_skene()`` of all shards: one pass for each step of EM. The posterior is left out; apply the
    model where it is needed (``posterior_of``, ``us.Votes(by=fit)``)."""

    def counted(model: DawidSkene | None) -> VoteCounts:
        parts = (part for _, part in gathered(executor, OnTable(VoteStep(how, model), columns), shards))
        total: VoteCounts = reduce(add, parts)
        return total

    return fit_counts(counted, smoothing=smoothing, abstentions=abstentions)


@dataclass(frozen=True)
class CountTerms:
    column: str
    ngrams: int
    words: frozenset[str] | None

    def __call__(self, table: Table) -> tuple[int, dict[str, tuple[int, int]]]:
        if self.column not in table.names:
            raise UnderstudyError(f"{table.path} has no column {self.column!r} of texts; check the name")
        texts = [str(text) for text in table.columns[self.column]]
        return len(texts), term_counts(texts, ngrams=self.ngrams, words=self.words)


def terms_over(
    shards: Shards,
    column: str,
    executor: Executor,
    columns: Mapping[str, str] = NO_COLUMNS,
    *,
    ngrams: int,
    most: int,
    rarest: int,
) -> tuple[list[str], Array]:
    """The terms that TF-IDF of the texts of all shards keeps: single words first, then runs of those that are common
    enough. The counts of the terms, not the texts, are in memory."""
    words: frozenset[str] | None = None
    total: dict[str, tuple[int, int]] = {}
    for length in sorted({1, ngrams}):
        total = {}
        for _, (_, counts) in gathered(executor, OnTable(CountTerms(column, length, words), columns), shards):
            for term, (often, texts) in counts.items():
                before = total.get(term, (0, 0))
                total[term] = before[0] + often, before[1] + texts
        words = frozenset(term for term, (_, texts) in total.items() if texts >= rarest and " " not in term)
    return choose_terms(total, most=most, min_texts=rarest)


@dataclass(frozen=True)
class Confidences:
    """How many of a shard's labels have each value of the next 16 bits, among those that begin with ``prefix``."""

    how: Labelling
    measure: str
    prefix: int
    depth: int

    def __call__(self, table: Table) -> Array:
        keys, labelled = confidence_keys(labels_of(table, self.how), self.measure)
        keys = keys[labelled]
        above = np.uint64(16 * (4 - self.depth))
        if self.depth:
            keys = keys[keys >> above == np.uint64(self.prefix)]
        digit = (keys >> (above - np.uint64(16))) & np.uint64(0xFFFF)
        return np.bincount(digit.astype(np.int64), minlength=1 << 16)


def confidence_keys(labels: Labels, measure: str) -> tuple[Array, Array]:
    """Confidences as whole numbers in the same order, the sign bit turned or all bits of what is negative; and which
    rows have a label at all: training leaves the others out, and so does the ranking."""
    values = labels.confidence(measure)
    values = -values if measure == "entropy" else values
    bits = (values.double().numpy() + 0.0).view(np.int64)  # −0 is 0
    return np.where(bits < 0, ~bits, bits | np.int64(-(2**63))).view(np.uint64), labels.labelled().numpy()


@dataclass(frozen=True)
class Kept:
    """``confident.kept``: 1 for the most confident labels of the pool, ties in the order of its rows, else 0."""

    how: Labelling
    measure: str
    last: int
    """The key of the least confident label that is kept."""
    ties: Mapping[str, int]
    """By file: how many of its labels with just that key are."""

    def __call__(self, table: Table) -> Columns:
        keys, labelled = confidence_keys(labels_of(table, self.how), self.measure)
        tied = labelled & (keys == np.uint64(self.last))
        kept = (labelled & (keys > np.uint64(self.last))) | (tied & (tied.cumsum() <= self.ties[table.path.name]))
        return {"confident.kept": kept.astype(np.float32)}


def most_confident(
    shards: Shards,
    how: Labelling,
    share: float,
    executor: Executor,
    columns: Mapping[str, str] = NO_COLUMNS,
    *,
    measure: str = "margin",
) -> Kept:
    """The filter of ``us.confident(share)`` over all shards: which rows ``argsort`` would put first, in four passes
    that each find 16 bits of the last confidence that is kept, with a table of 65,536 counts for each shard."""
    if not 0 < share <= 1 or measure not in MEASURES:
        raise UnderstudyError(
            f"confident(share={share}, measure={measure!r}): a share, and one of {', '.join(MEASURES)}"
        )
    left, prefix = 0, 0
    by_shard: list[Array] = []
    digit = 0
    for depth in range(4):
        found = gathered(executor, OnTable(Confidences(how, measure, prefix, depth), columns), shards)
        by_shard = [counts for _, counts in found]
        falling = np.sum(by_shard, axis=0)[::-1].cumsum()
        if depth == 0:
            if not falling[-1]:
                raise UnderstudyError(f"{shards.path}: no row has a teacher's label (all are −1); label some")
            left = max(1, round(share * int(falling[-1])))
        place = int(np.searchsorted(falling, left))
        digit = (1 << 16) - 1 - place
        left -= int(falling[place - 1]) if place else 0
        prefix = (prefix << 16) | digit
    ties: dict[str, int] = {}
    for shard, counts in zip(shards, by_shard, strict=True):
        ties[shard.path.name] = min(left, int(counts[digit]))
        left -= ties[shard.path.name]
    return Kept(how, measure, prefix, ties)


@dataclass(frozen=True)
class Trust:
    """``slam.alpha`` and ``slam.k`` of every row, by curves that were fitted on gold."""

    reliability: Reliability
    how: Labelling

    def __call__(self, table: Table) -> Columns:
        alpha, k = self.reliability.alpha_and_k(labels_of(table, self.how))
        return {"slam.alpha": alpha.numpy(), "slam.k": k.numpy()}
