"""The door of every input: only whole, regular files of a bearable size are read. And JSON, without surprises."""

import gzip
import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

PathLike = str | os.PathLike[str]

# Each can be raised by an environment variable of its name.
LIMITS = {
    "UNFLIP_MAX_EXPANDED": 2**30,  # bytes that a file may expand to, if that is more than RATIO times its size
    "UNFLIP_MAX_DOCUMENT": 2**28,  # bytes of a file that is read at once, such as JSON
    "UNFLIP_MAX_LINE": 2**26,  # bytes of a line of text
    "UNFLIP_MAX_COLUMNS": 20_000,  # of a table; each takes a millisecond or more
    "UNFLIP_MAX_INPUT": 2**20,  # numbers in one sample of a saved network
    "UNFLIP_MAX_LABEL": 256,  # characters; all labels of an array take as much memory as the longest
}
RATIO = 100  # text and tables rarely expand more than this; a file of zeros does, a thousandfold
KINDS = {
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
    stat.S_ISDIR: "a folder",
}


def limit(name: str) -> int:
    """Return one of the ``LIMITS``: what the environment says, or the default."""
    given = os.environ.get(name, "")
    if given and not given.isdecimal():
        raise ValueError(f"the environment variable {name} must be a whole number; got {given!r}")
    return int(given) if given else LIMITS[name]


def check_limit(name: str, found: int, what: str) -> None:
    """Refuse more than one of the ``LIMITS``, and say how to raise it."""
    if found > limit(name):
        raise ValueError(f"{what}; the limit is {limit(name):,}. To raise it, set {name} in the environment")


def check_there(path: PathLike) -> Path:
    """Return the path of a file or folder that exists; a link must lead somewhere."""
    try:
        os.stat(path)
    except OSError as error:
        raise _unusable(path, error) from error
    return Path(path)


def check_file(path: PathLike, inside: Path | None = None) -> Path:
    """Return the path of a regular file that may be read, and refuse anything else in one sentence.

    Pipes and devices may never end, and reading a pipe may wait for ever. If the file belongs to a folder, ``inside``,
    a link out of this folder is refused, too.
    """
    file = Path(path)
    try:
        # Without waiting: a pipe may have taken the place of the file.
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise _unusable(file, error) from error
    try:
        _check_regular(file, os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
    if inside is not None and Path(os.path.realpath(inside)) not in (real := Path(os.path.realpath(file))).parents:
        raise ValueError(f"{file} is a link to {real}, outside its folder; put the file itself there")
    return file


def _check_regular(path: PathLike, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = next((said for test, said in KINDS.items() if test(mode)), "not a regular file")
        kind = IsADirectoryError if stat.S_ISDIR(mode) else ValueError
        hint = "; send it to standard input, and name it -" if stat.S_ISFIFO(mode) else ""
        raise kind(f"{path} is {what}, but a regular file is expected{hint}")


def _unusable(path: PathLike, error: OSError) -> OSError:
    """Return the error with a sentence for a message."""
    if isinstance(error, FileNotFoundError):
        fate = f"is a link to {os.readlink(path)}, which does not exist" if os.path.islink(path) else "does not exist"
        return FileNotFoundError(f"{path} {fate}")
    if isinstance(error, PermissionError):
        return PermissionError(f"you are not allowed to read {path}; change its permissions")
    try:
        _check_regular(path, os.stat(path).st_mode)  # such as a socket, which cannot even be opened
    except (ValueError, IsADirectoryError) as other:
        return OSError(str(other))
    except OSError:
        pass
    return OSError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}")


@contextmanager
def opened(path: PathLike, size: int | None = None) -> Iterator[BinaryIO]:
    """Open a file to read its bytes, those of a ``.gz`` decompressed; notice if the file changes before the end.

    ``size`` is what :func:`file_size` returned earlier, if another pass has been made over the file.
    """
    with open(check_file(path), "rb") as file:
        _check_regular(path, os.fstat(file.fileno()).st_mode)
        before = os.fstat(file.fileno())
        if size is not None and before.st_size != size:
            _changed(path, size, before.st_size)
        if os.fspath(path).lower().endswith(".gz"):
            with io.BufferedReader(_Expanding(file, path), 2**18) as expanded:
                yield expanded
        else:
            yield file
        after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            _changed(path, before.st_size, after.st_size)


def file_size(path: PathLike) -> int:
    """Return the size of a file in bytes, for :func:`opened`."""
    return os.stat(path).st_size


def _changed(path: PathLike, before: int, after: int) -> None:
    sizes = f"it had {before:,} bytes and now has {after:,}" if before != after else "it was written to"
    raise ValueError(f"{path} changed while it was read: {sizes}; read it when nothing writes to it, or read a copy")


class _Expanding(io.RawIOBase):
    """The bytes of a gzip file, as many as :func:`check_expanded` allows."""

    def __init__(self, file: BinaryIO, path: PathLike) -> None:
        self.file, self.path, self.size, self.n = gzip.GzipFile(fileobj=file), path, file_size(path), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self.file.readinto(buffer)
        self.n += n
        check_expanded(self.n, self.size, self.path)
        return n

    def close(self) -> None:
        self.file.close()
        super().close()


def check_expanded(expanded: int, size: int, path: PathLike) -> None:
    """Refuse a file that expands to much more than its size, as only a bomb does."""
    if expanded > RATIO * size:
        said = f"{path} expands to {expanded:,} bytes or more, over {RATIO} times its size"
        check_limit("UNFLIP_MAX_EXPANDED", expanded, said)


def read_bytes(path: PathLike, inside: Path | None = None) -> bytes:
    """Return all of a file that is read at once."""
    check_file(path, inside)
    with opened(path) as file:
        check_limit("UNFLIP_MAX_DOCUMENT", file_size(path), f"{path} has {file_size(path):,} bytes")
        return file.read()


def read_json(path: PathLike, inside: Path | None = None) -> Any:
    """Return the content of a JSON file; whatever is wrong with it is a ValueError."""
    return parse_json(read_bytes(path, inside).decode("utf-8"))


def parse_json(text: str) -> Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_npy(path: PathLike) -> NDArray[Any]:
    """Return the array of an ``.npy`` file, whose size must be the one that its header announces."""
    return np.array(mapped_npy(path))


def mapped_npy(path: PathLike) -> NDArray[Any]:
    """Return the array of an ``.npy`` file as a memory map; whatever is wrong with it is a ValueError.

    A map takes no memory, and refuses a header that announces more than there is. ``numpy.load`` would also open a zip
    archive of this name.
    """
    check_file(path)
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # a damaged header makes NumPy raise all kinds of errors
        raise ValueError(f"{path} cannot be read as an array: {error}") from error
