"""The commands for a person's own data: real files, real processes for what only they show."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

import pandas as pd

from unflip import load
from unflip.cli import app
from unflip.noise import corrupt, pairflip

NAMES = np.array(["<script>", "cat", "[red]dog"])
T = pairflip(3, 0.3)


def invoke(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def start(*arguments, **options):
    command = [sys.executable, "-m", "unflip.cli", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    return subprocess.Popen(command, **pipes, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """300 rows with noisy labels, a saved model of them, and T as a file."""
    place = tmp_path_factory.mktemp("people")
    random = np.random.default_rng(0)
    y = random.integers(3, size=300)
    frame = pd.DataFrame(random.normal(size=(300, 3)) + 4 * np.eye(3)[y], columns=["age", "height", "pay"])
    frame["town"] = np.where(y == 1, "Ulm", "Bonn")
    frame["id"] = range(300)
    frame["count"] = random.integers(1, 4, size=300)
    frame["kind"] = NAMES[corrupt(y, T, random_state=0)]
    frame.to_csv(place / "people.csv", index=False)
    frame.to_parquet(place / "people.parquet")
    frame[200:].drop(columns=["town", "kind"]).to_csv(place / "without.csv", index=False)
    np.save(place / "T.npy", T)
    np.save(place / "two.npy", np.eye(2))
    done = invoke("fit", place / "people.csv", "--label", "kind", "--out", place / "model")
    assert done.exit_code == 0, done.output
    (place / "fit.txt").write_text(done.stdout, encoding="utf-8")
    return place


def test_fit_prints_what_was_found(folder):
    text = (folder / "fit.txt").read_text(encoding="utf-8")
    for words in (
        "<script>",
        "[red]dog",
        "noise rate",
        "labels are wrong",
        "mcldce, linear",
        "ridge without correction",
    ):
        assert words in text
    assert "Column not used: id: it numbers the rows" in text
    assert re.search(r"estimated from \d+ noisy ones", text)
    assert re.search(r"mcldce, linear +\d+\.\d% \[\d+\.\d, \d+\.\d\]", text)


def test_fit_as_json(folder, tmp_path):
    done = invoke(
        *("fit", folder / "people.parquet", "--label", "kind", "--out", tmp_path / "model", "--json"),
        *("--method", "ule", "--transition", folder / "T.npy", "--weights", "count", "--drop", "town", "--drop", "id"),
        *("--test", folder / "people.csv", "--seed", 3),
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["classes"] == sorted(NAMES)
    assert found["transition"] == T.tolist()
    assert (found["n_train"], found["n_test"], found["unused"]) == (300, 300, {})
    assert found["baseline"]["low"] <= found["baseline"]["estimate"] <= found["baseline"]["high"]
    model = load(tmp_path / "model")
    assert model.preprocessor_.numbers_ == ["age", "height", "pay"]
    assert not model.preprocessor_.categories_
    assert model.metadata_["data"] == "people.parquet"


def test_fit_takes_the_place_of_an_earlier_model(folder, tmp_path):
    for seed in (0, 1):
        options = ("--label", "kind", "--out", tmp_path / "model", "--seed", seed)
        assert invoke("fit", folder / "people.csv", *options).exit_code == 0
    assert [item.name for item in tmp_path.iterdir()] == ["model"]
    assert load(tmp_path / "model").classifier.random_state == 1


def test_predict(folder, tmp_path):
    done = invoke("predict", folder / "model", folder / "people.csv", "--out", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output
    frame = pd.read_csv(tmp_path / "p.csv")
    assert len(frame) == 300
    assert list(frame.columns)[2:] == [f"probability_{name}" for name in sorted(NAMES)]
    assert np.allclose(frame.iloc[:, 2:].sum(axis=1), 1)
    told = invoke("predict", folder / "model", folder / "people.parquet", "--out", tmp_path / "p.parquet", "--json")
    assert json.loads(told.stdout)["predicted"] == frame["prediction"].value_counts().to_dict()
    assert pd.read_parquet(tmp_path / "p.parquet")["prediction"].tolist() == frame["prediction"].tolist()


def test_audit(folder, tmp_path):
    done = invoke("audit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "audit", "--folds", 3)
    assert done.exit_code == 0, done.output
    for words in ("suspects", "P(wrong)", "should be another", "Column not used: id", "index.html"):
        assert words in done.stdout
    page = (tmp_path / "audit" / "index.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page
    summary = json.loads((tmp_path / "audit" / "summary.json").read_text())
    assert len(pd.read_csv(tmp_path / "audit" / "suspects.csv")) == summary["n_suspects"]
    again = invoke(
        *("audit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "audit", "--folds", 3, "--json")
    )
    assert json.loads(again.stdout)["n_suspects"] == summary["n_suspects"]


def test_transition_is_taken_back_by_the_others(folder, tmp_path):
    done = invoke("transition", folder / "people.csv", "--label", "kind", "--json")
    (tmp_path / "T.json").write_text(done.stdout)
    options = ("--label", "kind", "--transition", tmp_path / "T.json", "--json")
    fitted = invoke("fit", folder / "people.csv", "--out", tmp_path / "model", *options)
    assert json.loads(fitted.stdout)["transition"] == json.loads(done.stdout)["transition"]


def test_transition_as_a_table_and_a_picture(folder, tmp_path):
    pytest.importorskip("matplotlib")
    done = invoke("transition", folder / "people.csv", "--label", "kind", "--out", tmp_path / "T")
    assert done.exit_code == 0, done.output
    assert "T = P(given label | clean label)" in done.stdout
    names = {item.name for item in (tmp_path / "T").iterdir()}
    assert names == {"transition.json", "transition.csv", "transition.svg", "transition.png"}


def test_transition_of_many_classes_fits_the_terminal(tmp_path):
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(15), 12)
    X = random.normal(size=(180, 15)) + 5 * np.eye(15)[y]
    np.savez(tmp_path / "many.npz", X=X, y=corrupt(y, pairflip(15, 0.2), random_state=0))
    done = invoke("transition", tmp_path / "many.npz")
    assert done.exit_code == 0, done.output
    assert "The most frequent flips" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_card(folder, tmp_path):
    printed = invoke("card", folder / "model")
    assert "# model" in printed.stdout
    assert r"\<script\>" in printed.stdout
    assert invoke("card", folder / "model", "--out", tmp_path / "card.md").exit_code == 0
    assert (tmp_path / "card.md").read_text(encoding="utf-8") == printed.stdout


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
        (["fit", "people.csv", "--label", "kind", "--epochs", "5"], "epochs are those of a network"),
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


def test_predictions_never_overwrite_the_data(folder):
    before = (folder / "people.csv").read_bytes()
    done = invoke("predict", folder / "model", folder / "people.csv", "--out", folder / "people.csv")
    assert done.exit_code == 1
    assert "is DATA itself" in done.stderr
    assert (folder / "people.csv").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "people.csv", "--label", "kind"],
        ["fit", "people.csv", "--label", "kind", "--out", "m", "--network", "resnet"],
        ["fit", "people.csv", "--label", "kind", "--out", "m", "--image-size", "big"],
        ["audit", "people.csv", "--label", "kind", "--out", "m", "--folds", "1"],
        ["transition", "people.csv", "--lable", "kind"],
        ["predict", "model"],
    ],
)
def test_wrong_usage_is_exit_code_2(folder, monkeypatch, arguments):
    monkeypatch.chdir(folder)
    assert invoke(*arguments).exit_code == 2


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "audit", "transition", "card"])
def test_help_has_an_example(command):
    text = invoke(command, "--help").stdout
    text = " ".join(text.replace("│", " ").split())
    assert f"Example: unflip {command}" in text
    if command in ("fit", "audit", "transition"):
        assert "T = P(given label | clean label)" in text  # what is in brackets would be taken for markup


def test_a_process_writes_results_to_stdout_and_steps_to_stderr(folder, tmp_path):
    process = start("fit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "model", "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["model"] == str(tmp_path / "model")
    assert err.splitlines()[0].startswith("reading ")
    assert "\x1b" not in err  # nothing of a terminal where it is piped


def test_a_class_cannot_write_to_the_terminal(tmp_path):
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    frame = pd.DataFrame(random.normal(size=(80, 2)) + 4 * y[:, None], columns=["a", "b"])
    frame["kind"] = np.array(["\x1b[31mred", "[bold]"])[y]
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = invoke("transition", tmp_path / "t.csv", "--label", "kind")
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stdout
    assert "?[31mred" in done.stdout
    assert "[bold]" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_leaves_nothing(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(6000, 40)).round(3), columns=[f"x{i}" for i in range(40)])
    frame["kind"] = random.integers(12, size=6000)
    frame.to_csv(tmp_path / "t.csv", index=False)
    # A shell that runs the tests in the background has them ignore SIGINT, which children inherit.
    process = start(
        *("fit", tmp_path / "t.csv", "--label", "kind", "--out", tmp_path / "model"),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("fitting mcldce"):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert err == "unflip: stopped; nothing was written\n"
    assert out == ""
    assert [item.name for item in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("old", [False, True])
def test_ctrl_c_while_the_model_is_saved_leaves_what_was_there(folder, tmp_path, monkeypatch, old):
    import safetensors.numpy

    if old:
        shutil.copytree(folder / "model", tmp_path / "model")
    save = safetensors.numpy.save_file

    def interrupted(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.numpy, "save_file", interrupted)
    done = invoke("fit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "model", "--seed", 5)
    assert done.exit_code == 130
    assert [item.name for item in tmp_path.iterdir()] == ["model"] * old
    if old:
        assert load(tmp_path / "model").classifier.random_state == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_a_terminal_shows_a_spinner_and_no_lines_of_steps(folder, tmp_path):
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "unflip.cli", "transition", folder / "people.csv", "--label", "kind"]
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


@pytest.mark.parametrize(
    ("line", "offered", "others"),
    [
        ("unflip au", {"audit"}, {"fit"}),
        ("unflip fit data.csv --method r", {"rank-pruning"}, {"mcldce"}),
        ("unflip fit data.csv --network ", {"linear", "mlp", "cnn6"}, set()),
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


def test_fit_writes_its_page(folder, tmp_path):
    options = ("--label", "kind", "--out", tmp_path / "model", "--page", tmp_path / "page")
    done = invoke("fit", folder / "people.csv", *options)
    assert done.exit_code == 0, done.output
    assert f"Page: {tmp_path / 'page' / 'index.html'}" in done.stdout
    assert "people.csv" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    (tmp_path / "page" / "mine").write_text("mine")
    refused = invoke("fit", folder / "people.csv", *options)
    assert (refused.exit_code, "no earlier result" in refused.stderr) == (1, True)


def test_the_page_has_a_place_of_its_own(folder, tmp_path):
    for page in ("model", "model/page"):
        options = ("--label", "kind", "--out", tmp_path / "model", "--page", tmp_path / page)
        done = invoke("fit", folder / "people.csv", *options)
        assert (done.exit_code, "would lie in the folder of the model" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_audit_with_a_network(folder, tmp_path):
    pytest.importorskip("torch")
    done = invoke(
        *("audit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "audit", "--folds", 2),
        *("--network", "mlp", "--epochs", 2, "--transition", folder / "T.npy", "--json"),
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["transition"] == T.tolist()
    assert (tmp_path / "audit" / "index.html").is_file()
