"""The command line as a person meets it: real processes, real output."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from unflip import __version__
from unflip.cli import app
from unflip.demo import run_demo


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "unflip.cli", *arguments], capture_output=True, text=True, encoding="utf-8", timeout=120
    )


def test_demo_prints_its_table():
    done = run("demo")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for words in ("ridge on clean labels", "published operator", "exact operator", "T error", "estimate [95 %]"):
        assert words in done.stdout


def test_demo_shows_what_the_correction_is_worth():
    rows = {row.classifier: row for row in run_demo().rows}
    assert rows["MC-LDCE, exact operator"].accuracy > rows["ridge"].accuracy + 0.08
    assert rows["MC-LDCE, exact, CV"].accuracy > rows["ridge"].accuracy + 0.1
    assert rows["MC-LDCE, exact operator"].transition_error < 0.3
    assert rows["MC-LDCE, exact, true T"].transition_error == 0
    assert rows["ridge"].transition_error is None
    exact = rows["MC-LDCE, exact operator"]
    assert exact.estimate.low < exact.accuracy < exact.estimate.high


def test_version_and_help():
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output.strip() == f"unflip {__version__}"
    assert "demo" in runner.invoke(app, ["--help"]).output
    assert "Example" in runner.invoke(app, ["demo", "--help"]).output


@pytest.mark.parametrize("arguments", [["demo", "--rate", "2"], ["demo", "--rate", "x"], ["nonsense"]])
def test_wrong_usage_is_exit_code_2(arguments):
    assert CliRunner().invoke(app, arguments).exit_code == 2
