"""What ``us.train`` costs over a bare PyTorch loop: MLP 784-256-256-10, batch 128, 20,000 rows, Adam, one thread.

Both train on soft labels for one epoch. Ours also draws 500 of the rows from gold, and keeps the refined labels. The
optimizer is the same fused Adam in both, so that the ratio is the loop's own; against PyTorch's default (unfused) Adam,
which most hand-written loops use, the second line tells. Target: at most 1.05. The last lines are what computing the
weights of Weighted Distillation costs (500 gold rows measure the teacher) beside a training of 30 epochs and of the
paper's 200: mostly one pass of the student over the pool, so about a third of an epoch for any net.

    python -m benchmarks.train_overhead
"""

import torch
from torch import nn

import understudy as us
from benchmarks.figures import Figure, main
from benchmarks.timing import interleave

ROWS, GOLD, BATCH = 20_000, 500, 128


def figures(repeats: int = 15) -> list[Figure]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 784, generator=generator)
    probs = torch.randn(ROWS, 10, generator=generator).softmax(-1)
    student = us.models.mlp(inputs=784, hidden=(256, 256), classes=10)
    gold = us.Gold(x[:GOLD], probs[:GOLD].argmax(1), teacher=probs[:GOLD])
    pool = us.Pool(x[GOLD:], probs[GOLD:])

    def ours() -> None:
        us.train(student, gold, pool, us.vanilla(), epochs=1, batch_size=BATCH, progress=False)

    def weights() -> None:
        us.Session(student, gold, pool, us.weighted()).prepare()

    def bare(fused: bool) -> None:
        model = us.models.mlp(inputs=784, hidden=(256, 256), classes=10)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
        loss_of = nn.CrossEntropyLoss()
        for rows in torch.randperm(ROWS).split(BATCH):
            loss = loss_of(model(x[rows]), probs[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    times = interleave(
        {
            "ours": ours,
            "bare, fused Adam": lambda: bare(True),
            "bare, default Adam": lambda: bare(False),
            "weights": weights,
        },
        repeats=repeats,
    )
    loops = [
        Figure(
            "us.train(vanilla), one epoch", "s", times["ours"], peer, times[peer], times["ours"] / times[peer], "≤ 1.05"
        )
        for peer in ("bare, fused Adam", "bare, default Adam")
    ]
    for epochs in (30, 200):
        peer, training = f"a training of {epochs} epochs", epochs * times["ours"]
        share = times["weights"] / training
        loops.append(Figure("the weights of us.weighted", "s", times["weights"], peer, training, share, "< 0.01"))
    return loops


if __name__ == "__main__":
    main(figures)
