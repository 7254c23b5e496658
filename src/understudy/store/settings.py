"""What work was begun with, so that it goes on with the same and not with other data, nets or options.

    settings = as_json({"lr": 0.1, "schedule": schedule, "gold": fingerprint(gold)})     # as a JSON file gives it back
    check_same(stored, settings, folder)                                                  # names the first that differs

This file loads without PyTorch, unless a setting needs a fingerprint (``store/fingerprints.py``).
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from understudy.errors import UnderstudyError

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def as_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives them back: tuples are lists, and what JSON cannot hold is its fingerprint."""
    return dict(json.loads(json.dumps(settings, default=_fingerprint)))


def without_nan(content: Any) -> Any:
    """As JSON gives it back, arrays as lists; what is no number is null there."""
    return json.loads(json.dumps(content, default=lambda array: array.tolist()), parse_constant=lambda name: None)


def check_same(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    where: Any,
    *,
    free: Collection[str] = (),
    hints: Mapping[str, str] | None = None,
) -> None:
    """Refuses to go on with other settings than the work in ``where`` was begun with, but for those in ``free``.

    ``hints``: what may have changed in a setting whose value would tell a user nothing.
    """
    before, now = _flat(before), _flat(as_json(now))
    for name in {**before, **now}:
        if name in free or before.get(name) == now.get(name):
            continue
        values = [before.get(name), now.get(name)]
        hint = (hints or {}).get(name)
        if hint is None and not any(isinstance(value, str) and _FINGERPRINT.fullmatch(value) for value in values):
            hint = f"{values[0]}, now {values[1]}"
        other = f"{name} ({hint})" if hint else name
        cure = "repeat the former settings to go on, or choose a new folder"
        raise UnderstudyError(f"{where} was begun with another {other}; {cure}")


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Groups of settings one by one: ``training.lr``."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= {f"{name}.{inner}": part for inner, part in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def _fingerprint(value: Any) -> str:
    from understudy.store.fingerprints import fingerprint

    return fingerprint(value)
