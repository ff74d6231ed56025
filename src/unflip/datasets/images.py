"""Readers of the official layouts of images: IDX (MNIST, Fashion-MNIST), CIFAR-10's binary version, SVHN, Animal-10N.

An IDX file, gzipped or not, is a header of big-endian numbers, then one byte per value::

    0  0  8  d        two zeros, the type (8: unsigned byte), the number of dimensions
    n  n_1 .. n_d-1   four bytes each

CIFAR-10 has records of one label byte and 3,072 pixel bytes; SVHN's cropped digits are MATLAB 5 files with ``X``
(32, 32, 3, n) and ``y`` (n, 1), digit 0 stored as 10; Animal-10N has folders of 64x64 JPEG files whose names begin
with the label, ``3_17.jpg``.
"""

import gzip
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unflip.datasets.entry import Arrays, Codes, Float32Array, check_test_is_not_train, scaled

CHUNK = 1 << 20
IMAGE = (28, 28)  # of MNIST
RECORDS = 10_000  # per file of CIFAR-10
PIXELS = 3 * 32 * 32  # the red, the green and the blue plane
RECORD = 1 + PIXELS
HEADER = 128  # bytes of text and version before the first element of a MATLAB file
NAME = re.compile(r"([0-9])_.+\.jpe?g", re.IGNORECASE)  # of a file of Animal-10N
SIDE = 64


def read_mnist(train_images: Path, train_labels: Path, test_images: Path, test_labels: Path) -> Arrays:
    """Read the four files of MNIST or Fashion-MNIST; images become (n, 1, 28, 28)."""
    arrays = Arrays(*_read_part(train_images, train_labels), *_read_part(test_images, test_labels))
    return check_test_is_not_train(arrays, train_images, test_images)


def count_mnist(train_images: Path, train_labels: Path, test_images: Path, test_labels: Path) -> tuple[int, int]:
    """Return the number of images for training and for testing according to the headers."""
    counts = [
        _same_count(images, _read(images, IMAGE, header_only=True)[1], labels, _read(labels, header_only=True)[1])
        for images, labels in ((train_images, train_labels), (test_images, test_labels))
    ]
    return counts[0], counts[1]


def read_idx(path: Path, item_shape: tuple[int, ...] = ()) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes, shape (n, *item_shape); a name that ends in ``.gz`` is decompressed.

    A file that is truncated, too long, or of another type or shape is refused with its name and the offset in the
    (decompressed) data. Nothing is decompressed beyond the first byte that the header does not announce.
    """
    content, n = _read(path, item_shape)
    return np.frombuffer(content, np.uint8, offset=len(content) - n * prod(item_shape)).reshape(-1, *item_shape)


def _read(path: Path, item_shape: tuple[int, ...] = (), header_only: bool = False) -> tuple[bytearray, int]:
    """Return the content including its header, and the number of items that the header announces."""
    content, n, cut = bytearray(), None, ""
    header = expected = 8 + 4 * len(item_shape)
    with path.open("rb") as raw:
        file = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        try:
            # One byte more than expected shows whether the data continue. read1 keeps what precedes a cut.
            while chunk := file.read1(min(CHUNK, expected + (n is not None) - len(content))):
                content += chunk
                if n is None and len(content) == header:
                    n = _announced(path, bytes(content), item_shape)
                    if header_only:
                        return content, n
                    expected = header + n * prod(item_shape)
                if len(content) > expected:
                    raise ValueError(f"{path} continues after offset {expected}, the end by its header; get it again")
        except EOFError:
            cut = f" (the gzip stream is cut off at byte {path.stat().st_size} of the file)"
        except (gzip.BadGzipFile, zlib.error) as error:
            hint = "get the file again, or remove .gz from its name if it is already decompressed"
            raise ValueError(f"{path} is damaged or not a gzip file: {error}; {hint}") from error
    if n is None or len(content) < expected or cut:
        end = f"its data end at offset {len(content)}, but {expected} bytes were expected{cut}"
        raise ValueError(f"{path} is truncated: {end}; get the file again")
    return content, n


def _read_part(images: Path, labels: Path) -> tuple[Float32Array, Codes]:
    pixels, codes = read_idx(images, IMAGE), read_idx(labels)
    _same_count(images, len(pixels), labels, len(codes))
    if codes.max() > 9:
        at = int(np.argmax(codes > 9))
        raise ValueError(f"{labels} has the label {codes[at]} at offset {8 + at}; labels must be 0 .. 9")
    return scaled(pixels[:, np.newaxis]), codes.astype(np.int64)


def _same_count(images: Path, n_images: int, labels: Path, n_labels: int) -> int:
    if n_images != n_labels:
        raise ValueError(f"{images} holds {n_images} images but {labels} holds {n_labels} labels; use matching files")
    return n_images


def _announced(path: Path, header: bytes, item_shape: tuple[int, ...]) -> int:
    """Return the number of items that the header announces, if the rest of it is as expected."""
    magic = bytes((0, 0, 8, 1 + len(item_shape)))
    if header[:4] != magic:
        hint = "; it is gzipped, so its name must end in .gz" if header[:2] == b"\x1f\x8b" else ""
        raise ValueError(
            f"{path} is not an IDX file of {'images' if item_shape else 'labels'}: it begins with "
            f"{header[:4].hex(' ')} at offset 0, expected {magic.hex(' ')}{hint}"
        )
    n, *shape = struct.unpack(f">{1 + len(item_shape)}I", header[4:])
    if tuple(shape) != item_shape:
        raise ValueError(f"{path} has items of shape {tuple(shape)} at offset 8, expected {item_shape}")
    if n == 0:
        raise ValueError(f"{path} announces 0 items at offset 4; get a file with data")
    return int(n)


def read_cifar10(*paths: Path) -> Arrays:
    """Read the training batches in order and the test batch, the last path; images become (n, 3, 32, 32)."""
    seen: dict[bytes, Path] = {}
    return Arrays(*_read_batches(paths[:-1], seen), *_read_batches(paths[-1:], seen))


def count_cifar10(*paths: Path) -> tuple[int, int]:
    """Return the number of records for training and for testing, from the sizes of the files."""
    for path in paths:
        _check_size(path)
    return RECORDS * (len(paths) - 1), RECORDS


def _read_batches(paths: tuple[Path, ...], seen: dict[bytes, Path]) -> tuple[Float32Array, Codes]:
    # One batch of bytes at a time in addition to the floats: 614 MB + 31 MB instead of 614 MB + 154 MB.
    x = np.empty((len(paths), RECORDS, PIXELS), np.float32)
    y = np.empty((len(paths), RECORDS), np.int64)
    for k, path in enumerate(paths):
        _check_size(path)
        records = np.fromfile(path, np.uint8).reshape(RECORDS, RECORD)
        twin = seen.setdefault(sha256(records.data).digest(), path)
        if twin != path:
            raise ValueError(f"{path} is a copy of {twin}; CIFAR-10's batches all differ, get the files again")
        y[k] = records[:, 0]
        if y[k].max() > 9:
            at = int(np.argmax(y[k] > 9))
            raise ValueError(
                f"{path} has the label {y[k, at]} at offset {at * RECORD} (record {at}), expected 0 .. 9; "
                "it is not a batch of the CIFAR-10 binary version"
            )
        scaled(records[:, 1:], out=x[k])
    return x.reshape(-1, 3, 32, 32), y.reshape(-1)


def _check_size(path: Path) -> None:
    size = path.stat().st_size
    if size != RECORD * RECORDS:
        fault = f"is truncated: it ends at offset {size}, within record {size // RECORD}"
        if size > RECORD * RECORDS:
            fault = f"continues after offset {RECORD * RECORDS}, to {size}"
        raise ValueError(f"{path} {fault}; a CIFAR-10 batch has {RECORDS} records of {RECORD} bytes, get it again")


def read_svhn(train: Path, test: Path) -> Arrays:
    """Read both files, with any number of images; these become (n, 3, 32, 32)."""
    return check_test_is_not_train(Arrays(*_read_mat(train), *_read_mat(test)), train, test)


def count_svhn(train: Path, test: Path) -> tuple[int, int]:
    """Return the number of images in both files, from the headers of their variables."""
    from scipy.io import whosmat

    counts = []
    for path in (train, test):
        with _checked(path):
            shapes = {name: shape for name, shape, _kind in whosmat(path)}
        if len(shapes.get("X", ())) != 4:
            raise ValueError(f"{path} has no variable X of shape (32, 32, 3, n); SVHN's files have one")
        counts.append(int(shapes["X"][3]))
    return counts[0], counts[1]


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
    """Walk over the elements of a MATLAB file, each a tag of type and size before its bytes, before SciPy reads it."""
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
        raise ValueError(f"{path} is truncated: it ends at offset {size}, but {what} continues to {end}; get it again")
    try:
        yield
    except Exception as error:  # damaged files make SciPy raise all kinds of errors
        raise ValueError(f"{path} is damaged, SciPy cannot read it ({error}); get the file again") from error


def read_animal10n(training: Path, testing: Path) -> Arrays:
    """Read both folders, with files in the order of their names; images become (n, 3, 64, 64).

    The training labels are people's answers, so they are ``y_noisy``; the clean ones are unknown.
    """
    x_train, y_noisy = _read_folder(training)
    x_test, y_test = _read_folder(testing)
    return check_test_is_not_train(Arrays(x_train, None, x_test, y_test, y_noisy), training, testing)


def count_animal10n(training: Path, testing: Path) -> tuple[int, int]:
    """Return the number of files for training and for testing."""
    return len(_files(training)), len(_files(testing))


def _read_folder(folder: Path) -> tuple[Float32Array, Codes]:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("reading Animal-10N needs Pillow: pip install 'unflip[data]'") from error

    files = _files(folder)
    x = np.empty((len(files), 3, SIDE, SIDE), np.float32)
    y = np.empty(len(files), np.int64)
    for k, path in enumerate(files):
        name = NAME.fullmatch(path.name)
        if not name:
            raise ValueError(f"{path} is not named <label>_<name>.jpg with a label 0 .. 9; remove it from the folder")
        y[k] = int(name[1])
        try:
            with Image.open(path, formats=["JPEG"]) as image:
                size = image.size
                # the size is in the header: no image of another size is decoded
                pixels = np.asarray(image.convert("RGB")) if size == (SIDE, SIDE) else None
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise ValueError(f"{path} cannot be decoded as a JPEG image ({error}); get the file again") from error
        if pixels is None:
            raise ValueError(f"{path} is {size[0]}x{size[1]} pixels; expected {SIDE}x{SIDE}, as in Animal-10N")
        scaled(pixels.transpose(2, 0, 1), out=x[k])
    return x, y


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if not files:
        raise ValueError(f"{folder} is empty; it must hold files named <label>_<name>.jpg")
    return files
