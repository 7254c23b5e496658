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

BENCHMARKS = (
    *("train_overhead", "reweight_step", "reweight_torchopt", "reliability", "selection", "label_errors"),
    *("large_pool", "compare_speed", "linear_fit", "text_training", "start_up", "growth"),
)

DRAWN = {"growth"}
"""These leave a picture beside the page."""


def run(name: str) -> list[dict[str, Any]] | None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(out)]
        failed = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False).returncode
        return None if failed else json.loads(out.read_text())


def page(kept: dict[str, Any]) -> str:
    parts = [
        "# Benchmarks",
        "One thread, contestants in turn in one run, medians; a ratio says what its target asks for (ours over the "
        "peer's cost, or the peer's time over ours). `make bench` makes this page.",
    ]
    for name in BENCHMARKS:
        if name in kept:
            picture = [f"![{name}](benchmarks_{name}.png)"] if name in DRAWN else []
            table = markdown([Figure(**one) for one in kept[name]["figures"]])
            parts += [f"## {name}", *picture, table, kept[name]["made"]]
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
