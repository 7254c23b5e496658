"""``us.reconcile``: the pool with labels made of everybody's word, and what each witness said.

    pool = us.reconcile(student, gold, pool, epochs=30)
    us.train(student, gold, pool, us.vanilla(), epochs=30)       # gold without its teacher=: q is nobody's word on gold
    for witness in pool.witnesses:
        print(witness.name, witness.weight, witness.accuracy)
    pool.columns()                                               # every witness's label and chance, in pool order

``reconciling/`` has the formula; ``us.reconciled()`` does both steps in one training.
"""

from dataclasses import replace
from pathlib import Path
from typing import Unpack

from understudy.arguments import checked_plainly
from understudy.comparison.cells import Methods, Student, initial_student, named_objectives
from understudy.comparison.outcome import GOLD_ONLY, VANILLA
from understudy.data.examples import Gold, Pool, drop_unlabelled
from understudy.errors import UnderstudyError
from understudy.methods import METHODS
from understudy.methods.reconciled import cross_fit, default_members
from understudy.parallel.executors import Executor, executor_for
from understudy.reconciling.members import Member, Trained, flat_members
from understudy.reconciling.reconcile import ReconciledPool, reconciled_pool
from understudy.store.copies import work_folder
from understudy.store.files import locked
from understudy.store.option_fields import plain
from understudy.training.keywords import takes
from understudy.training.learner import check_outputs
from understudy.training.options import SharedOptions, TrainingOptions
from understudy.training.train import settled


@takes(SharedOptions)
@checked_plainly
def reconcile(
    student: Student,
    gold: Gold,
    pool: Pool,
    *,
    methods: Methods | None = None,
    folds: int = 4,
    rows: int | None = 20_000,
    seed: int = 0,
    out: str | Path | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool = True,
    **options: Unpack[SharedOptions],
) -> ReconciledPool:
    """A pool of the same rows whose labels are made of all witnesses, weighed on gold rows that none of them saw.

    ``methods``: by which members are trained beside gold alone (None: those of ``us.reconciled``), each on ``folds``
    parts of gold and of ``rows`` labelled pool rows (None: all). Rows without a teacher's label get one too.
    With ``out``, finished trainings are kept in that folder, and the same call goes on where it was stopped.
    """
    if not isinstance(gold, Gold) or not isinstance(pool, Pool):
        raise UnderstudyError("reconcile weighs witnesses of a pool on gold; pass us.Gold(x, y, …) and us.Pool(x, …)")
    executor = executor_for(workers, executor)
    recipe = replace(TrainingOptions.shared(settled(student, gold, pool, options)[0], "reconcile"), seed=seed)
    classes = check_outputs(initial_student(student, seed), gold, drop_unlabelled(pool)[0])
    members: dict[str, Member]
    if methods is None:
        members = default_members(gold, pool, classes, recipe)
    else:
        members = {GOLD_ONLY: Trained(METHODS[VANILLA](), alone=True)} if len(gold.training_rows()) else {}
        members |= {name: Trained(objective) for name, objective in named_objectives(methods).items()}
        members |= flat_members(gold, pool, classes, METHODS[VANILLA](), recipe)
    folder = None if out is None else work_folder(out)
    fitted = cross_fit(
        student, gold, pool, members, recipe, classes=classes, folds=plain(folds), rows=plain(rows), folder=folder
    )
    if folder is None:
        return reconciled_pool(fitted, fitted.run(executor, progress=progress))
    with locked(folder):
        return reconciled_pool(fitted, fitted.run(executor, progress=progress))
