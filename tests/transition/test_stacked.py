"""StackedEM: T against the truth, noise against overlap, and the parts against their formulas."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs, make_classification
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from unflip.metrics import transition_error
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import StackedEM
from unflip.transition._evidence import SHAPES, learned_rows
from unflip.transition.stacked import (
    _calibration,
    calibrated,
    calibration,
    default_models,
    fit_stack,
    held_out_loss,
    make_folds,
    temperature,
    tempered,
)


def quick(**parameters):
    """Two models that fit in milliseconds."""
    models = [("logistic", LogisticRegression(max_iter=1000)), ("trees", ExtraTreesClassifier(30, min_samples_leaf=5))]
    return StackedEM(estimators=models, random_state=0, **parameters)


def sure_posteriors(T, n=4000, seed=0):
    """Clean posteriors that are sure of most rows, and labels drawn from them through T."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(len(T), 0.1), size=n)
    clean = np.array([rng.choice(len(T), p=row) for row in p])
    return p, corrupt(clean, T, random_state=seed)


class TestParts:
    def test_weights_find_the_right_model(self):
        p, y = sure_posteriors(np.eye(3), 2000)
        stack = fit_stack([np.roll(p, 1, axis=1), p], y, np.ones(2000), np.eye(3), None)
        assert stack.weights[1] > 0.95

    def test_temperature_undoes_a_power(self):
        T = symmetric(3, 0.2)
        p, y = sure_posteriors(T, 4000)
        assert temperature(tempered(p, 0.5), y, T, np.ones(4000)) == pytest.approx(2, rel=0.15)

    def test_calibration_has_the_gradient_of_finite_differences(self):
        rng = np.random.default_rng(0)
        data = rng.normal(size=(20, 3)), pairflip(3, 0.3)[:, rng.integers(3, size=20)].T, np.full(20, 0.05)
        theta = rng.normal(size=4)
        step = 1e-6 * np.eye(4)
        numeric = [(_calibration(theta + e, *data)[0] - _calibration(theta - e, *data)[0]) / 2e-6 for e in step]
        np.testing.assert_allclose(_calibration(theta, *data)[1], numeric, atol=1e-6)

    def test_calibration_undoes_a_bias(self):
        T = pairflip(3, 0.3)
        p, y = sure_posteriors(T, 20_000)
        shifted = p * [1, 3, 0.5]
        shifted /= shifted.sum(axis=1, keepdims=True)
        theta = calibration(shifted, y, np.ones(len(y)), T)
        np.testing.assert_allclose(calibrated(shifted, theta), p, atol=0.1)

    @pytest.mark.parametrize(
        ("shape", "T"),
        [("symmetric", symmetric(5, 0.4)), ("one target", pairflip(5, 0.35)), ("learned", pairflip(5, 0.35))],
    )
    def test_recovery_with_growing_n(self, shape, T):
        errors = []
        for n in (300, 10_000):
            p, y = sure_posteriors(T, n)
            errors.append(
                transition_error(fit_stack([p], y, np.ones(n), symmetric(5, 0.5), SHAPES[shape]).transition, T)
            )
        assert errors[1] < min(errors[0], 0.04)


class TestFolds:
    def test_cover_each_row_once(self):
        y = np.repeat([0, 1, 2], [50, 40, 3])
        folds = make_folds(5, y, None, np.random.RandomState(0))
        assert sorted(np.concatenate([test for _, test in folds])) == list(range(93))
        assert all(not set(train) & set(test) for train, test in folds)

    def test_too_few_rows_are_not_split(self):
        assert make_folds(5, np.array([0, 1, 0, 1]), None, np.random.RandomState(0)) == []

    @pytest.mark.parametrize("cv", [1, True, [(np.arange(5), np.arange(5))]])
    def test_what_is_no_partition_is_refused(self, cv):
        with pytest.raises(ValueError, match="cv must"):
            make_folds(cv, np.repeat([0, 1], 30), None, np.random.RandomState(0))


class TestEstimate:
    @pytest.mark.parametrize(
        ("T", "shape"), [(pairflip(6, 0.35), {"one target", "learned"}), (symmetric(6, 0.4), {"symmetric"})]
    )
    def test_digits(self, T, shape):
        X, y = load_digits(n_class=6, return_X_y=True)
        noisy = corrupt(y, T, random_state=0)
        model = quick(cv=3).fit(X / 16, noisy)
        assert model.shape_ in shape
        assert model.evidence_ > 3
        assert transition_error(model.transition_, T) < 0.15
        assert np.all(model.lower_bounds_ < np.diag(T) + 0.05)
        rate = 1 - model.class_prior_ @ np.diag(model.transition_)
        assert rate == pytest.approx(np.mean(noisy != y), abs=0.04)
        assert np.mean(model.oof_proba_.argmax(axis=1) == y) > 0.88
        assert 0 < model.transition_std_.max() < 0.1

    def test_clean_labels_stay_clean(self):
        X, y = load_digits(n_class=6, return_X_y=True)
        model = quick(cv=3).fit(X[:540] / 16, y[:540])
        assert model.shape_ == "none"
        np.testing.assert_array_equal(model.transition_, np.eye(6))
        assert not model.overlap_

    def test_overlap_is_not_noise(self):
        X, y = make_blobs(900, centers=[[0, 0], [1, 0], [0, 1]], cluster_std=1.0, random_state=0)
        model = quick(cv=3).fit(X, y)
        assert model.shape_ == "none"

    @pytest.mark.parametrize(("most", "overlap"), [(0.99, False), (0.8, True)])
    def test_noise_is_not_certain_where_no_row_is(self, most, overlap):
        """However clear the evidence: if no row is surely of a class, nothing tells noise from overlap."""
        rng = np.random.default_rng(0)
        p = np.array([[most, 1 - most], [1 - most, most]])[rng.integers(2, size=500)]
        model = quick(cv=2)
        model.classes_ = np.arange(2)
        model.fit_codes(rng.normal(size=(500, 2)), rng.integers(2, size=500), None)
        model.names_, model.evidence_, model.share_ = ["one"], 10.0, 1.0
        stack = fit_stack([p], (rng.uniform(size=500) < p[:, 1]).astype(int), np.ones(500), symmetric(2, 0.3), None)
        stack = stack._replace(calibration=np.array([1.0, 0, 0]), temperatures=np.ones(1))
        model._finish("symmetric", None, stack, rng.integers(2, size=500), np.ones(500), [p])
        assert model.shape_ == "symmetric"
        assert model.overlap_ == overlap
        assert bool(model.alternatives_) == overlap

    @pytest.mark.parametrize("cv", [3, StratifiedKFold(3)])
    def test_what_belongs_to_rows_is_in_their_order(self, cv):
        X, y = make_blobs(300, centers=3, random_state=0)
        model = quick(cv=cv).fit(X, y)
        assert np.mean(model.oof_proba_.argmax(axis=1) == y) > 0.8
        assert all(np.mean(p.argmax(axis=1) == y) > 0.8 for p in model.noisy_proba_.values())

    def test_given_transition_is_kept(self):
        X, y = make_blobs(300, centers=3, random_state=0)
        T = symmetric(3, 0.3)
        model = quick(transition=T, joint=False).fit(X, corrupt(y, T, random_state=0))
        assert model.shape_ == "given"
        np.testing.assert_array_equal(model.transition_, T)
        assert np.mean(model.oof_proba_.argmax(axis=1) == y) > 0.9

    def test_units_do_not_matter(self):
        X, y = make_classification(400, 6, n_informative=4, n_classes=3, random_state=0)
        noisy = corrupt(y, pairflip(3, 0.3), random_state=0)
        models = [("trees", ExtraTreesClassifier(20, min_samples_leaf=5))]
        found = [StackedEM(estimators=models, cv=3, random_state=0).fit(Z, noisy).suspected_ for Z in (X, X * 1024)]
        np.testing.assert_allclose(*found, atol=0.05)

    def test_few_rows(self):
        model = quick().fit(np.arange(8.0)[:, np.newaxis], [0, 1] * 4)
        assert model.oof_proba_ is None
        assert model.shape_ == "none"


def test_two_degrees_of_smoothing_for_words():
    X = sparse.random(40, 30, density=0.2, format="csr", random_state=0)
    smoothing = [model.alpha for name, model in default_models(X, 2) if "naive Bayes" in name]
    assert smoothing == [1.0, 0.3]
    assert not any("naive Bayes" in name for name, _ in default_models(-X, 2))


def test_boosted_trees_look_at_some_features_of_many():
    for n_features, share in ((50, 1.0), (100, 0.5)):
        models = [model for name, model in default_models(np.ones((20, n_features)), 3) if "boosted" in name]
        assert [model.max_features for model in models] == [share, share]
        assert [model.max_bins for model in models] == ([255, 255] if share == 1 else [63, 63])


def test_overlap_that_models_calibrate_badly_is_no_noise():
    """Only a map that mixes the classes explains these posteriors; without it, T would be the best explanation."""
    random = np.random.default_rng(0)
    p = random.dirichlet([0.7, 1.0, 0.5], 4000)
    codes = (random.random((4000, 1)) > p.cumsum(axis=1)).sum(axis=1)
    wrong = np.log(p) @ np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).T
    q = np.exp(wrong - np.logaddexp.reduce(wrong, axis=1, keepdims=True))
    folds = [(np.flatnonzero(np.arange(4000) % 4 != k), np.arange(k, 4000, 4)) for k in range(4)]
    ones = np.ones(4000)
    best = -np.log(p[np.arange(4000), codes]).mean()
    plain, mixed = (held_out_loss([q], codes, ones, np.eye(3), None, folds, mixing).mean() for mixing in (False, True))
    noise = held_out_loss([q], codes, ones, symmetric(3, 0.1), learned_rows, folds).mean()
    assert mixed < best + 0.01
    assert mixed < noise - 0.01
    assert noise < plain - 0.005
