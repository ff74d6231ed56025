"""What a label probably was before the noise."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from unflip._validation import FloatArray, IntArray, check_codes, check_prior, check_same_length, check_transition

EVEN = 0.01  # EM leaves a class that starts at zero there
EM_STEPS = 8  # more would bring p to the edge of the simplex, where it forgets which of two labels is likelier


def clean_posterior(
    proba: ArrayLike, y: ArrayLike, transition: ArrayLike, prior: ArrayLike | None = None
) -> FloatArray:
    """Return P(clean = k | x, noisy = y), shape (n_samples, n_classes), by Bayes' rule::

        P(clean = k | x, noisy = y)  =  p_k(x) T[k, y] / sum_l p_l(x) T[l, y]

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes)
        p_k(x) = P(clean = k | x), from a model that was not trained on the sample.
    y, transition : array-like of int, shape (n_samples,), and array-like of shape (n_classes, n_classes)
        Codes of the noisy labels, and T[i, j] = P(noisy = j | clean = i).
    prior : array-like of shape (n_classes,), default=None
        The clean class prior. It replaces p(x) where the model and T together rule out the observed label, so that
        Bayes' rule reads 0 / 0. If None, the uniform prior is used.

    Examples
    --------
    >>> T = [[0.6, 0.4], [0.1, 0.9]]
    >>> clean_posterior([[0.9, 0.1]], [1], T).round(2).tolist()
    [[0.8, 0.2]]
    """
    T = check_transition(transition, invertible=False)
    p = np.asarray(proba, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != len(T):
        raise ValueError(f"proba must have one column per class, shape (n_samples, {len(T)}); got shape {p.shape}")
    if not np.isfinite(p).all() or p.min(initial=0) < 0:
        raise ValueError("proba has NaN, infinite or negative entries; pass the output of predict_proba")
    codes = check_codes(y, len(T))
    check_same_length(proba=p, y=codes)
    pi = np.full(len(T), 1 / len(T)) if prior is None else check_prior(prior, len(T))
    joint = p * T.T[codes]
    impossible = joint.sum(axis=1) <= 0
    joint[impossible] = pi * T.T[codes[impossible]]
    total = joint.sum(axis=1, keepdims=True)
    # If a column of T is zero, nothing explains the label and only the prior is known.
    return np.where(total > 0, joint / np.where(total > 0, total, 1), pi)


def tempered(p: FloatArray, t: float) -> FloatArray:
    """Return p^t with rows that sum to one."""
    return p if t == 1 else softmax(t * np.log(np.maximum(p, 1e-12)), axis=1)


def calibrated(p: FloatArray, theta: FloatArray) -> FloatArray:
    """Return softmax(t log p + b) for theta = (t, b), shape (n_samples, n_classes)."""
    if theta[0] == 1 and not theta[1:].any():
        return p
    q: FloatArray = softmax(theta[0] * np.log(np.maximum(p, 1e-9)) + theta[1:], axis=1)
    return q


def blended(
    posteriors: Sequence[FloatArray], weights: FloatArray, temperatures: FloatArray, theta: FloatArray
) -> FloatArray:
    """Return the average of posteriors, each at its temperature, with weights, calibrated by theta."""
    parts = zip(weights, posteriors, temperatures, strict=True)
    return calibrated(np.sum([w * tempered(p, t) for w, p, t in parts], axis=0), theta)


def bayes(p: FloatArray, codes: IntArray, T: FloatArray) -> FloatArray:
    """Return P(clean = k | x, noisy = y) for checked arrays; p itself where p and T rule the label out."""
    joint = p * T.T[codes]
    total = joint.sum(axis=1, keepdims=True)
    return np.where(total > 0, joint / np.where(total > 0, total, 1), p)


def inverted_posterior(q: FloatArray, T: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the clean posterior p that explains a noisy one, q = p T, shape (n_samples, n_classes).

    q of a fitted model is rarely a mixture of the rows of T, so q T^-1 leaves the simplex. Instead p moves from the
    clean prior towards what explains q best, the solution of p T = q if one exists, in eight steps of EM::

        p -> argmax  sum_j q_j log (p T)_j,      p_k <- p_k sum_j T[k, j] q_j / (p T)_j

    At the end of that path many p_k are zero, and the order of the unlikely classes is lost.
    """
    p = np.tile(EVEN / len(T) + (1 - EVEN) * prior, (len(q), 1))
    for _ in range(EM_STEPS):
        explained = p @ T
        p *= np.divide(q, explained, out=np.zeros_like(q), where=explained > 0) @ T.T
    return p / p.sum(axis=1, keepdims=True)
