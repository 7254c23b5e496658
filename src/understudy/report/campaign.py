"""The page of a campaign: accuracy over labels with intervals, what each round bought, and at which price.

write_campaign_report("camp/report.html", records, price=0.5)
round_line(all_bought(records, 0.5)[-1], records[-1])            # the same of one round, for a terminal
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from understudy.active.bought import Bought, all_bought
from understudy.comparison.interval import Interval, percent, signed
from understudy.report.figures import GREY, RIGHT, drawing
from understudy.report.page import write_page

HEADINGS = ("round", "labels", "cost", "accuracy", "gained", "cost per point", "noisy places")


def write_campaign_report(
    path: str | Path,
    records: Sequence[Mapping[str, Any]],
    *,
    price: float,
    message: str = "",
    warnings: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> None:
    """``price``: of a label. ``message``: how the campaign stands, in words."""
    rounds = all_bought(records, price)
    judged = [one for one in rounds if one.accuracy is not None]
    write_page(
        path, template="campaign.html.jinja", title="What the labels bought",
        lead=f"{rounds[-1].labels:,} labels in {len(rounds)} {'round' if len(rounds) == 1 else 'rounds'}, "
        f"{rounds[-1].cost:g} paid.",
        verdict=[*_verdict(judged), *([message[0].upper() + message[1:] + "."] if message else [])],
        warnings=list(dict.fromkeys(warnings)), settings=settings, headings=HEADINGS,
        rows=[_row(one, record) for one, record in zip(rounds, records, strict=True)],
        curve_svg=_curve(judged) if judged else None, told=_told(judged),
    )  # fmt: skip


def round_line(one: Bought, record: Mapping[str, Any]) -> str:
    """``round 3: 200 labels, accuracy 81.2% (78.0 to 84.1), +2.4 points (+0.6 to +4.2) for 50, 20.8 a point``."""
    line = f"round {one.round}: {one.labels:,} labels"
    if one.accuracy is not None:
        share = one.accuracy
        line += f", accuracy {percent(share.estimate)}% ({percent(share.low)} to {percent(share.high)})"
    if one.gain is not None:
        line += f", {signed(one.gain.mean)} points {_span(one.gain)} for {one.spent:g}, {_per_point(one)}"
    watch = record.get("watch")
    if watch is not None and watch["alarm"]:
        line += f"; {watch['share']:.0%} of the rows lie where labels look random"
    return line


def _per_point(one: Bought) -> str:
    return "no point bought" if one.per_point is None else f"{one.per_point:.3g} a point"


def _span(interval: Interval) -> str:
    return f"({signed(interval.low)} to {signed(interval.high)})"


def _verdict(judged: Sequence[Bought]) -> list[str]:
    if not judged:
        return ["Nothing judges these students: give test rows, or a first round of 20 rows or more."]
    first, last = judged[0], judged[-1]
    assert first.accuracy is not None and last.accuracy is not None
    share = last.accuracy
    said = [
        f"Right on {percent(share.estimate)}% of {share.rows:.0f} rows ({percent(share.low)} to {percent(share.high)})."
    ]
    risen = share.estimate - first.accuracy.estimate
    if len(judged) > 1:
        paid = last.cost - first.cost
        each = f", {paid / (100 * risen):.3g} a point" if risen > 0 else ""
        said.append(f"The rounds since the first brought {signed(risen)} points for {paid:g}{each}.")
    if last.gain is not None:
        sure = "which chance alone may explain"
        if last.gain.low > 0:
            sure = "more than chance explains"
        elif last.gain.high < 0:
            sure = "a loss beyond chance: look at the last answers"
        said.append(f"The last {last.spent:g} brought {signed(last.gain.mean)} points {_span(last.gain)}, {sure}.")
    return said


def _row(one: Bought, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Figures, and the small print beside them."""
    share, gain, watch = one.accuracy, one.gain, record.get("watch")
    none = ("–", "")
    return [
        (str(one.round), ""), (f"{one.labels:,}", ""), (f"{one.cost:g}", ""),
        none if share is None else (percent(share.estimate), f"{percent(share.low)} to {percent(share.high)}"),
        none if gain is None else (signed(gain.mean), f"{signed(gain.low)} to {signed(gain.high)}"),
        none if one.per_point is None else (f"{one.per_point:.3g}", ""),
        none if watch is None else (f"{watch['share']:.0%}", f"({watch['random_share']:.0%})"),
    ]  # fmt: skip


def _told(judged: Sequence[Bought]) -> str:
    """The picture for who cannot see it."""
    shown = [one for one in judged if one.accuracy is not None]
    return "; ".join(f"{one.labels} labels, {percent(one.accuracy.estimate)} percent" for one in shown if one.accuracy)


def _curve(judged: Sequence[Bought]) -> Markup:
    shares = [one.accuracy for one in judged if one.accuracy is not None]
    at = [one.labels for one in judged]
    with drawing("campaign", 3.2) as (figure, result):
        ax = figure.add_subplot()
        ax.fill_between(
            at, [100 * one.low for one in shares], [100 * one.high for one in shares], color=RIGHT, alpha=0.18, lw=0,
            label="95% interval",
        )  # fmt: skip
        ax.plot(at, [100 * one.estimate for one in shares], color=RIGHT, lw=1.8, marker="o", label="accuracy")
        ax.axhline(100 * shares[0].estimate, color=GREY, lw=1, ls=":", label="after the first round")
        ax.set(xlabel="labels asked for", ylabel="right, %")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside upper left", ncols=3)
    return result[0]
