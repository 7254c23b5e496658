"""The options of ``us.active.Loop`` and of ``understudy campaign``, one field each; this file loads without PyTorch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from understudy.acquisition.strategies import NAMES
from understudy.io.data_options import FILES
from understudy.methods import NAMES as METHOD_NAMES
from understudy.store.option_fields import check_options, option
from understudy.training.options import AUTO


@dataclass(frozen=True)
class LoopOptions:
    budget: int = option(help="Labels to request in all, the start included.", typed=int, least=1)
    start: int = option(50, help="Rows of the first round, drawn at random.", typed=int, least=0)
    batch: int = option(50, help="Rows of every further round, picked by the strategy.", typed=int, least=1)
    seed: int = option(0, help="Same seed, same result.", typed=int)
    stop_after: int | None = option(
        None, help="Stop after so many rounds in a row that change few predictions.", typed=int | None, least=1,
    )  # fmt: skip
    stop_change: float = option(0.01, help="Share of the predictions that counts as few.", typed=float, least=0)
    warm_start: bool = option(False, help="Start each round from the student of the last one.")
    ema_decay: float = option(0.999, help="Of the moving average that s_badge and lhd need.")
    ema_warmup: bool = option(True, help="Whether the moving average warms up.")
    held_out: bool = option(
        False, help="Without test rows, cross-validate on the rows drawn at random.", may_differ=True
    )
    progress: bool = option(True, help="Print a line per round.", may_differ=True)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class CampaignOptions(LoopOptions):
    pool: Path = option(help="Rows that may be labelled.", typed=Path)
    out: Path = option(help="The campaign's folder; the same command continues there.", typed=Path)
    gold: list[str] | None = option(
        None, help="Trusted labels; again with +FILE for the labels of a chosen batch.", typed=list[str] | None
    )
    test: Path | None = option(None, help="Test set.", typed=Path | None, panel=FILES)
    strategy: str = option("margin", help=f"One of {', '.join(NAMES)}.", typed=str)
    label: Literal["file", "page"] = option(
        "file", help="Where people label: a file per round, or the label page.", typed=Literal["file", "page"]
    )
    answers: Path | None = option(
        None, typed=Path | None,
        help="A file of id and label (or teacher_label, of understudy ask), now or later: its rows are not waited for.",
    )  # fmt: skip
    from_log: bool = option(False, help="The pool is the log of understudy serve: rows it deferred.", typed=bool)
    price: float = option(1.0, help="Of one label, for the cost per point of accuracy.", typed=float, least=0)
    method: str | None = option(
        None, typed=str | None,
        help=f"Train on the pool's own imperfect labels too, by one of {', '.join(METHOD_NAMES)}. Default: on gold "
        "and new labels alone.",
    )  # fmt: skip
    method_options: list[str] | None = option(
        None, help="A setting of the method; repeat for more.", typed=list[str] | None, flag="option"
    )
    student: str = option(
        AUTO, typed=str,
        help="A net and its sizes: linear, mlp:128,128, lenet…; hf:FOLDER, a pretrained net that reads --text; auto.",
    )  # fmt: skip
