"""A server of this package in a thread of its own, or in the main one, where it handles signals.

It listens on this machine alone (127.0.0.1) unless another host is named; the caller warns of that.
"""

import os
import socket
import threading
from typing import Any, Self

from understudy.errors import UnderstudyError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class HttpServer:
    """``port=0``: any that is free. ``grace``: seconds for requests under way when it is stopped."""

    def __init__(self, app: Any, *, host: str, port: int, name: str, grace: int = 2, **more: Any) -> None:
        import uvicorn

        self._socket = listening(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self.address = f"http://{_shown(host)}:{self.port}"
        # No log of requests: a link may hold a token.
        config = uvicorn.Config(
            app, interface="asgi3", log_level="error", access_log=False, server_header=False, proxy_headers=False,
            timeout_graceful_shutdown=grace, **more,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def wait(self, seconds: float) -> None:
        """Waits until it was stopped, or the time is up."""
        self._ended.wait(seconds)

    def stop(self) -> None:
        """Requests under way are answered first."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            # Not by join, which takes the thread for dead once Ctrl-C has interrupted it (Python 3.11).
            self._ended.wait()
        self._socket.close()

    def run(self) -> None:
        """Until it is stopped; in the main thread also by SIGINT or SIGTERM, which are raised again at the end."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._ended.set()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


def free_port(host: str, wanted: int) -> int:
    """The wanted port where it is free; else 0: any."""
    try:
        listening(host, wanted).close()
    except UnderstudyError:
        return 0
    return wanted


def listening(host: str, port: int) -> socket.socket:
    """An open socket; connections wait until the server accepts them."""
    if not host.strip():  # which would be every address of the machine
        raise UnderstudyError("no --host is named; leave it out, or name an address of this machine")
    # IPPROTO_TCP named: asyncio disables Nagle on such sockets alone, which saves 40 ms per response.
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # the port of a killed server is free at once
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen()
    except (OSError, OverflowError) as error:
        opened.close()
        raise UnderstudyError(f"cannot serve at {host}:{port}: {error}; choose another --port or --host") from error
    return opened


def _shown(host: str) -> Any:
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
