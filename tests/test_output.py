"""Files and folders are written whole or not at all, and places where nothing can be written are refused."""

import os

import numpy as np
import pytest

from unflip._output import check_place, replaced_folder, short_names, write_columns, write_whole


def test_a_failed_file_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="longer"):
        write_columns(tmp_path / "p.csv", {"a": np.arange(2), "b": np.arange(3)})
    with pytest.raises(ValueError, match="must end in"):
        write_columns(tmp_path / "p.xls", {"a": np.arange(2)})
    assert not list(tmp_path.iterdir())


def test_nothing_half_written(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_below_a_file_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="file is a file, not a folder"):
        check_place(tmp_path / "file" / "x" / "y")
    check_place(tmp_path / "new" / "x")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_where_nothing_may_be_written(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(PermissionError, match="no permission to write to the folder"):
        check_place(tmp_path / "x")


def test_a_folder_takes_its_place_at_the_end(tmp_path):
    for text in ("old", "new"):
        with replaced_folder(tmp_path / "a" / "folder") as partial:
            (partial / text).write_text(text)
            assert (tmp_path / "a" / "folder" / "old").exists() == (text == "new")
    assert [item.name for item in (tmp_path / "a" / "folder").iterdir()] == ["new"]
    assert [item.name for item in (tmp_path / "a").iterdir()] == ["folder"]


def test_a_folder_stays_when_the_new_one_fails(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old").write_text("old")

    def stopped():
        with replaced_folder(folder) as partial:
            (partial / "new").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert [item.name for item in folder.iterdir()] == ["old"]
    assert [item.name for item in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["cat", "dog"], ["cat", "dog"]),
        (["card_payment_fee", "cat"], ["card_paym…", "cat"]),
        (["card_payment_fee", "card_payment_late"], ["card_…_fee", "card_…late"]),
        (["x" * 30 + "a" + "y" * 30, "x" * 30 + "b" + "y" * 30], ["xxxxxxxx…1", "xxxxxxxx…2"]),
    ],
)
def test_short_names_are_told_apart(names, short):
    assert short_names(names, 10) == short
    assert max(map(len, short)) <= 10
