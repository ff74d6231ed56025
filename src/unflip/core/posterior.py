"""What a label probably was before the noise."""

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
