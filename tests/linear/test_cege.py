"""CEGEClassifier: both estimates and their coefficient against the definition and by simulation; limits; inputs."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import Ridge, RidgeClassifier

from unflip.core.one_vs_rest import binary_labels
from unflip.linear.cege import CEGEClassifier
from unflip.noise import corrupt, pairflip, symmetric

T2 = np.array([[0.9, 0.1], [0.4, 0.6]])
T3 = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])
PRIOR2 = np.array([0.6, 0.4])
PRIOR3 = np.array([0.2, 0.3, 0.5])


def draw(T, prior, n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(len(T), size=n, p=prior)
    X = np.random.default_rng(9).normal(size=(len(T), d))[y] * 1.5 + rng.normal(1, 1, size=(n, d))
    return X, y, corrupt(y, T, random_state=rng.integers(2**31))


def two_estimates(X, noisy, k, rates, share):
    """mu1 and mu2 of class k as the docstring has them; ``share`` is q+."""
    lost, gained = rates
    left = 1 - lost - gained
    everyone = X.mean(axis=0)
    first = 2 * (share * X[noisy == k].mean(axis=0) - gained * everyone) / left - everyone
    second = everyone - 2 * ((1 - share) * X[noisy != k].mean(axis=0) - lost * everyone) / left
    return first, second


class TestEstimates:
    @pytest.mark.parametrize(("T", "prior"), [(T2, PRIOR2), (T3, PRIOR3)], ids=["two classes", "three"])
    def test_combines_both(self, T, prior):
        X, _, noisy = draw(T, prior)
        model = CEGEClassifier(T, class_prior=prior).fit(X, noisy)
        np.testing.assert_array_equal(model.class_prior_, prior)
        for k, a in enumerate(model.coefficient_):
            first, second = two_estimates(X, noisy, k, model.noise_rates_[k], (prior @ T)[k])
            assert np.abs(first - second).max() > 1e-3
            np.testing.assert_allclose(model.centroid_[:, k], a * first + (1 - a) * second, atol=1e-12)

    def test_coefficient_as_derived(self):
        """With the observed shares, distances and the spread within both sets written out."""
        X, _, noisy = draw(T3, PRIOR3)
        model = CEGEClassifier(T3, class_prior=PRIOR3).fit(X, noisy)
        for k, (lost, gained) in enumerate(model.noise_rates_):
            own, rest = X[noisy == k], X[noisy != k]
            within = np.sum((own - own.mean(axis=0)) ** 2) + np.sum((rest - rest.mean(axis=0)) ** 2)
            s = within / len(X)
            errors = s / len(own) + s / len(rest)
            distance = np.sum((own.mean(axis=0) - rest.mean(axis=0)) ** 2) - errors
            assert distance > 0
            a = ((1 + lost - gained) / 2 * distance + s / len(rest)) / (distance + errors)
            np.testing.assert_allclose(model.coefficient_[k], a, rtol=1e-10)

    def test_unbiased_and_less_variable_than_either(self):
        rng = np.random.default_rng(0)
        centres = np.array([[0.0, 2.0], [4.0, 0.0]])
        estimates = []  # first, second, combined
        for _ in range(400):
            y = (rng.random(100) < PRIOR2[1]).astype(int)
            X = centres[y] + rng.normal(size=(100, 2))
            noisy = np.where(rng.random(100) < T2[y, 1], 1, 0)
            model = CEGEClassifier(T2, class_prior=PRIOR2).fit(X, noisy)
            both = two_estimates(X, noisy, 1, model.noise_rates_[1], (PRIOR2 @ T2)[1])
            estimates.append([*both, model.centroid_[:, 1]])
        error = np.std(estimates, axis=0) / np.sqrt(400)
        truth = PRIOR2[1] * centres[1] - PRIOR2[0] * centres[0]
        assert (np.abs(np.mean(estimates, axis=0) - truth) < 4 * error).all()
        first, second, combined = np.var(estimates, axis=0).sum(axis=1)
        assert combined < 0.9 * min(first, second)

    @pytest.mark.parametrize(("n", "apart"), [(60, 0.0), (60, 1.0), (500, 1.0)])
    def test_the_derivation_by_simulation(self, n, apart):
        """20,000 draws of y, noise and x: the variance and the covariance that the coefficient is made of."""
        rng = np.random.default_rng(0)
        lost, gained, prior, draws = 0.4, 0.1, 0.4, 20_000
        left, q = 1 - lost - gained, prior * (1 - lost) + (1 - prior) * gained
        y = rng.random((draws, n)) < prior
        noisy = rng.random((draws, n)) < np.where(y, 1 - lost, gained)
        x = 3 + apart * y + rng.normal(size=(draws, n))
        count = noisy.sum(axis=1)
        own, rest = np.sum(x * noisy, axis=1) / count, np.sum(x * ~noisy, axis=1) / (n - count)
        first = 2 * (q * own - gained * x.mean(axis=1)) / left - x.mean(axis=1)
        second = x.mean(axis=1) - 2 * ((1 - q) * rest - lost * x.mean(axis=1)) / left

        pure, mixed = prior * (1 - lost) / q, prior * lost / (1 - q)  # P(y = +1 | noisy)
        distance = apart**2 * (pure - mixed) ** 2
        error = (1 + apart**2 * pure * (1 - pure)) / (n * q)
        error_rest = (1 + apart**2 * mixed * (1 - mixed)) / (n * (1 - q))
        h, factor = (1 + lost - gained) / 2, 4 * q * (1 - q) / left**2 / n
        variance, covariance = factor * (distance + error + error_rest), factor * (h * distance + error_rest)
        np.testing.assert_allclose(np.var(second - first), variance, rtol=0.2 if n == 60 else 0.05)
        np.testing.assert_allclose(np.cov(second, second - first)[0, 1], covariance, rtol=0.2 if n == 60 else 0.05)

    def test_many_samples_count_each_set_by_its_true_share(self):
        """Then a = (1 + rho+ - rho-) / 2, and the observed frequency cancels."""
        X, _, noisy = draw(T2, PRIOR2)
        many = np.full(300, 1e9)
        model = CEGEClassifier(T2, class_prior=PRIOR2).fit(X, noisy, many)
        lost, gained = model.noise_rates_[1]
        h, share = (1 + lost - gained) / 2, (PRIOR2 @ T2)[1]
        np.testing.assert_allclose(model.coefficient_[1], h, rtol=1e-6)
        own, rest = X[noisy == 1].mean(axis=0), X[noisy == 0].mean(axis=0)
        mu = 2 / (1 - lost - gained) * (h * share * own - (1 - h) * (1 - share) * rest)
        np.testing.assert_allclose(model.centroid_[:, 1], mu, rtol=1e-6)

    @pytest.mark.parametrize(("T", "prior"), [(T2, PRIOR2), (T3, PRIOR3)], ids=["two classes", "three"])
    def test_without_a_prior_both_are_the_unbiased_centroid(self, T, prior):
        X, _, noisy = draw(T, prior)
        model = CEGEClassifier(T, alpha=2.0).fit(X, noisy)
        G = binary_labels(T, model.class_prior_)
        for k in range(len(T)):
            first, second = two_estimates(X, noisy, k, model.noise_rates_[k], np.mean(noisy == k))
            np.testing.assert_allclose(first, second, atol=1e-12)
            np.testing.assert_allclose(model.centroid_[:, k], first, atol=1e-12)
        np.testing.assert_allclose(model.centroid_, X.T @ G[noisy] / 300, atol=1e-12)
        np.testing.assert_allclose(model.coef_, Ridge(2.0).fit(X, G[noisy]).coef_, atol=1e-10)
        given = CEGEClassifier(T, alpha=2.0, class_prior=model.class_prior_).fit(X, noisy)
        np.testing.assert_allclose(given.coef_, model.coef_, atol=1e-12)


class TestModel:
    def test_minimises_the_decomposed_risk(self):
        X, _, noisy = draw(T3, PRIOR3)
        model = CEGEClassifier(T3, class_prior=PRIOR3, alpha=20.0).fit(X, noisy)
        ones = np.column_stack([X, np.ones(300)])
        for k in range(3):
            # The constant's centroid is the mean of the clean labels +1 and -1, which the prior tells.
            mu = np.append(model.centroid_[:, k], 2 * PRIOR3[k] - 1)

            def risk(w, mu=mu):
                return np.mean(1 + (ones @ w) ** 2) - 2 * w @ mu + 20 / 300 * np.sum(w[:-1] ** 2)

            best = minimize(risk, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x
            np.testing.assert_allclose(np.append(model.coef_[k], model.intercept_[k]), best, atol=1e-6)

    def test_identity_gives_ridge(self):
        X, _, noisy = draw(T3, PRIOR3)
        model = CEGEClassifier(np.eye(3), alpha=2.0).fit(X, noisy)
        ridge = Ridge(2.0).fit(X, 2 * np.eye(3)[noisy] - 1)
        np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-10)
        np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-10)
        np.testing.assert_array_equal(model.predict(X), RidgeClassifier(2.0).fit(X, noisy).predict(X))

    def test_anti_identity_flips_with_a_prior_too(self):
        X, y, _ = draw(T2, PRIOR2)
        straight = CEGEClassifier(np.eye(2), class_prior=PRIOR2).fit(X, y)
        flipped = CEGEClassifier([[0, 1], [1, 0]], class_prior=PRIOR2[::-1]).fit(X, y)
        np.testing.assert_allclose(straight.decision_function(X), -flipped.decision_function(X), atol=1e-10)

    def test_a_prior_changes_the_length_of_w_not_its_direction(self):
        X, _, noisy = draw(T2, PRIOR2)
        # The same rates whatever the prior, since each class is all the rest of the other.
        a, b = (CEGEClassifier(T2, class_prior=prior).fit(X, noisy) for prior in (None, [0.3, 0.7]))
        ratio = b.coef_ / a.coef_
        np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-9)
        assert abs(ratio[0, 0] - 1) > 1e-3
        assert np.abs(b.intercept_ - a.intercept_).max() > 0.1

    def test_a_known_prior_mends_shares_that_sampling_spoilt(self):
        """Rows dropped by their noisy label, so that frequencies tell nothing: the prior restores the intercepts."""
        X, y, noisy = draw(T2, PRIOR2, n=20_000)
        whole = CEGEClassifier(T2, class_prior=PRIOR2).fit(X, noisy)
        kept = (noisy == 0) | (np.arange(len(y)) % 3 == 0)
        thinned = CEGEClassifier(T2, class_prior=PRIOR2).fit(X[kept], noisy[kept])
        blind = CEGEClassifier(T2).fit(X[kept], noisy[kept])

        def distance(model):
            return np.linalg.norm(model.intercept_ - whole.intercept_)

        assert distance(thinned) < 0.5 * distance(blind)

    @pytest.mark.parametrize("label", [0, 1])
    def test_a_class_without_samples(self, label):
        """Only the other set speaks: a is 0 for the class that is absent and 1 for the one that is all."""
        X, _, _ = draw(T2, PRIOR2)
        model = CEGEClassifier(T2, class_prior=PRIOR2, classes=[0, 1]).fit(X, np.full(300, label))
        np.testing.assert_array_equal(model.coefficient_, np.eye(2)[label])
        np.testing.assert_allclose(model.centroid_[:, 0], -model.centroid_[:, 1], atol=1e-12)
        assert np.isfinite(model.predict_proba(X)).all()

    def test_features_that_tell_nothing(self):
        model = CEGEClassifier(T2, class_prior=PRIOR2).fit(np.zeros((20, 2)), np.arange(20) % 2)
        np.testing.assert_allclose(model.predict_proba(np.zeros((1, 2))), [PRIOR2])


class TestInputs:
    def test_weights_are_counts(self):
        X, _, noisy = draw(T3, PRIOR3)
        counts = np.arange(300) % 3
        weighted = CEGEClassifier(T3, class_prior=PRIOR3).fit(X, noisy, counts)
        repeated = CEGEClassifier(T3, class_prior=PRIOR3).fit(np.repeat(X, counts, axis=0), np.repeat(noisy, counts))
        for name in ("coef_", "intercept_", "centroid_", "coefficient_"):
            np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=1e-10)

    @pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix])
    def test_sparse_equals_dense(self, kind):
        X, _, noisy = draw(T3, PRIOR3)
        X[np.abs(X) < 0.5] = 0
        a, b = (CEGEClassifier(T3, class_prior=PRIOR3).fit(data, noisy) for data in (X, kind(X)))
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-10)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(kind(X)), atol=1e-10)

    def test_single_precision(self):
        X, _, noisy = draw(T3, PRIOR3)
        a, b = (CEGEClassifier(T3, class_prior=PRIOR3).fit(data, noisy) for data in (X, X.astype(np.float32)))
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-5)


BAD = {
    "prior of another size": ({"class_prior": [0.5, 0.5]}, r"one probability per class, shape \(3,\)"),
    "prior as counts": ({"class_prior": [2, 3, 5]}, "sum to one.*n / n.sum"),
    "alpha": ({"alpha": -1}, "alpha must be a number >= 0; got -1"),
    "transition": ({"transition": np.eye(2)}, "2 x 2"),
}


@pytest.mark.parametrize(("parameters", "match"), BAD.values(), ids=BAD)
def test_bad_input(parameters, match):
    X, _, noisy = draw(T3, PRIOR3)
    with pytest.raises(ValueError, match=match):
        CEGEClassifier(**{"transition": T3, **parameters}).fit(X, noisy)


@pytest.mark.parametrize(
    ("T", "least"),
    [(symmetric(10, 0.2), 0.84), (symmetric(10, 0.6), 0.81), (pairflip(10, 0.4), 0.74)],
    ids=["sym 20", "sym 60", "pair 40"],
)
@pytest.mark.parametrize("prior", [None, [0.1] * 10], ids=["estimated prior", "known prior"])
def test_real_features(features, T, least, prior):
    """Pair noise is none that two rates describe, and the correction falls behind that by T (above 0.83)."""
    X, y, X_test, y_test = features
    model = CEGEClassifier(T, class_prior=prior).fit(X, corrupt(y, T, random_state=0))
    assert model.score(X_test, y_test) >= least


def test_a_class_of_which_the_noise_leaves_nothing():
    """It keeps its label as often as others gain it; a prior under which they do not mends it."""
    T = [[0.3, 0.4, 0.3], [0.5, 0.5, 0.0], [0.1, 0.1, 0.8]]
    X, noisy = np.random.default_rng(0).normal(size=(100, 2)), np.repeat([0, 1, 2], [30, 34, 36])
    with pytest.raises(ValueError, match="class 0 against the rest keeps no information"):
        CEGEClassifier(T).fit(X, noisy)
    assert np.isfinite(CEGEClassifier(T, class_prior=[0.4, 0.5, 0.1]).fit(X, noisy).coef_).all()
