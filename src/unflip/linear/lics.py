"""LICS with a linear model: the centroid, smoothed as much as the label noise blurs it."""

from dataclasses import dataclass
from itertools import count
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from unflip._validation import FloatArray, IntArray
from unflip.core import ClassSums, project_to_simplex
from unflip.linear._base import TransitionClassifier, check_number

BLOCK = 2**18  # numbers at once


@dataclass(eq=False, repr=False, kw_only=True)
class LICSClassifier(TransitionClassifier):
    """Labeled instance centroid smoothing (LICS) for a linear model, one class against the rest.

    With labels +1 (class k) and -1 (the rest) and scores z = w.x + b, the squared loss sees the labels only through the
    centroid of y x. Below, x includes the constant 1, and w includes b, which is not penalized::

        R(w; mu) = mean(1 + z^2) - 2 w.mu + (alpha/n) |w|^2

    The corrected labels g give an unbiased estimate m of mu, and V is the part of its covariance that the noise
    causes. With the noise rates rho+, rho- of class k and D = 1 - rho+ - rho-::

        m = (1/n) sum g_i x_i                  g_i = (y~_i - (rho- - rho+)) / D
        V = (1/n^2) sum v(y~_i) x_i x_i'       v(y~) = sum_s P(y = s | y~) 4 rho_s (1 - rho_s) / D^2

    A concentration inequality puts the clean centroid into an ellipsoid m + V^(1/2) u, |u| <= r, with a probability
    that grows with r. The smoothed centroid is the point of it that supports the labels least, the saddle point of::

        min_w max_mu R(w; mu) = min_w  mean(1 + z^2) - 2 w.m + 2 r |V^(1/2) w| + (alpha/n) |w|^2

    With A = mean(x x') + (alpha/n) I this is a ridge regression with a second penalty of the shape of V::

        w = (A + s V)^-1 m,    s |V^(1/2) w| = r,    smoothed centroid = A w

    so that the directions that the noise blurs shrink most; as n grows, V vanishes, and so does all shrinkage.

    Parameters
    ----------
    transition, classes, random_state
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    smoothing : float, default=1.0
        r, in standard deviations of w.m, the term that the noise affects. 0 gives the unbiased centroid.
    alpha : float, default=1.0
        Ridge penalty: with T = I, when nothing is smoothed, this classifier is scikit-learn's ``RidgeClassifier``.

    Attributes
    ----------
    classes_, transition_, transition_estimator_, class_prior_, coef_, intercept_, n_features_in_, feature_names_in_
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    noise_rates_ : ndarray of shape (n_classes, 2)
        rho+ and rho- of each class against the rest.
    centroid_ : ndarray of shape (n_features, n_classes)
        The smoothed centroid of each class against the rest.
    smoothing_ : ndarray of shape (n_classes,)
        s, the weight of V; 0 without noise, and infinite if the ellipsoid contains a centroid that supports no label:
        then every part of w that the noise can affect is 0.

    Notes
    -----
    Only the abstract of the paper was available. From it: the decomposition, and a smoothed centroid that reduces the
    influence of the noise, justified by matrix Bernstein inequalities. Reconstructed here: how it is smoothed, that is,
    V, the ellipsoid that stands for the inequality, and its saddle point. Left out: losses other than the squared one.
    Added: class-conditional noise rates, and one against the rest for more than two classes, which may be an
    approximation (:func:`unflip.core.one_vs_rest.binary_rates`).

    V is an approximation: it uses P(y | y~) of the whole population, not at x. If v is the same for both noisy labels,
    V is a multiple of mean(x x'), and smoothing shrinks all scores of a class by one factor. So it mostly tempers
    ``predict_proba`` and the classes relative to each other; with two classes, predicted labels change little.

    X is read twice, in blocks; X'X is kept dense, O(n_features^2), even for sparse X, and an eigendecomposition for
    each class takes O(n_classes n_features^3).

    References
    ----------
    Gao, Wang, Li, Zhou, Risk Minimization in the Presence of Label Noise, AAAI 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = load_digits(return_X_y=True)
    >>> LICSClassifier().fit(X, corrupt(y, symmetric(10, 0.4), random_state=0)).score(X, y) > 0.9
    True
    """

    smoothing: float = 1.0
    alpha: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "smoothing")

    def _probabilities(self, scores: NDArray[Any]) -> FloatArray:
        return project_to_simplex((1 + scores) / 2)  # a score estimates P(class k | x) - P(rest | x)

    def _fit(self, X: Any, codes: IntArray, weights: FloatArray | None) -> Self:
        w, G = self._one_vs_rest(codes, weights)
        c = len(self.classes_)
        sums = ClassSums.of(X, codes, c, w)
        n, mean = sums.weight, sums.mean
        # About the mean of x, with the constant last: there A separates the intercept from the rest.
        gram = _augmented_gram(sums, mean)
        A = gram / n
        A[np.diag_indices(sums.n_features)] += self.alpha / n
        centroid = np.vstack([sums.centred_sums.T, sums.counts]) @ G / n
        B = _whitening(A)
        whole = B.T @ gram @ B
        variance, variance_rest = _label_variance(self.noise_rates_, self.class_prior_)
        W = B @ (B.T @ centroid)
        self.smoothing_ = np.zeros(c)
        for k in np.flatnonzero(np.maximum(variance, variance_rest)) if self.smoothing > 0 else ():
            own = _augmented_gram(_sums_of_rows(X, np.flatnonzero(codes == k), w), mean)
            V = (variance_rest[k] * whole + (variance[k] - variance_rest[k]) * (B.T @ own @ B)) / n**2
            best, self.smoothing_[k] = _saddle_point(B.T @ centroid[:, k], V, self.smoothing)
            W[:, k] = B @ best
        smoothed = A @ W
        self.centroid_ = smoothed[:-1] + np.outer(mean, smoothed[-1])
        self.coef_ = W[:-1].T.copy()
        self.intercept_ = W[-1] - mean @ W[:-1]
        return self


def _label_variance(rates: FloatArray, prior: FloatArray) -> FloatArray:
    """Return v(+1) and v(-1) of each class: Var(g | y), averaged over the clean label y given the noisy one."""
    lost, gained = rates.T
    of_own, of_rest = 4 * rates.T * (1 - rates.T) / (1 - lost - gained) ** 2
    own, rest = prior * np.array([1 - lost, lost]), (1 - prior) * np.array([gained, 1 - gained])  # P(y, y~)
    total = own + rest
    # A noisy label of probability zero has no samples to weigh.
    return np.divide(own * of_own + rest * of_rest, total, out=np.zeros_like(total), where=total > 0)


def _augmented_gram(sums: ClassSums, mean: FloatArray) -> FloatArray:
    """Return the sum of (x - mean, 1) (x - mean, 1)', shape (n_features + 1, n_features + 1)."""
    shift = np.append(sums.mean - mean, 1.0)
    gram = sums.weight * np.outer(shift, shift)
    gram[:-1, :-1] += sums.scatter
    return gram


def _sums_of_rows(X: Any, rows: IntArray, weights: FloatArray) -> ClassSums:
    """Return the sums of some rows as one class, one block at a time, since selecting rows copies them."""
    step = max(1, BLOCK // X.shape[1])
    total = ClassSums.of(X[:0], np.empty(0, np.intp), 1)
    for block in np.split(rows, range(step, len(rows), step)):
        total += ClassSums.of(X[block], np.zeros(len(block), np.intp), 1, weights[block])
    return total


def _whitening(A: FloatArray) -> FloatArray:
    """Return B with B' A B = I on the range of A, so that A^-1 = B B'."""
    scale = np.sqrt(np.diag(A))
    scale[scale == 0] = 1
    # With a unit diagonal, the rounding errors of large features do not drown small ones.
    a, U = np.linalg.eigh(A / np.outer(scale, scale))
    kept = a > a.max() * len(A) * np.finfo(np.float64).eps
    return U[:, kept] / np.sqrt(a[kept]) / scale[:, np.newaxis]


def _saddle_point(m: FloatArray, V: FloatArray, radius: float) -> tuple[FloatArray, float]:
    """Return the w that minimizes |w|^2 - 2 w.m + 2 radius |V^(1/2) w|, and the s of w = (I + s V)^-1 m.

    With V = P diag(v) P' and p = P'm, s solves s |V^(1/2) w| = radius, whose left side grows with s::

        s |V^(1/2) w| = |(s v / (1 + s v)) p / sqrt(v)|,    up to |p / sqrt(v)|

    If the radius is larger than that, only the part of w in the null space of V is left.
    """
    v, P = np.linalg.eigh(V)
    largest = v.max()
    if largest <= 0:
        return m, 0.0
    p = P.T @ m
    # In units of the largest eigenvalue, t = s v_max; eigenvalues as small as rounding errors are zero.
    v = np.where(v > largest * len(v) * np.finfo(np.float64).eps, v / largest, 0)
    touched = v > 0
    reach = p[touched] / np.sqrt(v[touched] * largest)
    if np.linalg.norm(reach) <= radius:
        return P @ np.where(touched, 0, p), np.inf

    def excess(t: float) -> float:
        tv = t * v[touched]
        return float(np.linalg.norm(tv / (1 + tv) * reach)) - radius

    upper = next(2.0**k for k in count() if excess(2.0**k) >= 0)
    t = brentq(excess, 0, upper, xtol=1e-14, rtol=1e-14)
    return P @ (p / (1 + t * v)), t / largest
