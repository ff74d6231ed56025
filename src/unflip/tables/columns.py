"""One column of a data frame: what it holds, and its values as numbers or as categories."""

import datetime
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray
from unflip.tables.texts import DATES, are_dates, are_numbers, number_mistake, plain_number

FEWEST_COUNTED = 3  # rows from which on 1, 2, 3 is a numbering and "a", "b", "c" are names


def kind(column: Any, max_categories: int) -> tuple[str, str]:
    """Return "number" or "category" and an empty reason; or "unused" and the reason why.

    Strings, booleans, pandas categories and mixtures of them are categories, all numbers are numbers. Strings that were
    meant as numbers, but for a few of them or but for the way they are written, are a "mistake": of no use until
    somebody corrects it, as the reason tells.

    Parameters
    ----------
    column : pandas Series
    max_categories : int
        Strings with more distinct values than this, most of them met once or twice, are names or free text.
    """
    import pandas as pd

    present = column.dropna()
    if len(present) == 0:
        return "unused", "it has no values"
    holds = _content(column.dtype, present)
    if holds == "number":
        numbers = pd.to_numeric(present)
        if (numbers == numbers.iloc[0]).all():
            return "unused", "it has the same value in every row"
        whole = pd.api.types.is_integer_dtype(numbers.dtype) and len(numbers) == len(column)
        if whole and len(column) >= FEWEST_COUNTED and (np.diff(numbers.to_numpy()) == 1).all():
            return "unused", "it numbers the rows"
        return "number", ""
    if holds != "category":
        return "unused", holds
    distinct = len(pd.unique(present))
    if distinct == 1 and len(present) == len(column):
        return "unused", "it has the same value in every row"
    is_text = not (pd.api.types.is_bool_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype))
    if is_text and are_dates(present):
        return "unused", DATES
    if is_text and (mistake := number_mistake(present)):
        return "mistake", mistake
    all_differ = distinct == len(present) >= FEWEST_COUNTED
    if not all_differ and (distinct <= max_categories or 2 * distinct <= len(present)):
        return "category", ""
    if is_text and are_numbers(present):
        return "mistake", "its numbers are text; store them as numbers"
    if all_differ:
        return "unused", "every value is different: names or free text"
    return "unused", f"it has {distinct} different values in {len(present)} rows: names or free text"


def as_numbers(column: Any, name: str) -> FloatArray:
    """Return a column as float64 with NaN where it is missing, or name the first value that is no number."""
    import pandas as pd

    types, rows = pd.api.types, column.index  # which says how the table counts
    if types.is_datetime64_any_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        raise ValueError(f"column {name!r} must hold numbers, but holds dates ({column.dtype}); give what training had")
    if not (types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype)):
        numbers = pd.Series([_number(value) for value in column], dtype=np.float64)
        wrong = np.flatnonzero(numbers.isna().to_numpy() & column.notna().to_numpy())
        if len(wrong):
            # a word tells more than numbers in another writing, which a word may have kept from being read
            words = [row for row in wrong if plain_number(str(column.iloc[row])) is None]
            row = words[0] if words else wrong[0]
            value = column.iloc[row]
            raise ValueError(
                f"column {name!r} must hold numbers, but row {rows[row]} has {value!r} "
                f"({len(words or wrong)} such values); "
                + ("write numbers" if words else f"write {plain_number(str(value))}")
                + ", or leave the cell empty where one is missing"
            )
        column = numbers
    values: FloatArray = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        row = rows[np.isinf(values).argmax()]
        raise ValueError(f"column {name!r} is infinite in row {row}; leave such cells empty")
    return values


def as_categories(column: Any, name: str) -> NDArray[Any]:
    """Return a column as strings, an object array with NaN where it is missing.

    1, 1.0 and "1" are one category: in a file a column of codes is read as integers, with one cell empty as floats, and
    with one letter in it as text.
    """
    import pandas as pd

    try:
        codes, values = pd.factorize(column)
    except TypeError as error:
        raise ValueError(f"column {name!r} must hold categories, but holds lists or other objects: {error}") from error
    texts = np.array([*(_text(value) for value in values), np.nan], dtype=object)
    chosen: NDArray[Any] = texts[codes]  # code -1, the last, is missing
    return chosen


def _content(dtype: Any, present: Any) -> str:
    """What the values are: "number", "category", or why they are of no use."""
    import pandas as pd

    types = pd.api.types
    if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return DATES
    if types.is_bool_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if types.is_complex_dtype(dtype):
        return "it holds complex numbers"
    if types.is_numeric_dtype(dtype):
        return "number"
    found = set(map(type, present))
    if all(issubclass(kind, Number) and not issubclass(kind, bool | np.bool_ | complex) for kind in found):
        return "number"
    if all(issubclass(kind, str | Number | np.bool_) for kind in found):
        return "category"
    if all(issubclass(kind, datetime.date | datetime.time | datetime.timedelta) for kind in found):
        return DATES
    other = next(kind.__name__ for kind in found if not issubclass(kind, str | Number))
    return f"it holds {other} objects, neither numbers nor categories; give each number a column of its own"


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
