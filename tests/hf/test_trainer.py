"""``us.hf.Trainer`` ends with the bits of ``us.train``, whatever happens between two of its steps, and resumes."""

import copy
import gc
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import understudy as us

from ..front_ends import (
    ADAMW,
    BATCH_SIZE,
    CLIP,
    EPOCHS,
    RESUMED,
    SEED,
    EveryOther,
    assert_same,
    assert_same_run,
    bert,
    build,
    each_method,
    each_stop,
    needs_fork,
    net,
    trained,
    world,
)
from ..kill_points import forked
from ..three_blobs import world as blobs
from ..tiny_bert import some_texts, write_tiny_bert

pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

# The alignment pass says once that it takes the unfused kernel; so does us.train.
pytestmark = [
    pytest.mark.filterwarnings("ignore:fused attention has no forward-mode rule"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
STUDENTS = {"net": net, "bert": bert}
each_student = pytest.mark.parametrize("kind", ["net", pytest.param("bert", marks=pytest.mark.slow)])


@pytest.fixture(scope="module", autouse=True)
def frozen_imports() -> None:
    """Each training ends with a collection of garbage by accelerate: half a second over all that transformers loads."""
    assert transformers.Trainer and transformers.TrainingArguments
    gc.collect()
    gc.freeze()


class Stop(RuntimeError):
    """A power cut."""


class Cut(transformers.TrainerCallback):  # type: ignore[misc]
    def __init__(self, after: int) -> None:
        self.after = after

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step == self.after:
            raise Stop


class Noise(transformers.TrainerCallback):  # type: ignore[misc]
    """Draws from the global generator, as loggers and samplers of others may."""

    def on_step_end(self, *args: Any, **others: Any) -> None:
        torch.rand(5)


def make(student: nn.Module, objective: us.Objective, folder: Path, **options: Any) -> Any:
    names = ("callbacks", "eval_dataset", "optimizers", "gold_repeat")
    others = {name: options.pop(name) for name in names if name in options}
    told: dict[str, Any] = {
        "per_device_train_batch_size": BATCH_SIZE, "num_train_epochs": EPOCHS, "seed": SEED, "max_grad_norm": CLIP,
        "lr_scheduler_type": "constant", "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
        "use_cpu": True, "logging_strategy": "no",
    }  # fmt: skip
    args = transformers.TrainingArguments(str(folder), **(told | options))
    optimizer = torch.optim.AdamW(student.parameters(), fused=True, **ADAMW)
    return us.hf.Trainer(student, args, *world(student), objective, **({"optimizers": (optimizer, None)} | others))


@each_method
@each_student
def test_every_method_ends_with_the_bits_of_train(name: str, kind: str, tmp_path: Path) -> None:
    student = STUDENTS[kind]()
    trainer = make(student, build(name), tmp_path)
    trainer.train()
    start = STUDENTS[kind]()
    assert_same_run(trainer.run(), trained(start, build(name)), start)


@each_student
@pytest.mark.parametrize("name", RESUMED)
@each_stop
def test_a_cut_in_the_middle_of_an_epoch_leaves_no_trace(name: str, kind: str, stop: int, tmp_path: Path) -> None:
    """Also at its end. l2rw, whose gold does not train, has two steps an epoch, the others have seven."""
    epochs = 3 if name == "l2rw" else 2
    each: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1, "num_train_epochs": epochs}
    stop = (stop or 2) if name == "l2rw" else stop + 7
    trainer = make(STUDENTS[kind](), RESUMED[name](), tmp_path, callbacks=[Cut(stop)], **each)
    with pytest.raises(Stop):
        trainer.train()
    torch.manual_seed(99)  # another process
    resumed = make(STUDENTS[kind](), RESUMED[name](), tmp_path, **each)
    resumed.train(resume_from_checkpoint=True)
    start = STUDENTS[kind]()
    assert_same_run(resumed.run(), trained(start, RESUMED[name](), epochs=epochs), start)


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_a_real_kill_leaves_no_trace(name: str, tmp_path: Path) -> None:
    """Between two checkpoints, right before a step."""
    each: dict[str, Any] = {"save_strategy": "steps", "save_steps": 2, "num_train_epochs": 3}
    step = 4 if name == "l2rw" else 12
    work = lambda: make(net(), RESUMED[name](), tmp_path, **each).train()  # noqa: E731
    assert forked(work, kill=("before a step", step)) is None
    resumed = make(net(), RESUMED[name](), tmp_path, **each)
    resumed.train(resume_from_checkpoint=True)
    assert_same_run(resumed.run(), trained(net(), RESUMED[name]()), net())


@pytest.mark.slow
def test_reconciled_labels_take_the_way_that_is_named(tmp_path: Path) -> None:
    """``us.reconcile`` and then vanilla, on gold without the teacher's word, is what ``us.reconciled`` does."""
    torch.manual_seed(3)
    student = us.models.mlp(4, 3, hidden=(8,))
    gold, pool, _ = blobs("soft")
    told: dict[str, Any] = {"epochs": 2, "batch_size": 64, "optimizer": "adamw", "clip": CLIP, **ADAMW}
    run = us.train(copy.deepcopy(student), gold, pool, us.reconciled(), seed=SEED, progress=False, **told)
    made = us.reconcile(copy.deepcopy(student), gold, pool, seed=SEED, progress=False, workers=1, **told)
    args = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=64, num_train_epochs=2, seed=SEED, max_grad_norm=CLIP, use_cpu=True,
        lr_scheduler_type="constant", save_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip
    optimizer = torch.optim.AdamW(student.parameters(), fused=True, **ADAMW)
    silent = us.Gold(gold.rows, gold.y)
    trainer = us.hf.Trainer(student, args, silent, made, us.vanilla(), optimizers=(optimizer, None))
    trainer.train()
    assert_same(student.state_dict(), run.student.state_dict())


def test_accumulation_evaluation_and_the_draws_of_others_change_nothing(tmp_path: Path) -> None:
    student = net()
    gold, _ = world(student)
    trainer = make(
        student, us.s_model(), tmp_path, gradient_accumulation_steps=3, callbacks=[Noise()], eval_dataset=gold,
        eval_strategy="steps", eval_steps=1, logging_strategy="steps", logging_steps=1,
    )  # fmt: skip
    torch.manual_seed(5)
    trainer.train()
    assert_same_run(trainer.run(), trained(net(), us.s_model(), accumulate=3), net())
    assert trainer.evaluate()["eval_accuracy"] == us.evaluate(student, gold)["accuracy"]
    assert any("eval_accuracy" in record for record in trainer.state.log_history)


def test_its_own_optimizer_moves_the_modules_beside_the_model_too(tmp_path: Path) -> None:
    student = net()
    plain: dict[str, Any] = {"weight_decay": 0.0, "learning_rate": 0.02, "optim": "adamw_torch_fused"}
    trainer = make(student, us.s_model(), tmp_path, optimizers=(None, None), **plain)
    trainer.train()
    assert_same_run(trainer.run(), trained(net(), us.s_model(), weight_decay=0.0), net())


@pytest.mark.slow
def test_a_student_that_reads_texts_is_trained_as_by_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padded by the batch, texts of similar length together."""
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    texts, labels = some_texts(84)
    said = torch.where(torch.arange(84) % 5 == 0, 1 - labels, labels)
    gold, pool = us.Gold(texts[:24], labels[:24], us.Hard(said[:24])), us.Pool(texts[24:], us.Hard(said[24:]))
    student = us.text(write_tiny_bert(tmp_path / "bert"), classes=2)()
    run = us.train(
        copy.deepcopy(student), gold, pool, us.slam(), epochs=2, batch_size=16, lr=5e-3, optimizer="adamw", seed=SEED,
        schedule="constant", weight_decay=0.0, warmup=0.0, clip=1.0, group_by_length=True, progress=False,
    )  # fmt: skip
    args = transformers.TrainingArguments(
        str(tmp_path / "trainer"), per_device_train_batch_size=16, num_train_epochs=2, learning_rate=5e-3, seed=SEED,
        lr_scheduler_type="constant", optim="adamw_torch_fused", save_strategy="no", report_to="none", use_cpu=True,
        disable_tqdm=True,
    )  # fmt: skip
    trainer = us.hf.Trainer(student, args, gold, pool, us.slam(), group_by_length=True)
    trainer.train()
    assert_same(student.state_dict(), run.student.state_dict())


def test_a_batch_without_weight_leaves_the_model_alone(tmp_path: Path) -> None:
    """Adam's moments and the weight decay would move it."""
    seen: list[dict[str, Tensor]] = []
    student = net()

    class Look(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *args: Any, **others: Any) -> None:
            seen.append({name: value.clone() for name, value in student.state_dict().items()})

    objective = us.vanilla(weight=EveryOther())
    trainer = make(student, objective, tmp_path, callbacks=[Look()], gold_repeat=0, num_train_epochs=2)
    trainer.train()
    moved = [
        any(not new[name].equal(old[name]) for name in old)
        for old, new in itertools.pairwise([net().state_dict(), *seen])
    ]
    assert moved == [True, False, True, False]
    run = trained(net(), us.vanilla(weight=EveryOther()), gold_repeat=0, epochs=2)
    assert_same(student.state_dict(), run.student.state_dict())


def test_the_callers_random_state_is_left_alone(tmp_path: Path) -> None:
    trainer = make(net(), us.slam(), tmp_path)
    draws: list[Tensor] = []

    class Look(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *args: Any, **others: Any) -> None:
            draws.append(torch.get_rng_state())

    trainer.add_callback(Look())
    trainer.train()
    assert len(draws) > 3 and all(draw.equal(draws[0]) for draw in draws)


def test_a_training_of_so_many_steps_knows_how_long_it_is(tmp_path: Path) -> None:
    """A method that goes by progress sees the same shares of training as over whole epochs."""
    trainer = make(net(), build("mentornet_pd"), tmp_path, max_steps=3 * 7)
    trainer.train()
    assert_same_run(trainer.run(), trained(net(), build("mentornet_pd")), net())


def test_a_run_of_it_is_a_run(tmp_path: Path) -> None:
    trainer = make(us.models.mlp(5, 4), us.slam(), tmp_path / "trainer")
    trainer.train()
    trainer.run().save(tmp_path / "run")
    loaded = us.Run.load(tmp_path / "run")
    assert loaded.config["objective"] == "slam" and loaded.config["batch_size"] == BATCH_SIZE
    assert_same(loaded.columns, trainer.run().columns)


def test_what_is_measured_after_an_epoch_is_in_the_history(tmp_path: Path) -> None:
    student = net()
    gold, _ = world(student)
    trainer = make(student, us.slam(), tmp_path, eval_dataset=gold, eval_strategy="epoch")
    trainer.train()
    history = trainer.run().history
    assert [record["test_accuracy"] for record in history] == [
        record["eval_accuracy"] for record in trainer.state.log_history if "eval_accuracy" in record
    ]
    assert trainer.run().metrics()["last"]["accuracy"] == us.evaluate(student, gold)["accuracy"]


def test_what_cannot_be_is_said_in_one_line(tmp_path: Path) -> None:
    each: dict[str, Any] = {"save_strategy": "steps", "save_steps": 2, "num_train_epochs": 1}
    trainer = make(net(), us.slam(), tmp_path, **each)
    with pytest.raises(us.UnderstudyError, match="there is no checkpoint in"):
        trainer.train(resume_from_checkpoint=True)
    trainer.train()
    with pytest.raises(us.UnderstudyError, match="has trained before"):
        trainer.train()
    with pytest.raises(us.UnderstudyError, match=r"another objective \(slam, now vanilla\)"):
        make(net(), us.vanilla(), tmp_path, **each).train(resume_from_checkpoint=True)
    (tmp_path / "checkpoint-6" / "session.safetensors").unlink()
    with pytest.raises(us.UnderstudyError, match=r"has no session\.safetensors"):
        make(net(), us.slam(), tmp_path, **each).train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    with pytest.raises(us.UnderstudyError, match="auto_find_batch_size"):
        make(net(), us.slam(), tmp_path, auto_find_batch_size=True)
    with pytest.raises(us.UnderstudyError, match="train_dataset= has no place here"):
        us.hf.Trainer(net(), trainer.args, *world(net()), us.slam(), train_dataset=[1])
    with pytest.raises(TypeError, match="no_such_option"):
        us.hf.Trainer(net(), trainer.args, *world(net()), us.slam(), no_such_option=1)
    with pytest.raises(us.UnderstudyError, match=r"which only us\.train does"):
        make(net(), us.reconciled(), tmp_path).train()
