"""Small pictures of samples as PNG, without an imaging library."""

import struct
import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unflip.page.data import PNG

LARGEST = 48  # pixels a side
COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # of PNG: grey, RGB, RGB with transparency


def thumbnail(image: ArrayLike, low: float = 0.0, high: float = 1.0, largest: int = LARGEST) -> bytes:
    """Return an image as a PNG of at most ``largest`` pixels a side, each the mean of a square of pixels.

    Parameters
    ----------
    image : array-like of shape (channels, height, width)
        One, three or four channels; of any other number their mean.
    low, high : float, default=0.0 and 1.0
        The values that become black and full intensity.
    largest : int, default=48
    """
    pixels = np.asarray(image, dtype=np.float64)
    if pixels.ndim != 3:
        raise ValueError(f"an image has shape (channels, height, width); got {pixels.shape}")
    if len(pixels) not in COLOUR_TYPES:
        pixels = pixels.mean(axis=0, keepdims=True)
    small = _shrunk(pixels, -(-max(pixels.shape[1:]) // largest))
    scaled = np.clip((small - low) / (high - low if high > low else 1.0), 0, 1)
    return _png(np.rint(255 * scaled).astype(np.uint8))


def _shrunk(pixels: NDArray[np.float64], factor: int) -> NDArray[np.float64]:
    """Means of squares of factor x factor; the last row and column are repeated to fill them."""
    channels, height, width = pixels.shape
    padded = np.pad(pixels, ((0, 0), (0, -height % factor), (0, -width % factor)), mode="edge")
    squares = padded.reshape(channels, padded.shape[1] // factor, factor, padded.shape[2] // factor, factor)
    means: NDArray[np.float64] = squares.mean(axis=(2, 4))
    return means


def _png(pixels: NDArray[np.uint8]) -> bytes:
    channels, height, width = pixels.shape
    rows = pixels.transpose(1, 2, 0).reshape(height, width * channels)
    filtered = np.hstack([np.zeros((height, 1), np.uint8), rows])  # filter 0 of each row: as it is
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b""))
    return PNG + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
