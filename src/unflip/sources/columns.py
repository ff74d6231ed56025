"""The columns of files, data frames and arrays: which are there, and what they are named."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unflip.tables.frames import no_such


def check_roles(names: Sequence[Any], label: Any, weights: Any, columns: Sequence[Any] | None, said: str) -> None:
    """Refuse columns that are not there, and one that is to be two things.

    Parameters
    ----------
    names : sequence
        Of the columns that are there.
    label, weights : str or None
    columns : sequence or None
        The features.
    said : str
        What has the columns, for errors.
    """
    for name in (label, weights, *(columns or ())):
        if name is not None and name not in names:
            no_such(str(name), map(str, names), f"{said} has no column")
    if label is not None and label == weights:
        raise ValueError(f"label and weights are both {label!r}; name two columns")
    if columns is not None and {label, weights} & set(columns):
        raise ValueError(f"columns must not hold the label or the weights; got {list(columns)[:20]}")


def check_columns(X: Any, columns: Sequence[Any] | None) -> list[Any] | None:
    """Return the columns of an array or a data frame, which must be there."""
    if columns is None:
        return None
    if hasattr(X, "iloc"):
        check_roles(list(X.columns), None, None, columns, "the data frame")
        return list(columns)
    numbers = [column for column in columns if isinstance(column, int | np.integer)]
    if len(numbers) < len(columns) or not numbers or not -X.shape[1] <= min(numbers) <= max(numbers) < X.shape[1]:
        raise ValueError(f"columns of an array are numbers from 0 to {X.shape[1] - 1}; got {list(columns)[:20]}")
    return list(columns)


def string_names(columns: Iterable[Any]) -> tuple[str, ...] | None:
    """Return the names of columns if all are strings, as scikit-learn does: numbers only count the columns."""
    names = tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None
