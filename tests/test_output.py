"""Files and folders are written whole or not at all, and places where nothing can be written are refused."""

import os
import threading

import numpy as np
import pytest

from unflip import _output
from unflip._output import check_place, recover, replaced, replaced_folder, short_names, write_columns, write_whole


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


def test_the_last_of_several_writers_wins_whole(tmp_path):
    path, start = tmp_path / "p.csv", threading.Barrier(4)

    def write(k):
        start.wait()
        for _ in range(5):
            write_columns(path, {"a": np.full(2000, k)})

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = np.loadtxt(path, skiprows=1)
    assert len(values) == 2000
    assert len(set(values)) == 1
    assert os.listdir(tmp_path) == ["p.csv"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_planted_link_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".p.csv.partial").symlink_to(tmp_path / "mine")
    write_columns(tmp_path / "p.csv", {"a": np.arange(3)})
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.skipif(_output.fcntl is None, reason="there are no locks")
def test_what_killed_processes_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(_output, "FRESH", -1)
    (tmp_path / ".p.csv.abc.partial").write_text("half")
    (tmp_path / ".m.abc.partial").mkdir()
    with replaced(tmp_path / "p.csv") as mine:
        mine.write_text("mine")
        write_whole(tmp_path / "p.csv", "another writer")
        assert mine.exists()  # its writer lives
    with replaced_folder(tmp_path / "m") as mine, replaced_folder(tmp_path / "m"):
        assert mine.exists()
    assert sorted(os.listdir(tmp_path)) == ["m", "p.csv"]
    assert (tmp_path / "p.csv").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_modes_agree(tmp_path):
    before = os.umask(0o027)
    try:
        with replaced_folder(tmp_path / "m") as partial:
            (partial / "a").write_text("a")
            (partial / "b").write_text("b")
            (partial / "b").chmod(0o600)
        write_whole(tmp_path / "f", "f")
    finally:
        os.umask(before)
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("m", "m/a", "m/b", "f")}
    assert modes == {"m": 0o750, "m/a": 0o640, "m/b": 0o640, "f": 0o640}


def test_a_folder_is_there_at_any_moment(tmp_path, monkeypatch):
    """Also where old and new cannot change places in one step: a process killed in between leaves the old one."""
    folder = tmp_path / "m"
    with replaced_folder(folder) as partial:
        (partial / "old").write_text("old")
    monkeypatch.setattr(_output, "_swap", lambda *_: False)
    with replaced_folder(folder) as partial:
        (partial / "new").write_text("new")
    assert [item.name for item in folder.iterdir()] == ["new"]
    folder.rename(tmp_path / ".m.abc.partial.old")  # killed here
    recover(folder)
    assert [item.name for item in folder.iterdir()] == ["new"]
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.skipif(os.name == "nt", reason="a system call of Linux")
def test_readers_always_find_a_whole_folder(tmp_path):
    folder, stop, missing = tmp_path / "m", threading.Event(), []
    with replaced_folder(folder) as partial:
        (partial / "a").write_text("a")
    if not _output._swap(folder, _other(tmp_path)):
        pytest.skip("this file system cannot exchange names")
    _output._swap(folder, tmp_path / "other")

    def look():
        while not stop.is_set():
            if not folder.exists():
                missing.append(1)

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(200):
        with replaced_folder(folder) as partial:
            (partial / "a").write_text("a")
    stop.set()
    reader.join()
    assert not missing


def _other(tmp_path):
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


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
