"""The published numbers as finished jobs, so that a fresh checkout goes on where the pages end.

A part of ``docs/results/reproduce/NAME.json`` holds its setting and every cell, so that its jobs can be put back. Where
a setting has only got other methods or measures since, the cells of those it kept are put into a file beside the job,
``NAME-SEED.known.json``; the runner then measures the rest.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.schedule import Job, Setting
from understudy.store.files import read_json, write_json

ADDED = ("methods", "extras")
"""What each row depends on by its own entry alone."""


def setting_of(sweep: Any) -> dict[str, Any]:
    """A sweep as a record keeps it."""
    found: dict[str, Any] = json.loads(json.dumps({"engine": type(sweep).__name__} | asdict(sweep)))
    return found


def beside(job: Job) -> Path:
    """Where the cells lie that a job need not measure."""
    return job.path.with_suffix(".known.json")


def put_back(settings: Iterable[Setting], folder: Path) -> None:
    for setting in settings:
        for experiment, _ in setting.shown_by:
            if (path := folder / f"{experiment.name}.json").exists():
                for part in read_json(path)["parts"]:
                    _put_back(setting, part)


def _put_back(setting: Setting, part: dict[str, Any]) -> None:
    if "setting" not in part:
        return
    mine, theirs = setting_of(setting.sweep), part["setting"]
    rest = [{name: value for name, value in one.items() if name not in (*ADDED, "seeds")} for one in (mine, theirs)]
    if rest[0] != rest[1]:
        return
    missing = {_label(entry) for name in ADDED for entry in mine.get(name, ()) if entry not in theirs.get(name, ())}
    names = [_label(entry) for name in ADDED for entry in theirs.get(name, ()) if entry not in mine[name]]
    cells: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for cell in part["cells"]:
        if not set(cell["row"].split(": ")) & set(names):
            cells.setdefault((cell["column"], cell["seed"]), []).append(cell)
    seconds = part["seconds"] / max(1, len(cells))
    for job in setting.jobs(range(1 + max((seed for _, seed in cells), default=-1))):
        if not job.path.exists() and (found := cells.get((job.column, job.seed))):
            made = {"seconds": round(seconds, 1), "dates": part["dates"], "commits": part["commits"]}
            write_json(job.path if missing <= job.without else beside(job), {"setting": mine, "cells": found, **made})


def outdated(sweep: Any, kept: dict[str, Any]) -> list[str]:
    """What a record was measured with, where the sweep now has something else: "SLaM: tail keep"."""
    return _differing(setting_of(sweep), kept)


def _differing(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    found = []
    for name, value in now.items():
        before = then.get(name)
        if name in ADDED:
            found += [_told(entry) for entry in before or () if entry not in value]
        elif isinstance(value, dict) and isinstance(before, dict):
            found += _differing(value, before)
        elif before != value and name != "seeds":
            found.append(f"{name.replace('_', ' ')} {_plain(before)}")
    return found


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _told(entry: Any) -> str:
    """A method as it was: its label, its grid and what it was given."""
    if not isinstance(entry, dict):
        return str(entry)
    grid = [str(option) for option in entry["options"] if option is not None]
    rest = [*([", ".join(grid)] if grid else []), *(f"{name} {value}" for name, value in entry.get("fixed", ()))]
    return ": ".join([entry["label"], *rest])


def _label(entry: Any) -> str:
    return str(entry["label"] if isinstance(entry, dict) else entry)
