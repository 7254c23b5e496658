"""What can go wrong with an address, in one line each."""

import sys
from typing import Any

import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.cli import app
from understudy.cli.verify import folder_kinds
from understudy.errors import install
from understudy.io.table import read_table
from understudy.store.copies import OURS
from understudy.store.files import is_remote, work_folder
from understudy.store.remote import address_of


def test_addresses() -> None:
    from pathlib import Path

    for text in ("s3://b/k", Path("s3://b/k"), "gs://b/k", "memory://k", "file:///tmp/x"):
        assert is_remote(text)
    for text in ("s3", "runs/first", "C:/x", "/abs/s3:/x", "a:b"):
        assert not is_remote(text)
    assert address_of(Path("s3://b/k/")) == "s3://b/k"
    assert work_folder("file:///tmp/x") == Path("/tmp/x") and work_folder("x") == Path("x")


@pytest.mark.parametrize("address", ["s3://AKIA:hush@bucket/run", "s3://hush@bucket"])
def test_credentials_in_an_address_are_refused_and_not_repeated(address: str) -> None:
    for words in (["verify", address], ["predict", address, "x.csv"], ["train", "--gold", address, "--out", "x"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2 and "holds credentials" in result.output and "hush" not in result.output, words


@pytest.mark.parametrize("address", ["s3://", "s3://bucket//x/../y", "memory:///"])
def test_places_that_are_none(address: str) -> None:
    with pytest.raises(us.UnderstudyError, match="names no place"):
        work_folder(address)


def test_other_kinds_of_addresses() -> None:
    with pytest.raises(us.UnderstudyError, match=r"^https:// is not an address that is read; use s3://"):
        read_table("https://example.org/pool.parquet")


@pytest.mark.parametrize(
    ("scheme", "module", "cure"), [("s3", "s3fs", install("s3")), ("gs", "gcsfs", "pip install gcsfs")]
)
def test_the_extra_is_named(scheme: str, module: str, cure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec  # noqa: F401

    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys.modules["fsspec.registry"], "_registry", {})
    monkeypatch.setattr(sys.modules["fsspec.registry"], "registry", {})
    with pytest.raises(us.UnderstudyError) as caught:
        us.Run.load(f"{scheme}://extra/run")
    assert str(caught.value) == f"{scheme}:// is reached by {module}, which is not installed: {cure}"


def test_what_storage_answers(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, said in {
        "s3://nowhere/pool/": r"there is no bucket 'nowhere' \(s3://nowhere/pool\); create it, or check the name",
        "s3://bucket/pool.parquet": r"s3://bucket/pool\.parquet is not there; check the path",
    }.items():
        with pytest.raises(us.UnderstudyError, match=said):
            read_table(path)
    with pytest.raises(us.UnderstudyError, match=r"there is no bucket 'nowhere'"):
        us.LabelStore("s3://nowhere/labels", classes=2, form="hard")
    with pytest.raises(us.UnderstudyError, match=r"s3://bucket/run is not a finished run"):
        us.Run.load("s3://bucket/run")
    with pytest.raises(us.UnderstudyError, match=r"s3://bucket/run is not locked; nothing to do"):
        us.unlock("s3://bucket/run")
    type(s3).clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(us.UnderstudyError, match=r"cannot reach the storage of s3://bucket/refused .*AWS_ENDPOINT_URL"):
        us.Run.load("s3://bucket/refused")
    type(s3).clear_instance_cache()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(us.UnderstudyError, match="no credentials for s3://bucket/unknown; set AWS_ACCESS_KEY_ID"):
        us.Run.load("s3://bucket/unknown")
    type(s3).clear_instance_cache()


def test_other_peoples_folders_are_not_copied(memory: Any) -> None:
    memory.pipe_file("/data/pool-0.parquet", b"x" * 100)
    with pytest.raises(us.UnderstudyError, match=r"memory://data holds other files \(pool-0.parquet …\)"):
        us.LabelStore("memory://data", classes=2, form="hard")


def test_every_kind_of_folder_is_known_as_ours() -> None:
    assert {kind.manifest for kind in folder_kinds()} <= OURS
