"""Downloads from a local server: checksums, resuming, cut connections, and archives that mean harm."""

import gzip
import io
import re
import sys
import tarfile
from dataclasses import replace

import pytest

from tests.datasets.conftest import point
from tests.datasets.layouts import cifar10_batches
from unflip.datasets import download, fetch, images, load_dataset
from unflip.datasets.catalogue import CATALOGUE
from unflip.datasets.download import check_secure, unofficial_files

IMAGES = "train-images-idx3-ubyte.gz"
LABELS = "t10k-labels-idx1-ubyte.gz"


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(download, "CHUNK", 1000)


def tree(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_fetch_brings_all_files_and_reports_its_progress(site, data):
    reports = {}
    written = fetch("mnist", data, lambda file, done, total: reports.setdefault(file, []).append((done, total)))
    assert [path.name for path in written] == [item.path.split("/")[-1] for item in CATALOGUE["mnist"].downloads]
    assert {path.name: path.read_bytes() for path in written} == site.files
    assert tree(data) == {f"mnist/{name}" for name in site.files}
    assert len(load_dataset("mnist", data).y_train) == 12
    size = len(site.files[IMAGES])
    assert reports[IMAGES] == [(min(done, size), size) for done in range(1000, size + 1000, 1000)]


def test_a_readable_file_with_another_checksum_is_left_alone_without_force(site, data):
    fetch("mnist", data)
    assert unofficial_files("mnist", data) == []
    path = data / "mnist" / LABELS
    again = gzip.compress(gzip.decompress(site.files[LABELS]), 0)  # as some mirrors hand it out
    path.write_bytes(again)
    site.requests.clear()
    assert fetch("mnist", data) == []
    assert site.requests == []
    assert path.read_bytes() == again
    assert unofficial_files("mnist", data) == [path]
    assert fetch("mnist", data, force=True) == [path]
    assert site.requests == [(LABELS, None)]
    assert path.read_bytes() == site.files[LABELS]


@pytest.mark.parametrize("content", [b"", b"the user's own", b"\x1f\x8b"])
def test_a_damaged_file_is_named_and_replaced_by_force(site, data, content):
    fetch("mnist", data)
    path = data / "mnist" / LABELS
    path.write_bytes(content)
    site.requests.clear()
    with pytest.raises(
        ValueError,
        match=rf"MNIST is on disk but cannot be read \(no official checksum: {LABELS}\): .*"
        "Run `unflip data fetch mnist --force` to download it again",
    ):
        fetch("mnist", data)
    assert site.requests == []
    assert path.read_bytes() == content
    assert fetch("mnist", data, force=True) == [path]
    assert site.requests == [(LABELS, None)]  # what has the right checksum is not downloaded again
    assert tree(data) == {f"mnist/{name}" for name in site.files}
    assert len(load_dataset("mnist", data).y_train) == 12


def test_force_keeps_the_old_file_until_the_new_one_is_whole(site, data):
    fetch("mnist", data)
    path = data / "mnist" / IMAGES
    path.write_bytes(b"damaged")
    site.cut_after = 3000
    with pytest.raises(ConnectionError, match="3,000 bytes are kept"):
        fetch("mnist", data, force=True)
    assert path.read_bytes() == b"damaged"
    site.cut_after = None
    whole = site.files[IMAGES]
    site.files[IMAGES] = whole[:-1] + b"?"
    with pytest.raises(ValueError, match=f"checksum is wrong, and it was not kept .*{IMAGES} is unchanged"):
        fetch("mnist", data, force=True)
    assert path.read_bytes() == b"damaged"
    assert tree(data) == {f"mnist/{name}" for name in site.files}
    site.files[IMAGES] = whole
    assert fetch("mnist", data, force=True) == [path]
    assert path.read_bytes() == whole


def test_a_folder_in_the_place_of_a_file_is_told(site, data):
    (data / "mnist" / LABELS).mkdir(parents=True)
    for force in (False, True):
        with pytest.raises(IsADirectoryError, match=f"{LABELS} is a folder, but a file is expected there"):
            fetch("mnist", data, force=force)


def test_only_what_is_missing_is_fetched(site, data):
    fetch("mnist", data)
    (data / "mnist" / LABELS).unlink()
    site.requests.clear()
    assert fetch("mnist", data) == [data / "mnist" / LABELS]
    assert site.requests == [(LABELS, None)]


def test_a_broken_checksum_leaves_nothing(site, data):
    site.files[IMAGES] = site.files[IMAGES][:-1] + b"?"
    with pytest.raises(ValueError, match=f"{IMAGES} is not the official file: its checksum is wrong"):
        fetch("mnist", data)
    assert tree(data) == set()


@pytest.mark.parametrize("says_length", [True, False])
def test_a_cut_connection_leaves_a_part_that_the_next_attempt_continues(site, data, says_length):
    whole = site.files[IMAGES]
    site.cut_after = 3000
    with pytest.raises(
        ConnectionError, match=f"{IMAGES} could not be downloaded .*3,000 bytes are kept in .*{IMAGES}.part"
    ):
        fetch("mnist", data)
    part = data / "mnist" / f"{IMAGES}.part"
    assert tree(data) == {f"mnist/{IMAGES}.part"}
    assert part.read_bytes() == whole[:3000]

    with pytest.raises(ConnectionError, match="6,000 bytes are kept"):  # cut again: it grows
        fetch("mnist", data)
    assert part.read_bytes() == whole[:6000]

    site.cut_after = None
    site.says_length = says_length
    site.requests.clear()
    seen = []
    fetch("mnist", data, lambda file, done, total: seen.append((file, done, total)))
    assert site.requests[0] == (IMAGES, "bytes=6000-")
    assert seen[0][:2] == (IMAGES, min(7000, len(whole)))
    assert seen[0][2] == len(whole)  # Content-Range says it in any case
    assert (data / "mnist" / IMAGES).read_bytes() == whole
    assert tree(data) == {f"mnist/{name}" for name in site.files}


def test_a_server_without_ranges_starts_over(site, data):
    site.cut_after = 3000
    with pytest.raises(ConnectionError):
        fetch("mnist", data)
    site.cut_after = None
    site.ranges = False
    fetch("mnist", data)
    assert {name: (data / "mnist" / name).read_bytes() for name in site.files} == site.files


@pytest.mark.parametrize("part", [b"x" * 100_000, b"x" * 3000])
def test_a_part_of_another_file_starts_over(site, data, part):
    # longer than the file: the server has no such range; shorter: the checksum finds it
    (data / "mnist").mkdir(parents=True)
    (data / "mnist" / f"{IMAGES}.part").write_bytes(part)
    fetch("mnist", data)
    assert (data / "mnist" / IMAGES).read_bytes() == site.files[IMAGES]
    assert [wanted for name, wanted in site.requests if name == IMAGES] == [f"bytes={len(part)}-", None]
    assert tree(data) == {f"mnist/{name}" for name in site.files}


def test_a_range_that_was_not_asked_for_starts_over(site, data):
    (data / "mnist").mkdir(parents=True)
    (data / "mnist" / f"{IMAGES}.part").write_bytes(site.files[IMAGES][:3000])
    site.wrong_range = True
    fetch("mnist", data)
    assert (data / "mnist" / IMAGES).read_bytes() == site.files[IMAGES]


def test_a_missing_file_and_an_absent_server_are_named_and_leave_nothing(site, data, monkeypatch):
    del site.files[IMAGES]
    with pytest.raises(ConnectionError, match=f"{IMAGES} could not be downloaded .404 .*; try again"):
        fetch("mnist", data)
    assert tree(data) == set()
    entry = CATALOGUE["mnist"]
    nowhere = tuple(replace(item, url="http://127.0.0.1:1/" + IMAGES) for item in entry.downloads)
    monkeypatch.setitem(CATALOGUE, "mnist", replace(entry, downloads=nowhere))
    with pytest.raises(ConnectionError, match="http://127.0.0.1:1/train-images.* could not be downloaded"):
        fetch("mnist", data)
    assert tree(data) == set()


def test_a_part_survives_a_server_that_has_lost_the_file(site, data):
    site.cut_after = 3000
    with pytest.raises(ConnectionError):
        fetch("mnist", data)
    del site.files[IMAGES]
    with pytest.raises(ConnectionError, match="404 .*3,000 bytes are kept"):
        fetch("mnist", data)
    assert tree(data) == {f"mnist/{IMAGES}.part"}


def test_a_server_that_calls_a_gz_file_encoded_does_not_get_it_decompressed(site, data):
    site.headers["Content-Encoding"] = "x-gzip"
    fetch("mnist", data)
    assert {name: (data / "mnist" / name).read_bytes() for name in site.files} == site.files


def test_redirects_are_followed_also_by_the_rest_of_a_part(site, data, monkeypatch):
    entry = CATALOGUE["mnist"]
    moved = tuple(replace(item, url=item.url.replace(site.url, site.url + "moved/")) for item in entry.downloads)
    monkeypatch.setitem(CATALOGUE, "mnist", replace(entry, downloads=moved))
    (data / "mnist").mkdir(parents=True)
    (data / "mnist" / f"{IMAGES}.part").write_bytes(site.files[IMAGES][:3000])
    fetch("mnist", data)
    assert site.requests[:2] == [(f"moved/{IMAGES}", "bytes=3000-"), (IMAGES, "bytes=3000-")]
    assert {name: (data / "mnist" / name).read_bytes() for name in site.files} == site.files


def test_what_has_no_download_says_how_to_get_it(tmp_path):
    with pytest.raises(ValueError, match="Animal-10N has no official direct download. .*available on request"):
        fetch("animal10n", tmp_path)
    with pytest.raises(ValueError, match="no official direct download. .*CIFAR-10_human.pt .*are a pickle"):
        fetch("cifar10n-aggregate", tmp_path)
    with pytest.raises(ValueError, match="cifar10_features.npz has no download: make it"):
        fetch("cifar10-features", tmp_path)
    assert fetch("digits", tmp_path) == []
    with pytest.raises(ValueError, match="unknown data set 'nonsense'; choose one of digits, mnist"):
        fetch("nonsense", tmp_path)
    assert tree(tmp_path) == set()


def test_without_pooch_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ModuleNotFoundError, match=r"downloads need pooch: pip install 'unflip\[data\]'"):
        fetch("mnist", tmp_path)


ARCHIVE = "cifar-10-binary.tar.gz"


def packed(*more, folder="cifar-10-batches-bin", records=2):
    """The bytes of an archive like CIFAR-10's, with further members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        directory = tarfile.TarInfo(folder)
        directory.type = tarfile.DIRTYPE
        directory.mode = 0o755
        tar.addfile(directory)
        for name, batch in cifar10_batches(records).items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = batch.nbytes
            tar.addfile(member, io.BytesIO(batch.tobytes()))
        for member in more:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return buffer.getvalue()


def member(name, kind=tarfile.REGTYPE, link="", size=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


def test_an_archive_is_unpacked_and_removed(site, data, monkeypatch):
    monkeypatch.setattr(images, "RECORDS", 2)
    site.files[ARCHIVE] = packed()
    point(monkeypatch, site, "cifar10")
    written = fetch("cifar10", data)
    names = {f"cifar10/cifar-10-batches-bin/{name}" for name in cifar10_batches(2)}
    assert tree(data) == names
    assert {path.relative_to(data).as_posix() for path in written} == names
    assert len(load_dataset("cifar10", data).y_train) == 10
    assert fetch("cifar10", data) == []

    test_batch = data / "cifar10" / "cifar-10-batches-bin" / "test_batch.bin"
    whole = test_batch.read_bytes()
    test_batch.unlink()  # an incomplete set is completed
    fetch("cifar10", data)
    assert tree(data) == names

    test_batch.write_bytes(whole[:-1])  # a damaged one is named, and replaced by force
    with pytest.raises(ValueError, match="cannot be read: .*test_batch.bin is truncated.*fetch cifar10 --force"):
        fetch("cifar10", data)
    fetch("cifar10", data, force=True)
    assert tree(data) == names
    assert test_batch.read_bytes() == whole


def test_an_old_file_that_would_be_read_before_the_new_one_is_told(site, data, monkeypatch):
    monkeypatch.setattr(images, "RECORDS", 2)
    site.files[ARCHIVE] = packed()
    point(monkeypatch, site, "cifar10")
    (data / "cifar10").mkdir(parents=True)
    (data / "cifar10" / "data_batch_3.bin").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="data_batch_3.bin was downloaded, but .*3.bin takes precedence; remove that"):
        fetch("cifar10", data)
    (data / "cifar10" / "data_batch_3.bin").unlink()
    assert fetch("cifar10", data) == []


@pytest.mark.parametrize(
    ("evil", "fault"),
    [
        (member("../outside.txt", size=5), "a path outside its folder"),
        (member("cifar-10-batches-bin/../../../outside.txt", size=5), "a path outside its folder"),
        (member("/unflip-outside.txt", size=5), "a path outside its folder"),
        (member("C:\\outside.txt", size=5), "a path outside its folder"),
        (member("link", tarfile.SYMTYPE, "../.."), "a link"),
        (member("link", tarfile.LNKTYPE, "cifar-10-batches-bin/test_batch.bin"), "a link"),
        (member("device", tarfile.CHRTYPE), "neither a file nor a folder"),
        (member("pipe", tarfile.FIFOTYPE), "neither a file nor a folder"),
    ],
    ids=lambda value: f"{value.name}-{value.type.decode()}" if isinstance(value, tarfile.TarInfo) else None,
)
def test_an_archive_that_means_harm_is_refused_whole(site, data, tmp_path, monkeypatch, evil, fault):
    site.files[ARCHIVE] = packed(evil)
    point(monkeypatch, site, "cifar10")
    before = tree(tmp_path)
    with pytest.raises(ValueError, match=re.escape(f"{ARCHIVE} contains {evil.name!r}, {fault}; nothing was unpacked")):
        fetch("cifar10", data)
    assert tree(tmp_path) == before
    assert list((data / "cifar10").iterdir()) == []


def test_an_archive_that_is_none_or_lacks_files_is_refused(site, data, monkeypatch):
    for content in (b"<html>not an archive</html>", packed()[:-40]):
        site.files[ARCHIVE] = content
        point(monkeypatch, site, "cifar10")
        with pytest.raises(ValueError, match="the archive was removed"):
            fetch("cifar10", data)
        assert tree(data) == set()
    site.files[ARCHIVE] = packed(folder="elsewhere")
    point(monkeypatch, site, "cifar10")
    with pytest.raises(ValueError, match="CIFAR-10 was downloaded, but some of its files are missing"):
        fetch("cifar10", data)


def test_https_only(site, data):
    for url in ("http://example.org/x", "ftp://example.org/x", "file:///etc/passwd"):
        with pytest.raises(ConnectionError, match="is not https; files are downloaded by https only"):
            check_secure(url)
    check_secure("https://example.org/x")
    check_secure("http://127.0.0.1:1/x")  # nobody is in between
