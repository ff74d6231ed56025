"""ULE: logistic regression with an unbiased loss for noisy labels."""

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from unflip._validation import FloatArray
from unflip.linear._factored_logistic import FactoredLogistic, LogisticOneVsRest

LARGEST_COPY = 100_000_000  # numbers; a float32 X up to here is copied to float64, in which L-BFGS converges further


class ULEClassifier(LogisticOneVsRest):
    """Unbiased logistic estimator (ULE), one class against the rest.

    For a binary label y in {+1, -1} that flips at rates rho+ and rho- the loss::

        l~(z, y) = [(1 - rho_{-y}) l(z, y) - rho_y l(z, -y)] / (1 - rho+ - rho-)

    has the expectation l(z, clean y) over the noise (Natarajan et al., Lemma 1). It may be negative and is never
    clipped; with the logistic l it is convex, because l'' is the same for both labels. For c classes, class k against
    the rest has rho+ = 1 - T_kk and rho- = (noisy_prior_k - T_kk prior_k) / (1 - prior_k). The L2-penalised mean of l~
    is minimised by L-BFGS, for all classes at once.

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes), estimator or None, default=None
        T[i, j] = P(noisy = j | clean = i); or an estimator with ``fit(X, y)`` and ``transition_``, which is cloned and
        fitted to the noisy data; or None for :class:`unflip.transition.VolMin`.
    alpha : float, default=1.0
        L2 penalty ``alpha / 2 |W|^2`` beside the sum of the losses: with T = I this classifier is one-vs-rest
        ``LogisticRegression(C=1 / alpha)``. It must be positive, because corrected losses have no minimum without it,
        and a good value grows with the noise and the number of samples, to hundreds and thousands:
        ``GridSearchCV(ULEClassifier(T), {"alpha": [...]}, scoring=clean_scorer(T))`` finds one.
    fit_intercept : bool, default=True
        The intercept is not penalised.
    max_iter : int, default=500
    tol : float, default=1e-4
        L-BFGS ends where no entry of the gradient, in coordinates in which X is white, is larger than this share of the
        largest at the start.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, where the noisy labels lack some; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None
        Seeds the default estimator of T.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transition_ : ndarray of shape (n_classes, n_classes)
    transition_estimator_ : estimator or None
        The fitted estimator that gave ``transition_``.
    class_prior_ : ndarray of shape (n_classes,)
        Clean class prior.
    noise_rates_ : ndarray of shape (n_classes, 2)
        rho+ and rho- of each class against the rest.
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
    risk_ : float
        The minimum, penalty included.
    n_iter_ : int

    Notes
    -----
    Where T and the frequencies imply a negative share of a class, the intercepts, which have no penalty, take the share
    of ``class_prior_`` instead, and ``risk_`` is the risk with it. The losses themselves are never changed.

    Not to be confused with the label-dependent weights of the same paper (its second method). Two rates describe the
    noise of class k exactly only where all other classes flip to k alike, as under symmetric noise; under pair noise
    the correction is an approximation (see :func:`~unflip.core.one_vs_rest.binary_rates`).

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

    def __init__(
        self,
        transition: Any = None,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-4,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.transition = transition
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
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
        """
        self._check_penalty()
        if not (isinstance(self.max_iter, Integral) and self.max_iter >= 1):
            raise ValueError(f"max_iter must be a whole number >= 1; got {self.max_iter!r}")
        if not (isinstance(self.tol, Real) and self.tol > 0):
            raise ValueError(f"tol must be a number > 0; got {self.tol!r}")
        X, codes, weights, labels = self._corrected_problem(X, y, sample_weight)
        if X.shape[0] * X.shape[1] <= LARGEST_COPY or sparse.issparse(X):
            X = X.astype(np.float64, copy=False)
        problem = FactoredLogistic.of(X, codes, weights, labels, self.class_prior_, self.alpha, self.fit_intercept)
        W, b, self.risk_, self.n_iter_ = _minimise(problem, self.fit_intercept, self.max_iter, self.tol)
        self.coef_, self.intercept_ = W.T, b - problem.mean @ W
        return self


def _minimise(
    problem: FactoredLogistic, fit_intercept: bool, max_iter: int, tol: float
) -> tuple[FloatArray, FloatArray, float, int]:
    """Return W (d, c), b (c,), the risk there and the number of iterations."""
    d, c = problem.operator.shape
    # W = P U, so that the risk, curved like scatter / 4 at W = 0, is evenly curved in U.
    P = None if problem.scatter is None else _whitening(problem.scatter, problem.penalty)

    def unpack(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        U = x[: d * c].reshape(d, c)
        return U if P is None else P @ U, x[d * c :]

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        value, g_W, g_b = problem.risk(*unpack(x))
        return value, np.concatenate([(g_W if P is None else P.T @ g_W).ravel(), g_b * fit_intercept])

    start = np.zeros(d * c + c)
    largest = tol * np.abs(objective(start)[1]).max()
    # No ftol: the risk may be far below zero, and its relative change small long before the end.
    options = {"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": largest, "ftol": 0}
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    if np.abs(result.jac).max() > largest:
        warnings.warn(
            f"L-BFGS ended after {result.nit} iterations ({result.message}) with a gradient of "
            f"{np.abs(result.jac).max() / largest * tol:.1e} of that at the start, above tol={tol:g}. Raise alpha, "
            "without which a corrected loss has hardly a minimum, or max_iter, or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    W, b = unpack(result.x)
    return W, b, float(result.fun), int(result.nit)


def _whitening(scatter: FloatArray, penalty: float) -> FloatArray:
    """Return P (d, d) with P' (scatter / 4 + penalty I) P = I."""
    H = scatter / 4
    # The small number covers constant and repeated columns.
    H = H + (penalty + 1e-7 * np.trace(H) / len(H)) * np.eye(len(H))
    L = np.linalg.cholesky(H)
    return np.linalg.solve(L.T, np.eye(len(H))).astype(np.float64, copy=False)
