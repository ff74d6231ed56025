"""How the labels are flipped."""

import json

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")
from tests.cli.conftest import invoke
from unflip.noise import corrupt, pairflip


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
