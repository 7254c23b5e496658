"""``us.auto``: a cheap pilot on a slice of the pool decides the method, then the student is trained in full.

    run = us.auto(student, gold, pool, epochs=30)
    run.config["auto"]         # what the pilot saw, and what it chose

The pilot trains every candidate on a slice of the pool and three quarters of gold, and asks it about the last quarter;
after four such folds every gold row has been predicted by students that never saw it. Candidates that are clearly
behind leave after each fold. ``auto_judge`` has the rule by which these predictions decide; vanilla has the benefit of
the doubt.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from understudy.auto_judge import Judged, choose, judge, still_racing
from understudy.checks import drop_unlabelled, usable_folder
from understudy.compare import Training
from understudy.compare.named import VANILLA, Methods, can_rank, from_text, named_methods
from understudy.compare.progress import CellProgress
from understudy.compare.recommend import GOLD_ONLY
from understudy.compare.workers import in_workers, usable_cores
from understudy.data.crossfit import fold_rows
from understudy.data.examples import Gold, Pool
from understudy.data.labels import Hard
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.methods import METHODS
from understudy.run import Run
from understudy.train import train
from understudy.types import Objective

FEWEST_ROWS = 20
Student = nn.Module | Callable[[], nn.Module]


def auto(
    student: Student,
    gold: Gold,
    pool: Pool,
    *,
    epochs: int,
    methods: Methods | None = None,
    pilot_rows: int = 5000,
    pilot_epochs: int | None = None,
    folds: int = 4,
    seed: int = 0,
    test: Gold | tuple[Any, Any] | None = None,
    select: Gold | tuple[Any, Any] | None = None,
    pretrain_epochs: int = 0,
    out: str | Path | None = None,
    workers: int | None = None,
    progress: bool = True,
    **training: Unpack[Training],
) -> Run:
    """Choose the method by a pilot on gold, then train with it as ``us.train`` would.

    ``methods``: what to choose from, as for ``us.compare`` (None: a short list that suits the labels). The pilot sees
    ``pilot_rows`` rows of the pool, for ``pilot_epochs`` (None: as many as the training, at most 30), in ``folds``
    parts of gold, over ``workers`` processes. The test and select rows are not looked at by the pilot.
    """
    unknown = set(training) - set(Training.__annotations__)
    if unknown:
        raise TypeError(f"auto() got an unexpected keyword argument {min(unknown)!r}")
    if not isinstance(gold, Gold) or not isinstance(pool, Pool):
        raise UnderstudyError("auto needs gold and a pool to choose a method by; pass us.Gold(x, y, …), us.Pool(x, …)")
    usable_folder(out)
    labelled, _ = drop_unlabelled(pool)
    assert labelled is not None
    objectives = candidates(gold, labelled) if methods is None else named_methods(methods, labelled)[0]
    options: dict[str, Any] = {**training, "pretrain_epochs": pretrain_epochs}
    slice_ = labelled.take(_some(len(labelled), pilot_rows, seed))
    pilot_options = {**options, "epochs": pilot_epochs or min(epochs, 30), "patience": None}
    pilot = Pilot(student, gold, slice_, objectives, folds, pilot_options, seed)
    judged = pilot.run(usable_cores() if workers is None else workers, progress=progress)
    choice = _choice(judged, gold, sees_all=len(slice_) == len(labelled))
    if choice == GOLD_ONLY:
        options["gold_repeat"] = gold_passes(gold, pool)
    run = train(
        student, gold, None if choice == GOLD_ONLY else pool, objectives[choice], epochs=epochs, seed=seed, test=test,
        select=select, out=out, progress=progress, **options,
    )  # fmt: skip
    table = [{name: value for name, value in asdict(one).items() if value == value} for one in judged.values()]
    run.config["auto"] = {"choice": choice, "pilot_rows": len(slice_), "folds": folds, "candidates": table}
    if out is not None:
        run.save(out)
    return run


def candidates(gold: Gold, pool: Pool) -> dict[str, Objective]:
    """The short list for these labels; who needs the teacher's word on gold stands only where it is known."""
    assert pool.teacher is not None
    soft = not isinstance(pool.teacher.simplest(), Hard)
    names = ["vanilla", *(["vanilla:hard=true"] if soft else []), "self_distillation", "gce"]
    if can_rank(pool):
        names.append("confident")
    if len(gold.estimate_rows()) >= FEWEST_ROWS:
        names += ["slam", "weighted:refresh_every=5"]
        known = pool.teacher.classes or int(max(gold.y.max(), pool.teacher.top1().max())) + 1
        # Every fold must hold every class.
        if bool((torch.bincount(gold.y[gold.estimate_rows()], minlength=known) > 1).all()):
            names.append("forward")
    return {GOLD_ONLY: METHODS["vanilla"](), **from_text(names)}


def gold_passes(gold: Gold, pool: Pool) -> int:
    """How often gold is shown per epoch where it trains alone: as many rows as the methods that have the pool."""
    return 1 + len(pool) // len(gold)


@dataclass
class Pilot:
    student: Student
    gold: Gold
    pool: Pool
    objectives: dict[str, Objective]
    folds: int
    options: dict[str, Any]
    seed: int

    def run(self, workers: int, *, progress: bool = False) -> dict[str, Judged]:
        """Every candidate beside vanilla; only vanilla where gold is too small to tell."""
        # Rows chosen by active learning are no sample of anything: they train, and judge nobody.
        random = (~self.gold.chosen).nonzero().squeeze(1)
        if len(random) < max(FEWEST_ROWS, self.folds):
            warnings.warn(
                f"{len(random)} gold rows are too few to choose a method by ({FEWEST_ROWS} or more are needed); "
                "vanilla is trained",
                UnderstudyWarning,
                stacklevel=3,
            )
            return {}
        self.parts = self._parts(random)
        said: dict[str, Tensor] = {}
        racing = list(self.objectives)
        with CellProgress(len(racing) * self.folds, title="pilot", shown=progress) as bar:
            for fold in range(self.folds):
                tasks = [(name, fold) for name in racing]
                in_workers(self.predict, tasks, workers, on_done=lambda task, probs: self._note(said, task, probs, bar))
                racing = still_racing({name: said[name] for name in racing}, self.gold.y)
                bar.total = bar.done + len(racing) * (self.folds - fold - 1)
        return judge(said, self.gold.y)

    def predict(self, task: tuple[str, int]) -> Any:
        """What a candidate, trained without a fold of gold, says of its rows."""
        name, fold = task
        train_rows, held_out = self.parts[fold]
        gold = self.gold.take(train_rows)
        options, pool = dict(self.options), self.pool
        if name == GOLD_ONLY:
            options["gold_repeat"] = gold_passes(gold, pool)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the training in full says it again
            run = train(
                self.student, gold, None if name == GOLD_ONLY else pool, self.objectives[name], seed=self.seed + fold,
                refine=False, progress=False, **options,
            )  # fmt: skip
        return run.predict(self.gold.take(held_out).rows).numpy()

    def _parts(self, random: Tensor) -> list[tuple[Tensor, Tensor]]:
        chosen = self.gold.chosen.nonzero().squeeze(1)
        return [
            (torch.cat([random[rest], chosen]), random[held_out])
            for rest, held_out in fold_rows(self.gold.take(random), self.folds, self.seed)
        ]

    def _note(self, said: dict[str, Tensor], task: tuple[str, int], probs: Any, bar: CellProgress) -> None:
        name, fold = task
        found = torch.from_numpy(probs)
        said.setdefault(name, torch.full((len(self.gold), found.shape[1]), math.nan))[self.parts[fold][1]] = found
        bar.cell(f"{name}, fold {fold + 1}")


def _choice(judged: dict[str, Judged], gold: Gold, *, sees_all: bool) -> str:
    if not judged:
        return VANILLA
    choice = choose(judged)
    if choice == GOLD_ONLY and not sees_all:
        # More pool rows would bring the others closer to the teacher, so gold alone must be ahead of that too.
        rows, said = gold.estimates()
        known = said is not None and len(rows) > 0
        teacher = float((said.top1() == gold.y[rows]).double().mean()) if known and said is not None else 1.0
        if judged[GOLD_ONLY].accuracy <= teacher:
            return choose({name: one for name, one in judged.items() if name != GOLD_ONLY})
    return choice


def _some(rows: int, wanted: int, seed: int) -> Tensor:
    if wanted < 1:
        raise UnderstudyError(f"pilot_rows={wanted} must be at least 1")
    if rows <= wanted:
        return torch.arange(rows)
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:wanted].sort().values
