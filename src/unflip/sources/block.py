"""A block of rows that knows where it came from, and the checks that name it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from unflip._validation import FloatArray, IntArray
from unflip.sources.labels import as_labels


class BlockError(ValueError):
    """A block of the data cannot be used; the message names it and its rows."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a source.

    Attributes
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
        float32 or float64.
    y : ndarray of shape (n_rows,) or None
        Labels as they came: strings, whole numbers or booleans.
    weights : ndarray of shape (n_rows,) or None
    name : str
        Of the file, array or partition, for errors.
    start : int
        Number of the first row in that file, array or partition, counted from 0.
    feature_names : sequence of str or None
    index : (int, int)
        Number of the part in its source and of the block in its part.
    """

    X: Any
    y: NDArray[Any] | None
    weights: FloatArray | None = None
    name: str = "block 0"
    start: int = 0
    feature_names: Sequence[str] | None = None
    index: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def where(self) -> str:
        """The block and its rows, as errors say it."""
        return _where(self.name, self.start, len(self))

    def codes(self, classes: NDArray[Any]) -> IntArray:
        """Return the code of each label, ``classes[codes] == y``; a label outside the sorted classes is refused."""
        y = self.y
        if y is None:
            self.refuse("there are no labels; give y, or name the label's column with label=")
        if (y.dtype.kind in "UO") != (classes.dtype.kind in "UO"):
            self.refuse(
                f"the labels are {y.dtype}, such as {y[:3].tolist()}, but the classes {classes.dtype}, such as "
                f"{classes[:3].tolist()}; make both of one kind"
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
                f"row {self.start + row} has the label {y[row].item()!r}, which is none of the {len(classes)} classes "
                f"{classes[:10].tolist()}; add it to classes, or drop such rows ({len(outside)} in this block)"
            )
        return codes.astype(np.intp, copy=False)

    def check_finite(self) -> None:
        """Refuse NaN and infinity, by row and column."""
        values = self.X.data if sparse.issparse(self.X) else self.X
        if np.isfinite(values).all():
            return
        X = self.X.tocoo() if sparse.issparse(self.X) else self.X
        bad = np.flatnonzero(~np.isfinite(X.data)) if sparse.issparse(X) else np.argwhere(~np.isfinite(X))
        row, column = (X.row[bad[0]], X.col[bad[0]]) if sparse.issparse(X) else bad[0]
        value = X.data[bad[0]] if sparse.issparse(X) else X[row, column]
        said = column if self.feature_names is None else repr(self.feature_names[column])
        self.refuse(
            f"row {self.start + row} has {value} in column {said} ({len(bad)} such entries in this block); "
            "fill them in, or drop those rows"
        )

    def refuse(self, problem: str) -> NoReturn:
        """Raise a BlockError that names the block."""
        raise BlockError(f"{self.where}: {problem}")


def make_block(
    X: Any, y: Any, weights: Any, name: str, start: int = 0, feature_names: Sequence[str] | None = None
) -> Block:
    """Return a block whose types and lengths are checked; whether X is finite is not looked at here."""
    try:
        n = len(y) if X is None and y is not None else int(np.shape(X)[0]) if hasattr(X, "shape") else len(X)
    except (TypeError, IndexError) as error:
        raise BlockError(f"{name}: X must be a matrix of shape (n_rows, n_features); got {X!r:.60}") from error
    where = _where(name, start, n)
    try:
        matrix = np.empty((n, 0)) if X is None else as_matrix(X)
        labels = None if y is None else as_labels(y, start)
        numbers = None if weights is None else _as_weights(weights, start)
    except (TypeError, ValueError) as error:
        raise BlockError(f"{where}: {error}") from error
    for said, values in (("labels", labels), ("weights", numbers)):
        if values is not None and len(values) != n:
            raise BlockError(f"{where}: X has {n} rows but there are {len(values)} {said}; give one for each row")
    if feature_names is not None and X is not None and len(feature_names) != matrix.shape[1]:
        raise BlockError(f"{where}: X has {matrix.shape[1]} columns but there are {len(feature_names)} feature names")
    return Block(matrix, labels, numbers, name, start, feature_names)


def as_matrix(values: Any) -> Any:
    """Return an array or CSR of float32 or float64; float32 stays as it is, whole numbers become float64."""
    if sparse.issparse(values):
        return values.tocsr().astype(_precision(values.dtype), copy=False)
    if hasattr(values, "iloc"):  # a data frame
        kinds = [np.dtype(np.float64) if getattr(t, "kind", "O") in "iub" else t for t in values.dtypes]
        plain = all(isinstance(t, np.dtype) for t in kinds)
        precision = np.float32 if plain and kinds and all(t.itemsize <= 4 for t in kinds) else np.float64
        try:
            return values.to_numpy(dtype=precision, na_value=np.nan)
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


def _as_weights(values: Any, start: int) -> FloatArray:
    weights = np.asarray(values, dtype=np.float64)
    if weights.ndim != 1:
        raise ValueError(f"weights must be one number for each row; got shape {weights.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise ValueError(f"row {start + wrong[0]} has the weight {weights[wrong[0]]}; a weight is a number >= 0")
    return weights


def _where(name: str, start: int, n: int) -> str:
    return f"{name}, rows {start} to {start + max(n, 1) - 1}"
