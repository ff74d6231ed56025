"""The labels and weights of a table: what they must be, and what a mistaken column looks like."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray

LARGEST_CLASSES = 1000
NUMBER = "it looks like a number to predict, not a class"
SHOWN = 5  # rows that an error names


def check_label_column(values: Any, said: str) -> NDArray[Any]:
    """Return labels as strings, int64 or booleans, or say why they cannot be classes.

    Parameters
    ----------
    values : pandas Series or ndarray of shape (n_samples,)
    said : str
        The column in its file, for errors.
    """
    labels = stripped_labels(values, said)
    missing = np.flatnonzero(is_missing(labels))
    if len(missing):
        raise ValueError(
            f"{said} has {len(missing)} missing labels, the first in {_rows(missing)}; fill them in, or drop those rows"
        )
    labels = _of_one_kind(labels, said)
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"{said} has one class only, {classes.tolist()}; a classifier needs at least two")
    if len(classes) == len(labels) or len(classes) > LARGEST_CLASSES:
        raise ValueError(
            f"{said} has {len(classes)} different values in {len(labels)} rows: "
            + (NUMBER if labels.dtype.kind == "i" else "they look like names or free text, not classes")
        )
    return labels


def stripped_labels(values: Any, said: str, start: int = 0) -> NDArray[Any]:
    """Return labels without spaces around them, which nobody sees; lists, which name no class, are refused.

    Parameters
    ----------
    values : pandas Series or ndarray of shape (n_samples,)
    said : str
        The column in its file, for errors.
    start : int, default=0
        Number of the first row, for errors.
    """
    labels = plain_array(values)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(
            f"{said} has shape {labels.shape}; one label per sample is needed, of one-hot rows the place of the 1"
        )
    if labels.dtype.kind == "U":
        return np.char.strip(labels)
    if labels.dtype.kind != "O":
        return labels
    stripped = np.empty(len(labels), dtype=object)
    for row, label in enumerate(labels):
        if isinstance(label, np.ndarray | list | tuple | set):
            raise ValueError(
                f"{said} holds lists, such as {np.asarray(label).tolist()!r:.60} in row {start + row}, which name no "
                "class; one label per sample is needed"
            )
        stripped[row] = label.strip() if isinstance(label, str) else label
    return stripped


def check_weights(values: Any, said: str) -> FloatArray:
    """Return weights as float64, or say what is wrong with them."""
    weights = plain_array(values)
    try:
        if weights.dtype.kind not in "biufO" or weights.ndim != 1:
            raise ValueError
        numbers: FloatArray = weights.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{said} must be one number per sample; it has {weights.dtype} of shape {weights.shape}, "
            f"such as {weights.ravel()[:3].tolist()}"
        ) from error
    wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(wrong):
        raise ValueError(
            f"{said} has {len(wrong)} weights that are missing, infinite or negative, the first in {_rows(wrong)}; "
            "a weight is a number >= 0"
        )
    if not numbers.any():
        raise ValueError(f"{said} is zero in every row; at least one sample must count")
    return numbers


def plain_array(values: Any) -> NDArray[Any]:
    if hasattr(values, "to_numpy"):
        # pandas' own kinds, such as str, category and Int64, become NumPy's
        values = values.to_numpy() if isinstance(values.dtype, np.dtype) else values.astype(object).to_numpy()
    found: NDArray[Any] = np.asarray(values)
    return np.char.decode(found, "utf-8") if found.dtype.kind == "S" else found


def is_missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind in "OU":
        # NaN and NaT are not equal to themselves, and pandas.NA has no truth value
        blank = [x is None or (not x.strip() if isinstance(x, str) else (x == x) is not True) for x in labels.tolist()]
        return np.array(blank, dtype=bool)
    return np.isnat(labels) if labels.dtype.kind in "mM" else np.zeros(len(labels), dtype=bool)


def _of_one_kind(labels: NDArray[Any], said: str) -> NDArray[Any]:
    if labels.dtype.kind == "O":
        found = {type(label) for label in labels}
        if found <= {bool, np.bool_}:
            return labels.astype(bool)
        if str not in found and not found & {bool, np.bool_}:
            try:
                labels = labels.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{said} holds {', '.join(t.__name__ for t in found)}, which name no class") from error
        else:
            labels = np.array([str(label) for label in labels])
    if labels.dtype.kind == "f":
        fractions = np.flatnonzero(~np.isfinite(labels) | (labels != np.round(labels)))
        if len(fractions):
            raise ValueError(f"{said}: {NUMBER}; row {fractions[0]} has {labels[fractions[0]]:g}")
    if labels.dtype.kind in "fiu":
        if np.abs(labels.astype(np.float64)).max() >= 2**53:
            raise ValueError(f"{said}: {NUMBER}; it goes to {labels.max()}")
        return labels.astype(np.int64)
    if labels.dtype.kind not in "bU":
        raise ValueError(f"{said} holds {labels.dtype}; classes are strings, whole numbers or booleans")
    return labels


def _rows(rows: NDArray[np.intp]) -> str:
    shown = ", ".join(map(str, rows[:SHOWN].tolist()))
    return f"row {shown} (counted from 0)" if len(rows) == 1 else f"rows {shown} (counted from 0)"
