"""Folders of images as arrays: one folder per class, or a folder of images without labels."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._input import check_file

SUFFIXES = (".png", ".jpg", ".jpeg")
FORMATS = ("PNG", "JPEG")
GRAY = ("1", "L")
COLOR = ("LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")
IGNORED = ("Thumbs.db", "desktop.ini")  # left behind by desktops, as are names that begin with a dot
ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)  # the tag of a photograph, and its values that exchange width and height


def read_images(
    folder: Path, image_size: tuple[int, int] | None = None
) -> tuple[NDArray[np.float32], NDArray[Any] | None, NDArray[Any]]:
    """Return images (n, channels, height, width) in [0, 1], the names of their folders, and their file names.

    Images directly in the folder, without class folders, have no labels. There is one channel if all of them are gray,
    otherwise three. If ``image_size``, (height, width), is None, images of different sizes are refused.
    """
    groups, loose = _folders(folder), _files(folder)
    if groups and loose:
        raise ValueError(f"{loose[0]} lies next to the class folders; put it into one of them, or elsewhere")
    paths = []
    for group in groups or [folder]:
        if groups and (deeper := _folders(group)):
            raise ValueError(f"{deeper[0]} is a folder inside a class folder; put its images directly into {group}")
        found = _files(group)
        if groups and not found:
            raise ValueError(f"the class folder {group} is empty; remove it, or put the images of its class into it")
        if other := [path for path in found if path.suffix.lower() not in SUFFIXES]:
            raise ValueError(f"{other[0]} does not end in .png, .jpg or .jpeg; move it out of the folder")
        paths += found
    if not paths:
        raise ValueError(f"{folder} is empty; it should hold a folder of PNG or JPEG images for each class")
    for path in paths:
        check_file(path)
        check_name(path)
    labels = np.array([path.parent.name for path in paths]) if groups else None
    return _pixels(paths, image_size), labels, np.array([path.relative_to(folder).as_posix() for path in paths])


def check_name(path: Path) -> None:
    """Refuse a name that is not text, before any work: no list or page could hold it."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the name {os.fsencode(path)!r} is not text in UTF-8; rename the file") from error


def has_images(folder: Path) -> bool:
    """Return whether there is an image in the folder, or in the folders in it."""
    return any(path.suffix.lower() in SUFFIXES and path.name[0] not in "._" for path in folder.rglob("*"))


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if not p.is_dir() and p.name[0] != "." and p.name not in IGNORED)


def _pixels(paths: list[Path], image_size: tuple[int, int] | None) -> NDArray[np.float32]:
    sizes, modes = zip(*(_header(path) for path in paths), strict=True)
    size = image_size or sizes[0]
    for path, other in zip(paths, sizes, strict=True):
        if image_size is None and other != size:
            raise ValueError(
                f"the images differ in size: {paths[0]} is {size[1]}x{size[0]} pixels, {path} {other[1]}x{other[0]}; "
                "resize them, or choose one size for all of them: --image-size, or image_size= in Python"
            )
    channels = 1 if set(modes) <= set(GRAY) else 3
    try:
        x = np.empty((len(paths), channels, *size), np.float32)
    except MemoryError as error:
        raise ValueError(
            f"{len(paths)} images of {size[1]}x{size[0]} pixels do not fit into memory; choose a smaller image size"
        ) from error
    for k, path in enumerate(paths):
        x[k] = _decoded(path, "L" if channels == 1 else "RGB", size)
    return x


def _header(path: Path) -> tuple[tuple[int, int], str]:
    """Height and width as the image is shown, and its mode, without decoding it."""
    with _opened(path) as image:
        width, height = image.size
        if image.mode not in (*GRAY, *COLOR):
            raise ValueError(f"its mode is {image.mode}; save it with 8 bits per channel")
        turned = image.getexif().get(ORIENTATION) in TURNED
        return ((width, height) if turned else (height, width)), image.mode


def _decoded(path: Path, mode: str, size: tuple[int, int]) -> NDArray[np.float32]:
    from PIL import Image, ImageOps

    with _opened(path) as image:
        shown = ImageOps.exif_transpose(image)
        if shown.mode in ("P", "LA"):  # a palette may have transparency, which RGB lacks
            shown = shown.convert("RGBA")
        shown = shown.convert(mode)
        if shown.size != (size[1], size[0]):
            shown = shown.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        pixels = np.asarray(shown, dtype=np.float32) / np.float32(255)
    return pixels[np.newaxis] if mode == "L" else pixels.transpose(2, 0, 1)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open an image; any error becomes a ValueError with its name."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("reading images needs Pillow: pip install 'unflip[data]'") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                yield image
    except Exception as error:  # damaged files make PIL raise almost anything
        raise ValueError(f"the image {path} cannot be read: {error}") from error
