"""``understudy demo``: what it does, on built-in handwritten digits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from understudy.comparison.outcome import Outcome


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for report.html.")] = Path("understudy-demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How many splits and starts to average over.")] = 10,
) -> None:
    """Show what it does, on built-in handwritten digits.

    A teacher learns from 100 labels of its own and labels 1,100 rows; a smaller student learns from these labels
    and from 60 trusted ones. Compares training on the trusted labels alone, vanilla distillation, Weighted
    Distillation and SLaM, over several seeds with 95% intervals, and says in words what came out.

    Example: `understudy demo --out understudy-demo`
    """
    import torch
    from rich.console import Console

    from understudy.cli.digits_demo import Setting, run_demo
    from understudy.comparison.interval import percent

    torch.set_num_threads(1)  # the nets are tiny: more threads only wait for each other
    line: list[str] = []

    def on_done(method: str, seed: int, outcome: "Outcome") -> None:
        line.append(f"{method} {percent(outcome.last)}")
        if len(line) == 5:
            typer.echo(f"seed {seed + 1}/{seeds}  " + "  ".join(line), err=True)
            line.clear()

    result = run_demo(out, Setting(seeds=seeds), on_done=on_done)
    Console().print(result.comparison.table())
    for sentence in result.verdict:
        typer.echo(sentence)
    typer.echo(f"Report: {result.report}")
