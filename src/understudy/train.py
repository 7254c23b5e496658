"""The training loop: one function, read from top to bottom.

    run = us.train(student, gold, pool, us.slam(), epochs=30, test=(x_test, y_test))
    run.student, run.history, run.columns

The student that is passed in stays as it is; a copy is trained. The same seed gives the same bits (on one thread), and
the caller's random state and thread setting are left alone.
"""

import copy
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy.checks import check_outputs, drop_unlabelled, report_gold, usable_folder
from understudy.data.batches import epoch_seed, fetch_batches, plan_epoch
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.evaluate import evaluate
from understudy.optim import Schedule, find_schedule, make_optimizer
from understudy.progress import EpochProgress
from understudy.run import Run
from understudy.scoring import Scorer
from understudy.types import Columns, Objective

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
    patience: int | None = None,
    out: str | Path | None = None,
    optimizer: str = "adam",
    weight_decay: float = 0.0,
    momentum: float = 0.9,
    schedule: str | Schedule | Sequence[tuple[float, float]] = "constant",
    gold_repeat: int = 1,
    gold_weight: float = 1.0,
    pretrain_epochs: int = 0,
    finetune_epochs: int = 0,
    clip: float | None = None,
    accumulate: int = 1,
    augment: Augment | None = None,
    feature_layer: str | None = None,
    device: str | torch.device | None = None,
    autocast: torch.dtype | None = None,
    compile: bool = False,
    workers: int = 0,
    refine: bool = True,
    progress: bool = True,
) -> Run:
    """Train a student on gold ∪ pool under an objective.

    ``student``: a module (copied) or a function that builds one (called under ``seed``). ``pool=None`` trains on gold
    alone, ``gold=None`` on the pool alone. ``test`` is only ever looked at; ``select`` picks the epoch reported as
    selected, and with ``patience`` training stops after that many epochs without a better one. ``gold_repeat`` shows
    each gold row that often per epoch (0: gold steers, but does not train), ``gold_weight`` multiplies its loss.
    ``pretrain_epochs`` first trains on gold alone, ``finetune_epochs`` does so at the end (from the selected epoch
    where ``patience`` is set). ``clip`` bounds the gradient's norm; ``accumulate`` batches make one step.
    ``augment(x, generator)`` changes training batches. ``refine`` keeps, per pool row, what training said of its label.
    ``out`` names a new folder for the run.
    """
    started = time.perf_counter()
    _check_numbers(epochs=epochs, batch_size=batch_size, accumulate=accumulate, lr=lr)
    folder = usable_folder(out)
    test, select = _as_gold(test, "test"), _as_gold(select, "select")
    if gold is None and pool is None:
        raise UnderstudyError("there is nothing to train on; pass gold, a pool, or both")
    if gold is None and (pretrain_epochs or finetune_epochs):
        raise UnderstudyError("pretrain_epochs and finetune_epochs train on gold, but gold=None; pass gold")
    if patience is not None and select is None:
        raise UnderstudyError("patience stops on the select rows, but select=None; pass select=us.Gold(…)")
    full_pool = pool
    pool, kept = drop_unlabelled(pool)
    gold_repeat = gold_repeat if objective.gold_trains or pool is None else 0
    gold_rows = len(gold) * gold_repeat if gold is not None else 0

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        student = copy.deepcopy(student) if isinstance(student, nn.Module) else student()
        student = student if device is None else student.to(device)
        device = next(student.parameters()).device
        classes = check_outputs(student, gold, pool, test=test, select=select)
        facts = report_gold(gold, pool, classes, full_pool)

        def on_gold_alone(student: nn.Module, epochs: int) -> nn.Module:
            return train(
                student, gold, None, objective, epochs=epochs, batch_size=batch_size, lr=lr, seed=seed,
                optimizer=optimizer, weight_decay=weight_decay, momentum=momentum, schedule=schedule, clip=clip,
                accumulate=accumulate, augment=augment, autocast=autocast, workers=workers, progress=False,
            ).student  # fmt: skip

        if pretrain_epochs:
            student = on_gold_alone(student, pretrain_epochs)
        scorer: Scorer = (objective.scorer or Scorer)(
            student, objective, gold, pool, classes=classes, device=device, seed=seed, gold_weight=gold_weight,
            feature_layer=feature_layer, autocast=autocast, compile=compile, refine=refine,
        )  # fmt: skip
        scorer.prepare(0)
        facts["prepare_seconds"] = time.perf_counter() - started
        parameters = scorer.parameters()
        optimiser = make_optimizer(optimizer, parameters, lr=lr, weight_decay=weight_decay, momentum=momentum)
        lr_factor = find_schedule(schedule)

        history: list[dict[str, float]] = []
        selected_epoch, selected_state, best = 0, None, -1.0
        with EpochProgress(objective.name, epochs, shown=progress) as bar:
            for epoch in range(epochs):
                clock = time.perf_counter()
                if objective.refresh_every and epoch and epoch % objective.refresh_every == 0:
                    scorer.prepare(epoch)
                # Every epoch has random states of its own, so it can be repeated without the ones before it.
                torch.manual_seed(epoch_seed(seed, epoch))
                augmentation = torch.Generator().manual_seed(epoch_seed(seed, epoch) + 1)
                scorer.start_epoch(epoch_seed(seed, epoch) + 2)
                plan = plan_epoch(
                    len(gold) if gold_rows and gold is not None else 0, len(pool) if pool is not None else 0,
                    batch_size=batch_size, gold_repeat=gold_repeat, seed=seed, epoch=epoch,
                    sampling=_sampling(scorer.columns),
                )  # fmt: skip
                student.train()
                total, seen, moves = torch.zeros((), device=device), 0, False
                for number, (x, golds, pools) in enumerate(
                    fetch_batches(
                        None if gold is None else gold.rows, None if pool is None else pool.rows, plan, workers=workers
                    )
                ):
                    done = (epoch + number / len(plan)) / epochs
                    for group in optimiser.param_groups:
                        group["lr"] = lr * lr_factor(done)
                    if augment is not None:
                        x = augment(x, augmentation)
                    scored = scorer.score(x, golds, pools, epoch=epoch, progress=done)
                    rows = len(golds) + len(pools)
                    (scored.total / (rows * accumulate)).backward()
                    total, seen, moves = total + scored.total.detach(), seen + rows, moves or scored.moves
                    if (number + 1) % accumulate == 0 or number + 1 == len(plan):
                        if clip is not None:
                            nn.utils.clip_grad_norm_(parameters, clip)
                        # All-zero weights leave the student alone; momentum and weight decay would still move it.
                        if moves:
                            optimiser.step()
                        optimiser.zero_grad()
                        moves = False

                record = {"epoch": epoch + 1, "loss": float(total) / seen, "lr": lr * lr_factor(epoch / epochs)}
                if not torch.isfinite(total):
                    raise UnderstudyError(
                        f"the loss became {float(total)} in epoch {epoch + 1}; lower lr, set clip=1.0, or look for "
                        "NaN in the features (rows from memory maps and Datasets are not checked beforehand)"
                    )
                record["seconds"] = time.perf_counter() - clock
                for name, rows_of in (("select", select), ("test", test)):
                    if rows_of is not None:
                        record |= {f"{name}_{key}": value for key, value in evaluate(student, rows_of).items()}
                history.append(record)
                bar.epoch(record)
                if select is not None and record["select_accuracy"] > best:
                    best, selected_epoch = record["select_accuracy"], epoch + 1
                    selected_state = {name: value.clone() for name, value in student.state_dict().items()}
                if patience is not None and epoch + 1 - selected_epoch >= patience:
                    break

        if finetune_epochs:
            if patience is not None and selected_state is not None:
                student.load_state_dict(selected_state)
            student = on_gold_alone(student, finetune_epochs)
            if test is not None:
                facts |= {f"finetuned_test_{key}": value for key, value in evaluate(student, test).items()}

    columns = dict(scorer.columns)
    if scorer.refinery is not None and pool is not None and pool.teacher is not None:
        columns |= scorer.refinery.columns(pool.teacher)
    facts |= scorer.facts
    facts["train_seconds"] = time.perf_counter() - started
    run = Run(
        student=student.eval(),
        history=history,
        columns=_in_pool_order(columns, kept, full_pool),
        config={"objective": objective.name, "epochs": epochs, "batch_size": batch_size, "lr": lr, "seed": seed,
                "optimizer": optimizer, "weight_decay": weight_decay, "momentum": momentum, "classes": classes},
        facts=facts,
        selected_epoch=selected_epoch or None,
        selected_state=selected_state,
        modules=scorer.modules,
        ids=full_pool.ids if full_pool is not None else None,
    )  # fmt: skip
    if folder is not None:
        run.save(folder)
    return run


def _sampling(columns: Columns) -> Tensor | None:
    """The column by which a slot wants pool rows drawn (``resample``), if there is one."""
    return next((column for name, column in columns.items() if name.endswith(".sampling")), None)


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
