"""Which jobs a reproduction needs, and which come next: some seeds of everything, then more where they pay most.

A job is one (column, seed) of a setting; several tables and figures may ask for the same setting, whose jobs run once.
Open claims ask for the next look of ``experiments.sequential``. Of all settings with such claims, the one comes first
whose seeds are likely to decide the most of them for each minute, as measured so far; it ends when nothing is open, at
an experiment's ``most_seeds`` and ``most_minutes``, and at the minutes of the whole run.

    schedule = Schedule(settings_of(experiments, "reduced", work), minutes=300)
    for job in schedule.jobs():                 # made on demand
        schedule.returned(job, seconds)
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.claims import OPEN, Verdict, decide, differences
from experiments.experiment import Experiment, Part
from experiments.sequential import LOOKS, chance
from experiments.sweep import Cell, Sweep, key
from understudy.store.files import read_json


@dataclass(frozen=True)
class Job:
    sweep: Sweep
    column: str
    seed: int
    path: Path
    without: frozenset[str] = frozenset()
    """Rows that this seed leaves out."""


@dataclass(frozen=True)
class Setting:
    """A sweep, where its jobs are kept, and the tables and figures that show it."""

    sweep: Sweep
    folder: Path
    shown_by: Sequence[tuple[Experiment, Part]]

    def jobs(self, seeds: range) -> list[Job]:
        """Seed by seed: a stopped run leaves whole seeds. Added seeds leave out methods that no claim speaks of."""
        named = {row.split(": ")[0] for _, part in self.shown_by for row in part.named}
        methods = {getattr(method, "label", method) for method in getattr(self.sweep, "methods", ())}
        left = [frozenset(), frozenset(methods - named)]
        names = {column: re.sub(r"[^\w.]+", "_", column) for column in self.sweep.columns}
        return [
            Job(self.sweep, column, seed, self.folder / f"{name}-{seed}.json", left[seed >= self.sweep.seeds])
            for seed in seeds
            for column, name in names.items()
        ]

    def measured(self) -> int:
        """The seeds that every column has."""
        seed = 0
        while all(job.path.exists() for job in self.jobs(range(seed, seed + 1))):
            seed += 1
        return seed

    def stored(self, seeds: int) -> list[dict[str, Any]]:
        return [read_json(job.path) for job in self.jobs(range(seeds))]

    def verdicts(self, cells: Sequence[Cell]) -> list[list[Verdict]]:
        return [decide(part.judged(), cells) for _, part in self.shown_by]


def cells_of(stored: Sequence[dict[str, Any]]) -> list[Cell]:
    found = [cell for job in stored for cell in job["cells"]]
    return [Cell(**cell | {"curve": tuple(cell["curve"])}) for cell in found]


def settings_of(experiments: Sequence[Experiment], scale: str, work: Path) -> dict[Path, Setting]:
    """Every setting once, by its folder, in the order of the experiments."""
    wanted: dict[Path, tuple[Sweep, list[tuple[Experiment, Part]]]] = {}
    for experiment in experiments:
        for part, sweep in zip(experiment.parts, experiment.sweeps(scale), strict=True):
            wanted.setdefault(work / key(sweep), (sweep, []))[1].append((experiment, part))
    return {folder: Setting(sweep, folder, parts) for folder, (sweep, parts) in wanted.items()}


@dataclass(frozen=True)
class Next:
    """More seeds for a setting: what they are likely to decide for each second, and what they cost."""

    setting: Setting
    seeds: range
    worth: float
    seconds: float


class Schedule:
    def __init__(self, settings: dict[Path, Setting], *, seeds: int | None = None, minutes: float = 0.0) -> None:
        self.settings, self.seeds, self.budget = settings, seeds, 60 * minutes
        self.failed: dict[Path, str] = {}
        self.under_way: dict[Path, float] = {}
        """Job -> the seconds it is expected to take."""
        self._known: dict[tuple[Path, int], Next | None] = {}
        self.used = sum(job["seconds"] for one in settings.values() for job in one.stored(one.measured()))
        self._returned: list[float] = []

    def start_of(self, setting: Setting) -> int:
        return self.seeds or setting.sweep.seeds

    def waiting(self) -> list[Job]:
        """What everything starts with, as far as it is not there."""
        jobs = [job for one in self.settings.values() for job in one.jobs(range(self.start_of(one)))]
        return [job for job in jobs if not (job.path.exists() or job.path in self.failed or job.path in self.under_way)]

    def jobs(self) -> Iterator[Job]:
        for job in self.waiting():
            self.under_way[job.path] = 0.0
            yield job
        while self.seeds is None and (following := self._most_worth()) is not None:
            missing = [job for job in following.setting.jobs(following.seeds) if not job.path.exists()]
            for job in missing:
                self.under_way[job.path] = following.seconds / len(missing)
            yield from missing

    def returned(self, job: Job, seconds: float, problem: str = "") -> None:
        self.under_way.pop(job.path, None)
        self.used += seconds
        self._returned.append(seconds)
        if problem:
            self.failed[job.path] = problem

    def is_quiet(self, setting: Setting) -> bool:
        return not any(path.parent == setting.folder for path in self.under_way)

    def seconds_left(self) -> float:
        """Of CPU time, at most; before anything is measured, the budget."""
        mean = sum(self._returned) / max(1, len(self._returned))
        return max(self.budget - self.used, mean * (len(self.waiting()) + len(self.under_way)), 0.0)

    def _most_worth(self) -> Next | None:
        broken = {path.parent for path in self.failed}
        quiet = [one for one in self.settings.values() if one.folder not in broken and self.is_quiet(one)]
        left = self.budget - self.used - sum(self.under_way.values())
        found = [following for one in quiet if (following := self._next(one)) and following.seconds <= left]
        return max(found, key=lambda one: one.worth, default=None)

    def _next(self, setting: Setting) -> Next | None:
        measured = setting.measured()
        known = (setting.folder, measured)
        if known not in self._known:
            self._known[known] = more_seeds(setting, measured) if measured >= LOOKS[0] else None
        return self._known[known]


def more_seeds(setting: Setting, measured: int) -> Next | None:
    """The next look, worth what the best of all later ones promises; None: nothing is open, or no more is allowed."""
    stored = setting.stored(measured)
    cells, each = cells_of(stored), sum(job["seconds"] for job in stored) / measured
    most_seeds = max(experiment.most_seeds for experiment, _ in setting.shown_by)
    most_minutes = max(experiment.most_minutes for experiment, _ in setting.shown_by)
    looks = [at for at in LOOKS if measured < at <= most_seeds and at * each <= 60 * most_minutes]
    families = [[one.claim for one in family if one.answer == OPEN] for family in setting.verdicts(cells)]
    if not looks or not any(families):
        return None
    wanted = [(claim, differences(claim, cells), len(family)) for family in families for claim in family]
    worth = [
        sum(chance(values, at, limit=claim.beyond, delta=claim.within, among=among) for claim, values, among in wanted)
        / max(each * (at - measured), 1e-3)
        for at in looks
    ]
    return Next(setting, range(measured, looks[0]), max(worth), each * (looks[0] - measured))
