"""Folders of results: they appear whole or not at all, and never replace somebody's files."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from unflip._input import read_bytes
from unflip._output import check_place, replaced_folder

SIGN = "unflip "  # stands in the first file of each folder that the package writes


def check_folder(path: str | os.PathLike[str], files: Sequence[str]) -> Path:
    """Return where these files will be; refuse a path that holds anything but an earlier folder of them.

    The first file names this package.
    """
    folder = Path(os.path.realpath(path))
    check_place(folder)
    try:
        there = {item.name for item in folder.iterdir()}
        free = not there or (there <= set(files) and SIGN in read_bytes(folder / files[0]).decode())
    except (OSError, ValueError):
        free = not folder.exists()
    if not free:
        raise FileExistsError(f"{folder} exists and is not an earlier result of this command; choose another folder")
    return folder


@contextmanager
def written_folder(path: str | os.PathLike[str], files: Sequence[str]) -> Iterator[Path]:
    """Give a folder to write to, which is put in place at the end; after an error or Ctrl-C nothing is left of it."""
    with replaced_folder(check_folder(path, files)) as partial:
        yield partial
