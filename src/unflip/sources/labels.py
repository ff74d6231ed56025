"""The labels of one block: strings, whole numbers or booleans, none missing."""

from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip.tables.labels import is_missing, plain_array

KINDS = {"U": "strings", "b": "booleans"}  # by NumPy's letter; all others are numbers


def as_labels(values: Any, start: int = 0) -> NDArray[Any]:
    """Return labels as an array of strings, whole numbers or booleans, or say in which row they are not.

    Parameters
    ----------
    values : array-like or data frame's column
    start : int, default=0
        Number of the first row, for errors.
    """
    labels = plain_array(values)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"one label for each row is needed; got shape {labels.shape}")
    # The rows of a block are many: strings of NumPy's are looked at all at once.
    blank = (labels == "") | np.char.isspace(labels) if labels.dtype.kind == "U" else is_missing(labels)
    missing = np.flatnonzero(blank)
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


def check_same_kind(labels: NDArray[Any], where: str, others: NDArray[Any], there: str) -> None:
    """Refuse strings, numbers and booleans beside one another: NumPy would make 1 of True, and "1" of 1.

    Parameters
    ----------
    labels, others : ndarray
        Of :func:`as_labels`.
    where, there : str
        The blocks that they are of, for errors.
    """
    kind, other = (KINDS.get(array.dtype.kind, "numbers") for array in (labels, others))
    if kind != other:
        raise ValueError(
            f"the labels are {kind}{_such_as(labels)} in {where}, but {other}{_such_as(others)} in {there}; "
            "make all of one kind"
        )


def _such_as(labels: NDArray[Any]) -> str:
    return f", such as {labels[0].item()!r}," if len(labels) else ""


def _of_objects(labels: NDArray[Any]) -> NDArray[Any]:
    kinds = {type(label) for label in labels.tolist()}
    said = ", ".join(sorted(kind.__name__ for kind in kinds))
    if all(issubclass(kind, str) for kind in kinds):
        return labels.astype(str)
    if kinds <= {bool, np.bool_}:
        return labels.astype(bool)
    if kinds & {bool, np.bool_} or any(issubclass(kind, str) for kind in kinds):
        raise ValueError(f"labels must be of one kind, all numbers or all strings; got {said}")
    if not all(issubclass(kind, Number) for kind in kinds):
        raise ValueError(f"labels are strings, whole numbers or booleans; got {said}, of which make strings")
    return labels.astype(np.float64)
