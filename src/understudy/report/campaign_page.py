"""The page of a campaign: accuracy over labels with intervals, and the gain and cost of each round.

write_campaign_report("camp/report.html", records, price=0.5)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from understudy.active.loop_state import RoundGain, round_gains
from understudy.report.figures import GREY, RIGHT, drawing
from understudy.report.templates import counted, sentences, write_page


def write_campaign_report(
    path: str | Path, records: Sequence[Mapping[str, Any]], *, price: float, message: str = "",
    warnings: Sequence[str] = (), settings: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """``price``: of a label. ``message``: the state of the campaign, in a sentence."""
    rounds = round_gains(records, price)
    measured = [one for one in rounds if one.accuracy is not None]
    write_page(
        path, template="campaign.html.jinja", title="Accuracy gained per label",
        lead=f"{rounds[-1].labels:,} labels in {counted(len(rounds), 'round')}, at a cost of {rounds[-1].cost:g}.",
        verdict=sentences("campaign", "verdict", rounds, message), warnings=list(dict.fromkeys(warnings)),
        settings=settings, curve_svg=_curve(measured) if measured else None, measured=measured,
        rounds=list(zip(rounds, [record.get("watch") for record in records], strict=True)),
    )  # fmt: skip


def _curve(measured: Sequence[RoundGain]) -> Markup:
    shares = [one.accuracy for one in measured if one.accuracy is not None]
    at = [one.labels for one in measured]
    with drawing("campaign", 3.2, legend=3) as (ax, result):
        ax.fill_between(
            at, [100 * one.low for one in shares], [100 * one.high for one in shares], color=RIGHT, alpha=0.18, lw=0,
            label="95% interval",
        )  # fmt: skip
        ax.plot(at, [100 * one.estimate for one in shares], color=RIGHT, lw=1.8, marker="o", label="accuracy")
        ax.axhline(100 * shares[0].estimate, color=GREY, lw=1, ls=":", label="after the first round")
        ax.set(xlabel="labels", ylabel="accuracy, %")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return result[0]
