"""Image folders and image columns: broken files, false sizes, odd modes, and paths that lead elsewhere."""

import io
import json
import random
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from fuzz.damage import damaged
from fuzz.good import check_examples
from understudy.features.featuriser import FeatureOptions
from understudy.io.read import read_examples

MODES = ["L", "RGB", "RGBA", "1", "P", "CMYK", "I;16", "F", "LA"]
FORMATS = ["PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM"]
TRICKS = [
    "../secret.png",
    "/etc/passwd",
    "a/../../secret.png",
    "link.png",
    "away/secret.png",
    "",
    ".",
    "\0.png",
    "a" * 300,
]


def encoded(draw: random.Random, *, odd: bool) -> bytes:
    mode = draw.choice(MODES) if odd else "L"
    size = draw.choice([(1, 1), (3, 5), (300, 1)]) if odd else (4, 4)
    sink = io.BytesIO()
    image = Image.new(mode, size)
    try:
        image.save(sink, draw.choice(FORMATS) if odd else "PNG")
    except (OSError, ValueError, KeyError):
        Image.new("L", size).save(sink := io.BytesIO(), "PNG")
    return sink.getvalue()


def claims_to_be_huge(draw: random.Random) -> bytes:
    """A PNG of any size on paper, with the right checksum and hardly any pixels."""
    side = draw.choice([1, 600, 9_000, 60_000, 2**31 - 1])
    head = struct.pack(">IIBBBBB", side, draw.choice([side, 1]), 8, 0, 0, 0, 0)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    pixels = zlib.compress(bytes(draw.choice([10, 1 << 20])))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def bad_image(draw: random.Random) -> bytes:
    what = draw.choice(["damaged", "damaged", "huge", "odd", "odd", "text", "empty", "script", "svg"])
    return {
        "damaged": lambda: damaged(encoded(draw, odd=True), draw),
        "huge": lambda: claims_to_be_huge(draw),
        "odd": lambda: encoded(draw, odd=True),
        "text": lambda: b"hello",
        "empty": lambda: b"",
        "script": lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(a) run\n",
        "svg": lambda: b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><svg>&b;</svg>',
    }[what]()


def image_folder(draw: random.Random, given: Path, made: Path) -> None:
    folder = given / "images"
    names = [f"{draw.choice(['cat', 'dog'])}/{row}.png" for row in range(5)]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encoded(draw, odd=False))
    (given / "secret.png").write_bytes(encoded(draw, odd=False))
    first = folder / names[0]
    what = draw.choice(
        ["content", "content", "content", "link out", "link in", "outside", "folder", "loop", "name", "hidden"]
    )
    if what == "content":
        first.with_suffix(draw.choice([".png", ".jpg", ".gif", ".txt", ".tiff"])).write_bytes(bad_image(draw))
    elif what == "link out":
        (folder / "cat").mkdir(exist_ok=True)
        (folder / "cat" / "zz.png").symlink_to(
            draw.choice([given / "secret.png", Path("/etc/passwd"), Path("/dev/zero")])
        )
    elif what == "link in":
        (folder / "zz.png").symlink_to(first)
    elif what == "outside":
        (folder / "zz.png").write_bytes(encoded(draw, odd=False))
    elif what == "folder":
        (folder / "cat" / "zz.png").mkdir(parents=True)
    elif what == "loop":
        (folder / "cat").mkdir(exist_ok=True)
        (folder / "cat" / "more").symlink_to(folder)
    elif what == "name":
        (folder / "cat").mkdir(exist_ok=True)
        name = draw.choice(["a\nb.png", "\x1b[31m.png", "ü.png", "a b.PNG", "-.png", "'.png", "%s.png", "\udcff.png"])
        (folder / "cat" / name).write_bytes(encoded(draw, odd=False))
    else:
        (folder / ".hidden.png").write_bytes(b"hello")
    examples = read_examples(
        gold=folder, features=FeatureOptions(image="image", image_size=draw.choice([None, (4, 4)]))
    )
    assert what != "link out", "followed a link that leads out"
    check_examples(examples)


def image_column(draw: random.Random, given: Path, made: Path) -> None:
    folder = given / "rows"
    folder.mkdir()
    (given / "secret.png").write_bytes(encoded(draw, odd=False))
    (folder / "link.png").symlink_to(given / "secret.png")
    (folder / "away").symlink_to(given)
    (folder / "good.png").write_bytes(encoded(draw, odd=False))
    row, label = draw.randrange(4), [0, 1, 0, 1]
    size = draw.choice([None, (4, 4)])
    trick = draw.choice(TRICKS) if draw.random() < 0.8 else "good.png"
    if draw.random() < 0.5:
        names = ["good.png"] * 4
        names[row] = trick
        path = folder / "rows.jsonl"
        lines = [json.dumps({"image": name, "teacher_label": said}) for name, said in zip(names, label, strict=True)]
        path.write_text("\n".join(lines))
        examples = read_examples(pool=path, features=FeatureOptions(image="image", image_size=size))
        assert trick == "good.png", f"followed {trick!r}"
    else:
        cells: list[object] = [encoded(draw, odd=False)] * 4
        cells[row] = draw.choice([None, bad_image(draw), bad_image(draw), bad_image(draw)])
        path = folder / "rows.parquet"
        as_records = draw.random() < 0.5
        column = [{"bytes": cell, "path": trick} for cell in cells] if as_records else cells
        pq.write_table(pa.table({"image": column, "teacher_label": label}), path)
        examples = read_examples(pool=path, features=FeatureOptions(image="image", image_size=size))
        assert cells[row] is not None or trick == "good.png", "made an image of nothing"
    check_examples(examples)
