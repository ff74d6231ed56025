"""An order of the rows that does not depend on the one they come in, so that folds do not either."""

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from unflip._validation import FloatArray, IntArray
from unflip.transition._cross_fit import row_keys


def row_order(X: Any, codes: IntArray, weights: FloatArray | None = None, groups: Any = None) -> IntArray:
    """Return the rows of any X by their keys, labels, weights and groups, and by their values where these agree.

    Keys do not change with the units of the columns (:func:`row_keys`), so neither does the order. Rows that are equal
    in all of this may change places, which changes nothing.
    """
    X = _numeric(X)
    columns: list[Any] = [] if groups is None else [_ranks(np.asarray(groups).ravel())]
    columns += [] if weights is None else [weights]
    columns += [codes, row_keys(X) if X.shape[1] else np.zeros(len(codes))]  # the last decides first
    order = np.lexsort(columns)
    same = np.logical_and.reduce([c[order][1:] == c[order][:-1] for c in columns])
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        rows = order[tied]
        order[tied] = rows[np.lexsort([*_values(X, rows), *(c[rows] for c in columns)])]
    return order


def in_caller_order(values: Any, order: IntArray) -> Any:
    """Return per-row values, or a dict of such, of rows that were taken in an order, as the rows came."""
    if isinstance(values, dict):
        return {name: in_caller_order(value, order) for name, value in values.items()}
    if values is None:
        return None
    restored = np.empty_like(values)
    restored[order] = values
    return restored


def _numeric(X: Any) -> Any:
    """Return X if it is a sparse matrix or a table of numbers, and otherwise the ranks of its values."""
    if sparse.issparse(X):
        return X.tocsr()
    if hasattr(X, "iloc") and len(X.shape) == 2:  # column by column: a table of objects would be large
        columns = [_ranks(X.iloc[:, j].to_numpy()) for j in range(X.shape[1])]
    else:
        X = np.asarray(X) if hasattr(X, "dtype") else np.asarray(X, dtype=object)
        X = X.reshape(len(X), -1)
        if X.dtype.kind in "fiub":
            return X
        columns = [_ranks(column) for column in X.T]
    return np.column_stack(columns)


def _ranks(values: Any) -> FloatArray:
    """Return values as they are if they are numbers, and otherwise the rank of what they are written as."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        written = np.array([str(value) for value in values])
        return np.unique(written, return_inverse=True)[1].astype(np.float64)


def _values(X: Any, rows: IntArray) -> list[Any]:
    """Return columns that order the rows by their values, the first column last."""
    if not sparse.issparse(X):
        return list(X[rows].T[::-1])
    return [sparse_ranks(X[rows])]


def sparse_ranks(X: Any) -> IntArray:
    """Return numbers that order the rows of a CSR matrix by what is in them; rows that are equal have the same one."""
    X.sum_duplicates()
    entries = [(tuple(X.indices[a:b]), tuple(X.data[a:b])) for a, b in pairwise(X.indptr)]
    ranks = {entry: rank for rank, entry in enumerate(sorted(set(entries)))}
    return np.array([ranks[entry] for entry in entries])
