"""A catalogue whose files are on a local server."""

import hashlib
from dataclasses import replace

import pytest

from tests.datasets.layouts import write_mnist
from tests.datasets.server import serve
from unflip.datasets import Download
from unflip.datasets.registry import CATALOGUE


@pytest.fixture
def site(tmp_path, monkeypatch):
    """MNIST, small, on a local server; the catalogue's entry has its addresses and checksums."""
    pytest.importorskip("pooch", reason="unflip[data] is not installed")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "source"
    write_mnist(folder)
    with serve({path.name: path.read_bytes() for path in folder.iterdir()}) as site:
        point(monkeypatch, site, "mnist")
        yield site


def point(monkeypatch, site, name):
    """Let the downloads of an entry come from the local server, with the checksums of what is there now."""
    entry = CATALOGUE[name]
    files = [download.path.split("/")[-1] for download in entry.downloads]
    downloads = tuple(
        Download(site.url + file, f"md5:{hashlib.md5(site.files[file]).hexdigest()}", f"{name}/{file}")
        for file in files
    )
    monkeypatch.setitem(CATALOGUE, name, replace(entry, downloads=downloads))
