"""Files and folders out, there whole or not at all: columns as CSV or Parquet, and texts."""

import csv
import os
import shutil
import sys
import tempfile
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
    with replaced(target) as partial:
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


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file, a text as UTF-8; a file of that name is replaced."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file")
    with replaced(target) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
    return target


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a file to write to, which takes the place of ``path`` at the end, and is on the disk then.

    After an error, Ctrl-C or a killed process ``path`` is what it was before.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")  # one name, so that killed runs leave no more than one
    try:
        yield partial
        _to_disk(partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    if sys.platform != "win32":  # the new name is in the folder, which has to reach the disk too
        _to_disk(target.parent)


@contextmanager
def replaced_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a folder to write to, which takes the place of ``path`` at the end; after an error nothing is left of it.

    Whether ``path`` may be replaced is for the caller to check.
    """
    folder = Path(path).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    aside = partial.with_name(partial.name + ".old")
    try:
        partial.chmod(0o755)
        yield partial
        if folder.exists():
            folder.rename(aside)
        partial.rename(folder)
    finally:
        if aside.exists() and not folder.exists():  # stopped between the two renames: the old is better than none
            aside.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if sys.platform != "win32" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
