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

    X is centered without being filled in, (X - 1 m') W = X W - 1 (m' W), and the diagonal of X'X + alpha I is the
    preconditioner. It stops when the residual of each column is ``tol`` of its right-hand side, or after ``most``
    iterations.
    """
    total = w.sum()
    mean = (w @ X) / total * fit_intercept
    offset = (w @ targets) / total * fit_intercept

    def product(P: FloatArray) -> FloatArray:
        return back(X @ P - mean @ P) + alpha * P

    def back(Z: FloatArray) -> FloatArray:
        Z = Z * w[:, np.newaxis]
        result: FloatArray = X.T @ Z - np.outer(mean, Z.sum(axis=0))
        return result

    diagonal = w @ X.power(2) - total * mean**2 + alpha
    scale = np.divide(1, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)[:, np.newaxis]
    B = back(targets - offset)
    goal = tol * np.linalg.norm(B, axis=0)
    W = np.zeros_like(B) if start is None else start
    R = B if start is None else B - product(W)
    P = Z = scale * R
    size = np.sum(R * Z, axis=0)
    for _ in range(10 * max(X.shape) if most is None else most):
        if (np.linalg.norm(R, axis=0) <= goal).all():
            break
        Q = product(P)
        curvature = np.sum(P * Q, axis=0)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0)  # zero: nothing is left to do
        W, R = W + step * P, R - step * Q
        Z = scale * R
        before, size = size, np.sum(R * Z, axis=0)
        P = Z + np.divide(size, before, out=np.zeros_like(size), where=before > 0) * P
    return W, offset - mean @ W
