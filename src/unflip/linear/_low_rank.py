"""Low-rank scores plus row-sparse errors: the convex problem that LNSI and SCD share, and its solver."""

import warnings
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from unflip._base import LinearScoresClassifier, check_training_data
from unflip._validation import FloatArray, IntArray
from unflip.core import project_to_simplex

OVER_RELAXATION = 1.6  # Boyd et al. (2011), section 3.4.3: values of 1.5 to 1.8 speed up convergence
CHECK_EVERY = 10  # iterations; the exact residuals cost one more product with X
LARGEST_RATIO, STEP = 10.0, 2.0  # of residual balancing, Boyd et al. (2011), section 3.4.1
TINY = np.finfo(np.float64).tiny
NOTHING = 1e-6  # of the largest that a multiplier can be: where labels need none, residuals are rounding over rounding


class LowRankClassifier(LinearScoresClassifier):
    """What LNSI and SCD share: the checks, the problem in scaled features, and what a fit leaves behind."""

    alpha: float
    beta: float
    n_neighbors: int
    tol: float
    max_iter: int
    classes: Any

    def predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities, shape (n_samples, n_classes): the scores, projected to the simplex.

        The scores estimate the label with its noise, P(noisy class | x) drawn towards its largest entry; T is not used.
        """
        return project_to_simplex(self._scores(X))

    def _problem(
        self, X: Any, y: ArrayLike, refused: dict[str, Any]
    ) -> tuple["ScaledFeatures", NDArray[Any], IntArray]:
        """Validate; return A, the one-hot labels Y, and the class that each column of Y stands for."""
        refused = {name: value for name, value in refused.items() if value is not None}
        if refused:
            raise TypeError(
                f"{type(self).__name__}.fit takes X and y alone; got {', '.join(refused)}. sample_weight has no place "
                "in a neighbour graph: leave it out, or use MCLDCEClassifier, which takes weights"
            )
        self._check_parameters()
        X, codes, _ = check_training_data(self, X, y, classes=self.classes)
        # Columns in the order in which the classes appear: then what the classes are called cannot change a digit.
        present, first = np.unique(codes, return_index=True)
        absent = np.setdiff1d(np.arange(len(self.classes_)), present)
        columns = np.concatenate([present[np.argsort(first)], absent])
        return ScaledFeatures(X), np.eye(len(columns), dtype=X.dtype)[np.argsort(columns)[codes]], columns

    def _keep(self, A: "ScaledFeatures", fit: "LowRankFit", columns: IntArray) -> None:
        coef, intercept = A.coefficients(fit.W, fit.b)
        order = np.argsort(columns)
        self.coef_, self.intercept_ = coef[order], intercept[order]
        self.outlier_score_ = np.linalg.norm(fit.E.astype(np.float64), axis=1)
        self.residuals_ = fit.residuals

    def _check_parameters(self) -> None:
        for name in ("alpha", "tol"):
            value: Any = getattr(self, name)
            if not isinstance(value, Real) or not 0 < float(value) < np.inf:
                raise ValueError(f"{name} must be a number > 0; got {value!r}")
        if not (isinstance(self.beta, Real) and 0 <= self.beta < np.inf):
            raise ValueError(f"beta must be a number >= 0, and 0 leaves the graph out; got {self.beta!r}")
        self._check_counts("n_neighbors", "max_iter")

    def _check_counts(self, *names: str) -> None:
        for name in names:
            value: Any = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1:
                raise ValueError(f"{name} must be a whole number >= 1; got {value!r}")


class LowRankFit(NamedTuple):
    """A minimiser, and the state from which another solve can start."""

    W: FloatArray  # (n_features, n_classes), of the rank that the nuclear norm leaves
    b: FloatArray  # (n_classes,)
    E: NDArray[Any]  # (n_samples, n_classes)
    n_iter: int
    residuals: FloatArray  # relative: Y = XW + 1b' + E; W = J; stationarity in W; stationarity in b
    state: tuple[Any, ...]


class ScaledFeatures:
    """A = (X - 1 mean') / |X - 1 mean'|_F, centred without touching a sparse X.

    In the coordinates of A the problem does not know the units of X, and pure noise of n labels gives A'(noise) of a
    size that depends neither on n nor on n_features; so the alpha that noise calls for does not either.
    """

    def __init__(self, X: Any) -> None:
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        if sparse.issparse(X):
            self.X, self.mean = X, mean
            square = X.multiply(X).sum(dtype=np.float64) - X.shape[0] * mean @ mean
        else:
            # A float32 X may lie so far from zero that its products would lose the digits that matter.
            self.X, self.mean = X - mean.astype(X.dtype), np.zeros(len(mean))
            square = np.einsum("ij,ij->", self.X, self.X, dtype=np.float64)
        self.offset = mean
        self.scale = float(np.sqrt(max(square, 0))) or 1.0
        self.dtype = X.dtype

    def times(self, W: FloatArray) -> NDArray[Any]:
        """A W, in the precision of X."""
        V = W / self.scale
        return self.X @ V.astype(self.dtype) - (self.mean @ V).astype(self.dtype)

    def transposed_times(self, R: NDArray[Any]) -> FloatArray:
        """A' R."""
        product = np.asarray(self.X.T @ R, dtype=np.float64)
        return (product - np.outer(self.mean, R.sum(axis=0, dtype=np.float64))) / self.scale

    def gram(self, laplacian: Any = None) -> FloatArray:
        """A'A, or A' L A for a Laplacian L (whose rows sum to zero, so that the mean falls out)."""
        if laplacian is None:
            product = self.X.T @ self.X
            n = self.X.shape[0]
        else:
            product = self.X.T @ (laplacian.astype(self.dtype) @ self.X)
            n = 0
        dense = product.toarray() if sparse.issparse(product) else product
        return (np.asarray(dense, dtype=np.float64) - n * np.outer(self.mean, self.mean)) / self.scale**2

    def coefficients(self, W: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """coef_ and intercept_ with X coef_' + intercept_ = A W + 1 b'."""
        coef = W.T / self.scale
        return coef, b - coef @ self.offset


def solve_low_rank(
    A: ScaledFeatures,
    Y: NDArray[Any],
    H: FloatArray,
    *,
    alpha: float,
    beta: float,
    basis: FloatArray | None = None,
    tol: float,
    max_iter: int,
    start: LowRankFit | None = None,
) -> LowRankFit:
    """Return the minimiser, by the alternating direction method of multipliers (ADMM), of::

        |W|_* + alpha |E|_{2,1} + (beta/2) tr(W' H W)    subject to    Y = A W + 1 b' + E

    with a copy J = W for the nuclear norm. With scaled multipliers U1, U2 and penalties m1, m2 one iteration is::

        b  <- column means of Y - E + U1                                     (the columns of A sum to zero)
        W  <- (m1 A'A + m2 I + beta H)^-1 [m1 A'(Y - E + U1) + m2 (J - U2)]
        E  <- rows of Q = Y - A W - 1 b' + U1, shortened by alpha / m1;    U1 <- Q - E
        J  <- W + U2 with singular values reduced by 1 / m2;               U2 <- W + U2 - J

    where A W + 1 b' and W enter the last two lines over-relaxed. E and J do not depend on each other, nor do W and b,
    so this is the two-block method, which converges for convex problems.

    Parameters
    ----------
    A : ScaledFeatures
    Y : ndarray of shape (n_samples, n_classes)
        One-hot labels in the precision of X.
    H : ndarray of shape (n_features, n_features)
        A' L A.
    basis : ndarray of shape (n_classes, rank), default=None
        Orthonormal columns; the rows of W are then sought in their span, and the problem stays convex.
    start : LowRankFit, default=None
        Of a problem with the same A and Y.
    """
    norm = np.linalg.norm
    n, c = Y.shape
    d = len(H)
    G = A.gram()
    m1: Any
    m2: Any
    if start is None:
        # Without errors the first W is then a ridge regression with a penalty of the mean eigenvalue of A'A.
        E, U1, J, U2, m1, m2 = np.zeros_like(Y), np.zeros_like(Y), np.zeros((d, c)), np.zeros((d, c)), alpha, alpha / d
    else:
        E, U1, J, U2, m1, m2 = (np.array(part, copy=True) if np.ndim(part) else part for part in start.state)
    inverse = np.linalg.inv(m1 * G + m2 * np.eye(d) + beta * H)
    for iteration in range(1, max_iter + 1):
        T = Y - E + U1
        b = T.mean(axis=0, dtype=np.float64)
        W = inverse @ (m1 * A.transposed_times(T) + m2 * (J - U2))
        R = Y - A.times(W) - b.astype(Y.dtype)
        old_E, old_J = E, J
        U1 += OVER_RELAXATION * R + (1 - OVER_RELAXATION) * E
        E = shrink_rows(U1, alpha / m1)
        U1 -= E
        U2 = U2 + OVER_RELAXATION * W + (1 - OVER_RELAXATION) * J
        if basis is None:
            J = shrink_singular_values(U2, 1 / m2)
        else:
            J = shrink_singular_values(U2 @ basis, 1 / m2) @ basis.T
        U2 -= J
        if iteration % CHECK_EVERY and iteration < max_iter:
            continue
        pull, push, smooth = m1 * A.transposed_times(U1), m2 * U2, beta * H @ W
        # |A|_F = 1 and the rows of m1 U1 are no longer than alpha: rounding alone leaves this much of their product.
        stationarity = max(norm(smooth + push - pull) - alpha * np.sqrt(n) * np.finfo(Y.dtype).eps, 0)
        residuals = np.array(
            [
                norm(R - E) / norm(Y),
                norm(W - J) / max(norm(W), norm(J), norm(Y)),
                stationarity / max(norm(pull), norm(push), norm(smooth), NOTHING * alpha * np.sqrt(n)),
                norm(U1.sum(axis=0, dtype=np.float64)) / max(np.sqrt(n) * norm(U1), NOTHING * alpha / m1 * n),
            ]
        )
        if residuals.max() <= tol:
            break
        if iteration > max_iter // 2:
            continue  # convergence is certain once the penalties stay
        # Each constraint balances its own primal against its own dual residual.
        f1 = _balance(residuals[0], norm(E - old_E) / max(norm(U1), TINY))
        f2 = _balance(residuals[1], norm(J - old_J) / max(norm(U2), TINY))
        if (f1, f2) != (1, 1):
            m1, m2 = m1 * f1, m2 * f2
            U1, U2 = U1 / f1, U2 / f2
            inverse = np.linalg.inv(m1 * G + m2 * np.eye(d) + beta * H)
    else:
        warnings.warn(
            f"ADMM stopped after max_iter={max_iter} iterations with a relative residual of {residuals.max():.1e} "
            f"above tol={tol:g}; raise max_iter, or raise tol if the predictions no longer change",
            ConvergenceWarning,
            stacklevel=3,
        )
    return LowRankFit(J, b, E, iteration, residuals, (E, U1, J, U2, m1, m2))


def shrink_rows(Q: NDArray[Any], threshold: float) -> NDArray[Any]:
    """Return argmin_E threshold |E|_{2,1} + |E - Q|^2 / 2: rows shortened by threshold, short rows zero."""
    norms = np.sqrt(np.einsum("ij,ij->i", Q, Q))
    kept = np.maximum(1 - threshold / np.maximum(norms, threshold), 0) if threshold > 0 else np.ones_like(norms)
    return Q * kept[:, np.newaxis].astype(Q.dtype)


def shrink_singular_values(Q: FloatArray, threshold: float) -> FloatArray:
    """Return argmin_J threshold |J|_* + |J - Q|^2 / 2."""
    U, s, V = np.linalg.svd(Q, full_matrices=False)
    return (U * np.maximum(s - threshold, 0)) @ V


def _balance(primal: Any, dual: Any) -> float:
    """The factor of the penalty: a larger one forces the constraint, a smaller one the optimality."""
    if primal > LARGEST_RATIO * dual:
        return STEP
    return 1 / STEP if dual > LARGEST_RATIO * primal else 1.0
