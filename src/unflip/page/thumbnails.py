"""Small pictures of samples as PNG, without an imaging library."""

import struct
import zlib

import numpy as np
from numpy.typing import ArrayLike

from unflip.page.data import PNG

COLOR_TYPES = {1: 0, 3: 2, 4: 6}  # of PNG: gray, RGB, RGB with transparency


def thumbnail(image: ArrayLike, low: float = 0.0, high: float = 1.0, largest: int = 48) -> bytes:
    """Return an image as a PNG of at most ``largest`` pixels per side, each the mean of a square of pixels.

    The image has shape (channels, height, width); other numbers of channels than one, three or four are averaged.
    ``low`` becomes black and ``high`` full intensity.
    """
    pixels = np.asarray(image, dtype=np.float64)
    if pixels.ndim != 3:
        raise ValueError(f"an image must have shape (channels, height, width); got {pixels.shape}")
    if len(pixels) not in COLOR_TYPES:
        pixels = pixels.mean(axis=0, keepdims=True)
    channels, height, width = pixels.shape
    factor = -(-max(height, width) // largest)
    # Means of squares of factor x factor; the last row and column are repeated to fill them.
    padded = np.pad(pixels, ((0, 0), (0, -height % factor), (0, -width % factor)), mode="edge")
    small = padded.reshape(channels, -(-height // factor), factor, -(-width // factor), factor).mean(axis=(2, 4))
    scaled = np.clip((small - low) / (high - low if high > low else 1.0), 0, 1)
    rows = np.rint(255 * scaled).astype(np.uint8).transpose(1, 2, 0)  # height x width x channels
    filtered = np.hstack([np.zeros((len(rows), 1), np.uint8), rows.reshape(len(rows), -1)])  # filter 0: as it is
    header = struct.pack(">IIBBBBB", rows.shape[1], rows.shape[0], 8, COLOR_TYPES[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b""))
    return PNG + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
