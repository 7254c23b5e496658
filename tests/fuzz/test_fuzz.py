"""Thousands of malformed files and arrays: each ends in one line of error, with nothing written, or in a right result.

Every case has a random generator of its own, seeded by its family and number, so that all runs try the same inputs and
one can be tried alone (see ``harness.py``). Raising a family's number of cases here finds further ones.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from fuzz import absurd, arrays, commands, files, images, runs, texts, types
from fuzz.harness import Family, run_family
from understudy.errors import UnderstudyError

# So many cases are one test: the first ones of a family are in the suite, the others in ``make torture``.
CHUNK = 100


@dataclass(frozen=True)
class Plan:
    family: Family
    cases: int
    endings: tuple[str, ...] = ("accepted", "refused")
    """What must occur among the cases, or else the family tries nothing."""
    rarely: tuple[str, ...] = ()
    """What a hundred of the cases may or may not have."""


PLANS: dict[str, Plan] = {
    **{name: Plan(family, 200) for name, family in files.BYTES.items()},
    **{name: Plan(family, 200) for name, family in files.CONTENT.items()},
    "npy bytes": Plan(files.broken_array, 100),
    "wrong suffix": Plan(files.wrong_suffix, 100),
    "folders": Plan(files.folders, 100),
    "csv text": Plan(texts.csv_text, 200),
    "jsonl text": Plan(texts.json_text, 100),
    "absurd arrays": Plan(absurd.absurd_array, 100),
    "bombs": Plan(absurd.bomb, 50),
    "false counts": Plan(absurd.false_counts, 100),
    "pickles": Plan(absurd.pickled, 50, ("refused",)),
    "requests": Plan(absurd.text_request, 100),
    "image folders": Plan(images.image_folder, 100),
    "image columns": Plan(images.image_column, 100),
    "gold arrays": Plan(arrays.gold_arrays, 200),
    "pool arrays": Plan(arrays.pool_arrays, 200),
    "training arrays": Plan(arrays.training_arrays, 100),
    "absurd types": Plan(types.absurd_argument, 1_500),
    "damaged runs": Plan(runs.damaged_run, 200, ("refused",), rarely=("accepted",)),
    "command train": Plan(commands.train, 60),
    "command predict": Plan(commands.predict, 120),
    "command select": Plan(commands.select, 80),
    "command answers": Plan(commands.answers, 40),
}
CHUNKS = [
    (name, range(start, min(start + CHUNK, plan.cases)))
    for name, plan in PLANS.items()
    for start in range(0, plan.cases, CHUNK)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        pytest.param(name, numbers, id=f"{name} {numbers.start}", marks=[pytest.mark.torture] if numbers.start else [])
        for name, numbers in CHUNKS
    ],
)
def test_bad_input_is_refused_in_one_line_or_read_right(
    name: str, numbers: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    tally = run_family(name, PLANS[name].family, numbers, tmp_path / "cases")
    assert tally.total() == len(numbers)
    plan = PLANS[name]
    assert {*plan.endings} <= {*tally} <= {*plan.endings, *plan.rarely}, f"{dict(tally)}: the family tries too little"


def test_there_are_thousands_of_cases() -> None:
    assert sum(len(numbers) for _, numbers in CHUNKS) == sum(plan.cases for plan in PLANS.values()) >= 2_000
    through_commands = sum(plan.cases for name, plan in PLANS.items() if name.startswith("command "))
    assert through_commands >= 300


def test_the_harness_sees_bugs(tmp_path: Path) -> None:
    """Another exception, two lines, something left behind, too much memory: all are told."""

    def bugs(draw: object, given: Path, made: Path) -> None:
        number = int(given.parent.name.rsplit("-", 1)[1])
        if number == 0:
            raise KeyError("oops")
        if number == 1:
            error = UnderstudyError("one")
            error.args = ("one\ntwo",)
            raise error
        if number == 2:
            (made / ".left").touch()
            raise UnderstudyError("refused")
        if number == 3:
            bytes(bytearray(300 << 20))
        if number == 4:
            warnings.warn("another library's", RuntimeWarning, stacklevel=1)

    with pytest.raises(AssertionError) as caught:
        run_family("bugs", bugs, range(6), tmp_path)
    said = str(caught.value).splitlines()
    assert said[0] == "5 bugs" and len(said) == 6
    for line, part in zip(said[1:], ["KeyError", "not one line", ".left", "took", "RuntimeWarning"], strict=True):
        assert part in line
