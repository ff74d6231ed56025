"""Files out: columns as CSV or Parquet, and texts. A file is there whole or not at all."""

import csv
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")


def check_output(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file to write, or say what its name should be."""
    target = Path(path)
    if target.suffix.lower() not in (*SEPARATORS, *PARQUET):
        raise ValueError(f"{target} must end in .csv, .tsv or .parquet, which says how it is written")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file")
    if target.suffix.lower() in PARQUET:
        _pyarrow()
    return target


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, NDArray[Any]]) -> Path:
    """Write columns of one length under their names; a file of that name is replaced."""
    target = check_output(path)
    with _replaced(target) as partial:
        if target.suffix.lower() in PARQUET:
            pyarrow, parquet = _pyarrow()
            values = {name: _of_one_kind(column) for name, column in columns.items()}
            parquet.write_table(pyarrow.table(values), partial)
        else:
            with partial.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, delimiter=SEPARATORS[target.suffix.lower()])
                writer.writerow(columns)
                writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return target


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text; a file of that name is replaced."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file")
    with _replaced(target) as partial:
        partial.write_text(text, encoding="utf-8")
    return target


@contextmanager
def _replaced(target: Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of the target at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield partial
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _of_one_kind(column: NDArray[Any]) -> Any:
    """As Parquet needs it: texts where the values are not all numbers."""
    if column.dtype.kind in "biuf":
        return column
    return [str(value) for value in column.tolist()]


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("writing Parquet needs pyarrow: pip install 'unflip[data]'") from error
    return pyarrow, parquet
