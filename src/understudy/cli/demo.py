"""``understudy demo``: what understudy brings, on built-in handwritten digits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.shared import flag

if TYPE_CHECKING:
    from understudy.comparison.outcome import Outcome


def demo_command(
    out: Annotated[Path, flag("Folder for report.html.")] = Path("understudy-demo"),
    seeds: Annotated[int, flag("Number of seeds: splits and teachers.", min=1)] = 5,
) -> None:
    """Compare `auto` with logistic regression on built-in handwritten digits.

    A teacher is trained on 70 labels of its own and labels 1,100 rows; 60 others have trusted labels. Compares logistic
    regression on the trusted labels, on all labels as they are, and `auto`, over several seeds with 95% intervals.

    Example: `understudy demo --out understudy-demo`
    """
    import torch

    from understudy.comparison.digits_demo import DemoSetting, run_demo
    from understudy.comparison.interval import percent
    from understudy.report.comparison_page import write_demo_report
    from understudy.report.templates import sentences, wide_console

    torch.set_num_threads(1)  # the nets are tiny: more threads only wait for each other
    line: list[str] = []

    def on_done(method: str, seed: int, outcome: "Outcome") -> None:
        line.append(f"{method} {percent(outcome.last)}")
        if len(line) == 4:
            typer.echo(f"seed {seed + 1}/{seeds}  " + "  ".join(line), err=True)
            line.clear()

    result, report = run_demo(DemoSetting(seeds=seeds), on_done=on_done), out / "report.html"
    write_demo_report(report, result)
    wide_console().print(result.comparison.table())
    for sentence in sentences("demo", "verdict", result.comparison):
        typer.echo(sentence)
    typer.echo(f"Report: {report}")
    typer.echo("Next, with texts of a shop: understudy example --out tickets")
