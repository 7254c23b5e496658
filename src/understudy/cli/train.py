"""``understudy train``: a student from files, as a run directory with its report.

Options of the training are fields of ``training/options.py``, those of the files of ``io/data_options.py``.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.shared import GOLD, POOL, SELECT, TEST, Student, Track, flag, loading, takes_options
from understudy.errors import UnderstudyError, shown
from understudy.io.data_options import DataOptions
from understudy.methods import NAMES
from understudy.store.files import as_given
from understudy.training.options import AUTO

if TYPE_CHECKING:
    from understudy.training.job import TrainedJob

METHOD = (
    f"One of {', '.join(NAMES)}; or {AUTO}: a pilot reconciles the labels or chooses a method. Default: {AUTO}; "
    "vanilla without gold or pool, and for hf:… students, of which a pilot trains some thirty."
)


@takes_options()
def train_command(
    context: typer.Context,
    out: Annotated[Path, flag("New folder for the run.")],
    data: DataOptions,
    gold: Annotated[list[str] | None, GOLD] = None,
    pool: Annotated[Path | None, POOL] = None,
    method: Annotated[str | None, flag(METHOD)] = None,
    option: Annotated[list[str] | None, flag("An option of the method, e.g. lower_bound=0.6; repeat for more.")] = None,
    student: Student = AUTO,
    resume: Annotated[bool, flag("Continue the run in --out, with its options.", "--resume")] = False,
    test: Annotated[Path | None, TEST] = None,
    select: Annotated[Path | None, SELECT] = None,
    track: Track = None,
    **training: Any,
) -> None:
    """Train a student on gold and pool, and write the run and its report.html.

    Files are Parquet (or a folder of shards), CSV, JSON lines, .npz, .npy or a folder of images, with these columns:

    - `id`: optional, number or text

    - features: `x` (a list of numbers per row), or every further column of numbers or categories, or a column named by
    `--text` or `--image`

    - `label`: the true class, a name or a number 0, 1, 2 … (gold, test, select)

    - the teacher's label: `teacher_probs` (a list per row, or an object by class name), or `teacher_label` (−1 or
    empty: none) with or without `teacher_confidence`, or `teacher_topk_index` and `teacher_topk_prob`, or
    `teacher_votes`

    A gold file of `id` and `label` is enough: features and the teacher's label are then taken from the pool file by id,
    and those rows leave the pool. Give the teacher's label only for gold rows it had not trained on. `--gold
    +batch.csv` adds the labelled batch of `understudy select`: such rows train, but never measure the teacher. Gold
    rows with a true `estimate_only` do the opposite.

    Printed are the accuracy with its 95% interval (on the test set, else cross-validated on gold) and its baselines:
    the majority class, the teacher, and training on gold alone.

    Examples:

    `understudy train --gold gold.parquet --pool pool.parquet --out runs/first`

    `understudy train --gold gold.csv --pool reviews.jsonl --text review --teacher llm_answer
    --out runs/reviews`

    `understudy train --gold gold.npz --pool pool.npz --test test.npz --method slam --option lower_bound=0.6
    --student mlp:256,256 --lr 0.003 --schedule cosine --pretrain 10 --epochs 60 --out runs/second`

    `understudy train --gold gold.npz --pool pool.npz --method auto --option pilot_rows=2000
    --out runs/third`

    `understudy train --gold gold.npz --pool pool.npz --track tensorboard --out runs/fourth`

    `understudy train --gold gold.csv --pool reviews.csv --text review --student hf:minilm,max_tokens=64
    --out runs/fifth`

    `understudy train --resume --out runs/second`

    `torchrun --nproc-per-node 2 -m understudy train --gold gold.npz --pool pool.npz --out runs/sixth`: by two processes
    together, to the same result
    """
    with loading():
        from understudy.store.files import work_folder
        from understudy.training.distributed import is_restarted, process_group
        from understudy.training.job import TrainRequest, begin, has_request
        from understudy.training.job import resume as resume_training

    if resume:
        _check_alone(context)
    out = work_folder(out)
    files = {"pool": pool, "test": test, "select": select}
    request = TrainRequest(
        out=out, gold=gold or [], files={role: as_given(path) for role, path in files.items() if path is not None},
        data=data, method=method, method_options=option or [], student=student, training=training, track=track or [],
    )  # fmt: skip
    with process_group():
        if resume or (is_restarted() and has_request(out)):
            resume_training(out, _report)
        else:
            begin(request, _report)


def _check_alone(context: typer.Context) -> None:
    """A resumed training has the options that it began with."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in ("out", "resume", "quiet") and source is not None and source.name == "COMMANDLINE":
            raise UnderstudyError(f"--resume continues with the options of the run; leave out {parameter.opts[0]}")


def _report(job: "TrainedJob") -> None:
    """Write the report, and print its first lines."""
    from understudy.report.run_page import write_job_report
    from understudy.report.run_text import print_sources, run_lines

    path = job.request.out / "report.html"
    write_job_report(path, job)
    print_sources(job.run.facts)
    for line in run_lines(job.run):
        typer.echo(line)
    typer.echo(shown(f"Run: {job.request.out}  Report: {path}"))
