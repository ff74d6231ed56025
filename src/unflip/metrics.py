"""EVALUATE: scores that need no clean labels, and the errors of T and of the centroid if the truth is known."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from scipy.stats import t as student

from unflip._validation import FloatArray, check_labels, check_same_length, check_transition
from unflip.core.ldce import pseudo_inverse


class CleanAccuracy(NamedTuple):
    """An estimate of the accuracy on clean labels, with its confidence interval."""

    estimate: float
    """Unbiased and therefore not clipped: it may leave [0, 1] by chance."""
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
    transition_std: ArrayLike | None = None,
    alternatives: Sequence[ArrayLike] = (),
    posteriors: Sequence[ArrayLike] = (),
) -> CleanAccuracy:
    """Estimate the accuracy of predictions on clean labels, with an interval, from noisy labels alone.

    Row y of T^-1 replaces the one-hot noisy label without bias (:func:`unflip.core.corrected_labels`), and accuracy is
    linear in it, so::

        accuracy  ~  (1/n) sum_i z_i,    z_i = (T^-1)[noisy_i, pred_i],    E[z | clean] = 1 if clean = pred else 0

    Parameters
    ----------
    y_noisy, y_pred : array-like of shape (n_samples,)
        Noisy labels that the model did not train on, and predicted (clean) labels.
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted. If None, they are those that occur in ``y_noisy`` or ``y_pred``.
    sample_weight : array-like of shape (n_samples,), default=None
    confidence : float, default=0.95
        Probability that the interval covers the accuracy.
    transition_std : array-like of shape (n_classes, n_classes), default=None
        Standard error of each entry of T, ``transition_std_`` of an estimator of T. If None, T is taken as exact.
    alternatives : sequence of array-like of shape (n_classes, n_classes), default=()
        Other T that the data do not rule out, such as ``alternatives_`` of :class:`unflip.CorrectedClassifier`. The
        interval then covers the accuracy whichever of them is right.
    posteriors : sequence of array-like of shape (n_samples, n_classes), default=()
        P(clean = k | x, noisy) of the samples according to noise that no T describes, columns in the order of the
        classes: the interval also covers what they say, the mean of P(clean = predicted | x, noisy).
        :meth:`unflip.audit.LabelErrors.accuracy` passes those of noise that depends on the sample.

    Notes
    -----
    The interval is Wilson's, for the z_i in place of hits and misses: q^2 samples of a model that is right half of the
    time are added, whose z have mean 1/2 and a variance v that follows from T (1/4 if T = I)::

        (n mean z + q^2 / 2) / (n + q^2)  +-  q sqrt(n var z + q^2 v) / (n + q^2)

    q is the quantile of Student's t with n - 1 degrees of freedom, and n the effective number of samples if they are
    weighted. So the interval has a width even if all z are equal, and for large n it is the usual one, mean +- q
    standard errors. It is cut to [0, 1]; a mean outside of that is first moved to its edge.

    Without ``transition_std`` the interval covers the sampling of data and noise, but no error in T, which T^-1
    magnifies if T is hard to invert. With it, the standard error e of the mean of z grows to that of both (delta
    method). Let N[y, p] be the share of samples with noisy label y that are predicted as p::

        mean z = sum_yp N[y, p] (T^-1)[y, p],     G = d mean z / d T = -(T^-1)' N (T^-1)'
        e^2  +  (sum_k sd_k)^2,     sd_k^2 = variance of sum_j G[k, j] dT[k, j],   sum_j dT[k, j] = 0

    Within a row, the entries are independent normal variables given that they sum to zero, with the given standard
    errors. How the rows vary together is not known; adding their standard deviations is right if they all err to the
    same side, as with a model that takes overlap for noise, and too much otherwise. With T and the model of
    :class:`unflip.transition.VolMin` without its guard, from 1,500 rows under three noises, 95 % intervals covered the
    accuracy in 96 % of 72 draws from the eight tables on which this sum was chosen over a sum of variances (61 %
    without ``transition_std``), and in 90 % of 42 draws from seven other tables (74 % without). The four misses there
    are of one table whose classes no linear model can tell apart: standard errors do not show that a model is of the
    wrong kind.

    An estimate beyond [0, 1] by more than three standard errors shows that T does not fit and causes a warning. The
    price of the correction is variance: the harder T is to invert, the wider the interval.

    Examples
    --------
    >>> T = [[0.7, 0.3], [0.3, 0.7]]
    >>> score = clean_accuracy([0] * 65 + [1] * 35, [0] * 100, T)
    >>> f"{score.estimate:.3f} in [{score.low:.2f}, {score.high:.2f}]"
    '0.875 in [0.63, 1.00]'
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be a probability between 0 and 1; got {confidence}")
    if alternatives or len(posteriors):
        options: dict[str, Any] = {"classes": classes, "sample_weight": sample_weight, "confidence": confidence}
        score = clean_accuracy(y_noisy, y_pred, transition, transition_std=transition_std, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that one of them does not fit
            others = [clean_accuracy(y_noisy, y_pred, T, **options) for T in alternatives]
        others += [_by_posterior(y_noisy, y_pred, R, **options) for R in posteriors]
        low, high = min(one.low for one in [score, *others]), max(one.high for one in [score, *others])
        return score._replace(low=low, high=high)
    noisy, predicted = np.asarray(y_noisy), np.asarray(y_pred)
    check_same_length(y_noisy=noisy, y_pred=predicted, sample_weight=sample_weight)
    if classes is None:
        classes = check_labels(np.concatenate([noisy, predicted]))[0]
    known, noisy_codes = check_labels(noisy, classes)
    _, predicted_codes = check_labels(predicted, classes)
    weights = np.ones(len(noisy)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim != 1 or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise ValueError("sample_weight must be finite, not negative and not all zero, one number per sample")
    weights = weights / weights.sum()
    T = check_transition(transition, len(known))
    labels = pseudo_inverse(T)  # corrected_labels, which would check T again
    z = labels[noisy_codes, predicted_codes]
    estimate = float(weights @ z)
    n = 1 / float(weights @ weights)
    variance = n * float(weights**2 @ (z - estimate) ** 2)  # of one z; n / (n - 1) makes it unbiased for equal weights
    if n <= 1 + 1e-9:  # one sample (or one that has all the weight) says nothing about its own spread
        return CleanAccuracy(estimate, 0.0, 1.0, np.inf)
    if transition_std is not None:
        shares = np.zeros_like(T)
        np.add.at(shares, (noisy_codes, predicted_codes), weights)
        variance += (n - 1) * _spread(labels, shares, transition_std) ** 2
    error = float(np.sqrt(variance / (n - 1)))

    squares = T @ labels**2  # E[z^2 | clean, predicted]
    right = np.diag(squares)
    wrong = (squares.sum(axis=0) - right) / (len(T) - 1)
    added = float(weights @ (right + wrong)[predicted_codes]) / 2 - 1 / 4

    def interval(mean: float, q: float) -> FloatArray:
        half = q * np.sqrt(n * variance + q**2 * added)
        return (n * mean + q**2 / 2 + np.array([-half, half])) / (n + q**2)

    least, most = interval(estimate, 3.0)
    if least > 1 + 1e-9 or most < -1e-9:
        warnings.warn(
            f"the estimated accuracy is {estimate:.2f} +- {error:.2f}, which sampling cannot explain: transition does "
            "not fit these labels. Estimate it again, or from more data",
            UserWarning,
            stacklevel=2,
        )
    within = min(max(estimate, 0.0), 1.0)
    low, high = np.clip(interval(within, student.ppf((1 + confidence) / 2, n - 1)), 0, 1)
    return CleanAccuracy(estimate, min(float(low), within), max(float(high), within), error)  # despite rounding


def _by_posterior(
    y_noisy: ArrayLike, y_pred: ArrayLike, posterior: ArrayLike, classes: Any, sample_weight: Any, confidence: float
) -> CleanAccuracy:
    """Return the expected accuracy if each clean label is a draw from its posterior, with the interval of draws."""
    known = check_labels(np.concatenate([np.asarray(y_noisy), np.asarray(y_pred)]))[0] if classes is None else classes
    _, codes = check_labels(np.asarray(y_pred), known)
    R = np.asarray(posterior, dtype=np.float64)
    if R.shape != (len(codes), len(np.asarray(known))) or not np.isfinite(R).all() or R.min() < 0:
        raise ValueError(
            "each of posteriors must have one probability per sample and class, shape "
            f"{(len(codes), len(np.asarray(known)))}; got shape {R.shape}, or numbers that are negative or not finite"
        )
    w = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    mean = float(np.average(R[np.arange(len(codes)), codes], weights=w))
    error = float(np.sqrt(max(mean * (1 - mean), 0.0) * np.sum(w**2)) / w.sum())
    half = float(norm.ppf((1 + confidence) / 2)) * error
    return CleanAccuracy(mean, max(mean - half, 0.0), min(mean + half, 1.0), error)


def _spread(inverse: FloatArray, shares: FloatArray, std: ArrayLike) -> float:
    """Return the standard deviation of the estimated accuracy that comes from T; the formula is above."""
    S = np.asarray(std, dtype=np.float64)
    if S.shape != shares.shape or not np.isfinite(S).all() or S.min() < 0:
        raise ValueError(
            "transition_std must be one standard error >= 0 for each entry of transition, as transition_std_ of an "
            f"estimator of T; got an array of shape {S.shape} for {len(shares)} classes"
        )
    G = inverse.T @ shares @ inverse.T
    d = free_variances(S**2)
    total = np.maximum(d.sum(axis=1, keepdims=True), 1e-300)
    center = np.sum(d * G, axis=1, keepdims=True) / total
    return float(np.sqrt(np.sum(d * (G - center) ** 2, axis=1)).sum())


def free_variances(variances: FloatArray) -> FloatArray:
    """Return variances d of independent entries that have the given variances once each row must sum to zero.

    ::

        variances = d - d^2 / sum d

    If an entry varies more than the others of its row together, which must vary together then, the whole row is
    enlarged until it does so here.
    """
    d = variances.copy()
    for _ in range(200):
        share = d / np.maximum(d.sum(axis=1, keepdims=True), 1e-300)
        d = variances / np.maximum(1 - share, 1e-6)
    reached = d - d**2 / np.maximum(d.sum(axis=1, keepdims=True), 1e-300)
    factor = np.divide(variances, reached, out=np.ones_like(d), where=reached > 0).max(axis=1, keepdims=True)
    return d * factor


def clean_scorer(
    transition: ArrayLike, classes: ArrayLike | None = None, *, transition_std: ArrayLike | None = None
) -> "CleanScorer":
    """Return a scikit-learn scorer, for ``GridSearchCV`` and the like: the estimated accuracy on clean labels.

    Model selection by accuracy on noisy labels rewards fitting the noise; this score does not. See
    :func:`clean_accuracy`, also for the parameters. If ``classes`` is None, those of the scored estimator are used. The
    score is the estimate itself; ``transition_std`` only keeps it from warning of a T that is uncertain.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(cross_val_score(RidgeClassifier(), X, y, scoring=clean_scorer(np.eye(3))).mean() > 0.8)
    True
    """
    std = None if transition_std is None else np.asarray(transition_std, dtype=np.float64)
    return CleanScorer(check_transition(transition), classes, std)


class CleanScorer(NamedTuple):
    """What :func:`clean_scorer` returns: called with an estimator, X and noisy y."""

    transition: FloatArray
    classes: ArrayLike | None = None
    transition_std: FloatArray | None = None

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        known, predicted = estimator.classes_ if self.classes is None else self.classes, estimator.predict(X)
        options: dict[str, Any] = {"sample_weight": sample_weight, "transition_std": self.transition_std}
        return clean_accuracy(y, predicted, self.transition, classes=known, **options).estimate


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
    """Return |mu_estimated - mu| / |mu|, in Frobenius norms, for two centroids of shape (n_features, n_classes).

    Examples
    --------
    >>> centroid_error([[1.0, 0.0]], [[2.0, 0.0]])
    0.5
    """
    a, b = np.asarray(estimated, dtype=np.float64), np.asarray(true, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"both centroids must have the shape (n_features, n_classes); got {a.shape} and {b.shape}")
    if not b.any():
        return float("inf") if a.any() else 0.0
    size = np.abs(b).max()  # the squares of tiny and huge numbers may be none
    return float(np.linalg.norm(a / size - b / size) / np.linalg.norm(b / size))
