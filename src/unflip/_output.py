"""Write files and folders whole or not at all: columns as CSV or Parquet, and texts. And names that fit a place."""

import csv
import ctypes
import errno
import glob
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple

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
FULL = {  # how the system reports that there is no room
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "the file would be larger than the system allows",
}
# How a cell begins that a spreadsheet takes for a formula, or a guarded one; page.js has the same two.
FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")
PLAIN_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

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
    check_replaced(target)
    return target


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work, a path where nothing can be written."""
    if str(path) == "-":
        raise ValueError("a folder cannot be written to standard output; name a folder instead of -")
    target = Path(os.path.realpath(path))  # also of a link that leads in a circle
    for parent in target.parents:
        if all((parent / name).is_file() for name in MODEL):
            raise ValueError(f"{target} is inside the saved model {parent}, which it would damage; name another place")
    place = next(parent for parent in target.parents if parent.exists())
    if not place.is_dir():
        raise NotADirectoryError(f"{target} cannot be written: {place} is a file, not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(f"{target} cannot be written: there is no permission to write to the folder {place}")


def check_apart(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Refuse an output that is an input, or another output."""
    for k, out in enumerate(outputs):
        for other, what in (*((path, "an input") for path in inputs), *((path, "an output") for path in outputs[:k])):
            same = os.path.realpath(out) == os.path.realpath(other)
            if (same or (out.exists() and other.exists() and out.samefile(other))) and "-" not in (
                str(out),
                str(other),
            ):
                raise ValueError(f"{out} is {what} of this command as well; choose another name to write to")


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, NDArray[Any]], raw: bool = False) -> Path:
    """Write columns of one length under their names, see :func:`written_columns`; a file with this name is replaced."""
    with written_columns(path, raw) as write:
        write(columns)
    return Path(path)


@contextmanager
def written_columns(path: str | os.PathLike[str], raw: bool = False) -> Iterator[Write]:
    """Provide a function that writes columns under their names, one block of rows at a time.

    All blocks have the same columns, of the same kinds; masked values are missing. The file takes its place at the end,
    whole or not at all; a file with this name is replaced. "-" is standard output, to which each block is written at
    once. Text that a spreadsheet would take for a formula gets an apostrophe in CSV and TSV, unless ``raw``; see
    :func:`guarded`.
    """
    target = check_output(path)
    if str(path) == "-":
        yield _rows_writer(sys.stdout, ",", raw)
        sys.stdout.flush()
        return
    with replaced(target) as partial, ExitStack() as stack:
        if target.suffix.lower() not in PARQUET:
            file = stack.enter_context(partial.open("w", encoding="utf-8", newline=""))
            yield _rows_writer(file, SEPARATORS[target.suffix.lower()], raw)
            return
        import pyarrow
        from pyarrow import parquet

        waiting: list[Any] = []
        groups: Any = None

        def flush() -> None:
            nonlocal groups
            table = pyarrow.concat_tables(waiting)
            waiting.clear()
            groups = groups or stack.enter_context(
                parquet.ParquetWriter(partial, table.schema, write_page_checksum=True)
            )
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


def guarded(cell: Any) -> Any:
    """Return text that a spreadsheet would take for a formula with an apostrophe before it; anything else as it is.

    Such text begins with ``= + - @``, their full-width forms, a tab or a line break, and is not a number. Text that
    looks guarded already gets one apostrophe more, so that :func:`unguarded` always returns what there was.
    """
    is_formula = isinstance(cell, str) and FORMULA.match(cell) and not PLAIN_NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def unguarded(cell: str) -> str:
    """Return what :func:`guarded` was given."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def _rows_writer(file: IO[str], separator: str, raw: bool) -> Write:
    writer = csv.writer(file, delimiter=separator, lineterminator="\n" if file is sys.stdout else "\r\n")
    header: list[str] = []

    def write(columns: Mapping[str, NDArray[Any]]) -> None:
        if not header:
            header.extend(columns)
            writer.writerow(header if raw else map(guarded, header))
        cells = (c.tolist() if raw or c.dtype.kind in "biuf" else map(guarded, c.tolist()) for c in columns.values())
        writer.writerows(zip(*cells, strict=True))

    return write


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file, text as UTF-8; a file with this name is replaced."""
    target = Path(path)
    check_place(target)
    check_replaced(target)
    with replaced(target) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
    return target


class _Outputs(NamedTuple):
    """What is written, and where it belongs; and what to do at the end in any case."""

    waiting: list[tuple[Path, Path]]
    stack: ExitStack


_OUTPUTS: ContextVar[_Outputs | None] = ContextVar("outputs", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Put all files and folders that are written inside in their places at the end; after an error, none of them.

    Each takes its place in one step. If one cannot, those before it are taken back. Only a process that is killed
    between two of these steps leaves some outputs new and others as they were, each of them whole.
    """
    with _outputs():
        yield


@contextmanager
def _outputs() -> Iterator[_Outputs]:
    """Return the outputs that appear together with this one, itself included."""
    if (known := _OUTPUTS.get()) is not None:
        yield known
        return
    with ExitStack() as stack:
        outputs = _Outputs([], stack)
        token = _OUTPUTS.set(outputs)
        try:
            yield outputs
        finally:
            _OUTPUTS.reset(token)
        with ExitStack() as undo:
            for partial, target in outputs.waiting:
                with _full_disk_is_said(target):
                    undo.callback(_put(partial, target))
            undo.pop_all()
        if sys.platform != "win32":  # the new names are in the folders, which have to reach the disk too
            for folder in {target.parent for _, target in outputs.waiting}:
                _to_disk(folder)


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Provide a file to write to, which takes the place of ``path`` at the end and is then on the disk.

    After an error, Ctrl-C or a killed process, ``path`` is what it was before. Of several writers at the same time, the
    last one wins, whole: each has a file of its own, with a new name, so that no link can be planted under it.
    """
    target = Path(path)
    check_replaced(target)
    with _outputs() as outputs, _full_disk_is_said(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clean_up(target)
        descriptor, name = tempfile.mkstemp(PARTIAL, f".{target.name}.", target.parent)
        partial = Path(name)
        outputs.stack.callback(partial.unlink, missing_ok=True)
        outputs.stack.enter_context(_claimed(descriptor))
        partial.chmod(0o666 & ~_umask())
        yield partial
        _to_disk(partial)
        outputs.waiting.append((partial, target))


@contextmanager
def replaced_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Provide a folder to write to, which takes the place of ``path`` at the end; after an error it is removed.

    The caller checks whether ``path`` may be replaced. On Linux old and new change places in one step, so that there is
    a whole folder at any moment; elsewhere a process that is killed between two renames leaves the old one next to it,
    which :func:`recover` brings back.
    """
    folder = Path(os.path.realpath(path))
    with _outputs() as outputs, _full_disk_is_said(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        recover(folder)
        _clean_up(folder)
        partial = Path(tempfile.mkdtemp(PARTIAL, f".{folder.name}.", folder.parent))
        outputs.stack.callback(shutil.rmtree, partial, ignore_errors=True)  # the new one, or the old one in its place
        outputs.stack.enter_context(_claimed(None if fcntl is None else os.open(partial, os.O_RDONLY)))
        within = _OUTPUTS.set(None)  # what is written into the folder is there before it is moved
        try:
            yield partial
        finally:
            _OUTPUTS.reset(within)
        mask = _umask()
        for inside in (partial, *partial.rglob("*")):  # some libraries give their files other modes
            inside.chmod((0o777 if inside.is_dir() else 0o666) & ~mask)
        outputs.waiting.append((partial, folder))


@contextmanager
def _full_disk_is_said(target: Path) -> Iterator[None]:
    """Turn what libraries raise if there is no room into one sentence."""
    try:
        yield
    except Exception as error:
        number = full_disk(error)
        if number is None or str(error).startswith(f"{target} "):
            raise
        sentence = f"{target} cannot be written: {FULL[number]} ({os.strerror(number)}). Free some space, or name "
        said = OSError(f"{sentence}another place; what was there is unchanged")
        said.errno = number
        raise said from error


def full_disk(error: BaseException | None) -> int | None:
    """Return the number by which the system says that there is no room, if that is the cause of an error."""
    while error is not None:
        # pyarrow and safetensors put the number into the text, safetensors before 0.5 in Rust's way.
        said = re.search(r"\b(?:os error|errno|Os { code:) (\d+)\b", str(error), re.IGNORECASE)
        for number in (getattr(error, "errno", None), int(said[1]) if said else None):
            if number in FULL:
                return number
        error = error.__cause__ or error.__context__
    return None


def recover(path: str | os.PathLike[str]) -> None:
    """Bring a folder back that was moved aside by a process that was then killed."""
    folder = Path(os.path.realpath(path))
    if not folder.exists() and folder.parent.is_dir():
        for aside in sorted(folder.parent.glob(f".{glob.escape(folder.name)}.*{ASIDE}"), reverse=True):
            with suppress(OSError):  # a folder that is read-only, or another process that was faster
                aside.rename(folder)
            return


def _put(partial: Path, target: Path) -> Callable[[], None]:
    """Put a file or folder in its place, and return how to take it back; what was there then has its name, or is gone.

    A file that cannot be exchanged in one step is replaced for good.
    """
    is_folder = partial.is_dir()
    if not os.path.lexists(target):
        try:
            partial.rename(target)
            return lambda: _taken_back(target, partial)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another process was faster
                raise
    if target.is_dir() == is_folder and sys.platform == "linux" and _swap(partial, target):
        return lambda: _taken_back(target, partial)
    if not is_folder:
        os.replace(partial, target)
        return lambda: None
    aside = partial.with_name(partial.name + ASIDE)
    target.rename(aside)
    try:
        partial.rename(target)
    except BaseException:
        with suppress(FileNotFoundError):  # a reader has brought it back
            aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    return lambda: None


def _taken_back(target: Path, partial: Path) -> None:
    with suppress(OSError):
        _swap(target, partial) if os.path.lexists(partial) else target.rename(partial)


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


def check_replaced(target: Path) -> None:
    """Refuse to put a file in the place of a folder or a device, such as /dev/null, or of what a link leads to."""
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{target} is a folder; name a file")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{target} is a device, a pipe or a socket, which no file may replace; name another place")


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
