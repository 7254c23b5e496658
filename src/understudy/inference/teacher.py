"""Label rows with any module or function, in batches, each row once; or several times on purpose.

    probs = us.teach(teacher_net, x_pool)                       # (N, C); a module's outputs are taken as logits
    probs = us.teach(ask_llm, x_pool, output="probs", ids=ids, store=us.LabelStore("labels", classes, "dense"))

With ``store``, answers are stored by id as they come, a new shard after every ``save_every`` batches, and only ids that
are not in it are labelled.

    passes = us.stochastic_passes(teacher, x_pool, passes=10)   # how much its answer wavers
    pool = us.Pool(x_pool, passes.mean)
    us.ups(std=passes.std), us.fidelity(beta=2, uncertainty=passes.variance)

``stochastic_passes`` labels every row m times, each time a little differently: with its dropout left on (BatchNorm
and everything else as in use), or on a freshly augmented batch. UPS reads the standard deviation per class, fidelity
weights the mean class variance. Means and variances are updated as the passes come (Welford), in float64 and batch by
batch, so the m × N × C answers never exist and every row is read once.

``teacher_features`` gives the penultimate features VID matches.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from understudy.data.checks import check_ids, check_probabilities, to_tensor
from understudy.data.inputs import as_rows
from understudy.errors import UnderstudyError
from understudy.inference.passes import BATCH_SIZE, logits_of, over_rows, penultimate
from understudy.labels.label_store import LabelStore
from understudy.store.option_fields import checked

Teacher = nn.Module | Callable[[Any], Any]
Augment = Callable[[Any, torch.Generator], Any]

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


@checked
def teach(
    teacher: Teacher, x: Any, *, batch_size: int = BATCH_SIZE, output: Literal["logits", "probs"] | None = None,
    ids: Any = None, store: LabelStore | None = None, save_every: int = 16,
) -> Tensor:  # fmt: skip
    """Class probabilities ``(N, C)`` of the teacher for every row of x.

    ``output``: "logits" (the default for a module) or "probs" (for a function). ``store`` needs ``ids``.
    """
    rows = as_rows(x, "x")
    names = check_ids(ids, len(rows), "teach")
    logits = isinstance(teacher, nn.Module) if output is None else output == "logits"

    def answer(batch: Any, index: Tensor) -> Tensor:
        return _probabilities(teacher, batch, index, torch.float32, logits=logits)

    def ask(index: Tensor | None = None) -> Tensor:
        module = teacher if isinstance(teacher, nn.Module) else None
        return over_rows(module, rows, answer, index=index, batch_size=batch_size)[0]

    if store is None:
        return ask()
    if names is None:
        raise UnderstudyError("teach(store=…) keeps answers by id; pass ids=")
    if store.form != "dense":
        raise UnderstudyError(f"{store.folder} holds {store.form} labels; teach needs a store of form 'dense'")
    missing = torch.from_numpy(np.flatnonzero(np.isin(names, store.missing(names))))
    for start in range(0, len(missing), batch_size * save_every):
        block = missing[start : start + batch_size * save_every]
        store.append(names[block.numpy()], ask(block))
    labels = store.labels(names)
    assert labels.classes is not None  # of form "dense"
    return labels.dense(torch.arange(len(labels)), labels.classes)


class Passes(NamedTuple):
    """What several looks at the teacher came to."""

    #: Class probabilities ``(N, C)``.
    mean: Tensor
    #: Their standard deviation per class (sample form, m − 1), ``(N, C)``; 0 for a single pass.
    std: Tensor
    #: The mean of the classes' variances, ``(N,)``.
    variance: Tensor


@checked
def stochastic_passes(
    teacher: Teacher, x: Any, passes: int = 10, augment: Augment | None = None, *, batch_size: int = BATCH_SIZE,
    seed: int = 0,
) -> Passes:  # fmt: skip
    """Ask the teacher ``passes`` times of every row.

    ``teacher``: a module giving logits, or a function giving probabilities that vary by themselves (a sampled LLM).
    ``augment(x, generator)`` changes each batch anew, with dropout off; without it a module must have dropout. The same
    seed and batch size give the same numbers; the caller's random state is left alone.
    """
    if passes < 1:
        raise UnderstudyError(f"stochastic_passes(passes={passes}): at least 1 pass is needed")
    rows, module = as_rows(x, "x"), teacher if isinstance(teacher, nn.Module) else None
    if not len(rows):
        raise UnderstudyError("x has no rows to ask the teacher about")
    droppers = [] if module is None or augment is not None else _dropout_layers(module)
    if module is not None and augment is None and passes > 1 and not droppers:
        raise UnderstudyError(f"{type(teacher).__name__} has no dropout; pass augment=(x, generator) -> x, or passes=1")
    generator = torch.Generator().manual_seed(seed)

    def moments(batch: Any, index: Tensor) -> tuple[Tensor, ...]:
        for layer in droppers:
            layer.training = True
        mean = squares = torch.zeros((), dtype=torch.float64)
        for count in range(1, passes + 1):
            looked_at = batch if augment is None else augment(batch, generator)
            probs = _probabilities(teacher, looked_at, index, torch.float64, logits=module is not None)
            # Welford: no cancellation, unlike E[p²] − E[p]².
            before = probs - mean
            mean = mean + before / count
            squares = squares + before * (probs - mean)
        variance = squares / max(1, passes - 1)
        return mean.float(), variance.sqrt().float(), variance.mean(-1).float()

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Passes(*over_rows(module, rows, moments, outputs=3, batch_size=batch_size))


def _dropout_layers(teacher: nn.Module) -> list[nn.Module]:
    """The modules whose own training flag turns dropout on, and only those with a chance above 0."""

    def is_active(module: nn.Module) -> bool:
        if isinstance(module, _DROPOUTS):
            return module.p > 0
        if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
            return module.dropout > 0
        # In eval mode this layer takes a fused path that skips the dropout layers inside it.
        return isinstance(module, nn.TransformerEncoderLayer) and module.dropout.p > 0

    return [module for module in teacher.modules() if is_active(module)]


@checked
def teacher_features(teacher: nn.Module, x: Any, layer: str | None = None, *, batch_size: int = BATCH_SIZE) -> Tensor:
    """Penultimate features ``(N, d)``, in eval mode: the input of the last Linear, or the output of a named layer."""
    return penultimate(teacher, x, layer=layer, batch_size=batch_size)


def _probabilities(teacher: Teacher, batch: Any, index: Tensor, dtype: torch.dtype, *, logits: bool) -> Tensor:
    """The teacher's answer about one batch: ``(B, C)`` on the CPU, checked."""
    where = "the teacher's answer"
    answer = logits_of(teacher, batch) if isinstance(teacher, nn.Module) else to_tensor(teacher(batch), where)
    if answer.dim() != 2 or len(answer) != len(index):
        raise UnderstudyError(f"the teacher returned {tuple(answer.shape)} for {len(index)} rows, not (rows, classes)")
    answer = answer.to("cpu", dtype)
    probs = answer.softmax(-1) if logits else answer
    check_probabilities(probs, where, rows=index)
    return probs
