"""Random transition matrices and priors for property tests."""

import numpy as np
from hypothesis import strategies as st


@st.composite
def transitions(draw, min_classes=2, max_classes=6):
    """Row-stochastic and diagonally dominant, hence invertible: T = (1 - r) I + r S with a random stochastic S."""
    c = draw(st.integers(min_classes, max_classes))
    rate = draw(st.floats(0.0, 0.45))
    seed = draw(st.integers(0, 2**32 - 1))
    S = np.random.default_rng(seed).dirichlet(np.ones(c), size=c)
    return (1 - rate) * np.eye(c) + rate * S


def random_prior(n_classes, seed):
    return np.random.default_rng(seed).dirichlet(np.full(n_classes, 2.0))
