"""What the experiments share: their arguments, and results as Markdown."""

import argparse
import platform
import subprocess
import time
from pathlib import Path

import torch

from understudy.compare import Comparison, Interval, percent, signed, span
from understudy.files import write_text

_STARTED = time.perf_counter()


def arguments(description: str | None, *, seeds: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help="how many seeds (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file")
    return parser.parse_args()


def markdown(comparison: Comparison) -> str:
    """The comparison in percent: last epoch, gold-selected epoch, and the paired difference, with 95% intervals."""
    rows = [
        f"| method | last epoch | 95% interval | epoch chosen on gold | minus {comparison.reference} | 95% interval |",
        "| --- | ---: | --- | ---: | ---: | --- |",
    ]
    for line in comparison.lines():
        gap = ("", "") if line.difference is None else (signed(line.difference.mean), span(line.difference, signed))
        chosen = percent(line.selected.mean) if line.selected else ""
        rows.append(
            f"| {line.method} | {percent(line.last.mean)} | {span(line.last, percent)} | {chosen} | {gap[0]} | {gap[1]} |"
        )
    return "\n".join(rows)


def show(interval: Interval) -> str:
    return f"{percent(interval.mean)} ({span(interval, percent)})"


def save(path: Path | None, content: str) -> None:
    """The tables with where and when they were made."""
    if path is None:
        return
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    minutes = (time.perf_counter() - _STARTED) / 60
    made = (
        f"*{time.strftime('%Y-%m-%d')}, commit {commit or 'unknown'}, torch {torch.__version__}, "
        f"{platform.machine()}, one thread, {minutes:.0f} minutes.*"
    )
    write_text(path, f"{content}\n\n{made}\n")
