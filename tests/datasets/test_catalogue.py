"""The catalogue: its entries are complete, and an unknown name is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from unflip.datasets import catalogue, load_dataset

NAMES = [entry.name for entry in catalogue()]


def test_the_catalogue_has_the_papers_five_and_the_rest():
    assert {"mnist", "fashion-mnist", "cifar10", "svhn", "animal10n"} <= set(NAMES)
    assert {"cifar10n-aggregate", "cifar10n-random1", "cifar10-features", "digits"} <= set(NAMES)
    for labels in ("aggregate", "random1", "random2", "random3", "worse"):
        assert {f"cifar10n-{labels}", f"cifar10n-{labels}-images"} <= set(NAMES)
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("entry", catalogue(), ids=NAMES)
def test_every_entry_is_complete(entry):
    assert len(entry.class_names) == 10
    assert entry.n_train > 0
    assert entry.n_test > 0
    assert entry.licence
    assert entry.source.startswith("http")
    assert all(need.places and need.how for need in entry.needs)
    places = {place for need in entry.needs for place in need.places}
    for download in entry.downloads:
        assert re.fullmatch("sha256:[0-9a-f]{64}", download.checksum)
        assert download.url.startswith("https://")
        assert Path(download.url).name == Path(download.path).name
        assert download.is_archive or download.path in places
    assert not [name for need in entry.needs for name in need.pickles if name in places]


@pytest.mark.parametrize("name", ["minst", "MNIST", "", "some/folder", "labels.csv"])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(ValueError, match="unknown data set .*; choose one of digits, .*animal10n, or give the path of"):
        load_dataset(name)


def test_digits_are_those_of_scikit_learn():
    data = load_dataset("digits")
    (entry,) = (entry for entry in catalogue() if entry.name == "digits")
    assert entry.on_disk("/nowhere")
    assert data.x_train.shape == (entry.n_train, *entry.shape)
    assert data.x_test.shape == (entry.n_test, *entry.shape)
    assert data.x_train.dtype == np.float32
    assert data.y_train.dtype == np.int64
    X, y = load_digits(return_X_y=True)
    originals = {(pixels.tobytes(), label) for pixels, label in zip(X, y, strict=True)}
    rows = np.concatenate([data.x_train, data.x_test]).reshape(-1, 64).astype(float) * 16
    labels = np.concatenate([data.y_train, data.y_test])
    assert {(pixels.tobytes(), label) for pixels, label in zip(rows, labels, strict=True)} == originals
    np.testing.assert_array_equal(load_dataset("digits").x_train, data.x_train)  # the split is fixed
    assert np.bincount(data.y_test).min() >= 69  # and stratified


def test_importing_needs_neither_pooch_nor_pillow():
    code = "import sys, unflip.datasets; print({'pooch', 'requests', 'PIL', 'sklearn', 'scipy.io'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.strip() == "set()"
