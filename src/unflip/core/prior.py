"""PRIOR: the clean class probabilities from the noisy ones."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import FloatArray, check_prior, check_transition
from unflip.core.posterior import project_to_simplex

FEW_CLASSES = 128  # beyond it the active set, a least-squares problem for each class, costs more than gradient steps


def clean_prior(noisy_prior: ArrayLike, transition: ArrayLike) -> FloatArray:
    """Return the clean class prior pi, shape (n_classes,), from the noisy one.

    Solves the paper's prior equations, Eq. (eq_priors)::

        P(noisy = j) = sum_i T[i, j] pi_i        that is   noisy_prior = T' pi

    Rows of T sum to one, so the plain solution sums to one too, but sampling noise or an error in T may push a rare
    class below zero. The paper is silent there; then pi is the point of the simplex that fits best::

        min |T' pi - noisy_prior|^2   subject to   pi >= 0, sum pi = 1

    Parameters
    ----------
    noisy_prior : array-like of shape (n_classes,)
        Frequencies of the noisy labels.
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).

    Examples
    --------
    >>> clean_prior([0.55, 0.45], [[0.9, 0.1], [0.2, 0.8]]).round(6).tolist()
    [0.5, 0.5]
    """
    T = check_transition(transition)
    noisy = check_prior(noisy_prior, len(T))
    return nearest_prior(np.asarray(np.linalg.solve(T.T, noisy), dtype=np.float64), noisy, T)


def nearest_prior(plain: FloatArray, noisy: FloatArray, T: Any) -> FloatArray:
    """Return the ``plain`` solution of T' pi = noisy where it is a prior, else the best point of the simplex.

    T may be anything that multiplies a vector, a sparse matrix for one.
    """
    if plain.min() >= 0:
        return plain / plain.sum()
    if len(noisy) > FEW_CLASSES:
        return _projected_gradient(plain, noisy, T)
    # On the simplex noisy = noisy (1' pi), so T' pi - noisy = B pi with B = T' - noisy 1'. Minimising |B u|^2 +
    # (1' u - 1)^2 over u >= 0 gives the same direction: with u = s pi the best s leaves q / (1 + q), q = |B pi|^2.
    B = (T.toarray() if hasattr(T, "toarray") else T).T - noisy[:, np.newaxis]
    u = _nonnegative_least_squares(np.vstack([B, np.ones(len(noisy))]), np.append(np.zeros(len(noisy)), 1.0))
    return u / u.sum()


def _projected_gradient(start: FloatArray, noisy: FloatArray, T: Any) -> FloatArray:
    """min |T' pi - noisy|^2 over the simplex by accelerated steps (Beck and Teboulle, 2009), restarted uphill."""
    step = 1 / float(T.sum(axis=0).max())  # |T|^2 <= |T|_1 |T|_max, and rows sum to one
    pi = project_to_simplex(start[np.newaxis])[0]
    ahead, t = pi, 1.0
    for _ in range(10_000):
        gradient = T @ (T.T @ ahead - noisy)
        moved = project_to_simplex((ahead - step * gradient)[np.newaxis])[0]
        change = moved - pi
        if np.abs(change).max() <= 1e-12 / len(noisy):
            break
        t_next = 1.0 if (ahead - moved) @ change > 0 else (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = moved + (0.0 if t_next == 1 else (t - 1) / t_next) * change
        pi, t = moved, t_next
    return moved


def _nonnegative_least_squares(A: FloatArray, b: FloatArray) -> FloatArray:
    """min |A x - b|^2 over x >= 0 by the active-set method of Lawson and Hanson (1974), chapter 23."""
    n = A.shape[1]
    x = np.zeros(n)
    free = np.zeros(n, dtype=bool)
    tolerance = 1e-12 * np.abs(A).sum()
    for _ in range(3 * n):
        gradient = A.T @ (b - A @ x)
        if free.all() or gradient[~free].max() <= tolerance:
            break
        free[np.where(free, -np.inf, gradient).argmax()] = True
        while True:
            target = np.zeros(n)
            target[free] = np.linalg.lstsq(A[:, free], b, rcond=None)[0]
            blocked = free & (target <= 0)
            if not blocked.any():
                break
            step = np.min(x[blocked] / (x[blocked] - target[blocked]))
            x += step * (target - x)
            free &= x > 1e-14
            x[~free] = 0
        x = target
    return x
