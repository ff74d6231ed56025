"""Reader of IDX, the format of MNIST and Fashion-MNIST, gzipped or not.

A file is a header of big-endian numbers, then one byte a value::

    0  0  8  d        two zeros, the type (8: unsigned byte), the number of dimensions
    n  n_1 .. n_d-1   four bytes each
"""

import struct
import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from unflip.datasets.dataset import Arrays, Codes, Float32Array, scaled

CHUNK = 1 << 20
IMAGE = (28, 28)


def read_mnist(train_images: Path, train_labels: Path, test_images: Path, test_labels: Path) -> Arrays:
    """Read the four files of MNIST or Fashion-MNIST; images become (n, 1, 28, 28)."""
    return Arrays(*_read_part(train_images, train_labels), *_read_part(test_images, test_labels))


def read_idx(path: Path, item_shape: tuple[int, ...] = ()) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes, shape (n, *item_shape); a name that ends in ``.gz`` is decompressed.

    A file that is truncated, too long, or of another type or shape is refused with its name and the offset in the
    (decompressed) data.
    """
    header_size = 8 + 4 * len(item_shape)
    content = bytearray()
    expected = None
    gzip_end = None
    try:
        for chunk in _chunks(path):
            content += chunk
            if expected is None and len(content) >= header_size:
                expected = header_size + _announced(path, bytes(content[:header_size]), item_shape) * prod(item_shape)
            if expected is not None and len(content) > expected:
                raise ValueError(
                    f"{path} goes on after offset {expected}, where its header says that its data end; "
                    "it is not the official file, get it again"
                )
    except EOFError as error:
        gzip_end = error.args[0]
    if expected is None or len(content) < expected or gzip_end is not None:
        announced = header_size if expected is None else expected
        cut = "" if gzip_end is None else f" (the gzip stream is cut off at byte {gzip_end} of the file)"
        raise ValueError(
            f"{path} is truncated: its data end at offset {len(content)}, {announced} bytes were expected{cut}; "
            "get the file again"
        )
    return np.frombuffer(content, np.uint8, offset=header_size).reshape(-1, *item_shape)


def _read_part(images: Path, labels: Path) -> tuple[Float32Array, Codes]:
    pixels = read_idx(images, IMAGE)
    codes = read_idx(labels)
    if len(pixels) != len(codes):
        raise ValueError(
            f"{images} holds {len(pixels)} images but {labels} holds {len(codes)} labels; they are not of one set"
        )
    if codes.max() > 9:
        at = int(np.argmax(codes > 9))
        raise ValueError(f"{labels} has the label {codes[at]} at offset {8 + at}; labels are 0 .. 9")
    return scaled(pixels[:, np.newaxis]), codes.astype(np.int64)


def _announced(path: Path, header: bytes, item_shape: tuple[int, ...]) -> int:
    """The number of items that the header announces, once the rest of it is what it should be."""
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
        raise ValueError(f"{path} announces 0 items at offset 4; it is empty")
    return int(n)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        if path.suffix == ".gz":
            yield from _inflated(path, file)
        else:
            while chunk := file.read(CHUNK):
                yield chunk


def _inflated(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Decompress; EOFError with the file's length where the stream is cut off.

    ``gzip.open`` would drop what it has read of a cut stream, and with it the offset at which the data end.
    """
    start = file.read(2)
    if start != b"\x1f\x8b":
        raise ValueError(
            f"{path} is not a gzip file: it begins with {start.hex(' ') or 'nothing'} at offset 0, expected 1f 8b; "
            "if it is decompressed already, take .gz off its name"
        )
    file.seek(0)
    stream = zlib.decompressobj(wbits=31)  # 31: gzip with its header and checksum
    while chunk := file.read(CHUNK):
        while chunk:
            if stream.eof:  # a gzip file may be several streams, one after another
                stream = zlib.decompressobj(wbits=31)
            try:
                yield stream.decompress(chunk)
            except zlib.error as error:
                raise ValueError(
                    f"{path} is damaged near byte {file.tell() - len(chunk)}: {error}; get the file again"
                ) from error
            chunk = stream.unused_data
    if not stream.eof:
        raise EOFError(file.tell())
