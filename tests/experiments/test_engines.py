"""Each engine at a scale of seconds, on the digits that ship with scikit-learn, or on pure arithmetic."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from experiments.datasets import load
from experiments.engines.accuracy_curves import AccuracyCurves, MarginAccuracy, best_k
from experiments.engines.active import Active
from experiments.engines.distil import Distillation, Method, deal
from experiments.engines.imbalance import Imbalance
from experiments.engines.kernel import KERNELS, InformationGain, InformationRatio, Scalar, squared_error
from experiments.engines.landscape import Landscape, gradients_and_losses
from experiments.engines.noisy import NoisyLabels, shares, taken_for, worst_recall
from experiments.engines.ordered import NOISE, OrderedSGD, top
from experiments.engines.teacher_epochs import HARD, TeacherEpochs
from experiments.engines.weights import ExampleWeights
from experiments.needs import REPEATED
from experiments.sweep import Training, key

import understudy as us

TINY, FEW = Training(epochs=4, batch_size=32), Training(epochs=30, batch_size=32)
DISTIL = Distillation(
    "digits", "mlp:64", "mlp:32", (60, 200), 100, (Method("Vanilla", "vanilla"), Method("SLaM", "slam")), TINY, FEW,
    FEW, unlabelled=300, drawn=True,
)  # fmt: skip
NOISY = NoisyLabels("digits", "mlp:32", "background", (0.4,), ("Baseline",), TINY, gold=(10,), watched=100, finetune=5)

pytestmark = pytest.mark.filterwarnings("ignore::understudy.UnderstudyWarning")


def by_row(sweep: Any, column: str | None = None, seed: int = 0) -> dict[str, float]:
    return {cell.row: cell.value for cell in sweep.measure(column or sweep.columns[0], seed)}


def test_distillation_deals_disjoint_rows_and_teaches() -> None:
    dealt = deal(replace(DISTIL, select=50), 60, seed=0)
    parts = [dealt.gold.rows.take(torch.arange(160)), dealt.pool.rows.take(torch.arange(300))]
    assert dealt.select is not None
    parts.append(dealt.select.rows.take(torch.arange(50)))
    # No image twice: the digits hold no duplicates among so few rows.
    assert len(torch.cat(parts).flatten(1).unique(dim=0)) == 510
    assert len(dealt.gold.teacher_rows) == 100 and dealt.gold.teacher_rows.min() == 60
    found = by_row(DISTIL)
    assert set(found) == {"Teacher", "Gold only", "Vanilla", "SLaM"} and min(found.values()) > 0.5


def test_teacher_and_student_are_different_nets_even_of_one_kind() -> None:
    dealt = deal(replace(DISTIL, teacher="mlp:32"), 60, seed=0)
    assert isinstance(dealt.start, torch.nn.Module)
    weights = [next(net.parameters()).detach() for net in (dealt.teacher, dealt.start)]
    assert float((weights[0] - weights[1]).abs().mean()) > 0.01


def test_validation_rows_that_only_estimate_never_train(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = replace(DISTIL, estimate_only=True)
    dealt = deal(setting, 60, seed=0)
    assert len(dealt.gold) == 160 and len(dealt.gold.training_rows()) == 60
    epochs: list[int] = []
    train = us.train
    monkeypatch.setattr(
        us, "train", lambda *given, **options: (epochs.append(options["epochs"]), train(*given, **options))[1]
    )
    setting.on_gold_alone(dealt, 0)
    # 4 epochs of 360 rows are 48 steps of 32; of 60 rows, 26 epochs' worth.
    assert epochs == [26]


def test_the_first_rows_are_the_labelled_ones_where_a_paper_says_so() -> None:
    data = load("digits")
    dealt = deal(replace(DISTIL, drawn=False), 60, seed=3)
    assert torch.equal(dealt.gold.y[:60], data.y[:60])


def test_the_same_seed_gives_the_same_cells_and_curves_end_in_the_value() -> None:
    short = replace(DISTIL, methods=(Method("SLaM", "slam"),))
    first, again = short.measure("60", 1), short.measure("60", 1)
    assert first == again
    assert [(len(cell.curve), cell.curve[-1:] == (cell.value,)) for cell in first if cell.row == "SLaM"] == [(4, True)]
    unfollowed = replace(short, curve_rows=0).measure("60", 1)
    assert [cell.value for cell in unfollowed] == [cell.value for cell in first] and not unfollowed[-1].curve


def test_a_grid_is_chosen_on_rows_kept_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first option is better on the test rows, the second on the select rows: the second is reported."""
    good: dict[int, float] = {80: 0.6, 400: 0.9}
    better: dict[int, float] = {80: 0.7, 400: 0.8}
    found = iter([good, better])
    monkeypatch.setattr(
        Distillation, "train", lambda *_: SimpleNamespace(student=next(found), history=[], columns={}, facts={})
    )
    evaluate = us.evaluate
    monkeypatch.setattr(
        us, "evaluate", lambda net, rows: {"accuracy": net[len(rows)]} if isinstance(net, dict) else evaluate(net, rows)
    )
    grid = (Method("SLaM", "slam", (0.5, 0.95)),)
    assert replace(DISTIL, select=80, methods=grid).measure("60", 0)[-1].value == 0.8
    with pytest.raises(us.UnderstudyError, match="select=0"):
        replace(DISTIL, methods=grid).check()


def test_temperatures_as_columns() -> None:
    setting = replace(DISTIL, temperatures=(0.5, 2.0), labelled=(60,), methods=())
    assert setting.columns == ("T = 0.5", "T = 2")
    assert by_row(setting, "T = 0.5")["Teacher"] == by_row(setting, "T = 2")["Teacher"]


def test_noisy_labels_with_early_stopping_and_fine_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = ("Baseline", "Baseline +ES +FT", "Weighted", "Clean only", "S-Model +Conf")
    setting = replace(NOISY, methods=methods, extras=("others taken for the background",))
    trained: list[int] = []
    train = us.train
    monkeypatch.setattr(
        us, "train", lambda *args, **options: trained.append(options["epochs"]) or train(*args, **options)
    )
    found = by_row(setting)
    assert set(methods) <= set(found)
    taken = "Baseline: others taken for the background"
    assert found[taken] > found["Weighted: others taken for the background"]
    # Four trainings and one fine-tuning: +ES is an epoch of the baseline's, which the S-Model starts from too.
    assert len(trained) == 5 and trained.count(4) == 3


def test_fine_tuning_is_the_loops_own() -> None:
    """The same rate, rows and epochs as ``finetune_epochs`` with ``finetune_lr``, so about the same student."""
    setting = replace(NOISY, finetune=50, finetune_lr=1e-3)
    flipped = setting.deal(0, 0)
    run = setting._train("Baseline", flipped, 0)
    ours = us.evaluate(setting._finetuned(run.student, flipped, 0), flipped.test)["accuracy"]
    options = TINY.options(len(flipped.pool)) | {"finetune_epochs": 12, "finetune_lr": 1e-3, "gold_repeat": 0}
    loops = us.train(setting._build(), flipped.gold, flipped.pool, us.vanilla(), test=flipped.test, **options)
    assert ours > run.metrics()["last"]["accuracy"]
    assert setting._gold_epochs(50, flipped.gold) == 12, "100 rows in batches of 32 are 4 steps"
    assert ours == pytest.approx(loops.metrics()["finetuned"]["accuracy"], abs=0.05)


def test_the_column_without_noise_may_have_fewer_methods() -> None:
    setting = replace(NOISY, noise=(0.0, 0.4), methods=("Baseline", "Random"), without_noise=("Baseline",))
    assert set(by_row(setting, "0%")) == {"Baseline"} and set(by_row(setting, "40%")) == {"Baseline", "Random"}


def test_a_confusion_by_hand_keeps_classes_that_do_not_occur() -> None:
    found = shares(torch.tensor([0, 0, 0, 2]), torch.tensor([0, 1, 0, 1]), 3)
    assert torch.allclose(found, torch.tensor([[2 / 3, 1 / 3, 0], [0, 1, 0], [0, 1, 0]]))


def test_recall_of_the_worst_class_by_hand() -> None:
    predicted, truth = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 1, 1, 0])
    assert worst_recall(predicted, truth) == 0.5  # of class 0 one of two, of class 1 two of three


def test_flips_reach_the_pool_and_the_watched_rows_only() -> None:
    flipped = replace(NOISY, backgrounds=(3,)).deal(0, 0)
    wrong = flipped.given_labels != flipped.truth
    assert 0.3 < float(wrong.double().mean()) < 0.42 and set(flipped.given_labels[wrong].tolist()) == {3}
    assert flipped.clean_share[3] < 0.5 and torch.equal(flipped.clean_share[[0, 9]], torch.ones(2))
    assert flipped.transition[3].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert flipped.gold is not None and torch.bincount(flipped.gold.y).tolist() == [10] * 10


def test_the_share_taken_for_the_background() -> None:
    predicted, truth = torch.tensor([0, 0, 1, 2, 0]), torch.tensor([0, 1, 1, 2, 2])
    assert taken_for(predicted, truth, background=0) == 0.5


def test_imbalance_keeps_the_ratio() -> None:
    setting = Imbalance(
        "digits", "mlp:16", (9,), Training(steps=10, batch_size=20, lr=0.1, optimizer="sgd"), rows=100, seeds=1
    )
    dealt = setting.deal(9, 0)
    assert dealt.everything.teacher is not None and torch.bincount(dealt.everything.teacher.top1()).tolist() == [10, 90]
    # The ten that steer are split from these, not added to them.
    assert dealt.rest.teacher is not None and torch.bincount(dealt.rest.teacher.top1()).tolist() == [5, 85]
    assert len(dealt.gold) == 10
    both = torch.cat([dealt.gold.x, dealt.rest.x]).flatten(1)
    assert len(torch.cat([both, dealt.everything.x.flatten(1)]).unique(dim=0)) == len(dealt.everything.x.unique(dim=0))
    assert set(by_row(setting)) == set(setting.methods)
    assert set(by_row(replace(setting, ratios=(5, 9), mild=("Baseline",)), "5:1")) == {"Baseline"}


def test_weights_of_flipped_rows() -> None:
    found = by_row(ExampleWeights("digits", "mlp:64", 0.4, 10, Training(epochs=8), watched=200, batches=2))
    assert found["clean rows with a weight, mixed batch"] > found["flipped rows with a weight, mixed batch"]
    weighted = {f"{kind} rows with a weight, {batch}"
                for kind in ("clean", "flipped") for batch in ("mixed batch", "one class")}  # fmt: skip
    assert set(found) == weighted | {f"Baseline: {REPEATED}"}


def test_active_rows_have_accuracy_and_clean_picks() -> None:
    setting = Active("digits", "mlp:16", ("random", "badge"), start=20, batch=10, budget=40, epochs=2, rows=100)
    found = by_row(setting, "Noisy-Blank")
    assert set(found) == {"random", "badge", "random, clean picks", "badge, clean picks"}
    assert found["badge, clean picks"] > 0.5 > found["random, clean picks"]
    papers = replace(setting, strategies=("s_badge",), until_accuracy=0.99, ema_warmup=False)
    assert set(by_row(papers, "Noisy-Class")) == {"s_badge", "s_badge, clean picks"}


def test_the_highest_losses_by_hand_and_that_they_are_the_noise() -> None:
    assert top(torch.tensor([0.3, 2.0, 0.1, 2.0]), 2).tolist() == [0, 1, 0, 1]
    setting = OrderedSGD("digits", "mlp:32", 16, Training(epochs=10, batch_size=32), rows=200)
    found = by_row(setting, "Noisy-Blank")
    assert found[f"top q: {NOISE}"] > found[f"every row: {NOISE}"] == pytest.approx(0.8)
    assert set(by_row(setting, "Clean")) == {"every row", "top q"}


def test_information_falls_with_flips_whatever_the_subspace() -> None:
    setting = InformationRatio("digits_binary", "mlp:32", (0.0, 0.4), Training(epochs=10), batch=64)
    found = {column: by_row(setting, column) for column in KERNELS}
    assert all(found[column]["0% flipped"] > found[column]["40% flipped"] for column in KERNELS[:3])
    trained, random = found[KERNELS[0]], found[KERNELS[3]]
    assert trained["accuracy"] > trained["share of the larger class"] > 0.7
    assert trained["0% flipped"] > random["0% flipped"]


def test_the_gain_is_the_difference_of_ratios_and_a_constant_answer_has_none_once_centred() -> None:
    setting = InformationGain("digits_binary", "mlp:32", 0.3, (5,), Training(epochs=5), batch=64)
    found = by_row(setting)
    assert found["gain"] == pytest.approx(found["self-distilled labels"] - found["noisy labels"])
    assert found["gain of always one class, not centred"] > 0.1
    given = load("digits_binary").y[:64]
    kernel = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    assert setting._gain(kernel @ kernel.T, given, torch.zeros_like(given)) == pytest.approx(0, abs=1e-6)


def test_squared_error_of_one_output_by_hand() -> None:
    """f = 0.4 and y = 1: 0.36 / 2; a label blended to y = 0.5: 0.01 / 2. The two logits say f and its sign."""
    net = Scalar(torch.nn.Linear(1, 1))
    torch.nn.init.constant_(net.net.weight, 0.4)
    torch.nn.init.zeros_(net.net.bias)
    logits = net(torch.ones(2, 1))
    error = squared_error(logits.log_softmax(-1), torch.tensor([[0.0, 1.0], [0.25, 0.75]]))
    assert error.tolist() == pytest.approx([0.18, 0.005], rel=1e-5)
    assert logits.argmax(-1).tolist() == [1, 1]


def test_a_stopped_teacher_is_the_beginning_of_the_whole_training() -> None:
    """Its rate at any step is that of the whole schedule there: after half of 10 epochs, that of 5 of 20."""
    setting = TeacherEpochs("digits", "mlp:32", "mlp:16", (10, 20), Training(epochs=20, schedule="cosine"), TINY)
    stopped, whole = setting._stopped(100, 10), setting._stopped(100, 20)
    assert stopped["epochs"] == 10 and stopped["schedule"](0.5) == pytest.approx(whole["schedule"](0.25))
    assert stopped["schedule"](1.0) == pytest.approx(0.5)


def test_teacher_epochs_and_accuracy_curves() -> None:
    setting = TeacherEpochs("digits", "mlp:32", "mlp:16", (1, 10), replace(TINY, epochs=10), TINY)
    found = by_row(setting, "10 epochs")
    assert found["Teacher"] > 0.6 and set(found) == {"Teacher", "Student", HARD}
    assert set(by_row(setting, "1 epochs")) == {"Teacher", "Student"}
    scores = by_row(AccuracyCurves(DISTIL, (100,)))
    assert len(scores) == 6 and max(scores.values()) < 0.5
    assert scores["Isotonic regression"] < scores["Constant"]
    thirds = by_row(MarginAccuracy(DISTIL))
    assert thirds["highest margins"] > thirds["lowest margins"]


def test_the_number_of_neighbours_is_chosen_by_leaving_one_out() -> None:
    """A step in the middle: of two neighbours one is right at the step; more are wrong further away from it."""
    points = torch.arange(16, dtype=torch.float64)
    assert best_k(points, (points >= 8).double()) == 2
    # Alternating answers: every neighbour next door is wrong, so the widest mean is the best.
    assert best_k(points, points % 2) == 8


def test_the_landscape_of_a_trusted_teacher_is_cross_entropy() -> None:
    """With alpha = 1 the mix is the prediction: loss and gradient are logistic regression's."""
    x = torch.tensor([[0.6, 0.8], [-1.0, 0.0]], dtype=torch.float64)
    w = torch.tensor([[2.0, -1.0]], dtype=torch.float64)
    ones = torch.ones(2, dtype=torch.float64)
    gradient, loss = gradients_and_losses(w, x, ones, ones)
    z = torch.tensor([0.4, -2.0], dtype=torch.float64)
    y = torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert loss.item() == pytest.approx(torch.nn.functional.binary_cross_entropy_with_logits(z, y).item())
    expected = ((z.sigmoid() - y)[:, None] * x).mean(0)
    assert torch.allclose(gradient[0], expected)


def test_slams_landscape_is_not_convex_and_cross_entropys_is() -> None:
    setting = Landscape(rows=200, points=11, pairs=200, steps=300, starts=2)
    slam, plain = by_row(setting, "SLaM's loss"), by_row(setting, "cross-entropy")
    assert slam["midpoints above the chord"] > 0.1 > plain["midpoints above the chord"] == 0
    assert slam["rows right after descent"] > 0.95


def test_settings_have_keys_of_their_own_but_seeds_do_not_matter() -> None:
    assert key(DISTIL) == key(replace(DISTIL, seeds=9)) != key(replace(DISTIL, hard=True))


def test_steps_become_epochs_and_a_warm_up_rises() -> None:
    training = Training(steps=80_000, batch_size=100, warmup_epochs=5, schedule="constant")
    options = training.options(45_000)
    assert options["epochs"] == 178
    rate = options["schedule"]
    assert rate(2.5 / 178) == pytest.approx(0.5) and rate(5 / 178) == rate(0.9) == 1.0
