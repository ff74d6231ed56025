"""The real files, where UNFLIP_DATA has them."""

import numpy as np
import pytest

from unflip.datasets import catalogue, load_dataset


def real(name):
    entry = next(entry for entry in catalogue() if entry.name == name)
    if not entry.on_disk():
        pytest.skip(f"{name} is not in the data directory that UNFLIP_DATA names")
    return load_dataset(name)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx(name):
    data = real(name)
    assert data.x_train.shape == (60000, 1, 28, 28)
    assert data.x_test.shape == (10000, 1, 28, 28)
    assert (data.x_train.min(), data.x_train.max()) == (0, 1)
    # the means that everybody normalises with
    assert data.x_train.mean(dtype=float) == pytest.approx({"mnist": 0.1307, "fashion-mnist": 0.2860}[name], abs=5e-5)
    first = {"mnist": [5, 0, 4, 1, 9, 2, 1, 3, 1, 4], "fashion-mnist": [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]}[name]
    assert data.y_train[:10].tolist() == first
    assert np.bincount(data.y_test, minlength=10).min() >= 892


def test_svhn():
    data = real("svhn")
    assert data.x_train.shape[1:] == (3, 32, 32)
    assert len(data.x_train) == len(data.y_train) >= 10000
    assert data.y_train[:5].tolist() == [1, 9, 2, 3, 2]
    assert data.x_train.mean(dtype=float) == pytest.approx(0.44, abs=0.03)
    assert set(data.y_train) == set(range(10))
    assert np.bincount(data.y_train).argmax() == 1  # house numbers begin with 1 more often than with anything else


def test_cifar10n(features):
    data = real("cifar10n-aggregate")
    np.testing.assert_array_equal(data.x_train, features.x_train)
    np.testing.assert_array_equal(data.y_train, features.y_train)
    np.testing.assert_array_equal(data.y_test, features.y_test)
    assert np.mean(data.y_noisy != data.y_train) == pytest.approx(0.0901, abs=1e-3)  # 9.03 % in the paper
    random1 = real("cifar10n-random1")
    assert np.mean(random1.y_noisy != random1.y_train) == pytest.approx(0.1723, abs=1e-4)  # as published


@pytest.mark.slow
def test_cifar10():
    data = real("cifar10")
    assert data.x_train.shape == (50000, 3, 32, 32)
    # the channel means that everybody normalises with
    means = data.x_train.mean(axis=(0, 2, 3), dtype=float)
    np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=5e-5)
    assert data.y_train[:5].tolist() == [6, 9, 9, 4, 1]
    assert np.bincount(data.y_train).tolist() == [5000] * 10
