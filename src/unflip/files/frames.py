"""Data frames of CSV and Parquet files, by pandas, with errors that say how to mend the file."""

import warnings
import zlib
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

SEPARATORS = ";\t|"  # of a .csv whose first line has no comma
# What an empty cell is also written as. A class may be called None; a number never is.
BLANK_LABELS = ["", "nan", "NaN", "NA", "N/A", "n/a", "<NA>", "null", "NULL", "#N/A"]
BLANKS = [*BLANK_LABELS, "None", "-nan", "-NaN", "#NA", "#N/A N/A", "?"]


def read_csv(path: Path, label: str | None, separator: str = ",") -> Any:
    """Return a text file with a header as a data frame; a first column without name becomes its index.

    Parameters
    ----------
    path : Path
        In UTF-8, compressed if it ends in ``.gz``.
    label : str or None
        In this column None is a class and not an empty cell.
    separator : str, default=","
        Of a file whose first line has no comma it may be a semicolon, tab or bar as well.
    """
    pd = _pandas("CSV")
    try:
        header = _header(pd, path, separator)
        if separator == "," and len(header) == 1:
            separator = next((mark for mark in SEPARATORS if mark in header[0]), separator)
            header = _header(pd, path, separator)
        if all(_is_number(name) for name in header):
            raise ValueError(f"the first line must name the columns, but it holds numbers: {', '.join(header[:5])}")
        _check_unique(header)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more cells in a row than names
            frame = pd.read_csv(
                path,
                sep=separator,
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
                keep_default_na=False,
                na_values={name: BLANK_LABELS if name == label else BLANKS for name in header},
            )
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error}); save it with this encoding") from error
    except (pd.errors.ParserWarning, pd.errors.ParserError, OSError, EOFError, zlib.error, ValueError) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from error
    if header[0] == "":  # what DataFrame.to_csv makes of the index
        frame = frame.set_index(frame.columns[0])
    return frame


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
    lower = {item.lower(): item for item in names}
    near = get_close_matches(name.lower(), lower, 1)
    hint = f"; is {lower[near[0]]!r} meant?" if near else "."
    raise ValueError(f"{sentence} {name!r}{hint} It has {', '.join(map(repr, names[:30])) or 'none'}")


def _header(pd: ModuleType, path: Path, separator: str) -> list[str]:
    options = {"sep": separator, "header": None, "nrows": 1, "dtype": str}
    first = pd.read_csv(path, **options, keep_default_na=False, skipinitialspace=True)
    return [str(name) for name in first.iloc[0]]


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
