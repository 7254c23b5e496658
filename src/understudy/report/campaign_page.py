"""The page of a campaign: accuracy over labels with intervals, and the gain and cost of each round.

write_campaign_report("camp/report.html", records, price=0.5)
round_line(round_gains(records, 0.5)[-1], records[-1])            # the same of one round, for a terminal
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from understudy.active.loop_state import RoundGain, round_gains
from understudy.comparison.interval import Interval, percent, signed
from understudy.report.figures import GREY, RIGHT, drawing
from understudy.report.page import write_page

HEADINGS = ("round", "labels", "cost", "accuracy", "gain", "cost per point", "noisy regions")


def write_campaign_report(
    path: str | Path,
    records: Sequence[Mapping[str, Any]],
    *,
    price: float,
    message: str = "",
    warnings: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> None:
    """``price``: of a label. ``message``: the state of the campaign, in a sentence."""
    rounds = round_gains(records, price)
    measured = [one for one in rounds if one.accuracy is not None]
    write_page(
        path, template="campaign.html.jinja", title="Accuracy gained per label",
        lead=f"{rounds[-1].labels:,} labels in {len(rounds)} {'round' if len(rounds) == 1 else 'rounds'}, "
        f"{rounds[-1].cost:g} paid.",
        verdict=[*_verdict(measured), *([message[0].upper() + message[1:] + "."] if message else [])],
        warnings=list(dict.fromkeys(warnings)), settings=settings, headings=HEADINGS,
        rows=[_row(one, record) for one, record in zip(rounds, records, strict=True)],
        curve_svg=_curve(measured) if measured else None, alt_text=_alt_text(measured),
    )  # fmt: skip


def round_line(one: RoundGain, record: Mapping[str, Any]) -> str:
    """``round 3: 200 labels, accuracy 81.2% (95% CI 78.0–84.1), +2.4 points (+0.6 to +4.2) for 50, 20.8 a point``."""
    line = f"round {one.round}: {one.labels:,} labels"
    if one.accuracy is not None:
        share = one.accuracy
        line += f", accuracy {percent(share.estimate)}% (95% CI {percent(share.low)}–{percent(share.high)})"
    if one.gain is not None:
        line += f", {signed(one.gain.mean)} points {_span(one.gain)} for {one.spent:g}, {_per_point(one)}"
    watch = record.get("watch")
    if watch is not None and watch["alarm"]:
        line += f"; {watch['share']:.0%} of the batch lies where labels look random"
    return line


def _per_point(one: RoundGain) -> str:
    return "no gain" if one.per_point is None else f"{one.per_point:.3g} a point"


def _span(interval: Interval) -> str:
    return f"({signed(interval.low)} to {signed(interval.high)})"


def _verdict(measured: Sequence[RoundGain]) -> list[str]:
    if not measured:
        return ["Accuracy is unknown: give test rows, or a first round of 20 rows or more."]
    first, last = measured[0], measured[-1]
    assert first.accuracy is not None and last.accuracy is not None
    share = last.accuracy
    lines = [
        f"Accuracy {percent(share.estimate)}% (95% CI {percent(share.low)}–{percent(share.high)}) "
        f"on {share.rows:.0f} rows."
    ]
    risen = share.estimate - first.accuracy.estimate
    if len(measured) > 1:
        paid = last.cost - first.cost
        each = f", {paid / (100 * risen):.3g} a point" if risen > 0 else ""
        lines.append(f"The rounds since the first gained {signed(risen)} points for {paid:g}{each}.")
    if last.gain is not None:
        verdict = "not significant"
        if last.gain.low > 0:
            verdict = "significant"
        elif last.gain.high < 0:
            verdict = "a significant loss: check the last answers"
        lines.append(f"The last {last.spent:g} gained {signed(last.gain.mean)} points {_span(last.gain)}, {verdict}.")
    return lines


def _row(one: RoundGain, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Cells, each with its interval."""
    share, gain, watch = one.accuracy, one.gain, record.get("watch")
    none = ("–", "")
    return [
        (str(one.round), ""), (f"{one.labels:,}", ""), (f"{one.cost:g}", ""),
        none if share is None else (percent(share.estimate), f"{percent(share.low)} to {percent(share.high)}"),
        none if gain is None else (signed(gain.mean), f"{signed(gain.low)} to {signed(gain.high)}"),
        none if one.per_point is None else (f"{one.per_point:.3g}", ""),
        none if watch is None else (f"{watch['share']:.0%}", f"({watch['random_share']:.0%})"),
    ]  # fmt: skip


def _alt_text(measured: Sequence[RoundGain]) -> str:
    """The curve as text, for screen readers."""
    shown = [one for one in measured if one.accuracy is not None]
    return "; ".join(f"{one.labels} labels, {percent(one.accuracy.estimate)} percent" for one in shown if one.accuracy)


def _curve(measured: Sequence[RoundGain]) -> Markup:
    shares = [one.accuracy for one in measured if one.accuracy is not None]
    at = [one.labels for one in measured]
    with drawing("campaign", 3.2) as (figure, result):
        ax = figure.add_subplot()
        ax.fill_between(
            at, [100 * one.low for one in shares], [100 * one.high for one in shares], color=RIGHT, alpha=0.18, lw=0,
            label="95% interval",
        )  # fmt: skip
        ax.plot(at, [100 * one.estimate for one in shares], color=RIGHT, lw=1.8, marker="o", label="accuracy")
        ax.axhline(100 * shares[0].estimate, color=GREY, lw=1, ls=":", label="after the first round")
        ax.set(xlabel="labels", ylabel="accuracy, %")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside upper left", ncols=3)
    return result[0]
