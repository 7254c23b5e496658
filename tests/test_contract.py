"""Every method through the same properties.

A method needs nothing here: it is found in ``us.METHODS``; its columns and modules are prepared as the training loop
would. Where that is not enough, its own test file ``tests/methods/test_<name>.py`` says so:

    CONTRACT = {
        "build": lambda: us.forward(transition=…),                       # how to build it (default: no arguments)
        "skip": {"gradients": "the target moves with the student"},      # properties it does not have, and why
    }

Properties: weights, gradients, precision, order, empty, one_class, training. Traits of the objective
("noise_free_is_vanilla", "perfect_is_minimal") are checked where it declares them, and required where REQUIRED says so.
"""

import dataclasses
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.data.rows import Rows
from understudy.objective import Columns, Context, Objective, Outputs, Step, Weight

CLASSES, INPUTS, FEATURES, POOL, GOLD = 4, 5, 6, 12, 40
REQUIRED = {"noise_free_is_vanilla": {"vanilla", "weighted", "slam", "forward", "oracle"}}


def _declared(name: str) -> dict[str, Any]:
    """CONTRACT of the method's own test file, where it has one."""
    path = Path(__file__).parent / "methods" / f"test_{name}.py"
    if not path.exists() or "CONTRACT" not in path.read_text():
        return {}
    spec = importlib.util.spec_from_file_location(f"contract_of_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(getattr(module, "CONTRACT", {}))


def _build(name: str, wanted: str) -> Objective:
    declared = _declared(name)
    if wanted in declared.get("skip", {}):
        pytest.skip(f"{name}: {declared['skip'][wanted]}")
    objective = declared.get("build", us.METHODS[name])()
    if not isinstance(objective, Objective):
        pytest.skip(f"{name} is a {type(objective).__name__}, not an Objective: it has a step of its own")
    return objective


def _slots_of(name: str, wanted: str) -> Objective:
    objective = _build(name, wanted)
    if objective.scorer is not None:
        pytest.skip(f"{name} scores its steps itself; its slots alone are not the method")
    return objective


each_method = pytest.mark.parametrize("name", sorted(us.METHODS))


@dataclasses.dataclass
class World:
    """A small problem, a student, and the columns and modules an objective prepares on it."""

    gold: us.Gold
    pool: us.Pool
    net: nn.Sequential

    @classmethod
    def make(cls, *, noisy: bool = True) -> "World":
        g = torch.Generator().manual_seed(4)
        x = torch.randn(GOLD + POOL, INPUTS, generator=g)
        y = torch.arange(GOLD + POOL) % CLASSES
        logits = torch.randn(GOLD + POOL, CLASSES, generator=g)
        # A teacher without noise is always right and very sure (not one-hot: it still ranks the classes).
        logits[torch.arange(len(y)), y] += 1.0 if noisy else 30.0
        probs = logits.softmax(-1)
        net = nn.Sequential(nn.Linear(INPUTS, FEATURES), nn.Tanh(), nn.Linear(FEATURES, CLASSES))
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(0.7 * torch.randn(parameter.shape, generator=g))
        return cls(us.Gold(x[:GOLD], y[:GOLD], probs[:GOLD]), us.Pool(x[GOLD:], probs[GOLD:]), net)

    @torch.no_grad()
    def _student(self, rows: Rows | Tensor) -> tuple[Tensor, Tensor]:
        x = rows.take(torch.arange(len(rows))) if isinstance(rows, Rows) else rows
        features = self.net[1](self.net[0](x))
        return self.net[2](features), features

    def step(self, objective: Objective, dtype: torch.dtype = torch.float32) -> Step:
        context = Context(
            self.gold,
            self.pool,
            classes=CLASSES,
            predict=lambda x: self._student(x)[0].softmax(-1),
            features=lambda x: self._student(x)[1],
        )
        columns: Columns = {}
        modules: dict[str, nn.Module] = {}
        torch.manual_seed(0)
        for slot in objective.slots:
            columns |= {f"{slot.name}.{key}": value for key, value in slot.prepare(context).items()}
            module = slot.module(context)
            if module is not None:
                modules[slot.name] = module.to(dtype)
        logits, features = self._student(self.pool.rows)
        wants_features = any(slot.wants_features for slot in objective.slots)
        step = Step(
            outputs=Outputs(logits.to(dtype), features.to(dtype) if wants_features else None),
            teacher=self.pool.teacher.dense(torch.arange(POOL), CLASSES).to(dtype),  # type: ignore[union-attr]
            rows=torch.arange(POOL),
            columns=columns,
            modules=modules,
            temperature=objective.temperatures[1],
        )
        for slot in objective.slots:
            columns |= {f"{slot.name}.{key}": value for key, value in slot.observe(step).items()}
        return step


def _alignment(objective: Objective, rows: Tensor) -> Tensor | None:
    """A stand-in for ⟨∇ gold loss, ∇ loss_i⟩, some of it negative."""
    return (rows.double() % 5 - 1.5).float() if objective.alignment_rows else None


def _scored(objective: Objective, step: Step) -> Tensor:
    """weight · loss per pool row."""
    losses = objective.pool_losses(step)
    weights = objective.pool_weights(losses, dataclasses.replace(step, alignment=_alignment(objective, step.rows)))
    return losses if weights is None else weights.to(losses.dtype) * losses


def _with_outputs(step: Step, logits: Tensor, features: Tensor | None) -> Step:
    return dataclasses.replace(step, outputs=Outputs(logits, features))


def _rows(step: Step, index: Tensor) -> Step:
    features = step.outputs.features
    return dataclasses.replace(
        step,
        outputs=Outputs(step.outputs.logits[index], None if features is None else features[index]),
        teacher=step.teacher[index],
        rows=step.rows[index],
        columns={name: column[index] for name, column in step.columns.items()},
    )


@dataclasses.dataclass(frozen=True)
class Constant(Weight):
    value: float
    name: str = "constant"

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.full_like(losses, self.value)


@each_method
def test_weights_multiply(name: str) -> None:
    objective = _slots_of(name, "weights")
    step = World.make().step(objective)
    plain = _scored(objective, step)
    for factors in ((Constant(3.0),), (Constant(0.5), Constant(4.0, name="another"))):
        weight: Weight = factors[0] if len(factors) == 1 else factors[0] * factors[1]
        scaled = objective.replace(weight=weight if objective.weight is None else objective.weight * weight)
        total = 1.0
        for factor in factors:
            total *= factor.value
        torch.testing.assert_close(_scored(scaled, step), total * plain)
    assert torch.isfinite(plain).all()
    assert plain.shape == (POOL,)


@each_method
def test_weights_are_detached(name: str) -> None:
    objective = _slots_of(name, "weights")
    step = World.make().step(objective)
    logits = step.outputs.logits.clone().requires_grad_()
    step = _with_outputs(step, logits, step.outputs.features)
    losses = objective.pool_losses(step)
    weights = objective.pool_weights(losses, dataclasses.replace(step, alignment=_alignment(objective, step.rows)))
    assert losses.requires_grad
    assert weights is None or (not weights.requires_grad and weights.shape == losses.shape)


def test_a_weight_that_reads_the_student_sends_no_gradient() -> None:
    class Reading(Weight):
        name = "reading"

        def __call__(self, losses: Tensor, step: Step) -> Tensor:
            assert not losses.requires_grad
            return step.outputs.logits.sum(-1)

    logits = torch.randn(3, CLASSES, requires_grad=True)
    objective = us.vanilla(weight=Reading())
    step = Step(Outputs(logits), torch.full((3, CLASSES), 1 / CLASSES), torch.arange(3))
    weights = objective.pool_weights(objective.pool_losses(step), step)
    assert weights is not None
    assert not weights.requires_grad


@each_method
def test_gradients_match_numeric_ones(name: str) -> None:
    objective = _slots_of(name, "gradients")
    step = _rows(World.make().step(objective, torch.float64), torch.arange(5))
    inputs = [step.outputs.logits.clone().requires_grad_()]
    if step.outputs.features is not None:
        inputs.append(step.outputs.features.clone().requires_grad_())

    def losses(*outputs: Tensor) -> Tensor:
        return objective.pool_losses(_with_outputs(step, outputs[0], outputs[1] if len(outputs) > 1 else None))

    assert torch.autograd.gradcheck(losses, inputs, eps=1e-6, atol=1e-6, rtol=1e-5)


@each_method
def test_float32_agrees_with_float64(name: str) -> None:
    objective = _slots_of(name, "precision")
    world = World.make()
    exact = _scored(objective, world.step(objective, torch.float64))
    found = _scored(objective, world.step(objective, torch.float32))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact.double(), rtol=1e-5, atol=1e-6)


@each_method
def test_order_within_a_batch_does_not_matter(name: str) -> None:
    objective = _slots_of(name, "order")
    step = World.make().step(objective)
    order = torch.randperm(POOL, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(_scored(objective, _rows(step, order)), _scored(objective, step)[order])


@each_method
def test_without_noise_it_is_vanilla(name: str) -> None:
    objective = _slots_of(name, "noise_free_is_vanilla")
    if name in REQUIRED["noise_free_is_vanilla"]:
        assert "noise_free_is_vanilla" in objective.traits
    if "noise_free_is_vanilla" not in objective.traits:
        pytest.skip(f"{name} does not claim it")
    world = World.make(noisy=False)
    step = world.step(objective)
    torch.testing.assert_close(_scored(objective, step), _scored(us.vanilla(), step), rtol=1e-6, atol=1e-6)


@each_method
def test_with_noise_it_differs_from_vanilla(name: str) -> None:
    """The counterpart: the property above must not hold because the method does nothing."""
    objective = _slots_of(name, "differs_from_vanilla")
    if name == "vanilla" or "noise_free_is_vanilla" not in objective.traits:
        pytest.skip(f"{name} is vanilla, or never claims to become it")
    step = World.make().step(objective)
    assert (_scored(objective, step) - _scored(us.vanilla(), step)).abs().max() > 1e-3


@each_method
def test_a_perfect_prediction_is_minimal(name: str) -> None:
    objective = _slots_of(name, "perfect_is_minimal")
    if "perfect_is_minimal" not in objective.traits:
        pytest.skip(f"{name} does not claim it")
    step = World.make().step(objective, torch.float64)
    perfect = objective.target(step).log()
    best = _scored(objective, _with_outputs(step, perfect, step.outputs.features))
    g = torch.Generator().manual_seed(2)
    for scale in (1e-2, 0.1, 1.0, 10.0):
        other = perfect + scale * torch.randn(perfect.shape, generator=g, dtype=torch.float64)
        assert (_scored(objective, _with_outputs(step, other, step.outputs.features)) >= best - 1e-12).all()


@each_method
def test_an_empty_batch_fails_clearly_or_is_empty(name: str) -> None:
    objective = _slots_of(name, "empty")
    step = _rows(World.make().step(objective), torch.arange(0))
    try:
        scored = _scored(objective, step)
    except us.UnderstudyError:
        return
    assert scored.shape == (0,)
    assert scored.sum() == 0


def _train(world: World, objective: Objective, gold: us.Gold | None = None, **options: Any) -> us.Run:
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 8, "lr": 0.01, "seed": 3, "progress": False}
    return us.train(world.net, gold or world.gold, world.pool, objective, **(settings | options))


@each_method
def test_training_repeats_bit_by_bit_and_stays_finite(name: str) -> None:
    objective = _build(name, "training")
    world = World.make()
    first, second, other = (_train(world, objective, seed=seed) for seed in (3, 3, 4))
    pairs = zip(first.student.state_dict().values(), second.student.state_dict().values(), strict=True)
    assert all(a.equal(b) for a, b in pairs)
    assert all(value.isfinite().all() for value in first.student.state_dict().values())
    assert any(
        not a.equal(b)
        for a, b in zip(first.student.state_dict().values(), other.student.state_dict().values(), strict=True)
    )
    start = list(world.net.parameters())
    assert any(not a.equal(b) for a, b in zip(start, first.student.parameters(), strict=True))
    assert first.predict(world.pool.x).shape == (POOL, CLASSES)
    assert set(first.columns) == set(second.columns)
    assert all(len(column) == POOL for column in first.columns.values())
    for key, column in first.columns.items():
        torch.testing.assert_close(column, second.columns[key], rtol=0, atol=0, equal_nan=True)


BATCHES = {"left": 0}


def until_stopped(x: Tensor, generator: torch.Generator) -> Tensor:
    BATCHES["left"] -= 1
    if BATCHES["left"] == 0:
        raise KeyboardInterrupt
    return x


@each_method
@pytest.mark.parametrize("stop", [2, 9])
def test_a_stopped_training_goes_on_to_the_same_bits(name: str, stop: int, tmp_path: Path) -> None:
    objective = _build(name, "training")
    world = World.make()
    whole = _train(world, objective, augment=until_stopped)
    # The pool alone is four batches in two epochs.
    BATCHES["left"] = stop if objective.gold_trains else min(stop, 4)
    with pytest.raises(KeyboardInterrupt):
        _train(world, objective, out=tmp_path / "run", checkpoint_every=1, augment=until_stopped)
    resumed = _train(world, objective, out=tmp_path / "run", resume=True, augment=until_stopped)
    for made in ("student", "columns", "modules"):
        ours, theirs = getattr(resumed, made), getattr(whole, made)
        if made == "student":
            ours, theirs = ours.state_dict(), theirs.state_dict()
        if made == "modules":
            ours, theirs = resumed.module_states, whole.module_states
            ours, theirs = ({k: v for part in each.values() for k, v in part.items()} for each in (ours, theirs))
        assert set(ours) == set(theirs)
        for key, value in theirs.items():
            torch.testing.assert_close(ours[key], value, rtol=0, atol=0, equal_nan=True)


@each_method
def test_training_takes_hard_labels(name: str) -> None:
    objective = _build(name, "hard_labels")
    world = World.make()
    gold = us.Gold(world.gold.x, world.gold.y, world.gold.teacher.top1())  # type: ignore[union-attr]
    pool = us.Pool(world.pool.x, world.pool.teacher.top1())  # type: ignore[union-attr]
    run = us.train(world.net, gold, pool, objective, epochs=1, batch_size=8, progress=False)
    assert all(value.isfinite().all() for value in run.student.state_dict().values())


@each_method
def test_gold_of_one_class_fails_clearly_or_warns(name: str) -> None:
    objective = _build(name, "one_class")
    world = World.make()
    one = world.gold.take((world.gold.y == 1).nonzero().squeeze(1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            run = _train(world, objective, gold=one, epochs=1)
        except us.UnderstudyError:
            return
    assert any(issubclass(warning.category, us.UnderstudyWarning) for warning in caught)
    assert all(value.isfinite().all() for value in run.student.state_dict().values())


def test_one_class_alone_is_refused() -> None:
    with pytest.raises(us.UnderstudyError, match="2 classes"):
        us.Pool(torch.zeros(3, 2), torch.ones(3, 1))


@each_method
def test_it_is_named_like_its_file_and_has_a_test(name: str) -> None:
    factory = us.METHODS[name]
    assert factory.__module__ == f"understudy.methods.{name}"
    assert factory.__name__ == name
    assert getattr(us, name) is factory
    path = Path(__file__).parent / "methods" / f"test_{name}.py"
    assert path.exists(), f"tests/methods/test_{name}.py is missing"
