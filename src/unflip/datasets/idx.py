"""Reader of IDX, the format of MNIST and Fashion-MNIST, gzipped or not.

A file is a header of big-endian numbers, then one byte per value::

    0  0  8  d        two zeros, the type (8: unsigned byte), the number of dimensions
    n  n_1 .. n_d-1   four bytes each
"""

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unflip.datasets.entry import Arrays, Codes, Float32Array, check_test_is_not_train, scaled

CHUNK = 1 << 20
IMAGE = (28, 28)


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
                    raise ValueError(
                        f"{path} continues after offset {expected}, where its header says that the data end; "
                        "it is not the official file, get it again"
                    )
        except EOFError:
            cut = f" (the gzip stream is cut off at byte {path.stat().st_size} of the file)"
        except (gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{path} is damaged or not a gzip file: {error}; get the file again, or remove .gz from its name if it "
                "is already decompressed"
            ) from error
    if n is None or len(content) < expected or cut:
        raise ValueError(
            f"{path} is truncated: its data end at offset {len(content)}, but {expected} bytes were expected{cut}; "
            "get the file again"
        )
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
        raise ValueError(
            f"{images} holds {n_images} images but {labels} holds {n_labels} labels; they do not belong together"
        )
    return n_images


def _announced(path: Path, header: bytes, item_shape: tuple[int, ...]) -> int:
    """Return the number of items that the header announces, if the rest of it is as expected."""
    magic = bytes((0, 0, 8, 1 + len(item_shape)))
    if header[:4] != magic:
        hint = "; it is gzipped, so its name must end in .gz" if header[:2] == b"\x1f\x8b" else ""
        kind = "images" if item_shape else "labels"
        raise ValueError(
            f"{path} is not an IDX file of {kind}: it begins with {header[:4].hex(' ')} at offset 0, "
            f"expected {magic.hex(' ')}{hint}"
        )
    n, *shape = struct.unpack(f">{1 + len(item_shape)}I", header[4:])
    if tuple(shape) != item_shape:
        raise ValueError(f"{path} has items of shape {tuple(shape)} at offset 8, expected {item_shape}")
    if n == 0:
        raise ValueError(f"{path} announces 0 items at offset 4; get a file with data")
    return int(n)
