"""The training loop: ``train`` sets the stage, ``_epochs`` is the loop, both read from top to bottom.

    run = us.train(student, gold, pool, us.slam(), epochs=30, test=(x_test, y_test))
    run.student, run.history, run.columns

The student that is passed in stays as it is; a copy is trained. The same seed gives the same bits (on one thread), and
the caller's random state and thread setting are left alone.
"""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy.checks import check_outputs, drop_unlabelled, report_gold, usable_device, usable_folder
from understudy.data.batches import epoch_seed, fetch_batches, plan_epoch
from understudy.data.examples import Gold, Pool
from understudy.ema import EMA
from understudy.errors import UnderstudyError
from understudy.evaluate import evaluate
from understudy.optim import Schedule, make_optimizer
from understudy.progress import EpochProgress
from understudy.recipe import Augment, Recipe, check_phases
from understudy.run import Run
from understudy.scoring import Scorer
from understudy.types import Columns, Objective


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
    ema: EMA | None = None,
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
    ``ema`` is reset to the student before the first epoch and follows every step (fine-tuning excepted). ``out`` names
    a new folder for the run.
    """
    started = time.perf_counter()
    recipe = Recipe(
        epochs=epochs, batch_size=batch_size, lr=lr, seed=seed, optimizer=optimizer, weight_decay=weight_decay,
        momentum=momentum, schedule=schedule, gold_repeat=gold_repeat, patience=patience, clip=clip,
        accumulate=accumulate, augment=augment, workers=workers,
    )  # fmt: skip
    check_phases(pretrain_epochs=pretrain_epochs, finetune_epochs=finetune_epochs, gold_weight=gold_weight, gold=gold)
    if not isinstance(objective, Objective):
        raise UnderstudyError(f"objective is a {type(objective).__name__}; pass what a method returns, e.g. us.slam()")
    if gold is None and pool is None:
        raise UnderstudyError("there is nothing to train on; pass gold, a pool, or both")
    if patience is not None and select is None:
        raise UnderstudyError("patience stops on the select rows, but select=None; pass select=us.Gold(…)")
    folder = usable_folder(out)
    test, select = _as_gold(test, "test"), _as_gold(select, "select")
    full_pool = pool
    pool, kept = drop_unlabelled(pool)
    if pool is not None and not objective.gold_trains:
        recipe = replace(recipe, gold_repeat=0)
    if pool is None and recipe.gold_repeat == 0:
        raise UnderstudyError("gold_repeat=0 leaves gold out, and there is no pool; pass a pool, or gold_repeat=1")
    if not callable(student):
        raise UnderstudyError(f"student is a {type(student).__name__}; pass a module, or a function that builds one")
    device = usable_device(device)

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        student = copy.deepcopy(student) if isinstance(student, nn.Module) else student()
        student = student if device is None else student.to(device)
        classes = check_outputs(student, gold, pool, test=test, select=select)
        facts = report_gold(gold, pool, classes, full_pool)
        scorer: Scorer = (objective.scorer or Scorer)(
            student, objective, gold, pool, classes=classes, device=next(student.parameters()).device, seed=seed,
            gold_weight=gold_weight, feature_layer=feature_layer, autocast=autocast, compile=compile, refine=refine,
            kept=kept, pool_size=None if full_pool is None else len(full_pool),
        )  # fmt: skip
        if pretrain_epochs:
            _epochs(scorer.on_gold_alone(), replace(recipe, epochs=pretrain_epochs, gold_repeat=1, patience=None))
        clock = time.perf_counter()
        scorer.prepare(0)
        facts["prepare_seconds"] = time.perf_counter() - clock
        with EpochProgress(objective.name, epochs, shown=progress) as bar:
            fitted = _epochs(scorer, recipe, select=select, test=test, ema=ema, bar=bar)
        if finetune_epochs:
            if patience is not None and fitted.selected_state is not None:
                student.load_state_dict(fitted.selected_state)
            _epochs(scorer.on_gold_alone(), replace(recipe, epochs=finetune_epochs, gold_repeat=1, patience=None))
            if test is not None:
                facts |= {f"finetuned_test_{key}": value for key, value in evaluate(student, test).items()}

    columns = dict(scorer.columns)
    if scorer.refinery is not None and pool is not None and pool.teacher is not None:
        columns |= scorer.refinery.columns(pool.teacher)
    facts |= scorer.facts | {"train_seconds": time.perf_counter() - started}
    run = Run(
        student=student.eval(),
        history=fitted.history,
        columns=_in_pool_order(columns, kept, full_pool),
        config={"objective": objective.name, "classes": classes, **recipe.as_config(), "gold_weight": gold_weight,
                "pretrain_epochs": pretrain_epochs, "finetune_epochs": finetune_epochs},
        facts=facts,
        selected_epoch=fitted.selected_epoch or None,
        selected_state=fitted.selected_state,
        modules=scorer.modules,
        ids=full_pool.ids if full_pool is not None else None,
    )  # fmt: skip
    if folder is not None:
        run.save(folder)
    return run


@dataclass
class _Fitted:
    history: list[dict[str, float]] = field(default_factory=list)
    selected_epoch: int = 0
    selected_state: dict[str, Tensor] | None = None
    best: float = -1.0


def _epochs(
    scorer: Scorer,
    recipe: Recipe,
    *,
    select: Gold | None = None,
    test: Gold | None = None,
    ema: EMA | None = None,
    bar: EpochProgress | None = None,
) -> _Fitted:
    """Train ``scorer.student`` in place, epoch by epoch."""
    student, gold, pool, objective = scorer.student, scorer.gold, scorer.pool, scorer.objective
    gold_rows = len(gold) if gold is not None and recipe.gold_repeat else 0
    gold_source, pool_source = (None if part is None else part.rows for part in (gold, pool))
    parameters = scorer.parameters()
    optimizer = make_optimizer(
        recipe.optimizer, parameters, lr=recipe.lr, weight_decay=recipe.weight_decay, momentum=recipe.momentum
    )
    if ema is not None:
        ema.reset(student)
    fitted = _Fitted()
    for epoch in range(recipe.epochs):
        clock = time.perf_counter()
        if objective.refresh_every and epoch and epoch % objective.refresh_every == 0:
            scorer.prepare(epoch)
        # Every epoch has random states of its own, so it can be repeated without the ones before it.
        own_seed = epoch_seed(recipe.seed, epoch)
        torch.manual_seed(own_seed)
        augmentation = torch.Generator().manual_seed(own_seed + 1)
        scorer.start_epoch(own_seed + 2)
        plan = plan_epoch(
            gold_rows, len(pool) if pool is not None else 0, batch_size=recipe.batch_size,
            gold_repeat=recipe.gold_repeat, seed=recipe.seed, epoch=epoch, sampling=_sampling(scorer.columns),
        )  # fmt: skip
        sizes = [len(golds) + len(pools) for golds, pools in plan]
        student.train()
        total, moves = torch.zeros((), device=scorer.device), False
        for number, (x, golds, pools) in enumerate(
            fetch_batches(gold_source, pool_source, plan, workers=recipe.workers)
        ):
            done = (epoch + number / len(plan)) / recipe.epochs
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr_at(done)
            if recipe.augment is not None:
                x = recipe.augment(x, augmentation)
            scored = scorer.score(x, golds, pools, epoch=epoch, progress=done)
            # The mean over all rows of the step, however its batches are cut.
            first = number - number % recipe.accumulate
            (scored.total / sum(sizes[first : first + recipe.accumulate])).backward()
            total, moves = total + scored.total.detach(), moves or scored.moves
            if (number + 1) % recipe.accumulate == 0 or number + 1 == len(plan):
                if recipe.clip is not None:
                    nn.utils.clip_grad_norm_(parameters, recipe.clip)
                # All-zero weights leave the student alone; momentum and weight decay would still move it.
                if moves:
                    optimizer.step()
                    if ema is not None:
                        ema.update(student)
                optimizer.zero_grad()
                moves = False

        if not torch.isfinite(total):
            raise UnderstudyError(
                f"the loss became {float(total)} in epoch {epoch + 1}; lower lr, set clip=1.0, or look for NaN in the "
                "features (rows from memory maps and Datasets are not checked beforehand)"
            )
        record = {"epoch": epoch + 1, "loss": float(total) / sum(sizes), "lr": recipe.lr_at(epoch / recipe.epochs)}
        record["seconds"] = time.perf_counter() - clock
        for name, rows in (("select", select), ("test", test)):
            if rows is not None:
                record |= {f"{name}_{key}": value for key, value in evaluate(student, rows).items()}
        fitted.history.append(record)
        if bar is not None:
            bar.epoch(record)
        if select is not None and record["select_accuracy"] > fitted.best:
            fitted.best, fitted.selected_epoch = record["select_accuracy"], epoch + 1
            fitted.selected_state = {name: value.clone() for name, value in student.state_dict().items()}
        if recipe.patience is not None and epoch + 1 - fitted.selected_epoch >= recipe.patience:
            break
    return fitted


def _sampling(columns: Columns) -> Tensor | None:
    """The column by which a slot wants pool rows drawn (``resample``), if there is one."""
    found = [name for name in columns if name.endswith(".sampling")]
    if len(found) > 1:
        raise UnderstudyError(f"{' and '.join(found)} both say how batches are drawn; use one of them")
    return columns[found[0]] if found else None


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
    return Gold(*examples, name=name)
