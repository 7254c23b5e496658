"""``us.auto``: a cheap pilot on a slice of the pool decides the method, then the student is trained in full.

    run = us.auto(student, gold, pool, epochs=30)
    run.config["auto"]         # what the pilot saw, and what it chose

The pilot (``pilot.py``) trains every candidate on a slice of the pool and three quarters of gold, and asks it about
the last quarter; after four such folds every gold row has been predicted by students that never saw it.
``judge.py`` has the rule by which these predictions decide; vanilla has the benefit of the doubt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Unpack

from understudy.comparison.candidates import Methods, candidates, named_methods
from understudy.comparison.cells import Student, alone
from understudy.comparison.executors import Executor, executor_for
from understudy.comparison.interval import signed
from understudy.comparison.judge import Candidate, choose
from understudy.comparison.outcome import GOLD_ONLY, VANILLA
from understudy.comparison.pilot import Pilot, forget
from understudy.data.examples import Gold, Pool, drop_unlabelled
from understudy.data.splits import random_rows
from understudy.errors import UnderstudyError
from understudy.store.files import read_json
from understudy.store.settings import check_same
from understudy.training.callbacks import Callback
from understudy.training.ema import EMA
from understudy.training.loop import train
from understudy.training.recipe import Recipe, SharedOptions, plain, takes
from understudy.training.run import Run, usable_folder


@takes(SharedOptions)
def auto(
    student: Student,
    gold: Gold,
    pool: Pool,
    *,
    methods: Methods | None = None,
    pilot_rows: int = 5000,
    pilot_epochs: int | None = None,
    folds: int = 4,
    seed: int = 0,
    test: Gold | tuple[Any, Any] | None = None,
    select: Gold | tuple[Any, Any] | None = None,
    out: str | Path | None = None,
    ema: EMA | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    notes: Mapping[str, Any] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    **options: Unpack[SharedOptions],
) -> Run:
    """Choose the method by a pilot on gold, then train with it as ``us.train`` would.

    ``methods``: what to choose from, as for ``us.compare`` (None: a short list that suits the labels). The pilot sees
    ``pilot_rows`` rows of the pool, for ``pilot_epochs`` (None: as many as the training, at most 30), in ``folds``
    parts of gold, over ``workers`` processes or by an ``executor``. The test and select rows are not looked at by the
    pilot. With ``out``, pilot and training can both be stopped and resumed. ``callbacks`` see the training in full.
    """
    recipe = Recipe.shared(options, "auto")
    if not isinstance(gold, Gold) or not isinstance(pool, Pool):
        raise UnderstudyError("auto needs gold and a pool to choose a method by; pass us.Gold(x, y, …), us.Pool(x, …)")
    folds, pilot_rows, pilot_epochs = map(plain, (folds, pilot_rows, pilot_epochs))
    executor = executor_for(workers, executor)
    folder = usable_folder(out, resume=resume)
    labelled, _ = drop_unlabelled(pool)
    assert labelled is not None
    objectives = candidates(gold, labelled) if methods is None else named_methods(methods, labelled)[0]
    if pilot_rows < 1:
        raise UnderstudyError(f"pilot_rows={pilot_rows} must be at least 1")
    slice_ = labelled.take(random_rows(len(labelled), pilot_rows, seed).sort().values)
    short = min(recipe.epochs, 30) if pilot_epochs is None else pilot_epochs
    pilot_recipe = replace(recipe, epochs=short, patience=None)
    pilot = Pilot(student, gold, slice_, objectives, folds, pilot_recipe, seed, folder)
    decision = None if folder is None else _earlier(folder, pilot)
    if decision is None:
        judged = pilot.run(executor, progress=progress)
        choice, ruled_out = _choice(judged, gold, sees_all=len(slice_) == len(labelled))
        table = [{name: value for name, value in asdict(one).items() if value == value} for one in judged.values()]
        decision = {
            "choice": choice, "ruled_out": ruled_out, "pilot_rows": len(slice_), "folds": folds, "candidates": table,
            "settings": {} if folder is None else pilot.settings(),
        }  # fmt: skip
    choice = decision["choice"]
    if choice not in objectives:
        raise UnderstudyError(f"the run in {folder} was made with {choice}, which is not among these methods")
    recipe = replace(recipe, seed=seed, ema=ema, checkpoint_every=checkpoint_every)
    if choice == GOLD_ONLY:
        recipe = alone(recipe, gold, labelled)
    run = train(
        student, gold, None if choice == GOLD_ONLY else pool, objectives[choice], test=test, select=select, out=folder,
        resume=folder is not None, notes={**(notes or {}), "auto": decision}, callbacks=callbacks, progress=progress,
        **recipe.arguments(),
    )  # fmt: skip
    if folder is not None:
        forget(folder)
    return run


def why_chosen(run: Run) -> str | None:
    """What the pilot chose and on what grounds, in words; None for a run that had no pilot."""
    decision = run.config.get("auto")
    if decision is None:
        return None
    choice, by_name = decision["choice"], {one["method"]: one for one in decision["candidates"]}
    if not by_name:
        return f"{choice}, because gold is too small to choose by"
    chosen, rival = by_name[choice], decision.get("ruled_out")
    where = f"on {chosen['rows']:,} gold rows in a pilot on {decision['pilot_rows']:,} pool rows"
    if choice == VANILLA:
        reason = f"{choice}: no other method is surely ahead {where}"
    else:
        score = f"{signed(chosen['gain'])} ± {100 * chosen['error']:.1f} points"
        reason = f"{choice}: score {score} over {VANILLA} (accuracy {signed(chosen['accuracy_gain'])}) {where}"
    if rival is not None:
        reason += (
            f"; {rival} was ahead, but no better than the teacher, whom the whole pool brings the others closer to"
        )
    return reason


def _earlier(folder: Path, pilot: Pilot) -> dict[str, Any] | None:
    """What the pilot of a finished run had decided."""
    if not (folder / "config.json").exists():
        return None
    decision = read_json(folder / "config.json").get("auto")
    if not isinstance(decision, dict):
        raise UnderstudyError(f"the run in {folder} was not made by auto; choose a new folder")
    check_same(decision.get("settings", {}), pilot.settings(), folder)
    return decision


def _choice(judged: dict[str, Candidate], gold: Gold, *, sees_all: bool) -> tuple[str, str | None]:
    """Whom to take, and who was ahead but ruled out."""
    if not judged:
        return VANILLA, None
    choice = choose(judged)
    if choice == GOLD_ONLY and not sees_all:
        # More pool rows would bring the others closer to the teacher, so gold alone must be ahead of that too.
        rows, labels = gold.estimates()
        teacher = 1.0
        if labels is not None and len(rows):
            teacher = float((labels.top1() == gold.y[rows]).double().mean())
        if judged[GOLD_ONLY].accuracy <= teacher:
            return choose({name: one for name, one in judged.items() if name != GOLD_ONLY}), GOLD_ONLY
    return choice, None
