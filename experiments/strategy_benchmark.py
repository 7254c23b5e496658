"""Strategies side by side on clean and heteroskedastic pools: accuracy, and how many picks were worth a label.

    from experiments.strategy_benchmark import benchmark, heteroskedastic

    found = benchmark(student, x, y, test=(x_test, y_test), out="bench", kinds=["noisy_blank"])
    print(found.markdown()); found.plot("curves.png")

For every seed, `rows` images are drawn from x and made into a pool of each kind; all strategies of a seed meet the same
pool, the same random start and the same initial weights. Reported are the test accuracy after the last round and the
*clean share*: of the rows a strategy selected, the random start not counted, those that came from the original data. A
cell (kind, strategy, seed) is a JSON file in `out` once it is finished, and a loop that can be continued before that.

The pools are part original, part noise: the benchmark of "Catastrophic Failures of Neural Active Learning on
Heteroskedastic Distributions" (section 2), over any set of images.

    data = heteroskedastic("noisy_diverse", x, y, seed=0)      # x (N, C, H, W) in [0, 1], y (N,)
    data.x, data.y, data.original                                        # original: the mask of untouched rows

| kind | what is added, until it is `noisy_share` of the whole |
| --- | --- |
| clean | nothing |
| noisy_blank | all-black images, each with a label drawn uniformly |
| noisy_diverse | images of 100 solid colours; every colour has 3 labels of its own, each image draws one of them |
| noisy_class | the images of one class with uniform labels, repeated; no row with that class's true label remains |

Labels of the noise are drawn once per row: asking twice gives the same answer. In noisy_class an image draws its label,
then is repeated with it, as the paper has it; with ``own_labels`` every copy draws its own. The original rows are those
of the other classes. Rows are shuffled. Whether a row is noise can be
seen from its features, never from its label, which is what tells this from noise spread evenly over a set.
"""

import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from understudy.acquisition.strategies import STRATEGIES
from understudy.active.loop import Loop
from understudy.active.loop_state import Result
from understudy.comparison.interval import Interval, percent, span
from understudy.data.examples import Gold
from understudy.data.splits import random_rows
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.store.checked_folder import Jobs, read_checked

KINDS = ("clean", "noisy_blank", "noisy_diverse", "noisy_class")


class Heteroskedastic(NamedTuple):
    x: Tensor
    y: Tensor
    original: Tensor
    """(N,) bool: rows of the given set with their own label."""


def heteroskedastic(
    kind: str,
    x: Tensor,
    y: Tensor,
    *,
    noisy_share: float = 0.8,
    seed: int = 0,
    classes: int | None = None,
    colours: int = 100,
    labels_per_colour: int = 3,
    noisy_class: int = 1,
    own_labels: bool = False,
) -> Heteroskedastic:
    """``classes``: how many there are, where y does not show all. ``own_labels``: see above, noisy_class."""
    if kind not in KINDS:
        raise UnderstudyError(f"unknown kind {kind!r}: use one of {', '.join(KINDS)}")
    if x.ndim != 4 or len(x) != len(y):
        shapes = f"x has shape {tuple(x.shape)}, y {tuple(y.shape)}"
        raise UnderstudyError(f"{shapes}: pass images (N, C, H, W), labels (N,)")
    if not 0 <= noisy_share < 1:
        raise UnderstudyError(f"noisy_share = {noisy_share}: use a share from 0 to below 1")
    classes = int(y.max()) + 1 if classes is None else classes
    generator = torch.Generator().manual_seed(seed)
    source, noise_y = (y == noisy_class).nonzero().squeeze(1), None
    if kind == "noisy_class":
        if not 0 < len(source) < len(y):
            raise UnderstudyError(f"noisy_class = {noisy_class}: {len(source)} of {len(y)} rows have this label")
        kept_x, kept_y = x[y != noisy_class], y[y != noisy_class]
    else:
        kept_x, kept_y = x, y
    # noise / (noise + kept) = noisy_share
    count = 0 if kind == "clean" else round(len(kept_y) * noisy_share / (1 - noisy_share))
    if kind == "noisy_class":
        # Every image about equally often: whole copies, then a random part of one more.
        copies = [torch.randperm(len(source), generator=generator) for _ in range(count // len(source) + 1)]
        image = torch.cat(copies)[:count]
        noise_x = x[source[image]]
        if not own_labels:
            noise_y = torch.randint(classes, (len(source),), generator=generator)[image]
    elif kind == "noisy_diverse":
        noise_x, noise_y = _solid_colours(count, x, classes, colours, labels_per_colour, generator)
    else:
        noise_x = x.new_zeros(count, *x.shape[1:])
    if noise_y is None:
        noise_y = torch.randint(classes, (count,), generator=generator)
    shuffled = torch.randperm(len(kept_y) + count, generator=generator)
    every_x, every_y = torch.cat([kept_x, noise_x]), torch.cat([kept_y, noise_y.to(kept_y.dtype)])
    return Heteroskedastic(every_x[shuffled], every_y[shuffled], shuffled < len(kept_y))


def _solid_colours(
    count: int, x: Tensor, classes: int, colours: int, labels_per_colour: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Images of a random colour each (within the images' own range), and one of that colour's labels."""
    if not 1 <= labels_per_colour <= classes:
        raise UnderstudyError(f"labels_per_colour = {labels_per_colour}: use 1 to {classes}, the number of classes")
    low, high = x.amin(), x.amax()
    palette = low + (high - low) * torch.rand(colours, x.shape[1], generator=generator, dtype=torch.float32)
    labels = torch.rand(colours, classes, generator=generator).argsort(1)[:, :labels_per_colour]
    colour = torch.randint(colours, (count,), generator=generator)
    choice = torch.randint(labels_per_colour, (count,), generator=generator)
    images = palette.to(x.dtype)[colour, :, None, None].expand(count, *x.shape[1:])
    return images, labels[colour, choice]


# Okabe and Ito's colours, which stay apart for colour-blind readers, and a marker each for print in black.
_LOOKS = {
    "random": ("#666666", "o"),
    "confidence": ("#D55E00", "v"),
    "margin": ("#E69F00", "^"),
    "entropy": ("#CC79A7", "s"),
    "coreset": ("#56B4E9", "P"),
    "badge": ("#0072B2", "D"),
    "s_badge": ("#009E73", "*"),
    "lhd": ("#000000", "X"),
}


@dataclass(frozen=True)
class Cell:
    kind: str
    strategy: str
    seed: int
    labels: list[int]
    """Labels requested, after each round."""
    accuracy: list[float]
    """On the test rows, after each round."""
    clean: list[float]
    """Share of each batch that is original, from round 1 on."""
    watched: list[float]
    """What the noise watch took for noise in each batch, and in a random one."""
    watched_random: list[float]
    alarms: int
    seconds: float

    @property
    def clean_share(self) -> float:
        sizes = [later - before for before, later in zip(self.labels, self.labels[1:], strict=False)]
        return sum(share * size for share, size in zip(self.clean, sizes, strict=True)) / max(1, sum(sizes))


@dataclass(frozen=True)
class Benchmark:
    cells: list[Cell]

    @classmethod
    def load(cls, out: str | Path) -> "Benchmark":
        """Every cell finished so far in a folder, also while others are still running."""
        files = sorted(Path(out).glob("*.json"))
        stored = [read_checked(path, cure="remove it to run it again") for path in files]
        return cls([Cell(**{name: cell[name] for name in cell if name != "settings"}) for cell in stored])

    def of(self, kind: str, strategy: str) -> list[Cell]:
        """The seeds of one kind and strategy."""
        return [cell for cell in self.cells if (cell.kind, cell.strategy) == (kind, strategy)]

    def accuracy(self, kind: str, strategy: str) -> Interval:
        return Interval.of(cell.accuracy[-1] for cell in self.of(kind, strategy))

    def clean_share(self, kind: str, strategy: str) -> Interval:
        return Interval.of(cell.clean_share for cell in self.of(kind, strategy))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind in KINDS if any(cell.kind == kind for cell in self.cells)]

    @property
    def strategies(self) -> list[str]:
        return [name for name in STRATEGIES if any(cell.strategy == name for cell in self.cells)]

    def markdown(self) -> str:
        """One table per kind, in percent with 95% intervals over seeds."""
        return "\n\n".join(self._table(kind) for kind in self.kinds)

    def _table(self, kind: str) -> str:
        rows = [
            f"**{kind}**\n",
            "| strategy | test accuracy | clean picks | rounds with alarm |",
            "| --- | ---: | ---: | ---: |",
        ]
        for name in self.strategies:
            cells = self.of(kind, name)
            if cells:
                accuracy, clean = self.accuracy(kind, name), self.clean_share(kind, name)
                rounds = sum(len(cell.clean) for cell in cells)
                means = (
                    f"{percent(one.mean)} ({span(one, percent).replace(' to ', '–')})"
                    if one.count > 1
                    else percent(one.mean)
                    for one in (accuracy, clean)
                )
                rows.append(f"| {name} | {' | '.join(means)} | {sum(cell.alarms for cell in cells)}/{rounds} |")
        return "\n".join(rows)

    def plot(self, path: str | Path) -> None:
        """Accuracy and clean share against labels, a column per kind, with 95% bands over seeds (PNG, SVG or PDF)."""
        figure = Figure(figsize=(0.8 + 3.6 * len(self.kinds), 6.6), layout="constrained")
        axes = figure.subplots(2, len(self.kinds), sharex="col", sharey="row", squeeze=False)
        for kind, (above, below) in zip(self.kinds, axes.T, strict=True):
            for name in self.strategies:
                cells = self.of(kind, name)
                if cells:
                    labels = cells[0].labels
                    _band(above, name, labels, [cell.accuracy for cell in cells])
                    # A share belongs to its round's labels; the first batch follows the random start.
                    _band(below, name, labels[1:], [cell.clean for cell in cells])
            above.set_title(kind.replace("_", "-"), loc="left", fontweight="bold", fontsize=11)
            below.set_xlabel("labels requested")
        axes[0, 0].set_ylabel("test accuracy, %")
        axes[1, 0].set_ylabel("clean share of the batch, %")
        axes[1, 0].set_ylim(-4, 104)
        handles = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(8, len(handles)), frameon=False
        )
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def benchmark(
    student: Callable[[], nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    test: tuple[Any, Any] | Gold,
    out: str | Path,
    kinds: Sequence[str] = KINDS,
    strategies: Sequence[str] = tuple(STRATEGIES),
    seeds: Iterable[int] = range(3),
    rows: int | None = None,
    noisy_share: float = 0.8,
    start: int = 300,
    batch: int = 100,
    budget: int = 1500,
    epochs: int = 20,
    batch_size: int = 64,
    lr: float = 1e-3,
    until_accuracy: float | None = None,
    ema_warmup: bool = True,
    own_labels: bool = False,
    on_done: Callable[[Cell], None] = lambda cell: None,
) -> Benchmark:
    """Every kind × strategy × seed that is not in ``out`` yet; returns all of these cells.

    ``until_accuracy=0.99`` ends a round's training as the paper's protocol does (``epochs`` then is the most it takes),
    ``ema_warmup=False`` is its Equation 1.
    """
    held_out = test if isinstance(test, Gold) else Gold(*test)
    size = rows or len(y)
    settings = {
        "rows": size, "noisy_share": noisy_share, "start": start, "batch": batch, "budget": budget,
        "epochs": epochs, "batch_size": batch_size, "lr": lr, "until_accuracy": until_accuracy,
        "ema_warmup": ema_warmup, "own_labels": own_labels,
    }  # fmt: skip
    jobs = Jobs(Path(out), ("kind", "strategy", "seed"), settings)
    cells = []
    seeds = list(seeds)
    for kind in kinds:
        for seed in seeds:
            data: Heteroskedastic | None = None
            for strategy in strategies:
                key = (kind, strategy, seed)
                if not jobs.missing([key]):
                    cells.append(Cell(**jobs.read(key)))
                    continue
                data = data or _deal(kind, x, y, size, noisy_share, seed, own_labels)
                clock, folder = time.perf_counter(), jobs.file(key, "")
                loop = Loop(
                    student, data.x, data.y, strategy, out=folder, start=start, batch=batch, budget=budget,
                    epochs=epochs, batch_size=batch_size, lr=lr, until_accuracy=until_accuracy, ema_warmup=ema_warmup,
                    seed=seed, test=held_out, progress=False,
                )  # fmt: skip
                with warnings.catch_warnings():
                    # Alarms are the point here; they are counted.
                    warnings.filterwarnings("ignore", message="round ", category=UnderstudyWarning)
                    result = loop.run()
                cell = _cell(kind, strategy, seed, result, data.original, time.perf_counter() - clock)
                jobs.write(key, vars(cell))
                shutil.rmtree(folder)
                cells.append(cell)
                on_done(cell)
    return Benchmark(cells)


def _deal(
    kind: str, x: Tensor, y: Tensor, rows: int, noisy_share: float, seed: int, own_labels: bool
) -> Heteroskedastic:
    drawn, classes = random_rows(len(y), rows, seed), int(y.max()) + 1
    return heteroskedastic(
        kind, x[drawn], y[drawn], noisy_share=noisy_share, seed=seed, classes=classes, own_labels=own_labels
    )


def _cell(kind: str, strategy: str, seed: int, result: Result, original: Tensor, seconds: float) -> Cell:
    batches = [original[result.rows[result.rounds == record["round"]]] for record in result.records[1:]]
    watches = [record["watch"] for record in result.records[1:]]
    return Cell(
        kind, strategy, seed,
        labels=[record["requested"] for record in result.records],
        accuracy=[record["test"]["accuracy"] for record in result.records],
        clean=[float(batch.double().mean()) for batch in batches],
        watched=[watch["share"] for watch in watches],
        watched_random=[watch["random_share"] for watch in watches],
        alarms=sum(watch["alarm"] for watch in watches),
        seconds=seconds,
    )  # fmt: skip


def _band(ax: Axes, name: str, at: Sequence[int], per_seed: list[list[float]]) -> None:
    colour, marker = _LOOKS.get(name, ("#666666", "."))
    intervals = [Interval.of(values) for values in zip(*per_seed, strict=True)]
    mean = 100 * np.array([interval.mean for interval in intervals])
    ax.plot(at, mean, color=colour, marker=marker, markersize=4, linewidth=1.4, label=name)
    if len(per_seed) > 1:
        low, high = (100 * np.array([getattr(interval, end) for interval in intervals]) for end in ("low", "high"))
        ax.fill_between(at, low, high, color=colour, alpha=0.12, linewidth=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e4e4e4", linewidth=0.7)
