"""Write files and folders whole or not at all: columns as CSV or Parquet, and texts. And names that fit a place."""

import csv
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
GROUP = 2**25  # bytes of a row group in memory

Write = Callable[[Mapping[str, NDArray[Any]]], None]


def check_output(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file of columns to write, or say what its name should be."""
    target = Path(path)
    if target.suffix.lower() not in (*SEPARATORS, *PARQUET):
        raise ValueError(f"{target} must end in .csv, .tsv or .parquet, which determines the format")
    if target.suffix.lower() in PARQUET and find_spec("pyarrow") is None:
        raise ModuleNotFoundError("writing Parquet needs pyarrow: pip install 'unflip[data]'")
    check_place(target)
    _check_no_folder(target)
    return target


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work, a path where nothing can be written."""
    target = Path(path).resolve()
    place = next(parent for parent in target.parents if parent.exists())
    if not place.is_dir():
        raise NotADirectoryError(f"{target} cannot be written: {place} is a file, not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(f"{target} cannot be written: there is no permission to write to the folder {place}")


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, NDArray[Any]]) -> Path:
    """Write columns of one length under their names; a file with this name is replaced."""
    with written_columns(path) as write:
        write(columns)
    return Path(path)


@contextmanager
def written_columns(path: str | os.PathLike[str]) -> Iterator[Write]:
    """Provide a function that writes columns under their names, one block of rows at a time.

    All blocks have the same columns, of the same kinds. The file takes its place at the end, whole or not at all; a
    file with this name is replaced.
    """
    target = check_output(path)
    with replaced(target) as partial, ExitStack() as stack:
        if target.suffix.lower() not in PARQUET:
            file = stack.enter_context(partial.open("w", encoding="utf-8", newline=""))
            writer = csv.writer(file, delimiter=SEPARATORS[target.suffix.lower()])
            header: list[str] = []

            def write_rows(columns: Mapping[str, NDArray[Any]]) -> None:
                if not header:
                    header.extend(columns)
                    writer.writerow(header)
                writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))

            yield write_rows
            return
        import pyarrow
        from pyarrow import parquet

        waiting: list[Any] = []
        groups: Any = None

        def flush() -> None:
            nonlocal groups
            table = pyarrow.concat_tables(waiting)
            waiting.clear()
            groups = groups or stack.enter_context(parquet.ParquetWriter(partial, table.schema))
            groups.write_table(table)

        def write(columns: Mapping[str, NDArray[Any]]) -> None:
            # Parquet needs one kind of values: text, unless all are numbers.
            kinds = ((name, column, column.dtype.kind in "biuf") for name, column in columns.items())
            plain = {name: column if number else [str(v) for v in column.tolist()] for name, column, number in kinds}
            waiting.append(pyarrow.table(plain))
            if sum(table.nbytes for table in waiting) >= GROUP:
                flush()

        yield write
        if waiting:
            flush()


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file, text as UTF-8; a file with this name is replaced."""
    target = Path(path)
    _check_no_folder(target)
    with replaced(target) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
    return target


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Provide a file to write to, which takes the place of ``path`` at the end and is then on the disk.

    After an error, Ctrl-C or a killed process, ``path`` is what it was before.
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
    """Provide a folder to write to, which takes the place of ``path`` at the end; after an error it is removed.

    The caller checks whether ``path`` may be replaced.
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
        if aside.exists() and not folder.exists():  # stopped between the two renames: the old one is better than none
            aside.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)


def _check_no_folder(target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file")


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if sys.platform != "win32" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def short_names(names: Sequence[str], longest: int) -> list[str]:
    """Return names of at most ``longest`` characters that are still told apart.

    A long name keeps its beginning; or both of its ends, if others begin in the same way; or its beginning and a
    number.
    """
    half = (longest - 1) // 2
    forms: list[Callable[[int, str], str]] = [
        lambda k, name: name if len(name) <= longest else name[: longest - 1] + "…",
        lambda k, name: name[: longest - 1 - half] + "…" + name[len(name) - half :],
        lambda k, name: name[: longest - 1 - len(str(k + 1))] + "…" + str(k + 1),
    ]
    found: dict[int, str] = {}
    for form in forms:
        tried = {k: form(k, name) for k, name in enumerate(names) if k not in found}
        times = Counter([*found.values(), *tried.values()])
        found |= {k: short for k, short in tried.items() if times[short] == 1 or form is forms[-1]}
    return [found[k] for k in range(len(names))]
