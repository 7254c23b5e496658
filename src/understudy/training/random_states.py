"""The random states of a training: every epoch has its own, made of the seed and its number."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from understudy.training.processes import Processes


def seed_torch(seed: int) -> None:
    """``torch.manual_seed``, which without an accelerator takes a millisecond to note that there is none."""
    torch.default_generator.manual_seed(seed)
    if torch.accelerator.is_available():
        torch.manual_seed(seed)


def seed_of_rank(seed: int, rank: int) -> int:
    """A seed of its own for every process, far from its neighbours'; process 0 has that of the only one."""
    return (seed + rank * 0x1E3779B97F4A7C15) % (1 << 62)


class RandomStates:
    """The random states of an epoch: PyTorch's own, that of the augmentation, and that of a learner's draws.

    Of processes that train together each has the first two for itself, so that no two drop the same units; the draws
    are the same in all of them.
    """

    def __init__(self, draws: torch.Generator, augment: torch.Generator, processes: Processes | None = None) -> None:
        self.draws, self.augment, self.processes = draws, augment, processes
        self.device = torch.device("cpu")
        #: Whether the caller's state is put back when an epoch ends, or is left before its end.
        self.restores = True
        self._loaded: dict[str, Tensor] = {}

    @contextmanager
    def of_epoch(self, seed: int, *, resumed: bool, device: torch.device) -> Iterator[None]:
        self.device = device
        cuda = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(cuda, enabled=self.restores):
            own = seed if self.processes is None else seed_of_rank(seed, self.processes.rank)
            if not resumed:
                self.draws.manual_seed(seed + 2)
            if resumed and "torch" in self._loaded:
                torch.set_rng_state(self._loaded["torch"])
                if cuda and "cuda" in self._loaded:
                    torch.cuda.set_rng_state(self._loaded["cuda"], device)
            else:  # also a process more than there were when the state was taken
                seed_torch(own)
                self.augment.manual_seed(own + 1)
            yield

    def state_dict(self) -> dict[str, Tensor]:
        """Process r's own states end in ``.r``; those of process 0, or of the only one, have their plain names."""
        own = {"torch": torch.get_rng_state(), "augment": self.augment.get_state()}
        if self.device.type == "cuda":
            own["cuda"] = torch.cuda.get_rng_state(self.device)
        every = [own] if self.processes is None else self.processes.gather_objects(own)
        states = {
            f"{name}.{rank}" if rank else name: state
            for rank, states in enumerate(every)
            for name, state in states.items()
        }
        return states | {"draws": self.draws.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        rank = 0 if self.processes is None else self.processes.rank
        names = {name: f"{name}.{rank}" if rank else name for name in ("torch", "augment", "cuda")}
        self._loaded = {name: state[own] for name, own in names.items() if own in state}
        if "augment" in self._loaded:
            self.augment.set_state(self._loaded["augment"])
        self.draws.set_state(state["draws"])
