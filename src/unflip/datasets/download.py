"""Downloading official files: interrupted downloads are resumed, and files are checked before they get their name."""

import logging
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from unflip.datasets.catalogue import find_entry
from unflip.datasets.entry import Download, Entry, PathLike, check_readable, data_directory

# The file's name, the bytes received, and the bytes in all (None if the server does not say).
Progress = Callable[[str, int, int | None], None]

TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 16


def fetch(
    name: str, data_dir: PathLike | None = None, progress: Progress | None = None, force: bool = False
) -> list[Path]:
    """Download the official files of a data set that are not on disk, and return the paths of the new ones.

    A file gets its name once its checksum is correct. An interrupted download leaves a ``.part`` file, which the next
    one continues. A file that is already there is left alone, even if it is damaged; then the error says so.

    Parameters
    ----------
    name : str
        A name of :func:`unflip.datasets.catalogue`.
    data_dir : path-like, default=None
        As in :func:`unflip.datasets.load_dataset`.
    progress : callable, default=None
        Called as ``progress(file, bytes_received, bytes_in_all)`` during a download; ``bytes_in_all`` may be None.
    force : bool, default=False
        If True, download again any file without the official checksum, and any archive. The old file is replaced once
        the new one is complete.
    """
    entry = find_entry(name)
    if not entry.downloads:
        if entry.on_disk(data_dir):
            return []
        raise ValueError(f"{entry.title} has no official direct download. {entry.how_to_get(data_dir)}")
    folder = data_directory(data_dir)
    wanted = entry.missing_downloads(data_dir)
    if force:
        wanted = [item for item in entry.downloads if item.is_archive or not _is_official(folder / item.path, item)]
    written = []
    for download in wanted:
        path = folder / download.path
        _retrieve(download, path, progress)
        written += _unpack(path) if download.is_archive else [path]
    if not entry.on_disk(data_dir):
        raise ValueError(f"{entry.title} was downloaded, but some of its files are missing; see {entry.source}")
    _check_old_files(entry, folder, written)
    return written


def unofficial_files(name: str, data_dir: PathLike | None = None) -> list[Path]:
    """Return the files on disk without the official checksum: damaged, or fine but compressed again or a subset."""
    folder = data_directory(data_dir)
    found = {folder / item.path: item for item in find_entry(name).downloads if (folder / item.path).exists()}
    return [path for path, item in found.items() if not item.is_archive and not _is_official(path, item)]


def _is_official(path: Path, download: Download) -> bool:
    if not path.exists():
        return False
    check_readable(path)
    with path.open("rb") as file:
        return f"sha256:{file_digest(file, 'sha256').hexdigest()}" == download.checksum


def _check_old_files(entry: Entry, folder: Path, written: list[Path]) -> None:
    """Refuse older files that cannot be read, or that hide those that were written."""
    for need, path in zip(entry.needs, entry.find(folder), strict=True):
        new = [folder / place for place in need.places if folder / place in written]
        if new and path not in new:
            raise ValueError(f"{new[0]} was downloaded, but {path} takes precedence; remove that one")
    strange = unofficial_files(entry.name, folder)
    try:
        # only a wrong checksum is a reason to read it all
        _ = entry.load(folder) if strange else entry.rows(folder)
    except (ValueError, OSError) as error:
        reason = f" (no official checksum: {', '.join(path.name for path in strange)})" if strange else ""
        raise ValueError(
            f"{entry.title} is on disk but cannot be read{reason}: {error}. "
            f"Run `unflip data fetch {entry.name} --force` to download it again"
        ) from error


class _Resume:
    """A downloader for pooch that continues ``path.part`` if the server allows it, and starts over if not."""

    def __init__(self, path: Path, progress: Progress | None) -> None:
        self.path = path
        self.part = path.with_name(path.name + ".part")
        self.progress = progress
        self.resumed = False

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        try:
            try:
                self._download(url)
            except _StartOver:
                self.part.unlink()
                self._download(url)
        except OSError as error:  # including those of requests
            kept = self.part.stat().st_size if self.part.exists() else 0
            if not kept:
                self.part.unlink(missing_ok=True)
            cut = self.total is not None and self.done < self.total
            reason = f"the connection ended after {self.done:,} of {self.total:,} bytes" if cut else error
            there = f"{kept:,} bytes are kept in {self.part}; try again to continue" if kept else "try again"
            raise ConnectionError(f"{url} could not be downloaded ({reason}); {there}") from error
        os.replace(self.part, output_file)

    def _download(self, url: str) -> None:
        from pooch import HTTPDownloader

        self.done = self.part.stat().st_size if self.part.exists() else 0
        self.total: int | None = None
        # Without identity, a server may declare a .gz file as compressed content, which requests would decompress.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={self.done}-"} if self.done else {})
        self.response: Any = None
        read = HTTPDownloader(chunk_size=CHUNK, timeout=TIMEOUT, headers=headers, hooks={"response": self._begin})
        with self.part.open("ab") as self.file:
            try:
                read(url, self, None)
            finally:
                if self.response is not None:
                    self.response.close()  # pooch leaves the connection of a broken download open
        if self.total is not None and self.done != self.total:
            raise OSError(f"received {self.done:,} of {self.total:,} bytes")

    def _begin(self, response: Any, **_: Any) -> None:
        """Look at what the server is about to send, before its first byte; requests calls this."""
        check_secure(response.url)  # also of each redirection
        self.response = response
        self.resumed = response.status_code == 206
        span, _slash, total = response.headers.get("Content-Range", "").partition("/")
        if response.status_code == 200:  # the whole file, even if the rest of it was asked for
            self.file.truncate(0)
            self.done, total = 0, response.headers.get("Content-Length", "")
        elif response.status_code == 416:  # the part is as long as the file or longer, so not a part of it
            raise _StartOver("the server does not have this range")
        elif self.resumed and not span.startswith(f"bytes {self.done}-"):
            raise _StartOver("the server sent another range than requested")
        self.total = int(total) if total.isdigit() else None
        response.raw.headers.pop("Content-Encoding", None)  # some servers send it for a .gz file; we want its bytes

    # pooch uses these two methods of a file.
    def write(self, chunk: bytes) -> None:
        self.file.write(chunk)
        self.done += len(chunk)
        if self.progress:
            self.progress(self.path.name, self.done, self.total)

    def flush(self) -> None:
        self.file.flush()


class _StartOver(OSError):
    """The server cannot continue what is there."""


def check_secure(url: str) -> None:
    """Refuse an address that is not https, unless it is this machine itself."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ConnectionError(f"{url} is not https; files are downloaded by https only")


def _retrieve(download: Download, path: Path, progress: Progress | None) -> None:
    check_secure(download.url)
    downloader = _Resume(path, progress)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _silent_pooch() as pooch:
            pooch.retrieve(download.url, download.checksum, fname=path.name, path=path.parent, downloader=downloader)
    except ValueError as error:
        if downloader.resumed:  # the part may have been of an older file: start over
            return _retrieve(download, path, progress)
        fault = f"its checksum is wrong, and it was not kept ({error})"
        old = f"; {path} is unchanged" if path.exists() else ""
        raise ValueError(f"{download.url} is not the official file: {fault}{old}") from error


def _unpack(archive: Path) -> list[Path]:
    """Unpack complete files next to the archive, remove the archive, and return the new files."""
    with tempfile.TemporaryDirectory(prefix=".unpack.", dir=archive.parent) as scratch:
        try:
            with tarfile.open(archive) as tar:
                for member in tar.getmembers():
                    if fault := _fault(member):
                        raise ValueError(f"{archive.name} contains {member.name!r}, {fault}; nothing was unpacked")
                # Python before 3.11.4 has no filter; what it would refuse has been refused above.
                tar.extraction_filter = getattr(tarfile, "data_filter", None)
                tar.extractall(scratch)
        except (ValueError, tarfile.TarError, EOFError, zlib.error) as error:
            archive.unlink()
            raise ValueError(f"the archive was removed: {error}") from error
        written = []
        for source in sorted(path for path in Path(scratch).rglob("*") if path.is_file()):
            target = archive.parent / source.relative_to(scratch)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
            written.append(target)
    archive.unlink()
    return written


def _fault(member: tarfile.TarInfo) -> str | None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\\" in member.name or ":" in member.name:
        return "a path outside its folder"
    if member.issym() or member.islnk():
        return "a link"
    return None if member.isfile() or member.isdir() else "neither a file nor a folder"


@contextmanager
def _silent_pooch() -> Iterator[ModuleType]:
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("downloads need pooch: pip install 'unflip[data]'") from error
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # it would announce each download, as progress does
    try:
        yield pooch
    finally:
        logger.setLevel(level)
