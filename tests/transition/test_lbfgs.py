import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from unflip.transition._lbfgs import lbfgs


def quadratic(seed=0, n=30):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    A = A @ A.T / n + np.eye(n)
    b = rng.normal(size=n)
    return A, b, lambda x: (float(x @ A @ x / 2 - b @ x), A @ x - b)


def test_minimum_of_a_quadratic():
    A, b, objective = quadratic()
    x, _ = lbfgs(objective, np.zeros(30), gtol=1e-8, maxiter=200)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), atol=1e-7)


def test_minimum_of_a_curved_valley():
    x, _ = lbfgs(lambda x: (rosen(x), rosen_der(x)), np.full(5, -1.0), gtol=1e-6, maxiter=500)
    np.testing.assert_allclose(x, 1, atol=1e-5)


def test_start_at_the_minimum_takes_one_evaluation():
    A, b, objective = quadratic()
    x = np.linalg.solve(A, b)
    found, evaluations = lbfgs(objective, x, gtol=1e-8, maxiter=200)
    assert evaluations == 1
    np.testing.assert_array_equal(found, x)


def test_single_precision_of_the_past_hardly_matters():
    A, b, objective = quadratic()
    x, _ = lbfgs(objective, np.zeros(30), gtol=1e-5, maxiter=200, precision=np.float32)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), atol=1e-4)


def test_no_step_raises_the_value():
    _, _, objective = quadratic()
    values = []
    for steps in range(6):
        x, _ = lbfgs(objective, np.ones(30), gtol=0.0, maxiter=steps)
        values.append(objective(x)[0])
    assert np.all(np.diff(values) < 0)


@pytest.mark.parametrize("gradient", [-1.0, 1.0])
def test_ends_where_no_step_helps(gradient):
    x, _ = lbfgs(lambda x: (float(abs(x[0])), np.array([gradient])), np.zeros(1), gtol=1e-6, maxiter=50)
    assert x == 0
