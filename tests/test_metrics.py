"""Scores without clean labels: unbiased, with intervals that cover; and the errors where the truth is known."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict

from unflip.metrics import _spread, centroid_error, clean_accuracy, clean_scorer, free_variances, transition_error
from unflip.noise import corrupt, pairflip, symmetric


def test_transition_is_checked_once(monkeypatch):
    calls, cond = [], np.linalg.cond
    monkeypatch.setattr(np.linalg, "cond", lambda T: calls.append(T) or cond(T))
    clean_accuracy([0, 1, 2, 0], [0, 1, 2, 1], symmetric(3, 0.4))
    assert len(calls) == 1


def test_identity_is_plain_accuracy():
    rng = np.random.default_rng(0)
    y, pred = rng.integers(4, size=100), rng.integers(4, size=100)
    score = clean_accuracy(y, pred, np.eye(4))
    assert score.estimate == pytest.approx(np.mean(y == pred))
    assert score.standard_error == pytest.approx(np.std(y == pred, ddof=1) / 10)


@pytest.mark.parametrize("T", [symmetric(5, 0.5), pairflip(5, 0.4)], ids=["symmetric", "pair"])
def test_is_unbiased_and_its_interval_covers(T):
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=2000)
    pred = np.where(rng.random(2000) < 0.8, y, rng.integers(5, size=2000))
    truth = np.mean(y == pred)
    scores = [clean_accuracy(corrupt(y, T, random_state=s), pred, T) for s in range(200)]
    estimates = np.array([s.estimate for s in scores])
    assert abs(estimates.mean() - truth) < 4 * estimates.std() / np.sqrt(200)
    # The interval also allows for the sampling of the 2,000, which is held fixed here: it covers at least as often.
    assert np.mean([s.low <= truth <= s.high for s in scores]) > 0.93


def test_interval_has_the_promised_coverage():
    """Data and noise drawn again each time: the coverage is the confidence."""
    T, covered = pairflip(3, 0.3), 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=500)
        pred = np.where(rng.random(500) < 0.7, y, (y + 1) % 3)
        score = clean_accuracy(corrupt(y, T, random_state=rng), pred, T, confidence=0.8)
        covered += score.low <= 0.7 <= score.high
    assert 0.75 < covered / 400 < 0.85


@pytest.mark.parametrize("T", [np.eye(3), symmetric(3, 0.4), pairflip(3, 0.3)], ids=["none", "symmetric", "pair"])
@pytest.mark.parametrize("n", [5, 30])
@pytest.mark.parametrize("accuracy", [0.5, 0.9, 1.0])
def test_interval_covers_with_few_labels_and_with_hits_alone(T, n, accuracy):
    covered = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=n)
        pred = np.where(rng.random(n) < accuracy, y, (y + rng.integers(1, 3, size=n)) % 3)
        noisy = corrupt(y, T, random_state=rng, classes=[0, 1, 2])
        score = clean_accuracy(noisy, pred, T, classes=[0, 1, 2])
        assert 0 <= score.low < score.high <= 1
        covered += score.low <= accuracy <= score.high + 1e-9
    assert covered / 400 > 0.93


def test_interval_is_that_of_wilson_and_nearly_the_normal_one_of_many_labels():
    for n, hits in ((3, 3), (20, 13), (20_000, 13_000)):
        y = np.zeros(n, dtype=int)
        score = clean_accuracy(y, np.where(np.arange(n) < hits, 0, 1), np.eye(2), classes=[0, 1])
        q, p = student.ppf(0.975, n - 1), hits / n
        half = q * np.sqrt(p * (1 - p) / n + q**2 / (4 * n**2))
        expected = (p + q**2 / (2 * n) + np.array([-half, half])) / (1 + q**2 / n)
        np.testing.assert_allclose([score.low, score.high], expected)
    np.testing.assert_allclose(score[1:3], p + 1.96 * score.standard_error * np.array([-1, 1]), atol=1e-4)


class TestTransitionStd:
    T = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.4, 0.6]])

    def test_none_and_zero_change_nothing(self):
        rng = np.random.default_rng(0)
        y, pred = rng.integers(3, size=300), rng.integers(3, size=300)
        plain = clean_accuracy(y, pred, self.T)
        assert clean_accuracy(y, pred, self.T, transition_std=None) == plain
        assert clean_accuracy(y, pred, self.T, transition_std=np.zeros((3, 3))) == plain

    def test_only_the_width_changes(self):
        rng = np.random.default_rng(0)
        y = rng.integers(3, size=3000)
        pred = np.where(rng.random(3000) < 0.5, y, rng.integers(3, size=3000))
        noisy = corrupt(y, self.T, random_state=0)
        plain, wide = (clean_accuracy(noisy, pred, self.T, transition_std=s) for s in (None, np.full((3, 3), 0.03)))
        assert wide.estimate == plain.estimate
        assert wide.low < plain.low < plain.high < wide.high
        shares = np.array([[np.mean((noisy == i) & (pred == j)) for j in range(3)] for i in range(3)])
        spread = _spread(np.linalg.inv(self.T), shares, np.full((3, 3), 0.03))
        assert wide.standard_error**2 == pytest.approx(plain.standard_error**2 + spread**2)

    def test_spread_is_that_of_draws_of_a_row(self):
        """One uncertain row: the spread is the standard deviation of the estimate over draws of T."""
        rng = np.random.default_rng(0)
        shares = rng.dirichlet(np.ones(9)).reshape(3, 3)
        draws = 0.01 * rng.normal(size=(4000, 3))
        draws -= draws.mean(axis=1, keepdims=True)
        moved = np.repeat(self.T[np.newaxis], 4000, axis=0)
        moved[:, 0] += draws
        estimates = np.sum(shares * np.linalg.inv(moved), axis=(1, 2))
        std = np.zeros((3, 3))
        std[0] = draws.std(axis=0)
        assert _spread(np.linalg.inv(self.T), shares, std) == pytest.approx(estimates.std(), rel=0.05)

    def test_rows_add_as_if_they_erred_together(self):
        shares, std = np.full((3, 3), 1 / 9) + np.eye(3) / 9, np.full((3, 3), 0.02)
        inverse = np.linalg.inv(self.T)
        parts = [_spread(inverse, shares, std * (np.arange(3) == k)[:, np.newaxis]) for k in range(3)]
        assert _spread(inverse, shares, std) == pytest.approx(sum(parts))

    def test_free_variances_give_the_variances_within_the_row(self):
        v = np.array([[1.0, 1.0, 0.0], [4.0, 3.0, 2.0], [9.0, 1.0, 1.0]])
        d = free_variances(v)
        reached = d - d**2 / d.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(reached[:2], v[:2], rtol=1e-4)
        assert reached[2, 0] == pytest.approx(9)  # more than the others can add up to: they grow with it
        assert (reached[2, 1:] >= 1).all()

    def test_covers_with_an_estimated_T(self):
        """T counted from 200 labels per class: with its standard errors the interval covers, without it does not."""
        rng, c, truth = np.random.default_rng(0), 3, 0.8
        covered = []
        for _ in range(300):
            estimated = np.array([rng.multinomial(200, row) / 200 for row in self.T])
            std = np.sqrt(estimated * (1 - estimated) / 200)
            y = rng.integers(c, size=4000)
            pred = np.where(rng.random(4000) < truth, y, (y + rng.integers(1, c, size=4000)) % c)
            noisy = corrupt(y, self.T, random_state=rng)
            scores = [clean_accuracy(noisy, pred, estimated, transition_std=s) for s in (None, std)]
            covered.append([s.low <= truth <= s.high for s in scores])
        without, with_std = np.mean(covered, axis=0)
        assert without < 0.8
        assert with_std >= 0.92

    def test_scorer_takes_it(self):
        X, y = load_digits(return_X_y=True)
        model, T = RidgeClassifier().fit(X, y), symmetric(10, 0.1)
        noisy = corrupt(y, T, random_state=0)
        scorer = clean_scorer(T, transition_std=np.full((10, 10), 0.01))
        assert scorer(model, X, noisy) == clean_scorer(T)(model, X, noisy)

    @pytest.mark.parametrize("std", [np.ones((2, 3)), np.full((2, 2), -1.0), np.full((2, 2), np.nan)])
    def test_bad_std(self, std):
        with pytest.raises(ValueError, match="transition_std must be one standard error"):
            clean_accuracy([0, 1], [0, 1], np.eye(2), transition_std=std)


def test_warns_where_T_does_not_fit_the_labels():
    y = np.arange(1000) % 2
    with pytest.warns(UserWarning, match=r"1\.25 \+- .* fit these labels"):
        score = clean_accuracy(corrupt(y, symmetric(2, 0.0)), y, symmetric(2, 0.1667))
    assert 0.98 < score.low < score.high == 1


def test_a_perfect_model_does_not_warn_and_one_sample_says_nothing():
    for n in range(2, 200):
        y = np.arange(n) % 2
        assert clean_accuracy(y, y, np.eye(2)).estimate == pytest.approx(1)
    score = clean_accuracy([0], [0], symmetric(2, 0.2), classes=[0, 1])
    assert (score.low, score.high) == (0, 1)


def test_weights_are_repetition_for_the_estimate():
    rng = np.random.default_rng(0)
    y, pred, w = rng.integers(3, size=60), rng.integers(3, size=60), rng.integers(4, size=60)
    T = symmetric(3, 0.2)
    weighted = clean_accuracy(y, pred, T, sample_weight=w).estimate
    assert weighted == pytest.approx(clean_accuracy(y.repeat(w), pred.repeat(w), T).estimate)


def test_string_labels_and_an_absent_class():
    T = symmetric(3, 0.3)
    score = clean_accuracy(["a", "b", "a"], ["a", "b", "b"], T, classes=["a", "b", "c"])
    coded = clean_accuracy([0, 1, 0], [0, 1, 1], T, classes=[0, 1, 2])
    assert score == coded
    with pytest.raises(ValueError, match="3 x 3 but there are 2 classes"):
        clean_accuracy(["a", "b", "a"], ["a", "b", "b"], T)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0, 1], [0], np.eye(2)), "lengths differ"),
        (([0, 1], [0, 1], np.full((2, 2), 0.5)), "singular"),
        (([], [], np.eye(2)), "empty"),
        (([0, 1], [0, 5], np.eye(2)), "3 classes"),
    ],
)
def test_bad_input(arguments, match):
    with pytest.raises(ValueError, match=match):
        clean_accuracy(*arguments)


@pytest.mark.parametrize("options", [{"confidence": 95}, {"sample_weight": [0, 0]}, {"sample_weight": [1, -1]}])
def test_bad_options(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        clean_accuracy([0, 1], [0, 1], np.eye(2), **options)


def test_scorer_sees_through_the_noise_in_a_grid_search():
    """On the noisy labels alone the scores of all candidates are close to their accuracy on clean ones."""
    X, y = load_digits(return_X_y=True)
    T = pairflip(10, 0.3)
    noisy = corrupt(y, T, random_state=0)
    alphas = [1.0, 1e5, 1e7]
    search = GridSearchCV(RidgeClassifier(), {"alpha": alphas}, scoring=clean_scorer(T), cv=3).fit(X, noisy)
    for alpha, estimate in zip(alphas, search.cv_results_["mean_test_score"], strict=True):
        truth = np.mean(cross_val_predict(RidgeClassifier(alpha), X, noisy, cv=3) == y)
        assert estimate == pytest.approx(truth, abs=0.06)
    assert search.best_params_["alpha"] == 1.0


def test_scorer_survives_a_fold_without_a_class():
    X, y = load_digits(return_X_y=True)
    model = RidgeClassifier().fit(X, y)
    rows = y < 4
    noisy = np.where(np.arange(rows.sum()) % 10, y[rows], 0)
    expected = clean_accuracy(noisy, model.predict(X[rows]), symmetric(10, 0.1), classes=np.arange(10)).estimate
    assert clean_scorer(symmetric(10, 0.1))(model, X[rows], noisy) == expected


@pytest.mark.parametrize("T", [pairflip(10, 0.4), symmetric(10, 0.4)], ids=["pair 40", "sym 40"])
def test_interval_covers_on_real_features(features, T):
    """95 % intervals of a model trained on noisy labels cover its clean test accuracy in at least 18 of 20 draws."""
    X, y, X_test, y_test = features
    model = RidgeClassifier().fit(X[:10_000], corrupt(y[:10_000], T, random_state=0))
    pred = model.predict(X_test)
    truth = np.mean(pred == y_test)
    scores = [clean_accuracy(corrupt(y_test, T, random_state=seed), pred, T) for seed in range(20)]
    assert sum(s.low <= truth <= s.high for s in scores) >= 18
    assert np.mean([s.high - s.low for s in scores]) < 0.06  # and they say something


def test_transition_error():
    T = pairflip(4, 0.3)
    assert transition_error(T, T) == 0
    naive = sum(abs(T[i, j] - np.eye(4)[i, j]) for i in range(4) for j in range(4)) / 4
    assert transition_error(np.eye(4), T) == pytest.approx(naive) == pytest.approx(0.6)
    with pytest.raises(ValueError, match="3 x 3 but there are 4"):
        transition_error(np.eye(3), T)


def test_centroid_error():
    mu = np.arange(6.0).reshape(2, 3)
    assert centroid_error(mu, mu) == 0
    assert centroid_error(np.zeros((2, 3)), mu) == 1
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(2, 3\)"):
        centroid_error(mu.T, mu)


def test_the_interval_covers_what_alternatives_say():
    noisy, predicted = np.repeat([0, 1], [65, 35]), np.zeros(100, dtype=int)
    T, other = [[0.7, 0.3], [0.3, 0.7]], np.eye(2)
    score, plain = clean_accuracy(noisy, predicted, T), clean_accuracy(noisy, predicted, other)
    both = clean_accuracy(noisy, predicted, T, alternatives=[other])
    assert both.estimate == score.estimate
    assert (both.low, both.high) == (min(score.low, plain.low), max(score.high, plain.high))
    assert both.low < score.low


def test_the_interval_covers_what_posteriors_say():
    noisy, predicted = np.repeat([0, 1], [65, 35]), np.zeros(100, dtype=int)
    T, R = [[0.9, 0.1], [0.1, 0.9]], np.tile([0.4, 0.6], (100, 1))
    score, both = (clean_accuracy(noisy, predicted, T, posteriors=given) for given in ([], [R]))
    assert (both.estimate, both.high) == (score.estimate, score.high)
    assert both.low == pytest.approx(0.4 - 1.959964 * np.sqrt(0.4 * 0.6 / 100))
    weighted = clean_accuracy(noisy, predicted, T, sample_weight=np.full(100, 7.0), posteriors=[R])
    assert weighted.low == pytest.approx(both.low)
    with pytest.raises(ValueError, match=r"posteriors .* shape \(100, 2\)"):
        clean_accuracy(noisy, predicted, T, posteriors=[R[:, :1]])
