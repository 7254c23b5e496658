"""An S3 server on this machine, one for all tests, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

SERVER = """
import sys
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
SECRET = "not-to-be-written-down"
BUCKET = "bucket"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Its URL; it ends with the tests, whose end of the pipe it reads."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The server's file system, with an empty bucket; the environment leads there."""
    import s3fs

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    fs = s3fs.S3FileSystem(use_listings_cache=False)
    if fs.exists(BUCKET):
        fs.rm(BUCKET, recursive=True)
    fs.mkdir(BUCKET)
    return fs


@pytest.fixture
def memory() -> Iterator[Any]:
    import fsspec

    fs = fsspec.filesystem("memory", use_listings_cache=False)
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]  # folders that it remembers would take what is put in their place into themselves
    yield fs
    fs.store.clear()
