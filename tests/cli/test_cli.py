"""The command line as a whole: help, mistakes and completion."""

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from unflip import __version__
from unflip.cli import app

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

from tests.cli.conftest import invoke


def test_version_and_help():
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output.strip() == f"unflip {__version__}"
    assert "demo" in runner.invoke(app, ["--help"]).output
    assert "Example" in runner.invoke(app, ["demo", "--help"]).output


@pytest.mark.parametrize("arguments", [["demo", "--rate", "2"], ["demo", "--rate", "x"], ["nonsense"]])
def test_wrong_usage_is_exit_code_2(arguments):
    assert CliRunner().invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "nothing.csv", "--label", "kind"], "nothing.csv does not exist"),
        (["fit", "people.csv"], "people.csv needs --label COLUMN"),
        (["fit", "people.csv", "--label", "knd"], "has no column 'knd'; did you mean 'kind'?"),
        (["fit", "people.csv", "--label", "age"], "looks like a number to predict, not a class"),
        (["fit", "people.csv", "--label", "kind", "--drop", "twon"], "has no column 'twon'; did you mean 'town'?"),
        (["fit", "people.csv", "--label", "kind", "--weights", "town"], "the weight 'town'"),
        (["fit", "people.csv", "--label", "kind", "--method", "magic"], "'magic' is not a method for linear models"),
        (["fit", "people.csv", "--label", "kind", "--transition", "two.npy"], "2 x 2 but there are 3 classes"),
        (["fit", "people.csv", "--label", "kind", "--transition", "people.csv"], "cannot be read as a transition"),
        (["fit", "people.csv", "--label", "kind", "--transition", "none.json"], "none.json"),
        (["fit", "people.csv", "--label", "kind", "--epochs", "5"], "epochs apply to networks"),
        (["fit", "people.csv", "--label", "kind", "--model", "trees", "--method", "ule"], "model trees has no methods"),
        (["fit", "people.csv", "--label", "kind", "--model", "auto", "--network", "mlp"], "exclude each other"),
        (["fit", "people.csv", "--label", "kind", "--method", "lnsi", "--weights", "count"], "LNSIClassifier"),
        (["audit", "people.csv", "--label", "knd"], "has no column 'knd'"),
        (["transition", "people.csv", "--label", "knd"], "has no column 'knd'"),
        (["predict", "people.csv", "people.csv"], "is not a saved model"),
        (["predict", "model", "without.csv"], "no column 'town', which the model needs"),
        (["card", "people.csv"], "is not a saved model"),
    ],
)
def test_a_mistake_is_one_sentence(folder, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    out = [] if arguments[0] == "transition" else ["--out", tmp_path / "out.csv"]
    done = invoke(*arguments, *out)
    assert done.exit_code == 1
    assert words in done.stderr
    assert done.stderr.splitlines()[-1].startswith("unflip: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["fit", "audit", "transition"])
def test_what_others_wrote_stays(folder, tmp_path, command):
    if command == "transition":
        pytest.importorskip("matplotlib")
    (tmp_path / "thesis.tex").write_text("mine")
    done = invoke(command, folder / "people.csv", "--label", "kind", "--out", tmp_path)
    assert done.exit_code == 1
    assert "choose another" in done.stderr
    assert "reading" not in done.stderr  # it is refused before the work
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.tex"]


def commands(group=None, name=""):
    """Every command with the words that call it."""
    group = group or typer.main.get_command(app)
    for word, command in group.commands.items():
        yield from commands(command, f"{name}{word} ") if hasattr(command, "commands") else [(f"{name}{word}", command)]


@pytest.mark.parametrize("command", [*commands()], ids=lambda pair: pair[0])
def test_every_command_has_json_and_quiet(command):
    options = {option for parameter in command[1].params for option in parameter.opts}
    assert {"--json", "--quiet"} <= options


def test_help_says_what_the_exit_codes_mean():
    text = invoke("--help").stdout
    assert all(words in text for words in ("Exit codes: 0 success", "2 wrong usage", "130 stopped"))


def test_quiet_writes_the_same(folder, tmp_path):
    for name, options in {"loud": [], "quiet": ["--quiet"]}.items():
        done = invoke("predict", folder / "model", folder / "people.csv", "--out", tmp_path / f"{name}.csv", *options)
        assert done.exit_code == 0
        assert bool(done.output) == (name == "loud")
    assert (tmp_path / "quiet.csv").read_bytes() == (tmp_path / "loud.csv").read_bytes()
    done = invoke("predict", folder / "model", folder / "without.csv", "--out", tmp_path / "w.csv", "--quiet")
    assert done.exit_code == 1
    assert done.stderr.startswith("unflip: the table has no column 'town'")


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "audit", "transition", "card", "export"])
def test_help_has_an_example(command):
    text = invoke(command, "--help").stdout
    text = " ".join(text.replace("│", " ").split())
    assert f"Example: unflip {command}" in text
    if command in ("fit", "audit", "transition"):
        assert "T = P(given label | clean label)" in text  # what is in brackets would be taken for markup


@pytest.mark.parametrize(
    ("line", "offered", "others"),
    [
        ("unflip au", {"audit"}, {"fit"}),
        ("unflip fit data.csv --method r", {"rank-pruning"}, {"mcldce"}),
        ("unflip fit data.csv --network ", {"linear", "mlp", "cnn6"}, set()),
        ("unflip fit data.csv --model ", {"auto", "trees", "forest", "logistic", "mcldce", "mlp", "cnn6"}, set()),
    ],
)
def test_the_shell_completes(line, offered, others):
    environment = {
        **os.environ,
        "_UNFLIP_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    command = [sys.executable, "-c", "from unflip.cli import app; app(prog_name='unflip')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    found = set(done.stdout.split())
    assert offered <= found, done.stderr
    assert not others & found


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "people.csv", "--label", "kind"],
        ["fit", "people.csv", "--label", "kind", "--out", "m", "--network", "resnet"],
        ["fit", "people.csv", "--label", "kind", "--out", "m", "--model", "oracle"],
        ["fit", "people.csv", "--label", "kind", "--out", "m", "--model", "trees", "--out-of-core"],
        ["fit", "people.csv", "--label", "kind", "--out", "m", "--image-size", "big"],
        ["audit", "people.csv", "--label", "kind", "--out", "m", "--folds", "1"],
        ["transition", "people.csv", "--lable", "kind"],
        ["predict", "model"],
    ],
)
def test_wrong_usage_of_a_command_is_exit_code_2(folder, monkeypatch, arguments):
    monkeypatch.chdir(folder)
    assert invoke(*arguments).exit_code == 2
