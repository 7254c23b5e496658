"""The one training loop: ``us.train``.

Read from top to bottom: what is asked for is checked, the session prepares the columns, then each epoch visits every
pool row once and every gold row ``gold_repeat`` times, in an order that depends on the seed and the epoch alone.
What a batch costs is the session's matter (``training/session.py``); losses are per example until it sums them.
"""

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.inference.passes import device_of, evaluate, predicted, usable_device
from understudy.objective import Batch, Columns, Objective
from understudy.store.files import locked
from understudy.store.progress import EpochProgress
from understudy.training.callbacks import Callback, TrainingView, check_callbacks, show
from understudy.training.defaults import LBFGS_EPOCHS, suitable_epochs
from understudy.training.ema import EMA
from understudy.training.l2 import EPOCHS_TO_CHOOSE, choose_c, l2_of_c, mean_square
from understudy.training.lbfgs import ITERATIONS, LBFGS
from understudy.training.learner import check_outputs
from understudy.training.recipe import AUTO, Recipe, RecipeOptions, make_optimizer, takes
from understudy.training.recipe import LBFGS as LBFGS_NAME
from understudy.training.run import Run, usable_folder
from understudy.training.session import Session, seed_torch
from understudy.training.state import (
    FOLDER,
    Checkpoints,
    OptimizerState,
    Progress,
    check_same_training,
    drop_checkpoints,
    settings_of,
)


@takes(RecipeOptions)
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
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[RecipeOptions],
) -> Run:
    """Train a student on gold ∪ pool under an objective.

    ``student``: a module (copied) or a function that builds one (called under ``seed``). ``epochs`` may be left out:
    about 400 steps, or with ``optimizer="lbfgs"`` until converged (``training/defaults.py``). ``pool=None`` trains on
    gold alone, ``gold=None`` on the pool alone. ``test`` is only ever looked at; ``select`` picks the epoch reported as
    selected, and with ``patience`` training stops after that many epochs without a better one; with ``until_accuracy``
    it stops once that share of the training rows' own labels is predicted (eval mode). ``gold_repeat`` shows
    each gold row that often per epoch (0: gold steers, but does not train), ``gold_weight`` multiplies its loss.
    ``pretrain_epochs`` first trains on gold alone, ``finetune_epochs`` does so at the end (from the selected epoch
    where ``patience`` is set) at a constant ``finetune_lr``, by default the rate that the schedule ends with. ``clip``
    bounds the gradient's norm; ``accumulate`` batches make one step.
    ``augment(x, generator)`` changes training batches. ``refine`` keeps, per pool row, what training said of its label.
    ``ema`` is reset to the student before the first epoch and follows every step (fine-tuning excepted). ``out`` names
    a new folder for the run, where checkpoints are written after every epoch and every ``checkpoint_every`` batches;
    ``resume=True`` goes on from the latest (from the start where there is none; a finished run is just loaded).
    ``notes`` are kept in ``run.config``: ``notes={"class_names": ["neg", "pos"]}`` gives ``understudy predict`` names.
    ``callbacks`` look on (``us.Callback``). Every further option is a field of ``training/recipe.py``.
    """
    started = time.perf_counter()
    if options.get("epochs") is None:
        options["epochs"] = _epochs_for(gold, pool, options)
    recipe = Recipe(**options)
    if callbacks:
        check_callbacks(callbacks)
    if recipe.patience is not None and select is None:
        raise UnderstudyError("patience stops on the select rows, but select=None; pass select=us.Gold(…)")
    if recipe.pretrain_epochs or recipe.finetune_epochs:
        _check_gold_trains(gold)
    if not callable(student):
        raise UnderstudyError(f"student is a {type(student).__name__}; pass a module, or a function that builds one")
    test, select = _as_gold(test, "test"), _as_gold(select, "select")
    folder, device = usable_folder(out, resume=resume), usable_device(recipe.device)
    with torch.random.fork_rng(), nullcontext() if folder is None else locked(folder):
        seed_torch(recipe.seed)
        build, student = student, copy.deepcopy(student) if isinstance(student, nn.Module) else student()
        student = student if device is None else student.to(device)
        told: dict[str, Any] = {
            "epochs": recipe.epochs, "whole": recipe.takes_all_rows, **recipe.session_options(),
        }  # fmt: skip
        session = Session(student, gold, pool, objective, **told)
        if test is not None or select is not None:
            check_outputs(student, None, None, test=test, select=select)
        recipe = replace(recipe, gold_repeat=session.recipe.gold_repeat)
        settings: dict[str, Any] = {}
        if folder is not None:
            rows = {"gold": gold, "pool": session.pool, "test": test, "select": select}
            settings = settings_of(recipe, objective, student, session.classes, rows)
        if resume and folder is not None and (folder / "config.json").exists():
            return _finished(folder, student, settings, recipe.ema)
        relabelled = None
        if objective.relabel is not None and pool is not None:
            relabelled = objective.relabel(
                build, gold, pool, recipe, classes=session.classes,
                folder=None if folder is None else folder / FOLDER / "relabel", progress=progress,
            )  # fmt: skip
            session = Session(student, _silent(gold), relabelled.pool, objective.replace(relabel=None), **told)
            session.facts |= relabelled.facts
        chosen: dict[str, Any] = {}
        if recipe.weight_decay == AUTO:
            c = None if relabelled is None else relabelled.c
            recipe, chosen = _with_chosen_l2(recipe, student, gold, pool, session, c)
        config = {
            **(notes or {}), "objective": objective.name, "classes": session.classes, **recipe.as_config(), **chosen,
            **({} if folder is None else {"settings": settings}),
        }  # fmt: skip
        checkpoints = Checkpoints(folder, settings, every=recipe.checkpoint_every)
        training = Training(session, recipe, checkpoints, config, callbacks, test=test, select=select)
        training.run(resume=resume, progress=progress)
        run = training.result(started)
        if relabelled is not None:
            run.columns |= relabelled.columns
        if folder is not None:
            run.save(folder)
            drop_checkpoints(folder)
        training.show("on_end", run.facts)
    return run


def _epochs_for(gold: Gold | None, pool: Pool | None, options: RecipeOptions) -> int:
    if options.get("optimizer") == LBFGS_NAME:
        return LBFGS_EPOCHS
    rows = sum(len(part) for part in (gold, pool) if isinstance(part, Gold | Pool))
    return suitable_epochs(max(rows, 1), options.get("batch_size", 128))


def _with_chosen_l2(
    recipe: Recipe, student: nn.Module, gold: Gold | None, pool: Pool | None, session: Session, c: float | None
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe with its penalty, and what the config tells of the choice; ``c``: where somebody has chosen."""
    objective = session.objective
    if c is not None:
        chosen = {"c": c, "losses": {}, "under": objective.name}
        return replace(recipe, weight_decay=l2_of_c(c, session.rows, session.classes)), {"l2": chosen}
    fit = partial(_fitted_with, student, pool, recipe)
    length = mean_square(session.pool.rows if session.pool is not None else cast(Gold, gold).rows)
    told: Any = {"rows": session.rows, "classes": session.classes, "seed": recipe.seed, "length": length}
    try:
        c, losses = choose_c(partial(fit, objective), gold, **told)
    except UnderstudyError:
        # Two thirds of gold may be too few for what the method estimates; the labels as they are need no estimate.
        objective = Objective(name="vanilla")
        c, losses = choose_c(partial(fit, objective), gold, **told)
    chosen = {"c": c, "losses": losses, "under": objective.name}
    return replace(recipe, weight_decay=l2_of_c(c, session.rows, session.classes)), {"l2": chosen}


def _fitted_with(
    student: nn.Module, pool: Pool | None, recipe: Recipe, objective: Objective, gold: Gold,
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
    if isinstance(gold, Gold) and not len(gold.training_rows()):
        raise UnderstudyError(
            "pretrain_epochs and finetune_epochs train on gold, but every gold row is estimate_only; pass others too"
        )


def _silent(gold: Gold | None) -> Gold | None:
    """Gold without the teacher's word, which is no word on labels that somebody else has made."""
    if gold is None or gold.teacher is None:
        return gold
    silent = copy.copy(gold)
    silent.teacher, silent.teacher_rows = None, gold.teacher_rows[:0]
    return silent


def _finished(folder: Path, student: nn.Module, settings: dict[str, Any], ema: EMA | None) -> Run:
    """The run that is in the folder, if it is the one asked for; a kill may have left its checkpoints."""
    run = Run.load(folder, student=student)
    check_same_training(run.config.get("settings", {}), settings, folder)
    if ema is not None and run.ema is not None:
        ema.load_state_dict(run.ema.state_dict())
        run.ema = ema
    drop_checkpoints(folder)
    return run


@dataclass
class Training:
    """One training under way: pretraining on gold, training on gold and pool, fine-tuning on gold."""

    session: Session
    recipe: Recipe
    checkpoints: Checkpoints
    config: dict[str, Any]
    callbacks: Sequence[Callback] = ()
    test: Gold | None = None
    select: Gold | None = None

    def __post_init__(self) -> None:
        self.progress = Progress()
        self.student = self.session.student
        self.model: Any = self.student
        self.facts: dict[str, float] = {}
        cross_fits = (
            self.recipe.pretrain_epochs and self.session.pool is not None and self.session.objective.asks_student
        )
        self.untrained = copy.deepcopy(self.student) if cross_fits else None

    def run(self, *, resume: bool, progress: bool) -> None:
        recipe, reached = self.recipe, self.progress
        if resume:
            reached.phase = self.checkpoints.find() or reached.phase
        if recipe.compile:
            self.model = torch.compile(self.student)
        if recipe.pretrain_epochs and not reached.is_past("pretrain"):
            self._on_gold("pretrain", recipe.on_gold(recipe.pretrain_epochs))
            self.session.learner.pretrained_on = None if self.untrained is None else self._pretrained_on
        clock = time.perf_counter()
        # Also where a checkpoint will overwrite the columns: it makes the modules that the method trains.
        self.session.learner.tells = not reached.is_past("pretrain")
        self.session.prepare()
        self.session.learner.tells = True
        self.facts["prepare_seconds"] = time.perf_counter() - clock
        if not reached.is_past("train"):
            bar = EpochProgress(self.session.objective.name, recipe.epochs, shown=True) if progress else None
            with bar or nullcontext():
                self._epochs("train", self.session, recipe, bar)
        if recipe.finetune_epochs:
            if recipe.patience is not None and reached.selected_state is not None and not reached.is_past("train"):
                self.student.load_state_dict(reached.selected_state)
            self._on_gold("finetune", recipe.finetuning())
            if self.test is not None:
                measured = evaluate(self.student, self.test, batch_size=recipe.pass_batch_size)
                self.facts |= {f"finetuned_test_{name}": value for name, value in measured.items()}

    def _on_gold(self, phase: str, recipe: Recipe) -> None:
        self._epochs(phase, self.session.on_gold_alone(epochs=recipe.epochs), recipe)

    def _pretrained_on(self, gold: Gold) -> nn.Module:
        """A copy of the student, pretrained as it was but on these rows, in eval mode."""
        student = copy.deepcopy(self.untrained)
        assert student is not None
        recipe = self.recipe.on_gold(self.recipe.pretrain_epochs, pretrain_epochs=0, ema=None)
        session = Session(
            student, gold, None, self.session.objective, epochs=recipe.epochs, whole=recipe.takes_all_rows,
            **recipe.session_options(),
        )  # fmt: skip
        session.tells = False
        Training(session, recipe, Checkpoints(None, {}), {})._epochs("pretrain", session, recipe)
        return student.eval()

    def _epochs(self, phase: str, session: Session, recipe: Recipe, bar: EpochProgress | None = None) -> None:
        """Train the student in place, epoch by epoch; ``self.progress`` says how far it is."""
        progress = self.progress
        self.ema = recipe.ema if phase == "train" else None
        self.optimizer, part = self._optimizer(session, recipe)
        # Every checkpointed part has its line here; the main session's stay the same whatever phase is under way.
        self.parts = {
            "student": self.student, **self.session.parts(), "random": session.random,
            "optimizer": part, "progress": progress,
            **({} if recipe.ema is None else {"ema": recipe.ema}),
        }  # fmt: skip
        if self.checkpoints.restore(self.parts, self.session):
            session.resume_at(progress.epoch, progress.batch)
            if bar is not None:
                bar.resume(progress.history)
        else:
            progress.enter(phase)
            if self.ema is not None:
                self.ema.reset(self.student)
        if phase == "train":
            self.show("on_start", self.session.facts)
        for epoch in range(progress.epoch, recipe.epochs):
            if recipe.patience is not None and epoch - progress.selected_epoch >= recipe.patience:
                break
            if recipe.until_accuracy is not None and self._fitted() >= recipe.until_accuracy:
                break
            clock = time.perf_counter()
            loss = self._epoch(epoch, session, recipe)
            if epoch and self._is_done(epoch, session):
                break
            if phase == "train":
                record = {"epoch": epoch + 1, "loss": loss, "lr": recipe.lr_at(epoch / recipe.epochs)}
                record["seconds"] = time.perf_counter() - clock
                self._look(record)
                if bar is not None:
                    bar.epoch(record)
            self.checkpoints.save(self.parts, self.session)
            if phase == "train":
                self.show("on_epoch", self.session.facts)

    def _optimizer(self, session: Session, recipe: Recipe) -> tuple[torch.optim.Optimizer | LBFGS, Any]:
        """What moves the parameters, and the part of a checkpoint that it is."""
        if recipe.takes_all_rows:
            nets = [learner.student for learner in session.scorer.learners.values()]
            weights = [parameter for net in nets for parameter in net.parameters() if parameter.dim() > 1]
            minimiser = LBFGS(session.parameters(), penalised=weights, weight_decay=recipe.penalty)
            return minimiser, minimiser
        optimizer = make_optimizer(
            recipe.optimizer, self.student.parameters(), session.module_parameters(), lr=recipe.lr,
            weight_decay=recipe.penalty, momentum=recipe.momentum,
        )  # fmt: skip
        return optimizer, OptimizerState(optimizer)

    def _is_done(self, epoch: int, session: Session) -> bool:
        """Whether an epoch began at the minimum, and no later one will have another."""
        if not isinstance(self.optimizer, LBFGS) or not self.optimizer.idle:
            return False
        objective, every = session.objective, session.objective.refresh_every
        changes = session.pool is not None and any(slot.wants_progress for slot in objective.slots())
        return not changes and (session.pool is None or every is None or epoch % every == 0)

    def _epoch(self, epoch: int, session: Session, recipe: Recipe) -> float:
        """One pass over the rows, or some steps on all of them at once; the mean loss."""
        progress, optimizer, parameters = self.progress, self.optimizer, session.parameters()
        if isinstance(optimizer, LBFGS):
            return self._minimise(optimizer, epoch, session)
        device = device_of(self.student)
        progress.total = progress.total.to(device) if progress.batch else torch.zeros((), device=device)
        moves = False
        for batch in session.batches(epoch):
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr_at(batch.progress)
            scored = session.score(self.model, batch)
            (scored.total / batch.step_rows).backward()
            progress.total, moves = progress.total + scored.total.detach(), moves or scored.moves
            if not batch.ends_step:
                continue
            if recipe.clip is not None:
                nn.utils.clip_grad_norm_(parameters, recipe.clip)
            # All-zero weights leave the student alone; momentum and weight decay would still move it.
            if moves:
                optimizer.step()
                if self.ema is not None:
                    self.ema.update(self.student)
            optimizer.zero_grad()
            moves = False
            progress.batch = session.batch
            if self.checkpoints.is_due(progress.batch) and not batch.ends_epoch:
                self.checkpoints.save(self.parts, self.session)
        progress.epoch, progress.batch = epoch + 1, 0
        return _finite(float(progress.total), epoch) / session.epoch_rows

    def _minimise(self, optimizer: LBFGS, epoch: int, session: Session) -> float:
        # What agrees with gold at one point says little of the next: such weights serve for a single step.
        loss, iterations = 0.0, 1 if session.learner.aligner is not None else ITERATIONS
        for batch in session.batches(epoch):
            random = torch.get_rng_state()

            def mean_loss(batch: Batch = batch, random: Tensor = random) -> Tensor:
                torch.set_rng_state(random)  # one function: dropout drops the same units every time
                return session.score(self.model, batch).total / batch.step_rows

            loss = optimizer.minimise(mean_loss, iterations)
            if self.ema is not None:
                self.ema.update(self.student)
        self.progress.epoch, self.progress.batch = epoch + 1, 0
        return _finite(loss, epoch)

    def _look(self, record: dict[str, float]) -> None:
        """Enter an epoch in the history, with what the student says of rows that do not train; keep the best one."""
        progress = self.progress
        if self.recipe.until_accuracy is not None:
            record["train_accuracy"] = self._train_accuracy()
        for name, rows in (("select", self.select), ("test", self.test)):
            if rows is not None:
                measured = evaluate(self.student, rows, batch_size=self.recipe.pass_batch_size)
                record |= {f"{name}_{key}": value for key, value in measured.items()}
        progress.history.append(record)
        if self.select is not None and record["select_accuracy"] > progress.best:
            progress.best, progress.selected_epoch = record["select_accuracy"], int(record["epoch"])
            progress.selected_state = {name: value.clone() for name, value in self.student.state_dict().items()}

    def _fitted(self) -> float:
        """The training accuracy after the last epoch; of a training that is resumed, too."""
        return self.progress.history[-1]["train_accuracy"] if self.progress.history else 0.0

    def _train_accuracy(self) -> float:
        """Of the rows that train, how many the student gives their own label: gold's, and the teacher's best class."""
        session, size = self.session, self.recipe.pass_batch_size
        given: list[tuple[Any, Tensor]] = []
        if session.pool is not None and session.pool.teacher is not None:
            given.append((session.pool.rows, session.pool.teacher.top1()))
        if session.trains is not None and self.recipe.gold_repeat:
            given.append((session.trains.rows, session.trains.y))
        right = [predicted(self.student, rows, batch_size=size) == labels for rows, labels in given]
        return float(torch.cat(right).double().mean())

    def show(self, moment: str, facts: dict[str, float]) -> None:
        if self.callbacks:
            history, folder = self.progress.history, self.checkpoints.run
            show(self.callbacks, moment, TrainingView(self.student, self.config, history, facts, folder))

    def result(self, started: float) -> Run:
        session, progress = self.session, self.progress
        columns, pool = dict(session.learner.columns), session.full_pool
        if session.refined is not None and session.pool is not None and session.pool.teacher is not None:
            columns |= session.refined.columns(session.pool.teacher)
            self.facts["mean_weight"] = session.facts.get("mean_weight", session.refined.mean_weight())
        return Run(
            student=self.student.eval(),
            history=progress.history,
            columns=_in_pool_order(columns, session.labelled, pool),
            config=self.config,
            facts=session.facts | self.facts | {"train_seconds": time.perf_counter() - started},
            selected_epoch=progress.selected_epoch or None,
            selected_state=progress.selected_state,
            modules=session.learner.modules,
            ids=None if pool is None else pool.ids,
            ema=self.recipe.ema,
            fits=session.learner.fits,
        )


def _finite(total: float, epoch: int) -> float:
    if not math.isfinite(total):
        raise UnderstudyError(
            f"the loss became {total} in epoch {epoch + 1}; lower lr, set clip=1.0, or look for NaN in the features "
            "(rows from memory maps and Datasets are not checked beforehand)"
        )
    return total


def _in_pool_order(columns: Columns, labelled: Tensor | None, pool: Pool | None) -> Columns:
    """Columns over the whole pool again: NaN (−1 for integers) on the rows that had no label."""
    if labelled is None or pool is None:
        return columns
    full: Columns = {}
    for name, column in columns.items():
        filler = float("nan") if column.is_floating_point() else -1
        full[name] = column.new_full((len(pool), *column.shape[1:]), filler)
        full[name][labelled] = column
    return full


def _as_gold(examples: Gold | tuple[Any, Any] | None, name: str) -> Gold | None:
    if examples is None or isinstance(examples, Gold):
        return examples
    if not (isinstance(examples, tuple) and len(examples) == 2):
        raise UnderstudyError(f"{name} is a {type(examples).__name__}; pass us.Gold(x, y) or a tuple (x, y)")
    return Gold(*examples, name=name)
