"""``make bench``: every benchmark in turn, each in a process of its own, one thread.

    python -m benchmarks                                   # all of them
    python -m benchmarks train_overhead                    # some of them
    python -m benchmarks --out docs/benchmarks             # and writes docs/benchmarks.md and .json

A benchmark that was run before keeps its figures in the JSON until it is run again.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from experiments.runner import commit

from benchmarks.figures import Figure, markdown

TITLES = {
    "whole_jobs": "Whole jobs",
    "train_overhead": "Overhead of us.train",
    "reweight_step": "Learning to reweight",
    "reweight_torchopt": "Learning to reweight beside torchopt",
    "reliability": "Reliability curves",
    "selection": "Selection strategies",
    "label_errors": "Label errors",
    "large_pool": "Memory-mapped pools",
    "compare_speed": "Comparisons in processes",
    "linear_fit": "Linear students beside scikit-learn",
    "text_training": "Fine-tuning on texts",
    "start_up": "Start of the command line",
    "serving": "Serving beside a bare loop",
    "growth": "Growth with rows, classes and features",
}
BENCHMARKS = tuple(TITLES)

DRAWN = {"growth"}
"""These leave a picture beside the page."""


def run(name: str) -> list[dict[str, Any]] | None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(out)]
        failed = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False).returncode
        return None if failed else json.loads(out.read_text())


def page(kept: dict[str, Any]) -> str:
    """Figures with a peer or a target; the JSON file has all of them."""
    parts = [
        "# Benchmarks",
        "Speed and memory beside other tools: one thread, in turn in one run, medians. A ratio is what its target is "
        "about (our cost over theirs, or their time over ours). `make bench` writes this page, `benchmarks.json` "
        "more.",
    ]
    for name in BENCHMARKS:
        if name in kept:
            picture = [f"![{TITLES[name]}](benchmarks_{name}.png)"] if name in DRAWN else []
            figures = [Figure(**one) for one in kept[name]["figures"]]
            shown = [one for one in figures if (one.peer or one.target) and one.unit != "rows/cpu s"]
            parts += [f"## {TITLES[name]}", *picture, *([markdown(shown)] if shown else []), kept[name]["made"]]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def made() -> str:
    load = f"load {os.getloadavg()[0]:.1f} at the end"
    return (
        f"*{datetime.date.today()}, {commit('src', 'benchmarks')}, torch {torch.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, {load}.*"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(BENCHMARKS)}")
    parser.add_argument("--out", type=Path, help="write OUT.md and OUT.json")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        print(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    store = options.out and options.out.with_suffix(".json")
    kept: dict[str, Any] = json.loads(store.read_text()) if store and store.exists() else {}
    failed = 0
    for name in options.names or BENCHMARKS:
        print(f"\n## {name}\n", flush=True)
        figures = run(name)
        failed |= figures is None
        if figures is not None and options.out:
            kept[name] = {"figures": figures, "made": made()}
            store.write_text(json.dumps(kept, ensure_ascii=False, indent=2) + "\n")
            options.out.with_suffix(".md").write_text(page(kept))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
