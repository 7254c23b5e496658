"""Every file of a run, a training under way, a comparison, a label store and a loop, after an accident of each sort."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fuzz.corruption import ACCIDENTS, KINDS, accidents, make
from understudy import cli


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    home = tmp_path_factory.mktemp("made")
    return lambda kind: home / kind if (home / kind).exists() else make(kind, home)


def check(kind: str, whole: Path, scratch: Path, count: int, *, in_turn: bool = False) -> None:
    outcomes = list(accidents(kind, whole, scratch, count, in_turn=in_turn))
    assert not [outcome for outcome in outcomes if outcome.verdict == "silent"]
    # Much is made again: cells, starts, and the checkpoint before a damaged one leads to the same.
    assert Counter(outcome.verdict for outcome in outcomes)["detected"] > len(outcomes) / 8


# These two train again after every accident: each file meets one sort, another than the file before it; all sorts are
# in make torture.
LONG = ("training", "comparison")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in LONG])
def test_one_accident_of_each_sort_to_every_file(kind: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    check(kind, made(kind), tmp_path, len(ACCIDENTS))


@pytest.mark.parametrize("kind", LONG)
def test_one_accident_to_every_file(kind: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    check(kind, made(kind), tmp_path, 1, in_turn=True)


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_more_accidents_to_every_file(kind: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    check(kind, made(kind), tmp_path, 25)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "training"])
def test_verify_finds_what_matters(kind: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    """Every file is named: unchanged before, changed with other bytes at its end."""
    folder = made(kind)
    assert CliRunner().invoke(cli.app, ["verify", str(folder)]).exit_code == 0
    for path in sorted(folder.rglob("[!.]*")):
        content = path.read_bytes() if path.is_file() else b""
        if content:
            path.write_bytes(content[:-2] + b"00")
            result = CliRunner().invoke(cli.app, ["verify", str(folder)])
            path.write_bytes(content)
            assert result.exit_code == 2 and "CHANGED" in result.stdout, path
