"""Fingerprints: what is different has different ones, what is the same keeps its own."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import understudy as us
from understudy.store import fingerprints as module
from understudy.store.fingerprints import WHOLE_BYTES, fingerprint, looked_at

THINGS = """
import numpy as np, torch, understudy as us
def scaled(factor):
    return lambda log_p, q: factor * -(q * log_p).sum(-1)
gold = us.Gold(torch.arange(6.).view(3, 2), [0, 1, 0], teacher=[0, 1, 1])
things = [us.slam(), us.slam(lower_bound=0.6), us.gce(g=0.5), us.gce(g=0.6), us.vanilla(loss=scaled(2.0)),
          us.vanilla(loss=scaled(3.0)), gold, us.Pool(np.ones((3, 2)), us.Hard([0, 1, 1], [.1, .2, .3])),
          us.Pool(np.ones((3, 2)), us.Hard([0, 1, 1], [.1, .2, .4])),
          us.Gold(np.ones((2, 2)), [0, 1], ids=np.array(["a", "b"], dtype=object)),
          us.Gold(np.ones((2, 2)), [0, 1], ids=np.array(["a", "c"], dtype=object)),
          torch.nn.CrossEntropyLoss(label_smoothing=0.1), torch.nn.CrossEntropyLoss(label_smoothing=0.2),
          torch.tensor(0.70001), torch.tensor(0.70002), [[1], 2], [[1, 2]], np.random.default_rng(0), {"b", "a"},
          us.slam(alpha=torch.tensor(0.71234567)), torch.eye(2).to_sparse(),
          torch.nn.Linear(2, 2).requires_grad_(False).eval()]
things[-1].load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
"""


@pytest.mark.slow
def test_fingerprints_tell_things_apart_and_last() -> None:
    """All different; and the same in another process, where every address and hash seed is another."""
    scope: dict[str, list[object]] = {}
    exec(THINGS, scope)  # type: ignore[arg-type]
    mine = [fingerprint(thing) for thing in scope["things"]]
    assert len(set(mine)) == len(mine)
    ask = "from understudy.store.fingerprints import fingerprint\nprint(*map(fingerprint, things))"
    script = textwrap.dedent(THINGS) + ask
    theirs = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    # Functions know their module, which is not this one there.
    assert theirs[:4] == mine[:4] and theirs[6:] == mine[6:]


def test_large_arrays_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE_BYTES", 1000)
    x = torch.zeros(5000, 2)
    before = fingerprint(x)
    assert fingerprint(x.clone()) == before != fingerprint(x[:-1])
    x[-1] = 1.0
    assert fingerprint(x) != before
    assert fingerprint(np.zeros(3)) != fingerprint(np.zeros(4))


def test_a_memory_map_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", np.zeros((50_000, 2), np.float32))
    monkeypatch.setattr(module, "WHOLE_BYTES", 1000)
    read: list[int] = []
    monkeypatch.setattr(module, "looked_at", lambda rows, nbytes: read.append(rows) or looked_at(rows, nbytes))
    pool = us.Pool(np.load(tmp_path / "x.npy", mmap_mode="r"), us.Hard(np.zeros(50_000, int)))
    before = fingerprint(pool)
    assert read and set(read) == {50_000}, "features and labels alike are sampled"
    written = np.load(tmp_path / "x.npy", mmap_mode="r+")
    written[-1] = 1.0
    written.flush()
    assert fingerprint(us.Pool(np.load(tmp_path / "x.npy", mmap_mode="r"), pool.teacher)) != before


def test_the_rows_looked_at_exist_in_large_pools() -> None:
    assert int(looked_at(20_000_000, WHOLE_BYTES + 1)[-1]) == 19_999_999
    assert looked_at(3, 24).tolist() == looked_at(3, WHOLE_BYTES + 1).tolist() == [0, 1, 2]


def test_every_row_of_a_small_part_counts() -> None:
    x = torch.zeros(5000, 2)
    pool = us.Pool(x, us.Hard(np.zeros(5000, int))).take(torch.arange(4999))
    before = fingerprint(pool)
    x[17] = 1.0
    assert fingerprint(us.Pool(x, us.Hard(np.zeros(5000, int))).take(torch.arange(4999))) != before


def test_sparse_rows_count_by_their_values_however_they_are_stored() -> None:
    x = sparse.random(3000, 4000, 0.01, "csr", np.float32, random_state=0)
    before = fingerprint(us.Gold(x, np.zeros(3000, int)))
    stored = sparse.csr_matrix((x.data.astype(np.float64), x.indices.astype(np.int64), x.indptr), x.shape)
    assert fingerprint(us.Gold(stored, np.zeros(3000, int))) == before
    x.data[5] += 1  # of the first row, which is always looked at
    assert fingerprint(us.Gold(x, np.zeros(3000, int))) != before


def test_what_holds_itself_ends() -> None:
    class Turn:
        def __init__(self) -> None:
            self.do = self.turn

        def turn(self, x: Any) -> Any:
            return x

    def outer() -> Any:
        def inner(n: int) -> Any:
            return inner(n - 1) if n else 0

        return inner

    assert fingerprint(Turn()) == fingerprint(Turn())
    assert fingerprint(outer()) == fingerprint(outer())


def test_how_an_object_is_called_counts() -> None:
    def made(body: Any) -> Any:
        return type("Shift", (), {"__call__": body})()

    assert fingerprint(made(lambda self, x: x + 1)) != fingerprint(made(lambda self, x: x - 1))


def test_rows_drawn_at_random_count_by_their_number() -> None:
    class Drawn(torch.utils.data.Dataset[Any]):
        def __init__(self, rows: int) -> None:
            self.rows = rows

        def __len__(self) -> int:
            return self.rows

        def __getitem__(self, number: int) -> torch.Tensor:
            return torch.rand(2)

    four, again, five = (fingerprint(us.Pool(Drawn(rows), us.Hard(np.zeros(rows, int)))) for rows in (4, 4, 5))
    assert four == again != five


def test_functions_differ_by_what_they_call_hold_and_contain() -> None:
    class Flip:
        def __init__(self, share: float) -> None:
            self.share = share

        def turn(self, x: Any) -> Any:
            return x * self.share

    def outer(x: Any) -> Any:
        return (lambda y: y + 1)(x)

    def other(x: Any) -> Any:
        return (lambda y: y + 2)(x)

    def gentle() -> Any:
        return lambda x: x.tanh()

    def harsh() -> Any:
        return lambda x: x.relu()

    harsh.__qualname__ = gentle.__qualname__
    other.__qualname__ = outer.__qualname__
    assert fingerprint(outer) != fingerprint(other)
    assert fingerprint(Flip(0.1).turn) == fingerprint(Flip(0.1).turn) != fingerprint(Flip(0.2).turn)
    assert fingerprint(gentle) != fingerprint(harsh)
