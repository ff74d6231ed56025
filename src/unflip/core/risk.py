"""RISK: the squared loss split into a part that never sees the label and a part that sees it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import FloatArray, check_codes, check_same_length
from unflip.core.sums import ClassSums


class DecomposedRisk(NamedTuple):
    """The mean squared loss as two parts, Eq. (eq_trace): noise reaches the second alone."""

    label_free: float
    """1 + mean |h|^2"""
    label_dependent: float
    """-2 mean <t, h>, for a linear model -2 tr(W' mu)"""

    @property
    def total(self) -> float:
        return self.label_free + self.label_dependent


def decomposed_risk(
    scores: ArrayLike, y: ArrayLike, labels: ArrayLike, sample_weight: ArrayLike | None = None
) -> DecomposedRisk:
    """Return the (corrected) squared risk of any model's scores, Eq. (final_loss) sample by sample::

        R = (1 + mean |h_i|^2)  -  2 mean <t_i, h_i>,    t_i = row y_i of ``labels``

    With ``labels = corrected_labels(T)`` it estimates the risk on clean labels without bias from noisy ones; with the
    identity it is the plain mean of |y - h|^2. It may be negative: it is an estimate, never clip it.

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_classes)
        h, the model's raw outputs.
    y : array-like of int, shape (n_samples,)
        Codes of the noisy labels.
    labels : array-like of shape (n_classes, n_classes)
        Row k stands for the label k.
    sample_weight : array-like of shape (n_samples,), default=None

    Examples
    --------
    >>> decomposed_risk([[0.5, 0.5]], [0], np.eye(2))
    DecomposedRisk(label_free=1.5, label_dependent=-1.0)
    """
    h = np.asarray(scores, dtype=np.float64)
    rows = np.asarray(labels, dtype=np.float64)
    codes = check_codes(y, len(rows))
    weights = np.ones(len(h)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    check_same_length(scores=h, y=codes, sample_weight=weights)
    return DecomposedRisk(
        1 + float(np.average(np.sum(h * h, axis=1), weights=weights)),
        -2 * float(np.average(np.sum(rows[codes] * h, axis=1), weights=weights)),
    )


def linear_risk(
    sums: ClassSums, coef: FloatArray, intercept: FloatArray, labels: FloatArray | None = None
) -> DecomposedRisk:
    """Return :func:`decomposed_risk` of the scores ``X @ coef + intercept`` from sums alone.

    ::

        mean |h|^2   = tr(W' S W) / n + |h_mean|^2       S the scatter, h_mean = W' mean + b
        mean <t, h>  = sum_k <t_k, n_k b + W' sum_{y = k} x> / n

    Parameters
    ----------
    sums : ClassSums
    coef : ndarray of shape (n_features, n_classes)
    intercept : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_classes, n_classes), default=None
        None is the identity: the labels are clean, or the sums are corrected already.
    """
    W, b, n = coef, intercept, sums.weight
    at_mean = sums.mean @ W + b
    squares = np.sum(W * (sums.scatter @ W)) / n + at_mean @ at_mean
    # tr(labels' (sums W + counts at_mean')), with the labels moved to the sums: c x d, never c x c scores.
    own, counts = sums.centred_sums, sums.counts
    if labels is not None:
        own, counts = labels.T @ own, counts @ labels
    return DecomposedRisk(1 + float(squares), -2 * float(np.sum(own * W.T) + counts @ at_mean) / n)
