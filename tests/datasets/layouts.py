"""Small files in the official layouts, written from the format's description."""

import gzip
import struct
from pathlib import Path

import numpy as np
from scipy.io import savemat


def write_idx(path: Path, values: np.ndarray) -> bytes:
    """Write unsigned bytes as IDX, gzipped if the name says so; return the content before compression."""
    content = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return content


def write_mnist(folder: Path, ending: str = ".gz", n_train: int = 12, n_test: int = 5) -> dict[str, np.ndarray]:
    """Write the four files of MNIST with random content; return the arrays by the file's name without ``.gz``."""
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in (("train", n_train), ("t10k", n_test)):
        arrays[f"{part}-images-idx3-ubyte"] = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        arrays[f"{part}-labels-idx1-ubyte"] = rng.integers(0, 10, n, dtype=np.uint8)
    for name, values in arrays.items():
        write_idx(folder / f"{name}{ending}", values)
    return arrays


def cifar10_batches(records: int) -> dict[str, np.ndarray]:
    """Random batches of CIFAR-10 by file name, (records, 3073): a label, then the red, green and blue plane."""
    rng = np.random.default_rng(1)
    batches = {}
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        batch = rng.integers(0, 256, (records, 3073), dtype=np.uint8)
        batch[:, 0] = rng.integers(0, 10, records)
        batches[f"{name}.bin"] = batch
    return batches


def write_cifar10(folder: Path, records: int) -> dict[str, np.ndarray]:
    batches = cifar10_batches(records)
    folder.mkdir(parents=True, exist_ok=True)
    for name, batch in batches.items():
        batch.tofile(folder / name)
    return batches


def write_svhn(path: Path, n: int, compress: bool = True, **replace: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    X = rng.integers(0, 256, (32, 32, 3, n), dtype=np.uint8)
    y = (np.arange(n, dtype=np.uint8) % 10 + 1)[:, np.newaxis]  # 1 .. 10
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"X": X, "y": y} | replace, do_compression=compress)
    return X, y
