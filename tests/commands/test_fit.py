"""Fit a table, as a notebook would."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("pandas")
pytest.importorskip("safetensors")

from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from tests import light_models
from tests.commands.conftest import NAMES, T, make_frame, table_of
from tests.quick_corrected import Candidate, accuracy
from unflip import load, registry
from unflip.audit import find_label_errors
from unflip.commands import audit_table, find_noise, fit_out_of_core, fit_table, predict_table, read_for, write_fit_page
from unflip.commands.fit import OVERLAP, candidate_records, check_network, explain_choice, make_baseline
from unflip.commands.folders import check_folder
from unflip.linear import MCLDCEClassifierCV
from unflip.metrics import transition_error
from unflip.models import card
from unflip.models.folder import check_model_folder
from unflip.noise import pairflip
from unflip.tables import Preprocessor, Table, TableClassifier, read_table
from unflip.transition import StackedEM, VolMin


class TestFit:
    def test_the_model_withstands_the_noise_and_says_so(self, fitted):
        fresh, clean = make_frame(400, seed=9)
        accuracy = np.mean(fitted.model.predict(fresh) == clean)
        assert accuracy > 0.9
        assert fitted.accuracy.low < accuracy < fitted.accuracy.high + 1e-9
        assert transition_error(fitted.noise.transition, T) < 0.3
        assert fitted.baseline is not None
        assert fitted.baseline_name == "ridge without correction"

    def test_a_fifth_of_each_class_is_held_out(self, fitted, table):
        assert fitted.n_train + fitted.n_test == len(table.y)
        assert fitted.n_test == sum(round(0.2 * np.sum(table.y == name)) for name in NAMES)

    def test_columns_of_no_use_are_named_although_rows_were_split(self, fitted):
        assert fitted.unused == {
            "id": "it numbers the rows",
            "note": "every value is different: names or codes",
        }
        assert set(fitted.model.preprocessor_.numbers_) == set("abcd")
        assert set(fitted.model.preprocessor_.categories_) == {"town"}

    def test_saved_with_what_is_known_of_it(self, fitted, table, tmp_path):
        fitted.model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert np.array_equal(again.predict_proba(table.X), fitted.model.predict_proba(table.X))
        text = card(tmp_path / "model")
        for words in (
            "estimated accuracy on clean labels",
            "the same learner without correction",
            "it numbers the rows",
        ):
            assert words in text

    def test_same_seed_same_result(self, fitted, table):
        again = fit_table(table, model="mcldce", random_state=0)
        assert again.accuracy == fitted.accuracy
        assert np.array_equal(again.noise.transition, fitted.noise.transition)
        assert fit_table(table, model="mcldce", random_state=1).accuracy != fitted.accuracy

    @pytest.mark.parametrize("method", registry.names("linear"))
    def test_every_linear_method(self, method, tmp_path):
        small = table_of(make_frame(150)[0])
        found = fit_table(small, method=method, transition=T, random_state=0)
        assert np.array_equal(found.noise.transition, T)
        assert found.accuracy.estimate > 0.5
        found.model.save(tmp_path / "model")
        predicted, proba = predict_table(load(tmp_path / "model"), small)
        assert np.array_equal(predicted, found.model.predict(small.X))
        assert np.allclose(proba.sum(axis=1), 1)

    def test_an_estimated_t_widens_the_interval(self, table, fitted):
        given = fit_table(table, model="mcldce", transition=fitted.noise.transition, random_state=0)
        assert given.accuracy.standard_error < fitted.accuracy.standard_error

    def test_a_method_without_t_has_it_estimated_for_the_accuracy(self):
        told = []
        found = fit_table(table_of(make_frame(150)[0]), method="lnsi", random_state=0, tell=told.append)
        assert transition_error(found.noise.transition, T) < 0.5
        assert any("estimating T" in text for text in told)

    def test_a_test_table_leaves_all_rows_for_training(self, table):
        other = table_of(make_frame(100, seed=3)[0])
        found = fit_table(table, model="mcldce", test=other, transition=T, random_state=0)
        assert (found.n_train, found.n_test) == (300, 100)

    def test_weights_count(self, table):
        # Rows of weight 0 say nothing: their labels may be anything.
        weights = np.arange(300) % 2 + 0.0
        other = np.where(weights == 0, "dog", table.y)
        options = {"model": "mcldce", "transition": T, "test": table, "random_state": 0}
        one, two = (
            fit_table(Table(table.X, y, weights, table.names, "kind", tuple(NAMES)), **options)
            for y in (table.y, other)
        )
        assert np.allclose(one.model.classifier_.coef_, two.model.classifier_.coef_)
        assert np.allclose(one.noise.class_prior, two.noise.class_prior)

    def test_weights_count_where_t_is_estimated_separately(self, table):
        weights = np.arange(300) % 2 + 0.0
        other = np.where(weights == 0, "dog", table.y)
        options = {"method": "rank-pruning", "test": table, "random_state": 0}
        one, two = (fit_table(replace(table, y=y, sample_weight=weights), **options) for y in (table.y, other))
        np.testing.assert_allclose(one.noise.transition, two.noise.transition)
        assert not np.allclose(one.noise.transition, fit_table(table, **options).noise.transition)

    def test_each_part_of_the_table_is_preprocessed_once(self, table, monkeypatch):
        seen = []
        transform = Preprocessor.transform

        def counted(self, X, **options):
            seen.append(len(X))
            return transform(self, X, **options)

        monkeypatch.setattr(Preprocessor, "transform", counted)
        found = fit_table(table, model="mcldce", random_state=0)
        assert seen == [found.n_train, found.n_test]

    def test_a_network(self, table, tmp_path):
        pytest.importorskip("torch")
        found = fit_table(table, network="mlp", transition=T, epochs=2, random_state=0)
        assert found.baseline_name == "cross-entropy without correction"
        found.model.save(tmp_path / "model")
        predicted, _ = predict_table(load(tmp_path / "model"), table)
        assert np.array_equal(predicted, found.model.predict(table.X))
        alone = fit_table(table, network="mlp", method="ce", transition=T, epochs=1, random_state=0)
        assert alone.baseline is None
        assert set(found.curves) == {
            f"{name}: {what}"
            for name in ("discounted-forward", "cross-entropy")
            for what in ("loss", "accuracy on held-out noisy labels")
        }
        assert all(len(values) == 2 for values in found.curves.values())
        noisy = found.curves["discounted-forward: accuracy on held-out noisy labels"][-1]
        assert round(noisy * found.n_test) == pytest.approx(noisy * found.n_test)

    def test_the_page_of_a_fit(self, fitted, table, tmp_path):
        pytest.importorskip("jinja2")
        curves = {"mcldce: loss": [2.0, 1.0]}
        path = write_fit_page(replace(fitted, curves=curves), tmp_path / "page", title="<b>people.csv")
        text = path.read_text(encoding="utf-8")
        assert "&lt;b&gt;people.csv" in text
        assert "<b>people" not in text
        for words in (
            "curves-title",
            "mcldce, linear",
            "ridge without correction",
            "mcldce: loss",
            f"{fitted.n_test:,} noisy labels",
        ):
            assert words in text
        assert "uspect labels" not in text
        write_fit_page(fitted, tmp_path / "page", title="again")
        assert "curves-title" not in path.read_text(encoding="utf-8")  # a linear model has no epochs
        (tmp_path / "page" / "mine.txt").write_text("mine")
        with pytest.raises(FileExistsError, match="not an earlier result"):
            write_fit_page(fitted, tmp_path / "page", title="again")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"method": "gce"}, "'gce' is not a method for linear models; choose one of mcldce, forward, ule"),
            ({"network": "resnet"}, "network must be one of linear, mlp, cnn6; got 'resnet'"),
            ({"epochs": 3}, "epochs apply to networks"),
            ({"transition": np.eye(2)}, "2 x 2 but there are 3 classes"),
            (
                {"model": "oracle"},
                "model must be one of auto, logistic, trees, forest, mcldce, mlp, cnn6; got 'oracle'",
            ),
            ({"model": "trees", "method": "ule"}, "model trees has no methods"),
            ({"model": "mlp", "network": "cnn6"}, "exclude each other"),
            ({"holdout": 0.0}, "between 0 and 1; got 0.0"),
            ({"holdout": 0.001}, "too few to hold"),
            ({"test": Table(None, None, None, np.arange(3), None, ())}, "has no labels"),
            (
                {"test": Table(None, np.arange(3), None, np.arange(3), "y", ())},
                "labels are text, but those of the test data",
            ),
        ],
    )
    def test_mistakes(self, table, options, words, quick):
        with pytest.raises(ValueError, match=words):
            fit_table(table, **options)

    def test_a_class_of_one_row_stays_in_training(self):
        frame = make_frame(100)[0]
        frame.loc[0, "kind"] = "emu"
        found = fit_table(table_of(frame), model="mcldce", transition=pairflip(4, 0.2), random_state=0)
        assert "emu" in found.noise.names


class TestImages:
    def test_a_linear_model_of_pixels(self, folder, tmp_path):
        found = fit_table(read_table(folder), model="mcldce", random_state=0)
        found.model.save(tmp_path / "model")
        model = load(tmp_path / "model")
        table = read_for(model, folder / "cat")  # images without labels
        assert np.mean(predict_table(model, table)[0] == "cat") > 0.8
        wrong = Table(np.zeros((2, 1, 9, 8), np.float32), None, None, np.arange(2), None, ())
        with pytest.raises(ValueError, match="1x8x8, but these are 1x9x8"):
            predict_table(model, wrong)

    def test_grey_images_for_a_model_of_colours(self, folder):
        grey = read_table(folder)
        colour = Table(np.repeat(grey.X, 3, axis=1), grey.y, None, grey.names, "folder", grey.class_names)
        model = fit_table(colour, model="mcldce", random_state=0).model
        assert np.array_equal(predict_table(model, grey)[1], predict_table(model, colour)[1])


class TestPlaces:
    def test_below_a_file_nothing_can_be_written(self, tmp_path):
        (tmp_path / "file").write_text("mine")
        for check in (check_model_folder, lambda path: check_folder(path, ("a",))):
            with pytest.raises(NotADirectoryError, match="file is a file, not a folder"):
                check(tmp_path / "file" / "x" / "y")

    def test_an_empty_folder_may_become_a_model(self, fitted, tmp_path):
        check_model_folder(tmp_path)
        fitted.model.save(tmp_path)
        assert {item.name for item in tmp_path.iterdir()} == {"model.json", "weights.safetensors"}


class TestOneTransition:
    """Every command estimates T in the same way, from the numbers of the table in their own units."""

    @pytest.fixture
    def scaled(self):
        """A table whose columns have different scales, so that standardizing them would change T."""
        frame = make_frame()[0].drop(columns=["id", "note"])
        frame[["c", "d"]] *= [0.01, 100]
        return replace(table_of(frame), sample_weight=np.arange(300) % 3 + 1.0)

    def test_linear_methods_and_classifier(self, scaled):
        T = find_noise(scaled, network="linear").transition
        np.testing.assert_array_equal(fit_table(scaled, test=scaled, method="rank-pruning").noise.transition, T)
        judge = TableClassifier(VolMin(scaling="auto")).fit(scaled.X, scaled.y, scaled.sample_weight)
        np.testing.assert_array_equal(judge.transition_, T)
        np.testing.assert_array_equal(audit_table(scaled, network="linear").transition, T)

    def test_linear_classifiers_that_take_it(self, scaled):
        T = TableClassifier(VolMin()).fit(scaled.X, scaled.y, scaled.sample_weight).transition_
        np.testing.assert_array_equal(fit_table(scaled, model="mcldce", test=scaled).noise.transition, T)
        model = TableClassifier(MCLDCEClassifierCV()).fit(scaled.X, scaled.y, scaled.sample_weight)
        np.testing.assert_array_equal(model.transition_, T)
        assert model.classifier_.transition is None  # it reads as estimated, not as given
        assert type(model.classifier_.transition_estimator_) is VolMin

    def test_the_default_of_every_command(self, scaled, quick):
        for table in (scaled, replace(scaled, sample_weight=None)):
            T = find_noise(table).transition
            np.testing.assert_array_equal(fit_table(table, test=table).noise.transition, T)
            np.testing.assert_array_equal(audit_table(table).transition, T)
        X = Preprocessor(standardize=False).fit_transform(table.X)
        np.testing.assert_array_equal(find_label_errors(X, table.y).transition, T)


@pytest.mark.slow
def test_the_default_model_itself(tmp_path):
    """Without the stand-in: one T for all commands, and a saved blend that predicts the same."""
    frame, clean = make_frame()
    table = table_of(frame.drop(columns=["id", "note"]))
    found = fit_table(table, test=table, random_state=0)
    np.testing.assert_array_equal(find_noise(table, random_state=0).transition, found.noise.transition)
    errors = audit_table(table, random_state=0)
    np.testing.assert_array_equal(errors.transition, found.noise.transition)
    assert np.mean((table.y != clean)[errors.suspects]) > 0.9
    back = load(found.model.save(tmp_path / "model"))
    proba = found.model.predict_proba(table.X)
    np.testing.assert_allclose(back.predict_proba(table.X), proba, rtol=0, atol=1e-12)
    assert np.mean(back.predict(table.X) == clean) > 0.95


class TestModels:
    @pytest.mark.parametrize(
        ("model", "inside"),
        [
            ("auto", None),
            ("trees", HistGradientBoostingClassifier),
            ("forest", ExtraTreesClassifier),
            (None, None),  # without a word it is auto
        ],
    )
    def test_corrected_by_the_same_class(self, model, inside, quick, tmp_path):
        frame, clean = make_frame()
        table = table_of(frame)
        found = fit_table(table, model=model, random_state=0)
        classifier = found.model.classifier
        assert type(classifier).__name__ == "CorrectedClassifier"
        assert inside is None if classifier.estimator is None else type(classifier.estimator) is inside
        assert found.name == "boosted trees, corrected"
        assert found.baseline is None  # the uncorrected models are among the candidates
        assert np.mean(found.model.predict(table.X) == clean) > 0.9
        assert found.noise.notes == ["The classes overlap, and noise cannot be told from overlap."]
        found.model.save(tmp_path / "model")
        back = load(tmp_path / "model")
        proba = found.model.predict_proba(table.X)
        np.testing.assert_allclose(back.predict_proba(table.X), proba, rtol=0, atol=1e-12)
        text = card(tmp_path / "model")
        assert "compared: boosted trees, uncorrected | 0.700" in text
        assert "Chosen: boosted trees, corrected" in text

    def test_logistic(self, table):
        found = fit_table(table, model="logistic", random_state=0)
        assert list(found.scores) == ["logistic regression through T", "logistic regression without correction"]
        assert found.accuracy.estimate > 0.9
        np.testing.assert_array_equal(found.noise.transition, found.model.transition_)

    def test_a_network_by_the_name_of_the_model(self, table):
        pytest.importorskip("torch")
        found = fit_table(table, model="mlp", transition=T, epochs=1, random_state=0)
        assert (found.method, found.network) == ("discounted-forward", "mlp")
        assert fit_table(table, model="mlp", method="ce", transition=T, epochs=1).method == "ce"

    def test_images_reach_every_model_as_rows(self, folder, quick):
        found = fit_table(read_table(folder), random_state=0)
        assert found.model.n_features_in_ == 64
        assert found.model.metadata_["image shape"] == [1, 8, 8]

    def test_baselines(self):
        assert make_baseline("linear", 3, method="trees")[0] == "boosted trees without correction"
        assert type(make_baseline("linear", 3, method="forest")[1]) is ExtraTreesClassifier


class TestChoice:
    def choice(self, *candidates):
        return [Candidate(name, corrected, accuracy(p), 0.0, chosen) for name, corrected, p, chosen in candidates]

    def test_the_best(self):
        found = self.choice(("forest", False, 0.7, False), ("trees", True, 0.9, True))
        assert explain_choice(found) == "Chosen: trees, corrected; its estimated accuracy is the highest."
        assert [record["chosen"] for record in candidate_records(found)] == [False, True]
        assert candidate_records(found)[1]["clean_accuracy"]["estimate"] == 0.9

    def test_a_small_lead_is_no_reason(self):
        found = self.choice(("forest", False, 0.9, True), ("trees", True, 0.91, False))
        words = "trees, corrected is estimated 1.0 points higher, which is too little to be sure."
        assert explain_choice(found).endswith(words)

    def test_one_model_as_it_is_and_through_T(self):
        found = self.choice(("trees", False, 0.9, False), ("trees", True, 0.8, True))
        assert explain_choice(found) == "Chosen: trees, corrected; the labels are noisy."
        assert "do not show that they are noisy" in explain_choice(self.choice(("trees", False, 0.9, True)))


@pytest.mark.parametrize("network", ["mlp", "cnn6"])
def test_a_network_names_the_extra_that_it_needs(network, monkeypatch):
    monkeypatch.setattr("unflip.commands.fit.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=rf"{network} needs PyTorch: pip install 'unflip\[deep\]'"):
        check_network(network)
    check_network("linear")


def test_a_test_file_is_read_with_the_kinds_of_the_training_data(tmp_path):
    """Codes such as 01 are a category if one of them is no number, also in a test file in which all are numbers."""
    rng = np.random.default_rng(0)
    code = rng.integers(1, 4, size=400)
    y = np.where(rng.uniform(size=400) < 0.1, rng.integers(1, 4, size=400), code)
    rows = [f"{k:02d},{rng.normal():.3f},{'abc'[label - 1]}" for k, label in zip(code, y, strict=True)]
    (tmp_path / "train.csv").write_text("\n".join(["code,x,kind", *rows[:300], "x,0.1,a"]) + "\n")
    (tmp_path / "test.csv").write_text("\n".join(["code,x,kind", *rows[300:]]) + "\n")
    table = read_table(tmp_path / "train.csv", "kind")
    options = {"test": lambda kinds: read_table(tmp_path / "test.csv", "kind", kinds=kinds), "transition": np.eye(3)}
    assert fit_table(table, model="mcldce", **options).accuracy.estimate > 0.85
    assert fit_out_of_core(tmp_path / "train.csv", "kind", **options).accuracy.estimate > 0.85


class TestNetworksOnSmallTables:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch):
        pytest.importorskip("torch", reason="unflip[deep] is not installed")
        light_models.use(monkeypatch)
        monkeypatch.setitem(StackedEM.__init__.__kwdefaults__, "cv", 2)

    def test_one_transition_and_what_the_labels_do_not_tell(self, monkeypatch):
        """Both commands take T from StackedEM; if it is unsure, they say so, and the interval is wider."""
        table = table_of(make_frame()[0].drop(columns=["id", "note"]))
        options = {"network": "mlp", "test": table, "epochs": 1, "random_state": 0}
        sure = fit_table(table, **options)
        assert sure.model.classifier_.transition is None
        assert sure.noise.notes == []
        finish = StackedEM._finish

        def unsure(self, *arguments):
            finish(self, *arguments)
            self.overlap_, self.alternatives_ = True, [np.full((3, 3), 0.25) + 0.25 * np.eye(3)]
            return self

        monkeypatch.setattr(StackedEM, "_finish", unsure)
        fitted = fit_table(table, **options)
        found = find_noise(table, network="mlp", random_state=0)
        assert fitted.noise.notes == found.notes == [OVERLAP]
        np.testing.assert_allclose(fitted.noise.transition, found.transition, atol=1e-5)
        assert fitted.accuracy.high > sure.accuracy.high

    def test_sparse_numbers(self):
        """An NPZ file may hold them; networks take them as an array."""
        X = sparse.random_array((60, 4), density=0.5, rng=np.random.default_rng(0), format="csr")
        table = Table(X, np.repeat(["a", "b"], 30), None, np.arange(60), None, ("a", "b"))
        assert find_noise(table, network="mlp", random_state=0).transition.shape == (2, 2)
