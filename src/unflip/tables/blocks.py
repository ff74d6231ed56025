"""Blocks of rows that know where they come from, and sums over the blocks of a source, by threads or by Dask."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NoReturn, Protocol

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from unflip._validation import FloatArray, IntArray
from unflip.tables.read import as_labels, as_weights

Engine = Literal["threads", "dask"]
FAN_IN = 8  # values that one step of the tree adds
NO_LABELS = "there are no labels; give y, or name the label's column with label="


class BlockError(ValueError):
    """A block of the data cannot be used; the message names it and its rows."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a source."""

    X: Any  #: array or CSR of float32 or float64, shape (n_rows, n_features)
    y: NDArray[Any] | None  #: strings, whole numbers or booleans
    weights: FloatArray | None = None
    name: str = "block 0"  #: the file, array or partition, for errors
    start: int = 0  #: number of the first row in that file, array or partition, counted from 0
    feature_names: Sequence[str] | None = None
    index: tuple[int, int] = (0, 0)  #: number of the part in its source and of the block in its part
    unlabeled: int = 0  #: rows next to these that have no label and were left out

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def where(self) -> str:
        """The block and its rows, as errors name them."""
        return f"{self.name}, rows {self.start} to {self.start + max(len(self), 1) - 1}"

    def codes(self, classes: NDArray[Any]) -> IntArray:
        """Return the code of each label, ``classes[codes] == y``; a label outside the sorted classes is refused."""
        y = self.y
        if y is None:
            self.refuse(NO_LABELS)
        if (y.dtype.kind in "UO") != (classes.dtype.kind in "UO"):
            self.refuse(
                f"the labels are {y.dtype}, such as {y[:3].tolist()}, but the classes are {classes.dtype}, such as "
                f"{classes[:3].tolist()}; make both of them one kind"
            )
        first, last, c = classes[0], classes[-1], len(classes)
        whole = y.dtype.kind in "iu" and classes.dtype.kind in "iu" and last - first == c - 1
        if whole and len(y) and first <= y.min() and y.max() <= last:  # without gaps there is nothing to search
            return (y - first).astype(np.intp, copy=False)
        codes = np.minimum(np.searchsorted(classes, y), c - 1)
        outside = np.flatnonzero(classes[codes] != y)
        if len(outside):
            row = int(outside[0])
            self.refuse(
                f"row {self.start + row} has the label {y[row].item()!r}, which is not one of the {c} classes "
                f"{classes[:10].tolist()}; add it to classes, or drop such rows ({len(outside)} in this block)"
            )
        return codes.astype(np.intp, copy=False)

    def check_finite(self) -> None:
        """Refuse NaN and infinity, and name their row and column."""
        if np.isfinite(self.X.data if sparse.issparse(self.X) else self.X).all():
            return
        entries = sparse.coo_array(self.X)  # which keeps NaN and infinity
        bad = np.flatnonzero(~np.isfinite(entries.data))
        place = bad[np.lexsort((entries.col[bad], entries.row[bad]))[0]]
        column = entries.col[place]
        said = column if self.feature_names is None else repr(self.feature_names[column])
        self.refuse(
            f"row {self.start + entries.row[place]} has {entries.data[place]} in column {said} ({len(bad)} such "
            "entries in this block); fill them in, or drop those rows"
        )

    def refuse(self, problem: str) -> NoReturn:
        """Raise a BlockError that names the block."""
        raise BlockError(f"{self.where}: {problem}")


def make_block(
    X: Any, y: Any, weights: Any, name: str, start: int = 0, feature_names: Sequence[str] | None = None
) -> Block:
    """Return a block whose types and lengths are checked; whether X is finite is not checked here."""
    try:
        n = len(y) if X is None and y is not None else int(np.shape(X)[0]) if hasattr(X, "shape") else len(X)
    except (TypeError, IndexError) as error:
        raise BlockError(f"{name}: X must be a matrix of shape (n_rows, n_features); got {X!r:.60}") from error
    empty = Block(np.empty((n, 0)), None, None, name, start, feature_names)
    try:
        matrix = empty.X if X is None else X if hasattr(X, "frame") else as_matrix(X)
        labels = None if y is None else as_labels(y, start)
        numbers = None if weights is None else as_weights(weights, start)
    except (TypeError, ValueError) as error:
        raise BlockError(f"{empty.where}: {error}") from error
    for said, values in (("labels", labels), ("weights", numbers)):
        if values is not None and len(values) != n:
            empty.refuse(f"X has {n} rows but there are {len(values)} {said}; give one for each row")
    if feature_names is not None and X is not None and len(feature_names) != matrix.shape[1]:
        empty.refuse(f"X has {matrix.shape[1]} columns but there are {len(feature_names)} feature names")
    return replace(empty, X=matrix, y=labels, weights=numbers)


def as_matrix(values: Any) -> Any:
    """Return an array or CSR of float32 or float64; float32 stays as it is, whole numbers become float64."""
    if sparse.issparse(values):
        return values.tocsr().astype(_precision(values.dtype), copy=False)
    if hasattr(values, "iloc"):  # a data frame
        plain = all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in values.dtypes)
        single = plain and all(dtype.kind == "f" and dtype.itemsize <= 4 for dtype in values.dtypes)
        precision = np.float32 if single else np.float64
        try:
            return values.to_numpy(precision) if plain else values.to_numpy(precision, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must hold numbers: {error}; leave other columns out with columns=[...]") from error
    matrix = np.asarray(values)
    if matrix.ndim != 2:
        raise ValueError(f"X must be a matrix of shape (n_rows, n_features); got shape {matrix.shape}")
    try:
        return matrix.astype(_precision(matrix.dtype), copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold numbers; it holds {matrix.dtype} ({error})") from error


def _precision(dtype: np.dtype[Any]) -> type:
    if dtype.kind == "c":
        raise ValueError("X must hold real numbers; it holds complex ones")
    return np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64


class Part(Protocol):
    """A piece of a source that one worker reads from beginning to end: a small value that can be pickled."""

    def blocks(self) -> Iterator[Block]:
        """Read the piece, one block at a time."""


class Source:
    """Rows from anywhere, in parts that are read independently."""

    feature_names: Sequence[str] | None = None
    n_rows: int | None = None  #: if it is known without reading them
    rereadable: bool = True  #: whether parts() may be called again; for a generator it may not
    has_labels: bool = True  #: False if there are none; an iterable shows it only when it is read
    on_dask: bool = False  #: whether the rows are in Dask collections
    in_process: bool = False  #: what iterates in this process cannot be sent to a worker
    no_rows: str = "the source has no rows; check the path or the filter"

    def parts(self) -> Sequence[Part]:
        """Return the parts, in the order of the rows."""
        raise NotImplementedError

    def only_labels(self) -> "Source":
        """Return the same rows without features: as little as possible is read."""
        raise NotImplementedError

    def blocks(self) -> Iterator[Block]:
        """Read all blocks in the order of the rows, one at a time in this thread."""
        for part in self.parts():
            yield from part.blocks()


def reduce_blocks(
    source: Source, function: Callable[[Block], Any], *, threads: int | None = None, engine: Engine | None = None
) -> Any:
    """Return the sum of ``function(block)`` over all blocks of a source.

    The values are added as a tree of fan-in 8 over the blocks of each part, then over the parts, both in their order.
    The tree depends on the data alone, so the answer is the same for any number of threads and workers; and rounding
    grows with the logarithm of the number of blocks.

    Parameters
    ----------
    source : Source
        What :func:`open_source` returns.
    function : callable
        Takes a :class:`Block` and returns a value with ``+``. It must not change its argument; on Dask it runs again
        if a worker was lost.
    threads : int, default=None
        For the engine "threads". If None, all processors of this process are used. BLAS has one thread in each. At
        most two blocks per thread are in memory, and two that are being read.
    engine : {"threads", "dask"}, default=None
        If None, Dask collections run on Dask, everything else in threads. "dask" sends the parts of files or arrays to
        the active Dask scheduler; the workers must find the files under the same names.
    """
    if engine not in (None, "threads", "dask"):
        raise ValueError(f"engine must be 'threads', 'dask' or None; got {engine!r}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1; got {threads}")
    try:
        if engine == "dask" or (engine is None and source.on_dask):
            if source.in_process:
                raise ValueError("blocks of this process cannot be sent to Dask; give files or a Dask collection")
            try:
                from unflip.tables._dask import reduce_by_dask
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError("engine='dask' needs Dask: pip install 'unflip[scale]'") from error
            total = reduce_by_dask(source, function)
        else:
            total = _by_threads(source, function, threads or cpu_count())
    except BlockError as error:
        # The frames of a worker or a thread tell nothing that the message does not.
        raise BlockError(str(error)) from error.__cause__
    if total is None:
        raise ValueError(source.no_rows)
    return total


class TreeSum:
    """Add values one by one, as a tree of fan-in 8, ((v0 + ... + v7) + ...) + ..., of which one per level is kept."""

    def __init__(self) -> None:
        self.levels: list[tuple[Any, int]] = []  # the sum so far and the number of its terms

    def add(self, value: Any, level: int = 0) -> None:
        if level == len(self.levels):
            self.levels.append((None, 0))
        total, terms = self.levels[level]
        total, terms = add_values([total, value]), terms + 1
        self.levels[level] = (None, 0) if terms == FAN_IN else (total, terms)
        if terms == FAN_IN:
            self.add(total, level + 1)

    def total(self) -> Any:
        carried = None
        for total, _ in self.levels:
            carried = add_values([total, carried])
        return carried


def add_values(values: Iterable[Any]) -> Any:
    """Return the sum from the left; None adds nothing."""
    total = None
    for value in values:
        total = value if total is None else total if value is None else total + value
    return total


def fold_part(part: Part, number: int, function: Callable[[Block], Any]) -> Any:
    """Return the sum over the blocks of a part, which are read one at a time; None if there are none."""
    tree = TreeSum()
    for block in _numbered(part, number):
        tree.add(_applied(function, block))
    return tree.total()


def _numbered(part: Part, number: int) -> Iterator[Block]:
    blocks = (block for block in part.blocks() if len(block) or block.unlabeled)
    yield from (replace(block, index=(number, count)) for count, block in enumerate(blocks))


def _applied(function: Callable[[Block], Any], block: Block) -> Any:
    try:
        return function(block)
    except BlockError:
        raise
    except (ValueError, TypeError, ArithmeticError) as error:
        raise BlockError(f"{block.where}: {error}") from error


def _by_threads(source: Source, function: Callable[[Block], Any], threads: int) -> Any:
    tree = TreeSum()
    with threadpool_limits(1, "blas"):
        parts = source.parts()
        tasks: Iterable[Any] = (partial(fold_part, part, number, function) for number, part in enumerate(parts))
        if threads == 1:
            for task in tasks:
                tree.add(task())
            return tree.total()
        if len(parts) == 1:  # such as a generator: this thread reads, the others work
            tasks = (partial(_applied, function, block) for block in _numbered(parts[0], 0))
        running: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(threads, "unflip") as pool:
            try:
                for task in tasks:
                    running.append(pool.submit(task))
                    del task  # it holds a block
                    # A bounded number under way: blocks that wait for a thread fill the memory.
                    if len(running) >= 2 * threads:
                        tree.add(running.popleft().result())
                while running:
                    tree.add(running.popleft().result())
            finally:
                for future in running:
                    future.cancel()
    return tree.total()
