"""A data set before and after it is read: its files, where they are looked for, how to get them, and its arrays."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from unflip._input import check_file

PathLike = str | os.PathLike[str]
Float32Array = NDArray[np.float32]
Codes = NDArray[np.int64]


class Arrays(NamedTuple):
    """The arrays that a reader found; the fields are those of :class:`Dataset`."""

    x_train: Float32Array
    y_train: Codes | None
    x_test: Float32Array
    y_test: Codes
    y_noisy: Codes | None = None


@dataclass(frozen=True, eq=False)  # comparing arrays with == gives no single truth value
class Dataset:
    """A data set in memory.

    Attributes
    ----------
    name : str
    x_train, x_test : float32 arrays
        Images of shape (n, channels, height, width) in [0, 1], or features of shape (n, d).
    y_train, y_test : int64 arrays
        Codes of the clean labels; ``y_train`` is None if they are unknown (Animal-10N).
    y_noisy : int64 array of shape (n_train,), or None
        Codes of the labels that people gave to the training samples; None if there are none.
    class_names : tuple of str
        ``class_names[code]``.
    note : str
        How the number of rows differs from the official release; empty if it does not.
    """

    name: str
    x_train: Float32Array
    y_train: Codes | None
    x_test: Float32Array
    y_test: Codes
    y_noisy: Codes | None
    class_names: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Download:
    """One official file: its address, its checksum as "sha256:...", and its path in the data directory.

    A ``.tar.gz`` file is unpacked in the folder of its path.
    """

    url: str
    checksum: str
    path: str

    @property
    def is_archive(self) -> bool:
        return self.path.endswith(".tar.gz")


@dataclass(frozen=True)
class Need:
    """One file or folder that is read."""

    places: tuple[str, ...]  # where it may be in the data directory; the first that exists is used
    how: str  # how to get it
    pickles: tuple[str, ...] = ()  # places of another official form, which cannot be read without running its content
    is_folder: bool = False


@dataclass(frozen=True)
class Entry:
    """One data set of the catalogue."""

    name: str  # in the API
    title: str  # in the literature
    read: Callable[..., Arrays]  # takes the path of each of the needs
    needs: tuple[Need, ...]  # each file or folder that is read
    n_train: int  # samples in the official release
    n_test: int
    shape: tuple[int, ...]  # of one sample
    class_names: tuple[str, ...]
    licence: str  # as its authors state it
    source: str  # their page
    downloads: tuple[Download, ...] = ()  # the official files; empty if there is no direct download
    # Takes what read takes; returns the numbers of rows for training and for testing from sizes and headers of files.
    count: Callable[..., tuple[int, int]] | None = None
    class_counts: tuple[tuple[int, ...], ...] = ()  # official clean labels of each class, for training and for testing

    def on_disk(self, data_dir: PathLike | None = None) -> bool:
        """Say whether every file is there; their content is checked when they are read."""
        return not self.missing(data_dir)

    def find(self, data_dir: PathLike | None = None) -> list[Path | None]:
        """Return the path of each of ``needs``, None for what is missing."""
        folder = data_directory(data_dir)
        return [next((p for place in need.places if (p := folder / place).exists()), None) for need in self.needs]

    def missing(self, data_dir: PathLike | None = None) -> list[Need]:
        """Return those of ``needs`` that are not there."""
        return [need for need, path in zip(self.needs, self.find(data_dir), strict=True) if path is None]

    def missing_downloads(self, data_dir: PathLike | None = None) -> list[Download]:
        """Return the downloads that would bring something that is missing."""
        missing = self.missing(data_dir)
        places = {place for need in missing for place in need.places}
        return [download for download in self.downloads if download.path in places or (missing and download.is_archive)]

    def how_to_get(self, data_dir: PathLike | None = None) -> str:
        """Say how to get what is missing, each way once; empty if nothing is."""
        return ". ".join(dict.fromkeys(need.how for need in self.missing(data_dir)))

    def rows(self, data_dir: PathLike | None = None) -> tuple[int, int]:
        """Return the number of rows on disk for training and for testing, without reading them."""
        paths = self._paths(data_dir)
        return self.count(*paths) if self.count else (self.n_train, self.n_test)

    def size_note(self, n_train: int, n_test: int) -> str:
        """Say how these numbers of rows differ from the official ones; empty if they do not."""
        sizes = (("training", n_train, self.n_train), ("test", n_test, self.n_test))
        other = [(part, n, official) for part, n, official in sizes if n != official]
        if any(n > official for _, n, official in other):
            return "not the official size: " + ", ".join(f"{n:,} {part} rows, not {o:,}" for part, n, o in other)
        return "subset: " * bool(other) + ", ".join(f"{n:,} of {o:,} {part} rows" for part, n, o in other)

    def load(self, data_dir: PathLike | None = None) -> Dataset:
        """Read the data set, or say where it was looked for and how to get it."""
        paths = self._paths(data_dir)
        arrays = self.read(*paths)
        self._check_class_counts(arrays, paths)
        note = self.size_note(len(arrays.x_train), len(arrays.x_test))
        return Dataset(self.name, **arrays._asdict(), class_names=self.class_names, note=note)

    def _paths(self, data_dir: PathLike | None) -> list[Path]:
        if missing := self.missing(data_dir):
            folder, how = data_directory(data_dir), self.how_to_get(data_dir)
            for name in (name for need in missing for name in need.pickles):
                if (folder / name).exists():
                    raise pickle_error(folder / name, how)
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise FileNotFoundError(
                f"{self.title} is not on disk: looked in {folder} for {' or '.join(missing[0].places)}{more}. {how}. "
                "Set UNFLIP_DATA or data_dir to use another data directory"
            )
        paths = [path for path in self.find(data_dir) if path]
        for path, need in zip(paths, self.needs, strict=True):
            check_readable(path, need.is_folder)
        return paths

    def _check_class_counts(self, arrays: Arrays, paths: list[Path]) -> None:
        """Refuse another data set, or other labels, in files of exactly the official size."""
        for y, official in zip((arrays.y_train, arrays.y_test), self.class_counts, strict=False):
            if y is None or len(y) != sum(official):
                continue  # a subset, which is legitimate; the note says so
            counts = np.bincount(y, minlength=len(official))
            if (counts != official).any():
                k = int(np.argmax(counts != official))
                raise ValueError(
                    f"{', '.join(map(str, paths))}: {counts[k]:,} of {len(y):,} labels are {k}, but {self.title} has "
                    f"{official[k]:,}; these are files of another data set, or their labels were changed"
                )


def data_directory(data_dir: PathLike | None = None) -> Path:
    """Return the directory of the data sets: ``data_dir``, else ``UNFLIP_DATA``, else a folder in the user's cache."""
    given = data_dir or os.environ.get("UNFLIP_DATA")
    return Path(given).expanduser() if given else user_cache_path("unflip", appauthor=False)


def pickle_error(path: Path, how: str) -> ValueError:
    """Return the error for a pickle, or a folder or archive of them, which is never loaded."""
    kind = "contains pickles" if path.is_dir() or path.suffix == ".gz" else "is a pickle"
    return ValueError(f"{path} {kind}: loading it could run any code, so it is never loaded. {how}")


def check_readable(path: Path, is_folder: bool = False) -> None:
    """Refuse a folder in place of a file, a file in place of a folder, and what the user may not read."""
    if path.is_dir() != is_folder:
        found, wanted = ("file", "folder") if is_folder else ("folder", "file")
        kind = NotADirectoryError if is_folder else IsADirectoryError
        raise kind(f"{path} is a {found}, but a {wanted} is expected there; move it away and get the {wanted}")
    try:
        if is_folder:
            next(path.iterdir(), None)
        else:
            check_file(path).open("rb").close()
    except PermissionError as error:
        raise PermissionError(f"you are not allowed to read {path}; change its permissions") from error


def check_test_is_not_train(arrays: Arrays, train: Path, test: Path) -> Arrays:
    """Refuse training samples under the name of the test samples: scores would be of what was learned."""
    if np.array_equal(arrays.x_train, arrays.x_test):
        same = f"{train} and {test} hold" if train != test else f"x_train and x_test of {train} are"
        raise ValueError(f"{same} the same samples; one is a copy under the other's name, get it again")
    return arrays


def scaled(pixels: NDArray[np.uint8], out: Float32Array | None = None) -> Float32Array:
    """Return pixel bytes 0 .. 255 as float32 in [0, 1], in C order; ``out`` avoids a second array."""
    result: Any = np.divide(pixels, 255, out=out, dtype=np.float32, order="C")
    return result
