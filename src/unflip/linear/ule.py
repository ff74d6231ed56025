"""ULE: logistic regression with an unbiased loss for noisy labels; and the factored risk that muSGD minimizes too."""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_expit, softmax
from sklearn.exceptions import ConvergenceWarning

from unflip._validation import FloatArray, IntArray
from unflip.core import ClassSums
from unflip.linear._base import TransitionClassifier, check_count, check_number

LARGEST_COPY = 100_000_000  # numbers; a float32 X up to here is copied to float64, in which L-BFGS converges further
WIDEST_SCATTER = 1024  # features; beyond it X'X costs more than the iterations it saves
SMALLEST_SHARE = 1e-6  # of a class, and of its rest, for the intercepts
NEEDS_PENALTY = ", since a corrected loss may have no minimum without it"


@dataclass(eq=False, repr=False, kw_only=True)
class ULEClassifier(TransitionClassifier):
    """Unbiased logistic estimator (ULE), one class against the rest.

    For a binary label y in {+1, -1} that flips at rates rho+ and rho-, the loss::

        l~(z, y) = [(1 - rho_{-y}) l(z, y) - rho_y l(z, -y)] / (1 - rho+ - rho-)

    has the expectation l(z, clean y) over the noise (Natarajan et al., Lemma 1). It may be negative and is never
    clipped; with the logistic l it is convex, because l'' is the same for both labels. For c classes, class k against
    the rest has rho+ = 1 - T_kk and rho- = (noisy_prior_k - T_kk prior_k) / (1 - prior_k). L-BFGS minimizes the
    L2-penalized mean of l~, for all classes at once.

    Parameters
    ----------
    transition, fit_intercept, classes, random_state
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    alpha : float, default=1.0
        L2 penalty ``alpha / 2 |W|^2`` added to the sum of the losses: with T = I this classifier is one-vs-rest
        ``LogisticRegression(C=1 / alpha)``. It must be positive, because corrected losses may have no minimum without
        it. A good value grows with the noise and the number of samples, to hundreds and thousands:
        ``GridSearchCV(ULEClassifier(T), {"alpha": [...]}, scoring=clean_scorer(T))`` finds one.
    max_iter, tol : int, default=500, and float, default=1e-4
        L-BFGS stops after ``max_iter`` iterations, or when no entry of the gradient, in coordinates that whiten X,
        is larger than the share ``tol`` of the largest entry at the start.

    Attributes
    ----------
    classes_, transition_, transition_estimator_, class_prior_, coef_, intercept_, n_features_in_, feature_names_in_
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    noise_rates_ : ndarray of shape (n_classes, 2)
        rho+ and rho- of each class against the rest.
    risk_, n_iter_ : float and int
        The minimum, penalty included, and the number of L-BFGS iterations.

    Notes
    -----
    ``predict_proba`` scales the one-vs-rest probabilities to sum to one.

    If T and the frequencies imply a negative share of a class, the intercepts, which are not penalized, use the share
    from ``class_prior_`` instead, and so does ``risk_``. The losses themselves are never changed.

    This is not the method of label-dependent weights from the same paper (its second method). Two rates describe the
    noise of class k exactly only if all other classes flip to k at the same rate, as under symmetric noise; under pair
    noise the correction is an approximation (see :func:`~unflip.core.one_vs_rest.binary_rates`).

    References
    ----------
    N. Natarajan, I. Dhillon, P. Ravikumar, A. Tewari: Learning with noisy labels. NeurIPS 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unflip.noise import corrupt
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> T = [[0.6, 0.4], [0.0, 1.0]]
    >>> ULEClassifier(T, alpha=10.0).fit(X, corrupt(y, T, random_state=0)).score(X, y) > 0.9
    True
    """

    alpha: float = 1.0
    fit_intercept: bool = True
    max_iter: int = 500
    tol: float = 1e-4

    def _check_parameters(self) -> None:
        check_number(self, "alpha", positive=True, why=NEEDS_PENALTY)
        check_number(self, "tol", positive=True)
        check_count(self, "max_iter")

    def _fit(self, X: Any, codes: IntArray, weights: FloatArray | None) -> Self:
        w, labels = self._one_vs_rest(codes, weights)
        if X.shape[0] * X.shape[1] <= LARGEST_COPY or sparse.issparse(X):
            X = X.astype(np.float64, copy=False)
        problem = FactoredLogistic.of(X, codes, w, labels, self.class_prior_, self.alpha, self.fit_intercept)
        W, b, self.risk_, self.n_iter_ = _minimize(problem, self.fit_intercept, self.max_iter, self.tol)
        self.coef_, self.intercept_ = W.T, b - problem.mean @ W
        return self

    def _probabilities(self, scores: NDArray[Any]) -> FloatArray:
        return logistic_probabilities(scores)


def logistic_probabilities(scores: NDArray[Any]) -> FloatArray:
    """Return one-vs-rest probabilities, scaled to sum to one."""
    # A softmax of their logarithms, so that a row of tiny probabilities is scaled too.
    return np.asarray(softmax(log_expit(scores), axis=1))


class FactoredLogistic(NamedTuple):
    """The risk of c one-vs-rest problems as two parts: an even one without labels, and one that needs their centroid.

    The logistic loss of a score z with label s is ``log(2 cosh(z / 2)) - s z / 2``. With the corrected label g for s
    (see :func:`~unflip.core.one_vs_rest.binary_labels`), summed over the classes k::

        R(W, b) = (1/n) sum_i sum_k log(2 cosh(z_ik / 2))  -  <W, mu> / 2 - <b, g> / 2  +  (alpha / 2n) |W|^2

        z_ik = w_k' x_i + b_k,    mu = (1/n) sum_i x_i g_i',    g = (1/n) sum_i g_i

    g lies outside [-1, 1], so the loss of a sample may be negative; the sum is still convex.
    """

    X: Any  # (n, d), dense or CSR
    mean: FloatArray  # (d,) of x, which is subtracted from the features; zero without an intercept
    weights: FloatArray  # (n,) summing to one
    operator: FloatArray  # (d, c) mu
    balance: FloatArray  # (c,) g
    penalty: float  # alpha / n
    variance: FloatArray  # (d,) mean of x^2
    scatter: FloatArray | None  # (d, d) mean of x x'; None if that would be too large

    @classmethod
    def of(
        cls, X: Any, codes: IntArray, w: FloatArray, labels: FloatArray, prior: FloatArray, alpha: float, center: bool
    ) -> Self:
        """Sum the data once; ``labels`` is G of :func:`~unflip.core.one_vs_rest.binary_labels`."""
        total = float(w.sum())
        share = w / total
        # The mean of G over the data, unless the prior had to be moved to the simplex. The intercepts, which are not
        # penalized, use it in any case: with a negative share of a class there would be no minimum.
        balance = np.clip(2 * prior - 1, SMALLEST_SHARE - 1, 1 - SMALLEST_SHARE)
        if X.shape[1] <= WIDEST_SCATTER:
            sums = ClassSums.of(X, codes, len(labels), share)
            mean, operator, scatter = sums.mean, sums.centred_sums.T @ labels, sums.scatter
            if not center:
                mean, operator, scatter = np.zeros_like(mean), sums.centroid @ labels, sums.gram
            return cls(X, mean, share, operator, balance, alpha / total, np.diag(scatter).copy(), scatter)
        mean = np.asarray(X.T @ share, dtype=np.float64) * center
        operator = np.asarray(X.T @ (share[:, np.newaxis] * labels[codes]), dtype=np.float64)
        squares = X.multiply(X) if sparse.issparse(X) else np.square(X)
        variance = np.maximum(np.asarray(squares.T @ share, dtype=np.float64) - mean**2, 0)
        operator -= np.outer(mean, share @ labels[codes])
        return cls(X, mean, share, operator, balance, alpha / total, variance, None)

    def risk(self, W: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return R and its gradients in W (d, c) and b (c,); b belongs to features about their mean."""
        Z = self._scores(self.X, W, b)
        # log(2 cosh(z / 2)) = |z| / 2 + log(1 + tail) and tanh(|z| / 2) = (1 - tail) / (1 + tail)
        tail = np.exp(-np.abs(Z))
        w = self.weights.astype(Z.dtype)
        even = float((w @ (np.abs(Z) / 2 + np.log1p(tail))).sum(dtype=np.float64))
        linear = np.vdot(W, self.operator) + b @ self.balance
        slope = np.copysign((1 - tail) / (1 + tail), Z)
        return even - (linear - self.penalty * np.vdot(W, W)) / 2, *self._gradient(self.X, w, slope, W)

    def gradient(self, W: FloatArray, b: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradients in W and b, with the even part estimated from some rows."""
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


def _minimize(
    problem: FactoredLogistic, fit_intercept: bool, max_iter: int, tol: float
) -> tuple[FloatArray, FloatArray, float, int]:
    """Return W (d, c), b (c,), the risk there and the number of iterations."""
    d, c = problem.operator.shape
    # W = P U, so that the risk, curved like scatter / 4 at W = 0, is evenly curved in U.
    P: Any = sparse.eye_array(d) if problem.scatter is None else _whitening(problem.scatter, problem.penalty)

    def unpack(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return P @ x[: d * c].reshape(d, c), x[d * c :]

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        value, g_W, g_b = problem.risk(*unpack(x))
        return value, np.concatenate([(P.T @ g_W).ravel(), g_b * fit_intercept])

    start = np.zeros(d * c + c)
    if fit_intercept:  # an empty class starts at its optimum, so that it does not disturb the others
        empty = problem.balance <= SMALLEST_SHARE - 1
        start[d * c :][empty] = 2 * np.arctanh(problem.balance[empty])
    largest = tol * np.abs(objective(start)[1]).max()
    # No ftol: the risk may be far below zero, and its relative change small long before the end.
    options = {"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": largest, "ftol": 0}
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    if np.abs(result.jac).max() > largest:
        warnings.warn(
            f"L-BFGS stopped after {result.nit} iterations ({result.message}) with a gradient of "
            f"{np.abs(result.jac).max() / largest * tol:.1e} of that at the start, above tol={tol:g}. Raise alpha, "
            "without which a corrected loss hardly has a minimum, or raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    W, b = unpack(result.x)
    return W, b, float(result.fun), int(result.nit)


def _whitening(scatter: FloatArray, penalty: float) -> FloatArray:
    """Return P (d, d) with P' (scatter / 4 + penalty I) P = I."""
    I = np.eye(len(scatter))
    # The small number covers constant and repeated columns.
    H = scatter / 4 + (penalty + 2.5e-8 * np.trace(scatter) / len(scatter)) * I
    return np.asarray(np.linalg.solve(np.linalg.cholesky(H).T, I), dtype=np.float64)
