"""``docs/results.md``: the papers' claims and what became of them, then the longer runs on data at hand.

python -m experiments.results            # put the page together from docs/results/
make reproduce                           # run every table and figure at its reduced scale first
make results                             # run the longer experiments first (some hours on one core)
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.claims import ANSWERS
from experiments.experiment import PAPERS
from experiments.page import VERDICT_COLUMNS
from experiments.registry import all_experiments
from experiments.table import markdown
from understudy.store.files import read_json, write_text

DOCS = Path(__file__).parents[1] / "docs"

SECTIONS = {
    "fashion_mnist": (
        "Does the student beat its teacher?",
        "SLaM and Weighted Distillation against vanilla (`experiments/fashion_mnist.py`). In the papers' protocol"
        " the teacher is so weak that training on the 700 gold rows alone beats every student; in the honest "
        "setting, where the teacher's labels are its own, the order is gold only < teacher < vanilla < SLaM. "
        "Every student there has 300 trusted rows that its teacher had not, so that its lead on the teacher is no "
        "method's gain; the differences to vanilla are.",
    ),
    "distillation_honest": (
        "All distillation methods, honest setting",
        "Three settings of each method's main option, chosen on gold (`experiments/distillation_methods.py`). A "
        "row whose interval includes 0 cannot be told apart from vanilla with three seeds; that holds for SLaM "
        "too, whose lead the five seeds above confirm. UPS and the fidelity weights do as well here as SLaM or "
        "better.",
    ),
    "distillation_paper": (
        "All distillation methods, paper protocol",
        "The same, in the papers' own protocol. SLaM is above vanilla, and combines well with fidelity weights. "
        "Keeping "
        "only the most confident labels does best: with a teacher this weak, what helps most is to hear less of it "
        "beside the gold rows, which alone reach 79.4%.",
    ),
    "air_fashion_mnist": (
        "Self-distillation without early stopping",
        "The AIR paper's claim, that self-distillation resists noisy labels to the last epoch "
        "(`experiments/air_fashion_mnist.py`): shown at 40% noise with both recipes. At 60% the gain is large but"
        " varies much between seeds; the paper's strength for Fashion-MNIST (1.4) does better than the larger "
        "one. Targets are the best class here: with a strength above 1 some seeds lose whole classes, which targets of "
        "low temperature avoid (`air_table1` has both, and the recall of the worst class).",
    ),
    "reweight_mnist": (
        "Learning to reweight under class imbalance",
        "MNIST 4 against 9 with 10 gold rows (`experiments/reweight_mnist.py`); test error, lower is better. At "
        "200:1 `l2rw` has the lowest mean with both nets, but its lead on `proportion` and `resample` is within the "
        "interval; at 9:1 the three cannot be told apart. The LeNet ran with 5 seeds at 200:1 and 2 at 9:1. SGD has no "
        "momentum here, so that at 200:1 training without weights never leaves the larger class (49.32 ± 0.00: half of "
        "the test rows), and the gold rows come on top of the 5,000; `reweight_fig02` has momentum, and splits them "
        "off.",
    ),
    "noisy_labels": (
        "Noisy labels with 10 gold rows per class",
        "Every method for noisy labels under background and uniform flips (`experiments/noisy_labels.py`). "
        "Background flips are where gold pays: whatever knows the classes' noise (`forward`, `s_model` from the "
        "confusion, `class_ratio`, balanced classes, `l2rw`, fine-tuning) gains 20 points, and small-loss methods"
        " lose. Under uniform flips it is the other way round: robust losses, small-loss methods and self-distillation "
        "gain about 2 points, and what estimates the noise from 100 gold rows loses 1 or 2. The gold rows that select "
        "also steer `l2rw` and estimate for `forward`, `s_model` and `class_ratio`. The +FT rows of this page were "
        "measured with a fine-tuning that started the learning rate anew, which costs points; one small rate "
        "(`finetune_lr`) is the default now. The net hardly memorises uniform flips: where it does, `l2rw` gains "
        "(`reweight_table1`).",
    ),
    "heteroskedastic": (
        "Active learning on pools that are mostly noise",
        "The benchmark of the heteroskedastic active-learning paper (`experiments/heteroskedastic.py`): test "
        "accuracy, and the share of selected rows that came from the original data. Confidence sampling falls 9 points "
        "below random on Noisy-Diverse with 20 epochs a round, and 11.6 with 50: the longer a student trains on noise, "
        "the worse its picks. In noisy_class every copy of an image drew a label of its own on this page; the paper "
        "labels, then repeats, which is what the benchmark does now.",
    ),
    "llm_reviews": (
        "An LLM as the teacher, from files to predictions",
        "Movie reviews labelled by ChatGPT, `understudy train --text` and `understudy predict` "
        "(`experiments/llm_reviews.py`), on TF-IDF; frozen MiniLM vectors stand beside it under *Does it pay?*. The "
        "LLM is far better than 200 gold "
        "rows, and its few errors are not where a small student could find them: every way of using its labels does "
        "about the same, all do better than gold alone, and none reaches the LLM.",
    ),
    "weighted": (
        "Weighted Distillation: its weights, its distortions, its effect",
        "Where the truth is known (`experiments/weighted_page.py`): how the weights are spread, how far the distortion "
        "that the method estimates from its validation rows is from the pool's own, and what weighting brings.",
    ),
    "alternatives": (
        "Does it pay?",
        "`us.auto`, and a linear student under single methods, beside what a user would pick instead: logistic "
        "regression on gold or on everything, after cleanlab's filter, on Dawid–Skene's or Snorkel's labels "
        "(`experiments/alternatives.py`). The best alternative of a setting is picked by the test rows, so that it "
        "looks a little better than a user could have known. The settings called held out were looked at with one seed "
        "while the defaults were chosen.",
    ),
    "votes_by_gold": (
        "Votes weighed by gold",
        "Labels from the votes of rules, before any training (`experiments/votes_by_gold.py`): by majority, by "
        'Dawid–Skene, by EM anchored in gold, and by sources counted on gold (`us.Votes(by="gold")`). Where rules are '
        "right less often than not (TREC) or mostly silent (YouTube) gold brings 10 points and more; where their "
        "majority is nearly always right (SMS) it brings nothing, and costs nothing.",
    ),
    "campaign": (
        "Campaigns beside random labelling",
        "What `understudy campaign` does, with an annotator who knows the truth, beside labelling rows at random at "
        "the same budget (`experiments/campaign.py`). The campaign ends above random labelling on every set, by 5 "
        "points on TREC and by 1 on the others, but with these five seeds no interval excludes 0. Five more, run after "
        "these had been looked at (`--first 5`), gave +3.9 (+2.1 to +5.8) on TREC, +3.2 (+0.4 to +6.0) on YouTube and "
        "+2.4 (−0.2 to +4.9) on Fashion-MNIST; all ten together +4.6 ± 2.5, +2.2 ± 1.5 and +1.6 ± 1.3.",
    ),
    "label_budget": (
        "Who should label what",
        "A budget planned by `us.plan_labels` beside asking one source for everything at the same price, on data whose "
        "truth is known (`experiments/label_budget.py`). The students of the plan are better than those of the small "
        "source alone in 8 of 9 cases and than those of the human alone in all. The best single source, *big*, which a "
        "user does not know beforehand, is another matter: with money left after asking it all (a budget of 40), "
        "the plan is 4 points better on two sets and level on the reviews; at 2 and 10 they cannot be told apart, but "
        "for the reviews at 10, where the plan is half a point worse. There, and on Fashion-MNIST at 2, clean labels "
        "are a poor currency: *small* is a model of the very features the student has, which learns its mistakes "
        "instead of averaging them out. The pool's labels, which is what the plan counts, are never worse than those "
        "of any other way beyond chance. New gold was hardly ever worth its price of 100.",
    ),
    "six_tables": (
        "Six tables, and no option but the files",
        "What `understudy train` and `understudy compare` make of reviews, questions, comments, messages, a census "
        "table and pictures when nobody says which student, how long or how (`experiments/six_tables.py`).",
    ),
    "text_students": (
        "Texts: TF-IDF, frozen vectors, or a fine-tuned net",
        "Three ways to make a student of texts, with what each costs (`experiments/text_students.py`).",
    ),
    "auto": (
        "Reconciled labels, and choosing by a pilot",
        "`us.reconciled()` and `us.auto` on ten settings beside every method of the short list "
        "(`experiments/auto_settings.py`). The members, the ridges and the pilot's rule were made on the settings "
        "marked dev and on up to three seeds of the others; seeds 3 and 4 were first run with everything fixed.",
    ),
}


def _below(page: str) -> str:
    """A page as part of this one: its title gives way to the section's, its headings and links go one level down."""
    headed = re.sub(r"^## ", "### ", re.sub(r"^# .*\n+", "", page), flags=re.MULTILINE)
    return re.sub(r"\]\((?=[\w./-]+\.(?:png|md)\))", "](results/", headed).strip()


def _all(records: dict[str, dict[str, Any]], name: str) -> str:
    """What the records say, each value once."""
    found = [record[name] for record in records.values()]
    values = {value for one in found for value in (one if isinstance(one, list) else [one])}
    return ", ".join(map(str, sorted(values)))


RULE = (
    "Each claim is a difference between cells, taken within seeds (same split, teacher and initial student). It is "
    "looked at with 3, 5, 8, 12 and 20 seeds, as far as the budget goes, by a t-test that may spend a fifth of 5% each "
    "time; *yes* and *no* are corrected by Holm's rule among the claims of a table, and *no larger difference* means "
    "that it is shown to lie within ±δ, half of the paper's own effect. Else it is *open*. Claims that show another "
    "table's cells again, or hold by construction, are listed and not counted."
)


def counts(records: dict[str, dict[str, Any]]) -> str:
    """Of every paper's distinct claims, how many have which answer."""

    def row(name: str, papers: Sequence[str]) -> list[str]:
        mine = [record for record in records.values() if record["paper"] in papers]
        answers = [answer for record in mine for part in record["parts"] for answer in part["answers"]]
        found = [answers.count(answer) for answer in ANSWERS]
        share = f"{found[-1] / sum(found):.0%}" if sum(found) else ""
        return [name, str(sum(found)), *map(str, found), share, str(answers.count(""))]

    rows = [row(title.split(" (")[0], [paper]) for paper, title in PAPERS.items()]
    return markdown(
        ["paper", "claims", *ANSWERS, "share open", "not counted"], [*rows, row("all", list(PAPERS))]
    ).strip()


def claims_page(records: dict[str, dict[str, Any]]) -> str:
    """Every claim of every table and figure, paper by paper, with the answer of our reduced run."""
    text = ["# The papers' claims at a reduced scale", RULE, counts(records)]
    for paper, title in PAPERS.items():
        rows = [
            [f"[{record['shows']}](reproduce/{name}.md)", part["title"], *claim]
            for name, record in records.items()
            if record["paper"] == paper
            for part in record["parts"]
            for claim in part["claims"]
        ]
        if rows:
            text += [f"## {title}", markdown(["where", "part", *VERDICT_COLUMNS], rows).strip()]
    return "\n\n".join(text) + "\n"


def claims_section(records: dict[str, dict[str, Any]]) -> str:
    missing = [name for name in all_experiments() if name not in records]
    minutes = sum(record["seconds"] for record in records.values()) / 60
    text = [
        "## The papers' claims at a reduced scale",
        "`make reproduce` runs all tables and figures, `understudy reproduce NAME` one. " + RULE,
        counts(records),
        "With small nets on stand-in data a *no* says that the claim does not carry over to this scale, not that the "
        "paper is wrong. [Every claim with its interval](results/claims.md); each table's page has our cells, the "
        "paper's, and what was reduced.",
        f"*{_all(records, 'dates')}, commit {_all(records, 'commits')}, {_all(records, 'machine')}, one thread per "
        f"process; {minutes:.0f} minutes of CPU, where a run that two figures share counts twice.*",
    ]
    if missing:
        text.append(f"Not run yet: {', '.join(missing)}.")
    return "\n\n".join(text)


def not_reproduced() -> str:
    """What a paper quotes from others, and what its figures leave open."""
    rows = [
        [f"{PAPERS[experiment.paper].split(' (')[0]}, {experiment.shows}", reason]
        for experiment in all_experiments().values()
        for reason in experiment.not_reproduced
    ]
    return "### Not reproduced\n\n" + markdown(["where", "what"], rows).strip()


def main() -> None:
    folder = DOCS / "results" / "reproduce"
    stored = {name: folder / f"{name}.json" for name in all_experiments()}
    records = {name: read_json(path) for name, path in stored.items() if path.exists()}
    # A page of an earlier rule has no answers of this one.
    records = {name: record for name, record in records.items() if all("answers" in part for part in record["parts"])}
    write_text(DOCS / "results" / "claims.md", claims_page(records))
    parts = [
        "# Results",
        "What came out on real data, at a scale that runs on one core; several seeds, paired, with t-intervals. "
        "The first part holds every table and figure of the five papers against a reduced run; the second has longer "
        "runs on the data at hand. Everything is written by the experiment named beside it and put together by `python "
        "-m experiments.results`. Reported are the last epoch and, where there is gold for it, the epoch chosen on "
        "gold; never the best test epoch.",
        claims_section(records),
        not_reproduced(),
        "## Longer runs",
    ]
    for name, (title, lead) in SECTIONS.items():
        path = DOCS / "results" / f"{name}.md"
        if path.exists():
            parts += [f"## {title}", lead, _below(path.read_text(encoding="utf-8"))]
    for path in sorted((DOCS / "results").glob("*.md")):
        if path.stem not in SECTIONS and path.stem != "claims":
            page = path.read_text(encoding="utf-8")
            heading = re.match(r"# (.*)", page)
            parts += [f"## {heading[1] if heading else path.stem}", _below(page)]
    write_text(DOCS / "results.md", "\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
