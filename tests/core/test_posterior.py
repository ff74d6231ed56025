"""Bayes' rule for the single label, and scores as probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from tests.strategies import transitions
from unflip.core import clean_posterior, project_to_simplex


@given(transitions(), st.integers(0, 1000))
def test_posterior_equals_bayes_rule_in_a_loop(T, seed):
    c = len(T)
    rng = np.random.default_rng(seed)
    p, y = rng.dirichlet(np.ones(c), size=8), rng.integers(c, size=8)
    q = clean_posterior(p, y, T)
    for i in range(8):
        joint = [p[i, k] * T[k, y[i]] for k in range(c)]
        np.testing.assert_allclose(q[i], np.array(joint) / sum(joint), atol=1e-12)


def test_posterior_with_clean_labels_is_the_label():
    np.testing.assert_array_equal(clean_posterior([[0.2, 0.3, 0.5]], [0], np.eye(3)), [[1, 0, 0]])


def test_posterior_falls_back_on_the_prior_where_model_and_T_contradict():
    # The model is sure of class 0, T says class 0 never looks like 1, and yet 1 was observed.
    T = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]
    q = clean_posterior([[1.0, 0.0, 0.0]], [1], T, prior=[0.5, 0.1, 0.4])
    np.testing.assert_allclose(q, [[0, 0.2, 0.8]])


def test_posterior_where_T_never_gives_the_label():
    q = clean_posterior([[0.5, 0.5]], [1], [[1.0, 0.0], [1.0, 0.0]], prior=[0.3, 0.7])
    np.testing.assert_allclose(q, [[0.3, 0.7]])


@pytest.mark.parametrize(
    ("proba", "match"), [([[0.5, 0.5, 0]], "one column per class"), ([[np.nan, 1]], "finite"), ([[-1, 2]], "negative")]
)
def test_posterior_refuses_what_is_no_probability(proba, match):
    with pytest.raises(ValueError, match=match):
        clean_posterior(proba, [0], np.eye(2))


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_projection_is_a_distribution_in_the_same_order(row):
    p = project_to_simplex([row])[0]
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1)
    assert p[np.argmax(row)] == p.max()  # scores that differ by less than rounding may tie
    for i in range(len(row)):
        for j in range(len(row)):
            assert row[i] < row[j] or p[i] >= p[j] - 1e-12


@given(st.integers(0, 1000))
def test_projection_is_the_nearest_point(seed):
    s = np.random.default_rng(seed).normal(size=4)
    best = minimize(
        lambda p: np.sum((p - s) ** 2),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14},
    ).x
    np.testing.assert_allclose(project_to_simplex([s])[0], best, atol=1e-5)


def test_projection_keeps_distributions():
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=10)
    np.testing.assert_allclose(project_to_simplex(p), p, atol=1e-15)
