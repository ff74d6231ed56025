"""The data directory, what is missing in it, and the errors for what is not there."""

import sys
from pathlib import Path

import pytest

from tests.datasets.layouts import write_mnist
from unflip.datasets import catalogue, data_directory, load_dataset

NAMES = [entry.name for entry in catalogue()]


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
