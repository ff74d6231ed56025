"""What is known of a dataset before it is read: its files, where they are looked for, how to get them."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unflip.datasets.dataset import Arrays, Dataset

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Download:
    """One official file: its address, its checksum as "md5:...", and its path in the data directory.

    A ``.tar.gz`` is unpacked in the folder of its path.
    """

    url: str
    checksum: str
    path: str

    @property
    def is_archive(self) -> bool:
        return self.path.endswith(".tar.gz")


@dataclass(frozen=True)
class Need:
    """One file or folder that is read.

    Attributes
    ----------
    places : tuple of str
        Where in the data directory it may be; the first that exists is taken.
    how : str
        How to get it.
    pickles : tuple of str
        Where another official form of it may be that cannot be read without running what is inside.
    is_folder : bool
    """

    places: tuple[str, ...]
    how: str
    pickles: tuple[str, ...] = ()
    is_folder: bool = False


@dataclass(frozen=True)
class Entry:
    """One dataset of the catalogue.

    Attributes
    ----------
    name, title : str
        As it is called in the API, and as the literature calls it.
    read : callable
        Takes the path of each of ``needs`` and returns the arrays.
    needs : tuple of Need
        Each file or folder that is read.
    n_train, n_test : int
        Samples of the official release.
    shape : tuple of int
        Of one sample.
    class_names : tuple of str
    licence, source : str
        As the authors state it, and their page.
    downloads : tuple of Download
        The official files; empty where there is no direct download.
    count : callable, or None
        Takes what ``read`` takes and returns the numbers of rows for training and for testing, from the sizes and
        headers of the files; None where nothing is on disk.
    class_counts : tuple of two tuples of int, or empty
        How many clean labels of each class the official release has for training and for testing.
    """

    name: str
    title: str
    read: Callable[..., Arrays]
    needs: tuple[Need, ...]
    n_train: int
    n_test: int
    shape: tuple[int, ...]
    class_names: tuple[str, ...]
    licence: str
    source: str
    downloads: tuple[Download, ...] = ()
    count: Callable[..., tuple[int, int]] | None = None
    class_counts: tuple[tuple[int, ...], ...] = ()

    def on_disk(self, data_dir: PathLike | None = None) -> bool:
        """Say whether every file is there; what is in them is checked when they are read."""
        return not self.missing(data_dir)

    def find(self, data_dir: PathLike | None = None) -> list[Path | None]:
        """Return where each of ``needs`` is, None for what is missing."""
        folder = data_directory(data_dir)
        return [
            next((folder / place for place in need.places if (folder / place).exists()), None) for need in self.needs
        ]

    def missing(self, data_dir: PathLike | None = None) -> list[Need]:
        """Return those of ``needs`` that are not there."""
        return [need for need, path in zip(self.needs, self.find(data_dir), strict=True) if path is None]

    def missing_downloads(self, data_dir: PathLike | None = None) -> list[Download]:
        """Return the downloads that would bring something that is not there."""
        missing = self.missing(data_dir)
        places = {place for need in missing for place in need.places}
        return [download for download in self.downloads if download.path in places or (missing and download.is_archive)]

    def how_to_get(self, data_dir: PathLike | None = None) -> str:
        """Say how to get what is missing, each way once; empty if nothing is."""
        return ". ".join(dict.fromkeys(need.how for need in self.missing(data_dir)))

    def rows(self, data_dir: PathLike | None = None) -> tuple[int, int]:
        """Return how many rows are on disk for training and for testing, without reading them."""
        paths = self._paths(data_dir)
        return self.count(*paths) if self.count else (self.n_train, self.n_test)

    def size_note(self, n_train: int, n_test: int) -> str:
        """Say in what these numbers of rows differ from the official ones; empty if in nothing."""
        sizes = (("training", n_train, self.n_train), ("test", n_test, self.n_test))
        other = [(part, n, official) for part, n, official in sizes if n != official]
        if all(n <= official for _, n, official in other):
            text = ", ".join(f"{n:,} of {official:,} {part} rows" for part, n, official in other)
            return f"subset: {text}" if other else ""
        return "not the official size: " + ", ".join(
            f"{n:,} {part} rows, not {official:,}" for part, n, official in other
        )

    def load(self, data_dir: PathLike | None = None) -> Dataset:
        """Read the dataset, or say where it was looked for and how to get it."""
        paths = self._paths(data_dir)
        arrays = self.read(*paths)
        self._check_class_counts(arrays, paths)
        note = self.size_note(len(arrays.x_train), len(arrays.x_test))
        return Dataset(self.name, **arrays._asdict(), class_names=self.class_names, note=note)

    def _paths(self, data_dir: PathLike | None) -> list[Path]:
        if missing := self.missing(data_dir):
            raise self._not_there(data_directory(data_dir), missing)
        paths = [path for path in self.find(data_dir) if path]
        for path, need in zip(paths, self.needs, strict=True):
            check_readable(path, need.is_folder)
        return paths

    def _check_class_counts(self, arrays: Arrays, paths: list[Path]) -> None:
        """Refuse another set, or other labels, in files that have exactly the official size."""
        for y, official in zip((arrays.y_train, arrays.y_test), self.class_counts, strict=False):
            if y is None or len(y) != sum(official):
                continue  # a subset, which is legitimate; the note tells
            counts = np.bincount(y, minlength=len(official))
            if (counts != official).any():
                k = int(np.argmax(counts != official))
                raise ValueError(
                    f"{', '.join(str(path) for path in paths)}: {counts[k]:,} of {len(y):,} labels are {k}, in "
                    f"{self.title} {official[k]:,} are; these are files of another set, or their labels were changed"
                )

    def _not_there(self, folder: Path, missing: list[Need]) -> Exception:
        how = self.how_to_get(folder)
        for name in (name for need in missing for name in need.pickles):
            if (folder / name).exists():
                return pickle_error(folder / name, how)
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return FileNotFoundError(
            f"{self.title} is not on disk: looked in {folder} for {' or '.join(missing[0].places)}{more}. {how}. "
            "Another data directory is named by UNFLIP_DATA or data_dir"
        )


def pickle_error(path: Path, how: str) -> ValueError:
    """Say that a file, or what is in a folder or an archive, is never loaded, and what will do."""
    kind = "holds pickles" if path.is_dir() or path.suffix == ".gz" else "is a pickle"
    return ValueError(f"{path} {kind}: loading it could run any code, so it is never loaded. {how}")


def check_readable(path: Path, is_folder: bool = False) -> None:
    """Refuse a folder in the place of a file, a file in the place of a folder, and what may not be read."""
    if path.is_dir() != is_folder:
        found, wanted = ("file", "folder") if is_folder else ("folder", "file")
        kind = NotADirectoryError if is_folder else IsADirectoryError
        raise kind(f"{path} is a {found}, a {wanted} is expected there; move it away and get the {wanted}")
    try:
        if is_folder:
            next(path.iterdir(), None)
        else:
            path.open("rb").close()
    except PermissionError as error:
        raise PermissionError(f"{path} may not be read by you; change its permissions") from error


def data_directory(data_dir: PathLike | None = None) -> Path:
    """Return the directory that holds the datasets: ``data_dir``, else ``UNFLIP_DATA``, else in the user's cache."""
    given = data_dir or os.environ.get("UNFLIP_DATA")
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "unflip" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "unflip"
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "unflip"  # the standard ignores relative paths
