"""Ray as executor: the same tables and shards as without it, lost workers included; what is not used is not loaded."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import understudy as us
from shard_pools import write_pool, write_run
from three_blobs import FAST, student, world
from understudy.parallel.executors import Failure, InProcess, attempts
from understudy.parallel.ray_tasks import RayTasks

engine = pytest.importorskip("ray")

# What is defined here is sent by value: a worker cannot import a test.
engine.cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = pytest.mark.filterwarnings("default")  # Ray's own


@pytest.fixture(scope="module")
def two_workers() -> Iterator[RayTasks]:
    """One cluster for the whole file: it takes seconds to start."""
    assert list(us.ray("local", workers=1, cpus=2).map(abs, [-1])) == [(0, 1)], "as many cores as its workers take"
    yield us.ray("local", workers=2)
    engine.shutdown()


def once(folder: Path, cell: int) -> bool:
    try:
        (folder / str(cell)).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def test_cells_come_back_and_a_lost_one_is_run_again(two_workers: RayTasks, tmp_path: Path) -> None:
    def killed_once(cell: int) -> int:
        if cell == 1 and once(tmp_path, cell):
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * cell

    found = list(two_workers.map(killed_once, iter(range(6))))
    assert sorted(found) == [(cell, 10 * cell) for cell in range(6)]
    assert found[-1][0] == 1, "when the others are done"


@pytest.mark.torture
def test_what_fails_is_a_result_and_ends_nobody_else(two_workers: RayTasks) -> None:
    def fails(cell: int) -> int:
        if cell == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if cell == 2:
            raise us.UnderstudyError("refused; do otherwise")
        return cell // (cell - 3)

    found: dict[int, Any] = dict(attempts(two_workers, fails, range(5)))
    assert isinstance(found[1], Failure) and "worked on 1 was killed, twice" in found[1].reason
    assert found[2] == Failure("refused; do otherwise")
    assert isinstance(found[3], Failure) and "ZeroDivisionError" in found[3].details
    assert (found[0], found[4]) == (0, 4)
    with pytest.raises(us.UnderstudyError, match="refused; do otherwise"):
        list(two_workers.map(fails, [2]))


def test_cells_that_fit_nowhere_are_refused_and_do_not_wait(two_workers: RayTasks) -> None:
    for too_much in ({"cpus": 3.0}, {"gpus": 1.0}):
        with pytest.raises(us.UnderstudyError, match="no node of the Ray cluster has them; request less"):
            next(us.ray("local", **too_much).map(abs, [1]))


def test_workers_have_one_thread_and_fetch_the_function_once(two_workers: RayTasks) -> None:
    class Counted:
        def __init__(self) -> None:
            self.large, self.calls = torch.ones(1000), 0

        def __call__(self, cell: int) -> tuple[int, int, int]:
            self.calls += 1
            return os.getpid(), self.calls, torch.get_num_threads()

    found = [result for _, result in two_workers.map(Counted(), range(20))]
    assert {threads for _, _, threads in found} == {1}
    for process in {process for process, _, _ in found}:
        calls = [count for one, count, _ in found if one == process]
        assert sorted(calls) == list(range(1, len(calls) + 1)), "one object for all cells of a worker"


@pytest.mark.slow
def test_the_same_table_as_in_one_process(two_workers: RayTasks) -> None:
    gold, pool, _ = world("soft")
    options: Any = {**FAST, "epochs": 1, "seeds": 2, "pretrain_epochs": 1}
    net = student()
    alone = us.compare(net, gold, pool, ["slam"], workers=1, **options)
    on_ray = us.compare(net, gold, pool, ["slam"], executor=two_workers, **options)
    assert on_ray.as_dict() == alone.as_dict()


@pytest.mark.torture
def test_the_same_choice_as_in_one_process(two_workers: RayTasks) -> None:
    gold, pool, _ = world("soft")
    options: Any = {**FAST, "pilot_rows": 100, "folds": 2, "methods": ["vanilla", "slam"]}
    net = student()
    alone = us.auto(net, gold, pool, workers=1, **options)
    on_ray = us.auto(net, gold, pool, executor=two_workers, **options)
    assert on_ray.config["auto"] == alone.config["auto"]
    assert torch.equal(on_ray.predict(pool.x), alone.predict(pool.x))


@pytest.mark.torture
def test_shards_are_made_once_whatever_happens_to_workers(two_workers: RayTasks, tmp_path: Path) -> None:
    """A worker loses its life over a shard: the folder is that of one process, byte for byte."""
    write_pool(tmp_path / "pool", [7, 1, 5, 6, 3, 8])
    run = write_run(tmp_path / "run")
    (tmp_path / "seen").mkdir()

    def killed_once(table: Any) -> dict[str, Any]:
        if "002" in table.path.name and once(tmp_path / "seen", 2):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"probs": run.predict(table.columns["x"]).numpy()}

    us.map_shards(killed_once, tmp_path / "pool", tmp_path / "ray", executor=two_workers, progress=False)
    us.map_shards(killed_once, tmp_path / "pool", tmp_path / "here", executor=InProcess(), progress=False)
    for file in sorted((tmp_path / "here").glob("*.parquet")):
        assert (tmp_path / "ray" / file.name).read_bytes() == file.read_bytes()
    assert len(list((tmp_path / "ray").glob("*.parquet"))) == 6


def test_bad_arguments_and_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(us.UnderstudyError, match="at least 1"):
        us.ray(workers=0)
    with pytest.raises(us.UnderstudyError, match="takes some of a core"):
        us.ray(cpus=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(us.UnderstudyError, match=r'us\.ray needs Ray: pip install .*\[ray\]"'):
        us.ray()


def test_nothing_of_ray_is_loaded_unless_it_is_used() -> None:
    code = (
        "import sys, understudy as us; us.compare, us.map_shards; import understudy.cli, "
        "understudy.parallel.run_on_file; print('ray' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
