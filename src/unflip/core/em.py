"""EM for T with fixed clean posteriors."""

from itertools import pairwise

import numpy as np

from unflip._validation import FloatArray, IntArray


def em_transition(
    posteriors: FloatArray,
    y: IntArray,
    transition: FloatArray,
    *,
    volume: float = 0.0,
    steps: int = 1,
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Return T after EM steps with fixed posteriors; see :class:`unflip.transition.CrossFitEM` for the formula.

    Parameters
    ----------
    posteriors : ndarray of shape (n_samples, n_classes)
        P(clean | x).
    y : ndarray of int, shape (n_samples,)
        Codes of the noisy labels.
    transition : ndarray of shape (n_classes, n_classes)
    volume : float, default=0.0
        Weight of the volume. A row whose diagonal would cease to be its largest entry is left to the likelihood alone.
        Without volume no step lowers the likelihood of the noisy labels.
    steps : int, default=1
    sample_weight : ndarray of shape (n_samples,), default=None
    """
    T = np.array(transition, dtype=np.float64)
    c = len(T)
    w = np.ones(len(y)) if sample_weight is None else sample_weight
    order = np.argsort(y, kind="stable")
    P, w = posteriors[order], w[order]
    ends = np.searchsorted(y[order], np.arange(c + 1))
    parts = [(P[a:b], w[a:b]) for a, b in pairwise(ends)]  # samples of one noisy label each
    for _ in range(steps):
        N = np.empty((c, c))
        for j, (p, weight) in enumerate(parts):
            q = np.maximum(p @ T[:, j], 1e-300)
            N[:, j] = T[:, j] * (p.T @ (weight / q))
        size = N.sum(axis=1, keepdims=True)
        free = np.where(size > 0, N / np.where(size > 0, size, 1), T)  # a class without samples keeps its row
        T = free if volume == 0 else _drawn_inwards(free, T, volume)
    return T


def _drawn_inwards(free: FloatArray, T: FloatArray, volume: float) -> FloatArray:
    drawn = np.maximum(free - volume * T * np.linalg.pinv(T).T, 0)
    size = drawn.sum(axis=1, keepdims=True)
    possible = (size[:, 0] > 0) & (drawn.argmax(axis=1) == np.arange(len(T)))
    return np.where(possible[:, np.newaxis], drawn / np.where(size > 0, size, 1), free)


def mean_log_likelihood(
    posteriors: FloatArray, y: IntArray, transition: FloatArray, sample_weight: FloatArray | None = None
) -> float:
    """Return the mean of log (p T)[y], the log-likelihood of noisy labels under clean posteriors p and T."""
    q = np.einsum("nk,kn->n", posteriors, transition[:, y])
    return float(np.average(np.log(np.maximum(q, 1e-300)), weights=sample_weight))
