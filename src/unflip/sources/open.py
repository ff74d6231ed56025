"""Recognise what the user calls data."""

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unflip.sources.arrays import ArraySource
from unflip.sources.block import as_matrix
from unflip.sources.columns import check_columns, check_roles
from unflip.sources.delimited import CSVSource
from unflip.sources.iterables import IterableSource
from unflip.sources.parquet import ParquetSource
from unflip.sources.source import Source

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".tab", ".txt", ".csv.gz", ".tsv.gz", ".tab.gz", ".txt.gz")
ROWS = 65_536  # 32 MiB of 64 features in float64


def open_source(
    source: Any,
    y: Any = None,
    *,
    label: str | None = None,
    weights: Any = None,
    columns: Sequence[Any] | None = None,
    rows: int = ROWS,
) -> Source:
    """Return blocks of rows from anywhere.

    Parameters
    ----------
    source : Source, arrays, path, iterable, Dask array or Dask dataframe
        One of

        - X, with ``y``: an array, memmap, sparse matrix, data frame or Dask collection; or the tuple (X, y);
        - a Parquet or CSV file, a folder or a list of such files, a pattern as ``"data/*.parquet"``, or an array in an
          ``.npy`` file;
        - an iterable of blocks (X, y) or (X, y, weights), or a function without arguments that returns one. An
          iterator, such as a generator, can be read only once.
    y : array-like, Dask collection or path of an .npy file, default=None
        Labels of X. Without labels the rows can still be predicted.
    label : str, default=None
        The label's column of files and data frames.
    weights : str or array-like, default=None
        The column of the weights, or the weights of the rows of X.
    columns : sequence, default=None
        The features: names of columns (of files only these are read) or numbers of columns of an array. None takes all
        beside label and weights.
    rows : int, default=65536
        In a block, at most. Memory is some blocks of this size a thread.

    Examples
    --------
    >>> X, y = np.arange(12.0).reshape(6, 2), np.array(list("abcabc"))
    >>> [block.where for block in open_source(X, y, rows=4).blocks()]
    ['block 0, rows 0 to 3', 'block 1, rows 4 to 5']
    """
    if not isinstance(rows, int | np.integer) or rows < 1:
        raise ValueError(f"rows must be a whole number, at least 1; got {rows!r}")
    if isinstance(source, Source):
        _refuse("an open source", y=y, label=label, weights=weights, columns=columns)
        return source
    if isinstance(source, tuple) and len(source) in (2, 3) and getattr(source[0], "ndim", 0) == 2 and y is None:
        source, y, weights = (*source, weights)[:3]
    columns = [columns] if isinstance(columns, str) else columns
    paths = _paths(source)
    if paths is not None and not paths[0].endswith(".npy"):
        return _open_files(paths, y, label, weights, columns, rows)
    if paths is not None:
        if len(paths) > 1:
            raise ValueError("give one .npy file for X; several need a function that yields (X, y) blocks")
        source = _load(paths[0])
    X, y, weights = source, _load(y), _load_weights(weights, label)
    if any(hasattr(type(values), "__dask_graph__") for values in (X, y, weights)):
        from unflip.sources._dask import dask_source  # it is there, since its collection is

        return dask_source(X, y, label, weights, columns, rows)
    if hasattr(X, "iloc") and (label is not None or isinstance(weights, str)):
        X, y, weights = _split_frame(X, y, label, weights, columns)
        label = None
    if hasattr(X, "shape") or (y is not None and not callable(X)):
        _refuse("an array", label=label)
        X = X if hasattr(X, "shape") else as_matrix(X)
        return ArraySource(X, y, weights, int(rows), check_columns(X, columns))
    if callable(X) or isinstance(X, Iterable):
        _refuse("an iterable of blocks", y=y, label=label, weights=weights, columns=columns)
        return IterableSource(X)
    raise ValueError(
        f"a source is X with y, a path, an iterable of (X, y) blocks or a Dask collection; got {type(source).__name__}"
    )


def _paths(source: Any) -> list[str] | None:
    """The files that a path, a pattern, a folder or a list of them names; None if it names none."""
    if isinstance(source, str | os.PathLike):
        found = _files(os.fspath(source))
    elif isinstance(source, list | tuple) and source and all(isinstance(s, str | os.PathLike) for s in source):
        found = [path for item in source for path in _files(os.fspath(item))]
    else:
        return None
    known = {".parquet" if path.lower().endswith(PARQUET) else Path(path).suffix for path in found}
    if ".parquet" in known and len(known) > 1:
        raise ValueError(f"the files are of different kinds, {', '.join(sorted(known))}; give one kind")
    return found


def _files(path: str) -> list[str]:
    if Path(path).is_dir():
        inside = (p for p in sorted(Path(path).rglob("*")) if p.is_file() and not p.name.startswith((".", "_")))
        found = [str(p) for p in inside if p.name.lower().endswith((*PARQUET, *TEXT))]
        if not found:
            raise ValueError(f"the folder {path} has no file that ends in {', '.join((*PARQUET, *TEXT[:4]))}")
        return found
    if Path(path).exists():
        if not path.lower().endswith((*PARQUET, *TEXT, ".npy")):
            raise ValueError(f"{path} has none of the suffixes {', '.join((*PARQUET, *TEXT[:6]))} and .npy")
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise FileNotFoundError(f"{path} does not exist")
    return [one for item in found for one in _files(item)]


def _open_files(
    paths: list[str], y: Any, label: str | None, weights: Any, columns: Sequence[Any] | None, rows: int
) -> Source:
    if y is not None:
        raise ValueError("name the label's column of a file with label=, not y=")
    if weights is not None and not isinstance(weights, str):
        raise ValueError("weights of a file must be the name of a column")
    kind = ParquetSource if paths[0].lower().endswith(PARQUET) else CSVSource
    return kind(paths, label, weights, columns, int(rows))


def _load(values: Any) -> Any:
    """An .npy file as a memory map; anything else as it is."""
    if not isinstance(values, str | os.PathLike):
        return values
    if not os.fspath(values).endswith(".npy"):
        raise ValueError(f"y must be labels or an .npy file; got {values!r}. A file's label column is label=")
    try:
        return np.load(values, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"{values} cannot be read as an array: {error}") from error


def _load_weights(weights: Any, label: str | None) -> Any:
    is_file = isinstance(weights, os.PathLike) or (isinstance(weights, str) and weights.endswith(".npy"))
    return _load(weights) if is_file and label is None else weights


def _split_frame(
    frame: Any, y: Any, label: str | None, weights: Any, columns: Sequence[Any] | None
) -> tuple[Any, Any, Any]:
    weight_column = weights if isinstance(weights, str) else None
    check_roles(list(frame.columns), label, weight_column, columns, "the data frame")
    if y is not None and label is not None:
        raise ValueError("give y or label, not both")
    y = frame[label] if label is not None else y
    taken = [name for name in (label, weight_column) if name is not None]
    return frame.drop(columns=taken), y, weights if weight_column is None else frame[weight_column]


def _refuse(said: str, **given: Any) -> None:
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} cannot be given with {said}")
