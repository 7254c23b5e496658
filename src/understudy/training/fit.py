"""Fitting a student: pretraining on gold, epochs on gold and pool, fine-tuning on gold.

    run = fit_run(session, options)                                          # the session's student, trained in place

Each epoch visits every pool row once and every gold row ``gold_repeat`` times, in an order that depends on the seed and
the epoch alone. The loss of a batch is the session's (``training/session.py``).
"""

import copy
import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.inference.passes import evaluate, predicted
from understudy.objective import Columns
from understudy.store.console import EpochProgress, deferred
from understudy.training.batch_loss import Batch
from understudy.training.callbacks import NO_CALLBACKS, CallbackRunner
from understudy.training.checkpoint import Checkpoints, OptimizerState
from understudy.training.distributed import is_first, on_rank_zero
from understudy.training.optimizers import ITERATIONS, LBFGS, make_optimizer
from understudy.training.options import TrainingOptions, set_lr
from understudy.training.run import Run
from understudy.training.session import Session

PHASES = ("pretrain", "train", "finetune")


def fit_run(
    session: Session, options: TrainingOptions, *, test: Gold | None = None, select: Gold | None = None,
    checkpoints: Checkpoints | None = None, callbacks: CallbackRunner = NO_CALLBACKS, resume: bool = False,
    progress: bool = False,
) -> Run:  # fmt: skip
    """Train the session's student in place; its run, in memory. Without ``checkpoints`` none are written."""
    started, training = time.perf_counter(), Training(session, options, checkpoints, callbacks, test, select)
    training.run(resume=resume, progress=progress)
    run = training.result()
    run.facts["fit_seconds"] = time.perf_counter() - started
    return run


def fit_session(session: Session, options: TrainingOptions) -> nn.Module:
    """The session's student, trained, in eval mode."""
    Training(session, options).run()
    return session.student.eval()


@dataclass
class FitProgress:
    """Where a training stands."""

    phase: str = PHASES[0]
    #: Epochs of this phase that are finished.
    epoch: int = 0
    #: Batches of the epoch under way that are done.
    batch: int = 0
    #: Their summed loss.
    total: Tensor = field(default_factory=partial(torch.zeros, ()))
    history: list[dict[str, float]] = field(default_factory=list)
    selected_epoch: int = 0
    best: float = -math.inf
    selected_state: dict[str, Tensor] | None = None

    def is_past(self, phase: str) -> bool:
        return PHASES.index(self.phase) > PHASES.index(phase)

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)


@dataclass
class Training:
    """One fit under way."""

    session: Session
    options: TrainingOptions
    checkpoints: Checkpoints | None = None
    callbacks: CallbackRunner = NO_CALLBACKS
    test: Gold | None = None
    select: Gold | None = None

    def __post_init__(self) -> None:
        self.progress = FitProgress()
        self.student = self.session.student
        self.model: Any = self.student
        self.facts: dict[str, float] = {}
        self.processes = self.session.processes
        pretrains = self.options.pretrain_epochs and self.session.pool is not None
        self.untrained = copy.deepcopy(self.student) if pretrains and self.session.objective.predicts_gold else None

    def run(self, *, resume: bool = False, progress: bool = False) -> None:
        """The phases that the options ask for, from the latest checkpoint on where there is one."""
        options, reached = self.options, self.progress
        if resume and self.checkpoints is not None:
            reached.phase = self.checkpoints.find() or reached.phase
        if options.compile:
            self.model = torch.compile(self.student)
        if options.pretrain_epochs and not reached.is_past("pretrain"):
            self._on_gold("pretrain", options.on_gold(options.pretrain_epochs))
            self.session.learner.pretrained_on = None if self.untrained is None else self._pretrained_on
        clock = time.perf_counter()
        # Also where a checkpoint will overwrite the columns: it makes the modules that the method trains.
        self.session.prepare(warn=not reached.is_past("pretrain"))
        self.facts["prepare_seconds"] = time.perf_counter() - clock
        if not reached.is_past("train"):
            name, shown = self.session.objective.name, progress and is_first()
            with EpochProgress(name, options.epochs, shown=shown) as self.bar:
                self._epochs("train", self.session, options)
        if options.finetune_epochs:
            if options.patience is not None and reached.selected_state is not None and not reached.is_past("train"):
                self.student.load_state_dict(reached.selected_state)
            self._on_gold("finetune", options.finetuning())
            self.facts |= on_rank_zero(lambda: self._measured({"finetuned_test": self.test}))

    def _on_gold(self, phase: str, options: TrainingOptions) -> None:
        self._epochs(phase, self.session.on_gold_alone(epochs=options.epochs), options)

    def _pretrained_on(self, gold: Gold) -> nn.Module:
        """A copy of the student, pretrained as it was but on these rows, in eval mode."""
        student = copy.deepcopy(self.untrained)
        assert student is not None
        options = self.options.on_gold(self.options.pretrain_epochs, pretrain_epochs=0, ema=None)
        session = Session.from_options(student, gold, None, self.session.objective, options, warn=False)
        Training(session, options)._epochs("pretrain", session, options)
        return student.eval()

    def _epochs(self, phase: str, session: Session, options: TrainingOptions) -> None:
        """Train the student in place, epoch by epoch; ``self.progress`` says how far it is."""
        progress, checkpoints = self.progress, self.checkpoints
        self.ema = options.ema if phase == "train" else None
        self.optimizer = self._optimizer(session, options)
        if checkpoints is not None:
            # Every checkpointed part has its line here; the main session's stay the same whatever phase is under way.
            self.parts = {
                "student": self.student, **self.session.parts(), "random": session.random,
                "optimizer": self.optimizer if isinstance(self.optimizer, LBFGS) else OptimizerState(self.optimizer),
                "progress": progress, **({} if options.ema is None else {"ema": options.ema}),
            }  # fmt: skip
        if checkpoints is not None and checkpoints.restore(self.parts, self.session):
            session.resume_at(progress.epoch, progress.batch)
            if self.session.refined is not None and not is_first():
                self.session.refined.clear()
            if phase == "train":
                self.bar.resume(progress.history)
        else:
            if progress.phase != phase:
                progress.phase, progress.epoch, progress.batch = phase, 0, 0
            if self.ema is not None:
                self.ema.reset(self.student)
        if phase == "train":
            self.callbacks.call("on_start", self.student, progress.history, self.session.facts)
        # Until a checkpoint is of that very moment, SIGTERM does not end the process.
        with nullcontext() if checkpoints is None else deferred():
            self._go_on(phase, session, options)

    def _go_on(self, phase: str, session: Session, options: TrainingOptions) -> None:
        """From the epoch and the batch that ``self.progress`` names to the last."""
        progress = self.progress
        for epoch in range(progress.epoch, options.epochs):
            if options.patience is not None and epoch - progress.selected_epoch >= options.patience:
                break
            fitted = progress.history[-1]["train_accuracy"] if options.until_accuracy and progress.history else 0.0
            if options.until_accuracy is not None and fitted >= options.until_accuracy:
                break
            clock = time.perf_counter()
            loss = self._epoch(epoch, session, options)
            self._even_out()
            if epoch and self._is_done(epoch, session):
                break
            if phase == "train":
                record = {"epoch": epoch + 1, "loss": loss, "lr": options.lr_at(epoch / options.epochs)}
                record["seconds"] = time.perf_counter() - clock
                self._measure(record)
                self.bar.epoch(record)
            self._save()
            if phase == "train":
                self.callbacks.call("on_epoch")
            if self.checkpoints is not None:
                self.checkpoints.may_stop()

    def _even_out(self) -> None:
        """Statistics that each process has of its own rows become those of all."""
        if self.processes is not None:
            for learner in self.session.scorer.learners.values():
                self.processes.mean_statistics(learner.student)

    def _save(self) -> None:
        if self.checkpoints is not None:
            if self.processes is not None and self.session.refined is not None:
                self.session.refined.add_to_first(self.processes)
            self.checkpoints.save(self.parts, self.session)

    def _optimizer(self, session: Session, options: TrainingOptions) -> torch.optim.Optimizer | LBFGS:
        """What moves the parameters."""
        if session.full_batch:
            nets = [learner.student for learner in session.scorer.learners.values()]
            weights = [parameter for net in nets for parameter in net.parameters() if parameter.dim() > 1]
            add_up = None if self.processes is None else self.processes.sum_function
            return LBFGS(session.parameters(), penalised=weights, weight_decay=options.penalty, add_up=add_up)
        return make_optimizer(options, self.student, session.module_parameters())

    def _is_done(self, epoch: int, session: Session) -> bool:
        """Whether an epoch began at the minimum, and no later one will have another."""
        if not isinstance(self.optimizer, LBFGS) or not self.optimizer.idle:
            return False
        every, has_pool = session.objective.refresh_every, session.pool is not None
        changes = has_pool and session.objective.wants_progress
        return not changes and (not has_pool or every is None or epoch % every == 0)

    def _epoch(self, epoch: int, session: Session, options: TrainingOptions) -> float:
        """One pass over the rows, or some steps on all of them at once; the mean loss."""
        progress, optimizer, checkpoints = self.progress, self.optimizer, self.checkpoints
        if isinstance(optimizer, LBFGS):
            return self._minimise(optimizer, epoch, session)
        progress.total = progress.total if progress.batch else torch.zeros(())
        processes, moves, own = self.processes, False, torch.zeros(())
        parameters = session.parameters()
        for batch in session.batches(epoch):
            set_lr(optimizer, options.lr_at(batch.progress))
            scored = session.score(self.model, batch)
            (scored.total / batch.step_rows).backward()
            moves = moves or scored.moves
            if processes is None:
                progress.total = progress.total + scored.total.detach()
            else:
                own = own + scored.total.detach()
            if not batch.ends_step:
                continue
            if processes is not None:
                loss, moves = processes.sum_step(parameters, own, moves)
                progress.total, own = progress.total + loss, torch.zeros_like(own)
            if options.clip is not None:
                nn.utils.clip_grad_norm_(parameters, options.clip)
            # All-zero weights leave the student alone; momentum and weight decay would still move it.
            if moves:
                optimizer.step()
                if self.ema is not None:
                    self.ema.update(self.student)
            # As zero_grad() does, whose hooks take a small net as long as a layer.
            for parameter in parameters:
                parameter.grad = None
            moves = False
            progress.batch = session.batch
            if checkpoints is not None and checkpoints.is_due(progress.batch) and not batch.ends_epoch:
                self._even_out()
                self._save()
                checkpoints.may_stop()
        progress.epoch, progress.batch = epoch + 1, 0
        return finite(float(progress.total), epoch) / session.epoch_rows

    def _minimise(self, optimizer: LBFGS, epoch: int, session: Session) -> float:
        # What agrees with gold at one point says little of the next: such weights serve for a single step.
        loss, iterations = 0.0, 1 if session.learner.aligner is not None else ITERATIONS
        for batch in session.batches(epoch):
            random = torch.get_rng_state()
            nets = [learner.student for learner in session.scorer.learners.values()]
            optimizer.measure_curvature(nets, batch.x, batch.step_rows)

            def mean_loss(batch: Batch = batch, random: Tensor = random) -> Tensor:
                torch.set_rng_state(random)  # one function: dropout drops the same units every time
                return session.score(self.model, batch).total / batch.step_rows

            loss = optimizer.minimise(mean_loss, iterations)
            if self.ema is not None:
                self.ema.update(self.student)
        self.progress.epoch, self.progress.batch = epoch + 1, 0
        return finite(loss, epoch)

    def _measure(self, record: dict[str, float]) -> None:
        """Add an epoch to the history, with its accuracy on the select and test rows; keep the best one."""
        progress = self.progress
        sets = {"select": self.select, "test": self.test}
        if any(each is not None for each in (self.processes, self.options.until_accuracy, *sets.values())):
            record |= on_rank_zero(lambda: record | self._train_accuracy() | self._measured(sets))
        progress.history.append(record)
        if self.select is None:
            return
        score = record.get("select_score", record["select_accuracy"])
        if score > progress.best:
            progress.best, progress.selected_epoch = score, int(record["epoch"])
            progress.selected_state = {name: value.clone() for name, value in self.student.state_dict().items()}

    def _measured(self, sets: Mapping[str, Gold | None]) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, rows in sets.items():
            if rows is not None:
                batch_size, metric = self.options.pass_batch_size, self.options.metric
                measured = evaluate(self.student, rows, batch_size=batch_size, metric=metric)
                found |= {f"{name}_{key}": value for key, value in measured.items()}
        return found

    def _train_accuracy(self) -> dict[str, float]:
        """Of the rows that train, how many the student gives their own label: gold's, and the teacher's best class."""
        if self.options.until_accuracy is None:
            return {}
        session, size = self.session, self.options.pass_batch_size
        given: list[tuple[Any, Tensor]] = []
        if session.pool is not None and session.pool.teacher is not None:
            given.append((session.pool.rows, session.pool.teacher.top1()))
        if session.trains is not None and self.options.gold_repeat:
            given.append((session.trains.rows, session.trains.y))
        right = [predicted(self.student, rows, batch_size=size) == labels for rows, labels in given]
        return {"train_accuracy": float(torch.cat(right).double().mean())}

    def result(self) -> Run:
        progress, refined = self.progress, self.session.refined
        if self.processes is not None and refined is not None:
            refined.add_to_first(self.processes)
            refined.load_state_dict(on_rank_zero(refined.state_dict))
        run = finished(self.session, progress.history, self.options.as_config())
        run.facts |= self.facts
        run.selected_epoch, run.selected_state = progress.selected_epoch or None, progress.selected_state
        run.ema = self.options.ema
        return run


def finished(session: Session, history: list[dict[str, float]], config: dict[str, Any]) -> Run:
    """The run of a session whose training has ended."""
    columns, pool, facts = dict(session.learner.columns), session.full_pool, dict(session.facts)
    if session.refined is not None and session.pool is not None and session.pool.teacher is not None:
        columns |= session.refined.columns(session.pool.teacher)
        facts.setdefault("mean_weight", session.refined.mean_weight())
    return Run(
        session.student.eval(), history, _in_pool_order(columns, session.labelled, pool), config, facts,
        modules=session.learner.modules, ids=None if pool is None else pool.ids, fits=session.learner.fits,
    )  # fmt: skip


def finite(total: float, epoch: int) -> float:
    if not math.isfinite(total):
        cure = "lower lr, set clip=1.0, or look for NaN in the features, which memory maps and Datasets may hold"
        raise UnderstudyError(f"the loss became {total} in epoch {epoch + 1}; {cure}")
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
