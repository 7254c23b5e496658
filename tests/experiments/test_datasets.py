"""Every loader against tiny files in the official format, written here byte by byte."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.datasets import LOADERS, load, rows
from experiments.datasets.celeba import celeba
from experiments.datasets.cifar import cifar10, cifar100
from experiments.datasets.imagenet import imagenet
from experiments.datasets.imdb import imdb
from experiments.datasets.mnist import fashion_mnist, mnist
from experiments.datasets.svhn import svhn
from PIL import Image
from scipy.io import savemat

import understudy as us
from understudy.errors import UnderstudyError


def cifar_record(labels: list[int], red: int, green: int, blue: int) -> bytes:
    return bytes(labels) + bytes([red]) * 1024 + bytes([green]) * 1024 + bytes([blue]) * 1024


def write_idx(path: Path, values: np.ndarray) -> None:
    head = struct.pack(">BBBB", 0, 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    content = head + values.astype(np.uint8).tobytes()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def picture(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (90, 70)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def test_cifar10_reads_the_binary_version(data_folder: Path) -> None:
    folder = data_folder / "cifar-10-batches-bin"
    folder.mkdir()
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin").write_bytes(cifar_record([number], 255, 0, 51 * number))
    (folder / "test_batch.bin").write_bytes(cifar_record([9], 0, 255, 0) + cifar_record([0], 0, 0, 0))
    data = cifar10()
    assert data.y.tolist() == [1, 2, 3, 4, 5] and data.y_test.tolist() == [9, 0]
    assert data.shape == (3, 32, 32) and data.classes == 10
    assert data.x[1, :, 31, 31].tolist() == pytest.approx([1.0, 0.0, 0.4])
    assert data.x_test[0, :, 0, 5].tolist() == [0, 1, 0]


def test_cifar100_takes_the_fine_label(data_folder: Path) -> None:
    folder = data_folder / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(cifar_record([3, 77], 0, 0, 255))
    (folder / "test.bin").write_bytes(cifar_record([19, 99], 255, 255, 255))
    data = cifar100()
    assert (data.y.item(), data.y_test.item(), data.classes) == (77, 99, 100)


def test_a_cut_off_cifar_file_is_refused(data_folder: Path) -> None:
    folder = data_folder / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(cifar_record([3, 77], 0, 0, 255)[:-1])
    with pytest.raises(UnderstudyError, match=r"train.bin is not made of records of 3074 bytes"):
        cifar100()


def test_svhn_calls_ten_zero(data_folder: Path) -> None:
    (data_folder / "svhn").mkdir()
    images = np.zeros((32, 32, 3, 2), dtype=np.uint8)
    images[4, 7, 2, 1] = 255
    for name in ("train", "test"):
        savemat(data_folder / "svhn" / f"{name}_32x32.mat", {"X": images, "y": np.array([[1], [10]])})
    data = svhn()
    assert data.y.tolist() == [1, 0]
    assert data.x.nonzero().tolist() == [[1, 2, 4, 7]]


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(("name", "loader"), [("mnist", mnist), ("fashion_mnist", fashion_mnist)])
def test_idx_files_plain_and_gzipped(data_folder: Path, name: str, loader: Callable[[], object], ending: str) -> None:
    images = np.arange(2 * 28 * 28).reshape(2, 28, 28) % 256
    for part, labels in (("train", [7, 3]), ("t10k", [1, 0])):
        write_idx(data_folder / name / f"{part}-images-idx3-ubyte{ending}", images)
        write_idx(data_folder / name / f"{part}-labels-idx1-ubyte{ending}", np.array(labels))
    data = LOADERS[name]()
    assert data.x.shape == (2, 1, 28, 28) and data.y.tolist() == [7, 3] and data.y_test.tolist() == [1, 0]
    assert torch.equal(data.x.flatten() * 255, torch.from_numpy(images.reshape(-1)).float().round())


def test_a_cut_off_idx_file_is_refused(data_folder: Path) -> None:
    write_idx(data_folder / "mnist" / "train-images-idx3-ubyte", np.zeros((2, 28, 28)))
    path = data_folder / "mnist" / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UnderstudyError, match=r"holds 1563 values for shape \(2, 28, 28\)"):
        mnist()


def test_celeba_by_its_lists(data_folder: Path) -> None:
    folder = data_folder / "celeba"
    for number, colour in enumerate([(255, 0, 0), (0, 255, 0), (0, 0, 255)], start=1):
        picture(folder / "img_align_celeba" / f"00000{number}.jpg", colour, size=(178, 218))
    (folder / "list_attr_celeba.txt").write_text(
        "3\nBald Male Young\n000001.jpg -1  1 -1\n000002.jpg  1 -1  1\n000003.jpg -1  1  1\n"
    )
    (folder / "list_eval_partition.txt").write_text("000001.jpg 0\n000002.jpg 2\n000003.jpg 0\n")
    data = celeba()
    assert data.y.tolist() == [1, 1] and data.y_test.tolist() == [0] and data.shape == (3, 64, 64)
    assert data.x_test[0][1].mean() > 0.9 > 0.1 > data.x_test[0][0].mean()


def test_imagenet_class_folders_feed_a_pool(data_folder: Path) -> None:
    colours = {"n01": (255, 0, 0), "n02": (0, 0, 255)}
    for name, colour in colours.items():
        for split, count in (("train", 2), ("val", 1)):
            for number in range(count):
                picture(data_folder / "imagenet" / split / name / f"{number}.JPEG", colour)
    data = imagenet()
    assert sorted(data.y.tolist()) == [0, 0, 1, 1] and data.y_test.tolist() == [0, 1] and data.shape == (3, 224, 224)
    for place, label in enumerate(data.y.tolist()):
        assert data.x[place].mean((1, 2)).argmax().item() == 2 * label
    pool = us.Pool(rows(data.x, torch.tensor([1, 2])), torch.full((2, 2), 0.5))
    assert pool.rows.take(torch.tensor([0])).shape == (1, 3, 224, 224)


def test_imdb_from_the_published_folder(data_folder: Path) -> None:
    for split in ("train", "test"):
        for name in ("neg", "pos"):
            folder = data_folder / "aclImdb" / split / name
            folder.mkdir(parents=True)
            for number in range(3):
                (folder / f"{number}_1.txt").write_text(f"{split} {name} {number}", encoding="utf-8")
    found = imdb()
    assert sorted(found.labels) == [0, 0, 0, 1, 1, 1]
    assert all(("pos" in text) == bool(label) for text, label in zip(found.texts, found.labels, strict=True))
    assert all(text.startswith("test") for text in found.test_texts)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "cifar100", "svhn", "celeba", "imagenet"])
def test_missing_data_is_one_line_that_says_how_to_get_it(data_folder: Path, name: str) -> None:
    with pytest.raises(UnderstudyError, match=r"get |download ") as error:
        LOADERS[name]()
    assert "\n" not in str(error.value) and "UNDERSTUDY_DATA" in str(error.value)


def test_pooled_images_and_two_classes() -> None:
    data = load("digits_binary", side=4)
    assert data.x.shape[1:] == (1, 4, 4) and data.classes == 2
    assert torch.equal(data.y, torch.isin(load("digits").y, torch.tensor([2, 7])).long())
