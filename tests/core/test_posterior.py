"""Bayes' rule for the single label."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import transitions
from unflip.core import clean_posterior


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
