"""From a vector per token to one per text, as a folder of the sentence-transformers kind asks for it.

Such a folder lists its steps in ``modules.json``: a transformer, a pooling, perhaps a normalisation. A plain Hugging
Face folder has none: its tokens are averaged. Only settings are read here, no code of the folder's is run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.store.files import read_json

MODES = ("mean", "cls", "max")
# Settings files of the older kind have a flag for each, in this order.
OLD_MODES = {"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean"}
OLD_MODES |= {f"pooling_mode_{name}": name for name in ("mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")}


@dataclass(frozen=True)
class Layout:
    """How a folder wants its texts read."""

    transformer: Path
    modes: tuple[str, ...] = ("mean",)
    normalise: bool = False
    max_tokens: int | None = None
    lower: bool = False
    prompt: str = ""

    def pool(self, states: Tensor, mask: Tensor) -> Tensor:
        """``states (B, T, D)``, ``mask (B, T)``: 1 for a token, 0 for padding, which comes last."""
        shown = mask.unsqueeze(-1).bool()
        pooled = torch.cat([_pool(states, shown, mode) for mode in self.modes], dim=-1)
        return torch.nn.functional.normalize(pooled, dim=-1) if self.normalise else pooled


def _pool(states: Tensor, shown: Tensor, mode: str) -> Tensor:
    if mode == "cls":
        return states[:, 0]
    if mode == "max":
        # An empty text has no token to take the largest of.
        return states.masked_fill(~shown, -torch.inf).amax(1).nan_to_num(neginf=0.0)
    return states.masked_fill(~shown, 0).sum(1) / shown.sum(1).clamp(min=1)


def read_layout(folder: Path) -> Layout:
    if not (folder / "modules.json").is_file():
        return Layout(folder)
    try:
        return _sentence_layout(folder)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnderstudyError(
            f"{folder}: the settings of the encoder are damaged ({error!r}); fetch it anew"
        ) from error


def _sentence_layout(folder: Path) -> Layout:
    steps = {
        str(step["type"]).rpartition(".")[2]: _inside(folder, str(step["path"])) for step in _read(folder, "modules")
    }
    unknown = [kind for kind in steps if kind not in ("Transformer", "Pooling", "Normalize")]
    if unknown or "Transformer" not in steps:
        what = f"the step {unknown[0]!r}" if unknown else "no transformer"
        raise UnderstudyError(f"{folder} has {what}; use an encoder of a transformer, a pooling and a normalisation")
    transformer = steps["Transformer"]
    settings = _read(transformer, "sentence_bert_config")
    more = _read(folder, "config_sentence_transformers")
    prompt = more.get("default_prompt_name")
    longest = settings.get("max_seq_length")
    return Layout(
        transformer,
        modes=_modes(_read(steps["Pooling"], "config")) if "Pooling" in steps else ("mean",),
        normalise="Normalize" in steps,
        max_tokens=None if longest is None else int(longest),
        lower=bool(settings.get("do_lower_case", False)),
        prompt="" if prompt is None else str(more["prompts"][prompt]),
    )


def _modes(settings: dict[str, Any]) -> tuple[str, ...]:
    given = settings.get("pooling_mode") or [mode for key, mode in OLD_MODES.items() if settings.get(key)] or "mean"
    modes = (given,) if isinstance(given, str) else tuple(given)
    for mode in modes:
        if mode not in MODES:
            raise UnderstudyError(f"the encoder pools by {mode!r}; use one that pools by {', '.join(MODES)}")
    return modes


def _read(folder: Path, name: str) -> Any:
    path = folder / f"{name}.json"
    return read_json(path) if path.is_file() else {}


def _inside(folder: Path, name: str) -> Path:
    if name not in ("", Path(name).name) or name == "..":
        raise UnderstudyError(f"{folder}/modules.json names {name!r}, which is not a folder beside it; fetch it anew")
    return folder / name
