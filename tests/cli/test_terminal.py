"""What a person sees on the terminal: errors in one sentence, progress, and names as text."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from unflip.cli.terminal import _paths, one_sentence, quietable, seconds, steps

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

import pandas as pd

from tests.cli.conftest import invoke


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no column 'a'"), "unflip: no column 'a'\n"),
        (MemoryError(), "unflip: MemoryError\n"),
        (RuntimeError("two\nlines."), "unflip: RuntimeError: two lines. To see where, set UNFLIP_TRACEBACK=1\n"),
        (AssertionError(), "unflip: AssertionError. To see where, set UNFLIP_TRACEBACK=1\n"),
        (
            FloatingPointError("overflow"),
            "unflip: FloatingPointError: overflow. To see where, set UNFLIP_TRACEBACK=1\n",
        ),
        (KeyError("x"), "unflip: KeyError: 'x'. To see where, set UNFLIP_TRACEBACK=1\n"),
    ],
    ids=repr,
)
def test_an_error_is_one_sentence(error, line, capsys, monkeypatch):
    monkeypatch.delenv("UNFLIP_TRACEBACK", raising=False)
    with pytest.raises(typer.Exit) as stopped, one_sentence():
        raise error
    assert stopped.value.exit_code == 1
    assert capsys.readouterr().err == line
    monkeypatch.setenv("UNFLIP_TRACEBACK", "1")
    with pytest.raises(type(error)) as shown, one_sentence():
        raise error
    assert shown.value is error


@pytest.mark.parametrize("error", [typer.Exit(3), typer.Abort(), typer.BadParameter("too big")], ids=repr)
def test_what_is_for_typer_passes(error, capsys):
    with pytest.raises(type(error)) as passed, one_sentence():
        raise error
    assert passed.value is error
    assert capsys.readouterr().err == ""


def quiet_app():
    """Commands as the program has them: one that writes a file, and one that prints."""
    app = typer.Typer()

    def write(out: str, as_json: bool = False) -> None:
        with steps() as tell:
            tell("working")
        typer.echo("{}" if as_json else f"wrote {out}")
        if out == "nowhere":
            typer.echo("it failed", err=True)
            raise typer.Exit(1)

    def card(out: str | None = None) -> None:
        typer.echo("the result")

    for command in (write, card):
        app.command()(quietable(command))
    return app


@pytest.mark.parametrize(
    ("arguments", "out", "err"),
    [
        (["write", "f"], "wrote f\n", "working\n"),
        (["write", "f", "--quiet"], "", ""),
        (["write", "f", "-q", "--as-json"], "{}\n", ""),
        (["write", "-q", "--", "-"], "wrote -\n", ""),  # standard output is the result
        (["write", "nowhere", "-q"], "", "it failed\n"),
        (["card", "-q"], "the result\n", ""),
        (["card", "-q", "--out", "f"], "", ""),
    ],
)
def test_quiet(arguments, out, err):
    done = CliRunner().invoke(quiet_app(), arguments)
    assert (done.stdout, done.stderr) == (out, err)
    assert done.exit_code == ("nowhere" in arguments)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="the system does not tell when a process started")
def test_the_time_is_that_of_the_whole_command():
    code = """
import sys, time
time.sleep(1)  # as if Python took long to start
sys.argv[0] = "bin/unflip"
import typer
from unflip.cli.terminal import quietable, seconds
app = typer.Typer()
app.command()(quietable(lambda: print(seconds())))
app([])
"""
    before = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert 1 < float(done.stdout) < time.monotonic() - before + 0.1, done.stderr


def test_the_time_of_a_command_in_another_program():
    app = typer.Typer()
    app.command()(quietable(lambda: print(seconds())))
    assert float(CliRunner().invoke(app, []).stdout) < 1


def test_a_class_cannot_write_to_the_terminal(tmp_path):
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    frame = pd.DataFrame(random.normal(size=(80, 2)) + 4 * y[:, None], columns=["a", "b"])
    frame["kind"] = np.array(["\x1b[31mred", "[bold]"])[y]
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = invoke("transition", tmp_path / "t.csv", "--label", "kind", "--network", "linear")
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stdout
    assert "?[31mred" in done.stdout
    assert "[bold]" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_a_terminal_shows_a_spinner_and_no_lines_of_steps(folder, tmp_path):
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "unflip.cli", "transition", folder / "people.csv", "--label", "kind"]
    command += ["--method", "anchor"]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux: the other end is closed
                break
            if not piece:
                break
            shown += piece
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    assert b"estimating T from 300 rows" in shown
    assert b"\x1b[?25l" in shown  # the cursor is hidden while it turns,
    assert b"\x1b[?25h" in shown  # and comes back
    assert b"\x1b" not in out


def test_the_name_of_an_estimator_is_no_path():
    assert _paths({"transition": "auto", "out": Path("auto")}) == ([Path("auto")], [])
    assert _paths({"transition": "T.csv"}) == ([], [Path("T.csv")])
