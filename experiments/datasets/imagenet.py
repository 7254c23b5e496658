"""ImageNet (ILSVRC 2012) as class folders: ``imagenet/train/<class>/*.JPEG`` and ``imagenet/val/<class>/*.JPEG``."""

from pathlib import Path

import numpy as np
from torch import Tensor

from experiments.datasets.folders import find
from experiments.datasets.form import Data, as_labels
from experiments.datasets.pictures import Pictures
from understudy.errors import UnderstudyError

SIDE = 224
KINDS = {".jpeg", ".jpg", ".png"}
HOW = "download ILSVRC 2012 from https://image-net.org (an account is needed) into class folders imagenet/train, /val"


def imagenet() -> Data:
    folder = find(["imagenet"], HOW)
    classes = class_names(folder / "train")
    x, y = read_folder(folder / "train", classes)
    x_test, y_test = read_folder(folder / "val", classes)
    # By class in the folders, but "the first N" of the papers must hold every class: one fixed shuffle.
    order = np.random.default_rng(0).permutation(len(y))
    x.paths = [x.paths[place] for place in order]
    return Data(x, y[order], x_test, y_test, len(classes))


def class_names(folder: Path) -> list[str]:
    names = sorted(path.name for path in folder.glob("*") if path.is_dir())
    if not names:
        raise UnderstudyError(f"{folder} has no class folders; {HOW}")
    return names


def read_folder(folder: Path, classes: list[str]) -> tuple[Pictures, Tensor]:
    """Images in the order of their class, then of their name. A class of the other split must be here too."""
    paths: list[Path] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        found = sorted(path for path in (folder / name).glob("*") if path.suffix.lower() in KINDS)
        if not found:
            raise UnderstudyError(f"{folder / name} holds no images; {HOW}")
        paths += found
        labels += [number] * len(found)
    return Pictures(paths, SIDE), as_labels(np.array(labels))
