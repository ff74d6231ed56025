"""ClassSums: what they hold, and that they add."""

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from unflip.core import ClassSums
from unflip.core.sums import MOST_ROWS, ROUNDING_FLOAT32


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
    monkeypatch.setattr("unflip.core.sums.BLOCK", 512)
    assert_same(ClassSums.of(X, y, 3), whole)


def test_weights_are_repetition():
    X, y = data()
    weights = np.arange(50) % 4
    assert_same(ClassSums.of(X, y, 3, weights), ClassSums.of(X.repeat(weights, 0), y.repeat(weights), 3))


@pytest.mark.parametrize("weighted", [False, True])
def test_many_classes_are_summed_alike(weighted):
    c = 320
    X, y = data(n=2000, c=c)
    w = np.random.default_rng(1).random(2000) if weighted else np.ones(2000)
    expected = np.stack([w[y == k] @ X[y == k] for k in range(c)])
    sums = ClassSums.of(X, y, c, w if weighted else None)
    np.testing.assert_allclose(sums.centroid.T * w.sum(), expected, atol=1e-9)
    np.testing.assert_allclose(sums.counts, np.bincount(y, w, minlength=c))


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


@pytest.mark.parametrize("n_classes", [3, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_of_columns_are_summed_as_blocks_of_rows(dtype, n_classes):
    """What files give; with weights and without."""
    X, _ = data(n=5000, d=70)
    X, y = X.astype(dtype), np.arange(5000) % n_classes
    for weights in (None, np.arange(5000) % 7 / 3):
        by_row, by_column = (ClassSums.of(np.asarray(X, order=order), y, n_classes, weights) for order in "CF")
        tolerance = 1e-12 if dtype == np.float64 else 1e-6
        spread = by_row.scatter.max()
        sizes = {"counts": 1, "mean": 1, "centred_sums": np.sqrt(spread * by_row.weight), "scatter": spread}
        for name, size in sizes.items():
            np.testing.assert_allclose(getattr(by_column, name), getattr(by_row, name), atol=tolerance * size)


def test_float32_is_summed_at_its_own_precision_however_many_rows():
    """Inside a block in float32, over blocks in float64: 200,000 rows lose no more than 2,000 do."""
    for n in (2_000, 200_000):
        X, y = data(n=n, d=20)
        narrow = X.astype(np.float32)
        a, b = ClassSums.of(narrow, y, 3), ClassSums.of(narrow.astype(np.float64), y, 3)
        assert a.scatter.dtype == np.float64
        np.testing.assert_allclose(a.scatter, b.scatter, atol=5e-7 * b.scatter.max())
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


rational = np.vectorize(Fraction, otypes=[object])


def assert_within(error, bound):
    error = np.abs(error.astype(float))
    assert (error <= bound).all(), f"{error} is not within {bound}"


class Exact(NamedTuple):
    """The sums in rational arithmetic, which rounds nothing."""

    weight: Fraction
    mean: np.ndarray
    centred_sums: np.ndarray
    scatter: np.ndarray

    @classmethod
    def of(cls, X, y, c, weights=None):
        x, w = rational(X.astype(float)), rational(np.ones(len(X)) if weights is None else weights.astype(float))
        total = w.sum()
        mean = (w @ x) / total
        centred = x - mean
        sums = np.stack([(w * (y == k)) @ centred for k in range(c)])
        return cls(total, mean, sums, (centred * w[:, np.newaxis]).T @ centred)

    def compare(self, sums, tolerance):
        """Errors as a share of each feature's own spread: no feature may spoil another one."""
        spread = np.sqrt(self.scatter.diagonal().astype(float))
        n = float(self.weight)
        assert_within(rational(sums.scatter) - self.scatter, tolerance * np.outer(spread, spread))
        # A mean is known to its own last digit at best; the sums are about the mean as it is stored.
        off = rational(sums.mean) - self.mean
        ulp = np.spacing(np.abs(self.mean.astype(float)))
        assert_within(off, tolerance * spread / np.sqrt(n) + 2 * ulp)
        about = self.centred_sums - np.outer(rational(sums.counts), off)
        assert_within(rational(sums.centred_sums) - about, tolerance * spread * np.sqrt(n))


def _adversary(name, rng, n=200, d=3):
    """Data and weights that a careless sum loses digits of."""
    X, weights = rng.normal(size=(n, d)), None
    if name == "far from zero":
        X += 1e9
    elif name == "far from zero, drifting":
        X = np.sort(X, axis=0) * 100 + 1e9
    elif name == "scales":
        X = X * [1e-8, 1.0, 1e8] + [1.0, -1e4, 1e12]
    elif name == "sorted":
        X = np.sort(X, axis=0) ** 3
    elif name == "first block far off":
        X[:20] += 1e8
    elif name == "one row far off":
        X[0] += 1e10
    elif name == "jumps":
        X += 1e6 * (np.arange(n) // 50)[:, np.newaxis]
    elif name == "first block counts nothing":
        X[:20] += 1e12
        weights = np.where(np.arange(n) < 20, 0.0, rng.random(n))
    elif name == "first block counts next to nothing":
        X[:20] += 1e10
        weights = np.where(np.arange(n) < 20, 1e-25, rng.random(n))
    elif name == "weights of a billion":
        X, weights = X + 1e6, rng.integers(1, 5, n) * 1e9
    return X, rng.integers(2, size=n), weights


ADVERSARIES = [
    "plain",
    "far from zero",
    "far from zero, drifting",
    "scales",
    "sorted",
    "first block far off",
    "one row far off",
    "jumps",
    "first block counts nothing",
    "first block counts next to nothing",
    "weights of a billion",
]


def _tree(blocks):
    while len(blocks) > 1:
        blocks = [sum(blocks[i : i + 2]) for i in range(0, len(blocks), 2)]
    return blocks[0]


@pytest.mark.parametrize("name", ADVERSARIES)
class TestAgainstExactArithmetic:
    @pytest.mark.parametrize("rows", [1, 7, 1000], ids="blocks of {}".format)
    def test_one_call(self, name, rows, monkeypatch):
        X, y, weights = _adversary(name, np.random.default_rng(0))
        monkeypatch.setattr("unflip.core.sums.BLOCK", 3 * 8 * rows)
        Exact.of(X, y, 2, weights).compare(ClassSums.of(X, y, 2, weights), 1e-13)

    @pytest.mark.parametrize("rows", [1, 40])
    @pytest.mark.parametrize("merge", [sum, lambda blocks: sum(blocks[::-1]), _tree], ids=["in turn", "back", "tree"])
    def test_merges_in_any_order(self, name, rows, merge):
        X, y, weights = _adversary(name, np.random.default_rng(1))
        parts = [slice(a, a + rows) for a in range(0, 200, rows)]
        blocks = [ClassSums.of(X[p], y[p], 2, None if weights is None else weights[p]) for p in parts]
        Exact.of(X, y, 2, weights).compare(merge(blocks), 1e-13)

    def test_float32(self, name, monkeypatch):
        X, y, weights = _adversary(name, np.random.default_rng(2))
        X = X.astype(np.float32)
        if name.startswith("far") or "weights" in name:
            X += np.random.default_rng(3).normal(0, 1e3, X.shape).astype(np.float32)  # else all rows are alike
        monkeypatch.setattr("unflip.core.sums.BLOCK", 60 * 4)
        exact = Exact.of(X, y, 2, weights)
        scatter = ClassSums.of(X, y, 2, weights).scatter
        spread = np.sqrt(exact.scatter.diagonal().astype(float))
        assert_within(rational(scatter) - exact.scatter, 1e-5 * np.outer(spread, spread))


def test_a_billion_rows_by_doubling_lose_nothing():
    X, y, _ = _adversary("scales", np.random.default_rng(0))
    exact = Exact.of(X, y, 2)
    sums = ClassSums.of(X, y, 2)
    for _ in range(30):
        sums = sums + sums
    assert sums.weight == 200 * 2**30
    Exact(exact.weight * 2**30, exact.mean, exact.centred_sums * 2**30, exact.scatter * 2**30).compare(sums, 1e-13)


def test_small_blocks_still_count_after_a_billion_rows():
    """1,000 rows that lie elsewhere, one by one after 4e11: each moves the mean by less than its last digit."""
    X, y, _ = _adversary("far from zero", np.random.default_rng(0))
    sums, power = ClassSums.of(X, y, 2), 2**31
    for _ in range(31):
        sums = sums + sums
    more, labels = X[:100] + 50.0, y[:100]
    for _ in range(10):
        for i in range(100):
            sums = sums + ClassSums.of(more[i : i + 1], labels[i : i + 1], 2)
    rows = np.vstack([X, more])
    weights = np.where(np.arange(300) < 200, power, 10)
    Exact.of(rows, np.append(y, labels), 2, weights).compare(sums, 1e-12)
    assert sums.weight == 200 * power + 1000


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_constant_feature_has_no_scatter_at_all(precision, weighted, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr("unflip.core.sums.BLOCK", 60 * 8)
    X = np.column_stack([np.full(300, 0.1), np.full(300, 1e9 / 3), rng.normal(size=300)]).astype(precision)
    y, weights = rng.integers(2, size=300), rng.random(300) if weighted else None
    blocks = [
        ClassSums.of(X[p], y[p], 2, None if weights is None else weights[p])
        for p in (slice(50), slice(50, 57), slice(57, 300))
    ]
    sums = sum(blocks)
    np.testing.assert_array_equal(sums.scatter[:2], 0)
    np.testing.assert_array_equal(sums.centred_sums[:, :2], 0)
    np.testing.assert_array_equal(sums.mean[:2], X[0, :2])


def test_float32_whose_squares_overflow():
    X, y = data()
    X = X.astype(np.float32)
    X[:, 1] *= np.float32(1e25)
    sums = ClassSums.of(X, y, 3)
    assert_same(sums, ClassSums.of(X.astype(np.float64), y, 3), rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_shows_in_the_sums(bad):
    X, y = data()
    X[30, 2] = bad
    for precision in (np.float32, np.float64):
        assert not np.isfinite(ClassSums.of(X.astype(precision), y, 3).scatter[2, 2])


def test_names_are_kept():
    X, y = data()
    plain = ClassSums.of(X, y, 3)
    named = replace(plain, classes=["a", "b", "c"], feature_names=("p", "q", "r", "s"))
    assert plain.classes is None
    assert plain.feature_names is None
    for total in (named + named, named + plain, plain + named, sum([plain, named, plain])):
        assert total.classes.tolist() == ["a", "b", "c"]
        assert total.feature_names.tolist() == ["p", "q", "r", "s"]
        assert_same(replace(total, classes=None), replace(total, feature_names=None))


def test_names_that_contradict():
    X, y = data()
    plain = ClassSums.of(X, y, 3)
    with pytest.raises(ValueError, match="differ in their classes: number 1 is .*b.* here and .*x.* there"):
        replace(plain, classes=["a", "b", "c"]) + replace(plain, classes=["a", "x", "c"])
    with pytest.raises(ValueError, match="differ in their classes: number 0"):
        replace(plain, classes=["0", "1", "2"]) + replace(plain, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="differ in their feature_names: number 2"):
        replace(plain, feature_names=list("pqrs")) + replace(plain, feature_names=list("pqsr"))
    with pytest.raises(ValueError, match=r"classes must be 3 names.*\(2,\)"):
        replace(plain, classes=["a", "b"])
    with pytest.raises(ValueError, match="feature_names must be 4 names"):
        replace(plain, feature_names="pqrs")


def test_adding_makes_one_array_of_classes_by_features():
    c, d = 500, 200
    sums = ClassSums(np.ones(c), np.zeros(d), np.zeros((c, d)), np.zeros((d, d)))
    tracemalloc.start()
    total = sums + sums
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total.weight == 2 * c
    assert peak < 8 * (c * d + 3 * d * d + 20 * (c + d))


def test_how_exact_they_are_is_kept():
    X, y = data()
    wide, narrow = ClassSums.of(X, y, 3), ClassSums.of(X.astype(np.float32), y, 3)
    assert wide.rounding == np.finfo(np.float64).eps
    assert narrow.rounding == ROUNDING_FLOAT32
    assert (wide + narrow).rounding == (narrow + wide).rounding == sum([wide, narrow, wide]).rounding == narrow.rounding
    assert (wide + wide).rounding == wide.rounding
    large = X.astype(np.float32) * np.float32(1e25)  # summed up in float64, since the squares overflow
    assert ClassSums.of(large, y, 3).rounding == wide.rounding


@pytest.mark.parametrize("shift", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("weighted", [False, True])
def test_float32_loses_no_more_than_is_said(shift, order, weighted):
    rng = np.random.default_rng(0)
    for n in (500, MOST_ROWS, 3 * MOST_ROWS):
        X = np.asarray(rng.normal(shift, 1, size=(n, 12)), dtype=np.float32, order=order)
        X[:, 8:] = X[:, 8:] > shift + 1  # few values: the rounding errors are alike
        y, weights = rng.integers(3, size=n), rng.random(n) if weighted else None
        exact = ClassSums.of(X.astype(np.float64), y, 3, weights).scatter
        error = np.abs(ClassSums.of(X, y, 3, weights).scatter - exact)
        spread = np.sqrt(np.diag(exact))
        # How much it is depends on the BLAS; in float64 it would be 1e-15.
        assert 1e-9 < (error / np.outer(spread, spread)).max() < ROUNDING_FLOAT32
