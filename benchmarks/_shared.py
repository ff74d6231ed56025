"""Shared parts of the benchmark scripts: data, timing and tables."""

import argparse
import gzip
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np


def arguments(description: str) -> argparse.Namespace:
    """Parse ``--data-dir`` (default ``UNFLIP_DATA``) and ``--out``, which every script has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("UNFLIP_DATA"), help="default: UNFLIP_DATA")
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    return parser.parse_args()


def path_of(options: argparse.Namespace, name: str) -> Path:
    """Return the path of a data file, or end the script with a friendly message if it is missing."""
    if options.data_dir is None or not (Path(options.data_dir) / name).exists():
        print(f"skipped: {name} is not in the data directory; set UNFLIP_DATA or --data-dir", file=sys.stderr)
        raise SystemExit(0)
    return Path(options.data_dir) / name


def features(options: argparse.Namespace, dtype: type = np.float32) -> tuple[np.ndarray, ...]:
    """Return CIFAR-10 as 320 features: x_train, y_train, x_test, y_test."""
    with np.load(path_of(options, "cifar10_features.npz")) as arrays:
        return tuple(
            arrays[name].astype(dtype if name.startswith("x") else np.int64)
            for name in ("x_train", "y_train", "x_test", "y_test")
        )


def images(options: argparse.Namespace, name: str) -> tuple[np.ndarray, ...]:
    """Return MNIST or Fashion-MNIST, pixels in [0, 1] as rows of 784: x_train, y_train, x_test, y_test."""

    def read(part: str, skip: int) -> np.ndarray:
        with gzip.open(path_of(options, f"{name}/{part}-ubyte.gz")) as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip)

    return (
        read("train-images-idx3", 16).reshape(-1, 784).astype(np.float32) / 255,
        read("train-labels-idx1", 8).astype(np.int64),
        read("t10k-images-idx3", 16).reshape(-1, 784).astype(np.float32) / 255,
        read("t10k-labels-idx1", 8).astype(np.int64),
    )


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest wall time of several runs: the run that other processes disturbed least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


class Report:
    """Prints Markdown to the terminal, and writes it to ``--out`` at the end."""

    def __init__(self, title: str, command: str, options: argparse.Namespace) -> None:
        self.lines: list[str] = []
        self.out: Path | None = options.out
        self.say(f"# {title}\n\nMade by `{command}`.\n")

    def say(self, text: str) -> None:
        print(text, flush=True)
        self.lines.append(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        lines = [header, ["---"] * len(header), *rows]
        self.say("\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n")

    def close(self) -> None:
        if self.out:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self.out.write_text("\n".join(self.lines))
