"""Keeps a training safe: writes checkpoints as it goes, and puts the latest back when it is resumed.

The loop calls it in three places: at the start of a phase (``put_back``), after a step and after an epoch (``save``).
Without a folder it does nothing.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from understudy.training.checkpoints import Checkpoints
from understudy.training.ema import EMA
from understudy.training.run import write_history
from understudy.training.scoring import Scorer
from understudy.training.snapshot import Progress, check_same, put_back, take

FOLDER = "checkpoint"


class Keeper:
    def __init__(
        self,
        folder: Path | None,
        scorer: Scorer,
        progress: Progress,
        *,
        ema: EMA | None,
        settings: dict[str, Any],
        every: int | None,
        resume: bool,
    ) -> None:
        self.folder, self.scorer, self.progress, self.ema = folder, scorer, progress, ema
        self.settings, self.every = settings, every
        self.checkpoints = None if folder is None else Checkpoints(folder / FOLDER)
        self._saved = self.checkpoints.latest() if resume and self.checkpoints is not None else None
        self._columns = ""
        self._at = 0
        """The batch of the last checkpoint."""
        if self._saved is not None:
            check_same(self._saved[1]["settings"], settings, folder)
            progress.phase = self._saved[1]["phase"]

    def put_back(self, optimizer: torch.optim.Optimizer, generators: dict[str, Generator]) -> bool:
        """Bring the phase under way to where the checkpoint left it; once, and False where there is none."""
        if self._saved is None or self.checkpoints is None:
            return False
        tensors, state = self._saved
        self._saved = None
        put_back(tensors, state, self.progress, self.scorer, optimizer, generators, self.ema)
        self._at = self.progress.batch
        if state["columns"]:
            self._columns = state["columns"]
            self.scorer.put_back_columns(self.checkpoints.columns(self._columns))
        return True

    def prepared(self) -> None:
        """The scorer has new columns."""
        if self.checkpoints is not None:
            columns = self.scorer.all_columns()
            self._columns = self.checkpoints.keep_columns(columns) if columns else ""

    def is_due(self, batches_done: int) -> bool:
        # Asked after steps only, which several batches may share.
        return self.checkpoints is not None and self.every is not None and batches_done - self._at >= self.every

    def save(self, optimizer: torch.optim.Optimizer, generators: dict[str, Generator]) -> None:
        if self.checkpoints is None or self.folder is None:
            return
        self._at = self.progress.batch
        if not self.progress.batch:
            write_history(self.folder, self.progress.history)
        tensors, state = take(self.progress, self.scorer, optimizer, generators, self.ema)
        self.checkpoints.save(tensors, {**state, "columns": self._columns, "settings": self.settings})


def drop_checkpoints(folder: Path) -> None:
    """The run is finished and saved: nothing will be resumed."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
