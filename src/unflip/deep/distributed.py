"""Training in many processes: what the trainer needs to know when ``torchrun`` started it.

    torchrun --nproc-per-node 4 train.py

Every process runs the same script on the same data. Each takes its share of every batch, DistributedDataParallel
averages the gradients, and process 0 alone writes files and shows progress.
"""

import atexit
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

# A process that dies or hangs ends the others with an error after at most this time.
TIMEOUT = timedelta(seconds=45)


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

    def check_equal(self, value: int, what: str, device: torch.device) -> None:
        """Stop here, and not by waiting for each other, when the processes are not doing the same."""
        if self.size > 1:
            bounds = torch.tensor([value, -value], device=device)
            distributed.all_reduce(bounds, distributed.ReduceOp.MAX)
            if bounds[0] != -bounds[1]:
                raise RuntimeError(f"the processes disagree ({-bounds[1]} to {bounds[0]}) about {what}")


def launched() -> bool:
    """Whether ``torchrun``, or another launcher that sets the same variables, started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def local_device(device: torch.device) -> torch.device:
    """The GPU of this process where the launcher started one process a GPU."""
    if launched() and device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def join(device: torch.device, timeout: timedelta = TIMEOUT) -> World:
    """Join the other processes (gloo on a CPU, nccl on GPUs), once a process; (0, 1) where there are none."""
    if not distributed.is_available():
        return World(0, 1)
    if not distributed.is_initialized():
        if not launched() or os.environ["WORLD_SIZE"] == "1":
            return World(0, 1)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timeout)
        # Once, at the end: a second group of the same launch would meet the addresses of the first.
        atexit.register(leave)
    return World(distributed.get_rank(), distributed.get_world_size())


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
    with warnings.catch_warnings():
        # A method may leave parameters unused in some batches and use all of them in others.
        warnings.filterwarnings("ignore", message="find_unused_parameters=True was specified")
        yield DistributedDataParallel(
            method, device_ids=[device] if device.type == "cuda" else None, find_unused_parameters=True
        )
