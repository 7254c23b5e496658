"""``torchrun … -m understudy train …``: the processes of one training form a group, and one of them prints errors.

    with process_group():               # in every process; of a single one, nothing happens
        begin(request, report)

A process that fails prints why, and all of them end with its exit code; those that fail because of it print nothing. Of
a process that was killed, the first of the others to notice prints it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from understudy.store.console import complain, last_words

_PRINTED = "understudy has printed the error"


def is_restarted() -> bool:
    """Whether torchrun has started the processes again (``--max-restarts``) after one of them ended."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def process_group() -> Iterator[None]:
    named = all(os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    if not named or int(os.environ["WORLD_SIZE"]) < 2:
        yield
        return
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    from understudy.training.distributed import joined

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    store, rank, size = next(rendezvous("env://"))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        with joined(), _one_error(store):
            yield
    finally:
        dist.destroy_process_group()


@contextmanager
def _one_error(store: Any) -> Iterator[None]:
    """Printed before the others learn that this process ends: torchrun kills all when the first of them has."""
    try:
        yield
    except BaseException as error:
        # torchrun tells the others to end as soon as one has, and this process may be slower than they are.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        words, first = last_words(error), _is_first_to_print(store)
        if words is None and first:
            raise  # a bug: its traceback is the message
        if words is not None and first:
            complain(words[0])
        raise SystemExit(1 if words is None else words[1]) from error


def _is_first_to_print(store: Any) -> bool:
    try:
        return bool(store.add(_PRINTED, 1) == 1)
    except RuntimeError:  # the process that held the store has ended
        return True
