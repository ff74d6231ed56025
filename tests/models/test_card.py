"""The model card: it tells what the model holds, and shows strange names as they are."""

import json

import numpy as np
import pytest
from markdown_it import MarkdownIt
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

from tests import light_models
from unflip import CorrectedClassifier
from unflip.commands import fit_table
from unflip.linear import LNSIClassifier, MCLDCEClassifier, RankPruningClassifier, ULEClassifier
from unflip.models import card, load
from unflip.noise import corrupt, pairflip, symmetric
from unflip.tables import Preprocessor, Table
from unflip.tables.classifier import TableClassifier

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")

STRANGE = ["<script>alert(1)</script>", "a|b\n# c", "*[x](http://e.org)* `y` \\ _z_ $q$ &amp; ~~s~~"]
T = pairflip(3, 0.25)


def samples():
    X, y = make_blobs(90, centers=3, random_state=0)
    return X, corrupt(y, T, random_state=0)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    X, y = samples()
    frame = pd.DataFrame({"height": X[:, 0], "<b>width|": X[:, 1], "town": ["Ulm", "Bonn"] * 45, "year": 2020})
    model = TableClassifier(MCLDCEClassifier(T, alpha=2.0)).fit(frame, np.array(STRANGE)[y])
    model.metrics_["clean_accuracy"] = {"estimate": 0.9, "low": 0.87, "high": 0.9345, "rows": 30}
    model.metrics_["baseline"] = {"estimate": 0.7, "low": 0.6, "high": 0.8}
    model.metrics_["held-out rows"] = 30
    model.metadata_.update({"data": "<i>my_file</i>.csv", "rows": 90, "date": "2024-05-01"})
    return card(model.save(tmp_path_factory.mktemp("models") / "my_model"))


def test_tells_what_the_model_holds(text):
    for said in (
        "# my\\_model\n",
        "A classifier of 3 classes",
        "| rows | 90 |",
        "| date | 2024-05-01 |",
        "| height | number, standardized |",
        "| town | category, 2 values |",
        "| year | it has the same value in every row |",
        "The noise was given. About 25.0 % of the labels are wrong",
        "| 0.750 | 0.250 | 0.000 |",
        "| estimated accuracy on clean labels | 0.900 (0.870 to 0.934), rows 30 |",
        "| the same learner without correction | 0.700 (0.600 to 0.800) |",
        "| held-out rows | 30 |",
        "| method | MCLDCEClassifier |",
        "| alpha | 2 |",
        "| unflip |",
        "| numpy |",
        "## Limits",
    ):
        assert said in text


def test_strange_names_are_shown_as_they_are(text):
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    inline = [child for token in tokens if token.type == "inline" for child in token.children]
    assert {child.type for child in inline} <= {"text", "text_special", "softbreak"}
    assert {token.type for token in tokens if "html" in token.type or "code" in token.type} == set()
    cells = {"".join(c.content for c in token.children) for token in tokens if token.type == "inline"}
    assert {"<script>alert(1)</script>", "a|b # c", STRANGE[2], "<b>width|", "<i>my_file</i>.csv"} <= cells
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1"] + ["h2"] * 5


def test_noise_of_other_methods(tmp_path):
    X, y = samples()
    counted = card(RankPruningClassifier(random_state=0).fit(X, y).save(tmp_path / "counted"))
    assert "share with another label" in counted
    assert "It was not measured." in counted
    assert "arrays of 2 numbers" in counted
    assert "does not estimate" in card(LNSIClassifier().fit(X, y).save(tmp_path / "none"))


@pytest.mark.parametrize("method", ["gce", "lnsi", "rank-pruning"])
def test_noise_that_the_method_itself_does_not_need(tmp_path, method, monkeypatch):
    X, y = samples()
    if method == "gce":
        pytest.importorskip("torch", reason="unflip[deep] is not installed")
        light_models.use(monkeypatch)  # any T will do
    network = {"network": "mlp", "epochs": 2} if method == "gce" else {}
    table = Table(X, y.astype(str), None, np.arange(90), None, ("0", "1", "2"))
    for given in (None, T) if method == "lnsi" else (None,):  # a network that is given T has it
        fitted = fit_table(table, method=method, transition=given, random_state=0, **network)
        back = load(fitted.model.save(tmp_path / "m"))
        np.testing.assert_array_equal(back.transition_, fitted.noise.transition)
        np.testing.assert_array_equal(back.class_prior_, fitted.noise.class_prior)
        noise = json.loads((tmp_path / "m" / "model.json").read_text())["attributes"]["dict"]["noise_"]["dict"]
        assert noise["transition"]["values"] == fitted.noise.transition.tolist()  # where people look for it
        assert noise["class_prior"]["values"] == fitted.noise.class_prior.tolist()
        text = card(tmp_path / "m")
        assert "does not estimate" not in text
        assert f"The noise was {'estimated from the labels themselves' if given is None else 'given'}. It is us" in text
        assert "the method does not use it" in text
        assert f"About {100 * fitted.noise.noise_rate:.1f} % of the labels are wrong" in text
        assert "| " + " | ".join(f"{p:.3f}" for p in fitted.noise.transition[0]) + " |" in text
        assert ("The method's own estimate" in text) == (method == "rank-pruning")


def test_no_rates_are_spoken_of_where_none_stand(tmp_path):
    X, y = samples()
    model = TableClassifier(LNSIClassifier()).fit(X, y)
    model.metrics_["clean_accuracy"] = {"estimate": 0.9, "low": 0.87, "high": 0.93}
    text = card(model.save(tmp_path / "m"))
    assert "but not an error in the noise rates." in text
    assert "rates above" not in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"estimate": "high", "low": "x", "high": None}, "estimate high, low x, high None"),
        ({"estimate": [0.5], "low": {}, "high": True}, "estimate 0.5, low , high True"),
        ("good", "good"),
        (None, "None"),
        ([], ""),
    ],
    ids=str,
)
def test_odd_metrics_are_shown_as_they_are(tmp_path, value, shown):
    X, y = samples()
    model = TableClassifier(MCLDCEClassifier(T)).fit(X, y)
    model.metrics_ = {"clean_accuracy": value, "other": 1}
    assert f"| estimated accuracy on clean labels | {shown} |" in card(model.save(tmp_path / "m"))


def test_a_large_matrix_is_left_out(tmp_path):
    X, y = make_blobs(210, centers=21, random_state=0)
    text = card(TableClassifier(MCLDCEClassifier(symmetric(21, 0.2))).fit(X, y).save(tmp_path / "m"))
    assert "P(given label" not in text
    assert text.count("| 20.0 % |") == 21
    assert "arrays of 2 numbers, 2 of which are used" in text


def test_only_a_classifier_has_a_card(tmp_path):
    with pytest.raises(ValueError, match="holds a Preprocessor, not a classifier"):
        card(Preprocessor().fit(samples()[0]).save(tmp_path / "p"))
    with pytest.raises(FileNotFoundError, match="no model.json"):
        card(tmp_path)


CLEAN, BIASED, NOISY = (
    "are those of clean labels",
    "serve to choose a class",
    "are roughly those of the labels as given",
)


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("forward", {}, CLEAN),
        ("mcldce", {"operator": "exact"}, CLEAN),
        ("mcldce", {"operator": "published"}, BIASED),
        ("discounted-forward", {}, BIASED),
        ("jocor", {}, BIASED),
        ("ce", {}, NOISY),
    ],
)
def test_says_what_the_probabilities_of_networks_are(tmp_path, method, options, said):
    deep = pytest.importorskip("unflip.deep", reason="PyTorch is not installed")
    X, y = samples()
    model = deep.NoisyLabelClassifier(method, transition=T, method_options=options, epochs=1, random_state=0)
    text = card(model.fit(X.astype(np.float32), y).save(tmp_path / "model"))
    assert f"robabilities {said}" in text
    assert f"| weight\\_decay | {model.weight_decay_:.6g} |" in text  # the one that was chosen


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (MCLDCEClassifier(T), CLEAN),
        (MCLDCEClassifier(T, operator="published"), BIASED),
        (ULEClassifier(T), BIASED),
        (RankPruningClassifier(), BIASED),
        (LNSIClassifier(), NOISY),
        (CorrectedClassifier(LogisticRegression(), transition=T), CLEAN),
    ],
    ids=str,
)
def test_says_what_probabilities_are(tmp_path, model, said):
    X, y = samples()
    for number, one in enumerate((model, TableClassifier(model))):
        assert f"robabilities {said}" in card(one.fit(X, y).save(tmp_path / str(number)))


def test_a_model_that_T_did_not_reach_says_so(tmp_path):
    X, y = np.arange(6.0)[:, np.newaxis], np.array([0, 0, 0, 1, 1, 1])  # too few rows to hold any out
    model = CorrectedClassifier(LogisticRegression(), transition=pairflip(2, 0.2)).fit(X, y)
    assert not model.corrected_
    assert f"robabilities {NOISY}" in card(model.save(tmp_path / "model"))


def test_a_T_that_was_learned_was_not_given(tmp_path):
    deep = pytest.importorskip("unflip.deep", reason="PyTorch is not installed")
    X, y = samples()
    model = deep.NoisyLabelClassifier("volminnet", transition=T, epochs=1, random_state=0)
    assert "The noise was estimated" in card(model.fit(X.astype(np.float32), y).save(tmp_path / "model"))
