"""CEGE with a linear model: the combination of two unbiased centroids with the least variance."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unflip._validation import FloatArray, IntArray, check_prior
from unflip.core import ClassSums, project_to_simplex
from unflip.core.ldce import solve_prior
from unflip.core.one_vs_rest import BinaryRates, binary_labels, binary_rates, check_informative
from unflip.linear._base import TransitionClassifier, solve_ridge


@dataclass(eq=False, repr=False, kw_only=True)
class CEGEClassifier(TransitionClassifier):
    """Centroid estimation with guaranteed efficiency (CEGE) for a linear model, one class against the rest.

    With labels +1 (class k) and -1 (the rest) and scores z = w.x + b, the squared loss sees the labels only through the
    centroid mu = E[y x], and is minimized in closed form::

        R(w, b) = mean(1 + z^2) - 2 (w, b).mu + (alpha/n) |w|^2

    (the centroid of the constant 1 goes with b, which is not penalized). Two auxiliary sets give two estimates of mu:
    the samples with noisy label +1 together with all samples pseudo-labeled -1, and those with noisy label -1 together
    with all samples pseudo-labeled +1. With the noise rates rho+, rho- of class k, D = 1 - rho+ - rho-, and the
    shares q+, q- of the noisy labels that T and the class prior imply::

        mu1 = 2 (q+ mean(x | noisy +1) - rho- mean(x)) / D - mean(x)
        mu2 = mean(x) - 2 (q- mean(x | noisy -1) - rho+ mean(x)) / D
        mu  = a mu1 + (1 - a) mu2

    The coefficient a minimizes the variance of mu, the trace of its covariance.

    Parameters
    ----------
    transition, classes, random_state
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    class_prior : array-like of shape (n_classes,), default=None
        The clean class prior, if known from elsewhere: the two estimates differ only by what it adds to the observed
        frequencies. If None, it is estimated from these and T. Then q+ is the observed frequency, and CEGE is the
        unbiased centroid, the mean of the corrected labels times x (unless the estimated prior has to be moved to the
        simplex, because T and the frequencies imply a negative one).
    alpha : float, default=1.0
        Ridge penalty: with T = I and no ``class_prior`` this classifier is scikit-learn's ``RidgeClassifier``.

    Attributes
    ----------
    classes_, transition_, transition_estimator_, class_prior_, coef_, intercept_, n_features_in_, feature_names_in_
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    noise_rates_ : ndarray of shape (n_classes, 2)
        rho+ and rho- of each class against the rest.
    coefficient_ : ndarray of shape (n_classes,)
        The weight a of mu1; it has no effect if both estimates are the same.
    centroid_ : ndarray of shape (n_features, n_classes)
        mu of each class against the rest.

    Notes
    -----
    Only the abstract of the paper was available. From it: the decomposition, two auxiliary pseudo-labeled sets, an
    unbiased estimate from each, and their linear combination of least variance. Reconstructed here: which sets, the
    formulas of mu1 and mu2, and the coefficient. Left out: the hinge loss. Added: one against the rest, for more than
    two classes, which may be an approximation (:func:`unflip.core.one_vs_rest.binary_rates`).

    Of n samples, n+ and n- carry the noisy label +1 and -1. Let d = mean(x | noisy +1) - mean(x | noisy -1), and s+, s-
    the traces of the covariance of x within each set. The estimates differ only by the sampling of the frequency,
    mu1 - mu2 = (2/D) (q+ - n+/n) d, and up to terms of higher order in 1/n::

        n Var(mu1 - mu2)      = (4 q+ q- / D^2) (|d|^2 + s+/n+ + s-/n-)
        n Cov(mu2, mu2 - mu1) = (4 q+ q- / D^2) (h |d|^2 + s-/n-),    h = (1 + rho+ - rho-) / 2
        a = Cov(mu2, mu2 - mu1) / Var(mu1 - mu2)

    For large n this is a = h, and the observed frequency cancels: mu = (2/D) (h q+ mean(x | noisy +1) - (1 - h) q-
    mean(x | noisy -1)), each set weighted by its true share. A single spread within the sets, s+ = s-, is estimated.
    Because the intercept is free, a known prior changes the length of w_k and the intercept, not the direction of w_k.

    X is read once, in blocks; X'X is kept dense, O(n_features^2), even for sparse X.

    References
    ----------
    Gong, Yang, You, Sugiyama, Centroid Estimation With Guaranteed Efficiency: A General Framework for Weakly Supervised
    Learning, TPAMI 44(6), 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CEGEClassifier(class_prior=[0.1] * 10).fit(X, corrupt(y, symmetric(10, 0.4), random_state=0))
    >>> model.score(X, y) > 0.9
    True
    """

    class_prior: ArrayLike | None = None
    alpha: float = 1.0

    def _probabilities(self, scores: NDArray[Any]) -> FloatArray:
        return project_to_simplex((1 + scores) / 2)  # a score estimates P(class k | x) - P(rest | x)

    def _fit(self, X: Any, codes: IntArray, weights: FloatArray | None) -> Self:
        sums = ClassSums.of(X, codes, len(self.classes_), weights)
        try:
            given = None if self.class_prior is None else check_prior(self.class_prior, len(self.classes_))
        except (TypeError, ValueError) as error:
            raise ValueError(f"class_prior is not a prior: {error}") from error
        self.class_prior_ = solve_prior(sums.noisy_prior, self.transition_) if given is None else given
        rates = binary_rates(self.transition_, self.class_prior_)
        check_informative(rates, self.classes_)
        self.noise_rates_ = np.column_stack(rates)
        self.coefficient_ = _coefficient(sums, rates)
        L = _combined_labels(sums.noisy_prior, self.transition_, self.class_prior_, self.coefficient_)
        self.centroid_ = sums.centroid @ L
        W, self.intercept_ = solve_ridge(sums, sums.about_mean.centroid @ L, sums.noisy_prior @ L, self.alpha)
        self.coef_ = W.T
        return self


def _coefficient(sums: ClassSums, rates: BinaryRates) -> FloatArray:
    """Return the a of least variance for each class; 0 or 1 if only one of the two sets has samples."""
    f = sums.noisy_prior
    h = (1 + rates.lost - rates.gained) / 2
    both = (f > 0) & (f < 1)
    inverse = np.divide(1, f * (1 - f), out=np.zeros_like(f), where=both)
    # Sums about the mean of all x: sum of x - mean over noisy +1 is n f (1 - f) d.
    distance = np.sum((sums.centred_sums * inverse[:, np.newaxis] / sums.weight) ** 2, axis=1)  # |d|^2 of the two means
    spread = np.maximum(np.trace(sums.scatter) / sums.weight - distance * f * (1 - f), 0)  # s within the two sets
    error_of_means = spread * inverse / sums.weight  # s/n+ + s/n-, by which |d|^2 is too large on average
    distance = np.maximum(distance - error_of_means, 0)
    error_of_rest = error_of_means * f  # s/n-
    total = distance + error_of_means
    a = np.divide(h * distance + error_of_rest, total, out=h.copy(), where=total > 0)
    return np.where(both, a, f)


def _combined_labels(noisy_prior: FloatArray, T: FloatArray, prior: FloatArray, a: FloatArray) -> FloatArray:
    """Return L, shape (n_classes, n_classes), with mu_k = mean of L[noisy_i, k] x_i.

    With q+ = f, the observed frequency, mu1 and mu2 are the mean of the corrected labels G times x. What q+ adds is::

        mu1 - mean(G x) = (2/D) (q+/f - 1) f mean(x | noisy +1)
        mu2 - mean(G x) = -(2/D) (q-/(1 - f) - 1) (1 - f) mean(x | noisy -1)
    """
    G = binary_labels(T, prior)
    lost, gained = binary_rates(T, prior)
    f, q = noisy_prior, prior @ T
    excess = np.divide(q - f, f, out=np.zeros_like(f), where=f > 0)
    excess_rest = np.divide(f - q, 1 - f, out=np.zeros_like(f), where=f < 1)
    own = np.eye(len(f), dtype=bool)
    return G + 2 / (1 - lost - gained) * np.where(own, a * excess, -(1 - a) * excess_rest)
