"""SIGTERM: what is under way is put on the disk, then the program ends, with exit code 143.

    with ends_on_sigterm():                        # the command line, us.train(out=…), loops, label stores
        with deferred():                           # a stop waits until the work is at a good place:
            for batch in batches:
                …
                if stop_requested(): save()
                stop_if_requested()                    # here, or at the end of the block

Outside ``deferred`` the program ends where it stands, as it does on Ctrl-C: locks and temporary files go. A second
SIGTERM does that everywhere. Other handlers than the system's own are left alone.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CODE = 128 + signal.SIGTERM


class Stopped(SystemExit):
    """Raised where a stop takes place."""

    def __init__(self) -> None:
        super().__init__(CODE)


class _State:
    requested = False
    deferrals = 0


def stop_requested() -> bool:
    return _State.requested


def stop_if_requested() -> None:
    if _State.requested:
        raise Stopped


@contextmanager
def deferred() -> Iterator[None]:
    """In this block a stop waits for ``stop_if_requested``, or for the end of the block."""
    counts = _in_main_thread()  # the one that handlers run in
    _State.deferrals += counts
    try:
        yield
    finally:
        _State.deferrals -= counts
    if not _State.deferrals:
        stop_if_requested()


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    owner = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a fork ends as if it had never heard of this
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        again, _State.requested = _State.requested, True
        if again or not _State.deferrals:
            raise Stopped

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        _State.requested = False
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
