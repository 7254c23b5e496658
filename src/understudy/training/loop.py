"""The training loop: ``train`` sets the stage, ``_epochs`` is the loop, both read from top to bottom.

    run = us.train(student, gold, pool, us.slam(), epochs=30, test=(x_test, y_test))
    run.student, run.history, run.columns

The student that is passed in stays as it is; a copy is trained. The same seed gives the same bits (on one thread), and
the caller's random state and thread setting are left alone. With ``out=`` a checkpoint is written after every epoch
(and every ``checkpoint_every`` batches); killed at any moment, the same call with ``resume=True`` ends with the bits of
an undisturbed training. Datasets that draw at random in worker processes are the one exception.
"""

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data.batches import epoch_seed, fetch_batches, plan_epoch
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.inference.metrics import evaluate
from understudy.objective import Columns, Objective
from understudy.store.files import locked, write_bytes
from understudy.store.progress import EpochProgress
from understudy.training.checks import check_outputs, drop_unlabelled, report_gold, usable_device, usable_folder
from understudy.training.ema import EMA
from understudy.training.ema import FILE as EMA_FILE
from understudy.training.keeper import Keeper, drop_checkpoints
from understudy.training.optim import Schedule, make_optimizer
from understudy.training.recipe import Augment, Recipe, check_phases, pythons
from understudy.training.run import Run, read_state, state_to_bytes
from understudy.training.scoring import Scorer
from understudy.training.snapshot import Progress, check_same, settings_of


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
    checkpoint_every: int | None = None,
    resume: bool = False,
    notes: Mapping[str, Any] | None = None,
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
    a new folder for the run, where checkpoints are written after every epoch and every ``checkpoint_every`` batches;
    ``resume=True`` goes on from the latest (from the start where there is none; a finished run is just loaded).
    ``notes`` are kept in ``run.config``: ``notes={"class_names": ["neg", "pos"]}`` gives ``understudy predict`` names.
    """
    started = time.perf_counter()
    recipe = Recipe(
        epochs=epochs, batch_size=batch_size, lr=lr, seed=seed, optimizer=optimizer, weight_decay=weight_decay,
        momentum=momentum, schedule=schedule, gold_repeat=gold_repeat, patience=patience, clip=clip,
        accumulate=accumulate, augment=augment, workers=workers,
    )  # fmt: skip
    seed = recipe.seed
    pretrain_epochs, finetune_epochs, gold_weight = map(pythons, (pretrain_epochs, finetune_epochs, gold_weight))
    if checkpoint_every is not None and (not isinstance(checkpoint_every, int) or checkpoint_every < 1):
        raise UnderstudyError(f"checkpoint_every={checkpoint_every} must be a whole number of batches, at least 1")
    check_phases(pretrain_epochs=pretrain_epochs, finetune_epochs=finetune_epochs, gold_weight=gold_weight, gold=gold)
    if not isinstance(objective, Objective):
        raise UnderstudyError(f"objective is a {type(objective).__name__}; pass what a method returns, e.g. us.slam()")
    if gold is None and pool is None:
        raise UnderstudyError("there is nothing to train on; pass gold, a pool, or both")
    if patience is not None and select is None:
        raise UnderstudyError("patience stops on the select rows, but select=None; pass select=us.Gold(…)")
    folder = usable_folder(out, resume=resume)
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

    with torch.random.fork_rng(), nullcontext() if folder is None else locked(folder):
        torch.manual_seed(seed)
        student = copy.deepcopy(student) if isinstance(student, nn.Module) else student()
        student = student if device is None else student.to(device)
        classes = check_outputs(student, gold, pool, test=test, select=select)
        config = {
            "objective": objective.name, "classes": classes, **recipe.as_config(), "gold_weight": gold_weight,
            "pretrain_epochs": pretrain_epochs, "finetune_epochs": finetune_epochs,
        }  # fmt: skip
        settings: dict[str, Any] = {}
        if folder is not None:
            given = {"gold": gold, "pool": pool, "test": test, "select": select}
            kinds = {
                "refine": refine, "ema": None if ema is None else ema.decay, "feature_layer": feature_layer,
                "autocast": None if autocast is None else str(autocast),
            }  # fmt: skip
            settings = settings_of(recipe, objective, student, given, config | kinds)
        if resume and folder is not None and (folder / "config.json").exists():
            return _finished(folder, student, settings, ema)
        facts = report_gold(gold, pool, classes, full_pool)
        scorer: Scorer = (objective.scorer or Scorer)(
            student, objective, gold, pool, classes=classes, device=next(student.parameters()).device, seed=seed,
            gold_weight=gold_weight, feature_layer=feature_layer, autocast=autocast, compile=compile, refine=refine,
            kept=kept, pool_size=None if full_pool is None else len(full_pool),
        )  # fmt: skip
        reached = Progress()
        keeper = Keeper(folder, scorer, reached, ema=ema, settings=settings, every=checkpoint_every, resume=resume)
        on_gold = replace(recipe, gold_repeat=1, patience=None)
        if pretrain_epochs and not reached.is_past("pretrain"):
            _epochs(scorer.on_gold_alone(), replace(on_gold, epochs=pretrain_epochs), keeper, "pretrain")
        clock = time.perf_counter()
        # Also where a checkpoint will overwrite the columns: it makes the modules that the method trains.
        scorer.prepare(0)
        facts["prepare_seconds"] = time.perf_counter() - clock
        if not reached.is_past("train"):
            keeper.prepared()
            with EpochProgress(objective.name, epochs, shown=progress) as bar:
                _epochs(scorer, recipe, keeper, "train", select=select, test=test, bar=bar)
        if finetune_epochs:
            if patience is not None and reached.selected_state is not None and not reached.is_past("train"):
                student.load_state_dict(reached.selected_state)
            _epochs(scorer.on_gold_alone(), replace(on_gold, epochs=finetune_epochs), keeper, "finetune")
            if test is not None:
                facts |= {f"finetuned_test_{key}": value for key, value in evaluate(student, test).items()}

        columns = dict(scorer.columns)
        if scorer.refinery is not None and pool is not None and pool.teacher is not None:
            columns |= scorer.refinery.columns(pool.teacher)
        facts |= scorer.facts | {"train_seconds": time.perf_counter() - started}
        run = Run(
            student=student.eval(),
            history=reached.history,
            columns=_in_pool_order(columns, kept, full_pool),
            config={**(notes or {}), **config, **({"settings": settings} if folder is not None else {})},
            facts=facts,
            selected_epoch=reached.selected_epoch or None,
            selected_state=reached.selected_state,
            modules=scorer.modules,
            ids=full_pool.ids if full_pool is not None else None,
        )
        if folder is not None:
            # Before the run, whose config.json says that all is there.
            if ema is not None:
                write_bytes(folder / EMA_FILE, state_to_bytes(ema.state_dict()))
            run.save(folder)
            drop_checkpoints(folder)
    return run


def _finished(folder: Path, student: nn.Module, settings: dict[str, Any], ema: EMA | None) -> Run:
    """The run that is in the folder, if it is the one asked for; a kill may have left its checkpoints."""
    run = Run.load(folder, student=student)
    check_same(run.config.get("settings", {}), settings, folder)
    if ema is not None:
        ema.load_state_dict(read_state(folder / EMA_FILE))
    drop_checkpoints(folder)
    return run


def _epochs(
    scorer: Scorer,
    recipe: Recipe,
    keeper: Keeper,
    phase: str,
    *,
    select: Gold | None = None,
    test: Gold | None = None,
    bar: EpochProgress | None = None,
) -> None:
    """Train ``scorer.student`` in place, epoch by epoch; ``keeper.progress`` says how far it is."""
    student, gold, pool, objective = scorer.student, scorer.gold, scorer.pool, scorer.objective
    gold_rows = len(gold) if gold is not None and recipe.gold_repeat else 0
    gold_source, pool_source = (None if part is None else part.rows for part in (gold, pool))
    parameters = scorer.parameters()
    optimizer = make_optimizer(
        recipe.optimizer, parameters, lr=recipe.lr, weight_decay=recipe.weight_decay, momentum=recipe.momentum
    )
    progress, augmentation = keeper.progress, torch.Generator()
    generators = {"augment": augmentation, "draws": scorer.draws}
    ema = keeper.ema if phase == "train" else None
    resumed = keeper.put_back(optimizer, generators)
    if not resumed:
        progress.enter(phase)
        if ema is not None:
            ema.reset(student)
    elif bar is not None:
        bar.skip(progress.history)
    for epoch in range(progress.epoch, recipe.epochs):
        if recipe.patience is not None and epoch - progress.selected_epoch >= recipe.patience:
            break
        clock = time.perf_counter()
        first = progress.batch
        if not first and objective.refresh_every and epoch and epoch % objective.refresh_every == 0:
            scorer.prepare(epoch)
            keeper.prepared()
        # Every epoch has random states of its own, so it can be repeated without the ones before it.
        own_seed = epoch_seed(recipe.seed, epoch)
        if not first:
            torch.manual_seed(own_seed)
            augmentation.manual_seed(own_seed + 1)
            scorer.start_epoch(own_seed + 2)
            progress.total = torch.zeros((), device=scorer.device)
        plan = plan_epoch(
            gold_rows, len(pool) if pool is not None else 0, batch_size=recipe.batch_size,
            gold_repeat=recipe.gold_repeat, seed=recipe.seed, epoch=epoch, sampling=_sampling(scorer.columns),
            block=None if pool is None else pool.rows.preferred_block,
        )  # fmt: skip
        sizes = plan.sizes
        student.train()
        moves = False
        for number, (x, golds, pools) in enumerate(
            fetch_batches(gold_source, pool_source, plan[first:], workers=recipe.workers), start=first
        ):
            done = (epoch + number / len(plan)) / recipe.epochs
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr_at(done)
            if recipe.augment is not None:
                x = recipe.augment(x, augmentation)
            scored = scorer.score(x, golds, pools, epoch=epoch, progress=done)
            # The mean over all rows of the step, however its batches are cut.
            start = number - number % recipe.accumulate
            (scored.total / sum(sizes[start : start + recipe.accumulate])).backward()
            progress.total, moves = progress.total + scored.total.detach(), moves or scored.moves
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
                progress.batch = number + 1
                if keeper.is_due(progress.batch) and progress.batch < len(plan):
                    keeper.save(optimizer, generators)

        loss = _finite(float(progress.total), epoch) / sum(sizes)
        progress.epoch, progress.batch = epoch + 1, 0
        if phase == "train":
            record = {"epoch": epoch + 1, "loss": loss, "lr": recipe.lr_at(epoch / recipe.epochs)}
            record["seconds"] = time.perf_counter() - clock
            _look(student, record, progress, select=select, test=test)
            if bar is not None:
                bar.epoch(record)
        keeper.save(optimizer, generators)


def _finite(total: float, epoch: int) -> float:
    if not math.isfinite(total):
        raise UnderstudyError(
            f"the loss became {total} in epoch {epoch + 1}; lower lr, set clip=1.0, or look for NaN in the features "
            "(rows from memory maps and Datasets are not checked beforehand)"
        )
    return total


def _look(
    student: nn.Module, record: dict[str, float], progress: Progress, *, select: Gold | None, test: Gold | None
) -> None:
    """Enter an epoch in the history, with what the student says of rows that do not train; keep the best one."""
    for name, rows in (("select", select), ("test", test)):
        if rows is not None:
            record |= {f"{name}_{key}": value for key, value in evaluate(student, rows).items()}
    progress.history.append(record)
    if select is not None and record["select_accuracy"] > progress.best:
        progress.best, progress.selected_epoch = record["select_accuracy"], int(record["epoch"])
        progress.selected_state = {name: value.clone() for name, value in student.state_dict().items()}


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
