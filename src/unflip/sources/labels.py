"""The labels of one block: strings, whole numbers or booleans, none missing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_labels(values: Any, start: int = 0) -> NDArray[Any]:
    """Return labels as an array of strings, whole numbers or booleans, or say in which row they are not.

    Parameters
    ----------
    values : array-like or data frame's column
    start : int, default=0
        Number of the first row, for errors.
    """
    labels = _plain(values)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"one label for each row is needed; got shape {labels.shape}")
    missing = np.flatnonzero(_missing(labels))
    if len(missing):
        raise ValueError(
            f"row {start + missing[0]} has no label ({len(missing)} missing in this block); "
            "fill them in, or drop those rows"
        )
    if labels.dtype.kind == "O":
        labels = _of_objects(labels)
    if labels.dtype.kind == "f":
        fractions = np.flatnonzero(~np.isfinite(labels) | (labels != np.round(labels)))
        if len(fractions):
            raise ValueError(
                f"row {start + fractions[0]} has the label {labels[fractions[0]]:g}: it looks like a number to "
                "predict, not a class"
            )
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "biuU":
        raise ValueError(f"labels are strings, whole numbers or booleans; got {labels.dtype}")
    return labels


def _plain(values: Any) -> NDArray[Any]:
    if hasattr(values, "to_numpy"):
        # pandas' own kinds, such as str, category and Int64, become NumPy's
        values = values.to_numpy() if isinstance(values.dtype, np.dtype) else values.astype(object).to_numpy()
    found: NDArray[Any] = np.asarray(values)
    return np.char.decode(found, "utf-8") if found.dtype.kind == "S" else found


def _missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind == "U":
        return labels == ""
    if labels.dtype.kind == "O":
        # NaN is not equal to itself, and pandas.NA has no truth value
        blank = [x is None or (not x if isinstance(x, str) else (x == x) is not True) for x in labels.tolist()]
        return np.array(blank, dtype=bool)
    return np.zeros(len(labels), dtype=bool)


def _of_objects(labels: NDArray[Any]) -> NDArray[Any]:
    kinds = {type(label) for label in labels.tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        return labels.astype(str)
    if kinds <= {bool, np.bool_}:
        return labels.astype(bool)
    if kinds & {bool, np.bool_} or any(issubclass(kind, str) for kind in kinds):
        said = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"labels must be of one kind, all numbers or all strings; got {said}")
    return labels.astype(np.float64)
