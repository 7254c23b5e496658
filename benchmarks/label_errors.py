"""Finding wrong labels: ``refined.wrong`` of one training beside cleanlab's score, on the same labels.

Fashion-MNIST, 10,000 rows, 40% of the labels flipped, MLP 784-512-512-10, 40 epochs. Ours: one training
with ``self_distillation``, whose run says per row how likely its label is wrong. The peer: cleanlab's label-quality
scores from out-of-sample predictions of the same net, cross-validated in 5 folds (5 trainings), which is how its
documentation asks for them; with the plain loss, and with ours. ROC-AUC against the true mask; target at least 0.95.
cleanlab runs under the Python in $UNDERSTUDY_PEERS; without it its rows say "not installed".

    python -m benchmarks.label_errors             # 6 minutes on one core
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiments.data import images
from sklearn.metrics import roc_auc_score
from torch import Tensor

import understudy as us
from benchmarks.figures import Figure, main
from understudy.data.noise import uniform_flip

ROWS, CLASSES, EPOCHS, FOLDS, NOISE = 10_000, 10, 40, 5, 0.4
CLEANLAB = """
import sys, numpy as np
from cleanlab.rank import get_label_quality_scores
with np.load(sys.argv[1], allow_pickle=False) as data:
    np.save(sys.argv[2], get_label_quality_scores(data["labels"], data["probs"], method="self_confidence"))
"""


def fit(x: Tensor, noisy: Tensor, objective: us.Objective) -> us.Run:
    return us.train(
        lambda: us.models.mlp(784, CLASSES, hidden=(512, 512)), None, us.Pool(x, us.Hard(noisy, classes=CLASSES)),
        objective, epochs=EPOCHS, schedule="cosine", progress=False,
    )  # fmt: skip


def out_of_sample(x: Tensor, noisy: Tensor, objective: us.Objective) -> Tensor:
    """Each row's class probabilities from a net that did not train on it."""
    fold = torch.randperm(len(x), generator=torch.Generator().manual_seed(1)) % FOLDS
    probs = torch.empty(len(x), CLASSES)
    for number in range(FOLDS):
        run = fit(x[fold != number], noisy[fold != number], objective)
        probs[fold == number] = run.predict(x[fold == number])
    return probs


def cleanlab_wrong(labels: Tensor, probs: Tensor) -> np.ndarray[Any, Any] | None:
    """1 − cleanlab's label quality; None where cleanlab is not installed."""
    python = os.environ.get("UNDERSTUDY_PEERS")
    if not python:
        return None
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "in.npz", Path(folder) / "out.npy"
        np.savez(given, labels=labels.numpy(), probs=probs.numpy())
        done = subprocess.run([python, "-c", CLEANLAB, str(given), str(answer)], capture_output=True, text=True)
        if done.returncode:
            print(f"cleanlab: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return None
        return 1 - np.load(answer)


def figures() -> list[Figure]:
    x, y, _, _ = images("fashion_mnist")
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:ROWS]
    x, y = x[rows], y[rows]
    noisy, wrong = uniform_flip(y, NOISE, CLASSES, seed=0)
    run = fit(x, noisy, us.self_distillation())
    ours = float(roc_auc_score(wrong, run.columns["refined.wrong"]))
    found = []
    for name, objective in (("plain", us.vanilla()), ("with our loss", us.self_distillation())):
        scores = cleanlab_wrong(noisy, out_of_sample(x, noisy, objective))
        peer, auc = f"cleanlab, {FOLDS} trainings, {name}", None if scores is None else roc_auc_score(wrong, scores)
        note = "not installed" if auc is None else ""
        found.append(Figure("refined.wrong, 1 training", "ROC-AUC", ours, peer, auc, ours, "≥ 0.95", note))
    return found


if __name__ == "__main__":
    main(figures)
