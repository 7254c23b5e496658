"""The templates of texts and pages (``*.jinja`` beside this file), and numbers as they write them.

    sentences("audit", "verdict", audit)                        # the lines of a macro of audit.txt.jinja
    write_page("report.html", title="A page", facts=[…])        # body.html.jinja in page.html.jinja

All values in pages are escaped; pictures come as ``Markup``. A line of a text is a sentence, whatever its values hold.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any

import jinja2
from markupsafe import Markup, escape
from rich.console import Console
from rich.table import Table
from rich.text import Text

from understudy.comparison.interval import Interval, chance, percent, signed
from understudy.maths.proportions import Share
from understudy.store.files import local_path, write_text

UNKNOWN = "–"


def sentences(text: str, part: str, *values: Any) -> list[str]:
    """The lines of a text's ``part``: a macro of its template, called with the values."""
    macro = getattr(_templates(_one_line).get_template(f"{text}.txt.jinja").module, part)
    return [line for line in macro(*values).split("\n") if line]


def facts(text: str, *values: Any) -> list[tuple[str, str]]:
    """The lines "name | value" of a text's facts."""
    pairs = (line.split(" | ", 1) for line in sentences(text, "facts", *values))
    return [(name, value) for name, value in pairs]


def write_page(path: str | Path, **parts: Any) -> None:
    """A page as a file; ``parts``: the arguments of ``page``."""
    write_text(local_path(path), page("page.html.jinja", **parts))


def page(
    frame: str, *, title: str, template: str | None = None, lead: str = "", verdict: Sequence[str] = (),
    warnings: Sequence[str] = (), facts: Sequence[tuple[str, str]] = (), settings: Mapping[str, Any] | None = None,
    **sections: Any,
) -> str:  # fmt: skip
    """The HTML of a page: the parts that every page has, its own ``template``, and sections that several pages share.

    ``settings``: options, shown after the facts.
    """
    shown = [*facts, *((name, str(value)) for name, value in (settings or {}).items())]
    content = "" if template is None else _render(template, **sections)
    every = {"title": title, "lead": lead, "verdict": verdict, "warnings": warnings, "facts": shown}
    css = Markup(Path(__file__).with_name("page.css").read_text(encoding="utf-8"))
    body = _render("body.html.jinja", content=content, **every, **sections)
    broken = _NAME_CELLS.sub(lambda cell: cell[1] + re.sub(r"[_→/]|\((?=[a-z])", r"\g<0><wbr>", cell[2]), body)
    return _render(frame, title=title, css=css, body=Markup(broken))


#: Cells that hold names: long ones of classes and methods may break behind such a sign.
_NAME_CELLS = re.compile('(<t[hd] (?:scope="row"|data-name)[^>]*>)([^<]*)')


def _render(template: str, **values: Any) -> Markup:
    return Markup(_templates().get_template(template).render(**values))


@cache
def _templates(finalize: Callable[[Any], Any] | None = None) -> jinja2.Environment:
    # Pages are escaped: names of files and classes are the user's.
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("understudy", "report"), autoescape=jinja2.select_autoescape(["html.jinja"]),
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=finalize,
    )  # fmt: skip
    filters = (
        number, counted, two_digits, chance, percent, percent_down, signed, ci, percent_ci, points_ci, auc_ci,
        auc_range, p_text, gain_text, first_names, printable, quote, shorten, unbroken,
    )  # fmt: skip
    templates.filters |= {each.__name__: each for each in filters}
    return templates


def wide_console(least: int = 100) -> Console:
    """A pipe counts as 80 columns, where intervals would be cut off; a narrow terminal breaks lines by itself."""
    return Console(width=max(least, Console().width))


def print_table(
    out: Console, title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, wraps: str = ""
) -> None:
    """A table whose first ``left`` columns are text; only the column ``wraps`` may break its lines."""
    table = Table(padding=(0, 1), box=None, header_style="dim")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left else "right", no_wrap=heading != wraps)
    for row in rows:
        table.add_row(*map(Text, row))
    out.print(Text(f"\n{title}", "bold"))
    out.print(table)


def print_lines(out: Console, lines: Iterable[str]) -> None:
    """Sentences, which may hold names of a user's: as they are, broken by the terminal alone."""
    for line in lines:
        out.print(Text(line), soft_wrap=True)


def _one_line(value: Any) -> Any:
    return value.replace("\n", " ") if type(value) is str else value


def number(value: float, form: str = ",.0f") -> str:
    return format(value, form).replace("-", "−")


def counted(rows: int, what: str) -> str:
    """``1 row``, ``1,200 rows``."""
    return f"{rows:,} {what}{'' if rows == 1 else 's'}"


def two_digits(value: float, *, up: bool = False) -> str:
    """Rounded to two digits, which are enough to plan by."""
    unit = 10 ** max(len(str(math.ceil(value))) - 2, 0)
    return f"{(math.ceil if up else round)(value / unit) * unit:,}"


def percent_down(value: float) -> str:
    """Of what is promised: never rounded up."""
    return f"{math.floor(1000 * value) / 10:.1f}"


def ci(share: Share) -> str:
    """``83.2–94.7``, in percent."""
    return f"{100 * share.low:.1f}–{100 * share.high:.1f}" if share.known else UNKNOWN


def percent_ci(share: Share) -> str:
    """``90.0% (95% CI 83.6–94.5)``."""
    return f"{share.estimate:.1%} (95% CI {ci(share)})" if share.known else UNKNOWN


def points_ci(gap: Share) -> str:
    """``+22.1 points (95% CI −15.0 to +29.1)``, of a difference of shares."""
    return f"{signed(gap.estimate)} points (95% CI {signed(gap.low)} to {signed(gap.high)})"


def percent_range(share: Share) -> str:
    """``90.0% (83.6–94.5)``, for tables whose title says that it is a 95% interval."""
    return f"{share.estimate:.1%} ({ci(share)})" if share.known else UNKNOWN


def auc_ci(share: Share) -> str:
    """``0.81 (95% CI 0.74–0.88)``."""
    return f"{share.estimate:.2f} (95% CI {auc_range(share)})" if share.known else UNKNOWN


def auc_range(share: Share) -> str:
    return f"{share.low:.2f}–{share.high:.2f}"


def p_text(p_value: float) -> str:
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def gain_text(gain: Interval) -> str:
    """``+0.023 ± 0.010``, where the interval is known."""
    half = (gain.high - gain.low) / 2
    return f"{gain.mean:+.3f} ± {half:.3f}" if half < math.inf else f"{gain.mean:+.3f}"


def unbroken(cell: str) -> Markup:
    """A cell of a page, whose interval, in brackets or not, is not broken at its dash."""
    return Markup(re.sub(r"\([^()]*–[^()]*\)|^[\d.]+–[\d.]+$", r'<span class="ci">\g<0></span>', str(escape(cell))))


def shorten(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def first_names(names: list[str], most: int = 5) -> str:
    """The first few, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def printable(text: str, width: int = 60) -> str:
    """Untrusted text for a terminal: one line, cut to ``width``, control and direction characters escaped."""
    start = text[: width + 1]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in start)
    return f'"{safe}"' if len(safe) <= width else f'"{safe[:width]}…"'
