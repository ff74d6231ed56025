"""RidgeEM: T of wide sparse data, and the ridge regression with probabilities that it uses."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from unflip.linear import MCLDCEClassifier
from unflip.metrics import transition_error
from unflip.models.arrays import LinearScores, as_arrays
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import RidgeEM, VolMin, estimate_transition
from unflip.transition.ridge import ALPHA, RidgeModel, held_out_scores, ridge_scores


@parametrize_with_checks([RidgeEM()])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def words():
    """1,500 texts of 1,200 words in four classes, whose own words are more frequent."""
    random = np.random.default_rng(0)
    y = random.integers(4, size=1500)
    rates = 0.004 + 0.02 * np.eye(4)[y].repeat(300, axis=1)
    return sparse.csr_array((random.random((1500, 1200)) < rates).astype(np.float64)), y


def test_the_model_is_ridge_regression_on_one_hot_labels(words):
    X, y = words
    weights = np.linspace(0.5, 2, len(y))
    penalty = ALPHA * (weights @ X.sum(axis=1)) / weights.sum()
    ridge = Ridge(penalty, solver="sparse_cg", tol=1e-12).fit(X, np.eye(4)[y], weights)
    model = RidgeModel().fit(X, y, weights)
    np.testing.assert_allclose(model.predict_proba(X), softmax(4 * ridge.predict(X), axis=1), atol=0.01)
    saved = as_arrays(model)
    assert type(saved) is LinearScores
    np.testing.assert_array_equal(saved.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_held_out_scores_are_those_of_a_model_per_fold(words, n_classes):
    X, y = words
    codes, folds = y % n_classes, np.arange(len(y)) % 3 * 2  # of the folds 0 to 4, two are empty
    X = sparse.csr_array(sparse.diags_array(1 / np.sqrt(np.maximum(X.sum(axis=1), 1))) @ X)  # rows of norm one
    weights = np.linspace(0.5, 2, len(y))
    found = held_out_scores(X, codes, weights, n_classes, ALPHA, folds)
    for k in (0, 2, 4):
        seen = folds != k
        W, b = ridge_scores(X[seen], codes[seen], weights[seen], n_classes, ALPHA)
        np.testing.assert_allclose(found[~seen], X[~seen] @ W + b, atol=0.01)


@pytest.mark.parametrize("make", [symmetric, pairflip])
def test_finds_the_noise(words, make):
    X, y = words
    T = make(4, 0.3)
    found = RidgeEM().fit(X, np.array(list("abcd"))[corrupt(y, T, random_state=0)])
    assert transition_error(found.transition_, T) < 0.15
    assert found.classes_.tolist() == list("abcd")
    # One rate unless the labels show more than one.
    assert (len(np.unique(found.transition_.round(6))) == 2) == (make is symmetric)
    assert (found.transition_std_ < 0.1).all()


def test_weights_are_repetitions_and_zero_is_absence(words):
    X, y = words
    noisy = corrupt(y, pairflip(4, 0.3), random_state=0)
    weights = np.random.default_rng(1).integers(0, 3, size=len(y))
    repeated = np.repeat(np.arange(len(y)), weights)
    one, other = RidgeEM().fit(X, noisy, weights), RidgeEM().fit(X[repeated], noisy[repeated])
    np.testing.assert_allclose(one.transition_, other.transition_, atol=0.01)  # no label is ruled out, by the rows


def test_is_the_default_for_wide_sparse_data_only(words):
    X, y = words
    noisy = corrupt(y, pairflip(4, 0.3), random_state=0)
    np.testing.assert_array_equal(estimate_transition(X, noisy), RidgeEM().fit(X, noisy).transition_)
    model = MCLDCEClassifier().fit(X, noisy)
    assert isinstance(model.transition_estimator_, RidgeEM)
    assert model.score(X, y) > 0.8
    narrow, few = X[:400, ::60].toarray(), noisy[:400]
    np.testing.assert_array_equal(estimate_transition(narrow, few), VolMin().fit(narrow, few).transition_)
    assert isinstance(MCLDCEClassifier().fit(narrow, few).transition_estimator_, VolMin)


def test_rows_that_are_all_the_same():
    X = sparse.csr_array(np.ones((10, 3)))
    with pytest.raises(ValueError, match="needs different rows"):
        RidgeEM().fit(X, [0, 1] * 5)


@pytest.mark.parametrize("weight", [1e-6, 1 / 1500])
def test_less_than_one_label_per_row_changes_nothing(words, weight):
    X, y = words
    noisy = corrupt(y, pairflip(4, 0.3), random_state=0)
    plain, light = RidgeEM().fit(X, noisy), RidgeEM().fit(X, noisy, np.full(len(y), weight))
    np.testing.assert_allclose(light.transition_, plain.transition_, atol=1e-3)


@pytest.mark.parametrize("unit", [1e-20, 1e20])
def test_the_unit_changes_nothing(words, unit):
    X, y = words
    noisy = corrupt(y, pairflip(4, 0.3), random_state=0)
    plain, other = RidgeEM().fit(X, noisy), RidgeEM().fit(unit * X, noisy)
    np.testing.assert_allclose(other.transition_, plain.transition_, atol=1e-3)
