"""What runs under the peers' own Python ($UNDERSTUDY_PEERS): cleanlab's filter and Snorkel's label model, on request.

Reads lines "task input.npz output.npy" and answers each with "done" and the seconds it took, or with what went wrong.
Started once per process and kept: importing the two takes seconds, a request some milliseconds. Nothing of Understudy
is imported here.
"""

import sys
import time
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def cleanlab(given: Any) -> Array:
    """Which labels are issues, by cleanlab's default filter."""
    from cleanlab.filter import find_label_issues

    return np.asarray(find_label_issues(given["labels"], given["probs"], n_jobs=1))


def snorkel(given: Any) -> Array:
    """Class probabilities for rows of votes; how frequent the classes are comes from gold, as its manual advises."""
    from snorkel.labeling.model import LabelModel

    classes, gold = int(given["classes"]), given["gold"]
    model = LabelModel(cardinality=classes, verbose=False)
    known = gold if len(np.unique(gold)) == classes else None
    model.fit(given["votes"], Y_dev=known, n_epochs=500, seed=int(given["seed"]), progress_bar=False)
    return np.asarray(model.predict_proba(given["votes"]))


def ppi(given: Any) -> Array:
    """The 95% intervals of a mean by PPI++, by draw: y, f and weight of gold; pool rows named 1, and all of them."""
    from ppi_py import ppi_mean_ci

    ends = []
    for y, f, weight, (yes, rows) in zip(given["y"], given["f"], given["weight"], given["pool"], strict=True):
        pool = np.arange(int(rows)) < yes
        low, high = ppi_mean_ci(y.astype(float), f.astype(float), pool.astype(float), alpha=0.05, w=weight)
        ends.append([float(low[0]), float(high[0])])
    return np.array(ends)


TASKS = {"cleanlab": cleanlab, "snorkel": snorkel, "ppi": ppi}


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever the libraries print is no answer
    for line in sys.stdin:
        task, source, target = line.rstrip("\n").split("\t")
        started = time.process_time()
        try:
            with np.load(source, allow_pickle=False) as given:
                np.save(target, TASKS[task](given), allow_pickle=False)
            answer = f"done {time.process_time() - started:.3f}"
        except Exception as error:  # the caller decides what to do about it
            answer = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
