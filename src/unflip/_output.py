"""Files and folders out, there whole or not at all: columns as CSV or Parquet, and texts."""

import csv
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
GROUP = 2**25  # bytes of a row group in memory

Write = Callable[[Mapping[str, NDArray[Any]]], None]


def check_output(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file to write, or say what its name should be."""
    target = Path(path)
    if target.suffix.lower() not in (*SEPARATORS, *PARQUET):
        raise ValueError(f"{target} must end in .csv, .tsv or .parquet, which says how it is written")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file")
    if target.suffix.lower() in PARQUET:
        _pyarrow()
    check_place(target)
    return target


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, NDArray[Any]]) -> Path:
    """Write columns of one length under their names; a file of that name is replaced."""
    with written_columns(path) as write:
        write(columns)
    return Path(path)


@contextmanager
def written_columns(path: str | os.PathLike[str]) -> Iterator[Write]:
    """Give a function that writes columns under their names, a block of rows at a time.

    The blocks have the same columns, of the same kinds. The file takes its place at the end, whole or not at all; a
    file of that name is replaced.
    """
    target = check_output(path)
    with replaced(target) as partial:
        if target.suffix.lower() in PARQUET:
            with _parquet_writer(partial) as write:
                yield write
        else:
            with partial.open("w", encoding="utf-8", newline="") as file:
                yield _csv_writer(file, SEPARATORS[target.suffix.lower()])


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


def _csv_writer(file: Any, separator: str) -> Write:
    writer = csv.writer(file, delimiter=separator)
    begun = False

    def write(columns: Mapping[str, NDArray[Any]]) -> None:
        nonlocal begun
        if not begun:
            writer.writerow(columns)
            begun = True
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))

    return write


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Write]:
    pyarrow, parquet = _pyarrow()
    waiting: list[Any] = []
    with ExitStack() as stack:
        writer: Any = None

        def flush() -> None:
            nonlocal writer
            table = pyarrow.concat_tables(waiting)
            waiting.clear()
            if writer is None:
                writer = stack.enter_context(parquet.ParquetWriter(path, table.schema))
            writer.write_table(table)

        def write(columns: Mapping[str, NDArray[Any]]) -> None:
            waiting.append(pyarrow.table({name: _of_one_kind(column) for name, column in columns.items()}))
            if sum(table.nbytes for table in waiting) >= GROUP:
                flush()

        yield write
        if waiting:
            flush()


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work, a path below which nothing can be written."""
    target = Path(path).resolve()
    place = next(parent for parent in target.parents if parent.exists())
    if not place.is_dir():
        raise NotADirectoryError(f"{target} cannot be written: {place} is a file, not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(f"{target} cannot be written: there is no permission to write to the folder {place}")


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
