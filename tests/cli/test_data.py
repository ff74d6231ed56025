"""``unflip data list`` and ``unflip data fetch``."""

import gzip
import json

import pytest
from typer.testing import CliRunner

from tests.datasets.layouts import write_mnist
from unflip.cli.data import app
from unflip.datasets import catalogue, download


def run(*arguments, **environment):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)


def test_list_shows_every_set(tmp_path):
    write_mnist(tmp_path / "mnist")
    done = run("list", "--data-dir", tmp_path, COLUMNS="120")
    assert done.exit_code == 0
    rows = {line.split()[0]: line for line in done.output.splitlines() if line.strip()}
    assert set(rows) >= {entry.name for entry in catalogue()}
    assert rows["fashion-mnist"].split()[1:4] == ["60,000", "10,000", "1x28x28"]
    assert rows["mnist"].split() == ["mnist", "12", "5", "1x28x28", "CC", "BY-SA", "3.0", "subset"]  # what is there
    assert "mnist: subset: 12 of 60,000 training rows, 5 of 10,000 test rows\n" in done.output
    assert "yes" in rows["digits"]
    assert "no, fetch" in rows["cifar10"]
    assert "no, by hand" in rows["animal10n"]
    assert f"Data directory: {tmp_path}\n" in done.output


def test_list_fits_a_narrow_terminal(tmp_path):
    done = run("list", "--data-dir", tmp_path, COLUMNS="80")
    *lines, directory = done.output.splitlines()
    assert directory == f"Data directory: {tmp_path}"
    assert all(len(line) <= 80 for line in lines)
    for entry in catalogue():  # each on one line, nothing cut off
        assert [entry.licence in line for line in lines if line.split()[:1] == [entry.name]] == [True]


def test_list_says_what_cannot_be_used(tmp_path, forbid):
    write_mnist(tmp_path / "mnist")
    write_mnist(tmp_path / "fashion-mnist", "")
    (tmp_path / "svhn" / "train_32x32.mat").mkdir(parents=True)
    (tmp_path / "svhn" / "test_32x32.mat").mkdir()
    (tmp_path / "fashion-mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"")
    forbid("train-labels-idx1-ubyte.gz")
    done = run("list", "--data-dir", tmp_path, COLUMNS="80")
    assert done.exit_code == 0
    for name, fault in (
        ("mnist", "not allowed to read"),
        ("fashion-mnist", "is truncated"),
        ("svhn", "is a folder"),
    ):
        (row,) = (line for line in done.output.splitlines() if line.split()[:1] == [name])
        assert row.split()[-1] == "unusable"
        assert len([line for line in done.output.splitlines() if line.startswith(f"{name}: ") and fault in line]) == 1
    rows = {row["name"]: row for row in json.loads(run("list", "--json", "--data-dir", tmp_path).output)["datasets"]}
    assert "is a folder" in rows["svhn"]["fault"]
    assert rows["svhn"]["rows_on_disk"] is None


def test_list_as_json(tmp_path):
    write_mnist(tmp_path / "mnist", "")
    done = run("list", "--json", UNFLIP_DATA=str(tmp_path))
    document = json.loads(done.output)
    assert document["data_directory"] == str(tmp_path)
    rows = {row["name"]: row for row in document["datasets"]}
    assert list(rows) == [entry.name for entry in catalogue()]
    assert rows["mnist"]["on_disk"] is True
    assert rows["mnist"]["how_to_get"] == ""
    assert rows["mnist"]["n_train"] == 60000  # of the official release
    assert rows["mnist"]["rows_on_disk"] == [12, 5]
    assert rows["mnist"]["note"] == "subset: 12 of 60,000 training rows, 5 of 10,000 test rows"
    assert rows["mnist"]["fault"] == ""
    assert rows["cifar10"]["rows_on_disk"] is None
    assert rows["mnist"]["paths"][0] == str(tmp_path / "mnist" / "train-images-idx3-ubyte")
    assert rows["cifar10"]["on_disk"] is False
    assert "unflip data fetch cifar10" in rows["cifar10"]["how_to_get"]
    assert rows["svhn"]["shape"] == [3, 32, 32]
    assert rows["svhn"]["n_train"] == 73257


def test_fetch_writes_plain_lines_where_it_is_piped(site, tmp_path):
    data = tmp_path / "data"
    done = run("fetch", "mnist", "--data-dir", data)
    assert done.exit_code == 0, done.output
    for name, content in site.files.items():
        assert f"downloading {name} ({len(content):,} bytes)\n" in done.stderr
        assert f"{data / 'mnist' / name} ({len(content):,} bytes)\n" in done.stdout
    assert len(done.stdout.splitlines()) == len(done.stderr.splitlines()) == 4
    assert "\x1b" not in done.output
    done = run("fetch", "mnist", "--data-dir", data)
    assert done.exit_code == 0
    assert done.stdout == f"mnist is already on disk (data directory {data}); nothing was downloaded\n"


def test_fetch_for_a_program(site, tmp_path):
    done = run("fetch", "mnist", "--data-dir", tmp_path / "data", "--json", "--quiet")
    assert done.stderr == ""
    written = {item["path"]: item["bytes"] for item in json.loads(done.stdout)["written"]}
    assert written == {str(tmp_path / "data" / "mnist" / name): len(content) for name, content in site.files.items()}


def test_fetch_shows_a_bar_on_a_terminal(site, tmp_path):
    done = run("fetch", "mnist", "--data-dir", tmp_path / "data", FORCE_COLOR="1", COLUMNS="100")
    assert done.exit_code == 0, done.output
    assert "━" in done.stderr
    assert "train-images-idx3-ubyte.gz" in done.stderr
    assert "downloading" not in done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonsense", "unknown data set 'nonsense'; choose one of digits"),
        ("animal10n", "Animal-10N has no official direct download. Animal-10N is available on request"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(tmp_path, name, message):
    done = run("fetch", name, "--data-dir", tmp_path)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"unflip: {message}")
    assert done.stderr.count("\n") == 1


def test_a_broken_download_is_one_line_and_exit_code_1(site, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "CHUNK", 1000)
    site.cut_after = 3000
    done = run("fetch", "mnist", "--data-dir", tmp_path / "data")
    assert done.exit_code == 1
    assert done.stdout == ""
    *begun, error = done.stderr.splitlines()
    assert len(begun) == 1
    assert error.startswith("unflip: http://127.0.0.1")
    assert "(the connection ended after 3,000 of " in error
    assert "3,000 bytes are kept" in error


def test_a_damaged_file_is_one_line_and_force_replaces_it(site, tmp_path):
    name = "t10k-labels-idx1-ubyte.gz"
    write_mnist(tmp_path / "mnist")
    path = tmp_path / "mnist" / name
    path.write_bytes(b"damaged")
    done = run("fetch", "mnist", "--data-dir", tmp_path)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"unflip: MNIST is on disk but cannot be read (no official checksum: {name}): ")
    assert "`unflip data fetch mnist --force`" in done.stderr
    assert done.stderr.count("\n") == 1
    done = run("fetch", "mnist", "--force", "--data-dir", tmp_path)
    assert done.exit_code == 0
    assert done.stdout == f"{path} ({len(site.files[name]):,} bytes)\n"

    path.write_bytes(gzip.compress(gzip.decompress(site.files[name]), 0))
    done = run("fetch", "mnist", "--data-dir", tmp_path)
    assert done.exit_code == 0
    first, second = done.stdout.splitlines()
    assert first.endswith("nothing was downloaded")
    assert second.startswith(f"{name}: readable, but without the official checksum")
    assert "`unflip data fetch mnist --force`" in second


def test_what_may_not_be_read_and_a_folder_are_one_line_and_exit_code_1(site, tmp_path, forbid):
    write_mnist(tmp_path / "mnist")
    forbid("train-labels-idx1-ubyte.gz")
    done = run("fetch", "mnist", "--data-dir", tmp_path)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "not allowed to read" in done.stderr
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").unlink()
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").mkdir()
    done = run("fetch", "mnist", "--force", "--data-dir", tmp_path)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "train-images-idx3-ubyte.gz is a folder, but a file is expected there" in done.stderr
