"""How the labels are flipped."""

import json

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")
from tests.cli.conftest import invoke
from unflip.noise import corrupt, pairflip


def test_transition_is_taken_back_by_the_others(folder, tmp_path, quick):
    done = invoke("transition", folder / "people.csv", "--label", "kind", "--json")
    (tmp_path / "T.json").write_text(done.stdout)
    options = ("--label", "kind", "--transition", tmp_path / "T.json", "--json")
    fitted = invoke("fit", folder / "people.csv", "--out", tmp_path / "model", *options)
    assert json.loads(fitted.stdout)["transition"] == json.loads(done.stdout)["transition"]


def test_transition_as_a_table_and_a_picture(folder, tmp_path, quick):
    pytest.importorskip("matplotlib")
    done = invoke("transition", folder / "people.csv", "--label", "kind", "--out", tmp_path / "T")
    assert done.exit_code == 0, done.output
    assert "T = P(given label | clean label)" in done.stdout
    assert "Note: The classes overlap" in done.stdout
    names = {item.name for item in (tmp_path / "T").iterdir()}
    assert names == {"transition.json", "transition.csv", "transition.svg", "transition.png"}


def test_transition_of_many_classes_fits_the_terminal(tmp_path):
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(15), 12)
    X = random.normal(size=(180, 15)) + 5 * np.eye(15)[y]
    np.savez(tmp_path / "many.npz", X=X, y=corrupt(y, pairflip(15, 0.2), random_state=0))
    done = invoke("transition", tmp_path / "many.npz", "--network", "linear")
    assert done.exit_code == 0, done.output
    assert "The most frequent flips" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_another_estimator_by_its_name(folder, tmp_path, quick):
    data = (folder / "people.csv", "--label", "kind")
    done = invoke("transition", *data, "--method", "anchor", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["transition"]
    fitted = invoke(
        "fit", *data, "--transition", "anchor", "--test", folder / "people.csv", "--out", tmp_path / "m", "--json"
    )
    assert fitted.exit_code == 0, fitted.output
    np.testing.assert_array_equal(json.loads(fitted.stdout)["transition"], found)
    assert json.loads(invoke("transition", *data, "--json").stdout)["transition"] != found
    assert "unknown method 'dual'; choose one of volmin" in invoke("transition", *data, "--method", "dual").stderr
    refused = invoke("fit", *data, "--transition", "anchor", "--out-of-core", "--out", tmp_path / "blocks")
    assert refused.exit_code == 2
    assert "auto or a file" in refused.stderr
