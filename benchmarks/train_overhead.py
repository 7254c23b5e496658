"""What ``us.train`` costs over a bare PyTorch loop: batch 128, 20,000 rows, Adam, one thread.

Of an MLP 784-256-256-10 and of a tiny one, 12-128-128-2, as tables get. All train on soft labels for one epoch. Ours
also draws 500 of the rows from gold, and keeps the refined labels. The optimizer is the same fused Adam in both, so
that the ratio is the loop's own; against PyTorch's default (unfused) Adam, which most hand-written loops use, the other
lines tell. Targets: at most 1.05, of the tiny net 1.2. The last lines are what computing the weights of Weighted
Distillation costs (500 gold rows measure the teacher) beside a training of 30 epochs and of the paper's 200: mostly one
pass of the student over the pool, so about a third of an epoch for any net.

    python -m benchmarks.train_overhead
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

import understudy as us
from benchmarks.figures import Figure, main
from benchmarks.timing import interleave

ROWS, GOLD, BATCH = 20_000, 500, 128
FUSED, DEFAULT = "bare, fused Adam", "bare, default Adam"


def works(inputs: int, hidden: tuple[int, ...], classes: int) -> dict[str, Callable[[], object]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, inputs, generator=generator)
    probs = torch.randn(ROWS, classes, generator=generator).softmax(-1)
    student = partial(us.models.mlp, inputs=inputs, hidden=hidden, classes=classes)
    gold = us.Gold(x[:GOLD], probs[:GOLD].argmax(1), teacher=probs[:GOLD])
    pool = us.Pool(x[GOLD:], probs[GOLD:])

    def ours() -> None:
        us.train(student(), gold, pool, us.vanilla(), epochs=1, batch_size=BATCH, progress=False)

    def weights() -> None:
        us.Session(student(), gold, pool, us.weighted()).prepare()

    def bare(fused: bool) -> None:
        model = student()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
        loss_of = nn.CrossEntropyLoss()
        for rows in torch.randperm(ROWS).split(BATCH):
            loss = loss_of(model(x[rows]), probs[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return {"ours": ours, FUSED: partial(bare, True), DEFAULT: partial(bare, False), "weights": weights}


def figures(repeats: int = 15) -> list[Figure]:
    times = interleave(works(784, (256, 256), 10), repeats=repeats)
    tiny = interleave(works(12, (128, 128), 2), repeats=repeats)
    loops = [
        Figure(
            f"us.train(vanilla), one epoch{net}", "s", each["ours"], peer, each[peer], each["ours"] / each[peer], most
        )
        for net, each, most in (("", times, "≤ 1.05"), (" of a tiny net", tiny, "≤ 1.2"))
        for peer in (FUSED, DEFAULT)
    ]
    for epochs in (30, 200):
        peer, training = f"a training of {epochs} epochs", epochs * times["ours"]
        share = times["weights"] / training
        loops.append(Figure("the weights of us.weighted", "s", times["weights"], peer, training, share, "< 0.01"))
    return loops


if __name__ == "__main__":
    main(figures)
