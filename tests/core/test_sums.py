"""ClassSums: what they hold, and that they add."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from unflip.core import ClassSums
from unflip.core.sums import FEW_CLASSES


def data(n=50, d=4, c=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(2, 3, size=(n, d)), rng.integers(c, size=n)


def assert_same(a, b, rtol=1e-10, atol=1e-10):
    for name in ("counts", "mean", "centred_sums", "scatter"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=atol, err_msg=name)


def test_holds_the_papers_sums():
    X, y = data()
    sums = ClassSums.of(X, y, 3)
    np.testing.assert_allclose(sums.gram, sum(np.outer(x, x) for x in X))
    np.testing.assert_allclose(sums.centroid, sum(np.outer(x, np.eye(3)[k]) for x, k in zip(X, y, strict=True)) / 50)
    np.testing.assert_allclose(sums.noisy_prior, np.bincount(y) / 50)


@given(st.lists(st.integers(0, 50), max_size=5), st.integers(0, 1000))
def test_blocks_add_in_any_order(cuts, seed):
    X, y = data(seed=seed)
    whole = ClassSums.of(X, y, 3)
    edges = sorted({0, 50, *cuts})
    blocks = [ClassSums.of(X[a:b], y[a:b], 3) for a, b in pairwise(edges)]
    assert_same(sum(blocks), whole)
    assert_same(sum(reversed(blocks)), whole)


def test_many_blocks_inside_one_call(monkeypatch):
    X, y = data(n=1000)
    whole = ClassSums.of(X, y, 3)
    monkeypatch.setattr("unflip.core.sums.BLOCK", 64)
    assert_same(ClassSums.of(X, y, 3), whole)


def test_weights_are_repetition():
    X, y = data()
    weights = np.arange(50) % 4
    assert_same(ClassSums.of(X, y, 3, weights), ClassSums.of(X.repeat(weights, 0), y.repeat(weights), 3))


def test_many_classes_are_summed_alike():
    c = 5 * FEW_CLASSES
    X, y = data(n=2000, c=c)
    expected = np.stack([X[y == k].sum(axis=0) if (y == k).any() else np.zeros(4) for k in range(c)])
    np.testing.assert_allclose(ClassSums.of(X, y, c).centroid.T * 2000, expected, atol=1e-9)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_blocks(kind):
    X, y = data()
    X[X < 2] = 0
    assert_same(ClassSums.of(kind(X), y, 3), ClassSums.of(X, y, 3))


def test_features_far_from_zero_lose_no_digits():
    """X'X - n m m' would keep none of the 16 digits here; the reference is exact integer arithmetic."""
    rng = np.random.default_rng(0)
    small = rng.integers(-8, 8, size=(4000, 3))
    X, y = 1e9 + small.astype(float), rng.integers(2, size=4000)
    centred = small * 4000 - small.sum(axis=0)
    exact = (centred.T @ centred) / 4000**2
    blocks = sum(ClassSums.of(X[a : a + 400], y[a : a + 400], 2) for a in range(0, 4000, 400))
    for sums in (ClassSums.of(X, y, 2), blocks):
        np.testing.assert_allclose(sums.scatter, exact, rtol=1e-6, atol=1e-3)


def test_float32_is_summed_at_its_own_precision_however_many_rows():
    """Inside a block in float32, over blocks in float64: 200,000 rows lose no more than 2,000 do."""
    for n in (2_000, 200_000):
        X, y = data(n=n, d=20)
        narrow = X.astype(np.float32)
        a, b = ClassSums.of(narrow, y, 3), ClassSums.of(narrow.astype(np.float64), y, 3)
        assert a.scatter.dtype == np.float64
        np.testing.assert_allclose(a.scatter, b.scatter, atol=2e-7 * b.scatter.max())
        np.testing.assert_allclose(a.centroid, b.centroid, rtol=1e-6)
        np.testing.assert_allclose(a.mean, b.mean, rtol=1e-6)


def test_no_rows_are_neutral_but_fit_nothing():
    X, y = data()
    empty = ClassSums.of(X[:0], y[:0], 3)
    assert_same(empty + ClassSums.of(X, y, 3), ClassSums.of(X, y, 3))
    with pytest.raises(ValueError, match="no rows"):
        _ = empty.noisy_prior


def test_different_shapes_do_not_add():
    X, y = data()
    with pytest.raises(ValueError, match="3 classes x 4 features.*4 x 4"):
        ClassSums.of(X, y, 3) + ClassSums.of(X, y, 4)


def test_bad_rows_are_refused():
    X, y = data()
    with pytest.raises(ValueError, match="lengths differ"):
        ClassSums.of(X, y[:-1], 3)
    with pytest.raises(ValueError, match=r"0 \.\. 1"):
        ClassSums.of(X, y, 2)
    with pytest.raises(ValueError, match="class codes"):
        ClassSums.of(X, y.astype(str), 3)
