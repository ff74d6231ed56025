"""Data frames of CSV and Parquet files, by pandas, with errors that say how to mend the file."""

import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from unflip.tables.texts import with_point

SEPARATORS = ";\t|"  # of a .csv whose first line has no comma
# What an empty cell is also written as. A class may be called None; a number never is.
BLANK_LABELS = ["", "nan", "NaN", "NA", "N/A", "n/a", "<NA>", "null", "NULL", "#N/A"]
BLANKS = [*BLANK_LABELS, "None", "-nan", "-NaN", "#NA", "#N/A N/A", "?"]
CHECKED = 1000  # rows at the beginning of a file that tell its decimal mark


@dataclass(frozen=True)
class CSVFormat:
    """How a text file with a header is read, by pandas.

    Attributes
    ----------
    separator, decimal : str
    header : tuple of str
        The names of the columns; of an index, as ``DataFrame.to_csv`` writes it, the first is empty.
    """

    separator: str
    header: tuple[str, ...]
    decimal: str = "."

    def options(self, label: str | None) -> dict[str, Any]:
        """Return the options of ``pandas.read_csv``; in the label's column None is a class and not an empty cell."""
        return {
            "sep": self.separator,
            "decimal": self.decimal,
            "skipinitialspace": True,
            "index_col": False,
            "low_memory": False,
            "keep_default_na": False,
            "na_values": {name: BLANK_LABELS if name == label else BLANKS for name in self.header},
        }

    def tidied(self, frame: Any, label: str | None) -> Any:
        """Write the numbers in columns of text with a point, as those in columns of numbers are."""
        if self.decimal != ",":
            return frame
        infer = _pandas("CSV").api.types.infer_dtype
        texts = [name for name in frame.columns if name != label and infer(frame[name], skipna=True) == "string"]
        return frame.assign(**{name: frame[name].map(with_point, na_action="ignore") for name in texts})


def find_format(path: Path, separator: str = ",") -> CSVFormat:
    """Find separator, header and decimal mark of a text file; call it where pandas' warnings are errors.

    Of a file with a comma the separator may be a semicolon, tab or bar as well, if its first line has no comma. With a
    semicolon the decimal mark is a comma, as where Excel separates so, if in the first rows that makes numbers of
    columns that are text, and text of none.
    """
    pd = _pandas("CSV")
    header = _header(pd, path, separator)
    if separator == "," and len(header) == 1:
        separator = next((mark for mark in SEPARATORS if mark in header[0]), separator)
        header = _header(pd, path, separator)
    if all(_is_number(name) for name in header):
        raise ValueError(f"the first line must name the columns, but it holds numbers: {', '.join(header[:5])}")
    _check_unique(header)
    with_points, with_commas = (CSVFormat(separator, tuple(header), mark) for mark in ".,")
    if separator != ";":
        return with_points
    points, commas = (_number_columns(pd, path, how) for how in (with_points, with_commas))
    return with_commas if points < commas else with_points


def read_csv(path: Path, label: str | None, separator: str = ",") -> Any:
    """Return a text file with a header as a data frame; a first column without name becomes its index.

    Parameters
    ----------
    path : Path
        In UTF-8, compressed if it ends in ``.gz``.
    label : str or None
        In this column None is a class and not an empty cell.
    separator : str, default=","
        See :func:`find_format`.
    """
    pd = _pandas("CSV")
    with readable(path), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # more cells in a row than names
        how = find_format(path, separator)
        frame = how.tidied(pd.read_csv(path, **how.options(label)), label)
    if how.header[0] == "":  # what DataFrame.to_csv makes of the index
        frame = frame.set_index(frame.columns[0])
    return frame


@contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Turn what pandas says of a text file that cannot be read into a ValueError with its name."""
    pd = _pandas("CSV")
    try:
        yield
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error}); save it with this encoding") from error
    except (pd.errors.ParserWarning, pd.errors.ParserError, OSError, EOFError, zlib.error, ValueError) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from error


def read_parquet(path: Path) -> Any:
    """Return a Parquet file as a data frame."""
    pd = _pandas("Parquet")
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("reading Parquet needs pyarrow: pip install unflip[data]") from error
    try:
        _check_unique(parquet.read_schema(path).names)
        frame = pd.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError) as error:  # pyarrow's own are kinds of them
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
    return frame.rename(columns=str)


def no_such(name: str, there: Iterable[str], sentence: str) -> NoReturn:
    """Refuse a name that is not there: name those that are, and the nearest."""
    names = [str(item) for item in there]
    near = nearest(name, names)
    hint = "; does the first line name the columns?" if any(map(_is_number, names)) else "."
    hint = f"; is {near!r} meant?" if near else hint
    raise ValueError(f"{sentence} {name!r}{hint} It has {', '.join(map(repr, names[:30])) or 'none'}")


def nearest(name: str, there: Iterable[str]) -> str | None:
    """Return the name that may be meant, in whatever case it is written."""
    lower = {item.lower(): item for item in there}
    near = get_close_matches(name.lower(), lower, 1)
    return lower[near[0]] if near else None


def _header(pd: ModuleType, path: Path, separator: str) -> list[str]:
    options = {"sep": separator, "header": None, "nrows": 1, "dtype": str}
    first = pd.read_csv(path, **options, keep_default_na=False, skipinitialspace=True)
    return [str(name) for name in first.iloc[0]]


def _number_columns(pd: ModuleType, path: Path, how: CSVFormat) -> set[str]:
    frame = pd.read_csv(path, nrows=CHECKED, **how.options(None))
    return {name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name].dtype)}


def _check_unique(names: list[str]) -> None:
    twice = [name for name, times in Counter(names).items() if name and times > 1]
    if twice:  # pandas would rename it
        raise ValueError(f"the column {twice[0]!r} is there more than once; rename one of them")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower() not in ("nan", "inf", "infinity")


def _pandas(kind: str) -> Any:
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"reading {kind} needs pandas: pip install unflip[data]") from error
    return pd
