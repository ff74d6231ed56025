"""Bad input: each error says what came, what was expected and how to fix it."""

import numpy as np
import pytest
from scipy import sparse

from unflip import _validation
from unflip._validation import (
    check_classes,
    check_labels,
    check_prior,
    check_transition,
    condition_number,
)
from unflip.noise import asymmetric, pairflip, symmetric


@pytest.mark.parametrize(
    ("T", "match"),
    [
        (symmetric(3, 2 / 3), "singular.*Merge those classes"),
        ([[0.5, 0.5], [0.5, 0.5]], "singular"),
        (asymmetric(3, {0: (1, 0.3)}).T, "column-stochastic; transpose it"),
        ([[0.5, 0.2], [0.1, 0.9]], r"row 0 .* sums to 0.7.*T / T.sum"),
        ([[80, 20], [10, 90]], "Counts become such a matrix"),
        ([[1.1, -0.1], [0.0, 1.0]], r"negative entry, T\[0, 1\] = -0.1"),
        (np.ones((2, 3)) / 3, r"square.*\(2, 3\)"),
        (np.full(4, 0.25), r"square.*\(4,\)"),
        ([[np.nan, 1], [0, 1]], "NaN"),
        ([[np.inf, 1], [0, 1]], "infinite"),
        ([[1.0]], "at least two"),
        ("volmin", "matrix of numbers.*volmin"),
    ],
)
def test_transition(T, match):
    with pytest.raises(ValueError, match=match):
        check_transition(T)
    if np.ndim(T) == 2:
        with pytest.raises(ValueError, match=match):
            check_transition(sparse.csr_array(np.array(T, dtype=float)), keep_sparse=True)


def test_sparse_transition_is_kept_or_filled_in_by_choice():
    T = pairflip(4, 0.2)
    kept = check_transition(sparse.coo_array(T), 4, keep_sparse=True)
    assert sparse.issparse(kept)
    np.testing.assert_array_equal(kept.toarray(), T)
    np.testing.assert_array_equal(check_transition(sparse.csr_matrix(T)), T)
    with pytest.raises(ValueError, match="4 x 4 but there are 3 classes"):
        check_transition(kept, 3, keep_sparse=True)
    with pytest.raises(ValueError, match="row 2 of transition sums to 0"):
        check_transition(sparse.csr_array(np.diag([1.0, 1.0, 0.0])), keep_sparse=True)


@pytest.mark.parametrize(
    "T",
    [symmetric(6, 0.3), symmetric(6, 0.7), pairflip(6, 0.45), pairflip(7, 0.55), symmetric(6, 5 / 6), pairflip(6, 0.5)],
    ids=["dominant", "not dominant", "pair", "pair beyond a half", "singular", "pair of a half"],
)
def test_condition_of_many_classes_is_not_underestimated(T, monkeypatch):
    """Few classes by singular values; many by a bound or an estimate in another norm, which differs by c at most."""
    exact = np.linalg.cond(T)
    assert condition_number(T) == exact
    monkeypatch.setattr(_validation, "MANY_CLASSES", 2)
    for given in (T, sparse.csc_array(T)):
        assert exact / 6 <= condition_number(given) <= 6 * exact or min(exact, condition_number(given)) > 1e15


def test_transition_of_the_wrong_size():
    with pytest.raises(ValueError, match="4 x 4 but there are 3 classes"):
        check_transition(np.eye(4), 3)


def test_transition_is_a_float64_copy():
    given = pairflip(3, 0.2).astype(np.float32)
    T = check_transition(given, 3)
    assert T.dtype == np.float64
    T[0, 0] = 9
    assert given[0, 0] != 9


def test_transposed_matrix_that_is_doubly_stochastic_passes():
    check_transition(pairflip(5, 0.2).T)  # nothing tells it apart from a valid one


@pytest.mark.parametrize(
    ("y", "classes", "match"),
    [
        ([], None, "empty"),
        ([[0, 1]], None, "one label per sample"),
        ([0, 0], None, "one class only.*classes="),
        ([0.0, np.nan], None, "missing"),
        ([0, 3], [0, 1, 2], r"outside classes: \[3\]"),
        (["a", "z"], ["a", "b"], r"outside classes: \['z'\]"),
        (np.array([1, "a"], dtype=object), None, "all numbers or all strings"),
        ([0, 1], [0, 1, 1], "without repeats"),
        ([0, 1], [1, 0], "sorted"),
        ([0, 1], [], "all class labels"),
        ([0, 0], [0], "one class only"),
    ],
)
def test_labels(y, classes, match):
    with pytest.raises(ValueError, match=match):
        check_labels(y, classes)


def test_labels_round_trip():
    y = np.array(["b", "a", "c", "a"])
    for classes in (None, ["a", "b", "c"], ["a", "aa", "b", "c"]):
        known, codes = check_labels(y, classes)
        np.testing.assert_array_equal(known[codes], y)


def test_classes_are_kept():
    np.testing.assert_array_equal(check_classes(["a", "b"]), ["a", "b"])


def test_prior():
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        check_prior([0.5, 0.5], 3)
    with pytest.raises(ValueError, match="n / n.sum"):
        check_prior([1, 2, 3], 3)
