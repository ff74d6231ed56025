"""The demo: its tables and its page."""

import contextlib
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from unflip.cli import app
from unflip.commands import demo


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    """What the command prints, where it ran, and what it found."""
    pytest.importorskip("jinja2")
    folder, found, run = tmp_path_factory.mktemp("demo"), [], demo.run_demo
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(demo, "run_demo", lambda rate, seed: found.append(run(rate, seed)) or found[0])
        done = CliRunner().invoke(app, ["demo"])
    return done, folder, found[0]


def test_demo_prints_its_tables_and_writes_its_page(demonstration):
    done, folder, _ = demonstration
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("digits: ")  # a plain line, for it is no terminal
    assert done.stderr.count("\n") == 1
    for words in ("ridge on clean labels", "published operator", "exact operator", "T error", "estimate [95 %]"):
        assert words in done.stdout
    for words in ("P(given label | clean label)", "noise rate", "Audit: ", "Page: demo-report"):
        assert words in done.stdout
    page = (folder / "demo-report" / "index.html").read_text(encoding="utf-8")
    assert "Digits with 40% pair noise" in page
    assert "iVBORw0KGgo" in page  # thumbnails: the beginning of each PNG in base64
    assert [item.name for item in folder.iterdir()] == ["demo-report"]


def test_demo_leaves_the_files_of_others_alone(tmp_path):
    (tmp_path / "index.html").write_text("mine")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "choose another folder" in done.stderr
    assert (tmp_path / "index.html").read_text() == "mine"


def test_demo_as_json(demonstration, tmp_path, monkeypatch):
    *_, result = demonstration
    monkeypatch.setattr(demo, "run_demo", lambda rate, seed: result)
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "page"), "--json", "--quiet"])
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["n_train"] == result.n_train
    assert np.array_equal(told["transition"], result.transition)
    assert [row["accuracy"] for row in told["classifiers"]] == [row.accuracy for row in result.rows]
    assert told["audit"]["precision"] == result.precision
