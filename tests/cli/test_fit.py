"""From a table to a saved model."""

import importlib.util
import json
import os
import re
import shutil
import signal
import sys
import types
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

import pandas as pd

from tests import light_models
from tests.cli.conftest import NAMES, T, invoke, start
from unflip import load, registry


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
        options = ("--label", "kind", "--model", "mcldce", "--out", tmp_path / "model", "--seed", seed)
        assert invoke("fit", folder / "people.csv", *options).exit_code == 0
    assert [item.name for item in tmp_path.iterdir()] == ["model"]
    assert load(tmp_path / "model").classifier.random_state == 1


def test_fit_keeps_a_model_of_other_data(folder, tmp_path):
    pd.read_csv(folder / "people.csv").query("kind != 'cat'").to_csv(tmp_path / "people.csv", index=False)
    out, method = tmp_path / "model", ("--model", "mcldce", "--out", tmp_path / "model")
    assert invoke("fit", folder / "people.csv", "--label", "kind", *method).exit_code == 0
    before = (out / "model.json").read_bytes()
    for data, label, words in [
        (folder / "people.parquet", "kind", "another file of data: people.csv, not people.parquet. Choose"),
        (folder / "people.csv", "town", "another label: kind, not town. Choose"),
        (tmp_path / "people.csv", "kind", "other classes: <script>, [red]dog, cat, not <script>, [red]dog. Choose"),
    ]:
        done = invoke("fit", data, "--label", label, *method)
        assert done.exit_code == 1
        assert words in done.stderr
        assert "--force" in done.stderr
        assert "fitting" not in done.stderr  # it is refused before the work
        assert (out / "model.json").read_bytes() == before
    assert invoke("fit", tmp_path / "people.csv", "--label", "kind", *method, "--force").exit_code == 0
    assert load(out).classes_.tolist() == ["<script>", "[red]dog"]


def test_a_process_writes_results_to_stdout_and_steps_to_stderr(folder, tmp_path):
    options = ("--label", "kind", "--model", "mcldce", "--transition", folder / "T.npy", "--out", tmp_path / "model")
    process = start("fit", folder / "people.csv", *options, "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["model"] == str(tmp_path / "model")
    assert err.splitlines()[0].startswith("reading ")
    assert "\x1b" not in err  # nothing of a terminal where it is piped


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_leaves_nothing(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(3000, 40)).round(3), columns=[f"x{i}" for i in range(40)])
    frame["kind"] = random.integers(12, size=3000)
    frame.to_csv(tmp_path / "t.csv", index=False)
    # A shell that runs the tests in the background has them ignore SIGINT, which children inherit.
    process = start(
        *("fit", tmp_path / "t.csv", "--label", "kind", "--model", "mcldce", "--out", tmp_path / "model"),
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
    options = ("--label", "kind", "--model", "mcldce", "--out", tmp_path / "model", "--seed", 5)
    done = invoke("fit", folder / "people.csv", *options)
    assert done.exit_code == 130
    assert [item.name for item in tmp_path.iterdir()] == ["model"] * old
    if old:
        assert load(tmp_path / "model").classifier.random_state == 0


def test_fit_writes_its_page(folder, tmp_path):
    options = ("--label", "kind", "--model", "mcldce", "--out", tmp_path / "model", "--page", tmp_path / "page")
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
        assert done.exit_code == 1
        assert re.search("would be inside the folder of the model|is an output of this command as well", done.stderr)
    assert list(tmp_path.iterdir()) == []


def test_the_candidates_and_the_choice_are_printed(folder, tmp_path, quick):
    done = invoke("fit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "model")
    assert done.exit_code == 0, done.output
    assert re.search(r"boosted trees +uncorrected +70\.0% \[60\.0, 80\.0\]", done.stdout)
    assert re.search(r"boosted trees +corrected +90\.0% \[80\.0, 100\.0\]", done.stdout)
    assert "Chosen: boosted trees, corrected; its estimated accuracy is the highest." in done.stdout
    assert "Note: The classes overlap" in done.stdout
    assert invoke("predict", tmp_path / "model", folder / "people.csv", "--out", tmp_path / "p.csv").exit_code == 0


def test_the_candidates_for_a_program(folder, tmp_path, quick):
    options = ("--label", "kind", "--out", tmp_path / "model", "--json", "--model", "trees")
    found = json.loads(invoke("fit", folder / "people.csv", *options).stdout)
    assert (found["method"], found["network"], found["baseline"]) == ("trees", None, None)
    one = found["candidates"][1]
    assert (one["name"], one["corrected"], one["chosen"]) == ("boosted trees", True, True)
    assert one["clean_accuracy"]["estimate"] == 0.9
    assert found["notes"] == ["The classes overlap, and noise cannot be told from overlap."]


@pytest.fixture
def toys(monkeypatch):
    """A linear method, a method for networks and an estimator of T, each in one module and on one registry line."""
    from unflip.linear import MCLDCEClassifier
    from unflip.transition import VolMin

    class ToyClassifier(MCLDCEClassifier):
        toy_: float

        def fit(self, X, y, sample_weight=None):
            self.toy_ = 1.5
            return super().fit(X, y, sample_weight)

    class ToyEstimator(VolMin):
        pass

    classes = {"linear": ToyClassifier, "transition": ToyEstimator}
    if importlib.util.find_spec("torch"):
        from unflip.deep.methods.cross_entropy import CrossEntropy

        classes["deep"] = type("Toy", (CrossEntropy,), {"name": "toy"})
    for family, cls in classes.items():
        module = types.SimpleNamespace(**{cls.__name__: cls})
        monkeypatch.setitem(sys.modules, f"unflip.{family}.toy", module)
        flags = {"takes_transition": family == "linear", "saved": family != "deep", "networks": int(family == "deep")}
        entry = registry.Entry("toy", f"{family}.toy", cls.__name__, family, **flags)
        monkeypatch.setattr(registry, "ENTRIES", [*registry.ENTRIES, entry])
    return classes


@pytest.mark.parametrize("network", ["linear", "mlp"])
def test_a_new_method_is_one_file_and_one_line(folder, tmp_path, toys, network):
    if network == "mlp":
        pytest.importorskip("torch")
    options = ("--network", network, *(("--epochs", 1, "--transition", folder / "T.npy") if network == "mlp" else ()))
    done = invoke(
        *("fit", folder / "people.csv", "--label", "kind", "--method", "toy", "--out", tmp_path / "model", *options)
    )
    assert done.exit_code == 0, done.output
    assert f"toy, {network}" in done.stdout
    model = load(tmp_path / "model")
    if network == "linear":
        assert type(model.classifier_) is toys["linear"]
        assert model.classifier_.toy_ == 1.5
    else:
        assert model.classifier_.method == "toy"
    assert invoke("predict", tmp_path / "model", folder / "people.csv", "--out", tmp_path / "p.csv").exit_code == 0


def test_a_new_estimator_is_saved(tmp_path, toys):
    X = np.random.default_rng(0).normal(size=(60, 2)) + 3 * np.eye(3, 2)[np.arange(60) % 3]
    model = toys["transition"]().fit(X, np.arange(60) % 3)
    np.testing.assert_array_equal(load(model.save(tmp_path / "m")).transition_, model.transition_)


class TestText:
    """A table of comments: fit, predict, transition and audit read the same columns in the same way."""

    @pytest.fixture(scope="class")
    @staticmethod
    def comments(tmp_path_factory):
        from tests.tables.test_text import sentences
        from unflip.noise import corrupt

        frame, y = sentences(300)
        names, codes = np.unique(y, return_inverse=True)
        frame["kind"] = names[corrupt(codes, T, random_state=0)]
        place = tmp_path_factory.mktemp("comments")
        frame.to_csv(place / "comments.csv", index=False)
        frame[["note", "kind"]].to_csv(place / "only.csv", index=False)
        np.save(place / "T.npy", T)
        np.save(place / "y.npy", y)
        return place

    def test_to_a_model_and_predictions(self, comments, tmp_path):
        options = ("--label", "kind", "--model", "mcldce", "--transition", comments / "T.npy")
        done = invoke("fit", comments / "comments.csv", *options, "--out", tmp_path / "model")
        assert done.exit_code == 0, done.output
        assert "not used" not in done.output
        assert load(tmp_path / "model").kinds == {"age": "number", "town": "category", "note": "text"}
        done = invoke("predict", tmp_path / "model", comments / "comments.csv", "--out", tmp_path / "p.csv")
        assert done.exit_code == 0, done.output
        predicted = pd.read_csv(tmp_path / "p.csv")["prediction"]
        assert np.mean(predicted == np.load(comments / "y.npy")) > 0.9

    def test_static_embeddings_by_choice(self, comments, tmp_path):
        for name in ("tokenizers", "wordllama"):
            pytest.importorskip(name, reason="unflip[text] is not installed")
        options = ("--label", "kind", "--model", "mcldce", "--text", "wordllama", "--out", tmp_path / "model")
        done = invoke("fit", comments / "only.csv", *options)
        assert done.exit_code == 0, done.output
        model = load(tmp_path / "model")
        assert model.preprocessor_.text == "wordllama"
        assert model.n_features_in_ == 1
        assert model.classifier_.n_features_in_ == 256

    def test_out_of_core(self, comments, tmp_path):
        options = ("--label", "kind", "--out-of-core", "--out", tmp_path / "model")
        done = invoke("fit", comments / "comments.csv", *options)
        assert done.exit_code == 0, done.output
        assert load(tmp_path / "model").preprocessor_.text == "lsa"

    def test_suspects(self, comments, tmp_path):
        options = ("--label", "kind", "--model", "mcldce", "--transition", comments / "T.npy", "--folds", 3)
        done = invoke("audit", comments / "comments.csv", *options, "--out", tmp_path / "audit")
        assert done.exit_code == 0, done.output
        wrong = pd.read_csv(comments / "comments.csv")["kind"] != np.load(comments / "y.npy")
        suspects = pd.read_csv(tmp_path / "audit" / "suspects.csv")["name"]
        assert wrong[suspects].mean() > 0.9
        assert wrong[suspects].sum() > 0.8 * wrong.sum()

    def test_the_noise_without_a_word_of_solvers_that_stop_early(self, comments, monkeypatch, capfd):
        """The default model: nothing but steps is written to the terminal, and a warning would be an error here."""
        light_models.use(monkeypatch)
        done = invoke("transition", comments / "only.csv", "--label", "kind", "--json")
        assert done.exit_code == 0, done.output
        errors = done.stderr + capfd.readouterr().err
        assert "warning" not in errors.lower()
        assert ".py" not in errors
        assert np.abs(json.loads(done.stdout)["transition"] - T).max() < 0.15


class TestMissingLabels:
    def test_are_counted_left_out_and_predicted(self, folder, tmp_path):
        frame = pd.read_csv(folder / "people.csv")
        frame["kind"] = frame["kind"].where(np.arange(300) % 10 != 3)
        frame.to_csv(tmp_path / "some.csv", index=False)
        options = ("--label", "kind", "--model", "mcldce", "--out", tmp_path / "model")
        done = invoke("fit", tmp_path / "some.csv", *options, "--predict-missing", tmp_path / "rest.csv")
        assert done.exit_code == 0, done.output
        assert "30 of 300 rows have no label and are left out" in done.stderr
        assert "30 predictions for rows without a label" in done.stdout
        rest = pd.read_csv(tmp_path / "rest.csv")
        assert rest["name"].tolist() == list(range(3, 300, 10))
        assert rest["prediction"].tolist() == load(tmp_path / "model").predict(frame[3::10]).tolist()
        found = invoke("fit", tmp_path / "some.csv", *options, "--predict-missing", tmp_path / "rest.csv", "--json")
        assert sum(json.loads(found.stdout)["predicted"].values()) == 30
        assert json.loads(found.stdout)["n_train"] + json.loads(found.stdout)["n_test"] == 270

    def test_there_may_be_none(self, folder, tmp_path):
        options = ("--label", "kind", "--model", "mcldce", "--out", tmp_path / "model")
        done = invoke("fit", folder / "people.csv", *options, "--predict-missing", tmp_path / "rest.csv")
        assert done.exit_code == 0, done.output
        assert "Every row has a label" in done.stdout
        assert not (tmp_path / "rest.csv").exists()

    def test_not_out_of_core(self, folder, tmp_path):
        options = ("--label", "kind", "--out", tmp_path / "model", "--out-of-core")
        done = invoke("fit", folder / "people.csv", *options, "--predict-missing", tmp_path / "rest.csv")
        assert done.exit_code == 2
        assert "--predict-missing" in done.stderr

    @pytest.mark.slow
    def test_of_a_real_file(self, tmp_path):
        """Labels of a WRENCH data set where the labelling functions abstain are empty cells of the file."""
        path = Path(os.environ.get("UNFLIP_DATA", "")) / "suite" / "human" / "wrench_youtube.csv.gz"
        if not path.is_file():
            pytest.skip(f"{path} does not exist: UNFLIP_DATA names the directory of the suite")
        frame = pd.read_csv(path)
        frame = frame[frame["split"] == "train"]
        frame["noisy"] = frame["noisy"].where(frame["noisy"] != -1)
        n_lost = int(frame["noisy"].isna().sum())
        frame[["text", "noisy"]].to_csv(tmp_path / "youtube.csv", index=False)
        options = ("--label", "noisy", "--model", "mcldce", "--out", tmp_path / "model")
        done = invoke("fit", tmp_path / "youtube.csv", *options, "--predict-missing", tmp_path / "rest.csv")
        assert done.exit_code == 0, done.output
        assert f"{n_lost:,} of {len(frame):,} rows have no label" in done.stderr
        rest = pd.read_csv(tmp_path / "rest.csv")
        truth = frame["label"].to_numpy()[rest["name"]]
        assert len(rest) == n_lost > 100
        assert np.mean(rest["prediction"] == truth) > 0.7
