"""What trust costs at scale: C = 1,000 classes, 10,000 gold rows, up to 1,000,000 pool rows, one thread.

Ours: ``us.Reliability.fit`` on gold, then alpha and k of every pool row. The peer: scikit-learn's IsotonicRegression
fitted on gold for each k and evaluated for every pool row, the smallest k that reaches the threshold kept; both get the
same labels and make the covariates from them inside the clock. With top-10 labels the peer is used for the listed k
only, and once for every k below C (the tail spread evenly), as a loop that knows nothing of top-k labels would do it.
Dense labels come in pieces of 10,000 rows, which neither holds together. scikit-learn interpolates between gold margins
where ours are steps: of dense rows, which compare up to 150 margins with curves, that changes k on 0.2%. Outside the
clock its fits are read as steps too, and then both must give the same. A weaker teacher is slower for us, because more
rows must be ranked deep. Target: at least 10 times as fast, peak memory under
1.5 GB (in a process of its own, with 1,000,000 top-10 rows and some pieces of dense ones).

    python -m benchmarks.reliability            # 3 minutes: dense labels for 100,000 pool rows
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from sklearn.isotonic import IsotonicRegression

import understudy as us
from benchmarks.figures import Figure, main
from benchmarks.timing import interleave
from understudy.labels.soft import TopK

CLASSES, GOLD, POOL, LISTED, PIECE = 1_000, 10_000, 1_000_000, 10, 10_000
LOWER, THRESHOLD = 0.5, 0.9


def _dense(rows: int, seed: int) -> np.ndarray[Any, Any]:
    """Softmax rows, some sure and some not: top-1 accuracy 75%, top-5 85%, as of a fair ImageNet model."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((rows, CLASSES), dtype=np.float32) * 1.5
    truth = rng.integers(0, CLASSES, rows)
    logits[np.arange(rows), truth] += rng.gamma(6.0, 1.2, rows).astype(np.float32)
    logits -= logits.max(1, keepdims=True)
    probs = np.exp(logits, out=logits)
    probs /= probs.sum(1, keepdims=True)
    return probs


def _truth(rows: int, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    rng.standard_normal((rows, CLASSES), dtype=np.float32)
    return rng.integers(0, CLASSES, rows)


def _listed(probs: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    order = np.argsort(-probs, axis=1, kind="stable")[:, :LISTED].astype(np.int16)
    return order, np.take_along_axis(probs, order, 1)


def _topk_pool(rows: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A million rows would take minutes to draw; 20 pieces are repeated, each row mixed with a little uniform mass."""
    pieces = [_listed(_dense(PIECE, 100 + number)) for number in range(min(20, rows // PIECE))]
    repeats = rows // (PIECE * len(pieces))
    indices = np.tile(np.concatenate([piece[0] for piece in pieces]), (repeats, 1)).astype(np.int16)
    probs = np.tile(np.concatenate([piece[1] for piece in pieces]), (repeats, 1))
    mixed = np.random.default_rng(0).uniform(0, 0.03, (len(probs), 1)).astype(np.float32)
    probs += mixed * (1 / CLASSES - probs)
    return indices, probs


def _margins(
    ordered: np.ndarray[Any, Any], following: np.ndarray[Any, Any], spread: int = 0
) -> Iterator[np.ndarray[Any, Any]]:
    """topk_margin for k = 1, 2, …, one at a time; ``spread`` more for unlisted classes that hold ``following`` each."""
    head = np.zeros(len(ordered))
    for k in range(ordered.shape[1]):
        head += ordered[:, k]
        yield head - (ordered[:, k + 1] if k + 1 < ordered.shape[1] else following)
    for _ in range(spread):
        head += following
        yield head - following


def _peer_fit(margins: Iterator[np.ndarray[Any, Any]], places: np.ndarray[Any, Any]) -> list[IsotonicRegression]:
    return [
        IsotonicRegression(y_min=LOWER, y_max=1.0, out_of_bounds="clip").fit(margin, (places <= k).astype(float))
        for k, margin in enumerate(margins)
    ]


def _as_steps(curve: IsotonicRegression, margin: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The value of the smallest gold margin that is not less, as ours are read."""
    return curve.y_thresholds_[np.searchsorted(curve.X_thresholds_, margin).clip(max=len(curve.X_thresholds_) - 1)]


def _peer_predict(
    curves: list[IsotonicRegression],
    margins: Iterator[np.ndarray[Any, Any]],
    rows: int,
    read: Callable[[IsotonicRegression, np.ndarray[Any, Any]], np.ndarray[Any, Any]] = IsotonicRegression.predict,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    alpha, smallest = np.empty(rows), np.full(rows, CLASSES)
    for k, (curve, margin) in enumerate(zip(curves, margins, strict=False), start=1):
        accuracy = read(curve, margin)
        if k == 1:
            alpha = accuracy
        smallest = np.where((accuracy >= THRESHOLD) & (smallest == CLASSES), max(k, 2), smallest)
    return alpha, smallest


def _agreement(ours: tuple[Any, Any], peer: tuple[Any, Any], steps: tuple[Any, Any]) -> dict[str, float]:
    return {
        "alpha_difference": float(np.abs(np.asarray(ours[0]) - steps[0]).max()),
        "same_k": float((np.asarray(ours[1]) == steps[1]).mean()),
        "same_k_interpolated": float((np.asarray(ours[1]) == peer[1]).mean()),
    }


def top_k_case(rows: int, repeats: int, *, every_k: bool = False) -> Figure:
    """The peer fits each of the listed k, or (``every_k``) each k below C with the tail spread evenly."""
    spread = CLASSES - 1 - LISTED if every_k else 0
    gold = _dense(GOLD, 1)
    y = _truth(GOLD, 1)
    gold_indices, gold_probs = _listed(gold)
    indices, probs = _topk_pool(rows)
    on_gold, pool = TopK(gold_indices, gold_probs, CLASSES), TopK(indices, probs, CLASSES)
    found = gold_indices == y[:, None]
    places = np.where(found.any(1), found.argmax(1), CLASSES)
    answers: dict[str, Any] = {}

    def rest(listed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return (1 - listed.sum(1)) / (CLASSES - LISTED)

    def ours() -> None:
        trust = us.Reliability.fit(on_gold, y, LOWER, THRESHOLD)
        answers["ours"] = trust.alpha_and_k(pool)

    def peer() -> None:
        answers["curves"] = curves = _peer_fit(_margins(gold_probs, rest(gold_probs), spread), places)
        answers["peer"] = _peer_predict(curves, _margins(probs, rest(probs), spread), rows)

    times = interleave({"ours": ours, "peer": peer}, repeats=repeats, warm_up=0 if every_k else 1)
    which = f"every k < {CLASSES}" if every_k else f"k ≤ {LISTED}"
    steps = _peer_predict(answers["curves"], _margins(probs, rest(probs), spread), rows, _as_steps)
    agreement = _agreement(answers["ours"], answers["peer"], steps)
    return _figure(f"top-{LISTED} labels, {rows:,} pool rows, {which}", times["ours"], times["peer"], agreement)


def dense_case(rows: int) -> Figure:
    """Once each, piece by piece; drawing the labels is outside both clocks."""
    gold, y = _dense(GOLD, 1), _truth(GOLD, 1)
    seconds = {"ours": 0.0, "peer": 0.0}
    agreements = []

    def clocked(name: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        seconds[name] += time.process_time() - start
        return result

    def descending(probs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # Column by column is how the peer reads it: one contiguous row per k.
        return np.asfortranarray(np.sort(probs, axis=1)[:, ::-1])

    def peer_on_gold() -> list[IsotonicRegression]:
        own = gold[np.arange(GOLD), y][:, None]
        return _peer_fit(_margins(descending(gold)[:, :-1], gold.min(1)), (gold > own).sum(1))

    trust = clocked("ours", lambda: us.Reliability.fit(gold, y, LOWER, THRESHOLD))
    curves = clocked("peer", peer_on_gold)
    for number in range(rows // PIECE):
        piece = _dense(PIECE, 100 + number)
        ours = clocked("ours", lambda piece=piece: _ask(trust, us.Soft(piece)))
        peer = clocked(
            "peer", lambda piece=piece: _peer_predict(curves, _margins(descending(piece)[:, :-1], piece.min(1)), PIECE)
        )
        steps = _peer_predict(curves, _margins(descending(piece)[:, :-1], piece.min(1)), PIECE, _as_steps)
        agreements.append(_agreement(ours, peer, steps))
    means = {key: float(np.mean([agreement[key] for agreement in agreements])) for key in agreements[0]}
    return _figure(f"dense labels, {rows:,} pool rows", seconds["ours"], seconds["peer"], means)


def _ask(trust: us.Reliability, labels: us.Soft) -> tuple[torch.Tensor, torch.Tensor]:
    return trust.alpha_and_k(labels)


def _figure(what: str, ours: float, peer: float, agreement: dict[str, float]) -> Figure:
    return Figure(
        f"alpha and k, {CLASSES:,} classes, {GOLD:,} gold rows, {what} (as steps alpha differs by "
        f"{agreement['alpha_difference']:.0e}, same k in {agreement['same_k']:.2%}; interpolated in "
        f"{agreement['same_k_interpolated']:.1%})",
        "s", ours, "scikit-learn IsotonicRegression for each k", peer, peer / ours, "≥ 10",
    )  # fmt: skip


def peak_memory_mb(rows: int = POOL) -> float:
    """Peak resident memory of fitting and asking with top-k labels, everything imported and drawn included."""
    code = (
        "import resource, torch; torch.set_num_threads(1)\n"
        "from benchmarks.reliability import *\n"
        "from benchmarks.reliability import _dense, _listed, _topk_pool, _truth\n"
        "on_gold = TopK(*_listed(_dense(GOLD, 1)), CLASSES); y = _truth(GOLD, 1)\n"
        f"pool = TopK(*_topk_pool({rows}), CLASSES)\n"
        "trust = us.Reliability.fit(on_gold, y, LOWER, THRESHOLD); trust.alpha(pool); trust.k(pool)\n"
        "dense = us.Reliability.fit(_dense(GOLD, 1), y, LOWER, THRESHOLD)\n"
        f"[(dense.alpha(p), dense.k(p)) for p in (_dense(PIECE, 100 + n) for n in range(3))]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def figures(repeats: int = 5, dense_rows: int = 100_000) -> list[Figure]:
    peak = peak_memory_mb()
    return [
        top_k_case(POOL, repeats),
        top_k_case(POOL, 1, every_k=True),
        dense_case(dense_rows),
        Figure(f"peak memory, {POOL:,} top-{LISTED} pool rows", "MB", peak, value=peak, target="< 1500"),
    ]


if __name__ == "__main__":
    main(figures)
