"""The clean prior: the paper's equations, and the simplex where they leave it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from tests.strategies import random_prior, transitions
from unflip.core import clean_prior
from unflip.core.prior import _nonnegative_least_squares, _projected_gradient
from unflip.noise import pairflip, symmetric


@given(transitions(), st.integers(0, 1000))
def test_inverts_the_papers_equations(T, seed):
    prior = random_prior(len(T), seed)
    # Eq. (eq_priors), one equation a class
    noisy = [sum(T[i, j] * prior[i] for i in range(len(T))) for j in range(len(T))]
    np.testing.assert_allclose(clean_prior(noisy, T), prior, atol=1e-9)


@given(transitions(), st.integers(0, 1000))
def test_is_the_best_point_of_the_simplex(T, seed):
    """Whatever the noisy prior, no other point of the simplex fits better (checked against 200 random ones)."""
    noisy = np.random.default_rng(seed).dirichlet(np.full(len(T), 0.3))
    prior = clean_prior(noisy, T)
    assert prior.min() >= 0
    assert prior.sum() == pytest.approx(1)
    others = np.random.default_rng(seed + 1).dirichlet(np.full(len(T), 0.5), size=200)
    near = 0.99 * prior + 0.01 * others  # the problem is convex: no better neighbour means no better point
    error = np.linalg.norm(prior @ T - noisy)
    assert error <= np.linalg.norm(near @ T - noisy, axis=1).min() + 1e-9


def test_leaves_the_plain_solution_where_it_is_negative():
    T = pairflip(3, 0.4)
    noisy = np.array([0.05, 0.05, 0.9])
    assert np.linalg.solve(T.T, noisy).min() < 0
    prior = clean_prior(noisy, T)
    assert prior.min() == 0
    # KKT: the gradient is equal on the support and not smaller off it
    gradient = T @ (prior @ T - noisy)
    support = prior > 0
    np.testing.assert_allclose(gradient[support], gradient[support].mean(), atol=1e-12)
    assert (gradient[~support] >= gradient[support].mean() - 1e-12).all()


@given(st.integers(0, 10_000))
def test_nonnegative_least_squares_equals_scipy(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(7, 5)), rng.normal(size=7)
    np.testing.assert_allclose(_nonnegative_least_squares(A, b), nnls(A, b)[0], atol=1e-10)


@given(transitions(), st.integers(0, 1000))
def test_gradient_steps_end_where_the_active_set_ends(T, seed):
    noisy = np.random.default_rng(seed).dirichlet(np.full(len(T), 0.3))
    start = np.linalg.solve(T.T, noisy)
    np.testing.assert_allclose(_projected_gradient(start, noisy, T), clean_prior(noisy, T), atol=1e-9)


@pytest.mark.parametrize("T", [pairflip(300, 0.4), symmetric(300, 0.6)], ids=["pair", "symmetric"])
def test_hundreds_of_classes_of_which_the_noise_emptied_some(T):
    noisy = np.random.default_rng(0).dirichlet(np.full(300, 0.3))
    assert np.linalg.solve(T.T, noisy).min() < 0
    prior = clean_prior(noisy, T)
    assert prior.min() == 0
    assert prior.sum() == pytest.approx(1)
    gradient = T @ (prior @ T - noisy)  # equal on the support, not smaller off it
    np.testing.assert_allclose(gradient[prior > 0], gradient[prior > 0].mean(), atol=1e-12)
    assert gradient.min() >= gradient[prior > 0].mean() - 1e-12


def test_uniform_stays_uniform_under_symmetric_noise():
    np.testing.assert_allclose(clean_prior(np.full(10, 0.1), symmetric(10, 0.6)), np.full(10, 0.1))


@pytest.mark.parametrize("noisy", [[0.5, 0.6], [1.0], [-0.1, 1.1], [np.nan, 1.0]])
def test_refuses_what_is_no_prior(noisy):
    with pytest.raises(ValueError, match="prior"):
        clean_prior(noisy, symmetric(2, 0.1))
