"""Several processes that train together end where one does; `make distributed` has every method and more kills."""

import random
import re
import time
import warnings
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import understudy as us
from understudy.data.batches import plan_epoch
from understudy.training import processes
from understudy.training.processes import BatchShare, Processes
from understudy.training.session import seed_of_rank

from ..three_blobs import CLASSES, FAST, world
from ..together import together
from .distributed_training import TOLERANCE, Net, check_ends, distance, kill, train, train_into

METHODS = ("weighted", "s_model", "co_teaching", "l2rw", "sop")


@pytest.mark.parametrize("name", METHODS)
def test_two_processes_end_where_one_does(name: str) -> None:
    one, several = train(name), together(partial(train, name), 2)
    assert distance(*several) == 0
    assert distance(one, several[0]) <= TOLERANCE
    assert torch.allclose(one["loss"], several[0]["loss"], rtol=0, atol=1e-6)
    for column in ("refined.wrong", "refined.weight"):
        assert torch.allclose(one[column], several[0][column], rtol=0, atol=1e-5)


# Fewer rows in a batch than processes; batches that do not reach the noise layer, which must not decay then; gradients
# of several batches, clipped; gold alone before and after; one function minimised.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "small": ("hard_mining", {"batch_size": 2, "epochs": 1, "optimizer": "sgd", "weight_decay": 0.1}),
    "untouched": ("s_model", {"batch_size": 2, "epochs": 1, "optimizer": "sgd", "weight_decay": 0.1}),
    "accumulated": ("slam", {"accumulate": 3, "clip": 0.5}),
    "phases": ("weighted", {"pretrain_epochs": 2, "finetune_epochs": 1}),
    "observed": ("elr", {"optimizer": "lbfgs", "weight_decay": 0.01}),
    "lbfgs": ("mentornet_pd", {"optimizer": "lbfgs", "weight_decay": 0.01}),
}


@pytest.mark.parametrize("case", [pytest.param("small", marks=pytest.mark.torture), *list(OTHERS)[1:]])
def test_three_processes_end_where_one_does(case: str) -> None:
    name, options = OTHERS[case]
    work = partial(train, name, torch.float64, **options)
    one, several = work(), together(work, 3)
    assert distance(*several[:2]) == 0 and distance(one, several[0]) <= TOLERANCE


def test_every_number_of_processes_sees_the_same_rows_in_the_same_order() -> None:
    for gold_rows, batch_size in ((7, 10), (3, 4), (0, 2)):
        plan = plan_epoch(gold_rows, 50, batch_size=batch_size, seed=3)
        for size in (1, 2, 3):
            parts = [list(plan.part_of(rank, size)) for rank in range(size)]
            for number, (golds, pools) in enumerate(plan):
                whole = torch.cat([golds, pools + 1000])
                seen = torch.full_like(whole, -1)
                for rank, part in enumerate(parts):
                    seen[rank::size] = torch.cat([part[number][0], part[number][1] + 1000])
                assert seen.equal(whole)
    assert [rows.tolist() for rows in plan_epoch(2, 3, batch_size=5).part_of(1, 2)[0]] == _second_rows()


def _second_rows() -> list[list[int]]:
    golds, pools = plan_epoch(2, 3, batch_size=5)[0]
    return [[int(golds[1])], [int(pools[1])]]


def test_a_gathered_batch_is_in_its_order() -> None:
    def gathered() -> list[Tensor]:
        processes = Processes()
        share, rank = BatchShare(processes, golds=2, pools=5), processes.rank
        every = torch.arange(5.0)
        whole = share.gather(share.own(every))
        bits = share.gather(share.own(every > 2))
        return [whole, bits, share.own(every), share.gather(share.own(torch.ones(2), gold=True) * rank, gold=True)]

    found = together(gathered, 3)
    assert all(each[0].equal(torch.arange(5.0)) and each[1].equal(torch.arange(5) > 2) for each in found)
    # Two gold rows are those of processes 0 and 1: the first pool row is that of process 2.
    assert [each[2].tolist() for each in found] == [[1.0, 4.0], [2.0], [0.0, 3.0]]
    assert found[0][3].tolist() == [0.0, 1.0]


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # A bias before BatchNorm has gradient 0, and Adam makes steps of its rounding errors.
        first, second = nn.Linear(4, 8, bias=False), nn.Linear(8, CLASSES)
        self.layers = nn.Sequential(first, nn.BatchNorm1d(8), nn.ReLU(), second).double()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x.double())
        return y


@pytest.mark.parametrize("method", ["vanilla", "l2rw"])
def test_batchnorm_sees_the_batch_of_all_where_asked(method: str) -> None:
    def work(**options: Any) -> dict[str, Tensor]:
        gold, pool, _ = world("soft")
        run = us.train(Normed, gold, pool, us.METHODS[method](), **FAST | {"batch_size": 50} | options)
        return run.student.state_dict()

    one, (synced, _), (apart, other) = work(), together(partial(work, sync_batchnorm=True), 2), together(work, 2)
    assert max(float((one[name] - synced[name]).abs().max()) for name in one) < 1e-9
    # The named exception: each process has norms of its own rows; what it remembers of them is the mean.
    assert max(float((one[name] - apart[name]).abs().max()) for name in one) > 1e-3
    assert all(apart[name].equal(other[name]) for name in apart)


def test_a_run_that_one_process_began_goes_on_with_three(tmp_path: Path) -> None:
    train_into("l2rw", tmp_path / "undisturbed")
    work = partial(train_into, "l2rw", tmp_path / "run")
    assert together(work, 1, kill={0: ("after a step", 7)}) == [None] and not (tmp_path / "run/config.json").exists()
    assert together(work, 3) == [None] * 3
    assert check_ends(tmp_path / "run", tmp_path / "undisturbed", same_bits=False) <= TOLERANCE


@pytest.mark.slow
def test_a_killed_process_ends_the_others_and_the_run_goes_on(tmp_path: Path) -> None:
    assert kill("weighted", tmp_path, 2, random.Random(5)) <= TOLERANCE


def test_an_error_of_one_ends_all() -> None:
    def work() -> None:
        gold, pool, _ = world("soft")

        def augment(x: Tensor, generator: torch.Generator) -> Tensor:
            if dist.get_rank() == 1:
                raise us.UnderstudyError("row 7 is broken; mend it")
            return x

        us.train(Net, gold, pool, us.vanilla(), **FAST, augment=augment)

    first, second = together(work, 2)
    assert "row 7 is broken" in str(second)
    assert "another process of this training has ended" in str(first) and "resume" in str(first)
    assert ".cc:" not in str(first), "no line of somebody's source"


def test_a_process_that_sleeps_is_not_waited_for_longer_than_a_step_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STEP", timedelta(seconds=2))

    def work() -> None:
        gold, pool, _ = world("soft")

        def augment(x: Tensor, generator: torch.Generator) -> Tensor:
            time.sleep(4 * dist.get_rank())
            return x

        us.train(Net, gold, pool, us.vanilla(), **FAST, augment=augment)

    first, _ = together(work, 2)
    assert re.search(r"has ended or does not answer \(Timed out waiting 2000ms .*\); .*--resume", str(first))


def test_an_error_of_what_is_done_once_is_everybodys() -> None:
    def work() -> None:
        gold, pool, _ = world("soft")
        us.train(Net, us.Gold(gold.x, gold.y), pool, us.slam(), **FAST)

    assert len({str(error) for error in together(work, 2)}) == 1


def test_processes_told_different_things_are_refused() -> None:
    def work() -> None:
        gold, pool, _ = world("soft")
        us.train(Net, gold, pool, us.vanilla(), **FAST, seed=dist.get_rank())

    for error in together(work, 2):
        assert "seed is" in str(error) and "same arguments" in str(error)


@pytest.mark.parametrize("run", ["train", "auto"])
@pytest.mark.parametrize("which", ["gold", "pool", "test", "select"])
def test_data_that_differ_in_one_process_are_refused(run: str, which: str) -> None:
    """As many rows, and one label of one process flipped."""

    def work() -> None:
        gold, pool, _ = world("soft")
        sets = {"gold": gold, "pool": pool, "test": (gold.x, gold.y), "select": us.Gold(gold.x, gold.y)}
        if dist.get_rank() == 1:
            flipped = gold.y.clone()
            flipped[7] = (flipped[7] + 1) % CLASSES
            teacher = pool.teacher.dense(torch.arange(len(pool)), CLASSES)
            teacher[7] = teacher[7].roll(1)
            others = {"gold": us.Gold(gold.x, flipped, gold.teacher), "pool": us.Pool(pool.x, teacher)}
            sets[which] = others.get(which) or {"test": (gold.x, flipped), "select": us.Gold(gold.x, flipped)}[which]
        if run == "train":
            us.train(Net, sets.pop("gold"), sets.pop("pool"), us.vanilla(), **FAST, **sets)
        else:
            us.auto(Net, sets.pop("gold"), sets.pop("pool"), methods=["vanilla"], epochs=1, progress=False, **sets)

    for error in together(work, 3):
        assert re.search(rf"the fingerprint of {which} is \w+ in process 0 and \w+ in process 1; give all", str(error))


def test_methods_that_differ_in_one_process_are_refused() -> None:
    def work() -> None:
        gold, pool, _ = world("soft")
        us.train(Net, gold, pool, us.gce(g=0.7 if dist.get_rank() else 0.3), **FAST)

    assert all("the method's options is" in str(error) for error in together(work, 2))


def test_students_of_other_weights_begin_as_the_first() -> None:
    def work() -> dict[str, Tensor]:
        torch.manual_seed(dist.get_rank() if dist.is_initialized() else 0)
        gold, pool, _ = world("soft")
        return us.train(Net(), gold, pool, us.vanilla(), **FAST).student.state_dict()

    one, several = work(), together(work, 2)
    assert all(several[0][name].equal(several[1][name]) for name in one)
    assert max(float((one[name] - several[0][name]).abs().max()) for name in one) <= TOLERANCE


def test_a_fork_has_no_part_in_its_parents_group() -> None:
    def work() -> dict[str, float]:
        gold, pool, _ = world("soft")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = us.compare(
                Net, gold, pool, ["vanilla", "gce"], seeds=1, workers=2, test=gold, **FAST | {"epochs": 1}
            )
        return {name: of_seed[0].last for name, of_seed in found.outcomes.items()}

    both, (only,) = together(work, 2), together(work, 1)
    assert both == [only, only] and len(only) >= 2


def test_one_process_of_a_group_has_the_bits_of_none() -> None:
    one, (only,) = train("weighted"), together(partial(train, "weighted"), 1)
    assert all(one[name].equal(only[name]) for name in one)


def test_dropout_differs_between_processes_and_repeats_itself(tmp_path: Path) -> None:
    def work(out: Path, **options: Any) -> dict[str, Tensor]:
        gold, pool, _ = world("soft")
        net = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, CLASSES))
        return us.train(net, gold, pool, us.vanilla(), out=out, **FAST | options).student.state_dict()

    torch.manual_seed(0)
    whole = together(partial(work, tmp_path / "whole"), 2)[0]
    again = together(partial(work, tmp_path / "again"), 2)[0]
    assert all(whole[name].equal(again[name]) for name in whole)
    assert seed_of_rank(17, 0) == 17 != seed_of_rank(17, 1)
