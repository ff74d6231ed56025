"""From a table to a saved model."""

import json
import os
import re
import shutil
import signal

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

import pandas as pd

from tests.cli.conftest import NAMES, T, invoke, start
from unflip import load


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


def test_a_process_writes_results_to_stdout_and_steps_to_stderr(folder, tmp_path):
    process = start("fit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "model", "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["model"] == str(tmp_path / "model")
    assert err.splitlines()[0].startswith("reading ")
    assert "\x1b" not in err  # nothing of a terminal where it is piped


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


def test_fit_writes_its_page(folder, tmp_path):
    options = ("--label", "kind", "--out", tmp_path / "model", "--page", tmp_path / "page")
    done = invoke("fit", folder / "people.csv", *options)
    assert done.exit_code == 0, done.output
    assert f"Page: {tmp_path / 'page' / 'index.html'}" in done.stdout
    assert "people.csv" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    (tmp_path / "page" / "mine").write_text("mine")
    refused = invoke("fit", folder / "people.csv", *options)
    assert (refused.exit_code, "not an earlier result" in refused.stderr) == (1, True)


def test_the_page_has_a_place_of_its_own(folder, tmp_path):
    for page in ("model", "model/page"):
        options = ("--label", "kind", "--out", tmp_path / "model", "--page", tmp_path / page)
        done = invoke("fit", folder / "people.csv", *options)
        assert (done.exit_code, "would be inside the folder of the model" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []
