"""Image files as a map-style Dataset: decoded on demand, so that a set larger than memory is no trouble."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UnderstudyError


class Pictures:
    """``pictures[i]``: (3, side, side) in [0, 1]. The shorter side is scaled to ``side``, the middle is kept."""

    def __init__(self, paths: Sequence[Path], side: int) -> None:
        self.paths, self.side = paths, side

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        from PIL import Image, UnidentifiedImageError

        path = self.paths[index]
        try:
            with Image.open(path) as picture:
                image = picture.convert("RGB")
        except (OSError, UnidentifiedImageError) as error:
            raise UnderstudyError(f"{path} cannot be read as an image: {error}; get it again") from error
        scale = self.side / min(image.size)
        width, height = (max(self.side, round(size * scale)) for size in image.size)
        left, top = (width - self.side) // 2, (height - self.side) // 2
        image = image.resize((width, height), Image.Resampling.BILINEAR)
        image = image.crop((left, top, left + self.side, top + self.side))
        return torch.from_numpy(np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255)
