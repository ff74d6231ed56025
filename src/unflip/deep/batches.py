"""The batches of the trainer: from arrays in memory, or from any iterable of batches."""

import warnings
import zlib
from collections.abc import Iterable, Iterator, Sized
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unflip.deep.distributed import World

MARKED_ROWS = 1000  # this many rows of x, evenly spaced, are enough to tell data apart


class Batch(NamedTuple):
    x: Tensor  # (b, ...) float32
    y: Tensor  # (b,) int64
    weight: Tensor | None  # (b,) float32
    n: int  # samples over all processes; b is the share of this process


class MemoryBatches:
    """Arrays in memory; each batch is gathered from them when it is needed, in a new order for each epoch."""

    def __init__(self, x: Any, y: Any, weight: Any, device: torch.device) -> None:
        self.x = as_inputs(x, device)
        self.y = _labels(y, device)
        self.weight = None if weight is None else _tensor(weight).to(device, torch.float32)
        for name, values in (("y", self.y), ("sample_weight", self.weight)):
            if values is not None and values.shape != self.x.shape[:1]:
                expected = f"{name} must have one value for each of the {len(self.x)} samples"
                raise ValueError(f"{expected}; got shape {tuple(values.shape)}")
        if not len(self.x):
            raise ValueError("x has no samples; give at least one")

    def mark(self) -> dict[str, Any]:
        """Return shapes and checksums that tell a checkpoint, or another process, whether these are its data."""
        return {
            "samples": len(self.x),
            "labels": checksum(self.y),
            "sample_weight": None if self.weight is None else checksum(self.weight),
            "x.shape": list(self.x.shape),
            "x.dtype": str(self.x.dtype),
            "x": checksum(self.x[:: -(-len(self.x) // MARKED_ROWS)]),
        }

    def steps(self, batch_size: int) -> int:
        return -(-len(self.x) // batch_size)

    def epoch(self, epoch: int, seed: int, batch_size: int, world: World) -> Iterator[Batch]:
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(seed)).to(self.x.device)
        for rows in order.split(batch_size):
            share = world.share(rows)
            weight = None if self.weight is None else self.weight.index_select(0, share)
            yield Batch(scaled(self.x.index_select(0, share)), self.y.index_select(0, share), weight, len(rows))


class IterableBatches:
    """An object that yields (x, y) or (x, y, weight) batches each time it is iterated, for data larger than memory.

    Each of several processes iterates its own object; all must yield the same batches, and each takes its share.
    """

    def __init__(self, source: Iterable[Any], device: torch.device) -> None:
        if not isinstance(source, Iterable):
            raise TypeError(f"without y, x must be an iterable of (x, y) batches; got {type(source).__name__}")
        if isinstance(source, Iterator):
            fault = f"x is a {type(source).__name__}, which can be read only once, but each epoch reads all of it"
            raise TypeError(f"{fault}; give an object whose __iter__ starts again, such as a DataLoader")
        self.source, self.device = source, device

    def mark(self) -> dict[str, Any]:
        return {}  # what it yields is not known before it is read

    def steps(self, batch_size: int) -> int | None:
        return len(self.source) if isinstance(self.source, Sized) else None

    def epoch(self, epoch: int, seed: int, batch_size: int, world: World) -> Iterator[Batch]:
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(epoch)
        for x, y, *weight in self.source:
            x, y = as_inputs(x, self.device), _labels(y, self.device)
            w = world.share(_tensor(weight[0]).to(self.device, torch.float32)) if weight else None
            yield Batch(scaled(world.share(x)), world.share(y), w, len(x))


def batches_of(x: Any, y: Any, weight: Any, device: torch.device) -> MemoryBatches | IterableBatches:
    if y is not None:
        return MemoryBatches(x, y, weight, device)
    if weight is not None:
        raise ValueError("sample_weight can only be given with arrays; let the iterable yield (x, y, weight) batches")
    return IterableBatches(x, device)


def evaluation_batches(
    data: Any, batch_size: int, device: torch.device, world: World
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield every sample of (x, y) arrays or of an iterable of batches once, in order, over all processes."""
    if isinstance(data, tuple) and len(data) == 2:
        x, y = as_inputs(data[0], device), _labels(data[1], device)
        if len(x) != len(y):
            raise ValueError(f"evaluate has {len(x)} samples but {len(y)} labels; give one label per sample")
        data = zip(x.split(batch_size), y.split(batch_size), strict=True)
    for k, (x, y, *_) in enumerate(data):
        if k % world.size == world.rank:
            yield scaled(as_inputs(x, device)), _labels(y, device)


def as_inputs(x: Any, device: torch.device) -> Tensor:
    """Return a tensor of uint8, or of float32 made from anything else."""
    x = _tensor(x)
    return x.to(device) if x.dtype == torch.uint8 else x.to(device, torch.float32)


def scaled(x: Tensor) -> Tensor:
    """Return uint8 as float32 in [0, 1], and float32 as it is."""
    return x.to(torch.float32).mul_(1 / 255) if x.dtype == torch.uint8 else x


def checksum(values: Tensor) -> int:
    return zlib.crc32(values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def _labels(y: Any, device: torch.device) -> Tensor:
    y = _tensor(y)
    if y.dtype.is_floating_point or y.dtype == torch.bool or y.ndim != 1:
        got = f"{y.dtype} of shape {tuple(y.shape)}"
        raise ValueError(f"y must have one class number, 0, 1, ..., per sample; got {got}")
    return y.to(device, torch.int64)


def _tensor(values: ArrayLike | Tensor) -> Tensor:
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # nothing is written to it
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
