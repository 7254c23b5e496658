"""Choosing, on gold rows that did not train, how long a net trains and how strongly a linear student is penalised.

    run = us.train(student, gold, pool, us.slam())       # epochs="auto"
    run.config["chosen_epochs"]                          # {"epochs": 30, "losses": {"10": 0.61, "30": 0.52}}
    us.train(us.models.linear(x.shape[1], 2), gold, pool, us.slam(), optimizer="lbfgs", weight_decay="auto")
    us.train(us.models.linear(x.shape[1], 2), None, pool, us.vanilla(), epochs=100, optimizer="lbfgs",
             weight_decay=us.l2_of_c(10, rows=len(pool), classes=2))

**Epochs.** Wrong labels are memorised in the end, right ones never learned in too few steps, and which of the two a
table has does not follow from its size. So a third of gold is left out (or the ``select`` rows serve), and the student
is trained on the rest and the pool's labels as they are, each time in full, its rate falling to nothing: for the epochs
that make ``STEPS`` steps (``training/defaults.py``), then for ``LONGER`` times as many, as long as that is better; or
for so many times fewer, where longer was not better. Better is a log-loss of the rows left out that is less by more
than its standard error, each at the temperature that minimises it: overconfidence is no reason to stop. With few gold
rows the error is large and nothing moves; on pools of more than ``MOST_ROWS`` it would take too long. On 14 draws of
digits, Fashion-MNIST, MNIST (0 and 40% wrong) and Adult (0 and 30% wrong) with 150 to 300 gold rows it moved once, to
three times as long (92.5 to 93.9%), and cost three to twelve times the training itself.

**Penalty.** L-BFGS minimises ``mean loss + weight_decay / 2 · ‖W‖²`` with one row of W per class, scikit-learn ``Σ loss
+ ‖W‖² / 2C``: the same where ``weight_decay = 1 / (C · rows)``. For two classes scikit-learn has one weight vector w;
the softmax that predicts alike has the rows −w/2 and w/2, whose squares are half as large: twice the penalty is the
same. ``"auto"`` takes the C of ``GRID``, divided by the rows' mean squared length (the effect of a penalty depends on
the scale of the features; TF-IDF rows have length 1), with the least log-loss on gold rows that did not train: each
third of gold in turn is left out, and the rest and the pool are trained on, from the strongest penalty to the weakest,
each from where the one before ended. Accuracy would not do: between neighbours of the grid a hundred rows rarely
differ in it. Without gold it is C = 1 for rows of length 1.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from understudy.arguments import checked
from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows, is_sparse, take_sparse
from understudy.data.splits import fold_rows
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.inference.passes import evaluate, predict
from understudy.objective import Objective
from understudy.training.distributed import on_rank_zero
from understudy.training.fit import fit_student
from understudy.training.options import TrainingOptions
from understudy.training.session import Session

__all__ = ["l2_of_c"]

LONGER, STEPS_UP = 3, 2
"""How many times as long the next trial is, and how often it may grow."""
LEAST_ROWS, MOST_ROWS = 30, 20_000
"""Of gold, to choose on, and of gold and pool, to be trained several times."""
FEWEST_EPOCHS = 3
PARTS = 3
"""One of so many parts of gold is left out."""
GRID = (0.1, 1.0, 10.0, 100.0)
FOLDS, LEAST_ROWS_FOR_C = 3, 10
EPOCHS_TO_CHOOSE = 3
"""60 steps each: what is left to gain then does not change the choice."""
UNKNOWN_C = 1.0
"""scikit-learn's own."""

FitForEpochs = Callable[[Gold | None, int], nn.Module]
"""``(gold to train on, epochs) -> student``."""
FitWithPenalty = Callable[[Gold, nn.Module | None, float], nn.Module]
"""``(gold to train on, student to start from, weight_decay) -> student``; None: as the training would start."""


def epochs_on_gold(
    student: Any, gold: Gold | None, pool: Pool | None, options: TrainingOptions, *, select: Gold | None = None
) -> tuple[int, dict[str, Any]]:
    """The epochs, chosen where gold allows it, and the choice for the run's config; else those of ``options``, {}."""
    start = options.epochs
    rows = sum(len(part) for part in (gold, pool) if part is not None)
    if gold is None or rows > MOST_ROWS:
        return start, {}
    parts = (gold, select) if select is not None else leave_out(gold, options.seed)
    if parts is None or len(parts[1]) < LEAST_ROWS // PARTS:
        return start, {}

    def fit(trains: Gold | None, epochs: int) -> nn.Module:
        with warnings.catch_warnings():
            # Warnings about gold are given for all of it, once, where the student is trained.
            warnings.simplefilter("ignore", UnderstudyWarning)
            return fit_student(student, trains, pool, Objective(name="vanilla"), options.plain(epochs=epochs))

    try:
        epochs, losses = on_rank_zero(lambda: choose_epochs(fit, *parts, start))
    except UnderstudyError:
        return start, {}  # the training itself raises it
    return epochs, {"chosen_epochs": {"epochs": epochs, "losses": losses}}


def leave_out(gold: Gold, seed: int) -> tuple[Gold, Gold] | None:
    """The gold rows that train and those left out; None where there are too few. Rows that active learning chose are
    no random sample: they train."""
    training = gold.training_rows()
    random = training[~gold.chosen[training]]
    if len(random) < LEAST_ROWS:
        return None
    _, fold = next(iter(fold_rows(gold.y[random], PARTS, seed)))
    return _without(gold, random[fold]), gold.take(random[fold])


def _without(gold: Gold, rows: Tensor) -> Gold:
    kept = torch.ones(len(gold), dtype=torch.bool)
    kept[rows] = False
    return gold.take(kept.nonzero().squeeze(1))


def choose_epochs(fit: FitForEpochs, trains: Gold | None, left_out: Gold, start: int) -> tuple[int, dict[str, float]]:
    """The epochs, and per number that was tried the mean log-loss of the rows left out."""
    tried: dict[int, Tensor] = {}

    def beats(epochs: int, other: int) -> bool:
        for each in (epochs, other):
            if each not in tried:
                tried[each] = calibrated_losses(predict(fit(trains, each), left_out.rows), left_out.y)
        return is_less(tried[epochs], tried[other])

    best = start
    for _ in range(STEPS_UP):
        if not beats(best * LONGER, best):
            break
        best *= LONGER
    fewer = max(start // LONGER, FEWEST_EPOCHS)
    if best == start and fewer < start and beats(fewer, start):
        best = fewer
    return best, {str(epochs): float(tried[epochs].mean()) for epochs in sorted(tried)}


def is_less(mine: Tensor, theirs: Tensor) -> bool:
    """Whether the mean is less, by more than the standard error of the difference, row by row."""
    gain = theirs - mine
    return len(gain) > 1 and float(gain.mean()) > float(gain.std()) / len(gain) ** 0.5


def calibrated_losses(probs: Tensor, y: Tensor) -> Tensor:
    """Each row's log-loss at the one temperature, from e⁻² to e², that makes their mean the least."""
    logits = probs.double().clamp(min=torch.finfo(torch.float32).tiny).log()
    temperatures = torch.linspace(-2, 2, 41, dtype=torch.float64).exp()
    every = [nn.functional.cross_entropy(logits / t, y, reduction="none") for t in temperatures]
    return min(every, key=lambda losses: float(losses.mean()))


@checked
def l2_of_c(c: float, rows: int, classes: int) -> float:
    """The ``weight_decay`` under which L-BFGS minimises what ``LogisticRegression(C=c)`` does on so many rows."""
    if not c > 0 or rows < 1 or classes < 1:
        raise UnderstudyError(
            f"C={c} of {rows} rows, {classes} classes is no penalty; C is above 0, the others at least 1"
        )
    return (2 if classes == 2 else 1) / (c * rows)


def penalty_on_gold(
    session: Session, gold: Gold | None, pool: Pool | None, options: TrainingOptions, *, c: float | None = None
) -> tuple[float, dict[str, Any]]:
    """The weight decay for a session's student, and the choice for the run's config; ``c``: where it is known."""
    objective, losses = session.objective, dict[str, float]()
    if c is None:

        def fit(trains: Gold, start: nn.Module | None, weight_decay: float) -> nn.Module:
            short = options.plain(weight_decay=weight_decay, epochs=min(options.epochs, EPOCHS_TO_CHOOSE))
            return fit_student(session.student if start is None else start, trains, pool, objective, short)

        train_on = session.pool if session.pool is not None else gold
        assert train_on is not None
        size: Any = {"rows": session.rows, "classes": session.classes, "length": mean_square(train_on.rows)}
        try:
            c, losses = on_rank_zero(lambda: choose_c(fit, gold, seed=options.seed, **size))
        except UnderstudyError:
            # Two thirds of gold may be too few for what the method estimates; the labels as they are need no estimate.
            objective = Objective(name="vanilla")
            c, losses = on_rank_zero(lambda: choose_c(fit, gold, seed=options.seed, **size))
    chosen = {"c": c, "losses": losses, "under": objective.name}
    return l2_of_c(c, session.rows, session.classes), {"chosen_penalty": chosen}


def mean_square(rows: Rows) -> float:
    """The mean squared length of (the first thousand) rows."""
    first = torch.arange(min(len(rows), 1000))
    values = take_sparse(rows, first).data if is_sparse(rows) else rows.take(first)
    return max(float(torch.as_tensor(values).double().square().sum()) / len(first), 1e-12)


def choose_c(
    fit: FitWithPenalty, gold: Gold | None, *, rows: int, classes: int, seed: int, length: float = 1.0
) -> tuple[float, dict[str, float]]:
    """The C of the least loss, and per C the mean log-loss of the gold rows left out; ``rows``: how many a training
    has. Where fewer than ``LEAST_ROWS_FOR_C`` gold rows train there is nothing to choose on: ``UNKNOWN_C``, {}."""
    training = torch.empty(0) if gold is None else gold.training_rows()
    if gold is None or len(training) < LEAST_ROWS_FOR_C:
        return UNKNOWN_C / length, {}
    grid = [c / length for c in GRID]
    totals = dict.fromkeys(grid, 0.0)
    for _, fold in fold_rows(gold.y[training], FOLDS, seed):
        left_out, rest, student = gold.take(training[fold]), _without(gold, training[fold]), None
        for c in grid:
            with warnings.catch_warnings():
                # Warnings about gold are given for all of it, once, where the student is trained.
                warnings.simplefilter("ignore", UnderstudyWarning)
                student = fit(rest, student, l2_of_c(c, rows, classes))
            totals[c] += evaluate(student, left_out)["loss"] * len(fold) / len(training)
    return min(grid, key=totals.__getitem__), {f"{c:g}": loss for c, loss in totals.items()}
