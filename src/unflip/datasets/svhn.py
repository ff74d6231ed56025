"""Reader of SVHN's cropped digits: MATLAB 5 files with ``X`` (32, 32, 3, n) and ``y`` (n, 1), digit 0 stored as 10."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from unflip.datasets.entry import Arrays, Codes, Float32Array, check_test_is_not_train, scaled

HEADER = 128  # bytes of text and version before the first element


def read_svhn(train: Path, test: Path) -> Arrays:
    """Read both files, with any number of images; these become (n, 3, 32, 32)."""
    return check_test_is_not_train(Arrays(*_read_mat(train), *_read_mat(test)), train, test)


def count_svhn(train: Path, test: Path) -> tuple[int, int]:
    """Return the number of images in both files, from the headers of their variables."""
    return _count(train), _count(test)


def _count(path: Path) -> int:
    from scipy.io import whosmat

    with _checked(path):
        shapes = {name: shape for name, shape, _kind in whosmat(path)}
    if len(shapes.get("X", ())) != 4:
        raise ValueError(f"{path} has no variable X of shape (32, 32, 3, n); SVHN's files have one")
    return int(shapes["X"][3])


def _read_mat(path: Path) -> tuple[Float32Array, Codes]:
    from scipy.io import loadmat

    with _checked(path):
        found = loadmat(path, variable_names=["X", "y"])
    if missing := {"X", "y"} - found.keys():
        raise ValueError(f"{path} has no variable {' and no '.join(sorted(missing))}; SVHN's files have X and y")
    X, y = found["X"], found["y"]
    if not isinstance(X, np.ndarray) or X.dtype != np.uint8 or X.ndim != 4 or X.shape[:3] != (32, 32, 3):
        raise ValueError(f"{path}: X is {X.dtype} of shape {X.shape}, expected uint8 of shape (32, 32, 3, n)")
    n = X.shape[3]
    if n == 0:
        raise ValueError(f"{path}: X has shape {X.shape} and holds no image; get the file again")
    if not isinstance(y, np.ndarray) or y.dtype.kind not in "iuf":  # sparse, a cell, a struct, text
        kind = "sparse" if hasattr(y, "toarray") else f"of type {getattr(y, 'dtype', type(y).__name__)}"
        raise ValueError(f"{path}: y is {kind}, expected {n} plain numbers of shape ({n}, 1)")
    if y.shape not in ((n, 1), (1, n)):
        raise ValueError(f"{path}: X has {n} images but y has shape {y.shape}, expected ({n}, 1)")
    labels = y.reshape(-1)
    strange = ~np.isin(labels, np.arange(1, 11))
    if strange.any():
        at = int(np.argmax(strange))
        raise ValueError(f"{path}: y[{at}] is {labels[at]}; SVHN's labels are 1 .. 10, where 10 is the digit 0")
    return scaled(X.transpose(3, 2, 0, 1)), labels.astype(np.int64) % 10


@contextmanager
def _checked(path: Path) -> Iterator[None]:
    _check_whole(path)
    try:
        yield
    except Exception as error:  # damaged files make SciPy raise all kinds of errors
        raise ValueError(f"{path} is damaged, SciPy cannot read it ({error}); get the file again") from error


def _check_whole(path: Path) -> None:
    """Walk over the elements of the file, each a tag of type and size before its bytes, to the end of the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(HEADER)
        if not header.startswith(b"MATLAB 5.0"):
            hint = "; it is of MATLAB 7.3 (HDF5), save it with -v7" if b"MATLAB 7.3" in header[:16] else ""
            raise ValueError(f"{path} is not a MATLAB 5 file: it begins with {header[:10]!r} at offset 0{hint}")
        order = "<" if header[126:128] == b"IM" else ">"
        offset, end = 0, HEADER
        while end < size:
            offset = file.seek(end)
            tag = file.read(8)
            end = offset + 8 + (struct.unpack(f"{order}II", tag)[1] if len(tag) == 8 else 0)
    if end > size:
        what = f"the variable at offset {offset}" if offset else "its header"
        raise ValueError(
            f"{path} is truncated: it ends at offset {size}, but {what} continues to {end}; get the file again"
        )
