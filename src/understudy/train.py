"""The training loop: one function, read from top to bottom.

    run = us.train(student, gold, pool, us.slam(), epochs=30, test=(x_test, y_test))
    run.student, run.history, run.columns

Per batch: the student's forward pass on gold and pool rows together, one loss per example (the objective's slots for
the pool rows, the plain loss for the gold rows), weights, one mean, one optimizer step. The student that is passed in
stays as it is; a copy is trained. The same seed gives the same bits (on one thread), and the caller's random state is
left alone.
"""

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy.checks import check_outputs, drop_unlabelled, report_gold, usable_folder
from understudy.data.batches import epoch_seed, fetch_batches, plan_epoch
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.evaluate import evaluate, penultimate, predict, to_device
from understudy.features import FeatureTap, forward
from understudy.optim import Schedule, find_schedule, make_optimizer
from understudy.progress import EpochProgress
from understudy.run import Run
from understudy.types import Columns, Context, Objective, Outputs, Step

Augment = Callable[[Tensor, torch.Generator], Tensor]


def train(
    student: nn.Module | Callable[[], nn.Module],
    gold: Gold | None,
    pool: Pool | None,
    objective: Objective,
    *,
    epochs: int,
    batch_size: int = 128,
    lr: float = 1e-3,
    seed: int = 0,
    test: Gold | tuple[Any, Any] | None = None,
    select: Gold | tuple[Any, Any] | None = None,
    out: str | Path | None = None,
    optimizer: str = "adam",
    weight_decay: float = 0.0,
    momentum: float = 0.9,
    schedule: str | Schedule | Sequence[tuple[float, float]] = "constant",
    gold_repeat: int = 1,
    gold_weight: float = 1.0,
    pretrain_epochs: int = 0,
    clip: float | None = None,
    accumulate: int = 1,
    augment: Augment | None = None,
    feature_layer: str | None = None,
    device: str | torch.device | None = None,
    autocast: torch.dtype | None = None,
    compile: bool = False,
    workers: int = 0,
    progress: bool = True,
) -> Run:
    """Train a student on gold ∪ pool under an objective.

    ``student``: a module (copied) or a function that builds one (called under ``seed``). ``pool=None`` trains on gold
    alone, ``gold=None`` on the pool alone. ``test`` is only ever looked at; ``select`` picks the epoch reported as
    selected. ``gold_repeat`` shows each gold row that often per epoch, ``gold_weight`` multiplies its loss.
    ``pretrain_epochs`` first trains on gold alone. ``clip`` bounds the gradient's norm; ``accumulate`` batches make one
    step. ``augment(x, generator)`` changes training batches. ``out`` names a new folder for the run.
    """
    started = time.perf_counter()
    _check_numbers(epochs=epochs, batch_size=batch_size, gold_repeat=gold_repeat, accumulate=accumulate, lr=lr)
    folder = usable_folder(out)
    test, select = _as_gold(test, "test"), _as_gold(select, "select")
    if gold is None and pool is None:
        raise UnderstudyError("there is nothing to train on; pass gold, a pool, or both")
    full_pool = pool
    pool, kept = drop_unlabelled(pool)
    device = torch.device(device) if device is not None else None

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        student = copy.deepcopy(student) if isinstance(student, nn.Module) else student()
        student = student.to(device) if device is not None else student
        device = next(student.parameters()).device
        classes = check_outputs(student, gold, pool, test=test, select=select)
        facts = report_gold(gold, pool, classes, full_pool)
        if pretrain_epochs:
            if gold is None:
                raise UnderstudyError("pretrain_epochs trains on gold first, but gold=None; pass gold or leave it out")
            student = train(
                student, gold, None, objective, epochs=pretrain_epochs, batch_size=batch_size, lr=lr, seed=seed,
                optimizer=optimizer, weight_decay=weight_decay, momentum=momentum, schedule=schedule, clip=clip,
                accumulate=accumulate, augment=augment, autocast=autocast, workers=workers, progress=False,
            ).student  # fmt: skip

        columns: Columns = {}
        modules: dict[str, nn.Module] = {}
        if pool is not None:
            context = _context(student, gold, pool, classes, seed, 0, feature_layer)
            columns = _prepare(objective, context)
            modules = {
                slot.name: module.to(device)
                for slot in objective.slots()
                if (module := slot.module(context)) is not None
            }
            facts |= context.facts
        facts["prepare_seconds"] = time.perf_counter() - started

        owned = nn.ModuleDict(modules)
        parameters = [*student.parameters(), *owned.parameters()]
        optimiser = make_optimizer(optimizer, parameters, lr=lr, weight_decay=weight_decay, momentum=momentum)
        lr_factor = find_schedule(schedule)
        wants_features = any(slot.wants_features for slot in objective.slots())
        tap = FeatureTap(student, feature_layer) if wants_features else None
        model: Any = torch.compile(student) if compile else student
        precision: AbstractContextManager[Any] = (
            nullcontext() if autocast is None else torch.autocast(device.type, dtype=autocast)
        )

        history: list[dict[str, float]] = []
        selected_epoch, selected_state, best = None, None, -1.0
        with EpochProgress(objective.name, epochs, shown=progress) as bar:
            for epoch in range(epochs):
                clock = time.perf_counter()
                if pool is not None and objective.refresh_every and epoch and epoch % objective.refresh_every == 0:
                    columns = _prepare(objective, _context(student, gold, pool, classes, seed, epoch, feature_layer))
                # Every epoch has its own random state, so it can be repeated without the ones before it.
                torch.manual_seed(epoch_seed(seed, epoch))
                generator = torch.Generator().manual_seed(epoch_seed(seed, epoch) + 1)
                plan = plan_epoch(
                    len(gold) if gold else 0, len(pool) if pool else 0,
                    batch_size=batch_size, gold_repeat=gold_repeat, seed=seed, epoch=epoch,
                )  # fmt: skip
                student.train()
                total = torch.zeros((), device=device)
                batches = fetch_batches(gold.rows if gold else None, pool.rows if pool else None, plan, workers=workers)
                for number, (x, gold_rows, pool_rows) in enumerate(batches):
                    done = (epoch + number / len(plan)) / epochs
                    for group in optimiser.param_groups:
                        group["lr"] = lr * lr_factor(done)
                    x = to_device(x if augment is None else augment(x, generator), device)
                    with precision:
                        logits, features = tap(x) if tap is not None else (forward(model, x), None)
                    logits = logits.float() if autocast is not None else logits

                    loss = torch.zeros((), device=device)
                    split = len(gold_rows)
                    if split and gold is not None:
                        own = objective.gold_losses(logits[:split], gold.y[gold_rows].to(device))
                        loss = loss + gold_weight * own.sum()
                    if len(pool_rows) and pool is not None and pool.teacher is not None:
                        step = Step(
                            outputs=Outputs(logits[split:], None if features is None else features[split:]),
                            teacher=pool.teacher.dense(pool_rows, classes).to(device),
                            rows=pool_rows,
                            columns={name: column[pool_rows].to(device) for name, column in columns.items()},
                            modules=modules,
                            temperature=objective.temperatures[1],
                            epoch=epoch,
                            progress=done,
                        )
                        losses = objective.pool_losses(step)
                        weights = objective.pool_weights(losses, step)
                        loss = loss + (losses if weights is None else weights * losses).sum()
                    rows = split + len(pool_rows)
                    (loss / (rows * accumulate)).backward()
                    total += loss.detach()
                    if (number + 1) % accumulate == 0 or number + 1 == len(plan):
                        if clip is not None:
                            nn.utils.clip_grad_norm_(parameters, clip)
                        optimiser.step()
                        optimiser.zero_grad()

                seen = sum(len(golds) + len(pools) for golds, pools in plan)
                seconds = time.perf_counter() - clock
                record: dict[str, float] = {
                    "epoch": epoch + 1,
                    "loss": float(total) / seen,
                    "lr": group["lr"],
                }
                if not torch.isfinite(total):
                    raise UnderstudyError(
                        f"the loss became {float(total)} in epoch {epoch + 1}; lower lr, set clip=1.0, or look for NaN "
                        "in the features (rows read from files and Datasets are not checked beforehand)"
                    )
                for prefix, rows_of in (("select", select), ("test", test)):
                    if rows_of is not None:
                        found = evaluate(student, rows_of)
                        record |= {f"{prefix}_{name}": value for name, value in found.items()}
                record["seconds"] = seconds
                history.append(record)
                if select is not None and record["select_accuracy"] > best:
                    best, selected_epoch = record["select_accuracy"], epoch + 1
                    selected_state = {name: value.clone() for name, value in student.state_dict().items()}
                bar.epoch(record)

    run = Run(
        student=student.eval(),
        history=history,
        columns=_in_pool_order(columns, kept, full_pool),
        config={"objective": objective.name, "epochs": epochs, "batch_size": batch_size, "lr": lr, "seed": seed,
                "optimizer": optimizer, "weight_decay": weight_decay, "classes": classes},
        facts=facts,
        selected_epoch=selected_epoch,
        selected_state=selected_state,
        modules=modules,
        ids=full_pool.ids if full_pool is not None else None,
    )  # fmt: skip
    run.facts["train_seconds"] = time.perf_counter() - started
    if folder is not None:
        run.save(folder)
    return run


def _context(
    student: nn.Module, gold: Gold | None, pool: Pool, classes: int, seed: int, epoch: int, layer: str | None
) -> Context:
    return Context(
        gold,
        pool,
        classes=classes,
        predict=lambda x: predict(student, x),
        features=lambda x: penultimate(student, x, layer=layer),
        seed=seed,
        epoch=epoch,
    )


def _prepare(objective: Objective, context: Context) -> Columns:
    """Every slot's columns, filed under its name."""
    return {
        f"{slot.name}.{name}": column for slot in objective.slots() for name, column in slot.prepare(context).items()
    }


def _in_pool_order(columns: Columns, kept: Tensor | None, pool: Pool | None) -> Columns:
    """Columns over the whole pool again: NaN (−1 for integers) on the rows that had no label."""
    if kept is None or pool is None:
        return columns
    full: Columns = {}
    for name, column in columns.items():
        filler = float("nan") if column.is_floating_point() else -1
        full[name] = column.new_full((len(pool), *column.shape[1:]), filler)
        full[name][kept] = column
    return full


def _as_gold(examples: Gold | tuple[Any, Any] | None, name: str) -> Gold | None:
    if examples is None or isinstance(examples, Gold):
        return examples
    if not (isinstance(examples, tuple) and len(examples) == 2):
        raise UnderstudyError(f"{name} is a {type(examples).__name__}; pass us.Gold(x, y) or a tuple (x, y)")
    return Gold(*examples)


def _check_numbers(**numbers: float) -> None:
    for name, value in numbers.items():
        if not value > 0:
            raise UnderstudyError(f"{name}={value} must be greater than 0")
