"""Reader of the CIFAR-10 binary version: records of one label byte and 3,072 pixel bytes."""

from hashlib import sha256
from pathlib import Path

import numpy as np

from unflip.datasets.dataset import Arrays, Codes, Float32Array, scaled

RECORDS = 10_000  # a file
PIXELS = 3 * 32 * 32  # the red, the green and the blue plane
RECORD = 1 + PIXELS


def read_cifar10(*paths: Path) -> Arrays:
    """Read the training batches in their order and, the last path, the test batch; images become (n, 3, 32, 32)."""
    seen: dict[bytes, Path] = {}
    return Arrays(*_read_batches(paths[:-1], seen), *_read_batches(paths[-1:], seen))


def count_cifar10(*paths: Path) -> tuple[int, int]:
    """Return the number of records for training and for testing, which the sizes of the files tell."""
    for path in paths:
        _check_size(path)
    return RECORDS * (len(paths) - 1), RECORDS


def _read_batches(paths: tuple[Path, ...], seen: dict[bytes, Path]) -> tuple[Float32Array, Codes]:
    # One batch of bytes at a time beside the floats: 614 MB + 31 MB, not 614 MB + 154 MB.
    x = np.empty((len(paths), RECORDS, PIXELS), np.float32)
    y = np.empty((len(paths), RECORDS), np.int64)
    for k, path in enumerate(paths):
        _check_size(path)
        records = np.fromfile(path, np.uint8).reshape(RECORDS, RECORD)
        twin = seen.setdefault(sha256(records.data).digest(), path)
        if twin != path:
            raise ValueError(
                f"{path} is a copy of {twin}; no two batches of CIFAR-10 are the same, get the files again"
            )
        y[k] = records[:, 0]
        if y[k].max() > 9:
            at = int(np.argmax(y[k] > 9))
            raise ValueError(
                f"{path} has the label {y[k, at]} at offset {at * RECORD} (record {at}); labels are 0 .. 9: "
                "it is not a batch of the CIFAR-10 binary version"
            )
        scaled(records[:, 1:], out=x[k])
    return x.reshape(-1, 3, 32, 32), y.reshape(-1)


def _check_size(path: Path) -> None:
    size = path.stat().st_size
    if size != RECORD * RECORDS:
        fault = (
            f"is truncated: it ends at offset {size}, within record {size // RECORD}"
            if size < RECORD * RECORDS
            else f"goes on after offset {RECORD * RECORDS}, to {size}"
        )
        raise ValueError(
            f"{path} {fault}; a CIFAR-10 batch has {RECORDS} records of {RECORD} bytes, "
            f"{RECORD * RECORDS} in all. Get the file again"
        )
