"""Bytes as a bad disk, a broken download or an enemy leaves them."""

import random

_INTERESTING = (b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\n", b'"', b"\xc3")


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Never the content itself, unless it is empty."""
    if not content:
        return draw.randbytes(draw.randrange(1, 40))
    while True:
        changed = draw.choice([_cut, _flip, _flip, _flip, _overwrite, _insert, _remove, _zero, _twice])(
            bytearray(content), draw
        )
        if bytes(changed) != content:
            return bytes(changed)


def _cut(content: bytearray, draw: random.Random) -> bytearray:
    # Also to nothing, and by the last byte alone.
    return content[: draw.choice([0, 1, len(content) - 1, draw.randrange(len(content))])]


def _flip(content: bytearray, draw: random.Random) -> bytearray:
    # Footers and headers hold what a reader believes first.
    low, high = draw.choice([(0, len(content)), (0, len(content)), (-min(600, len(content)), 0)])
    for _ in range(draw.choice([1, 1, 2, 8, 64])):
        content[draw.randrange(low, high)] ^= 1 << draw.randrange(8)
    return content


def _overwrite(content: bytearray, draw: random.Random) -> bytearray:
    place, what = draw.randrange(len(content)), draw.choice(_INTERESTING)
    content[place : place + len(what)] = what
    return content


def _insert(content: bytearray, draw: random.Random) -> bytearray:
    place = draw.randrange(len(content) + 1)
    content[place:place] = draw.choice([*_INTERESTING, draw.randbytes(5)])
    return content


def _remove(content: bytearray, draw: random.Random) -> bytearray:
    place = draw.randrange(len(content))
    del content[place : place + draw.choice([1, 2, 16, 200])]
    return content


def _zero(content: bytearray, draw: random.Random) -> bytearray:
    # A block that was never written.
    place = draw.randrange(len(content))
    end = min(len(content), place + draw.choice([4, 64, 512]))
    content[place:end] = bytes(end - place)
    return content


def _twice(content: bytearray, draw: random.Random) -> bytearray:
    place = draw.randrange(len(content))
    return content + content[place:]
