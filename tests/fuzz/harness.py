"""Runs bad inputs one by one and judges how each ends.

A family is a function ``(draw, given, made) -> None``: it writes one bad input into the folder ``given``, with a random
generator of its own, and uses it; whatever the library writes goes into the folder ``made``. It may end in an
``UnderstudyError`` of one line, with nothing in ``made``, or return once it has checked that the result is right.
Anything else (another exception, a warning of another library, too much time or memory) is a bug.

    tally = run_family("csv", csv_cells, range(100), folder)     # raises with the list of all bugs found

One case again, by hand: ``run_family("csv", csv_cells, [17], folder)``.
"""

import random
import resource
import shutil
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from understudy.errors import UnderstudyError, UnderstudyWarning

Family = Callable[[random.Random, Path, Path], None]

SECONDS = 20.0
# Every input is small. What a case may add to the process's peak: libraries loaded on first use, and some pages.
PEAK = 200 << 20
# A net below the check of the peak, so that a bug does not take the machine with it.
ADDRESS_SPACE = 6 << 30


class Hang(BaseException):
    """Not an Exception: a reader that turns those into its own errors must not hide it."""


def run_family(name: str, family: Family, numbers: Iterable[int], root: Path) -> Counter[str]:
    """How many cases were refused and accepted."""
    tally: Counter[str] = Counter()
    bugs = []
    with _address_space():
        for number in numbers:
            folder = root / f"{name}-{number}"
            try:
                tally[_ending(name, family, number, folder)] += 1
            except (Exception, Hang) as error:
                frames = [
                    f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)
                ]
                said = " ".join(str(error).split())[:300]
                bugs.append(f"{name} {number}: {type(error).__name__}: {said} ({' > '.join(frames[-4:])})")
            shutil.rmtree(folder, ignore_errors=True)
    assert not bugs, "\n".join([f"{len(bugs)} bugs", *bugs])
    return tally


def _ending(name: str, family: Family, number: int, folder: Path) -> str:
    given, made = folder / "given", folder / "made"
    given.mkdir(parents=True)
    made.mkdir()
    with warnings.catch_warnings(), _time_limit(), _memory_limit():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UnderstudyWarning)
        try:
            family(random.Random(f"{name} {number}"), given, made)
        except UnderstudyError as error:
            check_message(str(error))
            left = sorted(path.name for path in made.rglob("*"))
            assert not left, f"refused, and yet written: {left} ({error})"
            return "refused"
    return "accepted"


def check_message(message: str) -> None:
    assert message.strip(), "an empty message"
    assert len(message.splitlines()) == 1, f"not one line: {message!r}"
    assert len(message) < 2_000, f"{len(message)} signs: {message[:200]!r}"


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Hang(f"more than {SECONDS:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _memory_limit() -> Iterator[None]:
    before = _memory("VmRSS")
    try:
        # Linux then counts the peak anew.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        before = 1 << 60
    yield
    grown = _memory("VmHWM") - before
    assert grown < PEAK, f"took {grown >> 20} MB"


def _memory(name: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


@contextmanager
def _address_space() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _memory("VmSize") + ADDRESS_SPACE
    if (soft != resource.RLIM_INFINITY and soft < wanted) or wanted == ADDRESS_SPACE:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
