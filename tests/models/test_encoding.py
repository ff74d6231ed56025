"""What a model file may hold, and that parts which do not fit together are refused."""

import json

import numpy as np
import pytest

import unflip
from tests.models.conftest import T, deep, edit
from unflip import registry
from unflip.core import ClassSums
from unflip.linear import (
    MCLDCEClassifier,
)
from unflip.models import encoding, load


def test_what_cannot_be_saved(iris, tmp_path):
    X, y = iris
    dates = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]")
    model = MCLDCEClassifier(T).fit(X, y)
    model.classes_ = dates
    with pytest.raises(ValueError, match="classes_ cannot be saved without code.*array of datetime64"):
        model.save(tmp_path / "m")
    with pytest.raises(ValueError, match="not fitted"):
        MCLDCEClassifier(T).save(tmp_path / "m")
    torch = pytest.importorskip("torch", reason="unflip[deep] is not installed")
    own = torch.nn.Linear(4, 3)
    with pytest.raises(ValueError, match="only the named networks"):
        deep(network=own).fit(X, y).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_missing_and_edited_parts_are_refused(saved, tmp_path):
    edit(saved, attributes={"dict": {"coef_": {"array": "nowhere"}}})
    with pytest.raises(ValueError, match="damaged or was edited"):
        load(saved)
    edit(saved, attributes={"dict": {"coef_": {"python": "print(1)"}}})
    with pytest.raises(ValueError, match="unknown entry 'python'"):
        load(saved)
    (saved / "weights.safetensors").unlink()
    with pytest.raises(ValueError, match="missing"):
        load(saved)
    with pytest.raises(FileNotFoundError, match="no model.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("coef_", np.zeros((3, 5)), r"coef_ has shape \(3, 5\); 3 classes and 4 features need \(3, 4\)"),
        ("coef_", np.zeros(4), "coef_ of MCLDCEClassifier must be an array of numbers with 2 dimensions"),
        ("coef_", np.full((3, 4), np.nan), "as the probabilities of 3 classes"),
        ("intercept_", np.zeros(2), "intercept_ has shape"),
        ("transition_", 2 * T, "row 0 of transition sums to 2"),
        ("transition_", np.full((3, 3), 1 / 3), "singular"),
        ("transition_", np.eye(2), "2 x 2 but there are 3 classes"),
        ("class_prior_", np.full(3, 0.5), "prior must be probabilities"),
        ("classes_", np.array([0, 2, 1]), "classes must be sorted"),
        ("classes_", np.array([0, 1]), "2 classes"),
        ("n_features_in_", 5, "5 features"),
        ("n_features_in_", 0, "0 features"),
        ("n_features_in_", "4", "n_features_in_ of MCLDCEClassifier must be a whole number; got a string"),
        ("n_features_in_", True, "n_features_in_ of MCLDCEClassifier must be a whole number; got a truth value"),
        ("n_features_in_", 10**15, "features"),
        ("alpha_", "x", "alpha_ of MCLDCEClassifier must be a number; got a string"),
        ("predict", 1, "no fitted attribute 'predict'"),
        ("_scores", 1, "no fitted attribute '_scores'"),
        ("foo_", 1, "no fitted attribute 'foo_'"),
        ("sums_", ClassSums.of(np.zeros((3, 2)), [0, 1, 2], 3), "the sums have shapes"),
        ("alpha", "x", "parameter alpha of MCLDCEClassifier must be a number or None; got 'x'"),
        ("alpha", -1.0, "alpha must be a number >= 0; got -1"),
        ("fit_intercept", "yes", "parameter fit_intercept of MCLDCEClassifier must be a truth value; got 'yes'"),
        ("operator", "evil", "parameter operator of MCLDCEClassifier must be 'exact' or 'published'; got 'evil'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(iris, tmp_path, monkeypatch, name, value, match):
    X, y = iris
    model = MCLDCEClassifier(T).fit(X, y)
    vars(model)[name] = value
    with pytest.raises(ValueError, match=f"cannot be saved because load would refuse it.*({match})"):
        model.save(tmp_path / "m")
    unchecked(monkeypatch, model, tmp_path / "m")
    with pytest.raises(ValueError, match=f"damaged or was edited.*({match})"):
        load(tmp_path / "m")


def unchecked(monkeypatch, model, folder):
    """Save a model that save refuses, as somebody would who knows the format."""
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "_check_fitted_state", lambda self: None)
        for check in ("_check_parameters", "_check_attributes"):
            patch.setattr(encoding, check, lambda *_: None)
        return model.save(folder)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda m: m.methods_[0].networks[0][-1].weight.fill_(float("nan")), "'networks.0.4.weight' contain NaN"),
        (lambda m: m.methods_[0].networks[0][1].bias.mul_(float("inf")), "'networks.0.1.bias' contain NaN or infinity"),
        (lambda m: m.mean_.fill(np.nan), "mean_ and scale_ must be finite"),
        (lambda m: m.scale_.fill(0), "scale_ must be positive"),
        (lambda m: vars(m).update(scale_=np.ones(3, np.float32)), "the scale of the features"),
        (lambda m: vars(m).update(input_shape_=(-2, -2)), "shape of one sample|-2 x -2 features"),
        (lambda m: m.set_params(batch_size=0), "batch_size must be a whole number"),
        (lambda m: m.set_params(device=5), "parameter device of NoisyLabelClassifier must be a string"),
        (lambda m: m.set_params(device="abacus"), "abacus"),
    ],
)
def test_a_network_of_no_use_is_refused(iris, tmp_path, monkeypatch, spoil, match):
    X, y = iris
    model = deep().fit(X, y)
    for tensor in model.methods_[0].parameters():
        tensor.requires_grad_(False)
    spoil(model)
    with pytest.raises((ValueError, RuntimeError), match=match):
        model.save(tmp_path / "m")
    unchecked(monkeypatch, model, tmp_path / "m")
    with pytest.raises(ValueError, match=f"damaged or was edited.*({match})"):
        load(tmp_path / "m")


def test_parameters_that_the_class_has_not_are_refused(saved):
    parameters = json.loads((saved / "model.json").read_text())["parameters"]
    parameters["dict"]["evil"] = 1
    edit(saved, parameters=parameters)
    with pytest.raises(ValueError, match="damaged or was edited.*'evil'"):
        load(saved)


def test_numbers_of_numpy_are_numbers(iris, tmp_path):
    X, y = iris
    model = MCLDCEClassifier(T, alpha=np.float32(2), fit_intercept=np.bool_(True)).fit(X, y)
    assert load(model.save(tmp_path / "m")).alpha == 2


def test_what_people_look_for_is_readable(saved):
    document = json.loads((saved / "model.json").read_text())
    attributes = document["attributes"]["dict"]
    assert attributes["classes_"]["values"] == [0, 1, 2]
    assert attributes["transition_"]["values"] == T.tolist()
    assert document["versions"]["unflip"] == unflip.__version__
    assert {"python", "numpy", "sklearn"} <= document["versions"].keys()


@pytest.mark.parametrize(
    "attributes",
    [
        None,
        {},
        [],
        5,
        {"dict": {}},
        {"dict": []},
        {"list": [1]},
        {"dict": {"classes_": {"values": ["a", "b"], "dtype": "O"}}},
        {"dict": {"classes_": {"strings": [1, 2], "dtype": "str"}}},
        {"dict": {"classes_": {"model": {"class": "Popen", "parameters": {"dict": {}}, "attributes": None}}}},
        {"dict": {"classes_": {"model": {"class": "VolMin"}}}},
        {"dict": {"classes_": {"values": [0, 1]}}},
        {"dict": {"classes_": {"values": [0, 1], "dtype": "int64", "more": 1}}},
        {"dict": {}, "more": 1},
    ],
    ids=str,
)
def test_nonsense_is_refused(saved, attributes):
    edit(saved, attributes=attributes)
    with pytest.raises(ValueError, match="damaged or was edited"):
        load(saved)


def test_every_named_class_exists():
    for name in registry.saved_classes():
        if name != "NoisyLabelClassifier":
            assert hasattr(registry.find_class(name).load(), "save")
