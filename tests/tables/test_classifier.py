"""Tables as they come: fit, predict by column name, and every classifier back from its file to the bit."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from unflip import registry
from unflip.corrected import CorrectedClassifier
from unflip.linear import (
    CEGEClassifier,
    FilterClassifier,
    ForwardLogisticClassifier,
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
from unflip.models.folder import checksum
from unflip.noise import corrupt, pairflip
from unflip.tables.classifier import TableClassifier
from unflip.transition import AnchorPoints, VolMin

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")

T = pairflip(3, 0.2)
NAMES = np.array(["ash", "beech", "cedar"])
UNFITTED = {"model": {"class": "MCLDCEClassifier", "parameters": {"dict": {}}, "attributes": None}}


@pytest.fixture(scope="module")
def trees():
    """A frame with numbers, categories, gaps and a column of no use; noisy and clean labels."""
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["soil"] = np.where(X[:, 0] > 6, "clay", np.where(X[:, 1] > 3, "sand", None))
    frame.loc[::10, "a"] = np.nan
    frame["note"] = [f"note {i}" for i in range(len(y))]
    return frame, NAMES[corrupt(y, T, random_state=0)], NAMES[y]


def deep(**options):
    pytest.importorskip("torch", reason="unflip[deep] is not installed")
    from unflip.deep import NoisyLabelClassifier

    return NoisyLabelClassifier(transition=T, epochs=1, random_state=0, **options)


MODELS = {
    "MCLDCEClassifier": lambda: MCLDCEClassifier(T),
    "T from an estimator": lambda: MCLDCEClassifier(AnchorPoints()),
    "MCLDCEClassifierCV": lambda: MCLDCEClassifierCV(T, alphas=[1.0, 10.0], random_state=0),
    "ForwardLogisticClassifier": lambda: ForwardLogisticClassifier(transition=T),
    "ULEClassifier": lambda: ULEClassifier(T),
    "MuSGDClassifier": lambda: MuSGDClassifier(T, random_state=0),
    "RankPruningClassifier": lambda: RankPruningClassifier(random_state=0),
    "FilterClassifier": lambda: FilterClassifier(random_state=0),
    "LNSIClassifier": LNSIClassifier,
    "SCDClassifier": lambda: SCDClassifier(random_state=0),
    "LICSClassifier": lambda: LICSClassifier(T),
    "CEGEClassifier": lambda: CEGEClassifier(T),
    "VolMin": VolMin,
    "CorrectedClassifier": lambda: CorrectedClassifier(
        ExtraTreesClassifier(5, random_state=0), transition=T, cv=3, random_state=0
    ),
    "NoisyLabelClassifier": deep,
    "two networks": lambda: deep(method="jocor"),
    "VolMinNet": lambda: deep(method="volminnet"),
}


def test_every_savable_classifier_is_tried():
    classifiers = {entry.cls for entry in registry.ENTRIES if entry.saved and entry.family not in ("table", "arrays")}
    assert classifiers <= set(MODELS)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_round_trip_is_exact(make, trees, tmp_path):
    frame, noisy, _ = trees
    model = TableClassifier(make()).fit(frame, noisy)
    model.metrics_["clean_accuracy"] = {"estimate": np.float64(0.9), "low": 0.8, "high": 1.0}
    model.metadata_.update(data="trees.csv", rows=len(frame))
    back = load(model.save(tmp_path / "m"))
    others = (CorrectedClassifier, FilterClassifier)  # their models are saved in another form
    error = 1e-12 if isinstance(model.classifier_, others) else 0
    np.testing.assert_allclose(back.predict_proba(frame), model.predict_proba(frame), rtol=0, atol=error)
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    assert type(back.classifier_) is type(model.classifier_)
    assert type(back.classifier) is type(model.classifier)
    assert back.unused_ == model.unused_ == {"note": "every value is different: names or codes"}
    assert back.metrics_ == {"clean_accuracy": {"estimate": 0.9, "low": 0.8, "high": 1.0}}
    assert back.metadata_ == {"data": "trees.csv", "rows": 150}
    if hasattr(model, "transition_"):
        np.testing.assert_array_equal(back.transition_, model.transition_)
    assert {path.name for path in (tmp_path / "m").iterdir()} == {"model.json", "weights.safetensors"}


def test_learns_through_noise_and_gaps(trees):
    frame, noisy, clean = trees
    model = TableClassifier(MCLDCEClassifierCV()).fit(frame, noisy)
    assert model.score(frame, clean) > 0.8  # squared loss hides the class in the middle; logistic loss does not
    assert TableClassifier(VolMin()).fit(frame, noisy).score(frame, clean) > 0.9
    assert model.classes_.tolist() == NAMES.tolist()
    assert model.transition_.shape == (3, 3)
    assert model.class_prior_.sum() == pytest.approx(1)
    assert model.n_features_in_ == 6


def test_is_the_classifier_on_the_matrix(trees):
    frame, noisy, _ = trees
    model = TableClassifier(MCLDCEClassifier(T), max_categories=1).fit(frame, noisy)
    matrix = model.preprocessor_.transform(frame)
    assert matrix.shape == (150, 5)
    np.testing.assert_array_equal(
        model.predict_proba(frame), MCLDCEClassifier(T).fit(matrix, noisy).predict_proba(matrix)
    )
    assert not hasattr(model.classifier, "classes_")


def test_columns_are_known_by_name(trees):
    frame, noisy, _ = trees
    model = TableClassifier(MCLDCEClassifier(T)).fit(frame, noisy)
    np.testing.assert_array_equal(model.predict(frame[["soil", *"dcba"]]), model.predict(frame))
    with pytest.raises(ValueError, match="no column 'a'"):
        model.predict(frame.drop(columns="a"))


def test_arrays_and_images(trees, tmp_path):
    X, y = load_iris(return_X_y=True)
    flat = TableClassifier(MCLDCEClassifier(T)).fit(X, y)
    back = load(flat.save(tmp_path / "flat"))
    np.testing.assert_array_equal(back.predict_proba(X), flat.predict_proba(X))
    images = np.tile(X.astype(np.float32)[:, np.newaxis, np.newaxis] / 8, (1, 1, 4, 1))  # (150, 1, 4, 4)
    model = TableClassifier(deep(standardize=False)).fit(images, y)
    back = load(model.save(tmp_path / "images"))
    assert back.preprocessor_ is None
    assert back.unused_ == {}
    assert "arrays of 1 x 4 x 4 numbers" in card(tmp_path / "images")
    np.testing.assert_array_equal(back.predict_proba(images), model.predict_proba(images))


@pytest.mark.parametrize("labels", [np.array([True, False]), np.array([3, 7]), np.array(["ä|<b>", "b"], dtype=object)])
def test_kinds_of_labels_come_back(labels, trees, tmp_path):
    frame, noisy, _ = trees
    y = labels[(noisy == "ash").astype(int)]
    model = TableClassifier(MCLDCEClassifier(np.eye(2))).fit(frame, y)
    predicted = load(model.save(tmp_path / "m")).predict(frame)
    assert predicted.dtype == y.dtype
    np.testing.assert_array_equal(predicted, model.predict(frame))


def test_weights(trees):
    frame, noisy, _ = trees
    weights = np.arange(150) % 2
    a = TableClassifier(MCLDCEClassifier(T)).fit(frame, noisy, sample_weight=weights)
    kept = a.preprocessor_.transform(frame)[weights > 0]
    b = MCLDCEClassifier(T).fit(kept, noisy[weights > 0])
    np.testing.assert_allclose(a.classifier_.coef_, b.coef_, atol=1e-10)
    with pytest.raises(ValueError, match="LNSIClassifier does not take sample weights"):
        TableClassifier(LNSIClassifier()).fit(frame, noisy, sample_weight=weights)


def test_a_network_keeps_what_it_is_worth_after_each_epoch(trees):
    deep = pytest.importorskip("unflip.deep", exc_type=ImportError)
    frame, noisy, _ = trees
    network = deep.NoisyLabelClassifier("ce", "mlp", epochs=2, progress=False, random_state=0)
    model = TableClassifier(network).fit(frame, noisy, evaluate=(frame[:40], noisy[:40]))
    last = model.classifier_.history_[-1]["accuracy"]
    assert last == pytest.approx(np.mean(model.predict(frame[:40]) == noisy[:40]))


def test_mistakes(trees, tmp_path):
    frame, noisy, _ = trees
    with pytest.raises(ValueError, match="CorrectedClassifier is not trained in epochs"):
        TableClassifier().fit(frame, noisy, evaluate=(frame, noisy))
    with pytest.raises(ValueError, match="150 samples but y has 149 labels"):
        TableClassifier().fit(frame, noisy[1:])
    with pytest.raises(ValueError, match="with predict_proba; got 5"):
        TableClassifier(5).fit(frame, noisy)
    with pytest.raises(ValueError, match="not fitted"):
        TableClassifier().save(tmp_path / "m")
    model = TableClassifier(LogisticRegression(max_iter=1000)).fit(frame, noisy)
    with pytest.raises(ValueError, match="LogisticRegression cannot be saved without code; .* are MCLDCE"):
        model.save(tmp_path / "m")
    model = TableClassifier(MCLDCEClassifier(T)).fit(frame, noisy)
    model.metadata_["when"] = object()
    with pytest.raises(ValueError, match="when cannot be saved without code"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


class TestEdited:
    @pytest.fixture
    def saved(self, trees, tmp_path):
        frame, noisy, _ = trees
        return TableClassifier(MCLDCEClassifier(T)).fit(frame, noisy).save(tmp_path / "m")

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            (lambda a: part(a, "preprocessor_")["categories_"]["dict"]["soil"]["list"].insert(0, "peat"), "8 features"),
            (
                lambda a: part(a, "preprocessor_")["categories_"]["dict"]["soil"]["list"].pop(),
                "6 features.*fitted to 7",
            ),
            (lambda a: part(a, "preprocessor_")["numbers_"]["list"].pop(), "must be 3 finite numbers"),
            (lambda a: part(a, "classifier_")["transition_"]["values"][0].__setitem__(0, 0.5), "row 0 .* sums to 0.7"),
            (lambda a: part(a, "classifier_")["transition_"]["values"].pop(), "square"),
            (lambda a: part(a, "classifier_")["class_prior_"]["values"].pop(), "prior"),
            (lambda a: part(a, "classifier_")["classes_"]["strings"].pop(), "2 classes"),
            (lambda a: a["classifier_"]["model"].update(attributes=None), "not fitted"),
            (lambda a: a["classifier_"]["model"].update({"class": "Preprocessor"}), "damaged"),
            (lambda a: a.update(classifier_=a["preprocessor_"], preprocessor_=None), "must be a fitted classifier"),
            (lambda a: a.update(preprocessor_=UNFITTED), "must be a Preprocessor"),
            (lambda a: a.update(preprocessor_=a["classifier_"]), "is missing or used twice"),
            (lambda a: a.update(preprocessor_=None), "preprocessor_ is missing"),
            (lambda a: part(a, "classifier_").update(transition_=None), "transition must be"),
            (lambda a: a.update(metrics_={"list": []}), "metrics_ of TableClassifier must be a dictionary; got a list"),
            (lambda a: a.update(metadata_=None), "metadata_ of TableClassifier must be a dictionary"),
            (lambda a: a.update(noise_={"dict": {"transition": 1}}), "noise_ must have transition, class_prior and"),
            (lambda a: noise(a, [[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5]), "2 x 2 but there are 3 classes"),
            (lambda a: noise(a, np.eye(3).tolist(), [1.0, 1.0, 1.0]), "prior"),
            (lambda a: a["preprocessor_"]["model"]["parameters"]["dict"].update(max_categories="x"), "max_categories"),
            (lambda a: a.update(fit=5), "no fitted attribute 'fit'"),
            (lambda a: a.pop("classifier_"), "damaged"),
        ],
    )
    def test_is_refused(self, saved, change, match):
        document = json.loads((saved / "model.json").read_text())
        change(document["attributes"]["dict"])
        document["checksum"] = checksum(document)
        (saved / "model.json").write_text(json.dumps(document))
        with pytest.raises(ValueError, match=f"damaged or was edited.*{match}" if match != "damaged" else match):
            load(saved)

    def test_a_file_from_before_there_was_a_place_for_noise(self, saved, trees):
        document = json.loads((saved / "model.json").read_text())
        del document["attributes"]["dict"]["noise_"]
        document["checksum"] = checksum(document)
        (saved / "model.json").write_text(json.dumps(document))
        back = load(saved)
        assert back.noise_ == {}
        np.testing.assert_array_equal(back.transition_, T)
        assert "The noise was given" in card(saved)

    def test_what_people_look_for_is_readable(self, saved):
        classifier = part(json.loads((saved / "model.json").read_text())["attributes"]["dict"], "classifier_")
        assert classifier["classes_"]["strings"] == NAMES.tolist()
        assert classifier["transition_"]["values"] == T.tolist()


def part(attributes, name):
    return attributes[name]["model"]["attributes"]["dict"]


def noise(attributes, transition, prior):
    values = {"transition": transition, "class_prior": prior}
    found = {name: {"values": value, "dtype": "float64"} for name, value in values.items()}
    attributes["noise_"] = {"dict": {**found, "given": False}}


def test_rows_without_a_label_are_left_out():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    X[y == 1] += 3
    labels = np.where(np.arange(60) < 50, y.astype(float), np.nan)
    with pytest.warns(UserWarning, match="10 of 60 rows have no label"):
        model = TableClassifier(VolMin()).fit(X, labels, np.ones(60))
    expected = TableClassifier(VolMin()).fit(X[:50], y[:50])
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X))
    assert model.classes_.tolist() == [0, 1]
