"""The demo: its tables, its page, and what they show."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from unflip.cli import app
from unflip.commands.demo import run_demo


@pytest.fixture(scope="module")
def result():
    return run_demo()


def test_demo_prints_its_tables_and_writes_its_page(tmp_path):
    pytest.importorskip("jinja2")
    done = subprocess.run(
        [sys.executable, "-m", "unflip.cli", "demo"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("digits: ")  # a plain line, for it is no terminal
    assert done.stderr.count("\n") == 1
    for words in ("ridge on clean labels", "published operator", "exact operator", "T error", "estimate [95 %]"):
        assert words in done.stdout
    for words in ("P(given label | clean label)", "noise rate", "Audit: ", "Page: demo-report"):
        assert words in done.stdout
    page = (tmp_path / "demo-report" / "index.html").read_text(encoding="utf-8")
    assert "Digits with 40% pair noise" in page
    assert "iVBORw0KGgo" in page  # thumbnails: the beginning of each PNG in base64
    assert [item.name for item in tmp_path.iterdir()] == ["demo-report"]


def test_demo_leaves_the_files_of_others_alone(tmp_path):
    (tmp_path / "index.html").write_text("mine")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "choose another folder" in done.stderr
    assert (tmp_path / "index.html").read_text() == "mine"


def test_demo_finds_the_wrong_labels(result):
    assert result.noise_rate > 0.38
    assert result.precision > 0.9
    assert result.recall > 0.9
    assert result.noise_rate_left < 0.05
    assert result.images.shape == (result.n_train, 1, 8, 8)
    assert result.images.max() == 1


def test_demo_shows_what_the_correction_is_worth(result):
    rows = {row.classifier: row for row in result.rows}
    assert rows["MC-LDCE, exact operator"].accuracy > rows["ridge"].accuracy + 0.08
    assert rows["MC-LDCE, exact, CV"].accuracy > rows["ridge"].accuracy + 0.1
    assert rows["MC-LDCE, exact operator"].transition_error < 0.3
    assert rows["MC-LDCE, exact, true T"].transition_error == 0
    assert rows["ridge"].transition_error is None
    exact = rows["MC-LDCE, exact operator"]
    assert exact.estimate.low < exact.accuracy < exact.estimate.high
