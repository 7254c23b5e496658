"""A learning-to-reweight step beside the same step by torchopt's differentiable SGD, in one process, one thread.

    UNDERSTUDY_PEERS=.peers/bin/python python -m benchmarks.reweight_torchopt

torchopt 0.7.3 differentiates through a virtual step of ``MetaSGD``, as its examples reweight; both contestants then
take the weighted step with SGD and momentum. They are timed under the peers' Python, where torchopt is installed, with
this package on its path: ratios across two processes would compare moments, not methods.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import Figure, main

REPETITIONS = {"LeNet": 40, "MLP 784-512-512-10": 80, "ResNet-20": 7}


def worker() -> None:
    import torch
    import torchopt
    from torch.nn import functional as F

    from benchmarks.reweight_step import GOLD, NETS, POOL, contestants, medians, normalised

    torch.set_num_threads(1)
    found = {}
    for name, repetitions in REPETITIONS.items():
        net, shape = NETS[name]()
        steps = contestants(net, shape)
        x, gold_x = torch.randn(POOL, *shape), torch.randn(GOLD, *shape)
        y, gold_y = torch.randint(0, 10, (POOL,)), torch.randint(0, 10, (GOLD,))
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

        def by_torchopt(net=net, x=x, y=y, gold_x=gold_x, gold_y=gold_y, optimizer=optimizer) -> None:
            meta = torchopt.MetaSGD(net, lr=1e-3)
            before = torchopt.extract_state_dict(net, by="reference")
            epsilon = torch.zeros(POOL, requires_grad=True)
            meta.step((epsilon * F.cross_entropy(net(x), y, reduction="none")).sum())
            u = -torch.autograd.grad(F.cross_entropy(net(gold_x), gold_y), epsilon)[0]
            torchopt.recover_state_dict(net, before)
            optimizer.zero_grad()
            (normalised(u) * F.cross_entropy(net(x), y, reduction="none")).sum().backward()
            optimizer.step()

        found[name] = medians({"ours": steps["reweighted"], "torchopt": by_torchopt}, repetitions)
    print(json.dumps(found))


def figures() -> list[Figure]:
    python, root = os.environ.get("UNDERSTUDY_PEERS"), Path(__file__).parents[1]
    if not python:
        return [
            Figure(f"a reweighted step, {name}", "ms", None, "torchopt", note="not installed") for name in REPETITIONS
        ]
    path = os.pathsep.join([str(root), str(root / "src")])
    done = subprocess.run(
        [python, "-m", "benchmarks.reweight_torchopt", "--worker"],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])
    return [
        Figure(f"a reweighted step, {name}", "ms", ms["ours"], "torchopt MetaSGD", ms["torchopt"],
               ms["ours"] / ms["torchopt"])
        for name, ms in json.loads(done.stdout.splitlines()[-1]).items()
    ]  # fmt: skip


if __name__ == "__main__":
    worker() if "--worker" in sys.argv else main(figures)
