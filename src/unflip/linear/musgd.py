"""muSGD: stochastic gradients for the label-free part of the risk, the mean operator for the rest."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from unflip._validation import FloatArray
from unflip.linear._factored_logistic import FactoredLogistic, LogisticOneVsRest


class MuSGDClassifier(LogisticOneVsRest):
    """Mean-operator stochastic gradient descent (muSGD), one class against the rest.

    A linear-odd loss, l(z) - l(-z) = 2 a z (logistic: a = -1/2), factors into an even part, which reads no label, and
    the mean operator mu, which is all it needs of the labels::

        R(w)  = (1/2n) sum_i sum_{s = +1, -1} l(s w'x_i) + a w'mu + (alpha / 2n) |w|^2
        mu    = (1/n) sum_i g_i x_i,    g_i = (y_i - (rho- - rho+)) / (1 - rho+ - rho-)

    mu is estimated from the noisy labels once, without bias; then each step draws samples for the even part alone::

        w <- (1 - eta alpha/n) w - eta (mean (sigma(w'x_i) - 1/2) x_i + a mu)

    For the logistic loss R is, sample by sample, the objective of :class:`ULEClassifier`; where the two differ in
    accuracy, they differ in how far they descend.

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes), estimator or None, default=None
        T[i, j] = P(noisy = j | clean = i); or an estimator with ``fit(X, y)`` and ``transition_``, which is cloned and
        fitted to the noisy data; or None for :class:`unflip.transition.VolMin`.
    alpha : float, default=1.0
        L2 penalty as in :class:`ULEClassifier`; a good value grows with the number of samples and with the noise.
    fit_intercept : bool, default=True
        The intercept is not penalised.
    epochs : int, default=20
        Passes over the data. So few end well before the minimum, which regularises: at the same ``alpha`` ULE, which
        goes there, fits the noise closer. Thousands are needed to arrive.
    batch_size : int, default=32
        Samples of a step.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, where the noisy labels lack some; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None
        Seeds the order of the samples and the default estimator of T.

    Attributes
    ----------
    classes_, transition_, transition_estimator_, class_prior_, noise_rates_, coef_, intercept_
        As in :class:`ULEClassifier`.
    mean_operator_ : ndarray of shape (n_classes, n_features)
        mu of each class against the rest, of the features about their mean where there is an intercept.
    risk_ : float
        R at the end, penalty included.

    Notes
    -----
    Certain: the factored risk and the estimate of mu, as in the paper and in its author's code. Chosen here: the mean
    over s = +1, -1 instead of a random s (the same gradient on average, with less variance); steps in each feature
    divided by its variance, so that features of any scale do; eta decreases like 1 / sqrt(epoch) instead of n / (alpha
    t), which begins at thousands where alpha / n is small; the result is the average of the weights over the second
    half of the steps; no projection, whose radius bounds the optimum for clean labels only.

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

    def __init__(
        self,
        transition: Any = None,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        epochs: int = 20,
        batch_size: int = 32,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.transition = transition
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.epochs = epochs
        self.batch_size = batch_size
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Noisy labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
            A sample of weight two counts twice in the mean operator and in its step.
        """
        self._check_penalty()
        for name, value in (("epochs", self.epochs), ("batch_size", self.batch_size)):
            if not (isinstance(value, Integral) and value >= 1):
                raise ValueError(f"{name} must be a whole number >= 1; got {value!r}")
        X, codes, weights, labels = self._corrected_problem(X, y, sample_weight)
        counted = weights > 0
        if not counted.all():
            X, codes, weights = X[counted], codes[counted], weights[counted]
        problem = FactoredLogistic.of(X, codes, weights, labels, self.class_prior_, self.alpha, self.fit_intercept)
        order = check_random_state(self.random_state)
        W, b = _descend(problem, self.fit_intercept, self.epochs, self.batch_size, order)
        self.mean_operator_ = problem.operator.T
        self.risk_ = problem.risk(W, b)[0]
        self.coef_, self.intercept_ = W.T, b - problem.mean @ W
        return self


def _descend(
    problem: FactoredLogistic, fit_intercept: bool, epochs: int, batch_size: int, order: np.random.RandomState
) -> tuple[FloatArray, FloatArray]:
    """Return W (d, c) and b (c,), averaged over the second half of the steps."""
    n = problem.X.shape[0]
    d, c = problem.operator.shape
    variance = problem.variance
    used = variance > np.square(10 * np.finfo(problem.X.dtype).eps * problem.mean)  # else constant, up to rounding
    scale = np.divide(1.0, variance, out=np.zeros(d), where=used)[:, np.newaxis]
    # In standardised features |x|^2 is d on average, and the logistic loss is curved by 1/4 at the most; the penalty in
    # them is the largest where the variance is the least.
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
