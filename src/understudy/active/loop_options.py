"""The options of ``us.active.Loop`` and of ``understudy campaign``, one field each; this file loads without PyTorch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from understudy.acquisition.strategies import NAMES
from understudy.io.data_options import FILES
from understudy.methods import NAMES as METHOD_NAMES
from understudy.store.option_fields import OptionTable, option, typed_option
from understudy.training.options import AUTO


@dataclass(frozen=True)
class LoopOptions(OptionTable):
    budget: int = typed_option(help="Labels to request in all, the start included.", least=1)
    start: int = typed_option(50, help="Rows of the first round, drawn at random.", least=0)
    batch: int = typed_option(50, help="Rows of every further round, picked by the strategy.", least=1)
    seed: int = typed_option(0, help="Same seed, same result.")
    stop_after: int | None = typed_option(None, help="Stop after so many rounds in a row of few changes.", least=1)
    stop_change: float = typed_option(0.01, help="Share of the predictions that counts as few.", least=0)
    warm_start: bool = option(False, help="Start each round from the student of the last one.")
    ema_decay: float = option(0.999, help="Of the moving average that s_badge and lhd need.")
    ema_warmup: bool = option(True, help="Whether the moving average warms up.")
    held_out: bool = option(False, help="Without test rows, cross-validate on rows drawn at random.", may_differ=True)
    progress: bool = option(True, help="Print a line per round.", may_differ=True)


@dataclass(frozen=True, kw_only=True)
class CampaignOptions(LoopOptions):
    pool: Path = typed_option(help="Rows that may be labelled.")
    out: Path = typed_option(help="The campaign's folder; the same command continues there.")
    gold: list[str] | None = typed_option(None, help="Trusted labels; again with +FILE for those of a chosen batch.")
    test: Path | None = typed_option(None, help="Test set.", panel=FILES)
    strategy: str = typed_option("margin", help=f"One of {', '.join(NAMES)}.")
    label: Literal["file", "page"] = typed_option("file", help="Where people label: a file per round, or the page.")
    answers: Path | None = typed_option(None, help="A file of id and label, or of understudy ask, now or later.")
    from_log: bool = typed_option(False, help="The pool is the log of understudy serve: rows it deferred.")
    price: float = typed_option(1.0, help="Of one label, for the cost per point of accuracy.", least=0)
    method: str | None = typed_option(None, help=f"Train on the pool's labels too, by {', '.join(METHOD_NAMES)}.")
    method_options: list[str] | None = typed_option(None, help="Of the method; repeat for more.", flag="option")
    student: str = typed_option(AUTO, help="linear, mlp:128,128, lenet…; hf:FOLDER, a net that reads --text; auto.")
