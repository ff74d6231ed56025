"""ULE: the corrected loss against Natarajan's formula, its optimum against scikit-learn's and a plain optimiser's."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad, minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from unflip.core import clean_prior
from unflip.core.one_vs_rest import binary_labels, binary_rates
from unflip.linear import MCLDCEClassifier, ULEClassifier
from unflip.linear.ule import FactoredLogistic
from unflip.noise import corrupt, pairflip, symmetric


def logistic(z, y):
    return np.log1p(np.exp(-y * z))


def lemma_1(z, y, lost, gained):
    """The unbiased loss as Natarajan et al. print it; y = +1 flips at rate lost, -1 at rate gained."""
    own, other = (lost, gained) if y == 1 else (gained, lost)
    return ((1 - other) * logistic(z, y) - own * logistic(z, -y)) / (1 - lost - gained)


def naive_risk(W, b, X, codes, T, prior, alpha, weights):
    lost, gained = binary_rates(T, prior)
    total = 0.0
    for x, code, w in zip(X, codes, weights, strict=True):
        for k in range(len(T)):
            total += w * lemma_1(W[:, k] @ x + b[k], 1 if code == k else -1, lost[k], gained[k])
    return (total + alpha / 2 * np.sum(W**2)) / weights.sum()


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    T = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])
    X, codes, weights = rng.normal(1, 2, size=(40, 4)), rng.integers(3, size=40), rng.uniform(0.5, 2, 40)
    return X, codes, T, clean_prior(np.bincount(codes, weights) / weights.sum(), T), weights


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_risk_is_the_mean_of_the_unbiased_loss(problem, fit_intercept):
    X, codes, T, prior, weights = problem
    factored = FactoredLogistic.of(X, codes, weights, binary_labels(T, prior), prior, 0.7, fit_intercept)
    rng = np.random.default_rng(1)
    W, b = rng.normal(size=(4, 3)), rng.normal(size=3) * fit_intercept
    expected = naive_risk(W, b, X, codes, T, prior, 0.7, weights)
    assert factored.risk(W, b + factored.mean @ W)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_gradient_equals_differences(problem, make):
    X, codes, T, prior, weights = problem
    factored = FactoredLogistic.of(make(X), codes, weights, binary_labels(T, prior), prior, 0.7, True)

    def risk(x):
        return factored.risk(x[:12].reshape(4, 3), x[12:])[0]

    def gradient(x):
        return np.concatenate([g.ravel() for g in factored.risk(x[:12].reshape(4, 3), x[12:])[1:]])

    def stochastic(x):
        return np.concatenate([g.ravel() for g in factored.gradient(x[:12].reshape(4, 3), x[12:], np.arange(40))])

    x = np.random.default_rng(2).normal(size=15)
    np.testing.assert_allclose(stochastic(x), gradient(x), atol=1e-12)
    assert check_grad(risk, gradient, x) < 1e-5


def test_the_mean_over_the_noise_is_the_risk_of_clean_labels():
    """Every sample with every noisy label, weighted by its probability: no sampling is left."""
    T, rng = np.array([[0.7, 0.3], [0.2, 0.8]]), np.random.default_rng(0)
    X, clean = rng.normal(size=(30, 3)), rng.integers(2, size=30)
    prior, noisy = np.bincount(clean) / 30, np.tile([0, 1], 30)
    W, b = 5 * rng.normal(size=(3, 2)), rng.normal(size=2)
    truth = FactoredLogistic.of(X, clean, np.ones(30), 2 * np.eye(2) - 1, prior, 1.0, True)
    corrected = FactoredLogistic.of(
        np.repeat(X, 2, axis=0), noisy, T[clean].ravel(), binary_labels(T, prior), prior, 1.0, True
    )
    assert corrected.risk(W, b)[0] == pytest.approx(truth.risk(W, b)[0], rel=1e-12)


def test_a_loss_may_be_negative_and_is_not_clipped():
    X, T, prior = np.array([[10.0], [-10.0]]), symmetric(2, 0.3), np.array([0.5, 0.5])
    sure = FactoredLogistic.of(X, np.array([1, 0]), np.ones(2), binary_labels(T, prior), prior, 1e-9, True)
    W, b = np.array([[-1.0, 1.0]]), np.zeros(2)
    expected = 2 * lemma_1(10.0, 1, 0.3, 0.3)
    assert expected < -1
    assert sure.risk(W, b)[0] == pytest.approx(expected, rel=1e-6)


def test_the_unit_of_the_weights_does_not_matter(digits):
    X, _, noisy, T = digits
    n = len(noisy)
    a = ULEClassifier(T, alpha=1000.0, tol=1e-7).fit(X, noisy, np.ones(n))
    b = ULEClassifier(T, alpha=1000.0 / n, tol=1e-7).fit(X, noisy, np.full(n, 1 / n))
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-4)


def test_a_class_with_less_than_no_samples():
    """3 of 60 labels where the noise alone would make 24: the clean prior is moved to the simplex."""
    X, y = np.random.default_rng(1).normal(size=(60, 2)), np.repeat([0, 1], [3, 57])
    model = ULEClassifier(symmetric(2, 0.4), alpha=100.0).fit(X, y)
    assert model.class_prior_[0] == 0
    assert np.isfinite(model.risk_)
    assert model.predict_proba(X)[:, 0].max() < 0.01


def test_finds_the_minimum(problem):
    X, codes, T, prior, _ = problem
    model = ULEClassifier(T, alpha=5.0, tol=1e-7).fit(X, codes)
    prior, ones = model.class_prior_, np.ones(len(codes))
    plain = minimize(
        lambda x: naive_risk(x[:12].reshape(4, 3), x[12:], X, codes, T, prior, 5.0, ones), np.zeros(15), tol=1e-8
    )
    assert model.risk_ == pytest.approx(plain.fun, abs=1e-8)
    np.testing.assert_allclose(model.coef_.T.ravel(), plain.x[:12], atol=1e-4)
    np.testing.assert_allclose(model.intercept_, plain.x[12:], atol=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_identity_is_one_vs_rest_logistic_regression(iris_like, fit_intercept):
    X, y = iris_like
    model = ULEClassifier(np.eye(3), alpha=2.0, fit_intercept=fit_intercept, tol=1e-7).fit(X, y)
    plain = OneVsRestClassifier(LogisticRegression(C=0.5, fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000))
    plain.fit(X, y)
    np.testing.assert_allclose(model.coef_, [m.coef_[0] for m in plain.estimators_], atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-5)


@pytest.fixture(scope="module")
def iris_like():
    from sklearn.datasets import load_iris

    return load_iris(return_X_y=True)


def test_float32_and_sparse_give_nearly_the_same(digits):
    X, _, noisy, T = digits
    X, noisy = X[:600], noisy[:600]
    full = ULEClassifier(T, alpha=50.0).fit(X, noisy)
    for other in (X.astype(np.float32), sparse.csr_array(X)):
        model = ULEClassifier(T, alpha=50.0).fit(other, noisy)
        assert model.risk_ == pytest.approx(full.risk_, abs=1e-4)
        assert np.mean(model.predict(other) == full.predict(X)) > 0.995


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    T = symmetric(10, 0.4)
    return X, y, corrupt(y, T, random_state=0), T


def test_undoes_one_sided_noise_of_two_classes(digits):
    X, y, _, _ = digits
    y = (y >= 5).astype(int)
    T = np.array([[1.0, 0.0], [0.45, 0.55]])
    noisy = corrupt(y, T, random_state=0)
    plain = ULEClassifier(np.eye(2), alpha=100.0).fit(X, noisy).score(X, y)
    assert ULEClassifier(T, alpha=100.0).fit(X, noisy).score(X, y) > plain + 0.05


def test_pair_noise_needs_the_operator_of_all_classes(digits):
    X, y, _, _ = digits
    T = pairflip(10, 0.4)
    noisy = corrupt(y, T, random_state=0)
    binary = max(ULEClassifier(T, alpha=alpha).fit(X, noisy).score(X, y) for alpha in (1e2, 1e3, 1e4))
    assert MCLDCEClassifier(T, alpha=1000.0).fit(X, noisy).score(X, y) > binary + 0.05


def test_warns_when_the_iterations_run_out(digits):
    X, _, noisy, T = digits
    with pytest.warns(ConvergenceWarning, match="after 2 iterations .* Raise alpha"):
        ULEClassifier(T, max_iter=2).fit(X, noisy)


@pytest.mark.parametrize("alpha", [0, -1.0, np.inf, "a lot"])
def test_bad_penalty(alpha, iris_like):
    with pytest.raises(ValueError, match="alpha must be a number > 0"):
        ULEClassifier(np.eye(3), alpha=alpha).fit(*iris_like)


@pytest.mark.parametrize("bad", [{"max_iter": 0}, {"max_iter": 2.5}, {"tol": 0}, {"tol": np.nan}, {"tol": "low"}])
def test_bad_parameters(bad, iris_like):
    with pytest.raises(ValueError, match=next(iter(bad))):
        ULEClassifier(np.eye(3), **bad).fit(*iris_like)


def test_wide_sparse_data_need_no_square_matrix():
    random = np.random.default_rng(0)
    X = sparse.csr_array(np.where(random.random((200, 3000)) < 0.02, random.random((200, 3000)), 0))
    y = (X @ np.random.default_rng(1).normal(size=3000) > 0).astype(int)
    sparse_fit = ULEClassifier(symmetric(2, 0.1), alpha=0.1).fit(X, y)
    dense_fit = ULEClassifier(symmetric(2, 0.1), alpha=0.1).fit(X[:, :1000], y)
    assert sparse_fit.score(X, y) > 0.95
    assert dense_fit.score(X[:, :1000], y) > 0.8
    few = FactoredLogistic.of(X, y, np.ones(200), 2 * np.eye(2) - 1, np.bincount(y) / 200, 1.0, True)
    assert few.scatter is None
    np.testing.assert_allclose(few.variance, X.toarray().var(axis=0), atol=1e-12)
    expected = (X.toarray() - X.toarray().mean(axis=0)).T @ (2 * np.eye(2) - 1)[y] / 200
    np.testing.assert_allclose(few.operator, expected, atol=1e-12)
