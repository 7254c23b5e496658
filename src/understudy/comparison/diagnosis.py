"""Why a student is at chance, read off its training: too few steps, the learning rate, or the features.

A loss that is not a number or ends above where it began speaks of a rate that is too high. One that still falls at the
end speaks of too few steps, one that has hardly moved of too few or too small ones. Where the loss has come down and
stays, the student has learned what it was given: then the features or the labels do not carry over to the test rows.

    diagnosis(list(comparison.outcomes["vanilla"].values()))
"""

import math
from collections.abc import Sequence

from understudy.comparison.outcome import Outcome

MOVED = 0.1
"""A loss that lost less than this share has hardly moved."""
FALLING = 0.02
"""So much per epoch, of what is left of the loss, at the end: more steps would bring it further down."""


def diagnosis(outcomes: Sequence[Outcome]) -> str:
    """In a few words, with the cure."""
    histories = [[record["loss"] for record in one.history if "loss" in record] for one in outcomes if one.history]
    histories = [losses for losses in histories if losses]
    if not histories:
        return "its training is not recorded"
    epochs = min(map(len, histories))
    losses = [math.fsum(one[epoch] for one in histories) / len(histories) for epoch in range(epochs)]
    first, last, least = losses[0], losses[-1], min(losses)
    if not math.isfinite(last) or last > 1.2 * max(least, 1e-3):
        return "its loss rises: the learning rate is too high, try a tenth of it"
    if epochs == 1:
        return "one epoch shows no progress: too few steps, train for more epochs"
    if last < (1 - FALLING) * losses[-2]:
        return f"its loss still falls after {epochs} epochs: too few steps, train for more epochs"
    if last > (1 - MOVED) * first:
        return "its loss hardly moves: too few steps or too low a learning rate, try three times of each; else features"
    return "it has learned its labels and it does not carry over: other features, or better labels"
