"""CelebA, male or female: ``celeba/img_align_celeba/*.jpg``, ``list_attr_celeba.txt``, ``list_eval_partition.txt``.

Train and test are the official partitions 0 and 2. The papers do not say at which size they train; here 64 × 64.
"""

from pathlib import Path

import numpy as np
from torch import Tensor

from experiments.datasets.folders import find
from experiments.datasets.form import Data, as_labels
from experiments.datasets.pictures import Pictures
from understudy.errors import UnderstudyError

SIDE, ATTRIBUTE = 64, "Male"
HOW = (
    "download CelebA's aligned images, list_attr_celeba.txt and list_eval_partition.txt from "
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (its terms must be accepted) into a folder celeba/"
)


def celeba() -> Data:
    folder = find(["celeba"], HOW)
    labels = read_attribute(folder / "list_attr_celeba.txt", ATTRIBUTE)
    partition = read_partition(folder / "list_eval_partition.txt")
    x, y = _part(folder, labels, partition, 0)
    x_test, y_test = _part(folder, labels, partition, 2)
    return Data(x, y, x_test, y_test, 2)


def _part(folder: Path, labels: dict[str, int], partition: dict[str, int], wanted: int) -> tuple[Pictures, Tensor]:
    names = [name for name, part in partition.items() if part == wanted]
    missing = next((name for name in names if name not in labels), None)
    if missing:
        raise UnderstudyError(f"{folder}/list_attr_celeba.txt has no row for {missing}; get both lists again")
    pictures = Pictures([folder / "img_align_celeba" / name for name in names], SIDE)
    return pictures, as_labels(np.array([labels[name] for name in names]))


def read_attribute(path: Path, attribute: str) -> dict[str, int]:
    """File name -> 0 or 1. The file: a count, the attributes' names, then one row per image of -1 and 1."""
    lines = _lines(path)
    names = lines[1].split() if len(lines) > 1 else []
    if attribute not in names:
        raise UnderstudyError(f"{path} has no attribute {attribute!r} in its second line; get it again")
    place = names.index(attribute) + 1
    return {words[0]: int(words[place] == "1") for words in (line.split() for line in lines[2:]) if words}


def read_partition(path: Path) -> dict[str, int]:
    return {name: int(part) for name, part in (line.split() for line in _lines(path) if line.strip())}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UnderstudyError(f"cannot read {path}: {error.strerror}; {HOW}") from error
