"""The combinations the papers report, each against the same formula written out plainly in float64.

``Problem.expected`` knows nothing of slots, log-space mixing or prepared columns: it takes softmax, mixes, weighs and
sums as the papers print it, with loops where those are plainer.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.inference.passes import predict
from understudy.labels.soft import TopK
from understudy.labels.votes import Votes
from understudy.objective import Columns, Context, Objective, Outputs, Step

CLASSES, GOLD, POOL = 4, 40, 30
Loss = Callable[[Tensor, Tensor], Tensor]


def _cross_entropy(q: Tensor, p: Tensor) -> Tensor:
    return -(q * p.log()).sum(1)


def _taylor_2(q: Tensor, p: Tensor) -> Tensor:
    return (q * ((1 - p) + (1 - p) ** 2 / 2)).sum(1)


def _poly_2(q: Tensor, p: Tensor) -> Tensor:
    return (q * (-p.log() + 2 * (1 - p))).sum(1)


class Problem:
    def __init__(self) -> None:
        g = torch.Generator().manual_seed(21)
        x = torch.randn(GOLD + POOL, 5, generator=g)
        probs = (1.5 * torch.randn(GOLD + POOL, CLASSES, generator=g)).softmax(-1)
        truth = torch.multinomial(probs, 1, generator=g).squeeze(1)
        self.y, self.teacher_gold, self.teacher = truth[:GOLD], probs[:GOLD], probs[GOLD:]
        self.features = torch.randn(POOL, 3, generator=g)
        self.net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, CLASSES))
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.copy_(0.8 * torch.randn(parameter.shape, generator=g))
        self.x_gold, self.x_pool = x[:GOLD], x[GOLD:]
        self.gold, self.pool = us.Gold(self.x_gold, self.y, self.teacher_gold), us.Pool(self.x_pool, self.teacher)

    def fidelity(self, beta: float) -> Tensor:
        s = self.teacher.double()
        entropy = -(s * s.log()).sum(1)
        return torch.exp(-beta * entropy / entropy.mean())

    @torch.no_grad()
    def debias(self) -> Tensor:
        """Weighted Distillation's weights, row by row."""
        teacher_gold, teacher = self.teacher_gold.double(), self.teacher.double()
        student_gold, student = self.net(self.x_gold).double().softmax(-1), self.net(self.x_pool).double().softmax(-1)

        def plane(t: Tensor, f: Tensor) -> Tensor:
            return torch.stack([-(t * t.log()).sum(1), -(f * f.log()).sum(1)], 1)

        wrong, distortion = torch.zeros(GOLD).double(), torch.ones(GOLD).double()
        for i, y in enumerate(self.y.tolist()):
            if int(teacher_gold[i].argmax()) != y:
                on_teacher = -(teacher_gold[i] * student_gold[i].log()).sum()
                wrong[i], distortion[i] = 1.0, on_teacher / max(1e-3, -float(student_gold[i, y].log()))
        k = math.ceil(math.sqrt(GOLD) / 2)
        nearest = torch.cdist(plane(teacher, student), plane(teacher_gold, student_gold)).argsort(1)[:, :k]
        p, d = wrong[nearest].mean(1), distortion[nearest].mean(1)
        return (1 / (1 + p * (d - 1))).clamp(max=1)

    def top(self) -> Tensor:
        """0/1: the teacher's k best classes of every row."""
        k = us.Reliability.fit(self.teacher_gold, self.y).k(self.teacher)
        tops = [set(self.teacher[i].topk(int(k[i])).indices.tolist()) for i in range(POOL)]
        return torch.tensor([[1.0 if c in top else 0.0 for c in range(CLASSES)] for top in tops], dtype=torch.float64)

    def mix(self, f: Tensor) -> Tensor:
        alpha = us.Reliability.fit(self.teacher_gold, self.y).alpha(self.teacher)
        top = self.top()
        return torch.stack([alpha[i] * f[i] + (1 - alpha[i]) * top[i] * (1 - f[i]) for i in range(POOL)])

    def cut(self, q: Tensor) -> Tensor:
        """Labels without their tails."""
        return torch.stack([q[i] * row / (q[i] * row).sum() for i, row in enumerate(self.top())])

    def vid(self, head: nn.Module, features: Tensor) -> Tensor:
        state = {name: value.double() for name, value in head.state_dict().items()}
        mean = features @ state["projection.weight"].T + state["projection.bias"]
        variance = (1 + state["raw_variance"].exp()).log() + 1e-5
        return -torch.distributions.Normal(mean, variance.sqrt()).log_prob(self.features.double()).sum(1)

    def expected(self, case: str, logits: Tensor, features: Tensor, head: nn.Module | None) -> Tensor:
        """weight · loss per pool row."""
        q, f = self.teacher.double(), logits.softmax(-1)
        match case:
            case "weighted × fidelity":
                return self.debias() * self.fidelity(1.0) * _cross_entropy(q, f)
            case "weighted × VID":
                assert head is not None
                return self.debias() * (_cross_entropy(q, f) + 0.2 * self.vid(head, features))
            case "SLaM × fidelity":
                return self.fidelity(2.0) * _cross_entropy(self.cut(q), self.mix(f))
            case "SLaM × temperature":
                warm = q.sqrt() / q.sqrt().sum(1, keepdim=True)
                return _cross_entropy(self.cut(warm), self.mix((logits / 2).softmax(-1)))
            case "SLaM × Taylor":
                return _taylor_2(self.cut(q), self.mix(f))
            case "SLaM × Poly":
                return _poly_2(self.cut(q), self.mix(f))
            case "SLaM × Taylor × fidelity × temperature":
                warm = q.sqrt() / q.sqrt().sum(1, keepdim=True)
                return self.fidelity(2.0) * _taylor_2(self.cut(warm), self.mix((logits / 2).softmax(-1)))
        raise AssertionError(case)


CASES: dict[str, Callable[[Problem], Objective]] = {
    "weighted × fidelity": lambda p: us.weighted(weight=us.fidelity_weight()),
    "weighted × VID": lambda p: us.weighted(terms=(us.vid_term(p.features, strength=0.2),)),
    "SLaM × fidelity": lambda p: us.slam(weight=us.fidelity_weight(beta=2)),
    "SLaM × temperature": lambda p: us.slam(temperature=(1.5, 2.0)),
    "SLaM × Taylor": lambda p: us.slam(loss=us.taylor_loss(2)),
    "SLaM × Poly": lambda p: us.slam(loss=us.poly_loss(2.0)),
    "SLaM × Taylor × fidelity × temperature": lambda p: us.slam(
        loss=us.taylor_loss(2), weight=us.fidelity_weight(beta=2), temperature=2
    ),
}
# What gold rows, which have no teacher noise to undo, are scored by.
GOLD_LOSS: dict[str, Loss] = {
    "SLaM × Taylor": _taylor_2,
    "SLaM × Poly": _poly_2,
    "SLaM × Taylor × fidelity × temperature": _taylor_2,
}
each_case = pytest.mark.parametrize("case", CASES)


def _step(problem: Problem, objective: Objective) -> Step:
    """The whole pool as one float64 batch, columns and modules prepared."""

    @torch.no_grad()
    def hidden(rows: Any) -> Tensor:
        return problem.net[:2](rows.take(torch.arange(len(rows))))

    context = Context(
        problem.gold,
        problem.pool,
        classes=CLASSES,
        predict=lambda rows: problem.net[2](hidden(rows)).softmax(-1).detach(),
        features=hidden,
    )
    columns: Columns = {}
    modules: dict[str, nn.Module] = {}
    for slot in objective.slots:
        columns |= {f"{slot.name}.{name}": column for name, column in slot.prepare(context).items()}
        module = slot.module(context)
        if module is not None:
            modules[slot.name] = module.double()
    features = hidden(problem.pool.rows).double()
    logits = (features @ problem.net[2].weight.double().T + problem.net[2].bias.double()).detach()
    return Step(
        Outputs(logits, features),
        problem.teacher.double(),
        torch.arange(POOL),
        columns,
        modules,
        temperature=objective.temperatures[1],
    )


@each_case
def test_the_loss_is_the_composition_written_out(case: str) -> None:
    problem = Problem()
    objective = CASES[case](problem)
    step = _step(problem, objective)
    losses = objective.pool_losses(step)
    weights = objective.pool_weights(losses, step)
    found = losses if weights is None else weights.double() * losses
    assert step.outputs.features is not None
    expected = problem.expected(case, step.outputs.logits, step.outputs.features, step.modules.get("vid"))
    # Columns are float32.
    torch.testing.assert_close(found, expected.detach(), rtol=1e-6, atol=1e-7)


@each_case
def test_an_epoch_is_a_gradient_step_on_the_composition(case: str) -> None:
    """One batch of everything under plain SGD: the parameters move by the gradient of the formula written out."""
    problem = Problem()
    objective = CASES[case](problem)
    run = us.train(
        problem.net,
        problem.gold,
        problem.pool,
        objective,
        epochs=1,
        batch_size=GOLD + POOL,
        lr=0.1,
        optimizer="sgd",
        momentum=0.0,
        progress=False,
    )
    if run.modules:
        # The head began with draws of its own; that it and the student moved must do here.
        assert all(value.isfinite().all() for value in run.student.state_dict().values())
        assert not run.student[0].weight.equal(problem.net[0].weight)  # type: ignore[index]
        assert not run.modules["vid"].variance.equal(us.VidHead(6, 3).variance)
        return
    y = nn.functional.one_hot(problem.y, CLASSES).double()
    own = problem.net(problem.x_gold).double() / objective.temperatures[0]
    hidden = problem.net[:2](problem.x_pool)
    on_gold = GOLD_LOSS.get(case, _cross_entropy)(y, own.softmax(-1))
    on_pool = problem.expected(case, problem.net[2](hidden).double(), hidden.double(), None)
    total = (on_gold.sum() + on_pool.sum()) / (GOLD + POOL)
    assert run.history[0]["loss"] == pytest.approx(total.item(), rel=1e-5)
    gradients = torch.autograd.grad(total, list(problem.net.parameters()))
    for before, after, gradient in zip(problem.net.parameters(), run.student.parameters(), gradients, strict=True):
        torch.testing.assert_close(after, before - 0.1 * gradient, rtol=1e-4, atol=1e-6)


METHODS: dict[str, Callable[[Problem], Objective]] = {
    "taylor": lambda p: us.taylor(),
    "poly": lambda p: us.poly(),
    "ups": lambda p: us.ups(positive_above=0.5, negative_below=0.2),
    "vid": lambda p: us.vid(p.features),
    "fidelity": lambda p: us.fidelity(),
    "oracle": lambda p: us.oracle(truth=torch.arange(POOL) % CLASSES),
    "confident": lambda p: us.confident(),
}


@pytest.mark.parametrize("method", METHODS)
def test_other_label_forms_mean_the_distributions_they_stand_for(method: str) -> None:
    """Top-k lists and votes against the dense labels they amount to: the same first step."""
    problem = Problem()
    best = problem.teacher.topk(2)
    lists = TopK(best.indices, best.values, classes=CLASSES)
    votes = torch.randint(-1, CLASSES, (POOL, 5), generator=torch.Generator().manual_seed(1))
    votes[:, 0] = torch.arange(POOL) % CLASSES
    # Vote shares tie often, and float32 breaks such ties of confidence otherwise than the votes themselves do.
    forms = (lists,) if method == "confident" else (lists, Votes(votes, classes=CLASSES))
    for labels in forms:
        dense = labels.dense(torch.arange(POOL), CLASSES)
        first, second = (
            us.train(problem.net, None, us.Pool(problem.x_pool, form), METHODS[method](problem), epochs=1,
                     batch_size=POOL, progress=False)
            for form in (labels, dense)
        )  # fmt: skip
        assert first.history[0]["loss"] == pytest.approx(second.history[0]["loss"], rel=1e-5)


GIVEN: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "fidelity": (lambda v: us.fidelity_weight(uncertainty=v), "weight"),
    "oracle": (lambda v: us.oracle_weight((v > 0.5).long()), "right"),
    "ups": (lambda v: us.ups(std=v.unsqueeze(1).expand(-1, 2), positive_std=1.0).target, "std"),
    "vid": (lambda v: us.vid_term(v.unsqueeze(1)), "teacher_features"),
}


@pytest.mark.parametrize("method", GIVEN)
def test_given_columns_cover_the_whole_pool_also_rows_without_a_label(method: str) -> None:
    """What a user passes is in the order of their pool; rows without a label are cut from both."""
    values = torch.tensor([0.9, 0.1, 0.8, 0.2, 0.7])
    kept = torch.tensor([0, 2, 3])
    build, column = GIVEN[method]
    labels = us.Pool(torch.zeros(5, 1), [0, -1, 1, 0, -1]).take(kept)

    def unused(x: object) -> Tensor:
        raise AssertionError("only given columns are read")

    options: dict[str, Any] = {"classes": 2, "predict": unused, "features": unused}
    cut = build(values).prepare(Context(None, labels, kept=kept, pool_size=5, **options))[column]
    torch.testing.assert_close(cut, build(values[kept]).prepare(Context(None, labels, **options))[column])
    with pytest.raises(us.UnderstudyError, match="3 rows"):
        build(values[kept]).prepare(Context(None, labels, kept=kept, pool_size=5, **options))


DOCS = Path(__file__).parents[2] / "docs" / "methods.md"


def test_every_method_has_a_section() -> None:
    titles = re.findall(r"^## `(\w+)`: ", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(titles) == sorted(us.METHODS)


def _noisy_names(problem: Problem) -> dict[str, Any]:
    """What the sections on noisy labels call their rows: hard labels, some of them wrong."""
    x, y = torch.cat([problem.x_gold, problem.x_pool]), torch.arange(GOLD + POOL) % CLASSES
    noisy = torch.where(torch.arange(len(y)) % 5 == 0, (y + 1) % CLASSES, y)
    return {
        "x": problem.x_pool,
        "labels": noisy[GOLD:],
        "noisy_labels": noisy[GOLD:],
        "x_few": x[:8],
        "y_few": y[:8],
        "x_gold": problem.x_gold,
        "y": y[:GOLD],
        "labels_on_gold": noisy[:GOLD],
        "gold_with_teacher": us.Gold(problem.x_gold, y[:GOLD], teacher=noisy[:GOLD]),
        "matrix": 0.7 * torch.eye(CLASSES) + 0.3 / CLASSES,
        "held_out": us.Gold(problem.x_pool, y[GOLD:]),
        "x_test": problem.x_pool,
        "y_test": y[GOLD:],
    }


@pytest.mark.parametrize("number", range(len(re.findall("```python", DOCS.read_text(encoding="utf-8")))))
def test_the_examples_of_the_docs_run(number: int) -> None:
    g = torch.Generator().manual_seed(2)
    problem = Problem()
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, CLASSES))
    nn.init.normal_(teacher[3].weight, std=20, generator=g)  # sure enough for UPS to select something
    names: dict[str, Any] = {
        "us": us,
        "student": problem.net,
        "gold": us.Gold(problem.x_gold, problem.y, predict(teacher, problem.x_gold)),
        "pool": us.Pool(problem.x_pool, predict(teacher, problem.x_pool)),
        "teacher": teacher,
        "x_pool": problem.x_pool,
        "y_pool": torch.randint(CLASSES, (POOL,), generator=g),
        **_noisy_names(problem),
        "jitter": lambda x, generator: x + 0.1 * torch.randn(x.shape, generator=generator),
    }
    text = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)[number]
    # Epochs are cut: the examples must run, not converge.
    exec(compile(re.sub(r"\bepochs=\d+", "epochs=1, progress=False", text), str(DOCS), "exec"), names)
