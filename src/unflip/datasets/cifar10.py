"""Reader of the CIFAR-10 binary version: records of one label byte and 3,072 pixel bytes."""

from hashlib import sha256
from pathlib import Path

import numpy as np

from unflip.datasets.entry import Arrays, Codes, Float32Array, scaled

RECORDS = 10_000  # per file
PIXELS = 3 * 32 * 32  # the red, the green and the blue plane
RECORD = 1 + PIXELS


def read_cifar10(*paths: Path) -> Arrays:
    """Read the training batches in order and the test batch, the last path; images become (n, 3, 32, 32)."""
    seen: dict[bytes, Path] = {}
    return Arrays(*_read_batches(paths[:-1], seen), *_read_batches(paths[-1:], seen))


def count_cifar10(*paths: Path) -> tuple[int, int]:
    """Return the number of records for training and for testing, from the sizes of the files."""
    for path in paths:
        _check_size(path)
    return RECORDS * (len(paths) - 1), RECORDS


def _read_batches(paths: tuple[Path, ...], seen: dict[bytes, Path]) -> tuple[Float32Array, Codes]:
    # One batch of bytes at a time in addition to the floats: 614 MB + 31 MB instead of 614 MB + 154 MB.
    x = np.empty((len(paths), RECORDS, PIXELS), np.float32)
    y = np.empty((len(paths), RECORDS), np.int64)
    for k, path in enumerate(paths):
        _check_size(path)
        records = np.fromfile(path, np.uint8).reshape(RECORDS, RECORD)
        twin = seen.setdefault(sha256(records.data).digest(), path)
        if twin != path:
            raise ValueError(f"{path} is a copy of {twin}; CIFAR-10's batches all differ, get the files again")
        y[k] = records[:, 0]
        if y[k].max() > 9:
            at = int(np.argmax(y[k] > 9))
            raise ValueError(
                f"{path} has the label {y[k, at]} at offset {at * RECORD} (record {at}), expected 0 .. 9; "
                "it is not a batch of the CIFAR-10 binary version"
            )
        scaled(records[:, 1:], out=x[k])
    return x.reshape(-1, 3, 32, 32), y.reshape(-1)


def _check_size(path: Path) -> None:
    size = path.stat().st_size
    if size != RECORD * RECORDS:
        fault = f"is truncated: it ends at offset {size}, within record {size // RECORD}"
        if size > RECORD * RECORDS:
            fault = f"continues after offset {RECORD * RECORDS}, to {size}"
        raise ValueError(
            f"{path} {fault}; a CIFAR-10 batch has {RECORDS} records of {RECORD} bytes. Get the file again"
        )
