"""A catalogue whose files are on a local server."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.datasets.layouts import write_mnist
from tests.datasets.server import serve
from unflip.datasets import Download
from unflip.datasets.catalogue import CATALOGUE


@pytest.fixture
def forbid(monkeypatch):
    """Take from a file, by its name, the right to read it; chmod would not stop a privileged user."""

    def take(name):
        def open_unless_forbidden(path, *arguments, **options):
            if path.name == name:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *arguments, **options)

        monkeypatch.setattr(Path, "open", open_unless_forbidden)

    real = Path.open
    return take


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
        Download(site.url + file, f"sha256:{hashlib.sha256(site.files[file]).hexdigest()}", f"{name}/{file}")
        for file in files
    )
    monkeypatch.setitem(CATALOGUE, name, replace(entry, downloads=downloads))
