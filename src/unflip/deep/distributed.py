"""Training in several processes, started by ``torchrun --nproc-per-node 4 train.py``.

Every process runs the same script on the same data. Each takes its share of every batch, DistributedDataParallel
averages the gradients, and only process 0 writes files and shows progress. Whatever a script draws at random or
estimates before training, such as a seed or T, goes through ``first_rank``.
"""

import atexit
import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

TIMEOUT = timedelta(seconds=45)  # when a process dies or hangs, the others stop with an error after at most this time
Value = TypeVar("Value")


class World(NamedTuple):
    """The number of this process and of all processes; (0, 1) without ``torchrun``."""

    rank: int
    size: int

    def share(self, batch: Tensor) -> Tensor:
        """Return this process's samples of a batch that all processes see: every ``size``-th, starting at ``rank``.

        If a batch has fewer samples than there are processes, the rest get its first sample, with ``weight`` 0.
        """
        return batch if self.size == 1 else batch[self.rank :: self.size] if self.rank < len(batch) else batch[:1]

    def weight(self, n: int) -> float:
        """Return the factor of a share's mean loss with which the mean over processes is that over all n samples."""
        return len(range(self.rank, n, self.size)) * self.size / n

    def sum(self, value: Tensor) -> Tensor:
        """Sum over all processes, in place."""
        if self.size > 1:
            distributed.all_reduce(value)
        return value

    def copy_first(self, values: Iterable[Tensor]) -> None:
        """Give every process the values of process 0, in place."""
        if self.size > 1:
            for value in values:
                distributed.broadcast(value, 0)

    def check_equal(self, values: dict[str, Any], advice: str) -> None:
        """Stop all processes if their values differ, instead of letting them wait for each other."""
        if self.size == 1:
            return
        everyone: list[Any] = [None] * self.size
        distributed.all_gather_object(everyone, values)
        for rank, other in enumerate(everyone):
            for name in everyone[0] | other:
                ours, theirs = everyone[0].get(name), other.get(name)
                if ours != theirs:
                    raise RuntimeError(f"process 0 has {name}={ours!r}, process {rank} has {theirs!r}; {advice}")


def launched() -> bool:
    """Return whether ``torchrun``, or another launcher that sets the same variables, started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def local_device(device: torch.device) -> torch.device:
    """Return the GPU of this process if the launcher started one process per GPU, otherwise the device itself."""
    if launched() and device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def join(device: torch.device) -> World:
    """Join the other processes (gloo for CPUs, nccl for GPUs), once per process; return (0, 1) if there are none."""
    if not distributed.is_available():
        return World(0, 1)
    if not distributed.is_initialized():
        if not launched() or os.environ["WORLD_SIZE"] == "1":
            return World(0, 1)
        # Both if there are GPUs: ``first_rank`` joins before it is known where training runs.
        gpus = torch.cuda.is_available() and distributed.is_nccl_available()
        distributed.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=TIMEOUT)
        # Only at the end: a second group of the same launch would find the addresses of the first.
        atexit.register(lambda: distributed.is_initialized() and distributed.destroy_process_group())
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    return World(distributed.get_rank(), distributed.get_world_size())


def first_rank(value: Value) -> Value:
    """Return process 0's value, an integer or an array, in every process; all must call it, in the same order."""
    if join(torch.device("cpu")).size == 1:
        return value
    values = [value]
    distributed.broadcast_object_list(values, 0)
    return values[0]


def parallel(method: nn.Module, device: torch.device, world: World) -> nn.Module:
    """Return the method with its gradients averaged over the processes; with one process, the method itself."""
    if world.size == 1:
        return method
    # A method may leave parameters unused in some batches and use all of them in others. If it never does, torch says
    # once on stderr that this could be turned off; that message comes from C++ and cannot be filtered here.
    devices = [device] if device.type == "cuda" else None
    return DistributedDataParallel(method, device_ids=devices, find_unused_parameters=True)
