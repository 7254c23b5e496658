"""How long a net trains: as many steps as gold rows that did not train say.

    run = us.train(student, gold, pool, us.slam())       # epochs="auto"
    run.config["length"]                                 # {"epochs": 30, "losses": {"10": 0.61, "30": 0.52}}

Wrong labels are learned by heart in the end, right ones never learned in too few steps, and which of the two a table
has cannot be told from its size. So a third of gold is left out (or the ``select`` rows are asked), and the student is
trained on the rest and the pool's labels as they are, each time in full, its rate falling to nothing: for the epochs
that make ``STEPS`` steps (``training/defaults.py``), then for ``LONGER`` times as many, as long as that is better; or
for so many times fewer, where longer was not better. Better is a log-loss of the rows left out that is less by more
than its standard error, each at the temperature that suits it best: overconfidence is no reason to stop. Of few gold
rows the error is large and nothing moves; on pools of more than ``MOST_ROWS`` it would take too long. On 14 draws of
digits, Fashion-MNIST, MNIST (0 and 40% wrong) and Adult (0 and 30% wrong) with 150 to 300 gold rows it moved once, to
three times as long (92.5 to 93.9%), and cost three to twelve times the training itself.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold
from understudy.data.splits import fold_rows
from understudy.inference.passes import predict

LONGER, STEPS_UP = 3, 2
"""How many times as long the next trial is, and how often it may grow."""
LEAST_ROWS, MOST_ROWS = 30, 20_000
"""Of gold, to choose by, and of gold and pool, to be trained several times."""
FEWEST_EPOCHS = 3
PARTS = 3
"""One of so many parts of gold is left out."""

Fit = Callable[[Gold | None, int], nn.Module]
"""``(gold to train on, epochs) -> student``."""


def leave_out(gold: Gold, seed: int) -> tuple[Gold, Gold] | None:
    """What trains, and what is asked; None where there are too few rows. Rows that active learning chose are no sample
    of anything: they train."""
    training = gold.training_rows()
    random = training[~gold.chosen[training]]
    if len(random) < LEAST_ROWS:
        return None
    _, fold = next(iter(fold_rows(gold.y[random], PARTS, seed)))
    kept = torch.ones(len(gold), dtype=torch.bool)
    kept[random[fold]] = False
    return gold.take(kept.nonzero().squeeze(1)), gold.take(random[fold])


def choose_epochs(fit: Fit, trains: Gold | None, asked: Gold, start: int) -> tuple[int, dict[str, float]]:
    """The epochs, and per number that was tried the mean log-loss of the rows that were asked."""
    tried: dict[int, Tensor] = {}

    def beats(epochs: int, other: int) -> bool:
        for each in (epochs, other):
            if each not in tried:
                tried[each] = losses_of(predict(fit(trains, each), asked.rows), asked.y)
        return is_less(tried[epochs], tried[other])

    best = start
    for _ in range(STEPS_UP):
        if not beats(best * LONGER, best):
            break
        best *= LONGER
    fewer = max(start // LONGER, FEWEST_EPOCHS)
    if best == start and fewer < start and beats(fewer, start):
        best = fewer
    return best, {str(epochs): float(tried[epochs].mean()) for epochs in sorted(tried)}


def is_less(mine: Tensor, theirs: Tensor) -> bool:
    """Whether the mean is less, by more than the standard error of the difference, row by row."""
    gain = theirs - mine
    return len(gain) > 1 and float(gain.mean()) > float(gain.std()) / len(gain) ** 0.5


def losses_of(probs: Tensor, y: Tensor) -> Tensor:
    """Each row's log-loss at the one temperature, from e⁻² to e², that makes their mean the least."""
    logits = probs.double().clamp(min=torch.finfo(torch.float32).tiny).log()
    temperatures = torch.linspace(-2, 2, 41, dtype=torch.float64).exp()
    every = [nn.functional.cross_entropy(logits / t, y, reduction="none") for t in temperatures]
    return min(every, key=lambda losses: float(losses.mean()))
