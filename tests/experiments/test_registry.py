"""Every experiment resolves: its data sets, nets, methods, schedules, claims and figures."""

import re
from pathlib import Path

import pytest
import torch
from experiments.claims import MEASURES
from experiments.engines.noisy import EXTRAS
from experiments.experiment import PAPERS, Experiment, Part, reductions
from experiments.registry import FOLDERS, all_experiments, find
from experiments.sweep import key, net

import understudy as us
from understudy.errors import UnderstudyError

EXPERIMENTS = all_experiments()
SCALES = ("reduced", "full")
# What the papers show, as their folder's files must cover it.
WANTED = {
    "000": {f"Figure {number}" for number in range(1, 17)} | {"Figures 5 and 8, other pairs"},
    "001": {f"Table {number}" for number in range(1, 9)}
    | {f"Figure {number}" for number in range(1, 9)}
    | {"Tables 1, 2, 5, 6 and 8, one family of nets", "Theorem 5.1"},
    "002": {"Table 1, MLP", "Table 1, ResNet", "Figure 1", "Appendix A"},
    "003": {"Figure 1", "Figure 2", "Figure 4", "Figure 5", "Table 1"},
    "004": {f"Figure {number}" for number in range(2, 8)} | {"Table 1", "Table 2"},
}


def test_every_table_and_figure_has_a_file() -> None:
    assert {paper: {e.shows for e in EXPERIMENTS.values() if e.paper == paper} for paper in PAPERS} == WANTED


def test_every_file_of_a_papers_folder_is_registered_or_shared() -> None:
    root = Path(__file__).parents[2] / "experiments"
    files = {path for folder in FOLDERS for path in (root / folder).glob("*.py")}
    shared = {path for path in files if path.stem in ("__init__", "settings")}
    declaring = [path for path in files if re.search("^EXPERIMENTS? = ", path.read_text(encoding="utf-8"), re.M)]
    assert set(declaring) == files - shared
    for name in EXPERIMENTS:
        assert re.fullmatch(r"[a-z0-9_]+", name)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_names_resolve_at_both_scales(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.parts and experiment.paper in PAPERS
    for part in experiment.parts:
        assert type(part.full) is type(part.reduced)
        assert list(reductions(part.full, part.reduced)), "nothing was reduced"
        for scale in SCALES:
            sweep = part.full if scale == "full" else part.reduced
            sweep.check()
            assert sweep.seeds >= 3 and sweep.columns and len(set(sweep.columns)) == len(sweep.columns)
            assert key(sweep) == key(sweep)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nets_can_be_built(name: str) -> None:
    """On the meta device: shapes without memory or random numbers."""
    shapes = {"imagenet": (3, 224, 224), "celeba": (3, 64, 64), "mnist": (1, 28, 28), "fashion_mnist": (1, 28, 28),
              "fashion_mnist_binary": (1, 28, 28), "fashion_mnist_odd": (1, 28, 28),
              "fashion_mnist_32": (1, 32, 32)}  # fmt: skip
    for scale in SCALES:
        for sweep in EXPERIMENTS[name].sweeps(scale):
            base = getattr(sweep, "base", sweep)
            for text in {getattr(base, part, "") for part in ("teacher", "student")} - {""}:
                if not text.startswith("hf:"):
                    with torch.device("meta"):
                        built = net(text, shapes.get(base.data, (3, 32, 32)), 10)()
                    assert sum(weight.numel() for weight in built.parameters()) > 0


def rows_of(part: Part, scale: str) -> set[str] | None:
    """The rows a sweep will measure, where its setting says so."""
    sweep = part.full if scale == "full" else part.reduced
    methods = getattr(sweep, "methods", None)
    if not methods or hasattr(sweep, "base"):
        return None
    names = {getattr(method, "label", method) for method in methods}
    return names | {"Teacher", "Gold only"} | {f"{method}: {what}" for method in names for what in EXTRAS}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_claims_speak_of_what_is_measured(name: str) -> None:
    experiment: Experiment = EXPERIMENTS[name]
    for part in experiment.parts:
        assert part.claims
        for claim in part.claims:
            assert claim.measure in MEASURES and claim.higher
            for named in (*claim.higher, *claim.lower):
                row, _, column = named.partition("@")
                known = rows_of(part, "reduced")
                assert known is None or row in known, named
                assert not column or column in part.reduced.columns, named
        if part.published is not None:
            for row, values in part.published.rows.items():
                assert len(values) == len(part.published.columns), row


def test_claims_that_are_shown_again_are_counted_where_they_point() -> None:
    """There, on the same setting, a claim about the same cells is decided."""
    for experiment in EXPERIMENTS.values():
        for part in experiment.parts:
            for claim in part.claims:
                if claim.same_as:
                    same = [one for one in EXPERIMENTS[claim.same_as].parts if key(one.reduced) == key(part.reduced)]
                    named = [(list(one.higher), list(one.lower)) for two in same for one in two.claims if one.counted]
                    assert (list(claim.higher), list(claim.lower)) in named, f"{experiment.name}: {claim.text}"


def test_the_paper_figures_name_our_rows() -> None:
    """Quoted rows are ours too, or are listed as not reproduced."""
    for experiment in EXPERIMENTS.values():
        for part in experiment.parts:
            known = rows_of(part, "full")
            for row in part.published.rows if part.published and known else ():
                quoted = row.removesuffix(" +FT") in " ".join(experiment.not_reproduced)
                assert row in known or quoted, f"{experiment.name}: {row}"


def test_every_name_of_the_library_that_is_used_exists() -> None:
    for path in (Path(__file__).parents[2] / "experiments").glob("*/*.py"):
        for dotted in set(re.findall(r"\bus((?:\.[A-Za-z_]\w*)+)", path.read_text(encoding="utf-8"))):
            found: object = us
            for part in dotted.strip(".").split("."):
                found = getattr(found, part)
            assert found is not None, f"{path.name} uses us{dotted}"


def test_an_unknown_name_is_an_error_that_names_the_close_ones() -> None:
    with pytest.raises(UnderstudyError, match="there is slam_table1"):
        find("table1")


def test_reductions_name_every_field_that_differs() -> None:
    part = EXPERIMENTS["slam_table1"].parts[0]
    found = {what: (before, after) for what, before, after in reductions(part.full, part.reduced)}
    assert found["data"] == ("cifar10", "fashion_mnist")
    assert found["training.epochs"] == ("200", "8")
    assert found["unlabelled"] == ("no limit", "8,000")
    assert "validation" in found and "pretraining.schedule" in found
    assert found["methods: VID, options"][1] == "0.001, 0.01, 0.1, 1", "only where they differ"
    assert not any(what.startswith("methods: Vanilla") for what in found)
