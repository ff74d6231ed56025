"""RISK: ridge regression on a wide sparse X, whose X'X would be too large."""

from typing import Any

import numpy as np

from unflip._validation import FloatArray


def solve_sparse_ridge(
    X: Any,
    targets: FloatArray,
    w: FloatArray,
    alpha: float,
    fit_intercept: bool = True,
    *,
    tol: float = 1e-10,
    most: int | None = None,
    start: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return W (d, c) and b (c,) of the ridge regression on targets (n, c), by conjugate gradients for all at once.

    The weights w are one for each row, (n,), or one for each row and target, (n, c): with zeros they leave rows out,
    so that the models of all folds share each product with X. X is centered without being filled in,
    (X - 1 m') W = X W - 1 (m' W), and the diagonal of X'X + alpha I is the preconditioner. It stops when the residual
    of each column is ``tol`` of its right-hand side, or after ``most`` iterations.
    """
    w = w.reshape(len(w), -1)
    total = w.sum(axis=0)
    mean = (X.T @ w) / total * fit_intercept  # (d, 1) or (d, c)
    offset = np.sum(w * targets, axis=0) / total * fit_intercept

    def product(P: FloatArray) -> FloatArray:
        result = back(X @ P - inner(mean, P))
        result += alpha * P
        return result

    def back(Z: FloatArray) -> FloatArray:
        Z = Z * w
        result: FloatArray = X.T @ Z
        result -= mean * Z.sum(axis=0)
        return result

    diagonal = X.power(2).T @ w - total * mean**2 + alpha
    scale = np.divide(1, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    B = back(targets - offset)
    goal = tol * np.sqrt(inner(B, B))
    W = np.zeros_like(B) if start is None else start.copy()
    R = B if start is None else B - product(W)
    P = Z = scale * R
    size = inner(R, Z)
    for _ in range(10 * max(X.shape) if most is None else most):
        if (np.sqrt(inner(R, R)) <= goal).all():
            break
        Q = product(P)
        curvature = inner(P, Q)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0)  # zero: nothing is left to do
        W += step * P
        R -= step * Q
        Z = scale * R
        before, size = size, inner(R, Z)
        P = P * np.divide(size, before, out=np.zeros_like(size), where=before > 0)
        P += Z
    return W, offset - inner(mean, W)


def inner(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return the inner product of each column of A, or of its only one, with that of B, shape (c,)."""
    result: FloatArray = np.einsum("dc,dc->c", A, B)
    return result
