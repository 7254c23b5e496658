"""What is checked before the first step, so that a training that starts can also end."""

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, UnderstudyWarning, first_line
from understudy.inference.passes import device_of, eval_mode, forward, to_device
from understudy.labels.forms import Labels
from understudy.labels.shift import class_shift
from understudy.store.files import LOCK

# Written into a run's folder before training starts.
BEFOREHAND = {LOCK, "request.json", "features.json", "features.safetensors"}


def usable_folder(out: str | Path | None, *, resume: bool = False) -> Path | None:
    """``out`` must be new or empty: a run never mixes with what is there. ``resume`` asks for one that was begun."""
    if out is None:
        if resume:
            raise UnderstudyError("resume=True goes on with the run in out=, but out=None; pass out=")
        return None
    folder = Path(out)
    # A name that begins with a dot is a lock, or a file that a killed process did not finish.
    there = {path.name for path in folder.glob("[!.]*")} - BEFOREHAND if folder.is_dir() else set()
    if folder.is_file() or (there and not resume):
        begun = there & {"checkpoint", "pilot"} and "config.json" not in there
        cure = (
            "go on with resume=True (--resume), or choose a new folder" if begun else "choose a new folder or remove it"
        )
        raise UnderstudyError(f"out={str(folder)!r} already exists and is not empty; {cure}")
    if there and not there & {"checkpoint", "pilot", "config.json", "metrics.jsonl"}:
        raise UnderstudyError(f"out={str(folder)!r} holds other files and no run to resume; choose another folder")
    return folder


def usable_device(device: str | torch.device | None) -> torch.device | None:
    """A device that can really hold something."""
    if device is None:
        return None
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise UnderstudyError(f"device {device!r} is unknown; use cpu or cuda") from error
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:  # a build without CUDA asserts
        raise UnderstudyError(f"device {str(device)!r} cannot be used here ({first_line(error)}); use cpu") from error
    return found


def drop_unlabelled(pool: Pool | None) -> tuple[Pool | None, Tensor | None]:
    """The pool rows with a label, and which they are (None: all)."""
    if pool is None:
        return None, None
    if not isinstance(pool, Pool):
        raise UnderstudyError(f"pool is a {type(pool).__name__}; pass us.Pool(x, teacher)")
    if pool.teacher is None:
        raise UnderstudyError("the pool has no teacher labels; label it (us.teach), or pass pool=None for gold alone")
    if not len(pool):
        raise UnderstudyError("the pool is empty; give it rows, or pass pool=None to train on gold alone")
    said = pool.teacher.labelled()
    if bool(said.all()):
        return pool, None
    kept = said.nonzero().squeeze(1)
    if not len(kept):
        raise UnderstudyError("no pool row has a teacher label (all are −1); label some, or pass pool=None")
    return pool.take(kept), kept


def check_outputs(student: nn.Module, gold: Gold | None, pool: Pool | None, **others: Gold | None) -> int:
    """The student's class count, checked against every set of rows and labels by a small forward pass each."""
    if next(student.parameters(), None) is None:
        raise UnderstudyError("the student has no parameters to train; pass a module that has some")
    if not any(parameter.requires_grad for parameter in student.parameters()):
        raise UnderstudyError("the student has no trainable parameters; set requires_grad on some")
    if gold is not None and not isinstance(gold, Gold):
        raise UnderstudyError(f"gold is a {type(gold).__name__}; pass us.Gold(x, y)")
    given = {"gold": gold, "pool": pool, **others}
    classes, *_ = [_outputs(student, part.rows, name) for name, part in given.items() if part is not None]
    for name, examples in {"gold": gold, **others}.items():
        if examples is not None and int(examples.y.max()) >= classes:
            raise UnderstudyError(
                f"{name}.y holds class {int(examples.y.max())}, but the student has {classes} outputs; "
                "give its last layer as many outputs as there are classes"
            )
    for name, teacher in (
        ("gold.teacher", gold.teacher if gold is not None else None),
        ("pool.teacher", pool.teacher if pool is not None else None),
    ):
        if teacher is None:
            continue
        if teacher.classes is not None and teacher.classes != classes:
            raise UnderstudyError(
                f"{name} knows {teacher.classes} classes, but the student has {classes} outputs; they must be equal"
            )
        if teacher.classes is None and len(teacher) and int(teacher.top1().max()) >= classes:
            raise UnderstudyError(
                f"{name} names class {int(teacher.top1().max())}, but the student has {classes} outputs"
            )
    if gold is not None and pool is not None and gold.teacher is not None and pool.teacher is not None:
        forms = type(gold.teacher.simplest()), type(pool.teacher.simplest())
        if forms[0] is not forms[1] and type(gold.teacher) is not type(pool.teacher):
            raise UnderstudyError(
                f"gold.teacher holds {forms[0].__name__} labels, pool.teacher {forms[1].__name__}; use one form"
            )
    return classes


def _outputs(student: nn.Module, rows: Rows, name: str) -> int:
    """How many classes the student scores, seen on the first rows."""
    first = rows.take(torch.arange(min(2, len(rows))))
    try:
        with eval_mode(student), torch.inference_mode():
            logits = forward(student, to_device(first, device_of(student)))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        shape = tuple(first.shape[1:]) if isinstance(first, Tensor) else sorted(first)
        raise UnderstudyError(
            f"the student cannot take rows of shape {shape} ({name}.x): {first_line(error)}; match its input"
        ) from error
    if logits.dim() != 2:
        raise UnderstudyError(
            f"the student returned shape {tuple(logits.shape)}; it must return logits (rows, classes)"
        )
    return logits.shape[1]


def report_gold(gold: Gold | None, pool: Pool | None, classes: int, full_pool: Pool | None) -> dict[str, float]:
    """Counts worth keeping with the run; a warning where gold misses a class."""
    facts: dict[str, float] = {}
    if gold is not None:
        facts["gold_rows"] = len(gold)
        facts["estimate_rows"] = len(gold.estimate_rows())
        missing = sorted(set(range(classes)) - set(gold.y.unique().tolist()))
        if missing:
            shown = ", ".join(map(str, missing[:5])) + ("…" if len(missing) > 5 else "")
            warnings.warn(
                f"gold holds no example of class {shown} ({len(missing)} of {classes}); what is estimated on gold says "
                "nothing about it: add a few such rows",
                UnderstudyWarning,
                stacklevel=3,
            )
    if pool is not None and full_pool is not None:
        facts["pool_rows"] = len(pool)
        facts["pool_rows_without_label"] = len(full_pool) - len(pool)
    return facts


def enough_estimates(said: Labels, classes: int) -> int:
    """How many gold rows an estimate of trust should have at least.

    Bare hard labels have an accuracy per class: 10 rows for each. Scores and confidences share one curve over all
    classes: 30 rows, and one per class so that the classes' mixture can be right. The bands tell what they buy.
    """
    return max(30, classes) if said.simplest().has_confidence else 10 * classes


def report_estimates(said: Labels, pool: Labels, classes: int) -> dict[str, float]:
    """Warnings where the rows that measure the teacher are few, or not a sample of what the pool holds."""
    wanted = enough_estimates(said, classes)
    if len(said) < wanted:
        warnings.warn(
            f"{len(said)} gold rows measure the teacher over {classes} classes; {wanted} or more are needed for a "
            "steady estimate: add gold rows with teacher=, or use us.vanilla(), which estimates nothing",
            UnderstudyWarning,
            stacklevel=4,
        )
    if not said.weighed_like(pool):
        warnings.warn(
            "the votes on gold and on the pool are weighed by different models, so trust measured on gold is not the "
            "pool's: fit one (fit = votes.dawid_skene()) and pass by=fit to both us.Votes",
            UnderstudyWarning,
            stacklevel=4,
        )
    shift = class_shift(said, pool, classes)
    if shift.alarming:
        warnings.warn(
            f"gold and pool hold different classes: the teacher names class {shift.most} on {shift.gold_share:.0%} of "
            f"the gold rows and {shift.pool_share:.0%} of the pool (distance {shift.distance:.2f}, p = "
            f"{shift.p_value:.1g}); draw gold at random from the pool, or trust measured on it will not carry over",
            UnderstudyWarning,
            stacklevel=4,
        )
    return {"class_shift": shift.distance, "class_shift_p": shift.p_value}
