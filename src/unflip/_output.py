"""Write files and folders whole or not at all: columns as CSV or Parquet, and texts. And names that fit a place."""

import csv
import ctypes
import errno
import glob
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PARTIAL, ASIDE = ".partial", ".old"  # how the names of files end while they are written, and of folders in between
FRESH = 60  # seconds
MODEL = ("model.json", "weights.safetensors")  # what a saved model consists of
SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
GROUP = 2**25  # bytes of a row group in memory

Write = Callable[[Mapping[str, NDArray[Any]]], None]


def check_output(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file of columns to write, or say what its name should be."""
    target = Path(path)
    if str(path) == "-":
        return target
    if target.suffix.lower() not in (*SEPARATORS, *PARQUET):
        raise ValueError(
            f"{target} must end in .csv, .tsv or .parquet, which determines the format, or be - for standard output"
        )
    if target.suffix.lower() in PARQUET and find_spec("pyarrow") is None:
        raise ModuleNotFoundError("writing Parquet needs pyarrow: pip install 'unflip[data]'")
    check_place(target)
    _check_no_folder(target)
    return target


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work, a path where nothing can be written."""
    if str(path) == "-":
        raise ValueError("a folder cannot be written to standard output; name a folder instead of -")
    target = Path(path).resolve()
    if all((target.parent / name).is_file() for name in MODEL):
        raise ValueError(
            f"{target} is inside the saved model {target.parent}, which it would damage; name another place"
        )
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

    All blocks have the same columns, of the same kinds; masked values are missing. The file takes its place at the end,
    whole or not at all; a file with this name is replaced. "-" is standard output, to which each block is written at
    once.
    """
    target = check_output(path)
    if str(path) == "-":
        yield _rows_writer(sys.stdout, ",")
        sys.stdout.flush()
        return
    with replaced(target) as partial, ExitStack() as stack:
        if target.suffix.lower() not in PARQUET:
            file = stack.enter_context(partial.open("w", encoding="utf-8", newline=""))
            yield _rows_writer(file, SEPARATORS[target.suffix.lower()])
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
            waiting.append(pyarrow.table({name: _parquet_column(column) for name, column in columns.items()}))
            if sum(table.nbytes for table in waiting) >= GROUP:
                flush()

        yield write
        if waiting:
            flush()


def _parquet_column(column: NDArray[Any]) -> Any:
    """Return a column of one kind of values: text, unless all are numbers; what is masked is missing."""
    import pyarrow

    if column.dtype.kind not in "biuf":
        return pyarrow.array([None if value is None else str(value) for value in column.tolist()], pyarrow.string())
    return pyarrow.array(np.ma.getdata(column), mask=np.ma.getmaskarray(column))


def _rows_writer(file: IO[str], separator: str) -> Write:
    writer = csv.writer(file, delimiter=separator, lineterminator="\n" if file is sys.stdout else "\r\n")
    header: list[str] = []

    def write(columns: Mapping[str, NDArray[Any]]) -> None:
        if not header:
            header.extend(columns)
            writer.writerow(header)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))

    return write


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file, text as UTF-8; a file with this name is replaced."""
    target = Path(path)
    check_place(target)
    _check_no_folder(target)
    with replaced(target) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
    return target


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Provide a file to write to, which takes the place of ``path`` at the end and is then on the disk.

    After an error, Ctrl-C or a killed process, ``path`` is what it was before. Of several writers at the same time, the
    last one wins, whole: each has a file of its own, with a new name, so that no link can be planted under it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _clean_up(target)
    descriptor, name = tempfile.mkstemp(PARTIAL, f".{target.name}.", target.parent)
    partial = Path(name)
    try:
        with _claimed(descriptor):
            partial.chmod(0o666 & ~_umask())
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

    The caller checks whether ``path`` may be replaced. On Linux old and new change places in one step, so that there is
    a whole folder at any moment; elsewhere a process that is killed between two renames leaves the old one next to it,
    which :func:`recover` brings back.
    """
    folder = Path(path).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    recover(folder)
    _clean_up(folder)
    partial = Path(tempfile.mkdtemp(PARTIAL, f".{folder.name}.", folder.parent))
    try:
        with _claimed(None if fcntl is None else os.open(partial, os.O_RDONLY)):
            yield partial
            mask = _umask()
            for inside in (partial, *partial.rglob("*")):  # some libraries give their files other modes
                inside.chmod((0o777 if inside.is_dir() else 0o666) & ~mask)
            _exchange(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # the new one, or the old one in its place


def recover(path: str | os.PathLike[str]) -> None:
    """Bring a folder back that was moved aside by a process that was then killed."""
    folder = Path(path).resolve()
    if not folder.exists() and folder.parent.is_dir():
        for aside in sorted(folder.parent.glob(f".{glob.escape(folder.name)}.*{ASIDE}"), reverse=True):
            with suppress(OSError):  # a folder that is read-only, or another process that was faster
                aside.rename(folder)
            return


def _exchange(partial: Path, folder: Path) -> None:
    """Put a folder in the place of another one, which then has the name of the first, or is gone."""
    if not folder.exists():
        try:
            partial.rename(folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another process was faster
                raise
    if sys.platform == "linux" and _swap(partial, folder):
        return
    aside = partial.with_name(partial.name + ASIDE)
    folder.rename(aside)
    try:
        partial.rename(folder)
    except BaseException:
        with suppress(FileNotFoundError):  # a reader has brought it back
            aside.rename(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two names in one step, and return whether the system can (renameat2 of Linux)."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "renameat2"):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    # Old kernels, some file systems and some sandboxes cannot; two renames name any other error.
    return bool(libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _clean_up(target: Path) -> None:
    """Remove what killed processes left half written for this target: no living process has claimed it."""
    if fcntl is None or not target.parent.is_dir():
        return
    for found in target.parent.glob(f".{glob.escape(target.name)}.*{PARTIAL}"):
        try:
            descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(descriptor).st_ctime < FRESH:  # its process may be about to claim it
                continue
            shutil.rmtree(found, ignore_errors=True) if found.is_dir() else found.unlink(missing_ok=True)
        except OSError:  # a process is still writing it
            continue
        finally:
            os.close(descriptor)


@contextmanager
def _claimed(descriptor: int | None) -> Iterator[None]:
    """Lock a file or folder, so that other processes leave it alone, and close it at the end."""
    if descriptor is None or fcntl is None:  # Windows cannot rename what is open
        if descriptor is not None:
            os.close(descriptor)
        yield
        return
    try:
        with suppress(OSError):  # file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
