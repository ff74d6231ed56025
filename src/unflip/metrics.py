"""EVALUATE: scores that need no clean labels, and the errors of T and of the centroid where the truth is known."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from unflip._validation import FloatArray, check_labels, check_same_length, check_transition
from unflip.core import corrected_labels


class CleanAccuracy(NamedTuple):
    """An estimate of the accuracy on clean labels, with its confidence interval."""

    estimate: float
    """Unbiased, therefore not clipped: it may leave [0, 1] by chance."""
    low: float
    high: float
    standard_error: float


def clean_accuracy(
    y_noisy: ArrayLike,
    y_pred: ArrayLike,
    transition: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    confidence: float = 0.95,
) -> CleanAccuracy:
    """Estimate the accuracy of predictions on clean labels from noisy labels alone.

    Row y of T^-1 replaces the one-hot noisy label without bias (:func:`unflip.core.corrected_labels`), and accuracy is
    linear in it, therefore::

        accuracy  ~  (1/n) sum_i  (T^-1)[noisy_i, pred_i],      E[(T^-1)[noisy, k] | clean] = 1 if clean = k else 0

    Parameters
    ----------
    y_noisy : array-like of shape (n_samples,)
        Noisy labels that the model did not train on.
    y_pred : array-like of shape (n_samples,)
        Predicted (clean) labels.
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted. None takes those that occur in ``y_noisy`` or ``y_pred``.
    sample_weight : array-like of shape (n_samples,), default=None
    confidence : float, default=0.95
        Probability that the interval covers the accuracy.

    Returns
    -------
    CleanAccuracy
        ``estimate``, ``low``, ``high``, ``standard_error``.

    Notes
    -----
    The interval is the normal one from the standard error of the mean, cut to [0, 1]. It speaks of the sampling of data
    and noise; an error in T is not in it, and T^-1 magnifies that error where T is hard to invert. An estimate beyond
    [0, 1] by more than three standard errors shows it, and warns. The price of the correction is variance: the harder
    T is to invert, the wider the interval.

    Examples
    --------
    >>> T = [[0.7, 0.3], [0.3, 0.7]]
    >>> score = clean_accuracy([0] * 65 + [1] * 35, [0] * 100, T)
    >>> f"{score.estimate:.3f} in [{score.low:.2f}, {score.high:.2f}]"
    '0.875 in [0.64, 1.00]'
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is a probability between 0 and 1; got {confidence}")
    noisy, predicted = np.asarray(y_noisy), np.asarray(y_pred)
    check_same_length(y_noisy=noisy, y_pred=predicted, sample_weight=sample_weight)
    if classes is None:
        classes = check_labels(np.concatenate([noisy, predicted]))[0]
    known, noisy_codes = check_labels(noisy, classes)
    _, predicted_codes = check_labels(predicted, classes)
    labels = corrected_labels(check_transition(transition, len(known)))
    hits = labels[noisy_codes, predicted_codes]
    weights = _check_weights(sample_weight, len(hits))
    estimate = float(weights @ hits)
    # Var(sum w_i z_i) of independent z_i with weights that sum to one; n / (n - 1) makes it unbiased for equal weights.
    n_effective = 1 / float(weights @ weights)
    spread = float(weights**2 @ (hits - estimate) ** 2)
    # One sample (or one that has all the weight) says nothing of its own spread.
    error = float(np.sqrt(spread * n_effective / (n_effective - 1))) if n_effective > 1 + 1e-9 else np.inf
    half = float(norm.ppf((1 + confidence) / 2)) * error
    if estimate + 3 * error < -1e-9 or estimate - 3 * error > 1 + 1e-9:
        warnings.warn(
            f"the estimated accuracy is {estimate:.2f} +- {error:.2f}, which no sampling explains: transition does not "
            "fit these labels. Estimate it anew, or from more data",
            UserWarning,
            stacklevel=2,
        )
    low, high = np.clip([estimate - half, estimate + half], 0, 1)
    return CleanAccuracy(estimate, float(low), float(high), error)


def clean_scorer(transition: ArrayLike, classes: ArrayLike | None = None) -> "CleanScorer":
    """Return a scikit-learn scorer, for ``GridSearchCV`` and its like: the estimated accuracy on clean labels.

    Model selection by accuracy on noisy labels rewards fitting the noise; this score does not, see
    :func:`clean_accuracy`.

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted. None takes the ``classes_`` of the estimator that is scored.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(cross_val_score(RidgeClassifier(), X, y, scoring=clean_scorer(np.eye(3))).mean() > 0.8)
    True
    """
    return CleanScorer(check_transition(transition), classes)


class CleanScorer(NamedTuple):
    """What :func:`clean_scorer` returns: called with an estimator, X and noisy y."""

    transition: FloatArray
    classes: ArrayLike | None = None

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        classes = estimator.classes_ if self.classes is None else self.classes
        return clean_accuracy(
            y, estimator.predict(X), self.transition, classes=classes, sample_weight=sample_weight
        ).estimate


def transition_error(estimated: ArrayLike, true: ArrayLike) -> float:
    """Return sum |T_estimated - T| / n_classes: twice the mean total variation distance of the rows, in [0, 2].

    Examples
    --------
    >>> round(transition_error([[0.8, 0.2], [0.2, 0.8]], [[0.9, 0.1], [0.2, 0.8]]), 6)
    0.1
    """
    T = check_transition(true, invertible=False)
    return float(np.abs(check_transition(estimated, len(T), invertible=False) - T).sum() / len(T))


def centroid_error(estimated: ArrayLike, true: ArrayLike) -> float:
    """Return |mu_estimated - mu| / |mu|, Frobenius norms, of two centroids (n_features, n_classes).

    Examples
    --------
    >>> centroid_error([[1.0, 0.0]], [[2.0, 0.0]])
    0.5
    """
    a, b = np.asarray(estimated, dtype=np.float64), np.asarray(true, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"both centroids must have one shape, (n_features, n_classes); got {a.shape} and {b.shape}")
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def _check_weights(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    """Weights that sum to one."""
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,) or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise ValueError("sample_weight must be finite, not negative and not all zero, one number per sample")
    return weights / weights.sum()
