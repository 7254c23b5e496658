"""How many years without a change hold an alarm of ``us.TeacherWatch``, and how soon a loss is found.

    python -m experiments.watch_years                     about ten minutes of one core
    python -m experiments.watch_years --years 100

A year has 52 looks at 50 anchors, drawn from 500 that were all asked at the beginning; three classes; the teacher is
right on 90% of the anchors. *Steady*: it answers 1% of them by chance; *varying*: 15%. At look 14 it loses some
points: one and a half times as many right answers turn wrong as the loss says, and half as many the other way. Beside
it, on the accuracy alone: a binomial test every week against the accuracy at the beginning at 5%; and an e-process
(Bernoulli likelihood ratios for losses of 2, 5, 10 and 20 points, averaged over them and over the 52 weeks at which
they may begin; alarm at 20), which takes the accuracy at the beginning for exact and does not pair answers.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.special import bdtr, logsumexp

from understudy.auditing.teacher_watch import TeacherWatch

ANCHORS, ASKED, WEEKS, CHANGE = 500, 50, 52, 14
RIGHT, VARYING = 0.9, {"steady": 0.01, "varying": 0.15}
LOSSES, E_LOSSES = (0.0, 0.02, 0.05, 0.1), np.array([0.02, 0.05, 0.1, 0.2])


def answers(loss: float, varying: float, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of the reference and every week: which anchors were asked, and which of them were answered right."""
    right = rng.random(ANCHORS) < RIGHT
    unsure = rng.random(ANCHORS) < varying
    turned = np.where(right, 1.5 * loss / RIGHT, 0.5 * loss / (1 - RIGHT)) > rng.random(ANCHORS)
    for week in range(WEEKS + 1):
        asked = np.arange(ANCHORS) if week == 0 else rng.choice(ANCHORS, ASKED, replace=False)
        now = right ^ (turned & (week >= CHANGE))
        # Where it is unsure it is right as often as it is elsewhere.
        share = RIGHT - loss * (week >= CHANGE)
        yield asked, np.where(unsure, rng.random(ANCHORS) < share, now)[asked]


def year(loss: float, varying: float, rng: np.random.Generator) -> dict[str, int | None]:
    """The first week with an alarm, by method; None: there is none."""
    truth = rng.integers(0, 3, ANCHORS)
    watch = TeacherWatch(dict(enumerate(truth.tolist())))
    first: dict[str, int | None] = dict.fromkeys(("watch", "weekly test", "e-process"))
    reference, log_e = RIGHT, np.empty((0, len(E_LOSSES)))
    for week, (asked, right) in enumerate(answers(loss, varying, rng)):
        said = np.where(right, truth[asked], (truth[asked] + 1) % 3)
        alarm = {"watch": first["watch"] is None and watch.add(zip(asked, said, strict=True)).alarm}
        if week == 0:
            reference = float(right.mean())
            continue
        hits, less = int(right.sum()), np.clip(reference - E_LOSSES, 0.01, None)
        gain = hits * np.log(less / reference) + (ASKED - hits) * np.log((1 - less) / (1 - reference))
        log_e = np.vstack([log_e, np.zeros(len(E_LOSSES))]) + gain
        alarm["e-process"] = logsumexp(log_e) - np.log(WEEKS * len(E_LOSSES)) >= np.log(20)
        alarm["weekly test"] = bdtr(hits, ASKED, reference) <= 0.05
        for name, now in alarm.items():
            first[name] = week if now and first[name] is None else first[name]
        if None not in first.values():
            break
    return first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, default=1000, help="without a change; with one, a fifth")
    parser.add_argument("--losses", type=float, nargs="*", default=LOSSES)
    given = parser.parse_args()
    print("| teacher | loss | years | watch | e-process | weekly test |\n| --- | --- | --- | --- | --- | --- |")
    for kind, varying in VARYING.items():
        for loss in given.losses:
            years = given.years if loss == 0 else max(given.years // 5, 1)
            seeds = np.random.SeedSequence([int(1000 * loss), int(1000 * varying)]).spawn(years)
            found = [year(loss, varying, np.random.default_rng(seed)) for seed in seeds]
            cells = [_cell([one[name] for one in found], loss) for name in ("watch", "e-process", "weekly test")]
            print(f"| {kind} | {100 * loss:.0f} | {years} | " + " | ".join(cells) + " |", flush=True)


def _cell(weeks: list[int | None], loss: float) -> str:
    """The share of years with an alarm; where there is a change, with a right one, and the anchors until then."""
    if loss == 0:
        return f"{100 * np.mean([week is not None for week in weeks]):.1f}%"
    early = np.mean([week is not None and week < CHANGE for week in weeks])
    right = [week for week in weeks if week is not None and week >= CHANGE]
    until = f", {ASKED * (np.median(right) - CHANGE + 1):.0f}" if right else ""
    return f"{100 * len(right) / len(weeks):.0f}%{until} ({100 * early:.0f}% false)"


if __name__ == "__main__":
    main()
