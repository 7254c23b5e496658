"""The watch by hand, against plain loops, where the truth is known, and its false alarms on clean data."""

import math

import pytest
import torch
from scipy.stats import fisher_exact
from torch import Tensor

from understudy.active.watch import NoiseWatch, contradicted, looks_random, noise_watch


def test_votes_by_hand() -> None:
    """Rows at 0, 1, 2, at 10, 11, 12 and at 100 on a line, two neighbours each."""
    known = torch.tensor([0.0, 1, 2, 10, 11, 12, 100], dtype=torch.float64)[:, None]
    wrong, chance = contradicted(known, torch.tensor([0, 0, 0, 0, 1, 2, 2]), k=2)
    # On the left all agree. 10 sees {1, 2}, 11 sees {0, 2}, 12 sees {0, 1}: each vote is a tie without its own label.
    # 100 sees {1, 2}, a tie with its own.
    assert wrong.tolist() == [0, 0, 0, 1, 1, 1, 0.5]
    # Labels: 4, 1 and 2 of 7. Votes: 3 + ½ + ½, ½ + ½ + ½ and ½ + ½ + ½ of 7.
    assert chance == pytest.approx(1 - (4 * 4 + 1 * 1.5 + 2 * 1.5) / 49)


def test_the_threshold_by_hand() -> None:
    """15 neighbours and chance 0.9: P(Binomial(15, 0.45) ≥ 11) = 2.5% looks random, ≥ 10 with 7.7% does not."""
    known = torch.arange(15, dtype=torch.float64)[:, None]
    tails = {n: sum(math.comb(15, j) * 0.45**j * 0.55 ** (15 - j) for j in range(n, 16)) for n in (10, 11)}
    assert tails[11] < 0.05 < tails[10]
    for count, expected in ((10, False), (11, True)):
        wrong = (torch.arange(15) < count).double()
        assert looks_random(torch.tensor([[7.0]], dtype=torch.float64), known, wrong, 0.9, 15).tolist() == [expected]


def plain_contradicted(known: Tensor, labels: Tensor, k: int) -> list[float]:
    found = []
    for i in range(len(known)):
        distances = sorted((math.dist(known[i].tolist(), known[j].tolist()), j) for j in range(len(known)) if j != i)
        near = [j for distance, j in distances if distance <= distances[k - 1][0] + 1e-9]
        counts: dict[int, int] = {}
        for j in near:
            counts[int(labels[j])] = counts.get(int(labels[j]), 0) + 1
        winners = [label for label, count in counts.items() if count == max(counts.values())]
        found.append(1 - (int(labels[i]) in winners) / len(winners))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_votes_match_plain_loops_with_ties_and_in_any_order(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    known = torch.randint(4, (60, 3), generator=generator).double()
    labels = torch.randint(3, (60,), generator=generator)
    wrong, chance = contradicted(known, labels, 5)
    torch.testing.assert_close(wrong, torch.tensor(plain_contradicted(known, labels, 5), dtype=torch.float64))
    order = torch.randperm(60, generator=generator)
    other, same_chance = contradicted(known[order], labels[order], 5)
    torch.testing.assert_close(other, wrong[order])
    assert same_chance == pytest.approx(chance)


def pool(noisy: int, clean: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """First ``noisy`` rows in one cloud with random labels, then clean rows in a cloud per class."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (noisy + clean,), generator=generator)
    centre = 6 * torch.eye(classes, 8)[y]
    centre[:noisy] = -6
    return centre + torch.randn(noisy + clean, 8, generator=generator), y


@pytest.mark.parametrize("classes", [4, 8])
def test_shares_where_the_truth_is_known(classes: int) -> None:
    """40% of the pool is noise; a batch with 30 noisy rows of 50 is told from one with 20."""
    hidden, y = pool(800, 1200, classes, seed=0)
    order = torch.randperm(2000, generator=torch.Generator().manual_seed(1))
    labelled, rest = order[:500], order[500:]
    noisy, clean = rest[rest < 800], rest[rest >= 800]
    watch = noise_watch(hidden, labelled, y[labelled], torch.cat([noisy[:30], clean[:20]]))
    # Not every noisy place shows itself in 15 neighbours: the estimate errs on the low side.
    assert 0.3 <= watch.share <= 0.62
    assert 0.2 <= watch.random_share <= 0.42
    assert noise_watch(hidden, labelled, y[labelled], clean[:50]).share == 0
    all_noise = noise_watch(hidden, labelled, y[labelled], noisy[:50])
    assert all_noise.alarm and all_noise.share > 0.55 and all_noise.p_value < 1e-6


def test_the_p_value_is_fishers() -> None:
    """Against the table test of another library: noisy and other rows, in the batch and in the reference."""
    hidden, y = pool(60, 140, 4, seed=3)
    labelled, batch = torch.arange(0, 200, 2), torch.arange(1, 41, 2)
    watch = noise_watch(hidden, labelled, y[labelled], batch)
    inside, outside = round(20 * watch.share), round(100 * watch.random_share)
    assert inside and outside
    expected = fisher_exact([[inside, 20 - inside], [outside, 100 - outside]], alternative="greater").pvalue
    assert watch.p_value == pytest.approx(expected)


def test_many_equal_rows_are_seen_through() -> None:
    """All-black images: hundreds of ties, whose evidence counts in full."""
    hidden, y = pool(500, 500, 4, seed=0)
    hidden[:500] = 0
    labelled = torch.arange(0, 1000, 4)
    watch = noise_watch(hidden, labelled, y[labelled], torch.arange(1, 100, 4))
    assert watch.share == 1 and 0.45 < watch.random_share < 0.55


def test_random_batches_alarm_at_most_as_often_as_promised() -> None:
    """Fisher's test is exact: under a random batch of a half noisy pool at most 1% alarms."""
    alarms = 0
    for seed in range(200):
        hidden, y = pool(300, 300, 4, seed=seed)
        order = torch.randperm(600, generator=torch.Generator().manual_seed(seed))
        alarms += noise_watch(hidden, order[:150], y[order[:150]], order[150:190], seed=seed).alarm
    assert alarms <= 6  # P(Binomial(200, 0.01) > 6) < 0.5%


def test_borders_of_clean_classes_do_not_alarm() -> None:
    """The worst a strategy can do on clean data: the whole batch from between the classes. At most 1 in 40 alarms."""
    alarms = 0
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        y = torch.randint(4, (1500,), generator=generator)
        hidden = 2.5 * torch.eye(4, 8)[y] + 0.8 * torch.randn(1500, 8, generator=generator)
        order = torch.randperm(1500, generator=generator)
        labelled, rest = order[:300], order[300:]
        two = torch.cdist(hidden[rest], 2.5 * torch.eye(4, 8)).topk(2, largest=False).values
        border = rest[(two[:, 1] - two[:, 0]).argsort()[:50]]
        alarms += noise_watch(hidden, labelled, y[labelled], border, seed=seed).alarm
    assert alarms <= 1


def test_too_few_labels_say_nothing() -> None:
    hidden = torch.zeros(5, 2)
    assert noise_watch(hidden, torch.tensor([0]), torch.tensor([1]), torch.tensor([1, 2])) == NoiseWatch(0, 0, 1)
    one_class = noise_watch(
        torch.randn(50, 2), torch.arange(20), torch.zeros(20, dtype=torch.long), torch.arange(20, 30)
    )
    assert one_class.share == 0 and not one_class.alarm


def test_an_alarm_needs_both_chance_and_size() -> None:
    assert NoiseWatch(0.5, 0.2, 0.001).alarm
    assert not NoiseWatch(0.5, 0.2, 0.02).alarm
    assert not NoiseWatch(0.29, 0.2, 0.001).alarm
