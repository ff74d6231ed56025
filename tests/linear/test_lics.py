"""LICSClassifier: the saddle point against a numerical minimiser, its limits, and inputs of every kind."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import Ridge, RidgeClassifier

from unflip.core.one_vs_rest import binary_labels, binary_rates
from unflip.linear.lics import LICSClassifier
from unflip.noise import asymmetric, corrupt, pairflip, symmetric

T2 = np.array([[0.8, 0.2], [0.35, 0.65]])
T3 = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])


def draw(T, n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(len(T), size=n, p=np.linspace(1, 2, len(T)) / np.linspace(1, 2, len(T)).sum())
    X = rng.normal(size=(len(T), d))[y] + rng.normal(1, 1, size=(n, d))
    return X, y, corrupt(y, T, random_state=rng.integers(2**31))


def centroid_and_covariance(X, noisy, T, prior, k):
    """m and V of class k with the constant 1 as last feature, sample by sample as the docstring has them."""
    lost, gained = (rate[k] for rate in binary_rates(T, prior))
    m, V = np.zeros(X.shape[1] + 1), np.zeros((X.shape[1] + 1, X.shape[1] + 1))
    for x, label in zip(np.column_stack([X, np.ones(len(X))]), noisy, strict=True):
        left = 1 - lost - gained
        if label == k:
            g, likelihood = (1 - (gained - lost)) / left, np.array([1 - lost, gained])
        else:
            g, likelihood = (-1 - (gained - lost)) / left, np.array([lost, 1 - gained])
        posterior = likelihood * [prior[k], 1 - prior[k]]
        posterior /= posterior.sum()
        v = posterior @ [4 * lost * (1 - lost), 4 * gained * (1 - gained)] / left**2
        m += g * x / len(X)
        V += v * np.outer(x, x) / len(X) ** 2
    return m, V


class TestMathematics:
    @pytest.mark.parametrize("T", [T2, T3], ids=["two classes", "three"])
    @pytest.mark.parametrize("smoothing", [0.5, 2.0, 5.0])
    def test_minimises_the_worst_case_risk(self, T, smoothing):
        X, _, noisy = draw(T)
        n, alpha = len(X), 20.0
        model = LICSClassifier(T, smoothing=smoothing, alpha=alpha).fit(X, noisy)
        ones = np.column_stack([X, np.ones(n)])
        for k in range(len(T)):
            m, V = centroid_and_covariance(X, noisy, T, model.class_prior_, k)

            def risk(w, m=m, V=V):
                fit = np.mean(1 + (ones @ w) ** 2) + alpha / n * np.sum(w[:-1] ** 2)
                return fit - 2 * w @ m + 2 * smoothing * np.sqrt(w @ V @ w)

            found = np.append(model.coef_[k], model.intercept_[k])
            best = minimize(risk, np.linalg.solve(ones.T @ ones / n, m), method="BFGS", options={"gtol": 1e-9})
            assert risk(found) <= best.fun + 1e-9
            np.testing.assert_allclose(found, best.x, atol=2e-5)

    def test_the_smoothed_centroid_is_on_the_ellipsoid_and_gives_the_model(self):
        """mu = m - r V w / |V^(1/2) w|, and w is ridge regression on mu."""
        X, _, noisy = draw(T3)
        model = LICSClassifier(T3, smoothing=2.0, alpha=20.0).fit(X, noisy)
        scores = model.decision_function(X)
        np.testing.assert_allclose(model.centroid_, X.T @ scores / 300 + 20 / 300 * model.coef_.T, atol=1e-12)
        for k in range(3):
            m, V = centroid_and_covariance(X, noisy, T3, model.class_prior_, k)
            w = np.append(model.coef_[k], model.intercept_[k])
            mu = m - 2.0 * V @ w / np.sqrt(w @ V @ w)
            np.testing.assert_allclose(model.centroid_[:, k], mu[:-1], atol=1e-10)
            np.testing.assert_allclose(model.smoothing_[k], 2.0 / np.sqrt(w @ V @ w), rtol=1e-8)

    def test_the_covariance_is_that_of_the_noise(self):
        """Redrawing the noise of two classes that flip at one rate, where v needs no average over clean labels."""
        T = symmetric(2, 0.3)
        X, y, _ = draw(T, n=60, d=2)
        prior = np.bincount(y) / 60
        noisy = corrupt(np.tile(y, 10_000), T, random_state=0).reshape(10_000, 60)
        centroids = binary_labels(T, prior)[noisy, 1] @ np.column_stack([X, np.ones(60)]) / 60
        m, V = centroid_and_covariance(X, noisy[0], T, prior, 1)
        np.testing.assert_allclose(centroids[0], m)
        np.testing.assert_allclose(np.cov(centroids.T), V, atol=0.04 * np.abs(V).max())

    def test_identity_gives_ridge(self):
        X, _, noisy = draw(T3)
        model = LICSClassifier(np.eye(3), smoothing=3.0, alpha=2.0).fit(X, noisy)
        ridge = Ridge(2.0).fit(X, 2 * np.eye(3)[noisy] - 1)
        np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-10)
        np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-10)
        np.testing.assert_array_equal(model.predict(X), RidgeClassifier(2.0).fit(X, noisy).predict(X))
        np.testing.assert_array_equal(model.smoothing_, 0)

    def test_without_smoothing_it_is_ridge_on_the_corrected_labels(self):
        X, _, noisy = draw(T3)
        model = LICSClassifier(T3, smoothing=0, alpha=2.0).fit(X, noisy)
        G = binary_labels(T3, model.class_prior_)
        ridge = Ridge(2.0).fit(X, G[noisy])
        np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-10)
        np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-10)
        np.testing.assert_allclose(model.centroid_, X.T @ G[noisy] / 300, atol=1e-12)

    def test_smoothing_vanishes_as_samples_grow(self):
        """V falls by 1/n, so the shift of w by 1/sqrt(n): a tenth for a hundred times the samples."""
        X, _, noisy = draw(T3)

        def shift(times):
            many = np.full(300, float(times))
            smooth, plain = (LICSClassifier(T3, smoothing=r, alpha=times).fit(X, noisy, many) for r in (1.0, 0.0))
            return np.linalg.norm(smooth.coef_ - plain.coef_)

        shifts = [shift(times) for times in (1, 100, 10_000)]
        assert 5 < shifts[0] / shifts[1] < 20
        assert 9 < shifts[1] / shifts[2] < 11

    def test_a_large_radius_leaves_nothing(self):
        """w = 0 is optimal from r = sqrt(m' V^-1 m) on, and not before."""
        X, _, noisy = draw(T2)
        prior = LICSClassifier(T2).fit(X, noisy).class_prior_
        m, V = centroid_and_covariance(X, noisy, T2, prior, 1)
        limit = np.sqrt(m @ np.linalg.solve(V, m))
        below = LICSClassifier(T2, smoothing=0.99 * limit).fit(X, noisy)
        assert np.isfinite(below.smoothing_).all()
        assert np.abs(below.coef_).max() > 1e-4
        above = LICSClassifier(T2, smoothing=1.01 * limit).fit(X, noisy)
        np.testing.assert_array_equal(above.smoothing_, np.inf)
        np.testing.assert_allclose(np.append(above.coef_, above.intercept_), 0, atol=1e-12)
        np.testing.assert_allclose(above.predict_proba(X), 0.5)

    def test_a_class_that_the_noise_spares_is_not_smoothed(self):
        T = asymmetric(3, {0: (1, 0.4)})
        X, _, noisy = draw(T)
        model = LICSClassifier(T, smoothing=5.0).fit(X, noisy)
        np.testing.assert_allclose(model.coef_[2], Ridge().fit(X, 2.0 * (noisy == 2) - 1).coef_, atol=1e-6)
        assert (model.smoothing_[:2] > 0).all()

    def test_equal_noise_shortens_all_scores_of_two_classes_by_one_factor(self):
        T = symmetric(2, 0.3)
        X, _, noisy = draw(T)
        plain, smooth = (LICSClassifier(T, smoothing=r, alpha=0).fit(X, noisy) for r in (0, 2.0))
        ratio = smooth.decision_function(X) / plain.decision_function(X)
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-8)
        assert 0 < ratio[0] < 1

    @pytest.mark.parametrize("scale", [1.0, 1e6])
    def test_singular_gram(self, scale):
        X, _, noisy = draw(T3)
        doubled = np.hstack([X, scale * X, np.full((300, 1), 0.1), np.zeros((300, 1))])
        model = LICSClassifier(T3, alpha=0.0).fit(doubled, noisy)
        plain = LICSClassifier(T3, alpha=0.0).fit(X, noisy)
        np.testing.assert_allclose(model.decision_function(doubled), plain.decision_function(X), atol=1e-6)

    def test_features_far_from_zero(self):
        X, _, noisy = draw(T3)
        a, b = LICSClassifier(T3).fit(X, noisy), LICSClassifier(T3).fit(X + 1e5, noisy)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X + 1e5), atol=1e-6)


class TestInputs:
    def test_weights_are_counts(self):
        X, _, noisy = draw(T3)
        counts = np.arange(300) % 3
        weighted = LICSClassifier(T3, smoothing=3.0).fit(X, noisy, counts)
        repeated = LICSClassifier(T3, smoothing=3.0).fit(np.repeat(X, counts, axis=0), np.repeat(noisy, counts))
        for name in ("coef_", "intercept_", "centroid_", "smoothing_"):
            np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-8, atol=1e-10)

    @pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix])
    def test_sparse_equals_dense(self, kind):
        X, _, noisy = draw(T3)
        X[np.abs(X) < 0.5] = 0
        a, b = LICSClassifier(T3).fit(X, noisy), LICSClassifier(T3).fit(kind(X), noisy)
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-10)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(kind(X)), atol=1e-10)

    def test_single_precision(self):
        X, _, noisy = draw(T3)
        a, b = LICSClassifier(T3).fit(X, noisy), LICSClassifier(T3).fit(X.astype(np.float32), noisy)
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-5)
        assert b.decision_function(X.astype(np.float32)).dtype == np.float32

    def test_blocks_add_up(self, monkeypatch):
        X, _, noisy = draw(T3)
        whole = LICSClassifier(T3).fit(X, noisy)
        monkeypatch.setattr("unflip.linear.lics.BLOCK", 28)
        np.testing.assert_allclose(LICSClassifier(T3).fit(X, noisy).coef_, whole.coef_, atol=1e-10)

    def test_no_copy_of_X(self):
        """Some arrays of one number a row; the rows of one class would be 16 of them."""

        def peak(n):
            X = np.random.default_rng(0).normal(size=(n, 32))
            y = (X[:, 0] > 0).astype(int)
            model = LICSClassifier(symmetric(2, 0.1))
            tracemalloc.start()
            model.fit(X, y)
            used = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return used

        assert peak(300_000) - peak(100_000) < 8 * 8 * 200_000


BAD = {
    "smoothing": ({"smoothing": -1.0}, "smoothing must be a number >= 0; got -1.0"),
    "infinite smoothing": ({"smoothing": np.inf}, "smoothing must be"),
    "alpha": ({"alpha": "1"}, "alpha must be a number >= 0; got '1'"),
    "transition": ({"transition": np.eye(2)}, "2 x 2"),
}


@pytest.mark.parametrize(("parameters", "match"), BAD.values(), ids=BAD)
def test_bad_input(parameters, match):
    X, _, noisy = draw(T3)
    with pytest.raises(ValueError, match=match):
        LICSClassifier(**{"transition": T3, **parameters}).fit(X, noisy)


@pytest.mark.parametrize(
    ("T", "least"),
    [(symmetric(10, 0.6), 0.81), (pairflip(10, 0.4), 0.74)],
    ids=["sym 60", "pair 40"],
)
def test_real_features(features, T, least):
    """Pair noise is none that two rates describe, and the correction falls behind that by T (above 0.83)."""
    X, y, X_test, y_test = features
    assert LICSClassifier(T).fit(X, corrupt(y, T, random_state=0)).score(X_test, y_test) >= least
