"""Dask collections as sources, and sums over any source on the Dask scheduler that is active."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from dask import array, compute, delayed

from unflip.tables.blocks import FAN_IN, Block, Source, add_values, fold_part
from unflip.tables.read import choose_features
from unflip.tables.sources import ArrayPart, check_columns, string_names


@dataclass(frozen=True, eq=False)
class DaskPart:
    """One partition: its arrays, not yet computed, or its data frame, in which label and weights are columns."""

    X: Any
    y: Any
    weights: Any
    number: int
    start: int | None  # if the lengths of the partitions are known
    rows: int
    columns: "FrameColumns | None" = None

    def blocks(self) -> Iterator[Block]:
        yield from self.loaded(*compute(self.X, self.y, self.weights)).blocks()

    def loaded(self, X: Any, y: Any, weights: Any) -> ArrayPart:
        names = None
        if self.columns is not None:
            names = string_names(self.columns.features)
            y = X[self.columns.label] if self.columns.label is not None else y
            weights = X[self.columns.weights] if self.columns.weights is not None else weights
            X = X[list(self.columns.features)] if self.columns.features else None
        return ArrayPart(X, y, weights, f"partition {self.number}", self.start or 0, self.rows, names)


class FrameColumns(NamedTuple):
    features: tuple[Any, ...]
    label: Any
    weights: Any = None


class DaskSource(Source):
    """A Dask array or dataframe X, with y and weights in the same partitions; a part is a partition.

    X is None if only the labels matter. ``columns`` says which columns of a dataframe are label and weights.
    """

    on_dask = True

    def __init__(self, X: Any, y: Any, weights: Any, rows: int, columns: FrameColumns | None = None) -> None:
        self.X, self.y, self.weights, self.rows, self.columns = X, y, weights, rows, columns
        self.feature_names = None if columns is None else string_names(columns.features)
        self.has_labels = y is not None or (columns is not None and columns.label is not None)
        lengths = _lengths(y if X is None else X)
        self.n_rows = None if lengths is None else sum(lengths)

    def parts(self) -> list[DaskPart]:
        X, y, weights = (_partitions(values) for values in (self.X, self.y, self.weights))
        n = len(X or y)
        for said, values in (("y", y), ("weights", weights)):
            if values and len(values) != n:
                raise ValueError(
                    f"X has {n} partitions but {said} has {len(values)}: they must be cut the same "
                    "way; repartition one, or call compute_chunk_sizes() on both"
                )
        none = [None] * n
        lengths = _lengths(self.y if self.X is None else self.X)
        starts = none if lengths is None else [0, *np.cumsum(lengths[:-1]).tolist()]
        together = zip(X or none, y or none, weights or none, range(n), starts, strict=True)
        return [DaskPart(*values, self.rows, self.columns) for values in together]

    def only_labels(self) -> "DaskSource":
        if self.columns is not None and self.columns.label is not None:
            label = self.columns.label
            return DaskSource(self.X[[label]], None, None, self.rows, FrameColumns((), label))
        return DaskSource(None if self.y is not None else self.X, self.y, None, self.rows)


def dask_source(
    X: Any, y: Any, label: str | None, weights: Any, columns: Sequence[Any] | None, rows: int
) -> DaskSource:
    """Return the source for Dask collections: X with y, or a dataframe with the label's column."""
    if hasattr(X, "npartitions") and hasattr(X, "columns"):
        return _of_frame(X, y, label, weights, columns, rows)
    if label is not None or isinstance(weights, str):
        raise ValueError("label and weights name columns of a dataframe; give the labels of an array as y")
    if not hasattr(X, "chunks"):
        raise ValueError(f"X must be a Dask collection if y or weights are; got {type(X).__name__}")
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix of shape (n_samples, n_features); got shape {X.shape}")
    columns = check_columns(X, columns)
    X = X[:, columns] if columns is not None else X
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    return DaskSource(X, _in_chunks_of(y, X, "y"), _in_chunks_of(weights, X, "weights"), rows)


def reduce_by_dask(source: Source, function: Callable[[Block], Any]) -> Any:
    """Return the sum over all blocks: one task per part, a tree of fan-in 8, and one value to the client.

    Tasks are pure functions of their part, so the scheduler may run them again if a worker is lost.
    """
    shared = delayed(function, traverse=False)  # once to each worker, not once per task
    values = []
    for number, part in enumerate(source.parts()):
        if isinstance(part, DaskPart):
            bare = replace(part, X=None, y=None, weights=None)
            values.append(delayed(partial(_fold_partition, bare))(shared, part.X, part.y, part.weights))
        else:
            values.append(delayed(partial(fold_part, part, number))(shared))
    while len(values) > 1:
        values = [delayed(add_values)(values[first : first + FAN_IN]) for first in range(0, len(values), FAN_IN)]
    return values[0].compute() if values else None


def _fold_partition(part: DaskPart, function: Callable[[Block], Any], X: Any, y: Any, weights: Any) -> Any:
    return fold_part(part.loaded(X, y, weights), part.number, function)


def _of_frame(X: Any, y: Any, label: str | None, weights: Any, columns: Sequence[Any] | None, rows: int) -> DaskSource:
    weight_column = weights if isinstance(weights, str) else None
    features = choose_features(list(X.columns), label, weight_column, "the dataframe", columns)
    if y is not None and label is not None:
        raise ValueError("give y or label, not both")
    weights = None if weight_column is not None else weights
    for said, values, word in (("y", y, "label"), ("weights", weights, "weights")):
        if values is not None and not hasattr(values, "to_delayed"):
            raise ValueError(
                f"{said} of a Dask dataframe must be a Dask series or array in the same partitions; got "
                f"{type(values).__name__}. Or make it a column, and name that with {word}="
            )
    other = [name for name in features if getattr(X.dtypes[name], "kind", "O") not in "biuf"]
    if other:
        raise ValueError(
            f"the dataframe has {len(other)} columns that are not numbers: {', '.join(map(repr, other[:5]))}; name the "
            "features with columns=[...], or turn these into numbers first"
        )
    used = [*features, *(name for name in (label, weight_column) if name is not None)]  # Dask reads only these
    return DaskSource(X[used], y, weights, rows, FrameColumns(tuple(features), label, weight_column))


def _in_chunks_of(values: Any, X: Any, said: str) -> Any:
    """Labels or weights in the chunks of X."""
    is_array = hasattr(values, "chunks")
    if values is None or (hasattr(type(values), "__dask_graph__") and not is_array):
        return values  # a series: its partitions must be those of X
    is_unknown = any(np.isnan(X.chunks[0]))
    if is_unknown and not is_array:
        raise ValueError(f"X has chunks of unknown length, so {said} must be a Dask array in the same chunks")
    values = values if is_array else np.asarray(values)
    n = values.shape[0] if values.ndim else 0
    if is_unknown or np.isnan(n):  # the number of chunks is compared in parts(), their lengths when they are read
        return values
    if n != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows but {said} has {n}; give one for each row")
    return values.rechunk({0: X.chunks[0]}) if is_array else array.from_array(values, (X.chunks[0], *values.shape[1:]))


def _lengths(values: Any) -> list[int] | None:
    chunks = getattr(values, "chunks", None)
    return None if chunks is None or any(np.isnan(chunks[0])) else [int(n) for n in chunks[0]]


def _partitions(values: Any) -> list[Any]:
    return [] if values is None else list(np.ravel(values.to_delayed()))


@contextmanager
def silent() -> Iterator[None]:
    """Keep Dask's log of a lost connection, with its tracebacks, out of the answer, which says it in one sentence."""
    # Some of its loggers have levels of their own.
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
