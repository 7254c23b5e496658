"""``us.train``: resolve the options, relabel where the method does, fit, evaluate, save.

The student is fitted by ``training/fit.py``, batch by batch, with the losses of ``training/batch_loss.py``.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from understudy.data.examples import Gold, Pool, check_compatible, check_sets
from understudy.data.fitted_rows import TrainedRows, fitted_keys, mark_fitted
from understudy.errors import UnderstudyError
from understudy.labels.class_names import ClassNames, as_texts, joint_names
from understudy.models.registry import Student
from understudy.objective import Columns, Objective
from understudy.store.console import ends_on_sigterm
from understudy.store.files import locked
from understudy.store.option_fields import checked_plainly
from understudy.training.automatic_options import c_on_gold, l2_of_c, named_student, penalty_on_gold, resolve_options
from understudy.training.averages import EMA
from understudy.training.callbacks import Callback, CallbackRunner, check_callbacks
from understudy.training.checkpoint import FOLDER, Checkpoints, check_same_training, drop_checkpoints, resume_settings
from understudy.training.distributed import is_first, joined, on_rank_zero, same_data, same_start
from understudy.training.evaluation import HELD_OUT, evaluate_training
from understudy.training.fit import fit_run
from understudy.training.fit_together import fit_students
from understudy.training.options import AUTO, TrainingOptions, option_names, shows_options
from understudy.training.prepare import check_outputs
from understudy.training.run import CONFIG, Run, usable_folder
from understudy.training.session import Session, seeded_student


@shows_options(option_names())
@checked_plainly
@joined()
def train(
    student: Student | str | None, gold: Gold | None, pool: Pool | None, objective: Objective, *,
    test: Gold | tuple[Any, Any] | None = None, select: Gold | tuple[Any, Any] | None = None,
    out: str | Path | None = None, resume: bool = False, notes: Mapping[str, Any] | None = None, progress: bool = True,
    evaluate: bool = False, callbacks: Sequence[Callback] = (), **options: Any,
) -> Run:  # fmt: skip
    """Train a student on gold ∪ pool under an objective.

    ``student``: a module (copied), a function that builds one (called under ``seed``), a name such as "mlp:128,128" or
    "linear", or None: the default for these rows. ``pool=None`` trains on gold alone, ``gold=None`` on the pool alone.
    ``test``: a test set; ``select``: a validation set, whose best epoch is reported as selected. ``out``: a new folder
    for the run, with checkpoints after every epoch and every ``checkpoint_every`` batches; ``resume=True`` goes on from
    the latest (from the start where there is none; a finished run is just loaded). ``notes`` are kept in
    ``run.config``: ``notes={"class_names": ["neg", "pos"]}`` gives ``understudy predict`` names. ``evaluate`` measures
    ``run.evaluation``: on the test set, else cross-validated on gold, beside a student trained on gold alone, for which
    up to eight more students are trained, and calibrates the probabilities of ``run.predict`` by these
    (``training/evaluation.py``). ``callbacks``: see ``us.Callback``.

    ``epochs="auto"`` (the default): as many steps as gold rows left out show, at a rate that falls to nothing, or for a
    linear student L-BFGS until converged (``training/automatic_options.py``). ``patience``: stop after so many epochs
    that are not better on ``select``; ``until_accuracy``: once that share of the training rows' own labels is predicted
    (eval mode). ``gold_repeat`` shows each gold row that often per epoch (0: gold steers, but does not train),
    ``gold_weight`` multiplies its loss. ``pretrain_epochs`` first trains on gold alone, ``finetune_epochs`` does so at
    the end (from the selected epoch where ``patience`` is set) at a constant ``finetune_lr``, by default the rate that
    the schedule ends with. ``clip`` bounds the gradient's norm; ``accumulate`` batches make one step. ``augment(x,
    generator)`` changes training batches. ``refine`` keeps, per pool row, the predictions averaged over training.
    ``ema`` is reset to the student before the first epoch and follows every step (fine-tuning excepted).
    ``training/options.py`` has every option.
    """
    started = time.perf_counter()
    check_sets(gold, pool)
    student = named_student(student, gold, pool)
    same_data(gold=gold, pool=pool, test=test, select=select)
    check_folder = partial(usable_folder, out, resume=resume)
    folder = on_rank_zero(check_folder)
    names = joint_names(*(None if part is None else part.class_order for part in (gold, pool)))
    test, select = _as_gold(test, "test", names), _as_gold(select, "select", names)
    gold = mark_fitted(gold, pool, test=test, select=select)
    resolved, chosen = resolve_options(student, gold, pool, options, select=select)
    _check_request(resolved, gold, select, notes, callbacks)
    own = folder if is_first() else None
    with nullcontext() if folder is None else ends_on_sigterm(), nullcontext() if own is None else locked(own):
        on_rank_zero(check_folder)  # again, now under the lock
        with torch.random.fork_rng():
            return _train(
                student, gold, pool, objective, resolved, test=test, select=select, folder=folder, resume=resume,
                config={**names_of(gold, pool), **(notes or {})}, chosen=chosen, progress=progress, evaluate=evaluate,
                callbacks=callbacks, started=started,
            )  # fmt: skip


def _train(
    build: Student, gold: Gold | None, pool: Pool | None, objective: Objective, given: TrainingOptions, *,
    test: Gold | None, select: Gold | None, folder: Path | None, resume: bool, config: Mapping[str, Any],
    chosen: Mapping[str, Any], progress: bool, evaluate: bool, callbacks: Sequence[Callback], started: float,
) -> Run:  # fmt: skip
    """``us.train`` with options that are resolved and checked: relabel, choose the penalty, fit, evaluate, save."""
    pilot = config.get(AUTO)
    if pilot is not None:
        config = {**config, AUTO: {name: value for name, value in pilot.items() if name != HELD_OUT}}
    student = seeded_student(build, given)
    session = Session.from_options(student, gold, pool, objective, given)
    same_start(student, given, objective)
    if test is not None or select is not None:
        check_outputs(student, None, None, test=test, select=select)
    for part, name in ((test, "test"), (select, "select")):
        check_compatible(pool if gold is None else gold, part, "the pool" if gold is None else "gold", name)
    given = given.replace(gold_repeat=session.options.gold_repeat)
    settings: dict[str, Any] = {}
    if folder is not None:
        rows = {"gold": gold, "pool": session.pool, "test": test, "select": select}
        settings = {"settings": resume_settings(given, objective, student, session.classes, rows)}
        if resume and on_rank_zero((folder / CONFIG).exists):
            return _finished(folder, student, settings["settings"], given.ema)
    # A pilot has chosen the penalty, for vanilla on its pool rows, and measured students that were trained with it.
    penalty = (pilot or {}).get("chosen_penalty")
    session, options, choice, columns = _ready(
        session, build, gold, pool, given, folder=folder, progress=progress, chosen=penalty
    )
    config = {
        **config, "objective": objective.name, "classes": session.classes, **options.as_config(), **choice, **chosen,
        **settings,
    }  # fmt: skip
    checkpoints = None if folder is None else Checkpoints(folder, settings["settings"], every=options.checkpoint_every)
    with CallbackRunner(callbacks, config, folder) as runner:
        run = fit_run(
            session, options, test=test, select=select, checkpoints=checkpoints, callbacks=runner, resume=resume,
            progress=progress,
        )  # fmt: skip
        run.config = config
        run.columns |= columns
        held = [part.ids for part in (gold, test, select) if part is not None and part.ids is not None]
        run.held_ids = list(dict.fromkeys(str(name) for ids in held for name in ids.tolist()))
        run.gold_keys = fitted_keys(gold, pool)
        if evaluate:
            clock = time.perf_counter()
            untrained = cache(lambda: seeded_student(build, given))
            measure = partial(
                evaluate_training, run.student, gold, pool, test, objective, given,
                lambda *rest: fit_resolved(untrained(), *rest), weight_decay=options.penalty, select=select, pilot=pilot
            )  # fmt: skip
            run.evaluation = on_rank_zero(measure)
            run.facts["evaluation_seconds"] = time.perf_counter() - clock
            if run.temperature != 1:
                run.facts["temperature"] = run.temperature
        run.facts["train_seconds"] = time.perf_counter() - started
        if folder is not None and is_first():
            labelled = pool if pool is None or session.labelled is None else pool.take(session.labelled)
            sets = {"gold": gold, "pool": labelled}
            run.trained = TrainedRows.of({name: part.rows for name, part in sets.items() if part is not None})
            run.save(folder)
            drop_checkpoints(folder)
        runner.call("on_end", run.student, run.history, run.facts)
    return run


def _ready(
    session: Session, build: Student, gold: Gold | None, pool: Pool | None, options: TrainingOptions, *,
    folder: Path | None = None, progress: bool = False, chosen: Mapping[str, Any] | None = None,
) -> tuple[Session, TrainingOptions, dict[str, Any], Columns]:  # fmt: skip
    """The session with the method's own labels, where it makes some, and the options with a penalty; what a config
    keeps of its choice (``chosen``: where it is made), and the columns that the labels were made from."""
    c, choice, columns = None, dict[str, Any](), Columns()
    if session.objective.relabel is not None and pool is not None:
        relabel, kept = session.objective.relabel, None if folder is None else folder / FOLDER / "relabel"
        make = partial(relabel, build, gold, pool, options, classes=session.classes, folder=kept, progress=progress)
        made = on_rank_zero(make)
        # The teacher's labels of gold do not measure labels that were made anew.
        silent, labelled = None if gold is None else gold.without_teacher(), Pool.of(pool.rows, made.teacher, pool.ids)
        plain = session.objective.replace(relabel=None)
        session = Session.from_options(session.student, silent, labelled, plain, options, classes=session.classes)
        session.facts |= made.facts
        c, columns = made.c, made.columns
    if options.weight_decay == AUTO:
        as_they_are = session.objective.replace(traits=frozenset()) == Objective(name="vanilla")
        if c is not None:
            chosen = {"c": c, "losses": {}, "under": session.objective.name}
        elif chosen is None and as_they_are and gold is not None:
            chosen = c_on_gold(build, gold, pool, options)
        elif chosen is None:
            chosen = penalty_on_gold(session, gold, pool, options)
        options = options.replace(weight_decay=l2_of_c(chosen["c"], session.rows, session.classes))
        choice = {"chosen_penalty": dict(chosen)}
    return session, options, choice, columns


#: Students of resolved options, of whose training nothing else is wanted: it warns of nothing.
fit_resolved = partial(fit_students, ready=_ready)


def _check_request(
    options: TrainingOptions, gold: Gold | None, select: Gold | None, notes: Mapping[str, Any] | None,
    callbacks: Sequence[Callback],
) -> None:  # fmt: skip
    """Refuse arguments that do not go together."""
    if not isinstance(notes, Mapping | None):
        raise UnderstudyError(f"train(notes=<{type(notes).__name__}>) must be a mapping, or None")
    if callbacks:
        check_callbacks(callbacks)
    if options.patience is not None and select is None:
        raise UnderstudyError("patience stops on the select rows, but select=None; pass select=us.Gold(…)")
    if not (options.pretrain_epochs or options.finetune_epochs):
        return
    train = "pretrain_epochs and finetune_epochs train on gold"
    if gold is None:
        raise UnderstudyError(f"{train}, but gold=None; pass gold")
    if not len(gold.training_rows()):
        raise UnderstudyError(f"{train}, but no row of it may train; pass others")


def _finished(folder: Path, student: nn.Module, settings: dict[str, Any], ema: EMA | None) -> Run:
    """The run in the folder, if its settings are the same; a kill may have left its checkpoints."""
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
    """The names of classes and of frames' columns for a run's config, where there are such."""
    parts = [part for part in (gold, pool) if part is not None]
    classes = next((part.class_names for part in parts if part.class_names), None)
    columns = next((part.rows.names for part in parts if part.rows.names), None)
    names = {"class_names": classes, "features": columns}
    return {name: list(values) for name, values in names.items() if values is not None}


def _as_gold(examples: Gold | tuple[Any, Any] | None, name: str, names: ClassNames | None = None) -> Gold | None:
    if examples is None or isinstance(examples, Gold):
        return examples
    if not (isinstance(examples, tuple) and len(examples) == 2):
        raise UnderstudyError(f"{name} is a {type(examples).__name__}; pass us.Gold(x, y) or a tuple (x, y)")
    # Names are matched by name; numbers need an order that the user gave.
    matched = names and (names.ordered or as_texts(examples[1]) is not None)
    return Gold(*examples, classes=names.names if names and matched else None, name=name)
