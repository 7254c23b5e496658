"""The Hugging Face Trainer on gold and pool: its arguments, loggers, schedules and checkpoints, our batches and losses.

    args = TrainingArguments("runs/bert", per_device_train_batch_size=32, num_train_epochs=3, learning_rate=2e-5)
    trainer = us.hf.Trainer(model, args, gold, pool, us.slam(), eval_dataset=test)     # test: us.Gold, or any Dataset
    trainer.train()                                  # resume_from_checkpoint=True: to the same bits
    trainer.run().save("runs/slam")                  # as if us.train had made it

``model``: anything that ``us.train`` takes as a student; it is trained in place. Batch size, seed, accumulation,
workers and the number of epochs are those of ``args``. With the same optimizer, schedule and clipping the model ends
bit-identical to ``us.train``, dropout included (see ``training/external_loop.py``). Checkpoints hold the
session too (``session.safetensors``): the modules that a method trains beside the model, and its latest columns.
"""

from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers.trainer_utils import get_last_checkpoint

from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.inference.passes import evaluate
from understudy.objective import Objective
from understudy.store.files import write_bytes
from understudy.store.option_fields import with_parameters
from understudy.training.checkpoint import pack, unpack
from understudy.training.external_loop import ExternalLoop
from understudy.training.options import option_parameters
from understudy.training.run import Run
from understudy.training.session import Session

SESSION = "session.safetensors"
#: The options of ``us.Session`` that ``TrainingArguments`` does not have.
OURS = ("gold_repeat", "gold_weight", "augment", "feature_layer", "pass_batch_size", "group_by_length", "refine")
# What this class hooks into and older versions lack: without them gradients would be scaled or clipped otherwise.
_NEEDED = ("loss_is_scaled_for_ga", "_clip_grad_norm", "_save_rng_state")


class Trainer(transformers.Trainer):
    """``options``: what ``us.Session`` takes beside ``args``, and whatever else ``transformers.Trainer`` takes."""

    # The session divides by the rows of the whole step.
    loss_is_scaled_for_ga = True

    @partial(with_parameters, shown=option_parameters(OURS), keep_others=True)
    def __init__(
        self, model: nn.Module, args: transformers.TrainingArguments, gold: Gold | None, pool: Pool | None,
        objective: Objective, **options: Any,
    ) -> None:  # fmt: skip
        ours = {name: options.pop(name) for name in OURS if name in options}
        _check(args, objective, options)
        super().__init__(model, args, **options)
        self.session = Session(
            model, gold, pool, objective, epochs=_whole(args.num_train_epochs), seed=args.seed,
            batch_size=args.per_device_train_batch_size, accumulate=args.gradient_accumulation_steps,
            workers=args.dataloader_num_workers, **ours,
        )  # fmt: skip
        # How long training will be, for methods that change on the way.
        if args.max_steps > 0:
            self.session.epochs = args.max_steps * args.gradient_accumulation_steps / self.session.batches_per_epoch
        else:
            self.session.epochs = args.num_train_epochs
        self.steps = ExternalLoop(self.session)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **options: Any) -> Any:
        if resume_from_checkpoint:
            resume_from_checkpoint = self._resume(resume_from_checkpoint)
        elif self.steps.begun:
            raise UnderstudyError("this Trainer has trained before; make a new one, or pass resume_from_checkpoint=")
        try:
            return super().train(resume_from_checkpoint, *args, **options)
        finally:
            self.steps.close()

    def _resume(self, checkpoint: str | bool) -> str:
        newest: Any = get_last_checkpoint
        found = newest(self.args.output_dir) if checkpoint is True else checkpoint
        if not found:
            raise UnderstudyError(f"there is no checkpoint in {self.args.output_dir}; train without resuming")
        path = Path(str(found), SESSION)
        if not path.exists():
            raise UnderstudyError(f"{path.parent} has no {SESSION}; resume from a checkpoint that this class wrote")
        self.steps.load_state_dict(unpack(path.read_bytes(), path), path.parent)
        return str(found)

    def _save_rng_state(self, output_dir: str) -> None:
        """Called for every checkpoint that can be resumed, before the file that makes it one."""
        super()._save_rng_state(output_dir)
        write_bytes(Path(output_dir, SESSION), pack(self.steps.state_dict()))

    def get_train_dataloader(self) -> "DataLoader[Any]":
        return self.steps.numbers()

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """The base class's, or the user's, with the modules that the method trains beside the model."""
        ours = self.optimizer is None
        decay = {"weight_decay": self.args.weight_decay} if ours else {}
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        known = {parameter for group in optimizer.param_groups for parameter in group["params"]}
        beside = [each for each in self.session.module_parameters() if each.requires_grad and each not in known]
        if beside:
            optimizer.add_param_group({"params": beside, **decay})
        return optimizer

    def compute_loss(self, model: nn.Module, inputs: Any, *args: Any, **options: Any) -> Any:
        if "number" in inputs and len(inputs) == 1:
            return self.steps.loss(model, inputs["number"])
        return super().compute_loss(model, inputs, *args, **options)

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        """Over all that is trained."""
        norm: Tensor = self.accelerator.clip_grad_norm_(self.session.parameters(), self.args.max_grad_norm)
        return norm

    def floating_point_ops(self, inputs: Any) -> int:
        """Unknown: the base class would count the tokens of a batch that it does not see."""
        return 0

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """As the base class does; rows of a ``us.Gold`` are measured as ``us.evaluate`` does."""
        rows = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(rows, str) and isinstance(self.eval_dataset, dict):
            rows = self.eval_dataset[rows]
        if not isinstance(rows, Gold):
            measured: dict[str, float] = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
            return measured
        size = self.session.options.pass_batch_size
        found = evaluate(self.session.student, rows, batch_size=size)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in found.items()}
        self.log(metrics)
        if self.args.eval_strategy == "epoch" and metric_key_prefix == "eval" and self.steps.history:
            role = "select" if self.args.load_best_model_at_end else "test"
            self.steps.history[-1].update({f"{role}_{name}": value for name, value in found.items()})
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def run(self) -> Run:
        """Student, history, columns and facts, as ``us.train`` returns them."""
        return self.steps.run(lr=self.args.learning_rate, weight_decay=self.args.weight_decay)


def _whole(epochs: float) -> int:
    return max(1, -int(-epochs // 1))


def _check(args: Any, objective: Any, options: dict[str, Any]) -> None:
    """What would not train as it says."""
    if missing := [name for name in _NEEDED if not hasattr(transformers.Trainer, name)]:
        raise UnderstudyError(f"transformers {transformers.__version__} lacks Trainer.{missing[0]}; upgrade it")
    if not isinstance(args, transformers.TrainingArguments):
        raise UnderstudyError(f"args is a {type(args).__name__}; pass transformers.TrainingArguments(…)")
    for name in ("train_dataset", "data_collator", "model_init", "compute_loss_func"):
        if options.get(name) is not None:
            raise UnderstudyError(f"{name}= has no place here: gold, pool and objective say what is trained on and how")
    if args.world_size > 1 or args.n_gpu > 1:
        raise UnderstudyError("batches are not shared among processes or GPUs; show one: CUDA_VISIBLE_DEVICES=0")
    if args.auto_find_batch_size:
        raise UnderstudyError("auto_find_batch_size would change the batches half-way; set per_device_train_batch_size")
    if args.fp16 and isinstance(objective, Objective) and objective.can_vanish:
        raise UnderstudyError(f"{objective.name} may leave a batch without gradient, which fp16 cannot scale; use bf16")
