"""Every input and every output of every command: what is not a regular file is refused in one sentence, at once."""

import stat
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from tests.bench.conftest import TINY
from tests.hostile.conftest import folder, invoke  # noqa: F401
from tests.test_input import posix, strange_files

pytestmark = [posix, pytest.mark.timeout(120)]
FIT = ("--label", "kind", "--model", "mcldce")
LINES = ("fit", "fit-blocks", "test", "predict", "audit", "audit-blocks", "transition", "consensus", "apply-to")


def command(what, path, place, out):
    """Return a command line whose input, or output, is a path."""
    data, model = place / "people.csv", place / "model"
    suspects = place / "suspects.csv"
    suspects.write_text("name,given,suggested\n0,cat,[red]dog\n")
    (place / "tiny.toml").write_text(TINY)
    return {
        "fit": ("fit", path, *FIT, "--out", out),
        "fit-blocks": ("fit", path, *FIT, "--out-of-core", "--out", out),
        "test": ("fit", data, "--test", path, *FIT, "--out", out),
        "transition-file": ("fit", data, *FIT, "--transition", path, "--out", out),
        "predict": ("predict", model, path, "--out", f"{out}.csv"),
        "model": ("predict", path, data, "--out", f"{out}.csv"),
        "audit": ("audit", path, *FIT, "--out", out),
        "audit-blocks": ("audit", path, "--label", "kind", "--out-of-core", "--out", out),
        "probabilities": ("audit", data, "--label", "kind", "--probabilities", path, "--out", out),
        "judge": ("audit", data, "--label", "kind", "--judge", path, "--out", out),
        "transition": ("transition", path, "--label", "kind", "--method", "anchor", "--json"),
        "consensus": ("consensus", path, "--label-columns", "kind,town", "--out", out),
        "apply": ("apply", path, "--to", data, "--out", f"{out}.csv"),
        "apply-to": ("apply", suspects, "--to", path, "--label", "kind", "--out", f"{out}{''.join(path.suffixes)}"),
        "card": ("card", path),
        "export": ("export", path, "--onnx", f"{out}.onnx"),
        "run": ("bench", "run", path),
        "status": ("bench", "status", path),
        "report": ("bench", "report", path),
        "store": ("bench", "report", place / "tiny.toml", "--store", path, "--out", out),
        "card-out": ("card", model, "--out", path),
        "predict-out": ("predict", model, data, "--out", path),
        "export-out": ("export", model, "--onnx", path),
        "apply-out": ("apply", suspects, "--to", data, "--out", path),
        "log-out": ("apply", suspects, "--to", data, "--out", f"{out}.csv", "--log", path),
        "missing-out": ("fit", data, *FIT, "--out", out, "--predict-missing", path),
        "fit-out": ("fit", data, *FIT, "--out", path),
        "page-out": ("fit", data, *FIT, "--out", out, "--page", path),
        "audit-out": ("audit", data, *FIT, "--out", path),
        "transition-out": ("transition", data, "--label", "kind", "--method", "anchor", "--out", path),
        "consensus-out": ("consensus", data, "--label-columns", "kind,town", "--out", path),
    }[what]


INPUTS = [
    *((what, f"x{suffix}") for what in LINES for suffix in (".csv", ".parquet")),
    *(("probabilities", f"p{suffix}") for suffix in (".csv", ".npy", ".npz")),
    *(("transition-file", f"T{suffix}") for suffix in (".json", ".csv", ".npy")),
    *(("apply", f"c{suffix}") for suffix in (".csv", ".json")),
    *((what, "m") for what in ("model", "judge", "card", "export")),
    *((what, "e.toml") for what in ("run", "status", "report")),
    ("store", "s"),
]


def check_refused(done, path, said):
    assert done.exit_code in (1, 2), (path, said, done.output)
    assert "Traceback" not in done.stderr
    assert "To see where" not in done.stderr, done.stderr  # an error that is not ours
    assert path.name in done.stderr, done.stderr


@pytest.mark.parametrize(("what", "name"), INPUTS)
def test_strange_inputs(folder, tmp_path, what, name):  # noqa: F811
    place = tmp_path / "in"
    place.mkdir()
    for path, said in strange_files(place, name):
        if said == "a folder" and what == "store":
            continue  # of records that are yet to be made
        check_refused(invoke(*command(what, path, folder, tmp_path / "out")), path, said)
    assert [found.name for found in tmp_path.iterdir()] == ["in"]


OUTPUTS = {
    "card-out": "o.md",
    "predict-out": "o.csv",
    "apply-out": "o.csv",
    "log-out": "o.csv",
    "export-out": "o.onnx",
    "missing-out": "o.csv",
    "fit-out": "o",
    "page-out": "o",
    "audit-out": "o",
    "transition-out": "o",
    "consensus-out": "o",
}


@pytest.mark.parametrize(("what", "name"), OUTPUTS.items())
def test_strange_outputs(folder, tmp_path, what, name):  # noqa: F811
    """No file takes the place of a device, a pipe or a socket, nor of what a link leads to."""
    place = tmp_path / "out"
    place.mkdir()
    for path, said in strange_files(place, name):
        if said in ("a named pipe", "a device", "a socket"):
            before = path.lstat()
            done = invoke(*command(what, path, folder, tmp_path / "other"))
            assert done.exit_code == 1, (said, done.output)
            assert "To see where" not in done.stderr, done.stderr
            assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
            assert [found.name for found in place.iterdir()] == [name]
    assert stat.S_ISCHR(Path("/dev/zero").stat().st_mode)
    assert not (tmp_path / "other").exists()
    assert np.all([found.name == "out" for found in tmp_path.iterdir()])
