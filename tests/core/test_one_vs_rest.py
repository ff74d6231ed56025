"""Rates and corrected labels of the binary problems, against loops and by their expectation."""

import numpy as np
import pytest
from hypothesis import given

from tests.strategies import transitions
from unflip.core.one_vs_rest import binary_labels, binary_rates
from unflip.noise import pairflip, symmetric


def naive_rates(T, prior):
    c = len(T)
    lost = [sum(T[k, j] for j in range(c) if j != k) for k in range(c)]
    gained = [
        sum(prior[i] * T[i, k] for i in range(c) if i != k) / sum(prior[i] for i in range(c) if i != k)
        for k in range(c)
    ]
    return lost, gained


@given(transitions())
def test_rates_equal_a_naive_loop(T):
    prior = np.arange(1.0, len(T) + 1)
    prior /= prior.sum()
    np.testing.assert_allclose(binary_rates(T, prior), naive_rates(T, prior), atol=1e-12)


def test_symmetric_noise():
    lost, gained = binary_rates(symmetric(10, 0.6), np.full(10, 0.1))
    np.testing.assert_allclose(lost, 0.6)
    np.testing.assert_allclose(gained, 0.6 / 9)


@given(transitions())
def test_labels_are_unbiased_for_a_class_and_for_its_rest(T):
    c = len(T)
    prior = np.arange(1.0, c + 1)
    prior /= prior.sum()
    expected = T @ binary_labels(T, prior)  # row i: E[G | clean = i]
    np.testing.assert_allclose(np.diag(expected), 1, atol=1e-6)
    for k in range(c):
        rest = np.arange(c) != k
        assert prior[rest] @ expected[rest, k] / prior[rest].sum() == pytest.approx(-1, abs=1e-6)


def test_under_symmetric_noise_labels_are_unbiased_for_every_class_of_the_rest():
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    expected = symmetric(4, 0.5) @ binary_labels(symmetric(4, 0.5), prior)
    np.testing.assert_allclose(expected, 2 * np.eye(4) - 1, atol=1e-12)


def test_under_pair_noise_they_are_not():
    expected = pairflip(4, 0.4) @ binary_labels(pairflip(4, 0.4), np.full(4, 0.25))
    assert np.abs(expected - (2 * np.eye(4) - 1)).max() > 0.5


def test_identity_and_anti_identity():
    np.testing.assert_array_equal(binary_labels(np.eye(3), np.array([0.2, 0.3, 0.5])), 2 * np.eye(3) - 1)
    np.testing.assert_allclose(binary_labels(np.eye(2)[::-1], np.array([0.4, 0.6])), 1 - 2 * np.eye(2), atol=1e-12)


def test_two_classes_have_opposite_labels():
    G = binary_labels(np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.4, 0.6]))
    np.testing.assert_allclose(G[:, 0], -G[:, 1], atol=1e-12)


def test_two_classes_mirror_each_other_even_where_one_is_all_there_is():
    T = np.array([[0.8, 0.2], [0.3, 0.7]])
    lost, gained = binary_rates(T, np.array([1.0, 0.0]))
    np.testing.assert_allclose(lost, gained[::-1])
    np.testing.assert_allclose(lost, [0.2, 0.3])


def test_a_class_without_information_is_refused():
    # Class 1 keeps a third of its labels, and takes a third of the others'; T itself is invertible.
    T = np.array([[0.5, 0.5, 0.0], [2 / 3, 1 / 3, 0.0], [0.0, 1 / 6, 5 / 6]])
    assert abs(np.linalg.det(T)) > 0.05
    with pytest.raises(ValueError, match="class 1 against the rest .* MCLDCEClassifier"):
        binary_labels(T, np.full(3, 1 / 3))
