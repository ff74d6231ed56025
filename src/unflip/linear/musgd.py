"""muSGD: stochastic gradients for the label-free part of the risk, the mean operator for the rest."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from unflip._validation import FloatArray, IntArray
from unflip.linear._base import TransitionClassifier, check_count, check_number
from unflip.linear.ule import NEEDS_PENALTY, FactoredLogistic, logistic_probabilities


@dataclass(eq=False, repr=False, kw_only=True)
class MuSGDClassifier(TransitionClassifier):
    """Mean-operator stochastic gradient descent (muSGD), one class against the rest.

    A linear-odd loss, l(z) - l(-z) = 2 a z (logistic: a = -1/2), factors into an even part, which does not depend on
    the label, and the mean operator mu, which is all that it needs to know about the labels::

        R(w)  = (1/2n) sum_i sum_{s = +1, -1} l(s w'x_i) + a w'mu + (alpha / 2n) |w|^2
        mu    = (1/n) sum_i g_i x_i,    g_i = (y_i - (rho- - rho+)) / (1 - rho+ - rho-)

    mu is estimated from the noisy labels once, without bias; then each step draws samples for the even part alone::

        w <- (1 - eta alpha/n) w - eta (mean (sigma(w'x_i) - 1/2) x_i + a mu)

    For the logistic loss R is, sample by sample, the objective of :class:`~unflip.linear.ULEClassifier`. If the two
    differ in accuracy, it is because they descend to different depths.

    Parameters
    ----------
    transition, fit_intercept, classes
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    alpha : float, default=1.0
        L2 penalty as in :class:`~unflip.linear.ULEClassifier`; a good value grows with the number of samples and with
        the noise.
    epochs : int, default=20
        Passes over the data. So few stop well before the minimum, which regularizes: at the same ``alpha`` ULE, which
        reaches it, fits the noise more closely. Reaching the minimum takes thousands.
    batch_size : int, default=32
        Samples per step.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of the samples and of the default estimator of T.

    Attributes
    ----------
    classes_, transition_, transition_estimator_, class_prior_, noise_rates_, coef_, intercept_
        As in :class:`~unflip.linear.ULEClassifier`.
    mean_operator_ : ndarray of shape (n_classes, n_features)
        mu of each class against the rest, of the features about their mean if there is an intercept.
    risk_ : float
        R at the end, penalty included.

    Notes
    -----
    From the paper and its author's code: the factored risk and the estimate of mu. Chosen here: the mean over
    s = +1, -1 instead of a random s (the same gradient on average, with less variance); the steps in each feature are
    divided by its variance, so that features may have any scale; eta decreases like 1 / sqrt(epoch) instead of
    n / (alpha t), which begins at thousands if alpha / n is small; the result is the average of the weights over the
    second half of the steps; no projection, whose radius bounds the optimum for clean labels only.

    References
    ----------
    G. Patrini, F. Nielsen, R. Nock, M. Carioni: Loss factorization, weakly supervised learning and label noise
    robustness. ICML 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unflip.noise import corrupt
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> T = [[0.6, 0.4], [0.0, 1.0]]
    >>> MuSGDClassifier(T, alpha=10.0, random_state=0).fit(X, corrupt(y, T, random_state=0)).score(X, y) > 0.9
    True
    """

    alpha: float = 1.0
    fit_intercept: bool = True
    epochs: int = 20
    batch_size: int = 32

    def _check_parameters(self) -> None:
        check_number(self, "alpha", positive=True, why=NEEDS_PENALTY)
        check_count(self, "epochs")
        check_count(self, "batch_size")

    def _fit(self, X: Any, codes: IntArray, weights: FloatArray | None) -> Self:
        w, labels = self._one_vs_rest(codes, weights)
        counted = w > 0
        if not counted.all():
            X, codes, w = X[counted], codes[counted], w[counted]
        problem = FactoredLogistic.of(X, codes, w, labels, self.class_prior_, self.alpha, self.fit_intercept)
        order = check_random_state(self.random_state)
        W, b = _descend(problem, self.fit_intercept, self.epochs, self.batch_size, order)
        self.mean_operator_ = problem.operator.T
        self.risk_ = problem.risk(W, b)[0]
        self.coef_, self.intercept_ = W.T, b - problem.mean @ W
        return self

    def _probabilities(self, scores: NDArray[Any]) -> FloatArray:
        return logistic_probabilities(scores)


def _descend(
    problem: FactoredLogistic, fit_intercept: bool, epochs: int, batch_size: int, order: np.random.RandomState
) -> tuple[FloatArray, FloatArray]:
    """Return W (d, c) and b (c,), averaged over the second half of the steps."""
    n = problem.X.shape[0]
    d, c = problem.operator.shape
    variance = problem.variance
    # A variance below this is that of a constant, up to rounding.
    used = variance > np.square(10 * np.finfo(problem.X.dtype).eps * problem.mean)
    scale = np.divide(1.0, variance, out=np.zeros(d), where=used)[:, np.newaxis]
    # In standardized features |x|^2 is d on average, and the curvature of the logistic loss is at most 1/4; the penalty
    # in them is largest where the variance is smallest.
    largest = (used.sum() + 1) / 4 + problem.penalty * scale.max(initial=0)
    W, b = np.zeros((d, c)), np.zeros(c)
    sum_W, sum_b, averaged = np.zeros((d, c)), np.zeros(c), 0
    for epoch in range(epochs):
        eta = 1 / (largest * np.sqrt(1 + epoch))
        rows = order.permutation(n)
        for start in range(0, n, batch_size):
            batch = rows[start : start + batch_size]
            g_W, g_b = problem.gradient(W, b, batch)
            W -= eta * scale * g_W
            b -= eta * g_b * fit_intercept
            if 2 * epoch >= epochs - 1:
                sum_W += W
                sum_b += b
                averaged += 1
    return sum_W / averaged, sum_b / averaged
