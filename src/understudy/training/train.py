"""The one training loop: ``us.train``.

Read from top to bottom: what is asked for is checked, the session prepares the columns, labels and penalty are made
where the recipe leaves them to gold, then the student trains (``training/fit.py``): each epoch visits every pool row
once and every gold row ``gold_repeat`` times, in an order that depends on the seed and the epoch alone.
What a batch costs is the session's matter (``training/session.py``); losses are per example until it sums them.
"""

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

import torch
from torch import nn

from understudy import models
from understudy.arguments import checked_plainly
from understudy.data.examples import Gold, Pool
from understudy.data.pairing import check_compatible, check_sets
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.inference.passes import usable_device
from understudy.labels.class_names import ClassNames, as_texts, joint_names
from understudy.models.registry import fresh_student
from understudy.objective import Objective, Relabelled
from understudy.store.files import locked
from understudy.store.stopping import ends_on_sigterm
from understudy.training.callbacks import Callback, check_callbacks
from understudy.training.checkpoint import FOLDER, Checkpoints, check_same_training, drop_checkpoints, settings_of
from understudy.training.defaults import suitable_epochs, suited_options, with_own_options
from understudy.training.distributed import current, is_first, on_rank_zero, same_start, together
from understudy.training.ema import EMA
from understudy.training.evaluation import evaluate_training
from understudy.training.fit import Training
from understudy.training.keywords import takes
from understudy.training.l2 import EPOCHS_TO_CHOOSE, choose_c, l2_of_c, mean_square
from understudy.training.learner import check_outputs
from understudy.training.length import LEAST_ROWS, MOST_ROWS, PARTS, choose_epochs, leave_out
from understudy.training.options import AUTO, RecipeOptions, TrainingOptions
from understudy.training.run import Run, usable_folder
from understudy.training.session import Session, seed_torch


@takes(RecipeOptions)
@checked_plainly
@together
def train(
    student: nn.Module | Callable[[], nn.Module],
    gold: Gold | None,
    pool: Pool | None,
    objective: Objective,
    *,
    test: Gold | tuple[Any, Any] | None = None,
    select: Gold | tuple[Any, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    notes: Mapping[str, Any] | None = None,
    evaluate: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[RecipeOptions],
) -> Run:
    """Train a student on gold ∪ pool under an objective.

    ``student``: a module (copied) or a function that builds one (called under ``seed``). ``epochs`` may be left out
    (``"auto"``): as many steps as gold rows left out say, at a rate that falls to nothing (``training/length.py``), or
    for a linear student L-BFGS until converged (``training/defaults.py``). ``pool=None`` trains on gold alone,
    ``gold=None`` on the pool alone. ``test`` is only ever looked at; ``select`` picks the epoch reported as selected,
    and with ``patience`` training stops after that many epochs without a better one; with ``until_accuracy`` it stops
    once that share of the training rows' own labels is predicted (eval mode). ``gold_repeat`` shows each gold row that
    often per epoch (0: gold steers, but does not train), ``gold_weight`` multiplies its loss.
    ``pretrain_epochs`` first trains on gold alone, ``finetune_epochs`` does so at the end (from the selected epoch
    where ``patience`` is set) at a constant ``finetune_lr``, by default the rate that the schedule ends with. ``clip``
    bounds the gradient's norm; ``accumulate`` batches make one step.
    ``augment(x, generator)`` changes training batches. ``refine`` keeps, per pool row, what training said of its label.
    ``ema`` is reset to the student before the first epoch and follows every step (fine-tuning excepted). ``out`` names
    a new folder for the run, where checkpoints are written after every epoch and every ``checkpoint_every`` batches;
    ``resume=True`` goes on from the latest (from the start where there is none; a finished run is just loaded).
    ``notes`` are kept in ``run.config``: ``notes={"class_names": ["neg", "pos"]}`` gives ``understudy predict`` names.
    ``evaluate`` measures ``run.evaluation``: on the test set, else cross-validated on gold, beside a student trained on
    gold alone, for which up to eight more students are trained (``training/evaluation.py``).
    ``callbacks`` look on (``us.Callback``). Every further option is a field of ``training/options.py``.
    """
    started = time.perf_counter()
    if not callable(student):
        raise UnderstudyError(f"student is a {type(student).__name__}; pass a module, or a function that builds one")
    check_sets(gold, pool)
    folder = on_rank_zero(lambda: usable_folder(out, resume=resume))
    names = joint_names(*(None if part is None else part.class_order for part in (gold, pool)))
    test, select = _as_gold(test, "test", names), _as_gold(select, "select", names)
    told_options, length = settled(student, gold, pool, options, select=select)
    recipe = TrainingOptions(**told_options)
    _check_request(recipe, gold, select, notes, callbacks)
    device = usable_device(recipe.device)
    with torch.random.fork_rng(), nullcontext() if folder is None else _owned(folder):
        on_rank_zero(
            lambda: usable_folder(out, resume=resume)
        )  # again: somebody may have been here before we had the lock
        seed_torch(recipe.seed)
        build, student = student, fresh_student(student)
        student = student if device is None else student.to(device)
        told: dict[str, Any] = {
            "epochs": recipe.epochs, "full_batch": recipe.is_full_batch, **recipe.session_options(),
        }  # fmt: skip
        session = Session(student, gold, pool, objective, **told)
        same_start(student, recipe, objective, gold, pool)
        if test is not None or select is not None:
            check_outputs(student, None, None, test=test, select=select)
            for part, called in ((test, "test"), (select, "select")):
                check_compatible(pool if gold is None else gold, part, "the pool" if gold is None else "gold", called)
        recipe = replace(recipe, gold_repeat=session.recipe.gold_repeat)
        settings: dict[str, Any] = {}
        if folder is not None:
            rows = {"gold": gold, "pool": session.pool, "test": test, "select": select}
            settings = settings_of(recipe, objective, student, session.classes, rows)
        if resume and folder is not None and on_rank_zero((folder / "config.json").exists):
            return _finished(folder, student, settings, recipe.ema)
        relabelled = None
        if objective.relabel is not None and pool is not None:
            relabel = partial(
                objective.relabel, build, gold, pool, recipe, classes=session.classes,
                folder=None if folder is None else folder / FOLDER / "relabel", progress=progress,
            )  # fmt: skip
            relabelled = relabel() if current() is None else _shared_labels(relabel, pool)
            # What the teacher said of gold is no word on labels that somebody else has made.
            silent = None if gold is None else gold.without_teacher()
            session = Session(student, silent, relabelled.pool, objective.replace(relabel=None), **told)
            session.facts |= relabelled.facts
        chosen: dict[str, Any] = {}
        asked_for = recipe
        if recipe.weight_decay == AUTO:
            c = None if relabelled is None else relabelled.c
            recipe, chosen = _with_chosen_l2(recipe, student, gold, pool, session, c)
        config = {
            **names_of(gold, pool), **(notes or {}), "objective": objective.name, "classes": session.classes,
            **recipe.as_config(), **chosen, **length, **({} if folder is None else {"settings": settings}),
        }  # fmt: skip
        checkpoints = Checkpoints(folder, settings, every=recipe.checkpoint_every)
        training = Training(session, recipe, checkpoints, config, callbacks, test=test, select=select)
        with training.shown_to_fail():
            training.run(resume=resume, progress=progress and is_first())
            run = training.result(started)
            if relabelled is not None:
                run.columns |= relabelled.columns
            if evaluate:
                run.evaluation = on_rank_zero(
                    lambda: evaluate_training(
                        run.student, gold, pool, test, objective, asked_for, partial(fitted, build),
                        weight_decay=recipe.penalty, pilot=config.get("auto"),
                    )
                )  # fmt: skip
            if folder is not None and is_first():
                run.save(folder)
                drop_checkpoints(folder)
            training.show("on_end", run.facts)
    return run


def fitted(
    student: nn.Module | Callable[[], nn.Module], gold: Gold | None, pool: Pool | None, objective: Objective,
    options: TrainingOptions,
) -> nn.Module:  # fmt: skip
    """The student after a training with these options."""
    return train(student, gold, pool, objective, progress=False, **options.arguments()).student


def _shared_labels(relabel: Callable[[], Relabelled], pool: Pool) -> Relabelled:
    """Made by the first of several processes; every one has the rows."""

    def without_rows() -> Relabelled:
        made = relabel()
        light = copy.copy(made.pool)
        light.rows = None  # type: ignore[assignment]
        return made._replace(pool=light)

    made = on_rank_zero(without_rows)
    made.pool.rows = pool.rows
    return made


def _check_request(
    recipe: TrainingOptions, gold: Gold | None, select: Gold | None, notes: Mapping[str, Any] | None,
    callbacks: Sequence[Callback],
) -> None:  # fmt: skip
    """What only the arguments together, or nobody else, can tell."""
    if not isinstance(notes, Mapping | None):
        raise UnderstudyError(f"train(notes=<{type(notes).__name__}>) must be a mapping, or None")
    if callbacks:
        check_callbacks(callbacks)
    if recipe.patience is not None and select is None:
        raise UnderstudyError("patience stops on the select rows, but select=None; pass select=us.Gold(…)")
    if recipe.pretrain_epochs or recipe.finetune_epochs:
        _check_gold_trains(gold)


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    with ends_on_sigterm(), locked(folder) if is_first() else nullcontext():
        yield


def settled(
    student: nn.Module | Callable[[], nn.Module], gold: Gold | None, pool: Pool | None, options: Mapping[str, Any], *,
    select: Gold | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The options with nothing left open, and what the config tells of the choice (``training/length.py``)."""
    options = with_own_options(student, options)
    asked = options.get("epochs")
    if not (asked is None or (isinstance(asked, str) and asked == AUTO)):
        return options, {}
    net = _initial(student)
    full = suited_options((models.spec_of(net) or {}).get("name", ""), options)
    if full["epochs"] != AUTO:
        return full, {}
    rows = sum(len(part) for part in (gold, pool) if part is not None)
    start = suitable_epochs(max(rows, 1), full.get("batch_size") or 128)
    recipe = TrainingOptions(**full | {"epochs": start})
    if gold is None or rows > MOST_ROWS:
        return full | {"epochs": start}, {}
    parts = (gold, select) if select is not None else leave_out(gold, recipe.seed)
    if parts is None or len(parts[1]) < LEAST_ROWS // PARTS:
        return full | {"epochs": start}, {}
    try:
        epochs, losses = on_rank_zero(
            lambda: choose_epochs(partial(_trained_for, student, pool, recipe), *parts, start)
        )
    except UnderstudyError:
        return full | {"epochs": start}, {}  # whatever is wrong, the training says it
    return full | {"epochs": epochs}, {"length": {"epochs": epochs, "losses": losses}}


def _trained_for(student: Any, pool: Pool | None, recipe: TrainingOptions, gold: Gold | None, epochs: int) -> nn.Module:
    """The student after so many epochs on these gold rows and the pool's labels as they are."""
    plain = replace(
        recipe, epochs=epochs, refine=False, patience=None, until_accuracy=None, pretrain_epochs=0, finetune_epochs=0,
        ema=None, checkpoint_every=None,
    )  # fmt: skip
    with warnings.catch_warnings():
        # What a part of gold cannot tell is said of all of it, once, where the student is trained.
        warnings.simplefilter("ignore", UnderstudyWarning)
        run = train(student, gold, pool, Objective(name="vanilla"), progress=False, **plain.arguments())
    return run.student


def _initial(student: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    if isinstance(student, nn.Module):
        return student
    with torch.random.fork_rng():
        return fresh_student(student)


def _with_chosen_l2(
    recipe: TrainingOptions, student: nn.Module, gold: Gold | None, pool: Pool | None, session: Session, c: float | None
) -> tuple[TrainingOptions, dict[str, Any]]:
    """The recipe with its penalty, and what the config tells of the choice; ``c``: where somebody has chosen."""
    objective = session.objective
    losses: dict[str, float] = {}
    if c is None:
        fit = partial(_fitted_with, student, pool, recipe)
        length = mean_square(session.pool.rows if session.pool is not None else cast(Gold, gold).rows)
        told: Any = {"rows": session.rows, "classes": session.classes, "seed": recipe.seed, "length": length}
        try:
            c, losses = on_rank_zero(lambda: choose_c(partial(fit, objective), gold, **told))
        except UnderstudyError:
            # Two thirds of gold may be too few for what the method estimates; the labels as they are need no estimate.
            objective = Objective(name="vanilla")
            c, losses = on_rank_zero(lambda: choose_c(partial(fit, objective), gold, **told))
    chosen = {"c": c, "losses": losses, "under": objective.name}
    return replace(recipe, weight_decay=l2_of_c(c, session.rows, session.classes)), {"l2": chosen}


def _fitted_with(
    student: nn.Module, pool: Pool | None, recipe: TrainingOptions, objective: Objective, gold: Gold,
    start: nn.Module | None, weight_decay: float,
) -> nn.Module:  # fmt: skip
    """The student as a short training on these gold rows and the pool leaves it."""
    short = replace(
        recipe, weight_decay=weight_decay, epochs=min(recipe.epochs, EPOCHS_TO_CHOOSE), refine=False, patience=None,
        until_accuracy=None, pretrain_epochs=0, finetune_epochs=0, ema=None, checkpoint_every=None,
    )  # fmt: skip
    start = student if start is None else start
    return train(start, gold, pool, objective, progress=False, **short.arguments()).student


def _check_gold_trains(gold: Gold | None) -> None:
    if gold is None:
        raise UnderstudyError("pretrain_epochs and finetune_epochs train on gold, but gold=None; pass gold")
    if not len(gold.training_rows()):
        raise UnderstudyError(
            "pretrain_epochs and finetune_epochs train on gold, but every gold row is estimate_only; pass others too"
        )


def _finished(folder: Path, student: nn.Module, settings: dict[str, Any], ema: EMA | None) -> Run:
    """The run that is in the folder, if it is the one asked for; a kill may have left its checkpoints."""
    run = on_rank_zero(lambda: replace(Run.load(folder, student=student), student=nn.Identity()))
    student.load_state_dict(on_rank_zero(student.state_dict))
    run.student = student.eval()
    check_same_training(run.config.get("settings", {}), settings, folder)
    if ema is not None and run.ema is not None:
        ema.load_state_dict(run.ema.state_dict())
        run.ema = ema
    if is_first():
        drop_checkpoints(folder)
    return run


def names_of(gold: Gold | None, pool: Pool | None) -> dict[str, Any]:
    """What a run's config tells of the names of classes, and of the columns of frames, where there are such."""
    parts = [part for part in (gold, pool) if part is not None]
    classes = next((part.class_names for part in parts if part.class_names), None)
    columns = next((part.rows.names for part in parts if part.rows.names), None)
    told = {"class_names": classes, "features": columns}
    return {name: list(values) for name, values in told.items() if values is not None}


def _as_gold(examples: Gold | tuple[Any, Any] | None, name: str, names: ClassNames | None = None) -> Gold | None:
    if examples is None or isinstance(examples, Gold):
        return examples
    if not (isinstance(examples, tuple) and len(examples) == 2):
        raise UnderstudyError(f"{name} is a {type(examples).__name__}; pass us.Gold(x, y) or a tuple (x, y)")
    # Names are matched by name; numbers need an order that the user gave.
    matched = names and (names.ordered or as_texts(examples[1]) is not None)
    return Gold(*examples, classes=names.names if names and matched else None, name=name)
