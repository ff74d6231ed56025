"""What all tests share: the hypothesis profiles and the real data."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run: a test never fails by chance. --hypothesis-profile=explore draws new ones.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("fixed")

if find_spec("torch") is None:
    collect_ignore = ["deep"]


class Features(NamedTuple):
    """CIFAR-10 as 320 features an image; labels are clean."""

    x_train: np.ndarray  # (50000, 320) float32
    y_train: np.ndarray  # (50000,) int64
    x_test: np.ndarray  # (10000, 320) float32
    y_test: np.ndarray  # (10000,) int64


@pytest.fixture(scope="session")
def features() -> Features:
    """``cifar10_features.npz`` in the directory that ``UNFLIP_DATA`` names; the test skips without it."""
    directory = os.environ.get("UNFLIP_DATA")
    if not directory:
        pytest.skip("UNFLIP_DATA is not set: it names the directory with cifar10_features.npz")
    path = Path(directory) / "cifar10_features.npz"
    if not path.is_file():
        pytest.skip(f"{path} does not exist: UNFLIP_DATA names a directory without cifar10_features.npz")
    with np.load(path) as arrays:
        return Features(
            arrays["x_train"].astype(np.float32),
            arrays["y_train"].astype(np.int64),
            arrays["x_test"].astype(np.float32),
            arrays["y_test"].astype(np.int64),
        )


@pytest.fixture(scope="session")
def suite():
    """A function that returns the path of a real table or text, such as "text/sst2"; the test skips without it."""

    def path(name: str) -> Path:
        found = Path(os.environ.get("UNFLIP_DATA", "nowhere")) / "suite" / f"{name}.csv.gz"
        if not found.is_file():
            pytest.skip(f"{found} does not exist: UNFLIP_DATA names a directory without the suite")
        return found

    return path
