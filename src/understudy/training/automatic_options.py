"""What is chosen where the options leave it open: the student, its options, the epochs, the penalty.

    run = us.train("auto", gold, pool, us.slam())                 # or "linear", "mlp:128,128"; us.auto, us.compare too
    build, options = us.default_student(pool, classes=3)          # rows, a pool, gold, or an array
    run = us.train(build, gold, pool, us.slam(), **options)

On sparse text, on the vectors of a frozen encoder, and on wide vectors of which there are few, a regularised linear
student trained to convergence is hard to beat; on numbers and small images a net is better. How long a net trains is a
number of *steps*: a small table needs more epochs than a large one for the same. They are few, because a net that goes
on memorises wrong labels, and the learning rate falls to nothing, so that a short training ends well; gold that did not
train shows whether more, or fewer, are better (*Epochs*, below). Accuracy of an MLP after Adam's 1e-3
with a cosine, seed 0 (before: 10 epochs at a constant rate):

    labels                          before   300 steps     600    1,200   2,500
    digits, a weak teacher's          82.1        83.2    83.1     83.4    82.9
    Fashion-MNIST, a weak teacher's   73.6        74.3    74.9     75.3    75.1
    MNIST, 40% wrong, uniform         85.8        86.7    83.7     72.4    65.9
    MNIST, 40% wrong, by instance     83.7        86.5    83.0     72.0

A row that is seen often is memorised too: 300 rows of Adult, 30% wrong, 75.3 after 30 epochs, 69.2 after 60.

``us.train``, ``us.auto``, ``us.compare`` and ``us.reconcile`` call ``resolve_options`` for whatever was left out.

    run = us.train(student, gold, pool, us.slam())       # epochs="auto"
    run.config["chosen_epochs"]                          # {"epochs": 30, "losses": {"10": 0.61, "30": 0.52}}
    us.train(us.models.linear(x.shape[1], 2), gold, pool, us.slam(), optimizer="lbfgs", weight_decay="auto")
    us.train(us.models.linear(x.shape[1], 2), None, pool, us.vanilla(), epochs=100, optimizer="lbfgs",
             weight_decay=us.l2_of_c(10, rows=len(pool), classes=2))

**Epochs.** Wrong labels are memorised in the end, right ones never learned in too few steps, and which of the two a
table has does not follow from its size. So a third of gold is left out (or the ``select`` rows serve), and the student
is trained on the rest and the pool's labels as they are, each time in full, its rate falling to nothing: for the epochs
that make ``STEPS`` steps, and for ``LONGER`` times fewer, which are taken where they are better. Where they are worse,
and so the student had not learned all by then, it is also trained for ``LONGER`` times as many, as long as that is
better; what the last two thirds of a training gained nothing by, three times the training rarely does. Better is a
log-loss of the rows left out (another ``metric`` than accuracy: a score) that is less by more than its standard error,
each at the temperature that minimises it: overconfidence is no reason to stop. With few gold rows the error is large
and nothing moves; on pools of more than ``MOST_ROWS`` it would take too long.

**Penalty.** L-BFGS minimises ``mean loss + weight_decay / 2 · ‖W‖²`` with one row of W per class, scikit-learn ``Σ loss
+ ‖W‖² / 2C``: the same where ``weight_decay = 1 / (C · rows)``. For two classes scikit-learn has one weight vector w;
the softmax that predicts alike has the rows −w/2 and w/2, whose squares are half as large: twice the penalty is the
same. ``"auto"`` takes the C of ``GRID``, divided by the rows' mean squared length (the effect of a penalty depends on
the scale of the features; TF-IDF rows have length 1), with the least log-loss on gold rows that did not train: each
third of gold in turn is left out, and the rest and the pool are trained on, from the strongest penalty to the weakest,
each from where the one before ended, until the loss rises. Where the pool is ``MANY_POOL_ROWS`` times as large, all of
gold is left out at once: it estimates what the method asks of it, a few numbers, and trains nothing; but under a method
with a link. Accuracy would not do: between neighbours of the grid a hundred rows rarely differ in it. Without gold it
is C = 1 for rows of length 1.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from understudy import models
from understudy.data.examples import Gold, Pool
from understudy.data.inputs import as_rows
from understudy.data.rows import Rows, take_sparse
from understudy.data.splits import fold_rows
from understudy.errors import UnderstudyError
from understudy.inference.passes import evaluate, predict
from understudy.io.read import count_classes
from understudy.maths.metric_scores import ACCURACY, LOG_LOSS, as_logits, mean_and_error, row_scores
from understudy.models.registry import Student, initial_student
from understudy.objective import Objective
from understudy.store.option_fields import checked
from understudy.training.distributed import on_rank_zero
from understudy.training.fit_together import fit_students
from understudy.training.options import AUTO, LBFGS, StudentBuilder, TrainingOptions
from understudy.training.prepare import FitPart
from understudy.training.session import Session, seeded_student

__all__ = ["default_student", "l2_of_c"]

#: How many times as long the next trial is, and how often it may grow.
LONGER, STEPS_UP = 3, 2
#: Of gold, to choose on, and of gold and pool, to be trained several times.
LEAST_ROWS, MOST_ROWS = 30, 20_000
FEWEST_EPOCHS = 3
#: One of so many folds of gold is left out to choose the epochs.
EPOCH_FOLDS = 3
GRID = (0.1, 1.0, 10.0, 100.0)
FOLDS, LEAST_ROWS_FOR_C = 3, 10
#: For each gold row: whether gold trains does not change the choice then.
MANY_POOL_ROWS = 4
#: 60 steps each: what is left to gain then does not change the choice.
EPOCHS_TO_CHOOSE = 3
#: scikit-learn's own.
UNKNOWN_C = 1.0

#: ``(gold to train on, epochs) -> student``.
FitForEpochs = Callable[[Gold | None, int], nn.Module]
#: ``(gold to train on, student to start from, weight_decay) -> student``; None: no gold, as the training would start.
FitWithPenalty = Callable[[Gold | None, nn.Module | None, float], nn.Module]


def epochs_on_gold(
    student: Any, gold: Gold | None, pool: Pool | None, options: TrainingOptions, *, select: Gold | None = None
) -> tuple[int, dict[str, Any]]:
    """The epochs, chosen where gold allows it, and the choice for the run's config; else those of ``options``, {}."""
    start = options.epochs
    rows = sum(len(part) for part in (gold, pool) if part is not None)
    if gold is None or rows > MOST_ROWS:
        return start, {}
    parts = (gold, select) if select is not None else leave_out(gold, options.seed)
    if parts is None or len(parts[1]) < LEAST_ROWS // EPOCH_FOLDS:
        return start, {}

    def fit(trains: Gold | None, epochs: int) -> nn.Module:
        part = FitPart(trains, pool, options.plain(epochs=epochs))
        return fit_students(student, [part], Objective(name="vanilla"))[0]

    try:
        epochs, losses = on_rank_zero(lambda: choose_epochs(fit, *parts, start, metric=options.metric))
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
    _, fold = fold_rows(gold.y[random], EPOCH_FOLDS, seed)[0]
    return gold.without(random[fold]), gold.take(random[fold])


def choose_epochs(
    fit: FitForEpochs, trains: Gold | None, left_out: Gold, start: int, *, metric: str = ACCURACY
) -> tuple[int, dict[str, float]]:
    """The epochs, and per number that was tried the mean loss of the rows left out: log-loss, or 1 minus the score."""
    tried: dict[int, Tensor] = {}

    def beats(epochs: int, other: int) -> bool:
        for each in (epochs, other):
            if each not in tried:
                probs = predict(fit(trains, each), left_out.rows)
                if metric in (ACCURACY, LOG_LOSS):
                    tried[each] = calibrated_losses(probs, left_out.y)
                else:
                    tried[each] = 1 - row_scores(metric, probs, left_out.y)
        return is_less(tried[epochs], tried[other])

    best, fewer = start, min(start, max(start // LONGER, FEWEST_EPOCHS))
    if beats(fewer, start):
        best = fewer
    elif fewer == start or beats(start, fewer):
        for _ in range(STEPS_UP):
            if not beats(best * LONGER, best):
                break
            best *= LONGER
    return best, {str(epochs): float(tried[epochs].mean()) for epochs in sorted(tried)}


def is_less(mine: Tensor, theirs: Tensor) -> bool:
    """Whether the mean is less, by more than the standard error of the difference, row by row."""
    gain, error = mean_and_error(theirs - mine)
    return gain > error


def calibrated_losses(probs: Tensor, y: Tensor) -> Tensor:
    """Each row's log-loss at the one temperature, from e⁻² to e², that makes their mean the least."""
    logits = as_logits(probs)
    temperatures = torch.linspace(-2, 2, 41, dtype=torch.float64).exp()
    every = [nn.functional.cross_entropy(logits / t, y, reduction="none") for t in temperatures]
    return min(every, key=lambda losses: float(losses.mean()))


@checked
def l2_of_c(c: float, rows: int, classes: int) -> float:
    """The ``weight_decay`` under which L-BFGS minimises what ``LogisticRegression(C=c)`` does on so many rows."""
    if not c > 0 or rows < 1 or classes < 1:
        raise UnderstudyError(f"C={c}, rows={rows}, classes={classes}: C must be above 0, the others at least 1")
    return (2 if classes == 2 else 1) / (c * rows)


def penalty_on_gold(session: Session, gold: Gold | None, pool: Pool | None, options: TrainingOptions) -> dict[str, Any]:
    """The choice of scikit-learn's C for a session's student, as a run's config keeps it."""
    objective, estimates = session.objective, None
    # All of gold is left out, unless some of it must train: a link hides what the student says (of Banking77's classes
    # SLaM alone tells nothing, a log-loss of 11), an alignment steers by it, votes are weighted by it.
    many = pool is not None and gold is not None and len(pool) >= MANY_POOL_ROWS * len(gold)
    weighs = pool is not None and pool.teacher is not None and pool.teacher.needs_gold
    folds = 1 if many and not (objective.link or objective.alignment_rows or weighs) else FOLDS
    if folds == 1 and gold is not None and len(rows := gold.calibration_rows()):
        estimates = gold.take(rows)
        estimates.estimate_only = torch.ones(len(rows), dtype=torch.bool)

    def fit(trains: Gold | None, start: nn.Module | None, weight_decay: float) -> nn.Module:
        short = options.plain(weight_decay=weight_decay, epochs=min(options.epochs, EPOCHS_TO_CHOOSE))
        part = FitPart(estimates if trains is None else trains, pool, short)
        return fit_students(start or session.student, [part], objective)[0]

    train_on = session.pool if session.pool is not None else gold
    assert train_on is not None
    size: Any = {"rows": session.rows, "classes": session.classes, "length": mean_square(train_on.rows)}
    choose = partial(choose_c, fit, gold, seed=options.seed, folds=folds, **size)
    try:
        c, losses = on_rank_zero(choose)
    except UnderstudyError:
        # Two thirds of gold may be too few for what the method estimates; the labels as they are need no estimate.
        objective = Objective(name="vanilla")
        c, losses = on_rank_zero(choose)
    return {"c": c, "losses": losses, "under": objective.name}


def c_on_gold(student: Any, gold: Gold, pool: Pool | None, options: TrainingOptions) -> dict[str, Any]:
    """The same for training on the labels as they are; made once where methods are compared on this gold."""
    labelled = None if pool is None or pool.teacher is None else int(pool.teacher.labelled().sum())
    short = options.replace(epochs=EPOCHS_TO_CHOOSE)
    return gold.cached(("c", labelled), partial(_c_on_gold, student, gold, pool, short))


def _c_on_gold(student: Any, gold: Gold, pool: Pool | None, options: TrainingOptions) -> dict[str, Any]:
    with torch.random.fork_rng():
        session = Session.from_options(seeded_student(student, options), gold, pool, Objective(name="vanilla"), options)
        return penalty_on_gold(session, gold, pool, options)


def mean_square(rows: Rows) -> float:
    """The mean squared length of (the first thousand) rows."""
    first = torch.arange(min(len(rows), 1000))
    values = take_sparse(rows, first).data if rows.is_sparse else rows.take(first)
    return max(float(torch.as_tensor(values).double().square().sum()) / len(first), 1e-12)


def choose_c(
    fit: FitWithPenalty, gold: Gold | None, *, rows: int, classes: int, seed: int, length: float = 1.0,
    folds: int = FOLDS,
) -> tuple[float, dict[str, float]]:  # fmt: skip
    """The C of the least loss, and per C that was tried the mean log-loss of the gold rows left out, which with one
    fold are all. ``rows``: how many a training has. Where fewer than ``LEAST_ROWS_FOR_C`` gold rows train there is
    nothing to choose on: ``UNKNOWN_C``, {}."""
    training = torch.empty(0) if gold is None else gold.training_rows()
    if gold is None or len(training) < LEAST_ROWS_FOR_C:
        return UNKNOWN_C / length, {}
    parts = [torch.arange(len(training))] if folds == 1 else [p for _, p in fold_rows(gold.y[training], folds, seed)]
    students: list[nn.Module | None] = [None] * len(parts)
    losses: dict[float, float] = {}
    for c in (c / length for c in GRID):
        total = 0.0
        for number, part in enumerate(parts):
            left_out, rest = gold.take(training[part]), gold.without(training[part]) if folds > 1 else None
            students[number] = student = fit(rest, students[number], l2_of_c(c, rows, classes))
            total += evaluate(student, left_out)["loss"] * len(part) / len(training)
        rises = bool(losses) and total > min(losses.values())
        losses[c] = total
        if rises:
            break
    return min(losses, key=losses.__getitem__), {f"{c:g}": loss for c, loss in losses.items()}


LINEAR, NET = "linear", "mlp:128,128"
#: Of a net, and the epochs that they become at least and at most.
STEPS, FEWEST, MOST = 400, 10, 30
#: Three times as much is better on two clean settings, and 2 to 12 points worse where labels are wrong.
RATE = 1e-3
#: A bound: training ends when it is converged, mostly in the first three.
LBFGS_EPOCHS = 50
#: Vectors of so many numbers, and fewer rows than so many for each, are for a linear student.
WIDE, ROWS_PER_FEATURE = 256, 10


def builder_options(student: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and those of the student's builder (``us.text``) where they were left out."""
    if not isinstance(student, StudentBuilder):
        return dict(options)
    given = {name: value for name, value in options.items() if name != "epochs" or value not in (None, AUTO)}
    return {**student.options(options.get("device")), **given}


def default_epochs(rows: int, batch_size: int = 128) -> int:
    """Epochs that make about ``STEPS`` steps."""
    return min(max(math.ceil(STEPS / math.ceil(rows / batch_size)), FEWEST), MOST)


def prefers_linear(rows: Rows, *, frozen: bool = False) -> bool:
    """Whether the default for these features is a linear student. ``frozen``: they are the vectors of an encoder."""
    shape = row_shape(rows)
    if rows.is_sparse or frozen:
        return True
    return len(shape) == 1 and shape[0] >= WIDE and len(rows) < ROWS_PER_FEATURE * shape[0]


def row_shape(rows: Rows) -> tuple[int, ...]:
    if rows.is_text:
        raise UnderstudyError("texts need a student that reads them: us.text(folder, classes=…) or --student hf:FOLDER")
    first = rows.take(torch.arange(1))
    if not isinstance(first, Tensor):
        raise UnderstudyError("rows of several tensors need a net that is made for them; build the student yourself")
    return tuple(first.shape[1:])


def options_for(student: str, *, optimizer: str | None = None) -> dict[str, Any]:
    """Options of ``us.train`` for a student by its name; ``optimizer``: where it is given."""
    if optimizer == LBFGS or (optimizer is None and student.partition(":")[0] == LINEAR):
        return {"epochs": LBFGS_EPOCHS, "optimizer": LBFGS, "weight_decay": AUTO}
    return {"epochs": AUTO, "lr": RATE, "schedule": "cosine"}


def default_student(
    examples: Any, classes: int, *, frozen: bool = False
) -> tuple[Callable[[], nn.Module], dict[str, Any]]:
    """A function that builds the default student for these features, and the options of ``us.train`` for it.

    ``frozen``: whether the features are an encoder's vectors.
    """
    given = examples.rows if isinstance(examples, Pool | Gold) else as_rows(examples, "examples")
    text = LINEAR if prefers_linear(given, frozen=frozen) else NET
    return partial(models.from_text, text, shape=row_shape(given), classes=classes), options_for(text)


def named_student(
    student: Student | str | None, gold: Gold | None, pool: Pool | None, *, frozen: bool = False
) -> Student:
    """A student by its name ("linear", "mlp:64"; None or "auto": the default for these rows), as a function that builds
    it; others as they are. ``frozen``: whether the features are an encoder's vectors."""
    if not (student is None or isinstance(student, str)):
        return student
    first = gold if pool is None else pool
    if first is None:
        raise UnderstudyError("there are neither gold nor pool rows to build a student for; pass one of them")
    name = (LINEAR if prefers_linear(first.rows, frozen=frozen) else NET) if student in (None, AUTO) else str(student)
    classes = max(count_classes((gold, pool)) or 2, 2)
    return partial(models.from_text, name, shape=row_shape(first.rows), classes=classes)


#: Options that mean an optimizer of batches.
OF_BATCHES = ("lr", "schedule", "clip", "augment")


def fill_defaults(student: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with defaults for a student of that name where they were left out; ``epochs`` may be "auto" still."""
    given = {name: value for name, value in options.items() if not (name == "epochs" and value == AUTO)}
    optimizer = given.get("optimizer") or ("adam" if any(given.get(name) is not None for name in OF_BATCHES) else None)
    defaults = options_for(student, optimizer=optimizer)
    return {**given, **{name: value for name, value in defaults.items() if given.get(name) is None}}


def resolve_options(
    student: Any, gold: Gold | None, pool: Pool | None, options: Mapping[str, Any], *, select: Gold | None = None
) -> tuple[TrainingOptions, dict[str, Any]]:
    """The options of a training, checked and with no default left open but the penalty; and what was chosen on gold."""
    options = builder_options(student, options)
    epochs = options.get("epochs")
    if not (epochs is None or (isinstance(epochs, str) and epochs == AUTO)):
        return TrainingOptions(**options), {}
    untrained = student if isinstance(student, nn.Module) else initial_student(student, 0)
    filled = fill_defaults((models.spec_of(untrained) or {}).get("name", ""), options)
    if filled["epochs"] != AUTO:
        return TrainingOptions(**filled), {}
    rows = sum(len(part) for part in (gold, pool) if part is not None)
    resolved = TrainingOptions(**filled | {"epochs": default_epochs(max(rows, 1), filled.get("batch_size") or 128)})
    chosen, choice = epochs_on_gold(student, gold, pool, resolved, select=select)
    return resolved.replace(epochs=chosen), choice
