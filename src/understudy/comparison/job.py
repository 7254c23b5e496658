"""One comparison's work: what a cell trains, and what the cells of a seed share."""

import copy
import inspect
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from understudy.comparison.deal import Dealt, deal, gold_passes
from understudy.comparison.folder import CompareFolder
from understudy.comparison.named import Methods, named_methods
from understudy.comparison.outcome import Judged, Outcome
from understudy.comparison.recommend import GOLD_ONLY
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.methods import METHODS
from understudy.objective import Context, Objective
from understudy.store.fingerprint import fingerprint
from understudy.training.checks import check_outputs, drop_unlabelled
from understudy.training.loop import train
from understudy.training.optim import Schedule
from understudy.training.recipe import Augment
from understudy.training.run import load_state, state_to_bytes

Student = nn.Module | Callable[[], nn.Module]
Cell = tuple[str, int]
"""(method, seed)."""


class Training(TypedDict, total=False):
    """The options of ``us.train`` that every training of a comparison shares; same names, same defaults."""

    batch_size: int
    lr: float
    patience: int | None
    optimizer: str
    weight_decay: float
    momentum: float
    schedule: str | Schedule | Sequence[tuple[float, float]]
    gold_repeat: int
    gold_weight: float
    finetune_epochs: int
    clip: float | None
    accumulate: int
    augment: Augment | None
    feature_layer: str | None
    device: str | torch.device | None
    autocast: torch.dtype | None
    compile: bool


_DEFAULTS = {name: inspect.signature(train).parameters[name].default for name in Training.__annotations__}


def spelt_out(training: Training) -> dict[str, Any]:
    """With ``us.train``'s own defaults, so that naming one changes nothing."""
    return _DEFAULTS | dict(training)


@dataclass
class Job:
    """Everything a cell needs; in forked processes shared, in spawned ones sent once."""

    student: Student
    gold: Gold
    pool: Pool
    objectives: dict[str, Objective]
    notes: list[str]
    epochs: int
    test: Gold | None
    select: Gold | float
    pretrain_epochs: int
    training: Training
    folder: CompareFolder = field(default_factory=lambda: CompareFolder(Path()))
    answers: dict[int | None, dict[Hashable, Any]] = field(default_factory=dict)
    """What was estimated from the gold of each seed; under None where all seeds have the whole of it."""

    @classmethod
    def of(
        cls, student: Student, gold: Gold, pool: Pool, methods: Methods, epochs: int, test: Any, select: Any,
        pretrain_epochs: int, training: Training,
    ) -> "Job":  # fmt: skip
        if not isinstance(gold, Gold) or not isinstance(pool, Pool):
            raise UnderstudyError("a comparison needs gold and a pool; pass us.Gold(x, y, teacher=…) and us.Pool(x, …)")
        drop_unlabelled(pool)  # says what is wrong with a pool without labels
        assert pool.teacher is not None
        pool.teacher.take(torch.arange(1))  # votes fit their model now, once, and not in every process
        objectives, notes = named_methods(methods, pool)
        test = Gold(*test, name="test") if isinstance(test, tuple) else test
        select = Gold(*select, name="select") if isinstance(select, tuple) else select
        select = select if isinstance(select, Gold) else float(select or 0.0)
        if not isinstance(select, Gold) and not 0 <= select < 1:
            raise UnderstudyError(f"select={select} is a share of gold, at least 0 and below 1; or pass us.Gold(…)")
        gold = copy.copy(gold)  # it will hold ``answers``, which the user's shall not
        return cls(student, gold, pool, objectives, notes, epochs, test, select, pretrain_epochs, training)

    def settings(self) -> dict[str, Any]:
        """What must be the same for cells to stand in one table."""
        told = {"epochs": self.epochs, "pretrain_epochs": self.pretrain_epochs, **spelt_out(self.training)}
        data = {"gold": self.gold, "pool": self.pool, "test": self.test, "select": self.select}
        return plain_settings({**data, "student": self.initial(0), **told})

    def initial(self, seed: int) -> nn.Module:
        return initial_student(self.student, seed)

    def dealt(self, seed: int) -> Dealt:
        parts = deal(self.gold, test=self.test, select=self.select, seed=seed)
        parts.gold.answers = self.answers.setdefault(None if parts.gold is self.gold else seed, {})
        return parts

    def estimate(self, seeds: Iterable[int]) -> None:
        """Estimate the teacher now, once, and not in every training and process."""
        classes = check_outputs(self.initial(0), self.gold, self.pool)
        for seed in seeds:
            context = Context(self.dealt(seed).gold, self.pool, classes=classes, predict=_nobody, features=_nobody)
            for name, objective in self.objectives.items():
                for slot in objective.slots() if name != GOLD_ONLY else ():
                    with suppress(UnderstudyError):  # the training will say it, with the method's name
                        slot.estimate(context)

    def start(self, seed: int) -> bytes:
        """Pretrain the student of a seed on its gold, for all methods: its state, as a file holds it."""
        options: Any = {**self.training, "gold_repeat": 1, "patience": None, "finetune_epochs": 0}
        run = train(
            self.student, self.dealt(seed).gold, None, METHODS["vanilla"](), epochs=self.pretrain_epochs, seed=seed,
            progress=False, **options,
        )  # fmt: skip
        return state_to_bytes(run.student.state_dict())

    def cell(self, cell: Cell) -> tuple[Outcome, list[str]]:
        """Train one method under one seed: what it reached, and what it warned of."""
        method, seed = cell
        parts = self.dealt(seed)
        student: Student = self.student
        if self.pretrain_epochs:
            student = self.initial(seed)
            load_state(student, self.folder.start_file(seed))
        options: Any = dict(self.training)
        pool: Pool | None = self.pool
        if method == GOLD_ONLY:
            pool = None
            options["gold_repeat"] = gold_passes(parts.gold, self.pool, options.get("gold_repeat", 1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                run = train(
                    student, parts.gold, pool, self.objectives[method], epochs=self.epochs, seed=seed, test=parts.test,
                    select=parts.select, refine=False, progress=False, **options,
                )  # fmt: skip
            except UnderstudyError as error:
                raise UnderstudyError(f"{method}, seed {seed}: {error}") from error
        right = run.predict(parts.test.rows).argmax(1) == parts.test.y
        outcome = replace(Outcome.of(run), judged=Judged(parts.rows, right.numpy()))
        said = [str(warning.message) for warning in caught if issubclass(warning.category, UnderstudyWarning)]
        return outcome, said

    @cached_property
    def teacher_word(self) -> str:
        """Where the teacher's own accuracy can be seen: on the "test" rows, on "gold", or nowhere ("")."""
        if self.test is None or len(self.test.estimate_rows()) == 0:
            return "gold" if len(self.gold.estimate_rows()) else ""
        return "test"

    def teacher(self, seed: int) -> Outcome | None:
        """The teacher on the rows that test, or else on all of gold; neither was seen by it."""
        parts = self.dealt(seed)
        judge = parts.test if self.test is None or self.teacher_word == "test" else self.gold
        rows, said = judge.estimates()
        if said is None or not len(rows):
            return None
        right = (said.top1() == judge.y[rows]).numpy()
        # Rows of gold beside a test set are no rows of that set: they are counted below 0.
        numbers = parts.rows[rows.numpy()] if judge is parts.test else -1 - rows.numpy()
        return Outcome(float(right.mean()), judged=Judged(numbers, right))


def plain_settings(told: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON can hold them; where the numbers are crunched is no setting."""
    plain = int | float | str | None
    return {
        name: value if isinstance(value, plain) else fingerprint(value)
        for name, value in told.items()
        if name != "device"
    }


def initial_student(student: Student, seed: int) -> nn.Module:
    """The untrained student of a seed, as ``us.train`` would make it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return copy.deepcopy(student) if isinstance(student, nn.Module) else student()


def _nobody(rows: Any) -> Tensor:
    raise AssertionError("a slot asked for the student while it estimated the teacher")
