"""POSTERIOR: what a label probably was before the noise; and scores as probabilities."""

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import FloatArray, check_codes, check_prior, check_same_length, check_transition


def clean_posterior(
    proba: ArrayLike, y: ArrayLike, transition: ArrayLike, prior: ArrayLike | None = None
) -> FloatArray:
    """Return P(clean = k | x, noisy = y), shape (n_samples, n_classes), by Bayes' rule::

        P(clean = k | x, noisy = y)  =  p_k(x) T[k, y] / sum_l p_l(x) T[l, y]

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes)
        p_k(x) = P(clean = k | x), from a model that did not train on the sample.
    y : array-like of int, shape (n_samples,)
        Codes of the noisy labels.
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    prior : array-like of shape (n_classes,), default=None
        The clean class prior. It stands in for p(x) where the model and T together rule the observed label out, so that
        Bayes' rule reads 0 / 0; None is the uniform one.

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
        raise ValueError("proba must be probabilities: finite and not negative")
    codes = check_codes(y, len(T))
    check_same_length(proba=p, y=codes)
    pi = np.full(len(T), 1 / len(T)) if prior is None else check_prior(prior, len(T))
    joint = p * T.T[codes]
    impossible = joint.sum(axis=1) <= 0
    joint[impossible] = pi * T.T[codes[impossible]]
    total = joint.sum(axis=1, keepdims=True)
    # A column of T may be zero: then nothing explains the label and the prior is all that is known.
    return np.where(total > 0, joint / np.where(total > 0, total, 1), pi)


def project_to_simplex(scores: ArrayLike) -> FloatArray:
    """Return the nearest probabilities to each row of scores, shape (n_samples, n_classes).

    ::

        argmin_p |p - s|^2   subject to   p >= 0, sum p = 1;    p = max(s - tau, 0)

    Least-squares scores estimate P(class | x) but may leave [0, 1]; this is the closest distribution, and it keeps
    their order. The threshold tau comes from sorting (Held, Wolfe and Crowder 1974).

    Examples
    --------
    >>> project_to_simplex([[0.7, 0.5, -0.3]]).round(2).tolist()
    [[0.6, 0.4, 0.0]]
    """
    s = np.asarray(scores, dtype=np.float64)
    ordered = -np.sort(-s, axis=1)
    tau = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, s.shape[1] + 1)
    last = np.count_nonzero(ordered > tau, axis=1) - 1  # the smallest score that stays positive
    p = np.maximum(s - np.take_along_axis(tau, last[:, np.newaxis], axis=1), 0)
    return p / p.sum(axis=1, keepdims=True)
