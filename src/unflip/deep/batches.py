"""The batches of the trainer: from arrays in memory, or from any iterable of batches."""

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from unflip._validation import IntArray
from unflip.deep.distributed import World

LARGEST_SAMPLE = 2**29  # bytes
MARKED_ROWS = 1000  # this many rows of x, evenly spaced, are enough to tell data apart


class Batch(NamedTuple):
    x: Tensor  # (b, ...) float32
    y: Tensor  # (b,) int64
    weight: Tensor | None  # (b,) float32
    n: int  # samples over all processes; b is the share of this process
    rows: Tensor | None  # (b,) int64, where the samples stand in the data; None if that is not known


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
            x, y = self.x.index_select(0, share), self.y.index_select(0, share)
            yield Batch(scaled(x), y, weight, len(rows), share)


class IterableBatches:
    """An object that yields (x, y) or (x, y, weight) batches each time it is iterated, for data larger than memory.

    Each of several processes iterates its own object; all must yield the same batches, and each takes its share.
    """

    def __init__(self, source: Iterable[Any], device: torch.device) -> None:
        _check_repeatable(source)
        self.source, self.device = source, device

    def mark(self) -> dict[str, Any]:
        return {}  # what it yields is not known before it is read

    def steps(self, batch_size: int) -> int | None:
        return known_length(self.source)

    def epoch(self, epoch: int, seed: int, batch_size: int, world: World) -> Iterator[Batch]:
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(epoch)
        for x, y, *weight in self.source:
            x, y = as_inputs(x, self.device), _labels(y, self.device)
            w = world.share(_tensor(weight[0]).to(self.device, torch.float32)) if weight else None
            yield Batch(scaled(world.share(x)), world.share(y), w, len(x), None)


class CheckedBatches:
    """Batches as they come from a caller, of which an estimator checks and scales x and turns the labels to codes."""

    def __init__(self, source: Iterable[Any], inputs: Callable[[Any], Any], codes: Callable[[Any], Any]) -> None:
        self.source, self.inputs, self.codes = source, inputs, codes

    def __iter__(self) -> Iterator[Any]:
        for x, y, *weight in self.source:
            yield self.inputs(x), self.codes(y), *weight

    def __len__(self) -> int:
        return len(self.source)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(epoch)


def sample_batches(source: Iterable[Any], size: int) -> tuple[NDArray[Any], IntArray, NDArray[Any], Any]:
    """Read (x, y) or (x, y, weight) batches once.

    Return a uniform sample of x, at most ``size`` rows and 512 MiB, the places of its rows, and y and the weights (None
    if there are none) of all rows.
    """
    _check_repeatable(source)
    random = np.random.default_rng(0)
    kept: list[NDArray[Any]] = []
    labels: list[NDArray[Any]] = []
    keys, weights = np.zeros(0), []
    places: IntArray = np.zeros(0, dtype=np.int64)
    n = 0
    for x, y, *weight in source:
        block = np.asarray(x)
        if len(block) == 0 or len(block) != len(y):
            raise ValueError(f"batch {len(labels)} has {len(block)} samples and {len(y)} labels; give one per sample")
        size = min(size, max(1, LARGEST_SAMPLE // max(1, block[0].nbytes)))
        kept.append(block)
        keys = np.append(keys, random.random(len(block)))
        places = np.append(places, np.arange(n, n + len(block)))
        n += len(block)
        if len(keys) > 2 * size:  # the rows with the smallest keys are a uniform sample of those that were read
            chosen = np.sort(np.argpartition(keys, size)[:size])
            kept, keys, places = [np.concatenate(kept)[chosen]], keys[chosen], places[chosen]
        labels.append(np.asarray(y))
        weights.append(np.asarray(weight[0], dtype=np.float64) if weight else None)
    if not labels:
        raise ValueError("X yields no batches; give an iterable with at least one batch of (x, y)")
    chosen = np.sort(np.argsort(keys)[:size])
    given = [block for block in weights if block is not None]
    if given and len(given) < len(weights):
        raise ValueError("some batches have weights and some do not; give (x, y, weight) in each of them, or (x, y)")
    return (
        np.concatenate(kept)[chosen],
        places[chosen],
        np.concatenate(labels),
        np.concatenate(given) if given else None,
    )


def is_batches(X: Any) -> bool:
    """Return whether this is an iterable of batches, such as a DataLoader, and not an array, a frame or a list."""
    return isinstance(X, Iterable) and not hasattr(X, "__getitem__") and not hasattr(X, "__array__")


def known_length(source: Any) -> int | None:
    """Return the number of batches; None if it is not known, as of a DataLoader over an IterableDataset."""
    try:
        return len(source)
    except TypeError:
        return None


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


def _check_repeatable(source: Any) -> None:
    if not isinstance(source, Iterable):
        raise TypeError(f"without y, x must be an iterable of (x, y) batches; got {type(source).__name__}")
    if isinstance(source, Iterator):
        fault = f"x is a {type(source).__name__}, which can be read only once, but each epoch reads all of it"
        raise TypeError(f"{fault}; give an object whose __iter__ starts again, such as a DataLoader")


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
