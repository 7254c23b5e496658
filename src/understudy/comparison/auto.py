"""``us.auto``: a cheap pilot on a slice of the pool decides the method, then the student is trained in full.

    run = us.auto(student, gold, pool, epochs=30)
    run.config["auto"]         # what the pilot saw, and what it chose

The pilot (``auto_pilot``) trains every candidate on a slice of the pool and three quarters of gold, and asks it about
the last quarter; after four such folds every gold row has been predicted by students that never saw it.
``auto_judge`` has the rule by which these predictions decide; vanilla has the benefit of the doubt.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from understudy.comparison.deal import gold_passes
from understudy.comparison.interval import signed
from understudy.comparison.job import Student, Training, spelt_out
from understudy.comparison.judge import Judged, choose
from understudy.comparison.named import VANILLA, Methods, can_rank, from_text, named_methods
from understudy.comparison.pilot import FEWEST_ROWS, Pilot, forget
from understudy.comparison.recommend import GOLD_ONLY
from understudy.comparison.workers import usable_cores
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.labels.forms import Hard
from understudy.methods import METHODS
from understudy.objective import Objective
from understudy.store.files import read_json
from understudy.training.checks import drop_unlabelled, usable_folder
from understudy.training.ema import EMA
from understudy.training.loop import train
from understudy.training.recipe import pythons
from understudy.training.run import Run
from understudy.training.snapshot import check_same


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
    ema: EMA | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    notes: Mapping[str, Any] | None = None,
    workers: int | None = None,
    progress: bool = True,
    **training: Unpack[Training],
) -> Run:
    """Choose the method by a pilot on gold, then train with it as ``us.train`` would.

    ``methods``: what to choose from, as for ``us.compare`` (None: a short list that suits the labels). The pilot sees
    ``pilot_rows`` rows of the pool, for ``pilot_epochs`` (None: as many as the training, at most 30), in ``folds``
    parts of gold, over ``workers`` processes. The test and select rows are not looked at by the pilot. With ``out``,
    pilot and training can both be stopped and resumed.
    """
    unknown = set(training) - set(Training.__annotations__)
    if unknown:
        raise TypeError(f"auto() got an unexpected keyword argument {min(unknown)!r}")
    if not isinstance(gold, Gold) or not isinstance(pool, Pool):
        raise UnderstudyError("auto needs gold and a pool to choose a method by; pass us.Gold(x, y, …), us.Pool(x, …)")
    folds, pilot_rows, pilot_epochs = map(pythons, (folds, pilot_rows, pilot_epochs))
    workers = usable_cores() if workers is None else workers
    if workers < 1:
        raise UnderstudyError(f"workers={workers} must be at least 1, or None for one per core")
    folder = usable_folder(out, resume=resume)
    labelled, _ = drop_unlabelled(pool)
    assert labelled is not None
    objectives = candidates(gold, labelled) if methods is None else named_methods(methods, labelled)[0]
    options: dict[str, Any] = {**spelt_out(training), "pretrain_epochs": pretrain_epochs}
    slice_ = labelled.take(_some(len(labelled), pilot_rows, seed))
    short = {"epochs": min(epochs, 30) if pilot_epochs is None else pilot_epochs, "patience": None}
    pilot = Pilot(student, gold, slice_, objectives, folds, options | short, seed, folder)
    found = None if folder is None else _earlier(folder, pilot)
    if found is None:
        judged = pilot.run(workers, progress=progress)
        choice, ruled_out = _choice(judged, gold, sees_all=len(slice_) == len(labelled))
        table = [{name: value for name, value in asdict(one).items() if value == value} for one in judged.values()]
        found = {
            "choice": choice, "ruled_out": ruled_out, "pilot_rows": len(slice_), "folds": folds, "candidates": table,
            "settings": {} if folder is None else pilot.settings(),
        }  # fmt: skip
    choice = found["choice"]
    if choice not in objectives:
        raise UnderstudyError(f"the run in {folder} was made with {choice}, which is not among these methods")
    if choice == GOLD_ONLY:
        options["gold_repeat"] = gold_passes(gold, labelled, options["gold_repeat"])
    run = train(
        student, gold, None if choice == GOLD_ONLY else pool, objectives[choice], epochs=epochs, seed=seed, test=test,
        select=select, out=folder, ema=ema, checkpoint_every=checkpoint_every, progress=progress,
        resume=folder is not None, notes={**(notes or {}), "auto": found}, **options,
    )  # fmt: skip
    if folder is not None:
        forget(folder)
    return run


def why_chosen(run: Run) -> str | None:
    """What the pilot chose and on what grounds, in words; None for a run that had no pilot."""
    found = run.config.get("auto")
    if found is None:
        return None
    choice, seen = found["choice"], {one["method"]: one for one in found["candidates"]}
    if not seen:
        return f"{choice}, because gold is too small to choose by"
    mine, rival = seen[choice], found.get("ruled_out")
    where = f"on {mine['rows']:,} gold rows in a pilot on {found['pilot_rows']:,} pool rows"
    if choice == VANILLA:
        said = f"{choice}: no other method is surely ahead {where}"
    else:
        score = f"{signed(mine['gain'])} ± {100 * mine['error']:.1f} points"
        said = f"{choice}: score {score} over {VANILLA} (accuracy {signed(mine['accuracy_gain'])}) {where}"
    if rival is not None:
        said += f"; {rival} was ahead, but no better than the teacher, whom the whole pool brings the others closer to"
    return said


def _earlier(folder: Path, pilot: Pilot) -> dict[str, Any] | None:
    """What the pilot of a finished run had found."""
    if not (folder / "config.json").exists():
        return None
    found = read_json(folder / "config.json").get("auto")
    if not isinstance(found, dict):
        raise UnderstudyError(f"the run in {folder} was not made by auto; choose a new folder")
    check_same(found.get("settings", {}), pilot.settings(), folder)
    return found


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


def _choice(judged: dict[str, Judged], gold: Gold, *, sees_all: bool) -> tuple[str, str | None]:
    """Whom to take, and who was ahead but ruled out."""
    if not judged:
        return VANILLA, None
    choice = choose(judged)
    if choice == GOLD_ONLY and not sees_all:
        # More pool rows would bring the others closer to the teacher, so gold alone must be ahead of that too.
        rows, said = gold.estimates()
        known = said is not None and len(rows) > 0
        teacher = float((said.top1() == gold.y[rows]).double().mean()) if known and said is not None else 1.0
        if judged[GOLD_ONLY].accuracy <= teacher:
            return choose({name: one for name, one in judged.items() if name != GOLD_ONLY}), GOLD_ONLY
    return choice, None


def _some(rows: int, wanted: int, seed: int) -> Tensor:
    if wanted < 1:
        raise UnderstudyError(f"pilot_rows={wanted} must be at least 1")
    if rows <= wanted:
        return torch.arange(rows)
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:wanted].sort().values
