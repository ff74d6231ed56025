"""Models that version 0.1.0 saved still load and predict the same."""

import json
from pathlib import Path

import numpy as np
import pytest

import unflip
from unflip.models import card

SAVED = Path(__file__).with_name("version-0.1.0")
EXPECTED = json.loads((SAVED / "expected.json").read_text())
CLASSIFIERS = sorted(set(EXPECTED) - {"X", "frame", "Preprocessor"})


def test_every_saved_model_is_tested():
    assert {path.name for path in SAVED.iterdir() if path.is_dir()} == {*CLASSIFIERS, "Preprocessor"}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_predicts_as_it_did(name):
    if name == "NoisyLabelClassifier":
        pytest.importorskip("torch")
    model = unflip.load(SAVED / name)
    X = np.array(EXPECTED["X"]) if name != "TableClassifier" else _frame()
    np.testing.assert_allclose(model.predict_proba(X), EXPECTED[name]["proba"], atol=2e-6)
    assert model.predict(X).tolist() == EXPECTED[name]["predict"]
    assert name in card(SAVED / name)


def test_preprocessor():
    loaded = unflip.load(SAVED / "Preprocessor")
    np.testing.assert_allclose(loaded.transform(_frame()), EXPECTED["Preprocessor"]["transform"], atol=2e-6)


def _frame():
    return pytest.importorskip("pandas").DataFrame(EXPECTED["frame"])
