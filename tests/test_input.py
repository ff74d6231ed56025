"""The door of every input: what is not a whole, regular file of a bearable size is refused in one sentence."""

import gzip
import json
import os
import socket
import sys

import numpy as np
import pytest

from unflip import _input
from unflip._input import check_expanded, check_file, check_limit, limit, opened, read_bytes, read_json, read_npy

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices of POSIX")


def strange_files(folder, name):
    """Yield what is not a regular file, under a name, and how it is called."""
    path = folder / name
    os.mkfifo(path)
    yield path, "a named pipe"
    path.unlink()
    path.symlink_to("/dev/zero")
    yield path, "a device"
    path.unlink()
    path.symlink_to(path.name)
    yield path, "cannot be read: too many levels of symbolic links"
    path.unlink()
    path.symlink_to(folder / "nowhere")
    yield path, "is a link to .*nowhere, which does not exist"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(folder)  # the path of a socket must be short
        try:
            bound.bind(name)
        finally:
            os.chdir(here)
        yield path, "a socket"
    path.unlink()
    path.mkdir()
    yield path, "a folder"
    path.rmdir()


@posix
@pytest.mark.timeout(30)
def test_only_regular_files(tmp_path):
    for path, said in strange_files(tmp_path, "x.json"):
        for read in (check_file, read_bytes, read_json, read_npy):
            with pytest.raises((ValueError, OSError), match=said):
                read(path)
    (tmp_path / "x").write_bytes(b"1")
    assert check_file(tmp_path / "x") == tmp_path / "x"
    assert read_json(tmp_path / "x") == 1


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can become another user")
def test_what_may_not_be_read(tmp_path):
    (tmp_path / "x").write_bytes(b"1")
    (tmp_path / "x").chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match="you are not allowed to read .*x; change its permissions"):
            check_file(tmp_path / "x")
    finally:
        os.seteuid(0)


@posix
def test_links_out_of_a_folder(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "x").write_bytes(b"1")
    (tmp_path / "model" / "x").symlink_to(tmp_path / "x")
    with pytest.raises(ValueError, match="is a link to .*outside its folder"):
        check_file(tmp_path / "model" / "x", tmp_path / "model")
    (tmp_path / "model" / "y").write_bytes(b"1")
    (tmp_path / "model" / "x").unlink()
    (tmp_path / "model" / "x").symlink_to("y")
    check_file(tmp_path / "model" / "x", tmp_path / "model")


class TestLimits:
    def test_are_said_with_the_way_to_raise_them(self, monkeypatch):
        with pytest.raises(ValueError, match="^too long; the limit is 256. To raise it, set UNFLIP_MAX_LABEL"):
            check_limit("UNFLIP_MAX_LABEL", 300, "too long")
        monkeypatch.setenv("UNFLIP_MAX_LABEL", "300")
        check_limit("UNFLIP_MAX_LABEL", 300, "too long")
        monkeypatch.setenv("UNFLIP_MAX_LABEL", "many")
        with pytest.raises(ValueError, match="must be a whole number; got 'many'"):
            limit("UNFLIP_MAX_LABEL")

    def test_of_what_expands(self, tmp_path, monkeypatch):
        path = tmp_path / "bomb.gz"
        with gzip.open(path, "wb") as file:
            file.write(bytes(3_000_000))
        monkeypatch.setenv("UNFLIP_MAX_EXPANDED", "1000000")
        with opened(path) as file, pytest.raises(ValueError, match="over 100 times its size; the limit is 1,000,000"):
            file.read()
        monkeypatch.setenv("UNFLIP_MAX_EXPANDED", "3000000")
        with opened(path) as file:
            assert len(file.read()) == 3_000_000
        check_expanded(10**9, 10**8, path)  # ten times is what text does

    def test_of_documents(self, tmp_path, monkeypatch):
        (tmp_path / "x.json").write_text(json.dumps("x" * 100))
        monkeypatch.setenv("UNFLIP_MAX_DOCUMENT", "50")
        with pytest.raises(ValueError, match="has 102 bytes; the limit is 50"):
            read_json(tmp_path / "x.json")

    def test_of_depth(self, tmp_path):
        (tmp_path / "deep.json").write_text("[" * 100_000)
        with pytest.raises(ValueError, match="nested too deeply"):
            read_json(tmp_path / "deep.json")


def test_an_array_is_as_long_as_its_header_says(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(10.0))
    assert read_npy(tmp_path / "x.npy").tolist() == list(range(10))
    os.truncate(tmp_path / "x.npy", 150)
    with pytest.raises(ValueError, match="size"):
        read_npy(tmp_path / "x.npy")


def test_a_file_that_changes_is_noticed(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"0123456789")
    size = _input.file_size(path)

    def read(change, size=None):
        with opened(path, size) as file:
            file.read(1)
            change()

    with pytest.raises(ValueError, match="changed while it was read: it had 10 bytes and now has 5"):
        read(lambda: os.truncate(path, 5))
    with pytest.raises(ValueError, match="changed while it was read: it had 10 bytes and now has 5"):
        read(lambda: None, size)
