"""Reader of Animal-10N: folders of 64x64 JPEG files whose names begin with the label, ``3_17.jpg``."""

import re
from pathlib import Path

import numpy as np

from unflip.datasets.entry import Arrays, Codes, Float32Array, check_test_is_not_train, scaled

NAME = re.compile(r"([0-9])_.+\.jpe?g", re.IGNORECASE)
SIDE = 64


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
        raise ModuleNotFoundError("reading Animal-10N needs Pillow: pip install unflip[data]") from error

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
            raise ValueError(
                f"{path} is {size[0]}x{size[1]} pixels; expected {SIDE}x{SIDE}, the size of Animal-10N's images"
            )
        scaled(pixels.transpose(2, 0, 1), out=x[k])
    return x, y


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if not files:
        raise ValueError(f"{folder} is empty; it must hold files named <label>_<name>.jpg")
    return files
