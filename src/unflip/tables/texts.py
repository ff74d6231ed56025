"""Text that was meant as numbers or dates: what it is, and what to write instead."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHARE = 0.9  # of the values, from which on a column is meant as numbers or as dates
FEW_CODES = 10  # different whole numbers; beside words they are codes, more of them are numbers with a mistake
DATES = "it holds dates; make numbers of them, such as the year or an age"

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
DATE = re.compile(r"\d{4}-\d\d?-\d\d?([T ]\d\d:\d\d.*)?|\d\d?([./])\d\d?\2\d{4}")
# As people write numbers: 1,234.50 and 1.234,50 and 1 234,50 and 12 %
GAPS = re.compile(r"(?<=\d)[\s'’](?=\d{3}(?!\d))")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)?,\d+([eE][+-]?\d+)?")
THOUSAND_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3}){2,}")


def plain_number(text: str) -> str | None:
    """Return a number as a computer takes it, 1234.50 of "1,234.50" and of "1.234,50"; None of what is no number."""
    number = GAPS.sub("", text.strip().removesuffix("%").rstrip())
    if NUMBER.fullmatch(number):
        return number
    if THOUSANDS.fullmatch(number):
        return number.replace(",", "")
    if DECIMAL_COMMA.fullmatch(number):
        return number.replace(".", "").replace(",", ".")
    return number.replace(".", "") if THOUSAND_POINTS.fullmatch(number) else None


def with_point(value: Any) -> Any:
    """Return "1,5" as "1.5", and anything else as it is."""
    is_number = isinstance(value, str) and "." not in value and DECIMAL_COMMA.fullmatch(value.strip())
    return value.strip().replace(",", ".") if is_number else value


def are_numbers(present: Any) -> bool:
    """Return whether all values, none of them missing, are numbers as text."""
    return all(NUMBER.fullmatch(str(value).strip()) for value in present.unique())


def are_dates(present: Any) -> bool:
    """Return whether at least 90 % of the values are dates, such as 2020-12-31, 31.12.2020 and 12/31/2020."""
    _, counts, is_date = _counted(present, lambda text: DATE.fullmatch(text) is not None)
    return bool(counts[is_date].sum() >= SHARE * len(present))


def number_mistake(present: Any) -> str:
    """Return what keeps a column of text from being numbers; nothing if it is not meant as numbers.

    It is meant as numbers if at least 90 % of its values are; not if all are, which is text on purpose, nor if they are
    few whole numbers, again and again, beside words, which are codes.

    Parameters
    ----------
    present : pandas Series
        The values that are not missing. Its index tells their rows.
    """
    values, counts, is_plain = _counted(present, lambda text: NUMBER.fullmatch(text) is not None)
    if is_plain.all():
        return ""
    is_number = is_plain.copy()
    is_number[~is_plain] = [plain_number(text) is not None for text in values[~is_plain]]
    n, n_numbers = len(present), int(counts[is_number].sum())
    if n_numbers < SHARE * n:
        return ""
    few = is_number.sum() <= min(FEW_CODES, n_numbers / 2)
    if few and n_numbers < n and all(text.isdecimal() for text in values[is_number]):
        return ""
    if n_numbers < n:
        row, value = _first(present, set(values[~is_number]))
        said = f"{n_numbers} of {n} values are numbers, but"
        if n - n_numbers == 1:
            return f"{said} row {row} has {value!r}: correct it, or empty the cell for a missing number"
        return f"{said} {n - n_numbers} are not, such as {value!r} in row {row}: correct them, or empty their cells"
    written = values[~is_plain]
    # 1,234 may be a thousand or a fraction: one that cannot be mistaken is the better example
    sure = [text for text in written if not re.fullmatch(r"[+-]?\d+,\d{3}", text)]
    row, value = _first(present, set(sure or written))
    return f"its numbers are not written as such: write {plain_number(value)} for {value!r} (row {row})"


def _counted(present: Any, test: Callable[[str], bool]) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.bool_]]:
    """The different texts, how many times each is there, and what the test says of it."""
    counted = present.map(_stripped).value_counts(sort=False)
    texts = counted.index.to_numpy(dtype=object)
    return texts, counted.to_numpy(dtype=np.intp), np.array([test(text) for text in texts], dtype=bool)


def _first(present: Any, texts: set[str]) -> tuple[Any, str]:
    rows = present.map(_stripped).isin(texts).to_numpy()
    place = int(rows.argmax())
    return present.index[place], str(present.iloc[place])


def _stripped(value: Any) -> str:
    return str(value).strip()
