"""Model files: every classifier comes back to the bit, and a bad file is refused."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import unflip
from tests.models.conftest import T, deep, edit
from unflip import registry
from unflip.core import ClassSums
from unflip.linear import (
    CEGEClassifier,
    LICSClassifier,
    LNSIClassifier,
    MCLDCEClassifier,
    MCLDCEClassifierCV,
    MuSGDClassifier,
    RankPruningClassifier,
    SCDClassifier,
    ULEClassifier,
)
from unflip.models import card, load
from unflip.models import folder as encoding
from unflip.tables import TableClassifier
from unflip.transition import AnchorPoints, VolMin

MODELS = {
    "MCLDCEClassifier": lambda: MCLDCEClassifier(T),
    "published, estimated T": lambda: MCLDCEClassifier(operator="published", alpha=3.0),
    "T from an estimator": lambda: MCLDCEClassifier(AnchorPoints()),
    "MCLDCEClassifierCV": lambda: MCLDCEClassifierCV(T, alphas=[1.0, 10.0], random_state=0),
    "ULEClassifier": lambda: ULEClassifier(T),
    "MuSGDClassifier": lambda: MuSGDClassifier(T, random_state=0),
    "RankPruningClassifier": lambda: RankPruningClassifier(random_state=0),
    "LNSIClassifier": LNSIClassifier,
    "SCDClassifier": lambda: SCDClassifier(random_state=0),
    "LICSClassifier": lambda: LICSClassifier(T),
    "CEGEClassifier": lambda: CEGEClassifier(T, class_prior=[0.3, 0.3, 0.4]),
    "VolMin": VolMin,
    "NoisyLabelClassifier": deep,
    "two networks": lambda: deep(method="jocor"),
    "VolMinNet": lambda: deep(method="volminnet"),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("names", [None, ["ash", "beech", "cedar"]], ids=["numbers", "strings"])
def test_round_trip_is_exact(make, names, iris, tmp_path):
    X, y = iris
    model = make().fit(X, y if names is None else np.array(names)[y])
    model.save(tmp_path / "model")
    back = unflip.load(tmp_path / "model")
    assert type(back) is type(model)
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    if hasattr(model, "transition_"):
        np.testing.assert_array_equal(back.transition_, model.transition_)
    assert back.classes_.dtype == model.classes_.dtype
    assert {p.name for p in (tmp_path / "model").iterdir()} == {"model.json", "weights.safetensors"}


def test_a_loaded_model_goes_on(iris, tmp_path):
    X, y = iris
    MCLDCEClassifier(T).fit(X[:100], y[:100]).save(tmp_path / "m")
    on = load(tmp_path / "m").partial_fit(X[100:], y[100:])
    np.testing.assert_allclose(on.coef_, MCLDCEClassifier(T).fit(X, y).coef_, atol=1e-10)


def test_saving_again_replaces_a_model_but_nothing_else(iris, tmp_path):
    X, y = iris
    model = MCLDCEClassifier(T).fit(X, y)
    model.save(tmp_path / "m")
    model.set_params(alpha=9.0).fit(X, y).save(tmp_path / "m")
    assert load(tmp_path / "m").alpha == 9.0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for extra in ("thesis.txt", "model.json"):  # others, too, call a file model.json
        (tmp_path / "mine" / extra).write_text('{"years": "of work"}')
        with pytest.raises(FileExistsError, match="nothing else"):
            model.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()
    (tmp_path / "m" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="nothing else"):
        model.save(tmp_path / "m")
    assert (tmp_path / "m" / "notes.txt").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "mine"]  # nothing half-written is left


def test_a_failure_keeps_the_old_model(iris, tmp_path, monkeypatch):
    X, y = iris
    model = MCLDCEClassifier(T, alpha=1.0).fit(X, y)
    model.save(tmp_path / "m")
    rename = Path.rename

    def failing(self, target):
        if ".old" not in str(target) and ".old" not in str(self):
            raise OSError("no space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    monkeypatch.setattr("unflip._output._swap", lambda *_: False)  # as where names cannot be exchanged in one step
    with pytest.raises(OSError, match="no space"):
        model.set_params(alpha=9.0).fit(X, y).save(tmp_path / "m")
    monkeypatch.undo()
    assert load(tmp_path / "m").alpha == 1.0
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_model_that_was_moved_aside_is_found(iris, tmp_path):
    """As by a process that was killed while it replaced a model."""
    MCLDCEClassifier(T, alpha=1.0).fit(*iris).save(tmp_path / "m")
    (tmp_path / "m").rename(tmp_path / ".m.x1.partial.old")
    assert load(tmp_path / "m").alpha == 1.0


@pytest.mark.parametrize("number", [99, True, 1.0, "1", None])
def test_another_format_is_named(saved, number):
    edit(saved, format=number)
    with pytest.raises(ValueError, match=f"format {number!r}.*Upgrade"):
        load(saved)


@pytest.mark.parametrize("name", ["os.system", "Ridge", "ClassSums", "__import__"])
def test_no_class_but_ours_is_built(saved, name):
    edit(saved, **{"class": name})
    with pytest.raises(ValueError, match="not one of MCLDCEClassifier"):
        load(saved)


@pytest.mark.parametrize("part", ["model.json", "weights.safetensors"])
@pytest.mark.parametrize("keep", [0, 0.5, 0.99])
def test_truncated_files_are_refused(saved, part, keep):
    content = (saved / part).read_bytes()
    (saved / part).write_bytes(content[: int(keep * len(content))])
    with pytest.raises(ValueError, match="damaged"):
        load(saved)


def test_arrays_that_nobody_reads_are_refused(saved):
    from safetensors.numpy import load_file, save_file

    path = saved / "weights.safetensors"
    save_file({**load_file(path), "attributes.extra": np.zeros(3)}, path)
    edit(saved, weights_sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match=r"damaged or was edited: the weights hold 'attributes\.extra'"):
        load(saved)


def test_weights_of_another_model_are_refused(iris, saved, tmp_path):
    X, y = iris
    MCLDCEClassifier(T, alpha=5.0).fit(X, y).save(tmp_path / "other")
    (tmp_path / "other" / "weights.safetensors").replace(saved / "weights.safetensors")
    with pytest.raises(ValueError, match="damaged.*its checksum is not the one"):
        load(saved)


def test_any_edit_is_refused(saved):
    content = (saved / "model.json").read_text()
    for was, becomes in [('"alpha": 1.0', '"alpha": 2.0'), ("0.8", "0.9"), ('"numpy"', '"NumPy"')]:
        assert was in content
        (saved / "model.json").write_text(content.replace(was, becomes))
        with pytest.raises(ValueError, match="damaged or was edited: its checksum differs"):
            load(saved)
    (saved / "model.json").write_text(json.dumps(json.loads(content)))  # another layout is the same document
    assert load(saved).alpha == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "5",
        "null",
        '{"format": 1}',
        '{"format": 1, "class": ["x"]}',
        '{"format": 1, "class": "x", "versions": 5}',
        "[" * 100_000,
    ],
)
def test_other_json_is_refused(saved, text):
    (saved / "model.json").write_text(text)
    with pytest.raises(ValueError, match="damaged"):
        load(saved)


def test_what_cannot_be_saved(iris, tmp_path):
    X, y = iris
    dates = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]")
    model = MCLDCEClassifier(T).fit(X, y)
    model.classes_ = dates
    with pytest.raises(ValueError, match="classes_ cannot be saved without code.*array of datetime64"):
        model.save(tmp_path / "m")
    with pytest.raises(ValueError, match="not fitted"):
        MCLDCEClassifier(T).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def own_network(width=8):
    """A network that is not one of the package, as a user would define it."""
    torch = pytest.importorskip("torch", reason="unflip[deep] is not installed")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width)
            self.last = torch.nn.Linear(width, 3)

        def forward(self, x):
            return self.last(self.norm(self.first(x)).relu())

    return Net()


@pytest.mark.parametrize("method", ["mcldce", "jocor"])
def test_a_network_of_the_users_own(iris, tmp_path, method):
    X, y = iris
    model = deep(network=own_network(), method=method).fit(X, y)
    folder = model.save(tmp_path / "m")
    assert {path.name for path in folder.iterdir()} == {"model.json", "weights.safetensors"}
    assert "own_network.<locals>.Net" in (folder / "model.json").read_text()
    for network in (own_network(), own_network):  # a module, or a function that makes one
        loaded = load(folder, network=network)
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(load(loaded.save(tmp_path / "again"), network=own_network).predict(X), model.predict(X))
    assert "own\\_network" in card(folder, network=own_network)


def test_a_network_of_the_users_own_inside_a_table(iris, tmp_path):
    X, y = iris
    model = TableClassifier(deep(network=own_network())).fit(X, y)
    loaded = load(model.save(tmp_path / "m"), network=own_network())
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    loaded.fit(X, y)  # with the network that was given


def test_a_network_that_does_not_fit(iris, saved, tmp_path):
    X, y = iris
    folder = deep(network=own_network()).fit(X, y).save(tmp_path / "own")
    with pytest.raises(ValueError, match=r"the class .*\.Net, whose code is not in the file; pass .*network=Net\("):
        load(folder)
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"Net, but a torch\.nn\.modules\.linear\.Linear was given"):
        load(folder, network=torch.nn.Linear(4, 3))
    with pytest.raises(ValueError, match="(?s)does not fit the network that was given: .*size mismatch"):
        load(folder, network=own_network(width=9))
    with pytest.raises(ValueError, match="needs no network"):
        load(saved, network=own_network())


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
