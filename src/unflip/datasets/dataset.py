"""What a reader returns, and what a user gets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float32Array = NDArray[np.float32]
Codes = NDArray[np.int64]


class Arrays(NamedTuple):
    """The arrays of one dataset as its reader found them; the fields are those of :class:`Dataset`."""

    x_train: Float32Array
    y_train: Codes | None
    x_test: Float32Array
    y_test: Codes
    y_noisy: Codes | None = None


@dataclass(frozen=True, eq=False)  # == of arrays is no truth value
class Dataset:
    """A dataset in memory.

    Attributes
    ----------
    name : str
    x_train, x_test : float32 arrays
        Images of shape (n, channels, height, width) in [0, 1], or features of shape (n, d).
    y_train : int64 array of shape (n_train,), or None
        Codes of the clean labels; None where nobody knows them (Animal-10N).
    y_test : int64 array of shape (n_test,)
        Codes of the clean labels.
    y_noisy : int64 array of shape (n_train,), or None
        Codes of the labels that people really gave to the training samples; None where there are none.
    class_names : tuple of str
        ``class_names[code]``.
    note : str
        Says so where the files hold another number of rows than the official release; empty where they do not.
    """

    name: str
    x_train: Float32Array
    y_train: Codes | None
    x_test: Float32Array
    y_test: Codes
    y_noisy: Codes | None
    class_names: tuple[str, ...]
    note: str = ""


def check_test_is_not_train(arrays: Arrays, train: Path, test: Path) -> Arrays:
    """Refuse the training samples under the name of the test samples: every score would be of what was learnt."""
    if np.array_equal(arrays.x_train, arrays.x_test):
        same = f"{train} and {test} hold" if train != test else f"x_train and x_test of {train} are"
        raise ValueError(f"{same} the same samples; one of them is a copy under the other's name, get it again")
    return arrays


def scaled(pixels: NDArray[np.uint8], out: Float32Array | None = None) -> Float32Array:
    """Pixel bytes 0 .. 255 as float32 in [0, 1], in C order; ``out`` saves a second array where there is one."""
    result: Any = np.divide(pixels, 255, out=out, dtype=np.float32, order="C")
    return result
