"""Arrays, sparse matrices, data frames and memory maps as blocks of rows."""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unflip.sources.block import Block, make_block
from unflip.sources.columns import string_names
from unflip.sources.source import Source


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """Some rows of arrays, in blocks of at most ``rows``. X is None where only the labels matter."""

    X: Any
    y: Any
    weights: Any
    name: str
    start: int
    rows: int
    feature_names: Sequence[str] | None = None
    columns: Sequence[Any] | None = None

    def blocks(self) -> Iterator[Block]:
        X, y, weights = (_opened(values) for values in (self.X, self.y, self.weights))
        n = _length(y) if X is None else _length(X)
        for start in range(0, n, self.rows):
            # The last block takes what is left, so that a y of another length is seen.
            stop = start + self.rows if start + self.rows < n else None
            x, labels, w = (_slice(values, start, stop) for values in (X, y, weights))
            yield make_block(_chosen(x, self.columns), labels, w, self.name, self.start + start, self.feature_names)


class ArraySource(Source):
    """Arrays in memory, or memory maps, which each part opens by itself and closes again.

    A map in Fortran order, or a view of a map, stays mapped as it is: its rows are no run of bytes in the file, and the
    pages that are touched count as memory in use, up to the size of the file. So does a copy-on-write map (mode "c"),
    whose changes are in memory alone.

    Parameters
    ----------
    X : array, sparse matrix, data frame or memmap of shape (n_samples, n_features)
    y, weights : array-like of shape (n_samples,) or None
    rows : int
        In a block, at most. A part is one block.
    columns : sequence or None
        Names of a data frame's columns or numbers of an array's; None is all.
    """

    def __init__(self, X: Any, y: Any, weights: Any, rows: int, columns: Sequence[Any] | None = None) -> None:
        self.X, self.y, self.weights, self.rows, self.columns = X, y, weights, rows, columns
        self.has_labels = y is not None
        if hasattr(X, "iloc"):
            self.feature_names = string_names(X.columns if columns is None else columns)
        self.n_rows = _length(y) if X is None else _length(X)
        for said, values in (("labels", y), ("weights", weights)):
            if values is not None and _length(values) != self.n_rows:
                raise ValueError(f"X has {self.n_rows} rows but there are {_length(values)} {said}; give one a row")

    def parts(self) -> list[ArrayPart]:
        found = []
        n = _length(self.y) if self.X is None else _length(self.X)
        for number, start in enumerate(range(0, n, self.rows)):
            X, y, weights = (_portion(array, start, start + self.rows) for array in (self.X, self.y, self.weights))
            name = f"block {number}"
            found.append(ArrayPart(X, y, weights, name, start, self.rows, self.feature_names, self.columns))
        return found

    def only_labels(self) -> "ArraySource":
        return ArraySource(None, self.y, None, self.rows)


@dataclass(frozen=True)
class MappedRows:
    """Rows of a memory-mapped file: pickled as its name, and mapped only while they are read.

    A mapping of the whole file would count as memory in use as its pages are touched, up to the size of the file.
    """

    path: str
    dtype: Any
    offset: int
    shape: tuple[int, ...]

    def open(self) -> Any:
        return np.memmap(self.path, self.dtype, mode="r", offset=self.offset, shape=self.shape)


def _portion(values: Any, start: int, stop: int) -> Any:
    if isinstance(values, np.memmap) and _is_whole_map(values):
        shape = (min(stop, len(values)) - start, *values.shape[1:])
        size = values.dtype.itemsize * int(np.prod(values.shape[1:], dtype=np.int64))
        return MappedRows(str(values.filename), values.dtype, values.offset + start * size, shape)
    return _slice(values, start, stop)


def _is_whole_map(values: np.memmap) -> bool:
    """Whether this is the file's rows in order, not a view whose place in the file is unknown, nor a changed copy."""
    in_file = isinstance(values.base, mmap.mmap) and values.filename is not None and values.mode != "c"
    return bool(in_file and values.flags.c_contiguous)


def _opened(values: Any) -> Any:
    return values.open() if isinstance(values, MappedRows) else values


def _slice(values: Any, start: int, stop: int | None) -> Any:
    if values is None:
        return None
    return values.iloc[start:stop] if hasattr(values, "iloc") else values[start:stop]


def _chosen(X: Any, columns: Sequence[Any] | None) -> Any:
    if X is None or columns is None:
        return X
    return X[list(columns)] if hasattr(X, "iloc") else X[:, list(columns)]


def _length(values: Any) -> int:
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)
