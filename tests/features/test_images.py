"""Images of many kinds to one size, and files that are not what they say."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy.errors import UnderstudyError
from understudy.features import images
from understudy.features.featuriser import FeatureOptions, Featuriser

Image = pytest.importorskip("PIL.Image")
GRADIENT = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5


def _bytes(array: np.ndarray[Any, Any], kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, kind, **options)
    return buffer.getvalue()


def _objects(*values: Any) -> dict[str, Any]:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return {"image": column}


def _fit(columns: dict[str, Any], folder: Path = Path(), **more: Any) -> Featuriser:
    return Featuriser.fit(columns, FeatureOptions(image="image", **more), where="t.csv", folder=folder)


def _rows(featuriser: Featuriser, columns: dict[str, Any], folder: Path = Path()) -> torch.Tensor:
    rows = featuriser(columns, where="t.csv", folder=folder)
    assert not isinstance(rows, np.ndarray)
    return rows.take(torch.arange(len(rows)))


def test_pixels_by_hand() -> None:
    columns = _objects(_bytes(GRADIENT))
    fitted = _fit(columns)
    assert fitted.shape == (3, 4, 4)
    x = _rows(fitted, columns)
    assert x.dtype == torch.float32
    # Channels first; 5 · (12 · row + 3 · column + channel) / 255.
    assert x[0, 2, 1, 3].item() == pytest.approx(5 * (12 + 9 + 2) / 255)
    assert (x[0].permute(1, 2, 0) * 255).round().byte().equal(torch.from_numpy(GRADIENT))


def test_paths_bytes_and_both(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    content = _bytes(GRADIENT)
    (tmp_path / "deep" / "ä 1.png").write_bytes(content)
    path = "deep/ä 1.png"
    columns = _objects(path, content, {"bytes": content, "path": "gone.png"}, {"bytes": None, "path": path})
    x = _rows(_fit(columns, tmp_path), columns, tmp_path)
    assert (x == x[0]).all()
    texts = {"image": np.array([path])}
    assert _rows(_fit(texts, tmp_path), texts, tmp_path).equal(x[:1])


def test_all_become_the_first_ones_size_and_mode() -> None:
    grey = _bytes(np.full((4, 6), 100, dtype=np.uint8))
    colour = _bytes(np.full((9, 9, 3), 50, dtype=np.uint8))
    clear = _bytes(np.full((2, 2, 4), 50, dtype=np.uint8))
    assert _rows(_fit(_objects(grey)), _objects(grey, colour, clear)).shape == (3, 1, 4, 6)
    x = _rows(_fit(_objects(colour)), _objects(grey, colour, clear))
    assert x.shape == (3, 3, 9, 9)
    np.testing.assert_allclose(x[:, 0, 0, 0], np.array([100, 50, 50]) / 255, atol=1e-6)
    asked = _fit(_objects(colour), image_size=(5, 7), image_mode="L")
    assert asked.shape == (1, 5, 7) == _rows(asked, _objects(clear)).shape[1:]


def test_orientation_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side: turn by 90° clockwise
    turned = _bytes(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40, exif=exif)
    fitted = _fit(_objects(turned))
    assert fitted.shape == (1, 3, 2)
    assert (_rows(fitted, _objects(turned))[0, 0] * 255 / 40).round().tolist() == [[3, 0], [4, 1], [5, 2]]


def test_decoded_now_or_with_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = _objects(*(_bytes(GRADIENT + number) for number in range(5)))
    fitted = _fit(columns)
    now = fitted(columns, where="t.csv")
    monkeypatch.setattr(images, "DECODED_BYTES", 100)
    later = fitted(columns, where="t.csv")
    index = torch.tensor([4, 0, 0, 2])
    assert not now.per_row and later.per_row and later.pixels is None
    assert now.take(index).equal(later.take(index))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_truncated_images_name_the_file(tmp_path: Path, kind: str, rng: np.random.Generator) -> None:
    content = _bytes(rng.integers(0, 255, (40, 40, 3), dtype=np.uint8), kind)
    (tmp_path / "good").write_bytes(content)
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    fitted = _fit(_objects("good"), tmp_path)
    assert fitted.shape == (3, 40, 40)
    with pytest.raises(UnderstudyError, match=r"^t\.csv: column 'image' row 1 \(.*cut\) cannot be read as an image"):
        fitted(_objects("good", "cut"), where="t.csv", folder=tmp_path)


def test_what_is_no_image(tmp_path: Path) -> None:
    fitted = _fit(_objects(_bytes(GRADIENT)))
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "folder").mkdir()
    for cell, message in [
        (b"", "cannot be read as an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0", "cannot be read as an image"),
        ("text.png", "cannot be read as an image"),
        ("folder", "there is no file"),
        ("gone.png", "there is no file"),
        ("/etc/hostname", "leads out of"),
        ("../secret.png", "leads out of"),
        ("a\x00b", "."),
        (None, "holds no image"),
        (3, "holds no image"),
    ]:
        with pytest.raises(UnderstudyError, match=message) as caught:
            fitted(_objects(cell), where="t.csv", folder=tmp_path)
        assert "row 0" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(UnderstudyError, match="no paths and no bytes"):
        fitted({"image": np.arange(3)}, where="t.csv")
    with pytest.raises(UnderstudyError, match="more than 8 bits"):
        fitted(_objects(_bytes(np.full((4, 4), 40_000, dtype=np.uint16))), where="t.csv")


def test_sizes_are_judged_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # 30,000 × 30,000 pixels of one colour: 2.7 GB from a few kilobytes, were it decoded.
    header = bytearray(_bytes(np.zeros((4, 4), dtype=np.uint8)))
    header[16:24] = (30_000).to_bytes(4, "big") * 2
    import zlib

    header[29:33] = zlib.crc32(header[12:29]).to_bytes(4, "big")
    with pytest.raises(UnderstudyError, match=r"30000 × 30000 pixels, more than|decompression bomb"):
        _fit(_objects(bytes(header)))
    monkeypatch.setattr(images, "MAX_PIXELS", 15)
    with pytest.raises(UnderstudyError, match="4 × 4 pixels, more than 15"):
        _fit(_objects(_bytes(GRADIENT)))


def test_a_large_first_image_is_made_small(capsys: pytest.CaptureFixture[str]) -> None:
    columns = _objects(_bytes(np.zeros((100, 20), dtype=np.uint8)))
    assert _fit(columns).shape == (1, 64, 64)
    assert "resized from 20 × 100 to 64 × 64 pixels" in capsys.readouterr().err
    assert _fit(columns, image_size=(100, 20)).shape == (1, 100, 20)
    assert _fit(_objects(_bytes(np.zeros((64, 20), dtype=np.uint8)))).shape == (1, 64, 20)


def test_many_images_show_progress_from_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    columns = _objects(*[_bytes(GRADIENT)] * 201)
    _fit(columns)(columns, where="t.csv")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines] == ["0/201", "100/201", "200/201"]


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(UnderstudyError, match=r'pip install .*\[images\]"'):
        _fit(_objects(b"any"))


def test_flipped_bits_never_show_a_traceback(rng: np.random.Generator) -> None:
    whole = {
        kind: _bytes(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8), kind)
        for kind in ("PNG", "JPEG", "WEBP", "TIFF", "GIF")
    }
    fitted = _fit(_objects(whole["PNG"]))
    for content in whole.values():
        for _ in range(60):
            damaged = bytearray(content)
            for place in rng.integers(0, len(damaged), 3):
                damaged[place] ^= 1 << int(rng.integers(8))
            try:
                x = _rows(fitted, _objects(bytes(damaged)))
            except UnderstudyError as error:
                assert "\n" not in str(error)
            else:
                assert x.shape == (1, 3, 12, 12)
