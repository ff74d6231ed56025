"""The catalogue, the data directory, and the errors for what is not there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.datasets.layouts import write_mnist
from unflip.datasets import catalogue, data_directory, load_dataset

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
        assert re.fullmatch("md5:[0-9a-f]{32}", download.checksum)
        assert re.match("https?://", download.url)
        assert Path(download.url).name == Path(download.path).name
        assert download.is_archive or download.path in places
    assert not [name for need in entry.needs for name in need.pickles if name in places]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits"])
def test_a_missing_set_says_where_it_was_looked_for_and_how_to_get_it(tmp_path, name):
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset(name, tmp_path)
    message = str(caught.value)
    entry = next(entry for entry in catalogue() if entry.name == name)
    assert f"looked in {tmp_path} for {entry.needs[0].places[0]}" in message
    assert "UNFLIP_DATA" in message
    if entry.downloads:
        assert f"`unflip data fetch {name}`" in message
        assert Path(entry.downloads[0].path).name in message
    else:
        assert any(need.how in message for need in entry.needs)


@pytest.mark.parametrize("name", ["minst", "MNIST", "", "some/folder", "labels.csv"])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(ValueError, match="unknown data set .*; choose one of digits, .*animal10n, or give the path of"):
        load_dataset(name)


def test_on_disk_asks_for_every_file(tmp_path):
    (mnist,) = (entry for entry in catalogue() if entry.name == "mnist")
    assert not mnist.on_disk(tmp_path)
    write_mnist(tmp_path / "mnist")
    assert mnist.on_disk(tmp_path)
    assert mnist.missing_downloads(tmp_path) == []
    assert mnist.how_to_get(tmp_path) == ""
    # decompressed is as good
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").rename(tmp_path / "mnist" / "t10k-labels-idx1-ubyte")
    assert mnist.on_disk(tmp_path)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    assert not mnist.on_disk(tmp_path)
    assert [download.path for download in mnist.missing_downloads(tmp_path)] == ["mnist/t10k-labels-idx1-ubyte.gz"]


@pytest.mark.parametrize("name", ["mnist", "svhn", "cifar10", "cifar10-features"])
def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path, name):
    (entry,) = (entry for entry in catalogue() if entry.name == name)
    for need in entry.needs:
        (tmp_path / need.places[0]).mkdir(parents=True)
    for look in (entry.load, entry.rows):
        with pytest.raises(
            IsADirectoryError, match=f"{Path(entry.needs[0].places[0]).name} is a folder, but a file is expected there"
        ):
            look(tmp_path)


def test_a_file_in_the_place_of_a_folder_and_a_folder_called_npz_are_refused(tmp_path):
    (tmp_path / "animal10n" / "testing").mkdir(parents=True)
    (tmp_path / "animal10n" / "training").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="training is a file, but a folder is expected there"):
        load_dataset("animal10n", tmp_path)
    (tmp_path / "a.npz").mkdir()
    with pytest.raises(IsADirectoryError, match="a.npz is a folder, but a file is expected there"):
        load_dataset(tmp_path / "a.npz")


def test_a_file_that_may_not_be_read_is_named(tmp_path, forbid):
    write_mnist(tmp_path / "mnist")
    forbid("t10k-images-idx3-ubyte.gz")
    with pytest.raises(PermissionError, match="not allowed to read .*t10k-images-idx3-ubyte.gz; change its perm"):
        load_dataset("mnist", tmp_path)


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


def test_the_data_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("UNFLIP_DATA", str(tmp_path / "environment"))
    assert data_directory() == tmp_path / "environment"
    assert data_directory(tmp_path / "given") == tmp_path / "given"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert data_directory("~/data") == tmp_path / "data"
    monkeypatch.setenv("UNFLIP_DATA", "")  # as good as unset
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform.startswith("linux"):
        assert data_directory() == tmp_path / "xdg" / "unflip"
    monkeypatch.delenv("XDG_CACHE_HOME")
    default = {"darwin": "Library/Caches/unflip", "win32": "AppData/Local/unflip/Cache"}  # as in version 0.1.0
    assert data_directory() == tmp_path / default.get(sys.platform, ".cache/unflip")


def test_the_environment_is_read_when_the_data_are(tmp_path, monkeypatch):
    write_mnist(tmp_path / "mnist")
    monkeypatch.setenv("UNFLIP_DATA", str(tmp_path))
    assert len(load_dataset("mnist").y_train) == 12


def test_importing_needs_neither_pooch_nor_pillow():
    code = "import sys, unflip.datasets; print({'pooch', 'requests', 'PIL', 'sklearn', 'scipy.io'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.strip() == "set()"
