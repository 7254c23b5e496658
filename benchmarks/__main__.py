"""``make bench``: every benchmark in turn, each in a process of its own, one thread.

python -m benchmarks                        # all of them
python -m benchmarks train_overhead         # some of them
"""

import os
import subprocess
import sys

BENCHMARKS = ("train_overhead", "reweight_step", "reliability", "selection", "label_errors")


def main() -> int:
    wanted = sys.argv[1:] or BENCHMARKS
    unknown = set(wanted) - set(BENCHMARKS)
    if unknown:
        print(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    failed = 0
    for name in wanted:
        print(f"\n## {name}\n", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        failed |= subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
