"""Two real processes train as one does, and none waits for a dead one."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from unflip import registry
from unflip.deep.distributed import World, first_rank, join, launched
from unflip.deep.methods import find_method, make_method
from unflip.deep.trainer import Trainer
from unflip.noise import symmetric

N = 129  # with batches of 16 the last one has a single sample: one process has none


class PartlyUsed(nn.Module):
    """The last layer is not used, as a method may leave parameters without a gradient."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(), nn.Linear(8, 3)), nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x)


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (N, 6), generator=generator, dtype=torch.uint8)
    return x, x[:, :3].argmax(1), torch.rand(N, generator=generator)


def trainer(seed=0, network=PartlyUsed, **settings):
    """Each process brings its own seed of the order; that of process 0 counts."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        method = make_method("ce", network, 3)
    return Trainer(method, batch_size=16, seed=int(os.environ.get("RANK", 0)), **settings)


def one_gradient(seed=0):
    """The gradient of the first batch: what a step of plain descent with rate 1 takes away."""
    x, y, weight = data()
    one = trainer(seed, epochs=1, steps_per_epoch=1, lr=1.0, optimizer=torch.optim.SGD)
    before = [p.detach().clone() for p in trainer().method.parameters()]
    one.fit(x, y, sample_weight=weight)
    return [b - p.detach() for b, p in zip(before, one.method.parameters(), strict=True)]


def three_epochs(seed=0, **settings):
    x, y, weight = data()
    full = trainer(seed, epochs=3, lr=0.01, ema=0.9, decay_from=1, **settings)
    full.fit(x, y, sample_weight=weight, evaluate=(x, y))
    return full


def normed(rank):
    """With batch norm every process sees other statistics while it trains."""
    x, y, _ = data()
    full = trainer(rank, Normed, epochs=2, lr=0.01, ema=0.9)
    full.fit(x[:128], y[:128], evaluate=lambda t: {"accuracy": t.predict_logits(x)})
    return result(full)


def refusal(rank):
    """What is said when the processes were given other labels."""
    x, y, _ = data()
    with pytest.raises(RuntimeError) as raised:
        trainer(epochs=1).fit(x, (y + rank) % 3)
    return str(raised.value)


def every_method(rank):
    """The weights of each method after a few steps, or why it refuses to train in several processes."""
    x, y, _ = data()
    found = {}
    for name in registry.names("deep"):
        with torch.random.fork_rng([]):
            torch.manual_seed(rank)
            method = make_method(name, partial(nn.Linear, 6, 3), 3, symmetric(3, 0.2))
        try:
            Trainer(method, epochs=7, steps_per_epoch=1, batch_size=64, lr=0.01).fit(x, y)
            found[name] = method.state_dict()
        except ValueError as error:
            found[name] = str(error)
    return found


def first_values(rank):
    return [first_rank(rank + 5), first_rank(np.full((2, 2), rank + 0.5)).tolist(), first_rank(None)]


def result(full):
    accuracies = [record["accuracy"] for record in full.history]
    losses = [record["loss"] for record in full.history]
    return {"weights": full.method.state_dict(), "average": full.average.state_dict(), "numbers": accuracies + losses}


def worker(directory, end):
    """What each of two processes does; process 1 starts from other weights, and in the end it is no more."""
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    state = {
        "first": first_values(rank),  # before any trainer
        "gradient": one_gradient(seed=rank),
        **result(three_epochs(seed=rank)),
        "normed": normed(rank),
        "refusal": refusal(rank),
        "methods": every_method(rank),
    }
    torch.save(state, f"{directory}/{rank}.pt")
    if end == "none":
        return

    def fall(trainer, record):
        if rank == 1 and record["epoch"] == 1:
            os.kill(os.getpid(), {"kill": signal.SIGKILL, "hang": signal.SIGSTOP}[end])

    x, y, weight = data()
    long = trainer(epochs=3, lr=0.01, ema=0.9, decay_from=1, checkpoint=f"{directory}/checkpoint.pt")
    long.fit(x, y, sample_weight=weight, evaluate=(x, y), callback=fall)


def environment():
    source = os.pathsep.join(path for path in sys.path if path)
    return os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}


def start_two(directory, end):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = environment() | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return [
        subprocess.Popen(
            [sys.executable, __file__, str(directory), end],
            env=base | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]


def check_agreement(directory):
    ours = [torch.load(directory / f"{rank}.pt", weights_only=True) for rank in (0, 1)]
    alone = {"gradient": one_gradient(), **result(three_epochs())}
    for part in ("weights", "average"):
        for name, value in alone[part].items():
            assert torch.equal(ours[0][part][name], ours[1][part][name]), name
            torch.testing.assert_close(ours[0][part][name], value)
    assert any(gradient.abs().max() > 1e-3 for gradient in alone["gradient"])
    for k, value in enumerate(alone["gradient"]):
        torch.testing.assert_close(ours[0]["gradient"][k], value, rtol=1e-5, atol=1e-6)
    for both in ours:
        assert both["numbers"] == pytest.approx(alone["numbers"], rel=1e-5)
        assert both["first"] == [5, [[0.5, 0.5], [0.5, 0.5]], None]
        assert re.search(r"process 0 has labels=\d+, process 1 has \d+; give every process the same", both["refusal"])
    for part in ("weights", "average"):
        first, second = (both["normed"][part] for both in ours)
        assert "networks.0.1.running_mean" in first
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
    assert ours[0]["normed"]["numbers"] == ours[1]["normed"]["numbers"]
    for name, first in ours[0]["methods"].items():
        second = ours[1]["methods"][name]
        if find_method(name).per_sample:
            assert first == second
            assert "several processes do not share; train it in one process" in first
        else:
            assert all(torch.equal(first[key], second[key]) for key in first), name


def test_two_processes_agree_with_one_and_survive_a_kill(tmp_path):
    processes = start_two(tmp_path, "kill")
    try:
        assert processes[1].wait(120) == -signal.SIGKILL
        start = time.monotonic()
        _, error = processes[0].communicate(timeout=60)
        assert time.monotonic() - start < 60
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert processes[0].returncode > 0
    assert "Error" in error
    check_agreement(tmp_path)

    # Process 1 fell at the end of epoch 1, which process 0 may have finished. The rest follows in one process.
    assert len(torch.load(tmp_path / "checkpoint.pt", weights_only=True)["history"]) in (1, 2)
    resumed = three_epochs(seed=9, checkpoint=tmp_path / "checkpoint.pt")
    for name, value in three_epochs().method.state_dict().items():
        torch.testing.assert_close(resumed.method.state_dict()[name], value)


@pytest.mark.slow
def test_a_process_that_hangs_ends_the_other_within_a_minute(tmp_path):
    processes = start_two(tmp_path, "hang")
    try:
        _, error = processes[0].communicate(timeout=180)
        # from the last sign of life, a checkpoint, to the end of the other
        assert time.time() - (tmp_path / "checkpoint.pt").stat().st_mtime < 60
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert processes[0].returncode > 0
    assert "Error" in error


@pytest.mark.slow
def test_torchrun(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
    environ = {key: value for key, value in environment().items() if key != "PYTHONWARNINGS"}
    subprocess.run([*command, str(tmp_path), "none"], env=environ, check=True, timeout=200)
    check_agreement(tmp_path)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_shares_are_a_partition_and_their_means_add_up(n, size):
    batch = torch.arange(1.0, n + 1)
    worlds = [World(rank, size) for rank in range(size)]
    taken = torch.cat([world.share(batch) for world in worlds if world.weight(n)])
    assert sorted(taken.tolist()) == batch.tolist()
    means = [world.share(batch).mean() * world.weight(n) for world in worlds]
    assert sum(means) / size == pytest.approx(batch.mean())


def test_alone_without_a_launcher(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert not launched()
    assert join(torch.device("cpu")) == (0, 1)
    total = torch.tensor(3)
    assert World(0, 1).sum(total) is total
    T = np.eye(2)
    assert first_rank(T) is T
    World(0, 1).check_equal({"seed": 3}, "nobody else is here")


if __name__ == "__main__":
    worker(*sys.argv[1:])
