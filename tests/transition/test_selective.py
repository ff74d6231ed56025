"""Selective: regions of confident samples, T against the truth, and the folds."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from unflip.metrics import transition_error
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import Selective
from unflip.transition.selective import confident_rows, fold_of, wilson

TREES = ExtraTreesClassifier(30, min_samples_leaf=2)


def blobs(n, T, seed=0):
    X, y = make_blobs(n, centers=[[0, 0], [9, 0], [0, 9], [9, 9]][: len(T)], random_state=seed)
    return X, corrupt(y, T, random_state=seed)


class TestConfidentRows:
    def test_against_a_loop(self):
        rng = np.random.default_rng(0)
        scores, codes, w = (
            rng.dirichlet(np.ones(3), size=400).round(2),
            rng.integers(3, size=400),
            rng.uniform(1, 2, 400),
        )
        T, accepted = confident_rows(scores, codes, w)
        for k in range(3):
            best = (-1.0, None)
            for t in np.unique(scores[:, k]):
                region = scores[:, k] >= t
                if w[region].sum() >= max(w.sum() / 200, 10):
                    best = max(best, (wilson(w[region & (codes == k)].sum(), w[region].sum()), t))
            region = scores[:, k] >= best[1]
            np.testing.assert_allclose(T[k], [w[region & (codes == j)].sum() / w[region].sum() for j in range(3)])
            assert accepted[k] == pytest.approx(w[region].sum())

    def test_weights_are_repetition(self):
        rng = np.random.default_rng(0)
        scores, codes, w = rng.dirichlet(np.ones(3), size=60), rng.integers(3, size=60), rng.integers(1, 4, size=60)
        one = confident_rows(scores, codes, w.astype(float))
        other = confident_rows(scores.repeat(w, axis=0), codes.repeat(w), np.ones(w.sum()))
        np.testing.assert_allclose(one[0], other[0])
        np.testing.assert_allclose(one[1], other[1])

    def test_regions_have_ten_samples_or_half_a_percent_or_all(self):
        for n, least in ((6, 6), (100, 10), (10_000, 50)):
            scores = np.linspace(1, 0, n)[:, np.newaxis] * [1, 0.5]
            _, accepted = confident_rows(scores, (np.arange(n) > 0).astype(np.intp), np.ones(n))
            assert accepted[0] == least  # label 0 occurs once, in the first place

    def test_a_class_without_labels_keeps_the_row_of_the_identity(self):
        T, accepted = confident_rows(np.full((20, 3), 1 / 3), np.arange(20) % 2, np.ones(20))
        assert T[2].tolist() == [0, 0, 1]
        assert accepted[2] == 0


def test_wilson_is_below_the_share_and_tends_to_it():
    size = np.array([10.0, 100.0, 1e8])
    bounds = wilson(0.7 * size, size)
    assert np.all(np.diff(bounds) > 0)
    assert bounds[-1] == pytest.approx(0.7, abs=1e-3)
    assert wilson(np.array([0.0]), np.array([5.0]))[0] == pytest.approx(0)


def test_equal_rows_share_a_fold_and_classes_are_spread():
    rng = np.random.default_rng(0)
    codes = np.sort(rng.integers(3, size=90))
    keys = rng.permutation(90)
    folds = fold_of(keys, codes)
    assert all(np.bincount(folds[codes == k]).min() >= np.sum(codes == k) // 3 - 1 for k in range(3))
    order = rng.permutation(90)
    np.testing.assert_array_equal(folds[order], fold_of(keys[order], codes[order]))
    twice = np.tile(keys, 2)
    folds = fold_of(twice, np.append(codes, np.roll(codes, 5)))
    np.testing.assert_array_equal(folds[:90], folds[90:])
    assert fold_of(np.zeros(5), np.arange(5)).tolist() == [0] * 5
    assert set(fold_of(np.array([0, 2, 5]), np.array([0, 1, 2]))) == {0, 1}  # one fold stayed empty


@pytest.mark.parametrize("T", [pairflip(4, 0.3), symmetric(4, 0.4)], ids=["pair", "symmetric"])
def test_error_falls_as_samples_grow(T):
    errors = []
    for n in (200, 4000):
        fits = [Selective(TREES, random_state=s).fit(*blobs(n, T, s)) for s in range(3)]
        errors.append(np.mean([transition_error(model.transition_, T) for model in fits]))
    assert errors[0] > errors[1]
    assert errors[1] < 0.25  # few labels are counted, and chosen for their agreement


def test_clean_labels_give_the_identity():
    X, y = blobs(400, np.eye(3))
    model = Selective(random_state=0).fit(X, y)
    assert transition_error(model.transition_, np.eye(3)) < 0.01
    assert model.transition_std_.max() < 0.05
    assert model.score(X, y) == 1


def test_dense_is_sparse():
    X, y = blobs(300, pairflip(3, 0.2))
    a, b = Selective(TREES, random_state=0).fit(X, y), Selective(TREES, random_state=0).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(a.transition_, b.transition_)


def test_any_classifier_and_its_seed():
    X, y = blobs(300, pairflip(3, 0.2))
    model = Selective(LogisticRegression()).fit(X, y)
    assert transition_error(model.transition_, pairflip(3, 0.2)) < 0.2
    assert len(model.classifiers_) == 3
    a, b = (Selective(TREES, random_state=3).fit(X, y).transition_ for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_zero_weights_are_left_out():
    X, y = blobs(300, pairflip(3, 0.2))
    kept = np.arange(300) < 250
    a = Selective(LogisticRegression()).fit(X[kept], y[kept])
    b = Selective(LogisticRegression()).fit(X, y, sample_weight=kept.astype(float))
    np.testing.assert_allclose(a.transition_, b.transition_)


def test_bad_input():
    X, y = blobs(60, pairflip(3, 0.2))
    with pytest.raises(ValueError, match="LinearSVC has none"):
        Selective(LinearSVC()).fit(X, y)
    with pytest.raises(ValueError, match="does not take sample_weight"):
        Selective(KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(60))
