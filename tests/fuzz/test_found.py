"""What the families found, one small case each."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from understudy.features.images import image_files
from understudy.io.read import read_examples
from understudy.io.table import read_table

X, Y = torch.zeros(3, 2), torch.tensor([0, 1, 0])


def refused(said: str, call: Any, *args: Any, **named: Any) -> None:
    with pytest.raises(us.UnderstudyError, match=said) as caught:
        call(*args, **named)
    assert len(str(caught.value).splitlines()) == 1


def test_a_message_is_one_short_line_whatever_it_quotes() -> None:
    message = str(us.UnderstudyError("a\nb\x1b[31m\u2028c\ud800" + "x" * 5_000 + "; the cure"))
    assert message.startswith("a b\\x1b[31m\\u2028c\\ud800x") and message.endswith("; the cure")
    assert len(message) < 1_010 and message.isprintable()


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("one number per row", lambda: us.Hard(Y, torch.zeros(3, 2))),
        ("one number per row", lambda: us.Hard(Y, torch.tensor(1.0))),
        ("names of the classes", lambda: us.Votes(Y[:, None], "3")),  # type: ignore[arg-type]
        ("whole number", lambda: us.Votes(Y[:, None], 1 << 40)),
        ("whole number", lambda: us.TopK(Y[:, None], torch.ones(3, 1), None)),  # type: ignore[arg-type]
        ("end below", lambda: us.Hard(torch.tensor([0, 1, 1 << 40]))),
        ("dense tensor of real numbers", lambda: us.Pool(X.to_sparse(), Y)),
        ("dense tensor of real numbers", lambda: us.Pool(X.to(torch.complex64), Y)),
        ("too large for float32", lambda: us.Pool(X.double() + 1e300, Y)),
        ("of shape", lambda: us.Gold(X, Y, ids=np.array(3))),
        ("of shape", lambda: us.Gold(X, Y, ids=np.zeros((3, 1)))),
        ("ids", lambda: us.Gold(X, Y, ids=torch.ones(3, dtype=torch.bfloat16))),
        ("holds 1 more than once", lambda: us.Gold(X, Y, ids=np.array([1, "a", 1], dtype=object))),
        ("gold.chosen", lambda: us.Gold(X, Y, chosen=np.zeros((3, 1)))),
        ("lr=1 must be a number", lambda: us.train(_student(), us.Gold(X, Y), None, us.vanilla(), epochs=1, lr="1")),
        ("64 bits", lambda: us.train(_student(), us.Gold(X, Y), None, us.vanilla(), epochs=1, seed=1 << 70)),
    ],
)  # fmt: skip
def test_arrays(said: str, call: Any) -> None:
    refused(said, call)


def _student() -> torch.nn.Module:
    return us.models.linear(2, 2)


def test_what_was_computed_from_a_map_lies_in_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert us.Pool(mapped * 2, Y).rows.take(torch.arange(3)).shape == (3, 2)
    np.save(tmp_path / "x.npy", np.zeros((3, 2), dtype=">i4"))
    assert read_examples(pool=tmp_path / "x.npy").pool is not None


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.csv", "id,width,teacher_label\na,1,0\n,2,1\n", "column 'id' row 1 is empty"),
        ("p.csv", "id,width,teacher_label\na,1,0\nb,2,inf\n", "row 1 is 'inf'"),
        ("p.csv", "id,width\na,1\nb,2\n", "no file holds labels"),
        ("p.jsonl", '{"width": 1, "teacher_label": 9151314442816847875}\n', "end below"),
    ],
)
def test_files(name: str, content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    refused(said, lambda: read_examples(pool=tmp_path / name).classes)


def test_text_that_is_no_text(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", id=np.array(["a", "\ud800"]), x=np.zeros((2, 1)), teacher_label=np.array([0, 1]))
    refused("half a character", read_examples, pool=tmp_path / "p.npz")
    np.save(tmp_path / "x.npy", np.array(["a"]))
    content = bytearray((tmp_path / "x.npy").read_bytes())
    content[-4:] = b"\xff\xff\xff\xff"
    (tmp_path / "x.npy").write_bytes(content)
    refused("no letters", lambda: read_table(tmp_path / "x.npy").columns["x"])


def test_arrays_of_nothing(tmp_path: Path) -> None:
    header = {"descr": "<U0", "fortran_order": False, "shape": (1 << 40,)}
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    refused("which is none", read_table, tmp_path / "x.npy")


def test_a_path_in_a_record_may_not_follow_a_link_out(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "link.png").symlink_to("/etc/passwd")
    refused("leads out", image_files, [{"bytes": None, "path": "link.png"}], tmp_path / "rows", "here")


def test_a_flipped_bit_in_the_weights_is_found(tmp_path: Path) -> None:
    run = us.train(_student(), us.Gold(X, Y), None, us.vanilla(), epochs=1, out=tmp_path / "run", progress=False)
    path = tmp_path / "run" / "student.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    refused(r"student\.safetensors is damaged", us.Run.load, tmp_path / "run")
    content[-1] ^= 1
    path.write_bytes(content)
    assert us.Run.load(tmp_path / "run").predict(X).equal(run.predict(X))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**config, "class_names": ["a", "b"]}))
    refused(r"config\.json is not as it was written", us.Run.load, tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(
        json.dumps({name: value for name, value in config.items() if name != "manifest_sha256"})
    )
    refused("has no checksum", us.Run.load, tmp_path / "run")


def test_a_training_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    gold = us.Gold(X, torch.tensor([0, 1, 7]))
    refused("class 7", us.train, _student(), gold, None, us.vanilla(), epochs=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    refused("class 7", us.train, _student(), gold, None, us.vanilla(), epochs=1, out=tmp_path / "mine")
    assert list((tmp_path / "mine").iterdir()) == []
