"""muSGD: the factored risk against Patrini's formula, equal to ULE's, and descent to its minimum."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from tests.linear.test_ule import naive_risk
from unflip.core.one_vs_rest import binary_rates
from unflip.linear import MuSGDClassifier, ULEClassifier
from unflip.noise import corrupt

T = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y, corrupt(y, T, random_state=0)


def naive_factored_risk(W, b, X, codes, T, prior, alpha):
    """The risk as Patrini et al. factor it: the doubled sample, and the mean operator with a = -1/2."""
    lost, gained = binary_rates(T, prior)
    ones = np.column_stack([X, np.ones(len(X))])
    total = alpha / (2 * len(X)) * np.sum(W**2)
    for k in range(len(T)):
        theta = np.append(W[:, k], b[k])
        edges = [((1 if code == k else -1) - (gained[k] - lost[k])) / (1 - gained[k] - lost[k]) for code in codes]
        mu = np.mean([g * x for g, x in zip(edges, ones, strict=True)], axis=0)
        doubled = [np.log1p(np.exp(-s * theta @ x)) for x in ones for s in (-1, 1)]
        total += np.mean(doubled) - theta @ mu / 2
    return total


def test_its_objective_is_that_of_ule(iris):
    X, _, noisy = iris
    rng = np.random.default_rng(0)
    prior = np.array([0.2, 0.5, 0.3])
    for _ in range(3):
        W, b = rng.normal(size=(4, 3)), rng.normal(size=3)
        lemma_1 = naive_risk(W, b, X, noisy, T, prior, 3.0, np.ones(len(X)))
        assert naive_factored_risk(W, b, X, noisy, T, prior, 3.0) == pytest.approx(lemma_1, rel=1e-12)


def test_its_risk_is_that_objective_at_its_weights(iris):
    X, _, noisy = iris
    model = MuSGDClassifier(T, alpha=3.0, random_state=0).fit(X, noisy)
    at = (model.coef_.T, model.intercept_, X, noisy, T, model.class_prior_, 3.0)
    assert model.risk_ == pytest.approx(naive_factored_risk(*at), rel=1e-10)
    assert model.risk_ == pytest.approx(naive_risk(*at, np.ones(len(X))), rel=1e-10)


def test_mean_operator_equals_a_loop(iris):
    X, _, noisy = iris
    model = MuSGDClassifier(T, fit_intercept=False, epochs=1, random_state=0).fit(X, noisy)
    lost, gained = model.noise_rates_.T
    expected = np.zeros((3, 4))
    for x, code in zip(X, noisy, strict=True):
        for k in range(3):
            s = 1 if code == k else -1
            expected[k] += (s - (gained[k] - lost[k])) / (1 - gained[k] - lost[k]) * x / len(X)
    np.testing.assert_allclose(model.mean_operator_, expected, atol=1e-12)


def test_descends_to_the_minimum_of_ule(iris):
    X, _, noisy = iris
    best = ULEClassifier(T, alpha=10.0, tol=1e-7).fit(X, noisy)
    gaps = [
        MuSGDClassifier(T, alpha=10.0, epochs=epochs, random_state=0).fit(X, noisy).risk_ - best.risk_
        for epochs in (10, 100, 1000)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.01


def test_identity_is_one_vs_rest_logistic_regression(iris):
    X, y, _ = iris
    plain = OneVsRestClassifier(LogisticRegression(C=0.1)).fit(X, y)
    model = MuSGDClassifier(np.eye(3), alpha=10.0, epochs=2000, batch_size=50, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=0.02)


def test_large_numbers_that_vary_little_are_used():
    y = np.repeat([0, 1], 100)
    X = (1.7e9 + 1e3 * (y + np.random.default_rng(0).uniform(0, 0.5, 200)))[:, np.newaxis]
    assert MuSGDClassifier(np.eye(2), alpha=1e-3, random_state=0).fit(X, y).score(X, y) == 1


def test_a_batch_of_all_samples_is_the_full_gradient(iris):
    X, _, noisy = iris
    a = MuSGDClassifier(T, alpha=10.0, batch_size=150, epochs=50, random_state=0).fit(X, noisy)
    b = MuSGDClassifier(T, alpha=10.0, batch_size=10_000, epochs=50, random_state=1).fit(X, noisy)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-10)


def test_features_of_any_scale(iris):
    X, _, noisy = iris
    factor = np.array([1e-3, 1.0, 1e3, 1e5])
    a = MuSGDClassifier(T, alpha=1e-9, random_state=0).fit(X, noisy)
    b = MuSGDClassifier(T, alpha=1e-9, random_state=0).fit(X * factor, noisy)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X * factor), atol=1e-3)


def test_sparse_equals_dense(iris):
    X, _, noisy = iris
    a, b = (MuSGDClassifier(T, random_state=0).fit(data, noisy) for data in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)


def test_zero_weights_leave_samples_out(iris):
    X, _, noisy = iris
    kept = np.arange(150) % 3 > 0
    a = MuSGDClassifier(T, random_state=0).fit(X, noisy, sample_weight=kept.astype(float))
    b = MuSGDClassifier(T, random_state=0).fit(X[kept], noisy[kept])
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-12)


def test_undoes_one_sided_noise_of_two_classes():
    X, y = load_digits(return_X_y=True)
    y = (y >= 5).astype(int)
    one_sided = np.array([[1.0, 0.0], [0.45, 0.55]])
    noisy = corrupt(y, one_sided, random_state=0)
    plain = MuSGDClassifier(np.eye(2), alpha=10.0, random_state=0).fit(X, noisy).score(X, y)
    assert MuSGDClassifier(one_sided, alpha=10.0, random_state=0).fit(X, noisy).score(X, y) > plain + 0.05


@pytest.mark.parametrize("bad", [{"epochs": 0}, {"batch_size": 0}, {"epochs": 1.5}, {"alpha": 0}])
def test_bad_parameters(bad, iris):
    X, _, noisy = iris
    with pytest.raises(ValueError, match=next(iter(bad))):
        MuSGDClassifier(T, **bad).fit(X, noisy)
