"""Gold and Pool: the two sets everything starts from.

    gold = us.Gold(x_gold, y_gold, teacher=probs_on_gold)   # teacher: only where it had not trained on these rows
    pool = us.Pool(x_pool, teacher=probs_on_pool)

Values are checked when a user makes a set of them. What was checked already (where a file was read, or in the set that
some rows are taken from) is put together by ``Gold.of`` and ``Pool.of``, which check nothing twice.

    check_sets(gold, pool)                       # at the top of us.train, us.Session, us.compare, us.auto, us.audit
    gold, pool = weigh_by_gold(gold, pool)       # votes, by exactly the gold rows that may be used: a fold, a part
    pool, rows = drop_unlabelled(pool)
"""

import copy
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from understudy.data.checks import check_flags, check_ids, check_labels, check_length, check_probability
from understudy.data.inputs import as_rows, concatenate, read_by
from understudy.data.rows import Collate, Rows, SubsetRows, TensorRows
from understudy.errors import UnderstudyError
from understudy.labels.class_names import ClassNames, check_same_classes, joint_names
from understudy.labels.forms import Labels, read_labels
from understudy.store.option_fields import checked_plainly

Ids = np.ndarray[Any, Any]
Value = TypeVar("Value")


class ExampleSet:
    """Rows with ids and a teacher's labels: what gold and pool have in common."""

    rows: Rows
    teacher: Labels | None
    ids: Ids | None
    #: The names of the classes; None in a set that was built from class numbers internally.
    class_order: ClassNames | None = None

    def __len__(self) -> int:
        return self.rows.count

    @property
    def x(self) -> Any:
        return self.rows.x if isinstance(self.rows, TensorRows) else self.rows

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """In the order of the class numbers; None where the classes have no names."""
        return None if self.class_order is None else self.class_order.names or None

    def _ids_of(self, index: Tensor) -> Ids | None:
        return None if self.ids is None else self.ids[index.numpy()]


class Gold(ExampleSet):
    """Examples with trusted labels.

    ``teacher`` holds the teacher's labels of these rows; give it only where the teacher had not trained on them, as
    such rows *calibrate* the teacher. Rows without it only train. ``chosen=True`` marks rows picked by active learning:
    they are not a random sample, so they train and never calibrate; ``probability``, with which each row was
    drawn (NaN: not known), lets ``us.estimate`` use them. ``estimate_only=True`` marks the opposite: rows
    that calibrate and validate, but that no student is ever fitted to (Weighted Distillation's S_v). Both take one
    value for all rows or one for each. ``a + b`` concatenates.
    ``y`` and ``teacher`` may hold class names, ``teacher`` also as a frame with a column for each; ``classes`` lists
    them in their order (alphabetical without it). ``x`` may be a frame of numbers.
    ``collate`` makes a batch of a list of a Dataset's items, as a DataLoader's ``collate_fn`` does; pool rows need the
    same one, because gold and pool rows of a batch are collated together.
    """

    #: Attributes that follow from the rest: not part of a fingerprint.
    derived = ("cache", "class_order", "content_keys")
    #: Estimates from these rows that trainings share; None: every training estimates anew.
    cache: dict[Hashable, Any] | None = None
    #: With which each row was drawn, ``(n,)`` float64, NaN where it is not known.
    probability: Tensor
    #: Which batch each row was drawn in, after which others, ``(n,)``.
    batch: Tensor
    #: Of rows from a file, by what stands there (``data/fitted_rows.py``), ``(n,)``.
    content_keys: Ids | None = None

    @checked_plainly
    def __init__(
        self, x: Any, y: Any, teacher: Any = None, ids: Iterable[Any] | None = None, chosen: bool | Any = False, *,
        estimate_only: bool | Any = False, probability: Any = None, classes: Sequence[str] | None = None,
        collate: Collate | None = None, name: str = "gold",
    ) -> None:  # fmt: skip
        rows = as_rows(x, f"{name}.x", collate)
        y, labels, self.class_order = read_labels(y, teacher, classes, name)
        y = check_labels(y, f"{name}.y")
        check_length(len(y), rows.count, f"{name}.y", f"{name}.x")
        if not len(y):
            raise UnderstudyError(f"{name} is empty; give at least one row with a trusted label")
        if self.class_order and int(y.max()) >= len(self.class_order):
            raise UnderstudyError(f"{name}.y holds class {int(y.max())}, but classes= names {len(self.class_order)}")
        if labels is not None:
            check_length(len(labels), len(y), f"{name}.teacher", f"{name}.x")
        self._fill(rows, y, labels, check_ids(ids, len(y), name))
        self.chosen = check_flags(chosen, len(y), f"{name}.chosen")
        if probability is not None:
            self.mark_drawn(check_probability(probability, len(y), f"{name}.probability"))
        self.mark_estimate_only(check_flags(estimate_only, len(y), f"{name}.estimate_only"), f"{name}.estimate_only")

    @classmethod
    def of(cls, rows: Rows, y: Tensor, teacher: Labels | None = None, *, ids: Ids | None = None) -> "Gold":
        """A set of values that were checked before."""
        gold = cls.__new__(cls)
        gold._fill(rows, y, teacher, ids)
        return gold

    def _fill(self, rows: Rows, y: Tensor, teacher: Labels | None, ids: Ids | None) -> None:
        self.rows, self.y, self.teacher, self.ids = rows, y, None, ids
        self.teacher_rows, self.chosen = torch.empty(0, dtype=torch.long), torch.zeros(len(y), dtype=torch.bool)
        #: Which rows calibrate and never train, ``(n,)`` bool.
        self.estimate_only = self.chosen
        self.probability, self.batch = torch.full((len(y),), torch.nan, dtype=torch.float64), torch.zeros_like(y)
        if teacher is not None:
            self.mark_labelled(torch.arange(len(y)), teacher)

    def mark_labelled(self, rows: Tensor, teacher: Labels) -> None:
        """Keeps the teacher's labels of these rows; those it left unlabelled do not calibrate it."""
        if teacher.classes is not None and int(self.y.max()) >= teacher.classes:
            row = f"gold.y row {int(self.y.argmax())} is class {int(self.y.max())}"
            raise UnderstudyError(f"{row}, but the teacher knows {teacher.classes} classes; check the labels of both")
        labelled = teacher.labelled()
        self.teacher_rows = rows[labelled]
        self.teacher = teacher if bool(labelled.all()) else teacher.take(labelled.nonzero().squeeze(1))

    def mark_drawn(self, probability: Tensor) -> None:
        """Keeps with which probability rows were drawn, ``(n,)``; rows with unequal ones are no random sample."""
        self.probability, self.batch, known = probability, torch.zeros_like(self.y), ~probability.isnan()
        if len(probability[known].unique()) > 1:
            self.chosen = self.chosen | known

    def mark_estimate_only(self, which: Tensor, where: str) -> None:
        """Marks rows ``(n,)`` that no student may be fitted to; ``where``: their name in errors."""
        if not bool(which.any()):
            return
        if bool((both := which & self.chosen).any()):
            raise UnderstudyError(f"{where} row {int(both.nonzero()[0])} is also chosen; mark it as one or the other")
        if not bool(which[self.teacher_rows].any()):
            raise UnderstudyError(f"{where} marks rows, but none of them has a teacher label; pass teacher=")
        self.estimate_only = which

    def __repr__(self) -> str:
        never = int(self.estimate_only.sum())
        only = f", {never} of these never train" if never else ""
        return f"Gold({len(self)} rows, {len(self.calibration_rows())} with a teacher label{only})"

    def calibration_rows(self) -> Tensor:
        """Numbers of the rows that measure the teacher: it labelled them unseen, and they were not chosen."""
        return self.teacher_rows[~self.chosen[self.teacher_rows]]

    def training_rows(self) -> Tensor:
        """Numbers of the rows that a student may be fitted to: all but the ``estimate_only`` ones."""
        return (~self.estimate_only).nonzero().squeeze(1)

    def training(self) -> "Gold | None":
        """Gold without the ``estimate_only`` rows; None where nothing is left."""
        rows = self.training_rows()
        return self if len(rows) == len(self.y) else self.take(rows) if len(rows) else None

    def calibration(self) -> tuple[Tensor, Labels | None]:
        """The calibration rows' numbers and the teacher's labels of them."""
        if self.teacher is None or not bool(self.chosen.any()):
            return self.teacher_rows, self.teacher
        keep = (~self.chosen[self.teacher_rows]).nonzero().squeeze(1)
        return self.teacher_rows[keep], self.teacher.take(keep)

    def cached(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """``compute()``, remembered under ``key`` where ``cache`` is a dict."""
        if self.cache is None or key not in self.cache:
            value = compute()
            if self.cache is not None:
                self.cache[key] = value
            return value
        return cast("Value", self.cache[key])

    def take(self, index: Tensor) -> "Gold":
        """Some rows of this set, with the teacher's labels of them."""
        part = copy.copy(self)
        part.ids, part.rows, part.cache = self._ids_of(index), SubsetRows(self.rows, index), None
        part.y, part.chosen, part.estimate_only = self.y[index], self.chosen[index], self.estimate_only[index]
        part.probability, part.batch = self.probability[index], self.batch[index]
        position = torch.full((len(self.y),), -1)
        position[self.teacher_rows] = torch.arange(len(self.teacher_rows))
        with_teacher = position[index]
        part.teacher_rows = (with_teacher >= 0).nonzero().squeeze(1)
        part.teacher = None if self.teacher is None else self.teacher.take(with_teacher[part.teacher_rows])
        part.content_keys = None if self.content_keys is None else self.content_keys[index.numpy()]
        return part

    def without(self, index: Tensor) -> "Gold":
        """All rows but these."""
        return self.take(torch.ones(len(self), dtype=torch.bool).index_fill(0, index, False).nonzero().squeeze(1))

    def marked_chosen(self, which: Tensor) -> "Gold":
        """The same rows, these of them ``(n,)`` marked as chosen."""
        marked = copy.copy(self)
        marked.chosen, marked.cache = self.chosen | which, None
        return marked

    def without_teacher(self) -> "Gold":
        """The same rows without the teacher's labels and what was estimated from them."""
        silent = copy.copy(self)
        silent.teacher, silent.teacher_rows, silent.cache = None, self.teacher_rows[:0], None
        return silent

    def __add__(self, other: Self) -> "Gold":
        both = self.joined_to(other)
        check_ids(both.ids, len(both), "gold")
        return both

    def joined_to(self, other: "Gold") -> "Gold":
        """``self + other`` where it is known that they share no ids."""
        if (self.ids is None) != (other.ids is None):
            raise UnderstudyError("one gold set has ids and the other has none; give ids to both or to neither")
        check_same_classes(self.class_order, other.class_order, "one gold set", "the other")
        ids = None if self.ids is None or other.ids is None else np.concatenate([self.ids, other.ids])
        both = Gold.of(concatenate(self.rows, other.rows), torch.cat([self.y, other.y]), ids=ids)
        both.chosen = torch.cat([self.chosen, other.chosen])
        both.estimate_only = torch.cat([self.estimate_only, other.estimate_only])
        both.probability = torch.cat([self.probability, other.probability])
        both.batch = torch.cat([self.batch, other.batch + 1 + int(self.batch.numpy().max(initial=-1))])
        both.class_order = joint_names(self.class_order, other.class_order)
        if self.content_keys is not None and other.content_keys is not None:
            both.content_keys = np.concatenate([self.content_keys, other.content_keys])
        teachers = [labels for labels in (self.teacher, other.teacher) if labels is not None]
        if len({type(labels) for labels in teachers}) > 1:
            raise UnderstudyError("the gold sets hold the teacher's labels in different forms; use one (soft or hard)")
        if teachers:
            both.teacher = type(teachers[0]).concatenate(teachers)
            both.teacher_rows = torch.cat([self.teacher_rows, other.teacher_rows + len(self.y)])
        return both


class Pool(ExampleSet):
    """Examples with imperfect labels (``teacher``), or with none (``teacher=None``, for active learning).

    ``classes``, ``collate``: as for ``Gold``.
    """

    derived: ClassVar[tuple[str, ...]] = ("class_order",)

    @checked_plainly
    def __init__(
        self, x: Any, teacher: Any = None, ids: Iterable[Any] | None = None, *, classes: Sequence[str] | None = None,
        collate: Collate | None = None,
    ) -> None:  # fmt: skip
        rows = as_rows(x, "pool.x", collate)
        _, labels, self.class_order = read_labels(None, teacher, classes, "pool")
        if labels is not None:
            check_length(len(labels), rows.count, "pool.teacher", "pool.x")
        self.rows, self.teacher, self.ids = rows, labels, check_ids(ids, rows.count, "pool")

    @classmethod
    def of(cls, rows: Rows, teacher: Labels | None, ids: Ids | None) -> Self:
        """A set of values that were checked before."""
        pool = cls.__new__(cls)
        pool.rows, pool.teacher, pool.ids = rows, teacher, ids
        return pool

    def __repr__(self) -> str:
        form = "no labels" if self.teacher is None else f"{type(self.teacher).__name__} labels"
        return f"Pool({len(self)} rows, {form})"

    def __sklearn_clone__(self) -> "Pool":
        """Clones of a classifier share its pool: training does not change it, and copies would be large."""
        return self

    def take(self, index: Tensor) -> "Pool":
        """Some rows of this set, with the teacher's labels."""
        teacher = None if self.teacher is None else self.teacher.take(index)
        part = Pool.of(SubsetRows(self.rows, index), teacher, self._ids_of(index))
        part.class_order = self.class_order
        return part


Part = TypeVar("Part", Gold, Pool, Gold | None, Pool | None)


def set_read_by(student: nn.Module, part: Part) -> Part:
    """Gold or a pool with its rows as the student takes them."""
    if part is None or not part.rows.is_text:
        return part
    read = copy.copy(part)
    read.rows = read_by(student, part.rows)
    return read


def check_sets(gold: Any, pool: Any, *, both_for: str = "") -> None:
    """Refuses what is not a gold set and a pool (or None), and sets whose classes or columns differ.

    ``both_for``: what needs both of them, for the message.
    """
    if both_for and (gold is None or pool is None):
        raise UnderstudyError(f"{both_for} needs gold and a pool: us.Gold(x, y, teacher=…) and us.Pool(x, teacher)")
    if not isinstance(gold, Gold | None):
        raise UnderstudyError(f"gold is a {type(gold).__name__}; pass us.Gold(x, y)")
    if not isinstance(pool, Pool | None):
        raise UnderstudyError(f"pool is a {type(pool).__name__}; pass us.Pool(x, teacher)")
    check_compatible(gold, pool, "gold", "the pool")


def check_compatible(one: Gold | Pool | None, other: Gold | Pool | None, what: str, another: str) -> None:
    """Refuses sets whose classes, or whose frames' columns, are in different orders."""
    if one is None or other is None:
        return
    if not isinstance(other, Pool) or other.teacher is not None:
        check_same_classes(one.class_order, other.class_order, what, another)
    mine, theirs = one.rows.names, other.rows.names
    if mine is not None and theirs is not None and mine != theirs:
        differ = f"the columns {', '.join(mine[:8])}, {another}'s x {', '.join(theirs[:8])}"
        raise UnderstudyError(f"{what}.x has {differ}; pass the same columns in the same order")


def drop_unlabelled(pool: Pool | None) -> tuple[Pool | None, Tensor | None]:
    """The pool rows with a label, and which they are (None: all)."""
    if pool is None:
        return None, None
    if pool.teacher is None:
        raise UnderstudyError("the pool has no teacher labels; label it (us.teach), or pass pool=None for gold alone")
    if not pool.rows.count:
        raise UnderstudyError("the pool is empty; give it rows, or pass pool=None to train on gold alone")
    labelled = pool.teacher.labelled()
    if bool(labelled.all()):
        return pool, None
    kept = labelled.nonzero().squeeze(1)
    if not len(kept):
        raise UnderstudyError("no pool row has a teacher label (all are −1); label some, or pass pool=None")
    return pool.take(kept), kept


def weigh_by_gold(gold: Gold | None, pool: Pool | None) -> tuple[Gold | None, Pool | None]:
    """Both sets with their votes weighed by gold; those of gold rows are cross-fitted."""
    return weighed(gold, gold), weighed(pool, gold)


def weighed(part: Part, gold: Gold | None) -> Part:
    """``part`` with votes weighed by ``gold``; where it is gold itself, each row by the others."""
    if part is None or part.teacher is None or not part.teacher.needs_gold:
        return part
    rows, labels = (torch.empty(0), None) if gold is None else gold.calibration()
    if gold is None or labels is None or not len(rows):
        raise UnderstudyError('votes by="gold" need gold rows with votes by="gold"; or pass by="majority"')
    if not labels.needs_gold:
        raise UnderstudyError('the pool\'s votes are weighed by="gold", those on gold are not; pass by="gold" to both')
    with_labels = copy.copy(part)
    if part is gold:
        known = torch.isin(gold.teacher_rows, rows)
        with_labels.teacher = part.teacher.cross_fitted(gold.y[gold.teacher_rows], known)
    else:
        with_labels.teacher = part.teacher.learn_from(labels, gold.y[rows])
    return with_labels
