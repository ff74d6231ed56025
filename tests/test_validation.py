"""Bad input: each error says what came, what was expected and how to mend it."""

import numpy as np
import pytest

from unflip._validation import check_classes, check_labels, check_prior, check_transition
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
        (np.array([1, "a"], dtype=object), None, "one kind"),
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
