"""Training in many processes: what the trainer needs to know when ``torchrun`` started it.

    torchrun --nproc-per-node 4 train.py

Every process runs the same script on the same data. Each takes its share of every batch, DistributedDataParallel
averages the gradients, and process 0 alone writes files and shows progress. What a script draws at random or estimates
before training, such as a seed or T, goes through ``first_rank``.
"""

import atexit
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

# A process that dies or hangs ends the others with an error after at most this time.
TIMEOUT = timedelta(seconds=45)

Value = TypeVar("Value")


class World(NamedTuple):
    """Which of how many processes this one is; (0, 1) without ``torchrun``."""

    rank: int
    size: int

    def share(self, batch: Tensor) -> Tensor:
        """This process's samples of a batch that all processes see: every ``size``-th from ``rank`` on.

        A batch with fewer samples than processes leaves some without; these get the first sample, and ``weight`` is 0.
        """
        return batch if self.size == 1 else batch[self.rank :: self.size] if self.rank < len(batch) else batch[:1]

    def weight(self, n: int) -> float:
        """The factor of the mean loss over the share that makes the mean over processes that over all n samples."""
        return len(range(self.rank, n, self.size)) * self.size / n

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.size > 1:
            distributed.all_reduce(value)
        return value

    def copy_first(self, values: Iterable[Tensor]) -> None:
        """Give every process the values of process 0, in place."""
        if self.size > 1:
            for value in values:
                distributed.broadcast(value, 0)

    def check_equal(self, values: dict[str, Any], advice: str) -> None:
        """Stop all processes here, and not by waiting for each other, when they are not doing the same."""
        if self.size == 1:
            return
        everyone: list[Any] = [None] * self.size
        distributed.all_gather_object(everyone, values)
        first = everyone[0]
        for rank, other in enumerate(everyone):
            for name in first | other:
                if first.get(name) != other.get(name):
                    raise RuntimeError(
                        f"process 0 has {name}={first.get(name)!r}, process {rank} has {other.get(name)!r}; {advice}"
                    )


def launched() -> bool:
    """Whether ``torchrun``, or another launcher that sets the same variables, started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def local_device(device: torch.device) -> torch.device:
    """The GPU of this process where the launcher started one process a GPU."""
    if launched() and device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def join(device: torch.device, timeout: timedelta = TIMEOUT) -> World:
    """Join the other processes (gloo for a CPU, nccl for GPUs), once a process; (0, 1) where there are none."""
    if not distributed.is_available():
        return World(0, 1)
    if not distributed.is_initialized():
        if not launched() or os.environ["WORLD_SIZE"] == "1":
            return World(0, 1)
        # Both where there are GPUs: ``first_rank`` joins before it is known where training runs.
        gpus = torch.cuda.is_available() and distributed.is_nccl_available()
        distributed.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=timeout)
        # Once, at the end: a second group of the same launch would meet the addresses of the first.
        atexit.register(leave)
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    return World(distributed.get_rank(), distributed.get_world_size())


def first_rank(value: Value) -> Value:
    """Process 0's value, an integer or an array, in every process; the value itself where there is one process.

    All processes must call it, in the same order. Use it for what must be the same everywhere but may not be, such as a
    seed drawn at random or an estimated T.

    Examples
    --------
    >>> first_rank(7)
    7
    """
    if join(torch.device("cpu")).size == 1:
        return value
    values = [value]
    distributed.broadcast_object_list(values, 0)
    return values[0]


def leave() -> None:
    """Close the connections to the other processes."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


@contextmanager
def parallel(method: nn.Module, device: torch.device, world: World) -> Iterator[nn.Module]:
    """The method with its gradients averaged over the processes; the method itself where there is one process."""
    if world.size == 1:
        yield method
        return
    # A method may leave parameters unused in some batches and use all of them in others. Where it never does, torch
    # says once on stderr that this could be turned off; that comes from C++ and cannot be filtered here.
    yield DistributedDataParallel(
        method, device_ids=[device] if device.type == "cuda" else None, find_unused_parameters=True
    )
