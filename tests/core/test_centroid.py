"""Both operators: twins from the paper's sums, closed forms, and what each does to the centroid as n grows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import random_prior, transitions
from unflip.core import ClassSums, clean_centroid, corrected_labels, imputation_matrix, mixing_matrix
from unflip.metrics import centroid_error
from unflip.noise import asymmetric, corrupt, pairflip, symmetric


def published_naively(T, prior):
    """Eq. (calculation_M) as printed: a double sum of swapped identities."""
    c = len(T)
    M = np.zeros((c, c))
    for i in range(c):
        for j in range(c):
            K = np.eye(c)
            K[[i, j]] = K[[j, i]]
            M += prior[i] * T[i, j] * K.T
    return M


@pytest.mark.parametrize(("i", "j"), [(0, 0), (0, 3), (3, 1)])
def test_imputation_matrix_moves_one_label_to_another(i, j):
    e = np.eye(4)
    K = imputation_matrix(i, j, 4)
    np.testing.assert_array_equal(K @ e[i], e[j])
    np.testing.assert_array_equal(K @ K, e)  # a swap undoes itself
    for other in set(range(4)) - {i, j}:
        np.testing.assert_array_equal(K @ e[other], e[other])


def test_imputation_matrix_refuses_codes_outside():
    with pytest.raises(ValueError, match=r"0 \.\. 2"):
        imputation_matrix(0, 3, 3)


@given(transitions(), st.integers(0, 1000))
def test_published_operator_equals_the_papers_double_sum(T, seed):
    prior = random_prior(len(T), seed)
    np.testing.assert_allclose(mixing_matrix(T, prior, "published"), published_naively(T, prior), atol=1e-12)


@given(transitions(), st.integers(0, 1000))
def test_published_operator_is_symmetric_and_stochastic(T, seed):
    M = mixing_matrix(T, random_prior(len(T), seed), "published")
    np.testing.assert_allclose(M, M.T, atol=1e-15)
    np.testing.assert_allclose(M.sum(axis=1), 1)


@given(st.floats(0, 0.49), st.integers(0, 1000))
def test_operators_agree_for_two_classes_that_flip_alike(rate, seed):
    T = symmetric(2, rate)
    np.testing.assert_allclose(mixing_matrix(T, random_prior(2, seed), "published"), T, atol=1e-12)


def test_operators_differ_for_two_classes_that_flip_unlike():
    """The published M is symmetric, so one-sided noise is out of its reach even for two classes."""
    T = asymmetric(2, {0: (1, 0.3)})
    np.testing.assert_allclose(mixing_matrix(T, [0.5, 0.5], "published"), symmetric(2, 0.15))


@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_published_closed_form_under_symmetric_noise(rate):
    c, J = 10, np.ones((10, 10))
    expected = (1 - 2 * rate / (c - 1)) * np.eye(c) + 2 * rate / (c * (c - 1)) * J
    np.testing.assert_allclose(mixing_matrix(symmetric(c, rate), operator="published"), expected)


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_published_closed_form_under_pair_noise(rate):
    c, P = 10, np.roll(np.eye(10), 1, axis=1)
    expected = (1 - 2 * rate / c) * np.eye(c) + rate / c * (P + P.T)
    np.testing.assert_allclose(mixing_matrix(pairflip(c, rate), operator="published"), expected)


@pytest.mark.parametrize(
    ("T", "bias"),
    [(symmetric(10, 0.2), 0.56), (symmetric(10, 0.6), 1.85), (pairflip(10, 0.2), 0.81), (pairflip(10, 0.4), 1.73)],
)
def test_bias_of_each_operator(T, bias):
    """|T M^+ - I|: zero would be unbiased."""
    published, exact = corrected_labels(T, operator="published"), corrected_labels(T)
    assert np.linalg.norm(T @ published - np.eye(10)) == pytest.approx(bias, abs=0.005)
    assert np.linalg.norm(T @ exact - np.eye(10)) < 1e-12


@given(transitions())
def test_corrected_labels_sum_to_one_and_undo_the_noise(T):
    rows = corrected_labels(T)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-8)
    np.testing.assert_allclose(T @ rows, np.eye(len(T)), atol=1e-8)


def test_identity_corrects_nothing():
    for operator in ("exact", "published"):
        np.testing.assert_allclose(corrected_labels(np.eye(4), operator=operator), np.eye(4), atol=1e-15)


def test_clean_centroid_from_the_papers_sums():
    """Eq. (estiation_with_matrix) written naively: mu_noisy M^+ with mu = (1/n) sum x y'."""
    rng = np.random.default_rng(0)
    X, y, T = rng.normal(size=(60, 3)), np.arange(60) % 4, pairflip(4, 0.3)
    mu = sum(np.outer(x, np.eye(4)[label]) for x, label in zip(X, y, strict=True)) / 60
    sums = ClassSums.of(X, y, 4)
    np.testing.assert_allclose(clean_centroid(sums, T), mu @ np.linalg.inv(T), atol=1e-12)
    prior = np.full(4, 0.25)  # y is balanced and T doubly stochastic
    published = mu @ np.linalg.pinv(published_naively(T, prior))
    np.testing.assert_allclose(clean_centroid(sums, T, "published"), published, atol=1e-12)


@pytest.mark.parametrize("T", [symmetric(10, 0.6), pairflip(10, 0.4)], ids=["symmetric", "pair"])
def test_exact_error_falls_with_the_root_of_n_and_the_published_one_does_not(T):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(10, 5))

    def errors(n):
        y = np.arange(n) % 10
        X = centres[y] + rng.normal(size=(n, 5))
        true = ClassSums.of(X, y, 10).centroid
        draws = []
        for seed in range(5):
            sums = ClassSums.of(X, corrupt(y, T, random_state=seed), 10)
            draws.append([centroid_error(clean_centroid(sums, T, op), true) for op in ("exact", "published")])
        return np.mean(draws, axis=0)

    (small_exact, small_published), (large_exact, large_published) = errors(4_000), errors(400_000)
    assert small_exact / large_exact == pytest.approx(10, rel=0.35)  # sqrt(100)
    assert large_exact < 0.03
    assert large_published > 0.9 * small_published - small_exact
    assert large_published > 10 * large_exact


def test_unknown_operator_is_named():
    with pytest.raises(ValueError, match="'exact'.*'published'.*'paper'"):
        mixing_matrix(np.eye(2), operator="paper")
