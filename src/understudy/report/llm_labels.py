"""What became of an LLM's answers, as text: a table of categories, examples of answers that were not used, notes."""

from collections import Counter

from understudy.labels.answer_matching import BLANK, EXAMPLES, NOT_USED, USED, AnswerReport

WIDTH = 60


def answer_report_text(report: AnswerReport) -> str:
    """The counts of every category, up to five answers that were not used, and the notes."""
    return "\n".join([*_table(report), *_examples(report), *(f"note: {note}" for note in report.notes)])


def _table(report: AnswerReport) -> list[str]:
    rows = [("used", report.used), *_indented(report.counts, USED)]
    rows += [("not used", report.lines - report.used), *_indented(report.counts, NOT_USED), (report.unit, report.lines)]
    wide, long = max(len(name) for name, _ in rows), max(len(f"{number:,}") for _, number in rows)
    return [f"{name:{wide}}  {number:>{long},}" for name, number in rows]


def _indented(counts: Counter[str], names: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(f"  {name}", counts[name]) for name in names if counts[name]]


def _examples(report: AnswerReport) -> list[str]:
    """The first answer of every category before the second of any."""
    kept = [(name, report.examples[name]) for name in NOT_USED if name in report.examples and name != BLANK]
    turns = [(name, shown[turn]) for turn in range(EXAMPLES) for name, shown in kept if turn < len(shown)]
    lines = [f"  {where}: {name}: {printable(text)}" for name, (where, text) in turns[:EXAMPLES]]
    return ["not used, for example:", *lines] if lines else []


def printable(text: str, width: int = WIDTH) -> str:
    """Untrusted text for a terminal: one line, cut to ``width``, control and direction characters escaped."""
    start = text[: width + 1]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in start)
    return f'"{safe}"' if len(safe) <= width else f'"{safe[:width]}…"'
