"""``ExternalLoop``: losses one by one, for loops that look ahead, draw numbers, or are left in the middle."""

import gc

import pytest
import torch

import understudy as us
from understudy.training.checkpoint import pack, unpack
from understudy.training.external_loop import ExternalLoop

from ..front_ends import SEED, assert_same, build, net, trained, world


def open_steps(objective: us.Objective | None = None) -> ExternalLoop:
    student = net()
    return ExternalLoop(us.Session(student, *world(student), objective or us.slam(), batch_size=8, seed=SEED, epochs=3))


def test_the_random_state_of_the_loop_is_its_own() -> None:
    """It finds its own draws between two steps, whatever dropout draws in them."""
    torch.manual_seed(5)
    expected = torch.rand(4)
    steps = open_steps()
    torch.manual_seed(5)
    drawn = []
    for number in range(4):
        steps.loss(steps.session.student, number)
        drawn.append(torch.rand(()))
    assert torch.stack(drawn).equal(expected)


def test_an_epoch_that_is_left_touches_nothing_when_it_is_forgotten() -> None:
    steps = open_steps()
    steps.loss(steps.session.student, 0)
    torch.rand(3)
    before = torch.get_rng_state()
    del steps
    gc.collect()
    assert torch.get_rng_state().equal(before)


def test_a_loop_that_is_elsewhere_is_refused() -> None:
    steps = open_steps()
    steps.loss(steps.session.student, 0)
    with pytest.raises(us.UnderstudyError, match="the loop is at batch 3 of its epoch, the session at batch 1"):
        steps.loss(steps.session.student, 3)


def test_a_run_is_to_be_had_between_epochs() -> None:
    """Its student is in eval mode, which would silence dropout for the rest of an epoch."""
    steps = open_steps()
    for number in range(7):
        steps.loss(steps.session.student, number)
    assert len(steps.run(lr=0.1).history) == 1 and steps.run(lr=0.1).config["lr"] == 0.1
    steps.loss(steps.session.student, 0)
    assert steps.session.student.training
    with pytest.raises(us.UnderstudyError, match="an epoch is under way"):
        steps.run()


def test_numbers_are_as_many_as_batches_and_draw_nothing() -> None:
    numbers = open_steps().numbers()
    before = torch.get_rng_state()
    assert [each["number"] for each in numbers] == list(range(7)) and len(numbers) == 7  # 40 + 12 rows by 8
    assert len(numbers.dataset) == 52  # type: ignore[arg-type]
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize("name", ["s_model", "co_teaching"])
def test_gradients_of_the_modules_beside_a_model_are_cleared(name: str) -> None:
    """By a loop that clears its model's alone."""
    steps, student = open_steps(build(name)), net()
    steps.session.student.load_state_dict(student.state_dict())
    optimizer = torch.optim.AdamW(steps.session.parameters(), lr=0.02, weight_decay=0.01, fused=True)
    for _ in range(3):
        for number in range(steps.session.batches_per_epoch):
            steps.loss(steps.session.student, number).backward()
            torch.nn.utils.clip_grad_norm_(steps.session.parameters(), 0.5)
            optimizer.step()
            steps.session.student.zero_grad()
    run = trained(student, build(name))
    assert_same(steps.session.student.state_dict(), run.student.state_dict())
    assert [record["loss"] for record in steps.history] == [record["loss"] for record in run.history]


def test_a_state_is_one_file_without_pickle(tmp_path) -> None:  # type: ignore[no-untyped-def]
    steps = open_steps(build("co_teaching"))
    for number in range(3):
        steps.loss(steps.session.student, number)
    state = steps.state_dict()
    again = unpack(pack(state), tmp_path)
    assert again["session"]["columns"].keys() == state["session"]["columns"].keys()
    assert again["session"]["batch"] == 3 and again["session"]["epoch"] == 0
    assert_same(again["session"]["modules"], state["session"]["modules"])
    assert_same(again["session"]["random"], state["session"]["random"])
    other = open_steps(build("co_teaching"))
    other.session.student.load_state_dict(steps.session.student.state_dict())
    other.load_state_dict(again, "a file")
    ours, theirs = other.loss(other.session.student, 3), steps.loss(steps.session.student, 3)
    assert ours.equal(theirs)
    with pytest.raises(us.UnderstudyError, match="is damaged"):
        unpack(b"nonsense", tmp_path)


def test_a_state_taken_after_an_epoch_was_left_is_that_of_the_last_step() -> None:
    """A loop that stops in the middle of an epoch, lets go of it, and saves only then; or has loaded a state and saves
    it again before its first step."""
    steps = open_steps()
    for number in range(3):
        steps.loss(steps.session.student, number)
    expected = steps.state_dict()["session"]["random"]["torch"]
    steps.close()
    torch.rand(5)
    left = steps.state_dict()
    assert left["session"]["random"]["torch"].equal(expected)
    again = open_steps()
    again.load_state_dict(left, "the state")
    torch.rand(5)
    assert again.state_dict()["session"]["random"]["torch"].equal(expected)
