"""ULE: the corrected loss against Natarajan's formula, its optimum against scikit-learn's and a plain optimiser's."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad, minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from unflip.core.one_vs_rest import binary_labels, binary_rates
from unflip.linear import MCLDCEClassifier, ULEClassifier
from unflip.linear._factored_logistic import FactoredLogistic
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
    X, codes = rng.normal(1, 2, size=(40, 4)), rng.integers(3, size=40)
    return X, codes, T, np.array([0.3, 0.3, 0.4]), rng.uniform(0.5, 2, 40)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_risk_is_the_mean_of_the_unbiased_loss(problem, fit_intercept):
    X, codes, T, prior, weights = problem
    factored = FactoredLogistic.of(X, codes, weights, binary_labels(T, prior), 0.7, fit_intercept)
    rng = np.random.default_rng(1)
    W, b = rng.normal(size=(4, 3)), rng.normal(size=3) * fit_intercept
    expected = naive_risk(W, b, X, codes, T, prior, 0.7, weights)
    assert factored.risk(W, b + factored.mean @ W)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_gradient_equals_differences(problem, make):
    X, codes, T, prior, weights = problem
    factored = FactoredLogistic.of(make(X), codes, weights, binary_labels(T, prior), 0.7, True)

    def risk(x):
        return factored.risk(x[:12].reshape(4, 3), x[12:])[0]

    def gradient(x):
        return np.concatenate([g.ravel() for g in factored.risk(x[:12].reshape(4, 3), x[12:])[1:]])

    def stochastic(x):
        return np.concatenate([g.ravel() for g in factored.gradient(x[:12].reshape(4, 3), x[12:], np.arange(40))])

    x = np.random.default_rng(2).normal(size=15)
    np.testing.assert_allclose(stochastic(x), gradient(x), atol=1e-12)
    assert check_grad(risk, gradient, x) < 1e-5


def test_the_mean_over_the_noise_is_the_clean_loss():
    lost, gained = 0.3, 0.2
    for z in (-2.0, 0.1, 3.0):
        for y, rate in ((1, lost), (-1, gained)):
            mean = (1 - rate) * lemma_1(z, y, lost, gained) + rate * lemma_1(z, -y, lost, gained)
            assert mean == pytest.approx(logistic(z, y))
    assert lemma_1(5.0, 1, lost, gained) < 0  # and it is not clipped


def test_finds_the_minimum(problem):
    X, codes, T, prior, _ = problem
    model = ULEClassifier(T, alpha=5.0, tol=1e-9).fit(X, codes)
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
    model = ULEClassifier(np.eye(3), alpha=2.0, fit_intercept=fit_intercept, tol=1e-9).fit(X, y)
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
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        ULEClassifier(T, max_iter=2).fit(X, noisy)


@pytest.mark.parametrize("alpha", [0, -1.0, np.inf, "a lot"])
def test_bad_penalty(alpha, iris_like):
    with pytest.raises(ValueError, match="alpha must be a number > 0"):
        ULEClassifier(np.eye(3), alpha=alpha).fit(*iris_like)
