"""The corrected logistic risk of c one-vs-rest problems, factored; ULE and muSGD minimise it each in its way."""

from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.special import log_expit, softmax

from unflip._validation import FloatArray, IntArray
from unflip.core import ClassSums
from unflip.linear._with_transition import OneVsRestCorrection

WIDEST_SCATTER = 1024  # features; beyond it X'X costs more than the iterations it saves
SMALLEST_SHARE = 1e-6  # of a class, and of its rest, as far as the intercepts are told


class FactoredLogistic(NamedTuple):
    """The risk as two parts: an even one that never sees a label, and one that sees labels through a centroid alone.

    The logistic loss of a score z with label s is ``log(2 cosh(z / 2)) - s z / 2``. With the corrected label g for s
    (see :func:`~unflip.core.one_vs_rest.binary_labels`), summed over the classes k::

        R(W, b) = (1/n) sum_i sum_k log(2 cosh(z_ik / 2))  -  <W, mu> / 2 - <b, g> / 2  +  (alpha / 2n) |W|^2

        z_ik = w_k' x_i + b_k,    mu = (1/n) sum_i x_i g_i',    g = (1/n) sum_i g_i

    g lies outside [-1, 1], so that a sample's loss may be negative; the sum is convex all the same.
    """

    X: Any  # (n, d), dense or CSR
    mean: FloatArray  # (d,) of x, about which features are taken; zero without an intercept
    weights: FloatArray  # (n,) summing to one
    operator: FloatArray  # (d, c) mu
    balance: FloatArray  # (c,) g
    penalty: float  # alpha / n
    variance: FloatArray  # (d,) mean of x^2
    scatter: FloatArray | None  # (d, d) mean of x x'; None where that would be too large

    @classmethod
    def of(
        cls,
        X: Any,
        codes: IntArray,
        weights: FloatArray,
        labels: FloatArray,
        prior: FloatArray,
        alpha: float,
        fit_intercept: bool,
    ) -> Self:
        """Sum up the data once.

        ``labels`` is G of :func:`~unflip.core.one_vs_rest.binary_labels`. The mean of its rows over the data is
        2 prior - 1, unless ``clean_prior`` had to move the prior to the simplex. Then this is what the intercepts,
        which have no penalty, are told all the same: with less than no samples of a class there is no minimum.
        """
        total = float(weights.sum())
        share = weights / total
        balance = np.clip(2 * prior - 1, SMALLEST_SHARE - 1, 1 - SMALLEST_SHARE)
        if X.shape[1] <= WIDEST_SCATTER:
            sums = ClassSums.of(X, codes, len(labels), share)
            if fit_intercept:
                mean, operator, scatter = sums.mean, sums.centred_sums.T @ labels, sums.scatter
            else:
                mean, operator, scatter = np.zeros(sums.n_features), sums.centroid @ labels, sums.gram
            return cls(X, mean, share, operator, balance, alpha / total, np.diag(scatter).copy(), scatter)
        mean = np.asarray(X.T @ share, dtype=np.float64) * fit_intercept
        operator = np.asarray(X.T @ (share[:, np.newaxis] * labels[codes]), dtype=np.float64)
        squares = X.multiply(X) if sparse.issparse(X) else np.square(X)
        variance = np.maximum(np.asarray(squares.T @ share, dtype=np.float64) - mean**2, 0)
        operator -= np.outer(mean, share @ labels[codes])
        return cls(X, mean, share, operator, balance, alpha / total, variance, None)

    def risk(self, W: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return R and its gradients in W (d, c) and b (c,); b belongs to features about their mean."""
        Z = self._scores(self.X, W, b)
        tail = np.exp(
            -np.abs(Z)
        )  # log(2 cosh(z / 2)) = |z| / 2 + log(1 + tail), tanh(|z| / 2) = (1 - tail) / (1 + tail)
        w = self.weights.astype(Z.dtype)
        even = float((w @ (np.abs(Z) / 2 + np.log1p(tail))).sum(dtype=np.float64))
        linear = np.vdot(W, self.operator) + b @ self.balance
        slope = np.copysign((1 - tail) / (1 + tail), Z)
        return even - (linear - self.penalty * np.vdot(W, W)) / 2, *self._gradient(self.X, w, slope, W)

    def gradient(self, W: FloatArray, b: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradients in W and b, the even part estimated from some rows."""
        X = self.X[rows]
        weights = self.weights[rows] * (len(self.weights) / len(rows))
        return self._gradient(X, weights.astype(X.dtype), np.tanh(self._scores(X, W, b) / 2), W)

    def _gradient(self, X: Any, weights: Any, slope: Any, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``slope`` is tanh(z / 2), twice the derivative of the even part."""
        slope *= weights[:, np.newaxis] / 2
        g_b = slope.sum(axis=0, dtype=np.float64)
        g_W = np.asarray(X.T @ slope, dtype=np.float64) - np.outer(self.mean, g_b)
        return g_W - self.operator / 2 + self.penalty * W, g_b - self.balance / 2

    def _scores(self, X: Any, W: FloatArray, b: FloatArray) -> Any:
        return X @ W.astype(X.dtype) + (b - self.mean @ W).astype(X.dtype)


class LogisticOneVsRest(OneVsRestCorrection):
    """Probabilities of one-vs-rest logistic scores, and the check of their penalty."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean class | x), shape (n_samples, n_classes): one-vs-rest probabilities, scaled to sum to one."""
        # A softmax of their logarithms, so that a row of tiny probabilities is scaled too.
        probabilities: FloatArray = softmax(log_expit(self._scores(X)), axis=1)
        return probabilities

    def _check_penalty(self) -> None:
        if not (isinstance(self.alpha, Real) and 0 < self.alpha < np.inf):
            raise ValueError(
                f"alpha must be a number > 0, since a corrected loss may have no minimum without it; got {self.alpha!r}"
            )
