"""Ridge regression by conjugate gradients is scikit-learn's."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from unflip.core.ridge import solve_sparse_ridge


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_is_the_ridge_regression_of_scikit_learn(fit_intercept):
    random = np.random.default_rng(0)
    X = sparse.csr_array(random.random((80, 120)) * (random.random((80, 120)) < 0.1))
    targets, weights = random.normal(size=(80, 3)), random.random(80)
    W, b = solve_sparse_ridge(X, targets, weights, 0.5, fit_intercept)
    ridge = Ridge(0.5, fit_intercept=fit_intercept).fit(X.toarray(), targets, weights)
    np.testing.assert_allclose(W.T, ridge.coef_, atol=1e-8)
    np.testing.assert_allclose(b, np.broadcast_to(ridge.intercept_, 3), atol=1e-8)
    # From a solution nearby it takes fewer iterations.
    near, _ = solve_sparse_ridge(X, targets, weights, 0.51, fit_intercept, most=3, start=W)
    far, _ = solve_sparse_ridge(X, targets, weights, 0.51, fit_intercept, most=3)
    assert np.abs(near - W).max() < np.abs(far - W).max()


def test_weights_of_each_target_are_fits_of_their_own():
    random = np.random.default_rng(1)
    X = sparse.csr_array(random.random((60, 90)) * (random.random((60, 90)) < 0.1))
    targets, weights = random.normal(size=(60, 3)), random.integers(3, size=(60, 3)).astype(float)
    W, b = solve_sparse_ridge(X, targets, weights, 0.5)
    for j in range(3):
        w, one = solve_sparse_ridge(X, targets[:, [j]], weights[:, j], 0.5)
        np.testing.assert_allclose(W[:, [j]], w, atol=1e-9)
        np.testing.assert_allclose(b[j], one[0], atol=1e-9)
