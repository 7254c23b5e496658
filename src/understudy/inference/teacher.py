"""Ask the teacher: label rows with any module or function, in batches, and never twice.

    probs = us.teach(teacher_net, x_pool)                       # (N, C); a module's outputs are taken as logits
    probs = us.teach(ask_llm, x_pool, output="probs", ids=ids, cache="labels.parquet")
    probs = us.teach(ask_llm, x_pool, output="probs", ids=ids, store=us.LabelStore("labels", classes, "dense"))

With ``cache``, answers are stored by id as they come (the file is replaced whole after every ``save_every`` batches),
and only ids that are not in it are asked for. ``store`` does the same for answers by the million: each ``save_every``
batches are a new shard, and nothing is written twice.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn

from understudy.data.checks import check_ids, check_probabilities, to_tensor
from understudy.data.rows import as_rows
from understudy.errors import UnderstudyError
from understudy.inference.evaluate import device_of, eval_mode, to_device
from understudy.inference.features import forward
from understudy.labels.forms import Soft
from understudy.labels.store.label_store import LabelStore
from understudy.store.files import write_bytes


def teach(
    teacher: nn.Module | Callable[[Any], Any],
    x: Any,
    *,
    batch_size: int = 1024,
    output: str | None = None,
    ids: Any = None,
    cache: str | Path | None = None,
    store: LabelStore | None = None,
    save_every: int = 16,
) -> Tensor:
    """Class probabilities ``(N, C)`` of the teacher for every row of x.

    ``output``: "logits" (the default for a module) or "probs" (for a function). ``cache`` and ``store`` need ``ids``.
    """
    rows = as_rows(x, "x")
    names = check_ids(ids, len(rows), "teach")
    kind = output or ("logits" if isinstance(teacher, nn.Module) else "probs")
    if kind not in ("logits", "probs"):
        raise UnderstudyError(f"output={output!r} is unknown; use 'logits' or 'probs'")
    if store is not None:
        if cache is not None or names is None:
            raise UnderstudyError("teach(store=…) stores answers by id; pass ids=, and no cache=")
        return _label_into(store, teacher, rows, names, kind, batch_size, save_every)
    if cache is None:
        return _label(teacher, rows, torch.arange(len(rows)), kind, batch_size)
    if names is None:
        raise UnderstudyError("teach(cache=…) stores answers by id; pass ids=")
    path = Path(cache)
    known = _read_cache(path)
    missing = torch.tensor([i for i, name in enumerate(names.tolist()) if name not in known], dtype=torch.long)
    for block in missing.split(batch_size * save_every):
        if len(block):
            answers = _label(teacher, rows, block, kind, batch_size).numpy()
            width = len(next(iter(known.values()))) if known else answers.shape[1]
            if width != answers.shape[1]:
                raise UnderstudyError(
                    f"the label cache {path} holds {width} classes, but the teacher gave {answers.shape[1]}; "
                    "use another cache file for another teacher"
                )
            known.update(zip(names[block.numpy()].tolist(), answers, strict=True))
            _write_cache(path, known)
    return torch.from_numpy(np.stack([known[name] for name in names.tolist()]))


def _label_into(
    store: LabelStore,
    teacher: nn.Module | Callable[[Any], Any],
    rows: Any,
    names: np.ndarray[Any, Any],
    kind: str,
    batch_size: int,
    save_every: int,
) -> Tensor:
    if store.form != "dense":
        raise UnderstudyError(f"{store.folder} holds {store.form} labels; teach needs a store of form 'dense'")
    missing = torch.from_numpy(np.flatnonzero(np.isin(names, store.missing(names))))
    for block in missing.split(batch_size * save_every):
        if len(block):
            store.append(names[block.numpy()], _label(teacher, rows, block, kind, batch_size))
            store.flush()
    said = store.labels(names)
    assert isinstance(said, Soft)
    return said.probs


def _label(teacher: nn.Module | Callable[[Any], Any], rows: Any, index: Tensor, kind: str, batch_size: int) -> Tensor:
    answers = []
    for batch in index.split(batch_size):
        x = rows.take(batch)
        if isinstance(teacher, nn.Module):
            with eval_mode(teacher), torch.inference_mode():
                said = forward(teacher, to_device(x, device_of(teacher)))
        else:
            said = to_tensor(teacher(x), "the teacher's answer")
        said = said.float().cpu()
        if said.dim() != 2 or len(said) != len(batch):
            raise UnderstudyError(
                f"the teacher returned shape {tuple(said.shape)} for {len(batch)} rows; it must return (rows, classes)"
            )
        said = said.softmax(-1) if kind == "logits" else said
        check_probabilities(said, "the teacher's answer", rows=batch)
        answers.append(said)
    return torch.cat(answers).clone() if answers else torch.empty(0, 0)


def _read_cache(path: Path) -> dict[Any, Any]:
    if not path.exists():
        return {}
    try:
        table = pq.read_table(path, columns=["id", "teacher_probs"])
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UnderstudyError(f"cannot read the label cache {path}: {str(error).splitlines()[0]}") from error
    return dict(zip(table["id"].to_pylist(), table["teacher_probs"].to_numpy(zero_copy_only=False), strict=True))


def _write_cache(path: Path, known: dict[Any, Any]) -> None:
    probs = np.stack(list(known.values())).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(probs.reshape(-1)), probs.shape[1])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array(list(known)), "teacher_probs": lists}), sink)
    write_bytes(path, bytes(sink.getvalue()))
