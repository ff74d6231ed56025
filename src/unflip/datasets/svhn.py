"""Reader of SVHN's cropped digits: MATLAB 5 files with ``X`` (32, 32, 3, n) and ``y`` (n, 1), digit 0 stored as 10."""

import struct
from pathlib import Path

import numpy as np

from unflip.datasets.dataset import Arrays, Codes, Float32Array, check_test_is_not_train, scaled

HEADER = 128  # bytes of text and version before the first element


def read_svhn(train: Path, test: Path) -> Arrays:
    """Read both files, however many crops they hold; images become (n, 3, 32, 32)."""
    return check_test_is_not_train(Arrays(*_read_mat(train), *_read_mat(test)), train, test)


def count_svhn(train: Path, test: Path) -> tuple[int, int]:
    """Return the number of crops in both files, from the headers of their variables."""
    return _count(train), _count(test)


def _count(path: Path) -> int:
    from scipy.io import whosmat

    _check_whole(path)
    try:
        shapes = {name: shape for name, shape, _kind in whosmat(path)}
    except Exception as error:  # as in _read_mat
        raise ValueError(f"{path} is damaged, SciPy cannot read it ({error}); get the file again") from error
    if len(shapes.get("X", ())) != 4:
        raise ValueError(f"{path} has no variable X of shape (32, 32, 3, n), as SVHN's files have")
    return int(shapes["X"][3])


def _read_mat(path: Path) -> tuple[Float32Array, Codes]:
    from scipy.io import loadmat

    _check_whole(path)
    try:
        found = loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # damage makes SciPy raise whatever it stumbles over
        raise ValueError(f"{path} is damaged, SciPy cannot read it ({error}); get the file again") from error
    if missing := {"X", "y"} - found.keys():
        raise ValueError(f"{path} has no variable {' and no '.join(sorted(missing))}; SVHN's files have X and y")
    X, y = found["X"], found["y"]
    if not isinstance(X, np.ndarray) or X.dtype != np.uint8 or X.ndim != 4 or X.shape[:3] != (32, 32, 3):
        raise ValueError(f"{path}: X is {X.dtype} of shape {X.shape}, expected uint8 of shape (32, 32, 3, n)")
    n = X.shape[3]
    if n == 0:
        raise ValueError(f"{path}: X has shape {X.shape}, it holds no image; get the file again")
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


def _check_whole(path: Path) -> None:
    """Walk over the elements of the file, each a tag of type and size before its bytes, to its very end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(HEADER)
        if not header.startswith(b"MATLAB 5.0"):
            hint = "; it is of MATLAB 7.3 (HDF5), save it with -v7" if b"MATLAB 7.3" in header[:16] else ""
            raise ValueError(f"{path} is not a MATLAB 5 file: it begins with {header[:10]!r} at offset 0{hint}")
        if len(header) < HEADER:
            raise ValueError(f"{path} is truncated: it ends at offset {size}, within its header of {HEADER} bytes")
        order = "<" if header[126:128] == b"IM" else ">"
        offset = HEADER
        while offset < size:
            file.seek(offset)
            tag = file.read(8)
            end = offset + 8 + (struct.unpack(f"{order}II", tag)[1] if len(tag) == 8 else 0)
            if end > size:
                raise ValueError(
                    f"{path} is truncated: it ends at offset {size}, but the variable at offset {offset} goes on "
                    f"to {end}; get the file again"
                )
            offset = end
