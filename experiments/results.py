"""The papers' pages, ``docs/results/reproduce/PAPER.md``, and ``docs/results/claims.md``, from the kept numbers.

python -m experiments.results            # write the pages from docs/results/reproduce/*.json; nothing is run
make reproduce                           # run every table and figure at its reduced scale first
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.claims import ANSWERS, decide
from experiments.engines.kernel import NOT_CENTRED
from experiments.experiment import PAPERS, Experiment, Part, stand_in
from experiments.needs import REPEATED
from experiments.page import gold_alone, ours, verdict_rows
from experiments.published import outdated, setting_of
from experiments.registry import all_experiments
from experiments.sweep import Cell, key
from experiments.table import markdown
from understudy.store.files import read_json, write_json, write_text

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {"000": "weighted", "001": "slam", "002": "heteroskedastic", "003": "air", "004": "reweight"}
"""The file name of a paper's page: what the names of its experiments begin with."""
Records = dict[str, dict[str, Any]]

RULE = (
    "Each claim of a paper is a difference between cells of a table, taken within seeds (same split, teacher and "
    "initial student) and tested after 3, 5, 8, 12 and 20 seeds, as far as the CPU budget goes, by a paired t-test at "
    "1% each (5% for all five). *Yes* and *no* are corrected by Holm's rule within a table; *no larger difference* "
    "means that the difference is shown to lie within ±δ, half of the paper's own effect; *void*, that a precondition "
    "failed, with what was found, or was not measured: 85% of the noisy labels memorised by plain training, a teacher "
    "10 points above chance, at most 90% of weights at 1, a net above the larger class, a rival at most half a "
    "point below plain training; everything else is *open*. Claims that repeat another table's cells, hold "
    "by construction or speak of something else than the method are listed and not counted."
)


def decided(experiment: Experiment, record: dict[str, Any]) -> dict[str, Any]:
    """The record with its claims as the code now has them, decided again from the kept cells.

    Of other settings than the code now has, it stays as it was until these are measured.
    """
    if [part["setting"] for part in record["parts"]] != [setting_of(part.reduced) for part in experiment.parts]:
        return record

    def part_again(part: Part, kept: dict[str, Any]) -> dict[str, Any]:
        verdicts = decide(part.judged(), [Cell(**cell) for cell in kept["cells"]])
        return kept | {"title": part.title, **verdict_rows(verdicts)}

    parts = zip(experiment.parts, record["parts"], strict=True)
    return record | {"shows": experiment.shows, "what": experiment.what, "parts": [part_again(*both) for both in parts]}


def counts(records: Records) -> str:
    """How many of each paper's counted claims have which verdict."""

    def row(name: str, papers: Sequence[str]) -> list[str]:
        mine = [record for record in records.values() if record["paper"] in papers]
        answers = [answer for record in mine for part in record["parts"] for answer in part["answers"]]
        found = [answers.count(answer) for answer in ANSWERS]
        share = f"{found[-1] / sum(found):.0%}" if sum(found) else ""
        return [name, str(sum(found)), *map(str, found), share, str(answers.count(""))]

    rows = [row(f"[{title.split(' (')[0]}](reproduce/{PAGES[paper]}.md)", [paper]) for paper, title in PAPERS.items()]
    return markdown(
        ["paper", "claims", *ANSWERS, "share open", "not counted"], [*rows, row("all", list(PAPERS))]
    ).strip()


def summary(records: Records) -> str:
    """The counts of all papers in a line, which the README and the index of results hold."""
    answers = [
        answer for record in records.values() for part in record["parts"] for answer in part["answers"] if answer
    ]
    found = ", ".join(f"{answers.count(answer)} {answer}" for answer in ANSWERS)
    return f"{found}, of {len(answers)} claims at a reduced scale"


SUMMARY = re.compile(r"\d+ yes, \d+ no, .*? of \d+ claims at a reduced scale")


def claims_page(records: Records) -> str:
    """The verdicts of all claims, counted by paper."""
    missing = [name for name in all_experiments() if name not in records]
    minutes = sum(record["seconds"] for record in records.values()) / 60
    text = [
        "# The papers' claims at a reduced scale",
        RULE,
        counts(records),
        "With small nets on stand-in data a *no* means that the claim does not carry over to this scale, not that the "
        "paper is wrong. `reproduce/NAME.json` has every seed.",
        f"*{_values(records.values(), 'dates')}, commits {_values(records.values(), 'commits')}, "
        f"{_values(records.values(), 'machine')}, one thread per process; {minutes:.0f} CPU minutes, where a run that "
        "two figures share counts twice.*",
    ]
    if missing:
        text.append(f"Not run yet: {', '.join(missing)}.")
    rows = [
        [f"{PAPERS[experiment.paper].split(' (')[0]}, {experiment.shows}", reason]
        for experiment in all_experiments().values()
        for reason in experiment.not_reproduced
    ]
    return "\n\n".join([*text, "## Not reproduced", markdown(["where", "what"], rows).strip()]) + "\n"


def _values(records: Any, name: str) -> str:
    """The distinct values of a field of the records."""
    found = [record[name] for record in records]
    return ", ".join(sorted({str(value) for one in found for value in (one if isinstance(one, list) else [one])}))


def paper_page(paper: str, records: Records) -> str:
    """All tables and figures of a paper: verdicts, our cells, command, commit and CPU minutes."""
    mine = {name: one for name, one in all_experiments().items() if one.paper == paper and name in records}
    dates, machine = (_values([records[name] for name in mine], field) for field in ("dates", "machine"))
    text = [
        f"# {PAPERS[paper]}",
        "Every table and figure at a reduced scale; a section begins with what the paper shows, and `understudy "
        "reproduce NAME --out pages` lists what was reduced. Claims: differences in points, 99% interval ([the "
        "rule](../claims.md)). Cells: %, mean ± half of the 95% interval, last epoch; † below gold alone. Beside "
        "what the library recommends the methods stand in [ten settings](../auto.md).",
    ]
    homes = _homes(mine)
    remarks: list[str] = []
    for name, experiment in mine.items():
        text += _section(experiment, records[name], homes)
        if new := [f"- {remark}" for remark in experiment.remarks if remark not in remarks]:
            text.append("\n".join(new))
        remarks += experiment.remarks
    text.append(f"*{dates}, {machine}, one thread per process.*")
    return "\n\n".join(text) + "\n"


def _homes(experiments: dict[str, Experiment]) -> dict[str, str]:
    """Setting -> the one experiment that shows its cells: a table before a figure."""
    tables_first = sorted(experiments.values(), key=lambda one: not one.shows.startswith("Table"))
    homes: dict[str, str] = {}
    for experiment in tables_first:
        for part in experiment.parts:
            homes.setdefault(key(part.reduced), experiment.name)
    return homes


def _section(experiment: Experiment, record: dict[str, Any], homes: dict[str, str]) -> list[str]:
    seeds = "–".join(dict.fromkeys(str(pick(record["seeds"])) for pick in (min, max)))
    first = experiment.what[0]
    text = [
        f"## {experiment.shows}",
        f"{first.upper() if first.isascii() else first}{experiment.what[1:]}. `understudy reproduce {experiment.name}` "
        f"({seeds} seeds; {record['seconds'] / 60:.1f} CPU minutes).",
    ]
    if experiment.shows.startswith("Figure"):
        text.append(f"![{experiment.shows} at reduced scale]({experiment.name}.png)")
    for declared, part in zip(experiment.parts, record["parts"], strict=False):
        if len(experiment.parts) > 1:
            text.append(f"**{part['title']}**")
        if before := outdated(declared.reduced, part["setting"]):
            text.append(f"Measured before the setting changed, with {'; '.join(before)}.")
        rows = [
            [claim, paper, f"{gap} ({span.replace(' to ', '…')})", shown]
            for claim, paper, gap, span, _, shown in part["claims"]
            if not shown.startswith("see ")
        ]
        if again := sorted({row[-1] for row in part["claims"] if row[-1].startswith("see ")}):
            text.append(f"{'Other claims' if rows else 'Claims'}: {', '.join(again)}.")
        if rows:
            text.append(markdown([f"claim: {stand_in(declared)}", "paper", "ours", "verdict"], rows).strip())
        home = homes[key(declared.reduced)]
        cells = [Cell(**cell) for cell in part["cells"] if _is_shown(cell["row"], declared)]
        if home == experiment.name:
            text += [
                ours(cells, errors=declared.errors).replace(" ± ", "±").replace(REPEATED, "memorised").strip(),
                *gold_alone(cells, declared.errors),
            ]
        elif f"see {home}" not in again:
            text.append(f"Cells: those of `{home}`.")
    return text


def _is_shown(row: str, part: Part) -> bool:
    """What no claim speaks of is left to the record: measures of a method beside its accuracy, uncentred labels."""
    return row in part.named or not (": " in row or row.endswith(f"flipped, {NOT_CENTRED}"))


def main() -> None:
    folder = DOCS / "results" / "reproduce"
    stored = {name: folder / f"{name}.json" for name in all_experiments()}
    records = {
        name: decided(all_experiments()[name], read_json(path)) for name, path in stored.items() if path.exists()
    }
    for name, record in records.items():
        write_json(stored[name], record)
    write_text(DOCS / "results" / "claims.md", claims_page(records))
    for paper, name in PAGES.items():
        write_text(folder / f"{name}.md", paper_page(paper, records))
    for path in (DOCS / "results.md", DOCS.parent / "README.md"):
        if path.exists():
            write_text(path, SUMMARY.sub(summary(records), path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
