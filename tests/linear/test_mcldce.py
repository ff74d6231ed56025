"""MC-LDCE: twins, limits, sums, inputs of every kind, the choice of the penalty, accuracy on real features."""

import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.linalg import LinAlgWarning
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unflip import _base
from unflip._validation import check_transition
from unflip.core import ClassSums, clean_centroid, corrected_labels, decomposed_risk, ldce
from unflip.core.ldce import Correction
from unflip.linear import MCLDCEClassifier, MCLDCEClassifierCV, mcldce
from unflip.metrics import clean_scorer
from unflip.noise import asymmetric, corrupt, pairflip, symmetric
from unflip.transition import AnchorPoints, VolMin

T3 = pairflip(3, 0.3)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(3, 5))[y] * 2 + rng.normal(1, 1, size=(300, 5))
    return X, y, corrupt(y, T3, random_state=0)


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


class TestMathematics:
    @pytest.mark.parametrize("operator", ["exact", "published"])
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_minimises_the_papers_risk(self, problem, operator, fit_intercept):
        """The closed form against a numerical minimiser of Eq. (final_loss) plus the penalty."""
        X, _, noisy = problem
        model = MCLDCEClassifier(T3, operator=operator, alpha=3.0, fit_intercept=fit_intercept).fit(X, noisy)
        labels = corrected_labels(T3, model.class_prior_, operator)

        def risk(parameters):
            W, b = parameters[:15].reshape(5, 3), parameters[15:] * fit_intercept
            return decomposed_risk(X @ W + b, noisy, labels).total + 3.0 / len(X) * np.sum(W**2)

        best = minimize(risk, np.zeros(18), method="BFGS", options={"gtol": 1e-7}).x
        np.testing.assert_allclose(model.coef_.T, best[:15].reshape(5, 3), atol=1e-4)
        np.testing.assert_allclose(model.intercept_, best[15:] * fit_intercept, atol=1e-4)

    def test_closed_form_as_printed(self, problem):
        """W = (X'X + alpha I)^-1 n mu_noisy M^+, from sums written as loops."""
        X, _, noisy = problem
        mu = sum(np.outer(x, np.eye(3)[k]) for x, k in zip(X, noisy, strict=True)) / 300
        W = np.linalg.solve(X.T @ X + 2 * np.eye(5), 300 * mu @ np.linalg.inv(T3))
        model = MCLDCEClassifier(T3, alpha=2.0, fit_intercept=False).fit(X, noisy)
        np.testing.assert_allclose(model.coef_.T, W, atol=1e-10)
        np.testing.assert_allclose(model.centroid_, mu @ np.linalg.inv(T3), atol=1e-12)

    @pytest.mark.parametrize("operator", ["exact", "published"])
    def test_identity_gives_ridge(self, problem, operator):
        X, _, noisy = problem
        model = MCLDCEClassifier(np.eye(3), operator=operator, alpha=2.0).fit(X, noisy)
        ridge = Ridge(2.0).fit(X, np.eye(3)[noisy])
        np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-10)
        np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-10)
        np.testing.assert_array_equal(model.predict(X), RidgeClassifier(2.0).fit(X, noisy).predict(X))

    @pytest.mark.parametrize("operator", ["exact", "published"])
    def test_symmetric_noise_leaves_the_predictions_of_ridge(self, digits, operator):
        """M^+ = aI + bJ for balanced classes, so the corrected scores are a s + b sum(s): the same argmax."""
        X, y = digits
        noisy = corrupt(y, symmetric(10, 0.5), random_state=0)
        weights = 1 / np.bincount(noisy)[noisy]  # make the noisy classes, hence the clean ones, exactly balanced
        model = MCLDCEClassifier(symmetric(10, 0.5), operator=operator, alpha=1e-3).fit(X, noisy, weights)
        ridge = RidgeClassifier(1e-3).fit(X, noisy, weights)
        np.testing.assert_array_equal(model.predict(X), ridge.predict(X))

    def test_anti_identity_flips_a_binary_learner(self, problem):
        X, y, _ = problem
        rows = y < 2
        straight = MCLDCEClassifier(np.eye(2)).fit(X[rows], y[rows])
        flipped = MCLDCEClassifier([[0, 1], [1, 0]]).fit(X[rows], y[rows])
        np.testing.assert_allclose(flipped.decision_function(X), -straight.decision_function(X), atol=1e-10)

    def test_permuting_classes_permutes_predictions(self, problem):
        X, _, noisy = problem
        T, order = asymmetric(3, {0: (1, 0.3), 1: (2, 0.1)}), np.array([2, 0, 1])
        renamed = np.empty((3, 3))
        renamed[np.ix_(order, order)] = T
        a = MCLDCEClassifier(T).fit(X, noisy)
        b = MCLDCEClassifier(renamed).fit(X, order[noisy])
        np.testing.assert_array_equal(order[a.predict(X)], b.predict(X))

    def test_probabilities_recover_the_clean_posterior(self):
        """One-hot features make the linear model exact: P(clean | x) comes back from labels with one-sided noise."""
        rng = np.random.default_rng(0)
        P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
        cell = rng.integers(3, size=60_000)
        y = np.array([rng.choice(3, size=60_000, p=row) for row in P])[cell, np.arange(60_000)]
        T = asymmetric(3, {0: (2, 0.4), 1: (0, 0.2)})
        model = MCLDCEClassifier(T).fit(np.eye(3)[cell], corrupt(y, T, random_state=1))
        np.testing.assert_allclose(model.predict_proba(np.eye(3)), P, atol=0.03)

    @pytest.mark.parametrize("alpha", [0.0, 1e-12])
    def test_singular_gram_gives_the_least_norm_solution(self, problem, alpha):
        X, _, noisy = problem
        doubled = np.hstack([X, X, np.ones((300, 1)), np.zeros((300, 1))])
        with pytest.warns(LinAlgWarning, match="5 of 10 features.*: feature 5 depends on feature 0; feature 6"):
            model = MCLDCEClassifier(T3, alpha=alpha).fit(doubled, noisy)
        plain = MCLDCEClassifier(T3, alpha=0.0).fit(X, noisy)
        np.testing.assert_allclose(model.decision_function(doubled), plain.decision_function(X), atol=1e-5)
        np.testing.assert_allclose(model.coef_[:, :5], model.coef_[:, 5:10], atol=1e-5)


class TestSums:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_ten_chunks_equal_one_fit(self, digits, weighted):
        X, y = digits
        T = pairflip(10, 0.4)
        noisy, weights = corrupt(y, T, random_state=0), (np.arange(len(y)) % 3 + 1.0) if weighted else None
        whole = MCLDCEClassifier(T, alpha=1.0).fit(X, noisy, weights)
        parts = MCLDCEClassifier(T, alpha=1.0)
        for rows in np.array_split(np.arange(len(y)), 10):
            parts.partial_fit(X[rows], noisy[rows], np.arange(10), None if weights is None else weights[rows])
        for name in ("coef_", "intercept_", "centroid_", "class_prior_"):
            np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-8, rtol=1e-8)

    def test_partial_fit_goes_on_after_fit(self, problem):
        X, _, noisy = problem
        on = MCLDCEClassifier(T3).fit(X[:200], noisy[:200]).partial_fit(X[200:], noisy[200:])
        np.testing.assert_allclose(on.coef_, MCLDCEClassifier(T3).fit(X, noisy).coef_, atol=1e-10)

    def test_a_block_of_zero_weight_adds_nothing(self, problem):
        X, _, noisy = problem
        weights = (np.arange(300) >= 100) * (1.0 + np.arange(300) % 2)
        weights[:50] = 1
        parts = MCLDCEClassifier(T3)
        for rows in np.array_split(np.arange(300), 6):  # the second block counts nothing
            parts.partial_fit(X[rows], noisy[rows], [0, 1, 2], weights[rows])
        whole = MCLDCEClassifier(T3).fit(X, noisy, weights)
        np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-10)
        np.testing.assert_allclose(parts.centroid_, whole.centroid_, atol=1e-10)
        with pytest.raises(ValueError, match="lengths differ: X has 300, sample_weight has 7"):
            parts.partial_fit(X, noisy, sample_weight=np.zeros(7))

        with pytest.raises(ValueError, match="1D array or scalar"):
            parts.partial_fit(X, noisy, sample_weight=np.zeros((300, 1)))

    @pytest.mark.parametrize("n_zero", [1, 2])
    @pytest.mark.parametrize("scalar", [False, True])
    def test_blocks_of_zero_weight_may_come_first(self, problem, n_zero, scalar):
        X, _, noisy = problem
        weights = (np.arange(300) >= 100 * n_zero) * (1.0 + np.arange(300) % 2)
        parts = MCLDCEClassifier(T3, alpha=1.0)
        for k, rows in enumerate(np.array_split(np.arange(300), 3)):
            parts.partial_fit(X[rows], noisy[rows], [0, 1, 2], 0.0 if scalar and k < n_zero else weights[rows])
            if k < n_zero:
                with pytest.raises(NotFittedError):
                    parts.predict(X)
        whole = MCLDCEClassifier(T3, alpha=1.0).fit(X, noisy, weights)
        for name in ("coef_", "intercept_", "centroid_", "class_prior_"):
            np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-10)
        before = parts.coef_
        np.testing.assert_allclose(parts.partial_fit(X, noisy, sample_weight=0.0).coef_, before, atol=1e-10)

    def test_a_first_block_of_zero_weight_settles_classes_and_features(self, problem):
        X, _, noisy = problem
        model = MCLDCEClassifier(T3).partial_fit(X, noisy, [0, 1, 2], np.zeros(300))
        with pytest.raises(ValueError, match="classes are"):
            model.partial_fit(X, noisy, [0, 1, 2, 3])
        with pytest.raises(ValueError, match="features"):
            model.partial_fit(X[:, 1:], noisy)
        np.testing.assert_allclose(model.partial_fit(X, noisy).coef_, MCLDCEClassifier(T3).fit(X, noisy).coef_)

    @pytest.mark.parametrize("transition", [None, VolMin()])
    def test_T_cannot_be_estimated_from_a_block_of_zero_weight(self, problem, transition):
        X, _, noisy = problem
        model = MCLDCEClassifier(transition)
        for weights in (np.zeros(300), 0.0):
            with pytest.raises(ValueError, match="T must be estimated from the first block"):
                model.partial_fit(X, noisy, [0, 1, 2], weights)
        np.testing.assert_array_equal(model.partial_fit(X, noisy, [0, 1, 2]).classes_, [0, 1, 2])

    @pytest.mark.parametrize("weights", [np.zeros(300), 0.0])
    def test_fit_refuses_weights_that_are_all_zero(self, problem, weights):
        X, _, noisy = problem
        with pytest.raises(ValueError, match="sample_weight is zero for every sample"):
            MCLDCEClassifier(T3).fit(X, noisy, sample_weight=weights)

    @pytest.mark.parametrize("n_before", [0, 100])
    @pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
    def test_a_block_that_cannot_be_solved_is_not_added(self, problem, n_before):
        X, _, noisy = problem
        model = MCLDCEClassifier(T3, classes=[0, 1, 2], alpha=1.0)
        if n_before:
            model.partial_fit(X[:n_before], noisy[:n_before])
        with pytest.raises(ValueError, match="column 0 reaches 4.01e.200 in size"):
            model.partial_fit(X * 1e200, noisy)
        model.partial_fit(X[n_before:], noisy[n_before:])
        np.testing.assert_allclose(model.coef_, MCLDCEClassifier(T3, alpha=1.0).fit(X, noisy).coef_, atol=1e-10)

    def test_partial_fit_takes_sparse_blocks(self, problem):
        X, _, noisy = problem
        a = MCLDCEClassifier(T3).partial_fit(sparse.csr_array(X), noisy, [0, 1, 2])
        np.testing.assert_allclose(a.coef_, MCLDCEClassifier(T3).fit(X, noisy).coef_, atol=1e-10)

    def test_partial_fit_estimates_T_from_the_first_block_alone(self, problem):
        X, _, noisy = problem
        model = MCLDCEClassifier(classes=[0, 1, 2]).partial_fit(X[:200], noisy[:200])
        first = model.transition_
        np.testing.assert_array_equal(model.partial_fit(X[200:], noisy[200:]).transition_, first)
        np.testing.assert_allclose(first, VolMin().fit(X[:200], noisy[:200]).transition_)

    def test_another_T_or_alpha_from_the_stored_sums(self, problem):
        X, _, noisy = problem
        model = MCLDCEClassifier(T3).fit(X, noisy)
        X[:] = np.nan  # the data must not be touched again
        model.set_params(transition=symmetric(3, 0.2), alpha=50.0).fit_sums(model.sums_)
        rng = np.random.default_rng(0)
        y = np.arange(300) % 3
        again = rng.normal(size=(3, 5))[y] * 2 + rng.normal(1, 1, size=(300, 5))
        expected = MCLDCEClassifier(symmetric(3, 0.2), alpha=50.0).fit(again, noisy)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)
        np.testing.assert_array_equal(model.transition_, symmetric(3, 0.2))

    def test_an_estimated_T_is_used_again(self, problem):
        X, _, noisy = problem
        model = MCLDCEClassifier().fit(X, noisy)
        T = model.transition_
        model.set_params(alpha=9.0).fit_sums(model.sums_)
        expected = MCLDCEClassifier(T, alpha=9.0).fit(X, noisy)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)

    def test_sums_of_other_features_forget_the_names(self, problem):
        X, _, noisy = problem
        model = MCLDCEClassifier(T3).fit(pd.DataFrame(X, columns=list("abcde")), noisy)
        model.fit_sums(ClassSums.of(X[:, :2], noisy, 3))
        assert model.n_features_in_ == 2
        assert not hasattr(model, "feature_names_in_")

    def test_sums_from_anywhere(self, problem):
        X, _, noisy = problem
        sums = ClassSums.of(X[:100], noisy[:100], 3) + ClassSums.of(X[100:], noisy[100:], 3)
        model = MCLDCEClassifier(T3, classes=["a", "b", "c"]).fit_sums(sums)
        expected = MCLDCEClassifier(T3).fit(X, noisy)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-10)
        np.testing.assert_array_equal(model.predict(X), np.array(["a", "b", "c"])[expected.predict(X)])

    def test_names_come_with_the_sums(self, problem):
        X, _, noisy = problem
        sums = replace(ClassSums.of(X, noisy, 3), classes=["a", "b", "c"], feature_names=list("pqrst"))
        model = MCLDCEClassifier(T3).fit_sums(sums)
        frame = pd.DataFrame(X, columns=list("pqrst"))
        expected = MCLDCEClassifier(T3).fit(frame, np.array(["a", "b", "c"])[noisy])
        np.testing.assert_array_equal(model.feature_names_in_, expected.feature_names_in_)
        assert model.feature_names_in_.dtype == object
        np.testing.assert_array_equal(model.predict(frame), expected.predict(frame))
        for fitted in (model, expected):
            assert fitted.sums_.classes.tolist() == ["a", "b", "c"]
            assert fitted.sums_.feature_names.tolist() == list("pqrst")
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame.rename(columns={"p": "z"}))
        MCLDCEClassifier(T3, classes=["a", "b", "c"]).fit_sums(sums)
        with pytest.raises(
            ValueError, match=r"sums are of the classes \['a', 'b', 'c'\], but classes is \['a', 'b', 'd'\]"
        ):
            MCLDCEClassifier(T3, classes=["a", "b", "d"]).fit_sums(sums)
        model = MCLDCEClassifier(T3).fit(X, noisy).fit_sums(sums)  # other names than those of the earlier fit
        assert model.classes_.tolist() == ["a", "b", "c"]

    def test_the_sums_of_two_models_are_not_mixed_up(self, problem):
        X, _, noisy = problem
        a, b = (MCLDCEClassifier(T3).fit(X, np.array(names)[noisy]) for names in (["a", "b", "c"], ["b", "c", "d"]))
        with pytest.raises(ValueError, match="differ in their classes"):
            a.sums_ + b.sums_

    def test_names_that_are_no_strings_stay_with_the_sums(self, problem):
        X, _, noisy = problem
        model = MCLDCEClassifier(T3).fit_sums(replace(ClassSums.of(X, noisy, 3), feature_names=range(5)))
        assert not hasattr(model, "feature_names_in_")
        assert model.sums_.feature_names.tolist() == [0, 1, 2, 3, 4]

    def test_memory_beyond_X_grows_by_the_labels_alone(self):
        """Some arrays of one number a row; a copy of X would be 32 of them."""

        def peak(n):
            X = np.random.default_rng(0).normal(size=(n, 32))
            y = (X[:, 0] > 0).astype(int)
            model = MCLDCEClassifier(symmetric(2, 0.1), alpha=1.0)
            tracemalloc.start()
            model.fit(X, y)
            used = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return used

        assert peak(300_000) - peak(100_000) < 6 * 8 * 200_000


class TestPath:
    """What a fit runs, and how often."""

    @pytest.mark.parametrize("model", [MCLDCEClassifier(T3), MCLDCEClassifierCV(T3)], ids=["one", "cross-validated"])
    def test_X_and_T_are_checked_once(self, problem, model, monkeypatch):
        X, _, noisy = problem
        calls = Counter()

        def counted(name, function):
            def call(*arguments, **options):
                calls[name] += 1
                return function(*arguments, **options)

            return call

        monkeypatch.setattr(np.linalg, "cond", counted("cond", np.linalg.cond))
        monkeypatch.setattr(np.linalg, "svd", counted("svd", np.linalg.svd))
        monkeypatch.setattr(_base, "validate_data", counted("X", _base.validate_data))
        for module in (_base, ldce, mcldce):
            monkeypatch.setattr(module, "check_transition", counted("T", check_transition))
        clone(model).fit(X, noisy)
        assert calls["cond"] == calls["T"] == calls["X"] == 1
        assert calls["svd"] == 0  # np.linalg.cond has its own

    @pytest.mark.parametrize("model", [MCLDCEClassifier(T3), MCLDCEClassifierCV(T3)], ids=["one", "cross-validated"])
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_coefficients_come_from_clean_centroid(self, problem, model, fit_intercept, monkeypatch):
        X, _, noisy = problem
        model = clone(model).set_params(fit_intercept=fit_intercept, **({"cv": 3} if hasattr(model, "cv") else {}))
        plain = clone(model).fit(X, noisy)
        np.testing.assert_allclose(plain.centroid_, clean_centroid(plain.sums_, T3), atol=1e-12)
        monkeypatch.setattr(mcldce, "clean_centroid", lambda *arguments: 2 * clean_centroid(*arguments))
        if hasattr(model, "cv"):
            model.set_params(alphas=[plain.alpha_])
        twice = model.fit(X, noisy)
        np.testing.assert_allclose(twice.coef_, 2 * plain.coef_, rtol=1e-8)
        mean = np.outer(plain.sums_.mean, plain.sums_.noisy_prior @ np.linalg.inv(T3)) * fit_intercept
        np.testing.assert_allclose(twice.centroid_ - mean, 2 * (plain.centroid_ - mean), atol=1e-10)


class TestInputs:
    @pytest.mark.parametrize("names", [["x", "yy", "z"], [1, 2, 3], [-1, 5, 70], [1.0, 2.0, 3.0]])
    def test_any_labels(self, problem, names):
        X, _, noisy = problem
        names = np.array(names)
        model = MCLDCEClassifier(T3).fit(X, names[noisy])
        np.testing.assert_array_equal(model.classes_, names)
        np.testing.assert_array_equal(model.predict(X), names[MCLDCEClassifier(T3).fit(X, noisy).predict(X)])

    @pytest.mark.parametrize("operator", ["exact", "published"])
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
    @pytest.mark.parametrize("wide", [False, True], ids=["sums", "ridge"])
    def test_sparse_equals_dense(self, problem, kind, operator, weighted, wide, monkeypatch):
        X, _, noisy = problem
        monkeypatch.setattr("unflip.linear.mcldce.WIDE_SPARSE", 1 if wide else 512)
        X[np.abs(X) < 0.5] = 0
        weights = np.arange(300) % 4 if weighted else None
        dense = MCLDCEClassifier(T3, operator=operator, alpha=1.0).fit(X, noisy, weights)
        model = MCLDCEClassifier(T3, operator=operator, alpha=1.0).fit(kind(X), noisy, weights)
        assert hasattr(model, "sums_") != wide
        for name in ("coef_", "intercept_", "centroid_", "class_prior_"):
            np.testing.assert_allclose(getattr(model, name), getattr(dense, name), atol=1e-6)
        np.testing.assert_allclose(model.predict_proba(kind(X)), dense.predict_proba(X), atol=1e-6)

    def test_wide_equals_sums(self, problem, monkeypatch):
        _, _, noisy = problem
        wide = np.random.default_rng(0).normal(size=(30, 80))
        expected = MCLDCEClassifier(T3).fit(wide, noisy[:30])
        monkeypatch.setattr("unflip.linear.mcldce.WIDE", 50)
        model = MCLDCEClassifier(T3).fit(wide, noisy[:30])
        assert not hasattr(model, "sums_")
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9)
        np.testing.assert_allclose(model.centroid_, expected.centroid_, atol=1e-12)
        with pytest.raises(ValueError, match="begin with partial_fit"):
            model.partial_fit(wide, noisy[:30])

    def test_refit_forgets_the_sums_of_other_data(self, problem, monkeypatch):
        X, _, noisy = problem
        monkeypatch.setattr("unflip.linear.mcldce.WIDE_SPARSE", 1)
        model = MCLDCEClassifier(T3).fit(X, noisy).fit(sparse.csr_array(X), noisy)
        assert not hasattr(model, "sums_")

    def test_float32(self, problem):
        X, _, noisy = problem
        a = MCLDCEClassifier(T3, alpha=1.0).fit(X.astype(np.float32), noisy)
        assert a.decision_function(X.astype(np.float32)).dtype == np.float32
        np.testing.assert_allclose(a.coef_, MCLDCEClassifier(T3, alpha=1.0).fit(X, noisy).coef_, atol=1e-6)

    def test_data_frame(self, problem):
        X, _, noisy = problem
        frame = pd.DataFrame(X, columns=list("abcde"))
        labels = pd.Series(np.array(["p", "q", "r"])[noisy], dtype="category")
        model = MCLDCEClassifier(T3).fit(frame, labels)
        np.testing.assert_array_equal(model.feature_names_in_, list("abcde"))
        assert set(model.predict(frame)) == {"p", "q", "r"}
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame.rename(columns={"a": "z"}))

    def test_an_emptied_class(self, problem):
        X, _, noisy = problem
        rows = noisy != 1
        model = MCLDCEClassifier(T3, classes=[0, 1, 2]).fit(X[rows], noisy[rows])
        assert model.predict_proba(X).shape == (300, 3)
        assert model.class_prior_.sum() == pytest.approx(1)
        with pytest.raises(ValueError, match="3 x 3 but there are 2 classes"):
            MCLDCEClassifier(T3).fit(X[rows], noisy[rows])

    def test_weights_are_repetition(self, problem):
        X, _, noisy = problem
        w = np.arange(300) % 3
        a = MCLDCEClassifier(T3).fit(X, noisy, w)
        b = MCLDCEClassifier(T3).fit(X.repeat(w, 0), noisy.repeat(w))
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-10)

    def test_transition_from_an_estimator(self, problem):
        X, _, noisy = problem
        given = AnchorPoints()
        model = MCLDCEClassifier(given).fit(X, noisy)
        assert not hasattr(given, "transition_")  # it was cloned
        np.testing.assert_array_equal(model.transition_, AnchorPoints().fit(X, noisy).transition_)
        assert isinstance(model.transition_estimator_, AnchorPoints)
        assert isinstance(MCLDCEClassifier().fit(X, noisy).transition_estimator_, VolMin)
        assert MCLDCEClassifier(T3).fit(X, noisy).transition_estimator_ is None


class TestScikitLearn:
    def test_pipeline_grid_search_and_clone(self, digits):
        X, y = digits
        T = pairflip(10, 0.3)
        noisy = corrupt(y, T, random_state=0)
        pipe = make_pipeline(StandardScaler(), MCLDCEClassifier(T))
        grid = {"mcldceclassifier__alpha": [1.0, 1e5]}
        search = GridSearchCV(clone(pipe), grid, scoring=clean_scorer(T), cv=3).fit(X, noisy)
        assert search.best_params_["mcldceclassifier__alpha"] == 1.0
        assert search.best_estimator_.score(X, y) > 0.9
        np.testing.assert_array_equal(clone(pipe).get_params()["mcldceclassifier__transition"], T)

    def test_calibration(self, digits):
        X, y = digits
        T = symmetric(10, 0.2)
        noisy = corrupt(y, T, random_state=0)
        proba = CalibratedClassifierCV(MCLDCEClassifier(T), cv=3).fit(X, noisy).predict_proba(X)
        assert np.mean(proba.argmax(axis=1) == y) > 0.9

    def test_same_seed_same_result(self, problem):
        X, _, noisy = problem
        a, b = (MCLDCEClassifier(random_state=0).fit(X, noisy) for _ in range(2))
        np.testing.assert_array_equal(a.coef_, b.coef_)
        np.testing.assert_array_equal(a.transition_, b.transition_)


BAD = {
    "singular": ({"transition": symmetric(3, 2 / 3)}, {}, "singular"),
    "column-stochastic": ({"transition": asymmetric(3, {0: (1, 0.3)}).T}, {}, "transpose it"),
    "row sums": ({"transition": np.eye(3) * 2}, {}, "sums to 2"),
    "negative": ({"transition": [[1.1, -0.1, 0], [0, 1, 0], [0, 0, 1]]}, {}, "negative"),
    "wrong size": ({"transition": np.eye(4)}, {}, "4 x 4 but there are 3 classes"),
    "NaN": ({}, {"X": np.full((300, 5), np.nan)}, "NaN"),
    "infinite": ({}, {"X": np.full((300, 5), np.inf)}, "infinity"),
    "one class": ({"transition": np.eye(2)}, {"y": np.zeros(300)}, "one class"),
    "labels outside": ({"classes": [0, 1]}, {}, r"outside classes: \[2\]"),
    "lengths": ({}, {"y": np.arange(5)}, "300 samples but y has 5 labels; give one label for each row"),
    "empty": ({}, {"X": np.empty((0, 5)), "y": np.empty(0)}, "X is empty, 0 sample.*needed"),
    "alpha": ({"alpha": -1.0}, {}, "alpha must be"),
    "operator": ({"operator": "paper"}, {}, "operator must be"),
    "weights": ({}, {"sample_weight": np.full(300, -1.0)}, "[Nn]egative"),
}


@pytest.mark.parametrize(("parameters", "data", "match"), BAD.values(), ids=BAD)
def test_bad_input(problem, parameters, data, match):
    X, _, noisy = problem
    model = MCLDCEClassifier(**{"transition": T3, **parameters})
    with pytest.raises(ValueError, match=match):
        model.fit(**{"X": X, "y": noisy, **data})


def test_bad_partial_fit(problem):
    X, _, noisy = problem
    with pytest.raises(ValueError, match="first call"):
        MCLDCEClassifier(T3).partial_fit(X, noisy)
    model = MCLDCEClassifier(T3).partial_fit(X, noisy, [0, 1, 2])
    with pytest.raises(ValueError, match="classes are"):
        model.partial_fit(X, noisy, [0, 1, 2, 3])
    with pytest.raises(ValueError, match="outside classes"):
        model.partial_fit(X, noisy + 1)


def test_a_failed_first_block_can_be_mended(problem):
    X, _, noisy = problem
    model = MCLDCEClassifier(np.eye(4))
    with pytest.raises(ValueError, match="4 x 4"):
        model.partial_fit(X, noisy, [0, 1, 2])
    model.set_params(transition=T3).partial_fit(X, noisy, [0, 1, 2])
    np.testing.assert_allclose(model.coef_, MCLDCEClassifier(T3).fit(X, noisy).coef_, atol=1e-10)


def test_bad_sums(problem):
    X, _, noisy = problem
    sums = ClassSums.of(X, noisy, 3)
    with pytest.raises(ValueError, match="no samples to estimate T"):
        MCLDCEClassifier().fit_sums(sums)
    with pytest.raises(ValueError, match="3 classes, but"):
        MCLDCEClassifier(T3, classes=[0, 1]).fit_sums(sums)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("T", "least"),
    [
        pytest.param(pairflip(10, 0.4), 0.835, id="pair 40"),
        pytest.param(symmetric(10, 0.6), 0.823, id="sym 60"),
        pytest.param(symmetric(10, 0.2), 0.843, id="sym 20"),
    ],
)
def test_reaches_nearly_the_clean_accuracy_on_real_features(features, T, least):
    """50,000 noisy labels, T estimated from them; ridge on the clean labels gives 84.9 %."""
    X, y, X_test, y_test = features
    noisy = corrupt(y, T, random_state=0)
    model = MCLDCEClassifier().fit(X, noisy)
    assert model.score(X_test, y_test) >= least
    if T[0, 1] == 0.4:  # the paper's operator is there for fidelity
        published = MCLDCEClassifier(model.transition_, operator="published").fit_sums(model.sums_)
        assert published.score(X_test, y_test) < 0.79


def pairflip_sparse(c, rate):
    i = np.arange(c)
    entries = np.append(np.full(c, 1 - rate), np.full(c, rate))
    return sparse.csr_array((entries, (np.append(i, i), np.append(i, (i + 1) % c))), shape=(c, c))


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize("operator", ["exact", "published"])
def test_a_sparse_T_gives_the_same_model(kind, operator, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(3, 5))[y] * 2 + rng.normal(size=(300, 5))
    T = asymmetric(3, {0: (1, 0.3), 2: (0, 0.2)})
    noisy = corrupt(y, T, random_state=0)
    dense = MCLDCEClassifier(T, operator=operator, alpha=1.0).fit(X, noisy)
    model = MCLDCEClassifier(kind(T), operator=operator, alpha=1.0).fit(X, noisy)
    assert sparse.issparse(model.transition_)
    again = MCLDCEClassifier(kind(T), operator=operator, alpha=1.0).partial_fit(X[:100], noisy[:100], [0, 1, 2])
    again.partial_fit(X[100:], noisy[100:])
    solved = MCLDCEClassifier(kind(T), operator=operator, alpha=1.0).fit_sums(dense.sums_)
    for other in (model, again, solved):
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-10)
        np.testing.assert_allclose(other.centroid_, dense.centroid_, atol=1e-10)
        np.testing.assert_allclose(other.class_prior_, dense.class_prior_, atol=1e-10)
    cv, dense_cv = (MCLDCEClassifierCV(t, operator=operator, random_state=0).fit(X, noisy) for t in (kind(T), T))
    np.testing.assert_allclose(cv.risk_, dense_cv.risk_, rtol=1e-10)
    assert cv.alpha_ == dense_cv.alpha_


def test_a_sparse_T_goes_through_a_wide_fit_and_a_file(tmp_path, monkeypatch):
    pytest.importorskip("safetensors")
    import unflip

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 3
    T = asymmetric(3, {0: (1, 0.3)})
    model = MCLDCEClassifier(sparse.csr_array(T), alpha=1.0).fit(X, y)
    loaded = unflip.load(model.save(tmp_path / "model"))
    assert sparse.issparse(loaded.transition_)
    np.testing.assert_array_equal(loaded.transition_.toarray(), T)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(loaded.fit_sums(loaded.sums_).coef_, model.coef_, atol=1e-12)
    monkeypatch.setattr("unflip.linear.mcldce.WIDE_SPARSE", 1)
    wide = MCLDCEClassifier(sparse.csr_array(T), alpha=1.0).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(wide.coef_, model.coef_, atol=1e-6)


def test_thousands_of_classes_never_fill_in_a_sparse_T():
    """2,000 x 2,000 numbers are 32 MB; sums of 2,000 x 8 and a sparse T need a twentieth of that."""
    c, d = 2_000, 8
    rng = np.random.default_rng(0)
    T = pairflip_sparse(c, 0.4)
    clean = ClassSums.of(rng.normal(size=(20_000, d)) + 3, np.arange(20_000) % c, c)
    noisy = ClassSums(T.T @ clean.counts, clean.mean, T.T @ clean.centred_sums, clean.scatter)
    tracemalloc.start()
    model = MCLDCEClassifier(T, alpha=1.0).fit_sums(noisy)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32e6 / 10
    np.testing.assert_allclose(model.centroid_, clean.centroid, atol=1e-10)
    np.testing.assert_allclose(model.class_prior_, 1 / c)
    ridge = MCLDCEClassifier(sparse.eye_array(c), alpha=1.0).fit_sums(clean)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-10)


T10 = pairflip(10, 0.4)
ALPHAS = [1e-1, 1e2, 1e5, 1e8]


@pytest.fixture(scope="module")
def noisy_digits():
    X, y = load_digits(return_X_y=True)
    return X, y, corrupt(y, T10, random_state=0)


def risk_naively(X, noisy, alpha, cv, weights):
    """Fit on the training rows, score on the held-out rows, average over all rows."""
    labels = corrected_labels(T10)
    risks = []
    for train, test in cv.split(X):
        model = MCLDCEClassifier(T10, alpha=alpha).fit(X[train], noisy[train], weights[train])
        scores = model.decision_function(X[test])
        risks.append(decomposed_risk(scores, noisy[test], labels, weights[test]).total)
    return np.average(risks, weights=[weights[test].sum() for _, test in cv.split(X)])


@pytest.mark.parametrize("cv", [KFold(4), ShuffleSplit(3, random_state=0)], ids=["partition", "overlapping"])
@pytest.mark.parametrize("weighted", [False, True])
def test_risk_equals_a_naive_cross_validation(noisy_digits, cv, weighted):
    X, _, noisy = noisy_digits
    weights = (np.arange(len(noisy)) % 3).astype(float) if weighted else None
    model = MCLDCEClassifierCV(T10, alphas=ALPHAS, cv=cv).fit(X, noisy, weights)
    expected = [
        risk_naively(X, noisy, alpha, cv, np.ones(len(noisy)) if weights is None else weights) for alpha in ALPHAS
    ]
    np.testing.assert_allclose(model.risk_, expected, rtol=1e-8)
    assert model.alpha_ == ALPHAS[np.argmin(expected)]
    refit = MCLDCEClassifier(T10, alpha=model.alpha_).fit(X, noisy, weights)
    np.testing.assert_allclose(model.coef_, refit.coef_, atol=1e-10)


def test_risk_follows_the_risk_on_clean_labels(noisy_digits):
    """The noisy labels alone rank the penalties as the clean labels would, and cost nearly nothing."""
    X, y, noisy = noisy_digits
    cv = KFold(5, shuffle=True, random_state=0)
    corrected = MCLDCEClassifierCV(T10, cv=cv).fit(X, noisy)
    oracle = []
    for alpha in corrected.alphas_:
        risks = []
        for train, test in cv.split(X):
            scores = MCLDCEClassifier(T10, alpha=alpha).fit(X[train], noisy[train]).decision_function(X[test])
            risks.append(decomposed_risk(scores, y[test], np.eye(10)).total)
        oracle.append(np.mean(risks))
    assert np.corrcoef(corrected.risk_, oracle)[0, 1] > 0.9
    assert oracle[corrected.risk_.argmin()] < min(oracle) + 0.02


def test_sparse_and_wide_choose_alike(noisy_digits, monkeypatch):
    X, _, noisy = noisy_digits
    X, noisy = X[:600], noisy[:600]
    options = {"alphas": ALPHAS, "cv": KFold(3)}
    dense = MCLDCEClassifierCV(T10, **options).fit(X, noisy)
    monkeypatch.setattr("unflip.linear.mcldce.WIDE_SPARSE", 1)
    rows = MCLDCEClassifierCV(T10, **options).fit(sparse.csr_array(X), noisy)
    tried = np.isin(ALPHAS, rows.alphas_)
    np.testing.assert_allclose(rows.risk_, dense.risk_[tried], rtol=1e-4)
    assert rows.alpha_ == dense.alpha_
    np.testing.assert_allclose(rows.coef_, dense.coef_, atol=1e-6)


def test_a_sparse_search_ends_when_the_risk_has_risen_twice(noisy_digits, monkeypatch):
    X, _, noisy = noisy_digits
    X, noisy = X[:100], noisy[:100]
    dense = MCLDCEClassifierCV(T10, cv=3, random_state=0).fit(X, noisy)
    monkeypatch.setattr("unflip.linear.mcldce.WIDE_SPARSE", 1)
    rows = MCLDCEClassifierCV(T10, cv=3, random_state=0).fit(sparse.csr_array(X), noisy)
    np.testing.assert_allclose(rows.alphas_, dense.alphas_[-len(rows.alphas_) :])
    assert rows.risk_.argmin() == min(2, dense.risk_.argmin())
    np.testing.assert_allclose(rows.alpha_, dense.alpha_)
    backwards = MCLDCEClassifierCV(T10, alphas=dense.alphas_[::-1], cv=3, random_state=0)
    backwards.fit(sparse.csr_array(X), noisy)
    np.testing.assert_allclose(backwards.risk_[::-1], rows.risk_)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_wide_data_have_the_same_grid_and_skip_empty_folds(noisy_digits, monkeypatch, kind):
    X, _, noisy = noisy_digits
    X, noisy = X[:300], noisy[:300]
    weights = np.where(np.arange(300) < 100, 0.0, 1.0)  # the first of three folds counts nothing
    sums = MCLDCEClassifierCV(T10, cv=KFold(3)).fit(X, noisy, weights)
    monkeypatch.setattr("unflip.linear.mcldce._is_wide", lambda _: True)
    rows = MCLDCEClassifierCV(T10, cv=KFold(3)).fit(kind(X), noisy, weights)
    n = len(rows.alphas_)
    assert n == 17 or kind is not np.asarray
    np.testing.assert_allclose(rows.alphas_, sums.alphas_[-n:])
    np.testing.assert_allclose(rows.risk_[-13:], sums.risk_[-n:][-13:], rtol=1e-3)
    assert rows.alpha_ == pytest.approx(sums.alpha_)


def test_folds_as_sums(noisy_digits):
    X, _, noisy = noisy_digits
    folds = [ClassSums.of(X[test], noisy[test], 10) for _, test in KFold(4).split(X)]
    model = MCLDCEClassifierCV(T10, alphas=ALPHAS).fit_sums(folds)
    expected = MCLDCEClassifierCV(T10, alphas=ALPHAS, cv=KFold(4)).fit(X, noisy)
    np.testing.assert_allclose(model.risk_, expected.risk_, rtol=1e-10)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_names_of_any_fold_are_kept(noisy_digits):
    X, _, noisy = noisy_digits
    folds = [ClassSums.of(X[test], noisy[test], 10) for _, test in KFold(3).split(X)]
    names, features = [f"digit {k}" for k in range(10)], [f"pixel {j}" for j in range(64)]
    folds[1] = replace(folds[1], classes=names, feature_names=features)
    model = MCLDCEClassifierCV(T10, alphas=ALPHAS).fit_sums(folds)
    assert model.classes_.tolist() == names
    assert model.feature_names_in_.tolist() == features
    folds[2] = replace(folds[2], classes=names[1:] + names[:1])
    with pytest.raises(ValueError, match="differ in their classes"):
        MCLDCEClassifierCV(T10, alphas=ALPHAS).fit_sums(folds)


def test_default_grid_fits_data_of_any_scale(noisy_digits):
    X, _, noisy = noisy_digits
    a = MCLDCEClassifierCV(T10, random_state=0).fit(X, noisy)
    b = MCLDCEClassifierCV(T10, random_state=0).fit(X * 1e4, noisy)
    assert b.alpha_ == pytest.approx(a.alpha_ * 1e8)
    np.testing.assert_array_equal(a.predict(X), b.predict(X * 1e4))


def test_fewer_rows_than_folds():
    model = MCLDCEClassifierCV(symmetric(2, 0.1), random_state=0).fit([[0.0], [1.0], [0.1]], [0, 1, 0])
    np.testing.assert_array_equal(model.predict([[0.0], [1.0]]), [0, 1])


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"alphas": [0.0, 1.0]}, "alphas must be"),
        ({"alphas": []}, "alphas must be"),
        ({"alphas": 1.0}, "alphas must be"),
        ({"cv": 1}, "at least 2 folds"),
        ({"operator": "paper"}, "operator must be"),
    ],
)
def test_bad_parameters_of_a_search(noisy_digits, parameters, match):
    X, _, noisy = noisy_digits
    with pytest.raises(ValueError, match=match):
        MCLDCEClassifierCV(T10, **parameters).fit(X, noisy)


def test_no_sums():
    with pytest.raises(ValueError, match="no sums"):
        MCLDCEClassifier(T10).fit_sums([])


class TestPenaltyFromSumsAlone:
    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("operator", ["exact", "published"])
    def test_is_generalized_cross_validation(self, noisy_digits, fit_intercept, operator):
        X, _, noisy = noisy_digits
        X = X[:300, 20:40] + 1.0
        noisy = noisy[:300]
        options = {"operator": operator, "fit_intercept": fit_intercept}
        model = MCLDCEClassifier(T10, alphas=ALPHAS, **options).fit_sums(ClassSums.of(X, noisy, 10))
        prior = np.bincount(noisy, minlength=10) / 300
        t = Correction(T10, prior, operator)(np.eye(10)).T[noisy]
        expected = []
        for alpha in ALPHAS:
            ridge = Ridge(alpha, fit_intercept=fit_intercept).fit(X, t)
            Z = X - X.mean(axis=0) if fit_intercept else X
            df = np.trace(np.linalg.solve(Z.T @ Z + alpha * np.eye(20), Z.T @ Z)) + fit_intercept
            expected.append(np.mean(np.sum((ridge.predict(X) - t) ** 2, axis=1)) / (1 - df / 300) ** 2)
        np.testing.assert_allclose(model.risk_, expected)
        assert model.alpha_ == ALPHAS[np.argmin(expected)]

    def test_is_close_to_the_choice_by_folds(self, noisy_digits):
        X, y, noisy = noisy_digits
        folds = MCLDCEClassifier(T10, random_state=0).fit(X, noisy)
        alone = MCLDCEClassifier(T10).fit_sums(folds.sums_)
        assert abs(np.log10(alone.alpha_ / folds.alpha_)) <= 1
        assert abs(alone.score(X, y) - folds.score(X, y)) < 0.01

    def test_partial_fit_chooses_from_all_blocks(self, noisy_digits):
        X, _, noisy = noisy_digits
        model = MCLDCEClassifier(T10)
        for rows in np.array_split(np.arange(len(noisy)), 3):
            model.partial_fit(X[rows], noisy[rows], range(10))
        whole = MCLDCEClassifier(T10).fit_sums(ClassSums.of(X, noisy, 10))
        assert model.alpha_ == pytest.approx(whole.alpha_)
        np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-8)

    def test_a_given_penalty_needs_no_folds(self, noisy_digits):
        X, _, noisy = noisy_digits
        folds = [ClassSums.of(X[k::2], noisy[k::2], 10) for k in range(2)]
        model = MCLDCEClassifier(T10, alpha=3.0).fit_sums(folds)
        np.testing.assert_allclose(model.coef_, MCLDCEClassifier(T10, alpha=3.0).fit(X, noisy).coef_, atol=1e-10)
        assert model.alpha_ == 3.0

    def test_a_given_penalty_forgets_those_of_an_earlier_fit(self, noisy_digits):
        X, _, noisy = noisy_digits
        model = MCLDCEClassifier(T10).fit(X, noisy)
        assert hasattr(model, "risk_")
        model.set_params(alpha=1.0).fit(X, noisy)
        assert not hasattr(model, "risk_")
        assert not hasattr(model, "alphas_")

    def test_two_names_of_one_classifier(self, noisy_digits):
        X, _, noisy = noisy_digits
        a, b = (cls(T10, random_state=0).fit(X, noisy) for cls in (MCLDCEClassifier, MCLDCEClassifierCV))
        np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize("wide", [False, True])
def test_weights_that_leave_nothing_to_hold_out(wide):
    """All weight is on copies of two rows, which share a fold."""
    X = np.random.default_rng(0).normal(size=(12, 3))
    y, weight = np.arange(12) % 2, np.zeros(12)
    X[1] = X[0]
    weight[:2] = 1
    data = sparse.csr_matrix(X) if wide else X
    model = MCLDCEClassifierCV(symmetric(2, 0.1)).fit(data, y, sample_weight=weight)
    assert np.isfinite(model.predict_proba(data)).all()
