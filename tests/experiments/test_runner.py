"""Running, stopping and going on; the page and the numbers; the command."""

import json
from collections.abc import Container
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from experiments.claims import Claim, Needs, needing
from experiments.experiment import Experiment, Part, Published, stand_in
from experiments.page import gold_alone, ours, page, record
from experiments.published import outdated, setting_of
from experiments.reproduce import write
from experiments.sweep import Cell
from matplotlib.figure import Figure
from typer.testing import CliRunner

from experiments import plot, registry, results, runner, table
from understudy.cli import app
from understudy.cli import reproduce as command
from understudy.errors import UnderstudyError
from understudy.parallel.executors import InProcess, WorkerProcesses


@dataclass(frozen=True)
class Made:
    """A sweep of arithmetic, so that nothing is trained."""

    data: str = "made"
    columns: tuple[str, ...] = ("100", "1,000")
    bad: str = ""
    seeds: int = 3

    def measure(self, column: str, seed: int) -> list[Cell]:
        if column == self.bad:
            raise UnderstudyError("svhn is not here; get it")
        value = 0.5 + 0.01 * seed + 0.1 * (column == "1,000")
        return [
            Cell("Vanilla", column, seed, value, (0.1, value)),
            Cell("SLaM", column, seed, value + 0.02, (0.3, value)),
        ]

    def check(self) -> None:
        pass


def made(name: str = "made_table1", **options: Any) -> Experiment:
    claims = [
        Claim("SLaM is above Vanilla", ["SLaM"], ["Vanilla"]),
        Claim("SLaM starts higher", ["SLaM"], ["Vanilla"], measure="early"),
    ]
    published = Published(
        "Table 1", ["5,000", "10,000"], {"Vanilla": ["63.53 ± 0.29", "73.23"], "D2L": ["66.82", "75.01"]}
    )
    part = Part("Made up", Made(columns=("5,000", "10,000"), data="cifar10"), Made(**options), claims, published)
    return Experiment(name, "001", "Table 1", "made up", [part], 1.0, not_reproduced=["D2L, which is quoted"])


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> list[runner.Job]:
    """Jobs run in this process, and are counted."""
    ran: list[runner.Job] = []

    class Counted(InProcess):
        def map(self, function: Any, cells: Any) -> Any:
            cells = list(cells)
            for number, result in super().map(function, cells):
                ran.append(cells[number])
                yield number, result

    monkeypatch.setattr(runner, "WorkerProcesses", lambda workers: Counted())
    return ran


def test_finished_jobs_are_never_run_again_and_shared_sweeps_run_once(inline: list[Any], tmp_path: Path) -> None:
    finished: list[str] = []
    both = [made(), made("made_fig02")]
    options: dict[str, Any] = {"work": tmp_path, "say": lambda line: None}
    assert runner.run(both, on_finished=lambda done: finished.append(done.experiment.name), **options) == {}
    assert len(inline) == 6 and finished == ["made_table1", "made_fig02"]
    lost = next(tmp_path.rglob("100-1.json"))
    lost.unlink()
    runner.run(both, **options)
    assert len(inline) == 7 and inline[-1].path == lost
    runner.run(both, seeds=4, **options)
    assert len(inline) == 9, "more seeds use the cells that are there"


def test_jobs_run_in_processes_and_are_filed_here(tmp_path: Path) -> None:
    finished: list[Any] = []
    apart = WorkerProcesses(2)
    assert runner.run([made()], executor=apart, work=tmp_path, say=str, on_finished=finished.append) == {}
    assert len(finished[0].cells[0]) == 12 and finished[0].seeds == [3]


@dataclass(frozen=True)
class Growing(Made):
    """Its methods are measured one by one."""

    methods: tuple[str, ...] = ("Vanilla", "SLaM")

    def measure(self, column: str, seed: int, known: Container[str] = ()) -> list[Cell]:
        cells = [Cell(name, column, seed, len(name) + seed / 10) for name in self.methods if name not in known]
        return [*([] if "Teacher" in known else [Cell("Teacher", column, seed, 0.5)]), *cells]


def growing(*methods: str, **options: Any) -> Experiment:
    sweep = Growing(methods=methods, **options)
    claims = [Claim("the first is above its teacher", [methods[0]], ["Teacher"])]
    return replace(made(), parts=[Part("Made up", Growing(data="cifar10"), sweep, claims)])


def test_published_jobs_are_put_back_and_only_what_is_missing_runs(inline: list[Any], tmp_path: Path) -> None:
    folder, found = tmp_path / "out", []
    options: dict[str, Any] = {"say": str, "on_finished": found.append, "published": folder}
    runner.run([growing("Vanilla", "SLaM")], work=tmp_path / "a", **options)
    write(found[-1], folder)
    runner.run([growing("Vanilla", "SLaM")], work=tmp_path / "b", **options)
    assert (
        len(inline) == 6
        and found[1].cells == found[0].cells
        and found[1].made[0]["commits"] == found[0].made[0]["commits"]
    )
    assert found[1].seconds == pytest.approx(found[0].seconds, abs=0.5), "split evenly"

    content = json.loads((folder / "made_table1.json").read_text())
    content["parts"][0] |= {"commits": ["earlier"], "seconds": 6.0}
    for cell in content["parts"][0]["cells"]:
        cell["value"] = 9.0
    (folder / "made_table1.json").write_text(json.dumps(content))
    runner.run([growing("VID", "Vanilla")], work=tmp_path / "c", **options)
    assert len(inline) == 12 and {"earlier", runner.commit()} == set(found[2].all_of("commits"))
    assert found[2].seconds == pytest.approx(6.0, abs=0.1), "what is put back keeps its cost"
    first = [(cell.row, cell.value) for cell in found[2].cells[0] if (cell.column, cell.seed) == ("100", 0)]
    assert first == [("Teacher", 9.0), ("VID", 3.0), ("Vanilla", 9.0)], "in the setting's order; SLaM is gone"
    assert not list((tmp_path / "c").rglob("*.known.json"))
    runner.run([growing("Vanilla", "SLaM", data="other")], work=tmp_path / "d", **options)
    assert len(inline) == 18, "another setting is measured anew"
    runner.run([growing("Vanilla", "SLaM", data="other")], work=tmp_path / "d", **options | {"seeds": 4})
    added = {cell.row for cell in found[-1].cells[0] if cell.seed == 3}
    assert added == {"Teacher", "Vanilla"}, "no claim speaks of SLaM"


def test_a_failure_is_reported_and_the_others_continue(inline: list[Any], tmp_path: Path) -> None:
    finished: list[str] = []
    failed = runner.run(
        [made("broken", bad="100"), made()], work=tmp_path, say=lambda line: None,
        on_finished=lambda done: finished.append(done.experiment.name),
    )  # fmt: skip
    assert failed == {"broken": "svhn is not here; get it"} and finished == ["made_table1"]


def test_the_page_keeps_ours_and_the_papers_apart(inline: list[Any], tmp_path: Path) -> None:
    pages: list[Any] = []
    runner.run([made()], work=tmp_path, say=lambda line: None, on_finished=pages.append)
    text = page(pages[0])
    ours, paper = text.split("**The paper's cells** (Table 1, its own setting)")
    assert "63.53" in paper and "63.53" not in ours and "D2L" not in ours
    assert "| SLaM | 53.00 ± 2.48 | 63.00 ± 2.48 |" in ours
    assert "| SLaM is above Vanilla |  | +2.00 | +2.00 to +2.00 | 3 | yes |" in ours
    assert "| SLaM starts higher (averaged over the first third of the epochs) |  | +20.00 |" in ours
    assert "| columns | 5,000, 10,000 | 100, 1,000 |" in paper and "| data | cifar10 | made |" in paper
    assert "Not reproduced: D2L, which is quoted." in paper
    assert "3 seeds" in paper and "commit" in paper and "one thread" in paper
    stored = json.loads((write(pages[0], tmp_path / "out").with_suffix(".json")).read_text())
    assert stored == json.loads(json.dumps(record(pages[0])))
    assert stored["parts"][0]["claims"][0][-1] == "yes"


def test_a_figure_is_drawn_and_a_table_is_not(inline: list[Any], tmp_path: Path) -> None:
    finished: list[Any] = []
    experiments = [made(), replace(made("made_fig01"), shows="Figure 1")]
    runner.run(experiments, work=tmp_path / "work", say=lambda line: None, on_finished=finished.append)
    for one in finished:
        text = write(one, tmp_path / "out").read_text(encoding="utf-8")
        drawn = one.experiment.name == "made_fig01"
        assert ("![Figure 1 at reduced scale](made_fig01.png)" in text) == drawn
        assert (tmp_path / "out" / f"{one.experiment.name}.png").exists() == drawn
    assert (tmp_path / "out" / "made_fig01.png").read_bytes().startswith(b"\x89PNG")


def test_a_panel_holds_the_means_of_its_cells() -> None:
    cells = [cell for seed in range(3) for column in ("100", "1,000") for cell in Made().measure(column, seed)]
    cells.append(Cell("Teacher", "100", 0, 0.4, ()))
    along, beside = Figure().subplots(1, 2)
    looks = plot._looks(cells)
    plot._trajectories(along, [cell for cell in cells if cell.column == "100"], looks)
    lines = {line.get_label(): line for line in along.get_lines()}
    assert list(lines["SLaM"].get_xdata()) == [1, 2] and list(lines["SLaM"].get_ydata()) == pytest.approx([30.0, 51.0])
    assert list(lines["Teacher"].get_ydata()) == pytest.approx([40.0, 40.0])
    plot._by_column(beside, cells, looks)
    marks = {bar.get_label(): bar.lines[0] for bar in beside.containers}
    assert list(marks["SLaM"].get_ydata()) == pytest.approx([53.0, 63.0])
    assert len(marks["Teacher"].get_ydata()) == 1


def test_the_pages_list_every_claim(inline: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"made_table1": made(), "made_fig02": made("made_fig02")}
    monkeypatch.setattr(results, "DOCS", tmp_path)
    monkeypatch.setattr(results, "all_experiments", lambda: known)
    folder = tmp_path / "results" / "reproduce"
    runner.run(
        [made()], work=tmp_path / "w", say=lambda line: None, on_finished=lambda done: write(done, folder) and None
    )
    results.main()
    text = (tmp_path / "results" / "claims.md").read_text(encoding="utf-8")
    assert "Distillation with Unlabeled Examples](reproduce/slam.md) | 2 | 2 | 0 | 0 | 0 | 0 | 0% | 0 |" in text
    assert "| all | 2 | 2 |" in text
    assert "Not run yet: made_fig02." in text and "D2L, which is quoted" in text
    paper = (folder / "slam.md").read_text(encoding="utf-8")
    assert "`understudy reproduce made_table1` (3 seeds;" in paper and "made_fig02" not in paper
    assert "| SLaM is above Vanilla |  | +2.00 (+2.00…+2.00) | yes |" in paper
    assert "| SLaM | 53.00±2.48 | 63.00±2.48 |" in paper


def test_a_changed_claim_is_decided_again_from_the_kept_cells(inline: list[Any], tmp_path: Path) -> None:
    found: list[Any] = []
    runner.run([made()], work=tmp_path, say=str, on_finished=found.append)
    kept = json.loads(json.dumps(record(found[0])))
    (part,) = made().parts
    claims = needing(part.claims, Needs("it is perfect", "SLaM", at_least=1.0))
    again = results.decided(replace(made(), parts=[replace(part, claims=claims)]), kept)
    assert kept["parts"][0]["answers"] == ["yes", "yes"] and again["parts"][0]["answers"] == ["void", "void"]
    assert again["parts"][0]["cells"] == kept["parts"][0]["cells"] and again["commits"] == kept["commits"]


def test_the_stand_in_is_named_in_every_table() -> None:
    names = {name: stand_in(one.parts[0]) for name, one in registry.all_experiments().items()}
    assert names["slam_table4"] == names["slam_fig03"] == "ImageNet → CIFAR-10 at 16 × 16"
    assert names["air_fig05"] == "CIFAR-10, two classes → Fashion-MNIST, odd classes or even"
    assert names["reweight_fig02"] == "MNIST"


def test_published_pages_are_written_from_the_kept_numbers() -> None:
    folder = results.DOCS / "results" / "reproduce"
    records = {name: json.loads((folder / f"{name}.json").read_text("utf-8")) for name in registry.all_experiments()}
    for paper, name in results.PAGES.items():
        assert (folder / f"{name}.md").read_text(encoding="utf-8") == results.paper_page(paper, records)
    assert (results.DOCS / "results" / "claims.md").read_text(encoding="utf-8") == results.claims_page(records)
    for path in (results.DOCS / "results.md", results.DOCS.parent / "README.md"):
        assert results.summary(records) in path.read_text(encoding="utf-8"), "make the counts anew: experiments.results"


def test_the_counts_of_pages_and_records_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["yes", "no", "void", "void", "open", "", "yes"]
    records = {"a": {"parts": [{"answers": answers[:3]}, {"answers": answers[3:]}]}}
    assert results.summary(records) == (
        "2 yes, 1 no, 0 no larger difference, 2 void, 1 open, of 6 claims at a reduced scale"
    )
    assert results.SUMMARY.sub("X", f"before {results.summary(records)} | after") == "before X | after"


def test_cells_that_two_experiments_share_are_shown_once(
    inline: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"made_fig01": replace(made("made_fig01"), shows="Figure 1"), "made_table1": made()}
    monkeypatch.setattr(results, "all_experiments", lambda: known)
    found: dict[str, Any] = {}
    runner.run(
        list(known.values()), work=tmp_path, say=str, on_finished=lambda one: found.update({one.experiment.name: one})
    )
    records = {name: json.loads(json.dumps(record(found[name]))) for name in known}
    page = results.paper_page("001", records)
    assert page.count("53.00±2.48") == 1 and page.count("Cells: those of `made_table1`.") == 1


def test_an_experiment_replaces_its_section_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nlead\n\n<!-- one -->\n\nold\n\n<!-- /one -->\n\n<!-- two -->\nkept\n<!-- /two -->\n")
    table.save(Path(f"{page}#one"), "# Title\n\n## Part\n\nnew\n")
    text = page.read_text(encoding="utf-8")
    assert "old" not in text and "# Title" not in text and "### Part\n\nnew\n" in text
    assert text.startswith("# Page\n\nlead\n") and "<!-- two -->\nkept\n<!-- /two -->" in text
    with pytest.raises(UnderstudyError, match="no section 'three'"):
        table.save(Path(f"{page}#three"), "new")


def test_the_command_lists_runs_and_writes(inline: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"made_table1": made(), "broken": made("broken", bad="100")}
    monkeypatch.setattr(registry, "all_experiments", lambda: known)
    listed = CliRunner().invoke(app, ["reproduce"])
    assert listed.exit_code == 0 and "made_table1" in listed.output and "cifar10" in listed.output
    arguments = ["reproduce", "made_table1", "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0 and "What was reduced" in ran.output and "66.82" in ran.output
    assert (tmp_path / "out" / "made_table1.md").exists()
    broken = CliRunner().invoke(app, ["reproduce", "broken", "--work", str(tmp_path / "work")])
    assert broken.exit_code == 2 and "broken: svhn is not here; get it" in broken.stderr
    assert CliRunner().invoke(app, ["reproduce", "nonsense"]).exit_code == 2


def test_outside_a_checkout_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.understudy, "__file__", str(tmp_path / "site" / "understudy" / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnderstudyError, match="clone the repository"):
        command.load_experiments()


@dataclass(frozen=True)
class Noisy(Made):
    """One method's lead is clear from 5 seeds on, or never."""

    lead: float = 0.02
    spread: float = 0.005
    columns: tuple[str, ...] = ("100",)

    def measure(self, column: str, seed: int) -> list[Cell]:
        luck = self.spread * (-1) ** seed * (1 + seed % 3)
        return [Cell("Vanilla", column, seed, 0.5), Cell("SLaM", column, seed, 0.5 + self.lead + luck)]


def noisy(name: str, **options: Any) -> Experiment:
    claim = Claim("SLaM is above Vanilla", ["SLaM"], ["Vanilla"])
    full = Noisy(data="cifar10", **{**options, "spread": 0.0})
    return Experiment(name, "001", "Table 1", "made up", [Part("Made up", full, Noisy(**options), [claim])], 1.0)


def counted(found: list[Any]) -> dict[str, list[int]]:
    """How many seeds each experiment ended with."""
    return {one.experiment.name: one.seeds for one in found}


def test_open_claims_get_more_seeds_until_they_are_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_measure", lambda job: (job.sweep.measure(job.column, job.seed), 60.0, ""))
    hopeless = replace(noisy("hopeless", lead=0.0005), most_seeds=8)
    both = [hopeless, noisy("clear")]
    options: dict[str, Any] = {"executor": InProcess(), "work": tmp_path, "say": str}

    def run(minutes: float, **more: Any) -> dict[str, list[int]]:
        found: list[Any] = []
        assert runner.run(both, minutes=minutes, on_finished=found.append, **options, **more) == {}
        return counted(found)

    assert run(0.0) == {"hopeless": [3], "clear": [3]}
    # Six minutes are spent: two more buy the next look of the one that is likelier to be decided.
    assert run(7.9) == {"hopeless": [3], "clear": [3]}
    assert run(8.0)["clear"] == [5]
    ended = run(1_000.0)
    assert ended["clear"][0] < 20 and ended["hopeless"] == [8], "decided, and at its most seeds"
    assert run(1_000.0) == ended, "nothing runs again"
    assert run(1_000.0, seeds=3) == {"hopeless": [3], "clear": [3]}


def test_an_experiments_minutes_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_measure", lambda job: (job.sweep.measure(job.column, job.seed), 60.0, ""))
    found: list[Any] = []
    short = replace(noisy("short", lead=0.0005), most_minutes=6.0)
    lines: list[str] = []
    runner.run([short], minutes=99, executor=InProcess(), work=tmp_path, say=lines.append, on_finished=found.append)
    assert [one.seeds for one in found] == [[3], [5]], "eight seeds would take eight minutes"
    assert lines[-1] == "short: 100, seed 4: 60 s; 5 CPU minutes used, at most 94 minutes left"


def test_the_page_reports_gold_alone_and_weight_statistics(tmp_path: Path) -> None:
    rows = {
        "Teacher": (0.5, {}),
        "Gold only": (0.7, {}),
        "Vanilla": (0.6, {}),
        "SLaM": (0.8, {"slam.mean_alpha": 0.75}),
    }
    cells = [
        Cell(row, "100", seed, value, selected=None if row == "Teacher" else value + 0.01, facts=facts)
        for row, (value, facts) in rows.items()
        for seed in range(3)
    ]
    text = page(runner.Finished(made(columns=("100",)), "reduced", [cells_with_curves(cells)], [MADE], [3]))
    assert "Gold only is better than Vanilla at 100 (by 10.0)" in text
    assert gold_alone(cells, errors=True) == [], "70% errors are no better than 60%"
    swapped = [replace(cell, value=1 - cell.value) for cell in cells]
    assert gold_alone(swapped, errors=True) == ["Gold only is better than Vanilla at 100 (by 10.0)."]
    assert "| Vanilla | 60.00 ± 0.00† |" in text and "| Teacher | 50.00 ± 0.00 |" in text
    assert ours(cells, errors=True).count("†") == 1 and "| SLaM | 80.00 ± 0.00† |" in ours(cells, errors=True)
    assert "| SLaM | 81.00 ± 0.00 |" in text.split("at the epoch chosen on gold")[1]
    assert "|  | mean α (slam) |" in text and "| SLaM | 0.750 |" in text


MADE = {"seconds": 1.0, "dates": ["today"], "commits": ["c"]}


def cells_with_curves(cells: list[Cell]) -> list[Cell]:
    return [replace(cell, curve=(cell.value, cell.value)) for cell in cells]


def test_a_page_says_what_its_cells_were_measured_with_before_the_setting_changed() -> None:
    part = registry.find("slam_table1").parts[0]
    kept = setting_of(part.reduced)
    assert outdated(part.reduced, kept) == []
    kept = json.loads(json.dumps(kept | {"validation": 20}))
    kept["training"]["epochs"] = 3
    kept["methods"][-1] = {"label": "SLaM", "kind": "slam", "options": [0.5, 0.7], "fixed": [["tail", "keep"]]}
    assert outdated(part.reduced, kept) == ["validation 20", "SLaM: 0.5, 0.7: tail keep", "epochs 3"]
