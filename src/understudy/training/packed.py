"""A state of tensors and plain values as one safetensors file: for checkpoints that others write, and nothing pickled.

write_bytes(path, pack(steps.state_dict()))
steps.load_state_dict(unpack(path.read_bytes(), path), path)
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.training.run import state_from_bytes, state_to_bytes

_OUTLINE = "outline.json"
_TENSOR = "tensor number"


def pack(state: Mapping[str, Any]) -> bytes:
    """Tensors by number, and as JSON the outline of what stands where."""
    tensors: list[Tensor] = []

    def outline(value: Any) -> Any:
        if isinstance(value, Tensor):
            tensors.append(value)
            return {_TENSOR: len(tensors) - 1}
        if isinstance(value, Mapping):
            return {name: outline(part) for name, part in value.items()}
        return [outline(part) for part in value] if isinstance(value, list | tuple) else value

    text = json.dumps(outline(state)).encode()
    numbered = {str(number): tensor for number, tensor in enumerate(tensors)}
    return state_to_bytes({**numbered, _OUTLINE: torch.frombuffer(bytearray(text), dtype=torch.uint8)})


def unpack(content: bytes, path: Path) -> dict[str, Any]:
    tensors = state_from_bytes(content, path)

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return tensors[str(value[_TENSOR])] if _TENSOR in value else {k: filled(part) for k, part in value.items()}
        return [filled(part) for part in value] if isinstance(value, list) else value

    if _OUTLINE not in tensors:
        raise UnderstudyError(f"{path} is no state of a session; resume from a checkpoint that has one")
    state: dict[str, Any] = filled(json.loads(bytes(tensors.pop(_OUTLINE).tolist())))
    return state
