"""``us.Session``: a loop of one's own over it is bit-identical to ``us.train``, for every method, and resumes."""

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import understudy as us

from .front_ends import EveryOther
from .test_contract import FEATURES, INPUTS, World, _build

EPOCHS, BATCH_SIZE, SEED = 3, 8, 3
ADAM: dict[str, Any] = {"lr": 0.02, "weight_decay": 0.01}
"""Its moments and the weight decay move a student even where no loss does, unless the step is left out."""
State = dict[str, Any]

# What makes labels by trainings of its own is no matter of steps.
each_method = pytest.mark.parametrize("name", sorted(us.METHODS.keys() - {"reconciled"}))


def student() -> nn.Module:
    """With dropout, whose draws are a part of the bits."""
    torch.manual_seed(7)
    net = World.make().net
    return nn.Sequential(nn.Linear(INPUTS, FEATURES), nn.Tanh(), nn.Dropout(0.3), copy.deepcopy(net[2]))


def open_session(net: nn.Module, objective: us.Objective, **options: Any) -> tuple[us.Session, torch.optim.Optimizer]:
    world = World.make()
    settings: dict[str, Any] = {"batch_size": BATCH_SIZE, "seed": SEED, "epochs": EPOCHS}
    session = us.Session(net, world.gold, world.pool, objective, **(settings | options))
    return session, torch.optim.Adam(session.parameters(), fused=True, **ADAM)


def finish(
    net: nn.Module, session: us.Session, optimizer: torch.optim.Optimizer, *, start: int = 0, stop: int | None = None
) -> State | None:
    """A plain loop; after ``stop`` steps the state of all three, as it would come back from a file."""
    steps = 0
    for epoch in range(start, EPOCHS):
        for batch in session.batches(epoch):
            session.loss(net, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if steps == stop:
                parts = {"net": net, "session": session, "optimizer": optimizer}
                file = io.BytesIO()
                torch.save({"epoch": epoch, **{name: part.state_dict() for name, part in parts.items()}}, file)
                file.seek(0)
                state: State = torch.load(file, weights_only=True)  # tensors and plain values alone
                return state
    return None


def trained(objective: us.Objective, **options: Any) -> us.Run:
    world = World.make()
    return us.train(
        student(), world.gold, world.pool, objective, epochs=EPOCHS, batch_size=BATCH_SIZE, seed=SEED, refine=False,
        progress=False, **ADAM, **options,
    )  # fmt: skip


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=0, equal_nan=True)


@each_method
def test_a_loop_of_ten_lines_ends_with_the_bits_of_train(name: str) -> None:
    net = student()
    session, optimizer = open_session(net, _build(name, "training"))
    finish(net, session, optimizer)
    run = trained(_build(name, "training"))
    assert_same(net.state_dict(), run.student.state_dict())
    assert_same({key: session.columns[key] for key in run.columns}, run.columns)
    assert any(not value.equal(student().state_dict()[key]) for key, value in net.state_dict().items())


@each_method
def test_epochs_are_needed_only_where_the_method_depends_on_them(name: str) -> None:
    net, objective = student(), _build(name, "training")
    try:
        session, optimizer = open_session(net, objective, epochs=None)
    except us.UnderstudyError as error:
        assert "pass epochs=" in str(error)
        assert name in {"co_teaching", "gce", "mentornet_pd"}
        return
    finish(net, session, optimizer)
    assert_same(net.state_dict(), trained(objective).student.state_dict())


@each_method
@pytest.mark.parametrize("stop", [2, 5])
def test_a_saved_state_goes_on_to_the_same_bits(name: str, stop: int) -> None:
    """Two batches into the first epoch; then later: in the second where gold does not train, else in the first."""
    whole = student()
    session, optimizer = open_session(whole, _build(name, "training"))
    finish(whole, session, optimizer)

    stopped = student()
    state = finish(stopped, *open_session(stopped, _build(name, "training")), stop=stop)
    assert state is not None
    torch.manual_seed(99)  # another process
    resumed = student()
    session, optimizer = open_session(resumed, _build(name, "training"))
    resumed.load_state_dict(state["net"])
    session.load_state_dict(state["session"])
    optimizer.load_state_dict(state["optimizer"])
    finish(resumed, session, optimizer, start=state["epoch"])
    assert_same(resumed.state_dict(), whole.state_dict())


def test_labels_made_by_trainings_are_not_a_session_s_matter() -> None:
    with pytest.raises(us.UnderstudyError, match=r"which only us\.train does; make them with us\.reconcile"):
        open_session(student(), us.reconciled())


def test_the_loop_may_train_whatever_wraps_the_student() -> None:
    class Wrapped(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.passes = inner, 0

        def forward(self, x: Tensor) -> Any:
            self.passes += 1
            return self.inner(x)

    for name in ("vanilla", "slam", "vid", "l2rw", "co_teaching"):
        net = student()
        session, optimizer = open_session(net, _build(name, "training"))
        wrapped = Wrapped(net)
        finish(wrapped, session, optimizer)
        assert wrapped.passes
        assert_same(net.state_dict(), trained(_build(name, "training")).student.state_dict())


def test_a_step_without_weight_leaves_the_student_alone() -> None:
    net, pool = student(), World.make().pool
    session = us.Session(net, None, pool, us.vanilla(weight=EveryOther()), batch_size=4, seed=0)
    optimizer = torch.optim.Adam(session.parameters(), **ADAM)
    moved = []
    for batch in session.batches(0):
        before = copy.deepcopy(net.state_dict())
        session.loss(net, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        moved.append(any(not value.equal(before[key]) for key, value in net.state_dict().items()))
        assert session.moves == moved[-1]
    assert moved == [True, False, True]


def test_the_callers_random_state_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    net = student()
    torch.manual_seed(5)
    session, optimizer = open_session(net, us.slam())
    torch.manual_seed(5)
    finish(net, session, optimizer)
    assert torch.rand(3).equal(expected)
