"""The cells of a comparison: the split of each seed, and the training of one method under one seed.

With test rows of their own, gold is cut into a training and a select part, anew for each seed. Without, gold is also
cut into folds: seed 0 tests on the first fifth, seed 1 on the second and so on, so that after ``FOLDS`` seeds every
gold row has been tested once by students that never saw it. Rows chosen by active learning are no random sample: they
always train. Rows that estimate only are one: they measure the teacher, select and test, and are left out of training.
"""

import copy
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from understudy.comparison.candidates import GOLD_ONLY, named_methods
from understudy.comparison.comparison_options import Methods
from understudy.comparison.interval import Array
from understudy.comparison.outcome import Correct, Outcome
from understudy.data.examples import Gold, Pool, check_sets, drop_unlabelled, weighed
from understudy.data.fitted_rows import mark_fitted
from understudy.data.rows import SubsetRows
from understudy.data.splits import fold_rows, split_rows
from understudy.errors import UnderstudyError, UnderstudyWarning, first_line
from understudy.maths.metric_scores import ACCURACY, row_values
from understudy.methods import METHODS
from understudy.models.registry import Student, initial_student
from understudy.objective import Context, Objective
from understudy.store.fingerprints import fingerprint
from understudy.training.callbacks import Callback
from understudy.training.evaluation import COMPARED_ROWS, gold_only_options
from understudy.training.options import AUTO, FINAL, NOT_SHARED, SHARED, TrainingOptions
from understudy.training.prepare import FitPart, check_outputs
from understudy.training.run import Run, state_to_bytes
from understudy.training.train import fit_resolved, train

FOLDS = 5


@dataclass(frozen=True)
class Cell:
    method: str
    seed: int
    #: The pretrained student of this seed, where there is one, as the bytes of a file.
    start: bytes | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.method}, seed {self.seed}"


@dataclass(frozen=True)
class SeedSplit:
    """The split of one seed: gold that trains and measures the teacher, a validation set, a test set."""

    gold: Gold
    select: Gold | None
    test: Gold
    #: The numbers of the test rows in the user's test set (or in gold, where that is split into folds).
    rows: Array


def split_for_seed(gold: Gold, *, test: Gold | None, select: Gold | float, seed: int) -> SeedSplit:
    random = (~gold.chosen).nonzero().squeeze(1)
    if test is None:
        if len(random) < 2 * FOLDS:
            cure = f"pass test=, or at least {2 * FOLDS} gold rows that were not chosen by active learning"
            raise UnderstudyError(f"{len(random)} gold rows are too few to be cut into {FOLDS} folds; {cure}")
        repetition, fold = divmod(seed, FOLDS)
        rest, held_out = fold_rows(gold.y[random], FOLDS, repetition, stratify=False)[fold]
        tested, random = random[held_out], random[rest]
    else:
        tested = torch.arange(len(test))
    picks: Gold | None = select if isinstance(select, Gold) else None
    if isinstance(select, float) and select > 0:
        parts = split_rows(gold.y[random], {"select": select}, seed)
        if not len(parts["select"]) or not len(parts["train"]):
            what = f"select={select} of {len(random)} gold rows leaves no row on one side"
            raise UnderstudyError(f"{what}; pass select=0.0")
        picks, random = gold.take(random[parts["select"]]), random[parts["train"]]
    train = torch.cat([random, gold.chosen.nonzero().squeeze(1)]).sort().values
    mine = gold if len(train) == len(gold) else gold.take(train)
    return SeedSplit(mine, picks, gold.take(tested) if test is None else test, tested.numpy())


def train_method(
    method: str, student: Student, gold: Gold, pool: Pool, objective: Objective, recipe: TrainingOptions, **options: Any
) -> Run:
    """``us.train``, without the pool where the method is training on gold only."""
    if method == GOLD_ONLY:
        return train(student, gold, None, objective, **options, **gold_only_options(recipe, gold, pool).arguments())
    return train(student, gold, pool, objective, **options, **recipe.arguments())


class Job:
    """The data and options of all cells; shared with forked processes, sent once to others."""

    def __init__(
        self, student: Student, gold: Gold, pool: Pool, methods: Methods, recipe: TrainingOptions, test: Any,
        select: Any, callbacks: Sequence[Callback] = (), auto: Callable[..., Run] = train,
    ) -> None:  # fmt: skip
        """``auto``: what trains the method of that name."""
        check_sets(gold, pool, both_for="a comparison")
        drop_unlabelled(pool)  # raises for a pool without labels
        assert pool.teacher is not None
        pool.teacher.take(torch.arange(1))  # votes fit their model now, once, and not in every process
        self.objectives, self.notes = named_methods(methods, weighed(pool, gold), auto=True)
        if not len(gold.training_rows()):
            del self.objectives[GOLD_ONLY]
            self.notes.append("gold only is left out: every gold row is for estimates only.")
        self.test: Gold | None = Gold(*test, name="test") if isinstance(test, tuple) else test
        select = Gold(*select, name="select") if isinstance(select, tuple) else select
        self.select = select if isinstance(select, Gold) else float(select or 0.0)
        if isinstance(self.select, float) and not 0 <= self.select < 1:
            raise UnderstudyError(f"select={select} is a share of gold, at least 0 and below 1; or pass us.Gold(…)")
        gold = mark_fitted(gold, pool, test=self.test, select=select if isinstance(select, Gold) else None)
        self.gold = copy.copy(gold)  # it will hold a ``cache``, which the user's shall not
        #: Estimates from the gold of each seed; under None where all seeds have all of gold.
        self.cached_estimates: dict[int | None, dict[Hashable, Any]] = {}
        self.student, self.pool, self.recipe, self.callbacks, self.auto = student, pool, recipe, callbacks, auto

    def settings(self) -> dict[str, Any]:
        """What must be the same for cells of one table."""
        data = {"gold": self.gold, "pool": self.pool, "test": self.test, "select": self.select}
        return shared_settings(self.student, self.recipe, **data)

    def parts(self, seed: int) -> SeedSplit:
        parts = split_for_seed(self.gold, test=self.test, select=self.select, seed=seed)
        parts.gold.cache = self.cached_estimates.setdefault(None if parts.gold is self.gold else seed, {})
        return parts

    def estimate(self, seeds: Iterable[int]) -> None:
        """Estimate the teacher now, once, and not in every training and process."""
        classes = self.classes
        for seed in seeds:
            gold = self.parts(seed).gold
            known, labelled = weighed(gold, gold), weighed(self.pool, gold)
            context = Context(known, labelled, classes=classes, predict=_no_student, features=_no_student)
            for name, objective in self.objectives.items():
                for slot in objective.slots if name != GOLD_ONLY else ():
                    with suppress(UnderstudyError):  # the training will say it, with the method's name
                        slot.estimate(context)

    def pretrain(self, seed: int) -> bytes:
        """The student of a seed, pretrained on its gold, for all methods; as the bytes of a file."""
        recipe = self.recipe.on_gold(self.recipe.pretrain_epochs, pretrain_epochs=0, finetune_epochs=0, seed=seed)
        gold = self.parts(seed).gold
        (student,) = fit_resolved(self.student, [FitPart(gold, None, recipe)], METHODS["vanilla"]())
        return state_to_bytes(student.state_dict())

    def train(self, cell: Cell) -> tuple[Outcome, list[str]]:
        """Train one method under one seed; its outcome and warnings."""
        parts = self.parts(cell.seed)
        recipe = self.recipe.replace(refine=False, seed=cell.seed)
        student: Student = self.student
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if not self._cross_fits(cell, parts.gold):
                    recipe, student = recipe.replace(pretrain_epochs=0), self._student(cell)
                more: dict[str, Any] = {
                    "test": parts.test, "select": parts.select, "callbacks": self.callbacks, "progress": False,
                    "notes": {"compared_as": cell.method},
                }  # fmt: skip
                if cell.method == AUTO:
                    given = {name: recipe.arguments()[name] for name in (*SHARED, *FINAL)} | {"workers": 1}
                    run = self.auto(student, parts.gold, self.pool, **more, **given)
                else:
                    objective = self.objectives[cell.method]
                    run = train_method(cell.method, student, parts.gold, self.pool, objective, recipe, **more)
            except UnderstudyError as error:
                raise UnderstudyError(f"{cell}: {error}") from error
        right = self._judge(run.predict(parts.test.rows), parts.test.y)
        some = SubsetRows(self.pool.rows, torch.arange(min(len(self.pool), COMPARED_ROWS)))
        classes = run.predict(some).argmax(1).tolist() if self.test is None else ()
        outcome = replace(Outcome.of(run), judged=Correct(parts.rows, right), pool_classes=classes)
        return outcome, [str(one.message) for one in caught if issubclass(one.category, UnderstudyWarning)]

    def _cross_fits(self, cell: Cell, gold: Gold) -> bool:
        """Whether the method pretrains copies of the student itself, because it predicts gold rows that trained it."""
        trained_on = (~gold.estimate_only[gold.calibration_rows()]).any()
        asks = cell.method != GOLD_ONLY and self.objectives[cell.method].predicts_gold
        return cell.method == AUTO or (asks and bool(trained_on))

    def _student(self, cell: Cell) -> Student:
        if cell.start is None:
            return self.student
        student = initial_student(self.student, cell.seed)
        try:
            student.load_state_dict(safetensors.torch.load(cell.start))
        except (SafetensorError, RuntimeError) as error:
            cure = f"remove starts/{cell.seed}.safetensors from the comparison's folder to pretrain it again"
            raise UnderstudyError(f"the pretrained student does not load ({first_line(error)}); {cure}") from error
        return student

    @cached_property
    def teacher_seen_on(self) -> str:
        """Where the teacher's own accuracy can be measured: on the "test" rows, on "gold", or nowhere ("")."""
        if self.test is None or len(self.test.calibration_rows()) == 0:
            return "gold" if len(self.gold.calibration_rows()) else ""
        return "test"

    @cached_property
    def classes(self) -> int:
        return check_outputs(initial_student(self.student, 0), self.gold, self.pool)

    def _judge(self, probs: Tensor, y: Tensor) -> Array:
        """Whether rows are classified correctly, or their values of another metric."""
        metric = self.recipe.metric
        return (probs.argmax(1) == y if metric == ACCURACY else row_values(metric, probs, y)).numpy()

    @cached_property
    def weighed_gold(self) -> Gold:
        return weighed(self.gold, self.gold)

    def majority(self, seed: int) -> Outcome:
        """The majority-class baseline: the most common class of the test rows (or of gold, in folds)."""
        parts, every = self.parts(seed), self.gold if self.test is None else self.test
        shares = torch.bincount(every.y, minlength=self.classes) / len(every)
        right = self._judge(shares.expand(len(parts.test), -1), parts.test.y)
        return Outcome(float(right.mean()), judged=Correct(parts.rows, right))

    def teacher(self, seed: int) -> Outcome | None:
        """The teacher on the test rows, or else on all of gold; it was trained on neither."""
        parts, on_test = self.parts(seed), self.test is None or self.teacher_seen_on == "test"
        if self.test is None:
            examples = self.weighed_gold.take(torch.from_numpy(parts.rows))
        else:
            examples = weighed(self.test, self.gold) if on_test else self.weighed_gold
        rows, labels = examples.calibration()
        if labels is None or not len(rows):
            return None
        if self.recipe.metric == ACCURACY:
            right = (labels.top1() == examples.y[rows]).numpy()
        else:
            right = self._judge(labels.dense(torch.arange(len(rows)), self.classes), examples.y[rows])
        # Rows of gold beside a test set are no rows of that set: they are counted below 0.
        numbers = parts.rows[rows.numpy()] if on_test else -1 - rows.numpy()
        return Outcome(float(right.mean()), judged=Correct(numbers, right))


def shared_settings(student: Student, recipe: TrainingOptions, **others: Any) -> dict[str, Any]:
    """What must be the same for trainings to be compared, for JSON."""
    settings = {**others, "student": initial_student(student, 0), **recipe.settings(leave_out=NOT_SHARED)}
    plain = int | float | str | None
    return {name: value if isinstance(value, plain) else fingerprint(value) for name, value in settings.items()}


def _no_student(rows: Any) -> Tensor:
    raise AssertionError("a slot used the student while it estimated the teacher")
