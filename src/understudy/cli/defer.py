"""``understudy defer``: which rows a student leaves to its teacher, with a promised accuracy."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import RunFolder, flag, loading
from understudy.errors import shown

PAGE = "deferral.html"


def defer_command(
    run: RunFolder,
    target_accuracy: Annotated[float | None, flag("The accuracy of all answers, e.g. 0.9.")] = None,
    budget: Annotated[float | None, flag("Instead: the largest share of rows to defer, e.g. 0.2.")] = None,
    price: Annotated[float | None, flag("Of an answer of the teacher, in any unit; shows costs.")] = None,
    error_cost: Annotated[float | None, flag("Instead: of a wrong answer, to weigh against --price.")] = None,
    delta: Annotated[float, flag("The chance that the accuracy is lower.")] = 0.05,
    abstain: Annotated[bool, flag("No teacher: deferred rows are not answered.", "--abstain")] = False,
    by_class: Annotated[bool, flag("The target holds for each class that the student predicts.", "--by-class")] = False,
) -> None:
    """Choose which rows to send to the teacher (or to a person), so that the accuracy of all answers reaches a target.

    The rows that the student is least sure of are deferred, as few as the target allows. It is tested on gold rows that
    neither the student nor its combination with the teacher was trained on, so that the accuracy is at least the target
    with probability 1 − delta. Rows chosen by active learning do not count.

    The rule is kept in the run: `understudy predict` marks `deferred` rows, and combines the teacher's labels of them
    with its own (`--column teacher_label=NAME`). A page with the curve is written beside it.

    Exit code 0: a rule was written; 1: the target cannot be promised (what can, and how many gold rows it takes, is
    printed); 2: a mistake in the arguments or files.

    Examples:

    `understudy defer runs/first --target-accuracy 0.9`

    `understudy defer runs/first --budget 0.2 --price 0.0004`

    `understudy defer runs/first --target-accuracy 0.95 --abstain`
    """
    with loading():
        from understudy.auditing.deferral import defer
        from understudy.report.deferral_page import print_deferral, write_deferral_page

    found = defer(
        Path(run), target_accuracy=target_accuracy, budget=budget, price=price, error_cost=error_cost, delta=delta,
        abstain=abstain, by_class=by_class,
    )  # fmt: skip
    print_deferral(found)
    write_deferral_page(run / PAGE, found)
    typer.echo(shown(f"the curve: {run / PAGE}"))
    if found.rule is None:
        raise typer.Exit(1)
