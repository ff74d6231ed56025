"""Data, a network, a saved model and a way to edit it."""

import json

import pytest
from sklearn.datasets import load_iris

from unflip.linear import MCLDCEClassifier
from unflip.models.folder import checksum
from unflip.noise import corrupt, pairflip

T = pairflip(3, 0.2)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, corrupt(y, T, random_state=0)


def deep(**options):
    pytest.importorskip("torch", reason="unflip[deep] is not installed")
    from unflip.deep import NoisyLabelClassifier

    return NoisyLabelClassifier(transition=T, epochs=3, random_state=0, **options)


@pytest.fixture
def saved(iris, tmp_path):
    X, y = iris
    return MCLDCEClassifier(T, alpha=1.0).fit(X, y).save(tmp_path / "m")


def edit(folder, **changes):
    """Edit a model as somebody would who knows the format, checksum included."""
    document = json.loads((folder / "model.json").read_text())
    document.update(changes)
    document["checksum"] = checksum(document)
    (folder / "model.json").write_text(json.dumps(document))
