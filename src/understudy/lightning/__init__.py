"""A student in Lightning (extra ``lightning``): its Trainer, callbacks, loggers, checkpoints; our batches and losses.

    module = us.lightning.UnderstudyModule(student, gold, pool, us.slam(), batch_size=128, lr=1e-3, select=gold_select)
    L.Trainer(max_epochs=30).fit(module)             # ckpt_path="….ckpt": to the same bits
    module.run().save("runs/slam")                   # as if us.train had made it

The student is trained in place. With the same optimizer, schedule and clipping it ends bit-identical to ``us.train``,
dropout included (``training/external_loop.py``). Checkpoints hold the session too, so a training goes on in the middle
of an epoch. For an optimizer of your own override ``configure_optimizers`` and give it ``self.session.parameters()``.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError, install
from understudy.inference.passes import evaluate, logits_of
from understudy.objective import Objective
from understudy.store.option_fields import checked_plainly
from understudy.training.external_loop import ExternalLoop
from understudy.training.optimizers import make_optimizer
from understudy.training.options import SESSION, TrainingOptions, set_lr, shows_options
from understudy.training.run import Run
from understudy.training.session import Session


class MissingLightning(UnderstudyError, ImportError):
    """An ImportError too, which programs that walk all modules of a package pass over."""


try:
    from lightning.pytorch import LightningModule
except ImportError as error:
    raise MissingLightning(f"us.lightning needs Lightning: {install('lightning')}") from error

__all__ = ["UnderstudyModule"]

STATE = "understudy"
#: The options of ``us.train`` that make the optimizer and its learning rates.
OPTIMIZATION = ("lr", "optimizer", "weight_decay", "momentum", "schedule", "warmup", "groups")


class _Numbers(list[int]):
    """The numbers of an epoch's batches, which are read where their loss is computed. The session knows how far an
    epoch is; a loader with a state of its own is what Lightning wants to see before it goes on in the middle of one."""

    def state_dict(self) -> dict[str, int]:
        return {"batches": len(self)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Nothing to be done."""


class UnderstudyModule(LightningModule):
    """``select``: gold rows that are measured after every epoch and logged as ``select_accuracy`` and so on, for
    ``EarlyStopping`` and ``ModelCheckpoint``; ``options``: what ``us.Session`` takes, but for ``accumulate``."""

    @shows_options((*OPTIMIZATION, *SESSION))
    @checked_plainly
    def __init__(
        self, student: nn.Module, gold: Gold | None, pool: Pool | None, objective: Objective, *,
        select: Gold | None = None, **options: Any,
    ) -> None:  # fmt: skip
        if "accumulate" in options:
            raise UnderstudyError("accumulate= is the Trainer's matter: L.Trainer(accumulate_grad_batches=…)")
        super().__init__()
        self.student, self.select, self._given = student, select, (gold, pool, objective)
        own = {name: options.pop(name) for name in OPTIMIZATION if name in options}
        self._recipe, self._options = TrainingOptions(epochs=1, **own), options
        if self._recipe.is_full_batch:
            raise UnderstudyError("optimizer='lbfgs' takes all rows at once, which only us.train does; use adam")
        self._steps: ExternalLoop | None = None
        self._loaded: dict[str, Any] | None = None

    @property
    def steps(self) -> ExternalLoop:
        if self._steps is None:
            raise UnderstudyError("the session begins with L.Trainer(…).fit(module); there is none yet")
        return self._steps

    @property
    def session(self) -> Session:
        return self.steps.session

    def setup(self, stage: str) -> None:
        if stage != "fit":
            return
        trainer, (gold, pool, objective) = self.trainer, self._given
        if trainer.world_size > 1:
            raise UnderstudyError("batches are not shared among processes; use L.Trainer(devices=1)")
        if trainer.precision == "16-mixed" and objective.can_vanish:
            raise UnderstudyError(f"{objective.name} may leave a batch without gradient; use bf16-mixed, not 16-mixed")
        if self._steps is not None:
            self._steps.close()
        epochs = trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else None
        session = Session(
            self.student, gold, pool, objective, epochs=epochs or (1 if trainer.max_steps > 0 else None),
            **{**self._options, "accumulate": trainer.accumulate_grad_batches},
        )  # fmt: skip
        updates = -(-session.batches_per_epoch // session.options.accumulate)
        if trainer.max_steps > 0 and (epochs is None or trainer.max_steps < epochs * updates):
            session.epochs = trainer.max_steps / updates
        self._steps = ExternalLoop(session)

    def train_dataloader(self) -> Iterable[int]:
        return _Numbers(range(self.session.batches_per_epoch))

    def configure_optimizers(self) -> Any:
        self._resume()
        recipe, session = self._recipe, self.session
        optimizer = make_optimizer(recipe, self.student, session.module_parameters())
        if session.epochs is None:
            if recipe.schedule != "constant" or recipe.warmup:
                raise UnderstudyError("schedule and warmup go by how long training is; pass L.Trainer(max_epochs=…)")
            set_lr(optimizer, recipe.lr)
            return optimizer
        # A group's own share of the rate times the rate that all have then, as in us.train.
        set_lr(optimizer, 1.0)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, self._lr_at)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _lr_at(self, update: int) -> float:
        """The learning rate of an update: that of its last batch, as in ``us.train``."""
        session, batches = self.session, self.session.batches_per_epoch
        accumulate, epochs = session.options.accumulate, session.epochs
        assert epochs is not None
        epoch, done = divmod(update, -(-batches // accumulate))
        last = min((done + 1) * accumulate, batches) - 1
        return self._recipe.lr_at(min(1.0, (epoch + last / batches) / epochs))

    def on_fit_start(self) -> None:
        self._resume()  # for who overrides configure_optimizers

    def _resume(self) -> None:
        """Once the student is where it trains: what a method trains beside it is made there."""
        if self._loaded is not None:
            self.steps.load_state_dict(self._loaded, "the checkpoint")
            self._loaded = None

    def training_step(self, batch: int, batch_idx: int) -> Tensor:
        loss = self.steps.loss(self.student, batch_idx)
        self.log("loss", loss.detach(), prog_bar=True, batch_size=1)
        # Lightning divides by the number of batches of a step, the session has divided by its rows.
        return loss * self.session.options.accumulate

    def on_train_epoch_end(self) -> None:
        if self.select is not None:
            measured = evaluate(self.student, self.select, batch_size=self.session.options.pass_batch_size)
            named = {f"select_{name}": value for name, value in measured.items()}
            self.log_dict(named)
            self.steps.history[-1].update(named)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self._steps is not None:
            checkpoint[STATE] = self._steps.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if STATE not in checkpoint:
            raise UnderstudyError("this checkpoint holds no session; resume from one that UnderstudyModule wrote")
        self._loaded = checkpoint[STATE]

    def teardown(self, stage: str) -> None:
        if self._steps is not None:
            self._steps.close()

    def forward(self, x: Any) -> Tensor:
        """The student's logits."""
        return logits_of(self.student, x)

    def run(self) -> Run:
        """Student, history, columns and facts, as ``us.train`` returns them."""
        recipe = self._recipe
        return self.steps.run(lr=recipe.lr, optimizer=recipe.optimizer, weight_decay=recipe.penalty)
