"""Cells and shards on Ray (extra ``ray``): an executor as in ``parallel/executors.py``, one task for each cell.

    us.compare(student, gold, pool, executor=us.ray())               # a cluster on this machine, a worker per core
    us.compare(student, gold, pool, executor=us.ray("auto"))         # the cluster that this machine is part of

The function, with all the data in it, is put into Ray's object store once and fetched once by each worker; a cell and
its result travel with its task. Only as many cells are under way as there are places for, so that they may be made as
they are taken. Ray's own retries are off: what a dead worker had in hand is done again when the others are done, alone
and once, as with processes. Nothing is sent beyond the cluster: usage statistics and the dashboard are off.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any

from understudy.errors import UnderstudyError, first_line, optional, warn
from understudy.parallel.executors import Cell, CellRunner, ErrorsAsResults, Failure, Result, Results, one_thread
from understudy.store.option_fields import checked

LOCAL = "local"
# On the loopback; of 127.0.0.1 Ray would make the address that others reach this machine by.
LOOPBACK = {"_node_ip_address": "127.0.0.2"} if sys.platform == "linux" else {}


@checked
def ray(address: str | None = None, *, workers: int | None = None, cpus: float = 1.0, gpus: float = 0.0) -> "RayTasks":
    """Ray as executor of ``us.compare``, ``us.auto``, ``us.reconcile`` and ``us.map_shards``.

    ``address``: "local" starts a cluster on this machine, "auto" finds the one it is part of, "HOST:PORT" names one;
    None: the cluster that this process is connected to already, else that of $RAY_ADDRESS, else a local one.
    ``workers``: how many cells at once (None: as many as the cluster has room for). ``cpus`` and ``gpus``: what a cell
    takes. The nodes must have this package installed and see the same files.
    """
    if workers is not None and workers < 1:
        raise UnderstudyError(f"ray(workers={workers}) must be at least 1, or None for all there is room for")
    if not (cpus > 0 and gpus >= 0):
        raise UnderstudyError(f"ray(cpus={cpus}, gpus={gpus}): a cell takes some of a core, and no GPU or some")
    _ray()
    return RayTasks(address, workers, cpus, gpus)


@dataclass(frozen=True)
class RayTasks:
    address: str | None
    workers: int | None
    cpus: float
    gpus: float

    def map(self, function: Callable[[Cell], Result], cells: Iterable[Cell]) -> Results[Result]:
        engine = connected(self.address, None if self.workers is None else ceil(self.workers * self.cpus))
        self._check_room(engine)
        runner = _RayRunner(function, self, engine)
        try:
            yield from runner.results(cells)
        finally:  # an error, Ctrl-C, or the caller closed this generator
            for task in runner.under_way:
                with suppress(Exception):
                    engine.cancel(task, force=True)

    def _check_room(self, engine: Any) -> None:
        """Raise or warn where no node can run a cell: Ray itself would wait silently."""
        nodes = [node for node in engine.nodes() if node["Alive"]]
        there = [(node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0)) for node in nodes]
        if any(cpus >= self.cpus and gpus >= self.gpus for cpus, gpus in there):
            return
        problem = f"a cell takes {self.cpus:g} CPUs and {self.gpus:g} GPUs, and no node of the Ray cluster has them"
        if all(node["NodeManagerAddress"].startswith("127.") for node in nodes):  # started here: it will not grow
            raise UnderstudyError(f"{problem}; request less: us.ray(cpus=…, gpus=…), or more workers= for more cores")
        warn(f"{problem} yet; waiting for one that does")


def connected(address: str | None = None, cores: int | None = None) -> Any:
    """The package, connected to a cluster; one that is started here, of so many cores, ends with this process."""
    engine = _ray()
    if engine.is_initialized():
        return engine
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address in (None, LOCAL) and not (address is None and os.environ.get("RAY_ADDRESS")):
        options |= {"num_cpus": cores, "include_dashboard": False, **LOOPBACK}
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        engine.init(address=address, **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        where = address or os.environ.get("RAY_ADDRESS", LOCAL)
        cure = "start one with ray start --head, or use the address local"
        raise UnderstudyError(f"no Ray cluster at {where} ({first_line(error)}); {cure}") from error
    finally:
        # Ray's own handler would end the program with another exit code, and in the middle of what is being written.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_sigterm)
    return engine


def _ray() -> Any:
    """The package, without usage statistics."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # It would otherwise warn, once per start, of a default that will change; a cell asks for its GPUs by number.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    return optional("ray", "us.ray needs Ray", "ray")


class _RayRunner(CellRunner[Cell, Result]):
    """A task for each cell; a handle is the reference to what it will return."""

    def __init__(self, function: Callable[[Cell], Result], options: RayTasks, engine: Any) -> None:
        super().__init__(function)
        self.options, self.engine = options, engine
        self.under_way = set[Any]()
        takes = {"num_cpus": options.cpus, "num_gpus": options.gpus}
        self.task = engine.remote(_answer).options(**takes, max_retries=0, name=f"understudy {_name(function)}")
        try:
            self.broadcast = [engine.put(function)]
        except (TypeError, AttributeError, RuntimeError) as error:
            why = f"a part cannot be sent to other processes ({first_line(error)})"
            raise UnderstudyError(f"{why}; define it at the top of a module, or leave executor= out") from error

    def places(self) -> int:
        """Read anew each time, because clusters grow and shrink."""
        options = self.options
        if options.workers is not None:
            return options.workers
        there = self.engine.cluster_resources()
        places = there.get("CPU", 0.0) / options.cpus
        if options.gpus:
            places = min(places, there.get("GPU", 0.0) / options.gpus)
        return max(1, int(places + 1e-9))

    def start(self, cell: Cell) -> Any:
        task = self.task.remote(self.broadcast, cell)
        self.under_way.add(task)
        return task

    def first_done(self, handles: list[Any]) -> Any:
        return self.engine.wait(handles, num_returns=1)[0][0]

    def fetch(self, handle: Any) -> tuple[Result | Failure] | None:
        """None: its worker or its node is gone, or memory was short."""
        errors = self.engine.exceptions
        try:
            reply: tuple[Result | Failure] = self.engine.get(handle)
        except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError, errors.ObjectLostError):
            return None
        finally:
            self.under_way.discard(handle)
        return reply


def _name(function: Any) -> str:
    inner = getattr(function, "function", function)  # of a guarded one
    return getattr(inner, "__qualname__", type(inner).__name__)


#: In a worker: the function of its last task. Only one: a student and its data are large.
_FETCHED: dict[str, Any] = {}


def _answer(broadcast: list[Any], cell: Any) -> tuple[Any]:
    """A task. The function comes in a list, which Ray does not unpack for every task anew."""
    import ray as engine

    key = broadcast[0].hex()
    if key not in _FETCHED:
        _FETCHED.clear()
        _FETCHED[key] = engine.get(broadcast[0])
    with one_thread():
        return (ErrorsAsResults(_FETCHED[key])(cell),)
