"""Runs, comparisons and label stores on an S3 server: the same bits as on a disk, also after a kill."""

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import understudy as us
from kill_points import forked
from understudy.cli import app
from understudy.store.files import local_path, locked, work_folder, write_bytes

# A process of its own has its own copies; that it is a fork only saves the time to load PyTorch.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
STORED = "student.safetensors", "columns.parquet", "metrics.jsonl"


def _data() -> tuple[us.Gold, us.Pool, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (240,), generator=generator)
    x = torch.eye(3, 6)[y] + torch.randn(240, 6, generator=generator)
    probs = (2 * torch.eye(3)[y] + torch.randn(240, 3, generator=generator)).softmax(1)
    return us.Gold(x[:40], y[:40], teacher=probs[:40]), us.Pool(x[40:], probs[40:]), x


def _student() -> nn.Module:
    return us.models.mlp(6, 3, hidden=(8,), dropout=0.2)


def _train(out: str | Path, **more: Any) -> us.Run:
    gold, pool, _ = _data()
    return us.train(
        _student, gold, pool, us.weighted(refresh_every=1), epochs=3, batch_size=64, checkpoint_every=1, out=out,
        progress=False, **more,
    )  # fmt: skip


def _compare(out: str | Path) -> Any:
    gold, pool, _ = _data()
    return us.compare(_student, gold, pool, ["slam"], seeds=2, epochs=2, out=out, workers=1, progress=False)


def _cli(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


def _unlock(address: str) -> None:
    assert "which runs no more" in _cli("unlock", address)


@pytest.mark.parametrize("kill", [("renamed", 5), pytest.param(("before a step", 8), marks=pytest.mark.torture)])
def test_a_killed_training_goes_on_elsewhere_to_the_same_bits(s3: Any, tmp_path: Path, kill: tuple[str, int]) -> None:
    _train(tmp_path / "run")
    assert forked(lambda: _train("s3://bucket/run"), kill) is None
    there = s3.find("bucket/run")
    assert any("/checkpoint/" in name for name in there) and not any("config" in name for name in there)
    with pytest.raises(us.UnderstudyError, match=r"another process \(.* since .*, which runs no more\).* unlock s3://"):
        _train("s3://bucket/run", resume=True)
    _unlock("s3://bucket/run")
    run = _train("s3://bucket/run", resume=True)  # with an empty copy of its own
    for name in STORED[:2]:
        assert s3.cat_file(f"bucket/run/{name}") == (tmp_path / "run" / name).read_bytes(), name
    names = sorted(path.rpartition("/")[2] for path in s3.find("bucket/run"))
    assert names == sorted(path.name for path in (tmp_path / "run").iterdir() if path.name[0] != ".")
    assert [record["epoch"] for record in run.history] == [1, 2, 3]
    assert repr(run).endswith("s3://bucket/run)")


def test_a_killed_comparison_goes_on_elsewhere_to_the_same_table(s3: Any, tmp_path: Path) -> None:
    whole = _compare(tmp_path / "compared")
    assert forked(lambda: _compare("s3://bucket/compared"), ("renamed", 4)) is None
    before = {name: info["ETag"] for name, info in s3.find("bucket/compared/cells", detail=True).items()}
    assert 0 < len(before) < 6
    _unlock("s3://bucket/compared")
    again = _compare("s3://bucket/compared")
    after = {name: info["ETag"] for name, info in s3.find("bucket/compared/cells", detail=True).items()}
    assert {name: after[name] for name in before} == before  # what was finished was not done again
    for method, seed in ((method, seed) for method in whole.outcomes for seed in (0, 1)):
        assert again.outcomes[method][seed].last == whole.outcomes[method][seed].last
    assert "comparison in s3://bucket/compared is unchanged" in _cli("verify", "s3://bucket/compared")


def test_a_store_is_written_and_resumed_and_has_one_writer(s3: Any) -> None:
    classes, asked = ["neg", "pos"], list[int]()

    def ask(ids: Any) -> list[str]:
        asked.extend(ids.tolist())
        return [classes[one % 2] for one in ids.tolist()]

    def label(last: int) -> int:
        with us.LabelStore("s3://bucket/labels", classes=classes, form="hard") as store:
            return us.label_missing(store, list(range(last)), ask, batch=4)

    # The sixth file to get its name: shards 1 and 2 are there, each with the settings that count it.
    assert forked(lambda: label(20), ("renamed", 6)) is None
    held = us.LabelStore("s3://bucket/labels")  # readers need no lock
    known = len(held)
    assert known in (8, 12)
    with pytest.raises(us.UnderstudyError, match=r"s3://bucket/labels is being written by another process"):
        label(20)
    _unlock("s3://bucket/labels")
    asked.clear()
    assert label(20) == 20 - known == len(asked)
    assert held.labels(list(range(20))).top1().tolist() == [0, 1] * 10  # the reader of before sees what came since
    assert not held.missing(list(range(20))).size
    store = us.LabelStore("s3://bucket/labels")
    store.compact()
    assert len([name for name in s3.find("bucket/labels") if name.endswith(".parquet")]) > 1  # not yet: it is open
    store.close()
    assert len([name for name in s3.find("bucket/labels") if name.endswith(".parquet")]) == 1
    assert held.labels([3, 4]).top1().tolist() == [1, 0]
    assert not [name for name in s3.find("bucket/labels") if name.endswith(".lock")]
    assert "label_missing" not in _cli("history", "s3://bucket/labels", "--id", "3")
    assert "label store in s3://bucket/labels is unchanged" in _cli("verify", "s3://bucket/labels")


def test_a_writer_that_was_taken_for_dead_writes_no_more(s3: Any) -> None:
    first = us.LabelStore("s3://bucket/labels", classes=2, form="hard")
    first.append([1], [0])
    second = work_folder("s3://bucket/labels")
    assert second == first.folder  # one copy per process; another machine's lock is put there by hand
    s3.pipe_file(
        "bucket/labels/.lock", b'{"who": "bert", "host": "h", "process": 7, "since": "2026-01-01", "token": 1}'
    )
    with pytest.raises(us.UnderstudyError, match=r"was taken from this process .bert on h, process 7, since 20"):
        first.append([2], [1])
    assert len([name for name in s3.find("bucket/labels") if name.endswith(".parquet")]) == 1
    assert b"bert" in s3.cat_file("bucket/labels/.lock")


def test_damage_is_found(s3: Any) -> None:
    run = _train("s3://bucket/run")
    x = _data()[2]
    assert torch.equal(us.Run.load("s3://bucket/run").predict(x), run.predict(x))
    content = bytearray(s3.cat_file("bucket/run/student.safetensors"))
    content[-3] ^= 1
    s3.pipe_file("bucket/run/student.safetensors", bytes(content))
    with pytest.raises(us.UnderstudyError, match=r"s3://bucket/run/student.safetensors is damaged \(another checksum"):
        us.Run.load("s3://bucket/run")
    result = CliRunner().invoke(app, ["verify", "s3://bucket/run"])
    assert result.exit_code == 2 and "CHANGED  s3://bucket/run/student.safetensors is damaged" in result.output


class Valve:
    """A proxy that lets so many bytes through to the server, and then holds on."""

    def __init__(self, server: str, limit: int) -> None:
        host, port = server.removeprefix("http://").split(":")
        self.server, self.limit, self.passed = (host, int(port)), limit, 0
        self.full, self.lock = threading.Event(), threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.sockets = [self.listener]
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            upstream = socket.create_connection(self.server)
            self.sockets += [client, upstream]
            threading.Thread(target=self._pass, args=(client, upstream, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(upstream, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                with self.lock:
                    self.passed += len(data) * counts
                    if self.passed > self.limit:
                        self.full.set()
                if self.full.is_set():
                    return
                target.sendall(data)
        except OSError:
            return

    def close(self) -> None:
        for each in self.sockets:
            each.close()


def _killed_while(work: Callable[[], object], valve: Valve) -> None:
    """Work in another process, SIGKILLed when the valve is full: in the middle of what it sends."""
    child = os.fork()
    if child == 0:
        try:
            os.environ["AWS_ENDPOINT_URL"] = valve.url
            work()
        finally:
            os._exit(1)
    assert valve.full.wait(120), "the put ended before the kill"
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    valve.close()


@pytest.mark.parametrize("parts", [False, True])
def test_a_kill_in_the_middle_of_a_put_leaves_nothing_visible(s3: Any, server: str, parts: bool) -> None:
    import s3fs.core

    content = np.random.default_rng(0).bytes(16 << 20)

    def write(*, size: int | None = None) -> None:
        if size is not None:
            s3fs.core.calculate_chunksize = lambda *_, **__: size  # 50 MB elsewhere
        folder = work_folder("s3://bucket/run")
        with locked(folder):
            write_bytes(folder / "checkpoint" / "1.bin", content[:100])
            write_bytes(folder / "checkpoint" / "2.bin", content)

    valve = Valve(server, 8 << 20)
    _killed_while(lambda: write(size=(5 if parts else 50) << 20), valve)
    s3.invalidate_cache()
    names = sorted(s3.find("bucket/run"))
    assert names == ["bucket/run/.lock", "bucket/run/checkpoint/1.bin"]
    uploads = s3.call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads", [])
    assert len(uploads) == parts  # begun, never completed, and in no listing of files
    _unlock("s3://bucket/run")
    write()
    assert s3.cat_file("bucket/run/checkpoint/2.bin") == content


def _write_files(folder: Path) -> None:
    gold, pool, x = _data()
    assert gold.teacher is not None and pool.teacher is not None
    (folder / "pool").mkdir(parents=True)
    table = pa.table({
        "id": [f"r{row}" for row in range(240)],
        "x": pa.FixedSizeListArray.from_arrays(x.reshape(-1).numpy(), 6),
        "teacher_label": torch.cat([gold.teacher.top1(), pool.teacher.top1()]).numpy(),
        "unused": [f"{'long' * 10_000} {row}" for row in range(240)],
    })  # fmt: skip
    for number in range(3):
        pq.write_table(table.slice(80 * number, 80), folder / "pool" / f"{number:03d}.parquet", compression="none")
    labels = "".join(f"r{row},{label}\n" for row, label in enumerate(gold.y.tolist()))
    (folder / "gold.csv").write_text("id,label\n" + labels)


def _commands(source: str, out: str) -> None:
    files = ["--gold", f"{source}/gold.csv", "--pool", f"{source}/pool/"]
    quick = ["--epochs", "2", "--batch-size", "64", "--student", "mlp:8", "--method", "vanilla", "--quiet"]
    _cli("train", *files, *quick, "--out", f"{out}/run")
    _cli("predict", f"{out}/run", f"{source}/pool", "--out", f"{out}/said.parquet")
    _cli("predict", f"{out}/run", f"{source}/pool", "--out", f"{out}/shards", "--quiet")
    _cli("select", f"{out}/run", f"{source}/pool", "-n", 5, "--labelled", f"{source}/gold.csv", "--out", f"{out}/b.csv")


@pytest.mark.slow
def test_commands_on_a_bucket_give_the_bits_of_local_files(s3: Any, tmp_path: Path) -> None:
    _write_files(tmp_path / "data")
    s3.put(str(tmp_path / "data"), "bucket/data", recursive=True)
    _commands(str(tmp_path / "data"), str(tmp_path))
    _commands("s3://bucket/data", "s3://bucket/made")
    for name in ("said.parquet", "b.csv", "run/student.safetensors", "shards/00000.parquet", "shards/00002.parquet"):
        assert s3.cat_file(f"bucket/made/{name}") == (tmp_path / name).read_bytes(), name
    everything = {name: s3.cat_file(name) for name in s3.find("bucket/made")}
    assert {
        f"bucket/made/run/{name}" for name in ("report.html", "request.json", "label_history.jsonl")
    } <= everything.keys()
    assert b"s3://bucket/data/pool" in everything["bucket/made/run/request.json"]
    # Neither the copies' places nor the secret are written down.
    assert not [name for name, content in everything.items() if b"/understudy-" in content or b"not-to-be" in content]
    assert "is unchanged: 4 files" in _cli("verify", "s3://bucket/made/shards")
    again = CliRunner().invoke(app, ["predict", "s3://bucket/made/run", "s3://bucket/data/gold.csv", "--out",
                                     "s3://bucket/made/said.parquet"])  # fmt: skip
    assert again.exit_code == 2 and "s3://bucket/made/said.parquet already exists" in again.output


def test_a_pool_is_read_where_it_lies_and_only_what_is_asked_for(s3: Any, tmp_path: Path) -> None:
    from understudy.io.readers.parquet import map_column
    from understudy.io.table import read_table
    from understudy.store.remote import remote_files

    _write_files(tmp_path)
    s3.put(str(tmp_path / "pool"), "bucket/pool", recursive=True)
    fetched = 0
    from s3fs import S3File

    real = S3File._fetch_range

    def count(self: Any, start: int, end: int) -> bytes:
        nonlocal fetched
        fetched += end - start
        return bytes(real(self, start, end))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3File, "_fetch_range", count)
        table = read_table("s3://bucket/pool")
        values = table.columns["x"]
    whole = sum(info["size"] for info in s3.find("bucket/pool", detail=True).values())
    assert np.array_equal(values, read_table(tmp_path / "pool").columns["x"])
    assert fetched < whole / 3, (fetched, whole)
    files = remote_files("s3://bucket/pool")
    assert files is not None
    mapped = map_column(files, "x", cache=tmp_path / "cache")
    assert np.array_equal(mapped, values) and len(list((tmp_path / "cache").iterdir())) == 1
    map_column(files, "x", cache=tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 1
    table = pq.read_table(tmp_path / "pool" / "000.parquet")
    pq.write_table(table.slice(0, 79), tmp_path / "new.parquet")
    s3.put_file(str(tmp_path / "new.parquet"), "bucket/pool/000.parquet")
    with pytest.raises(us.UnderstudyError, match=r"s3://bucket/pool/000.parquet changed while it was read"):
        map_column(files, "x", cache=tmp_path / "cache")
    files = remote_files("s3://bucket/pool")
    assert files is not None and len(map_column(files, "x", cache=tmp_path / "cache")) == 239
    assert local_path(tmp_path) == tmp_path
