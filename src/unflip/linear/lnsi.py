"""LNSI: low-rank scores, row-sparse errors and a neighbor graph; and the solver that SCD uses too."""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import laplacian
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors

from unflip._base import LinearClassifier, check_training_data
from unflip._validation import FloatArray, IntArray
from unflip.linear._base import check_count, check_number

OVER_RELAXATION = 1.6  # Boyd et al. (2011), section 3.4.3: values of 1.5 to 1.8 speed up convergence
CHECK_EVERY = 10  # iterations; the exact residuals cost one more product with X
LARGEST_RATIO, STEP = 10.0, 2.0  # of residual balancing, Boyd et al. (2011), section 3.4.1
TINY = np.finfo(np.float64).tiny
NOTHING = 1e-6  # of the largest possible multiplier; if labels need none, residuals are rounding over rounding


@dataclass(eq=False, repr=False, kw_only=True)
class LNSIClassifier(LinearClassifier):
    """Harnessing side information for label noise (LNSI): wrong labels are the rows that a low-rank model leaves over.

    The noisy one-hot labels Y are low-rank linear scores plus errors in a few samples; samples that are close to each
    other have similar scores::

        min  |W|_* + alpha |E|_{2,1} + (beta/2) tr(W' A' L A W)    subject to    Y = A W + 1 b' + E

    A is the feature matrix, centered and divided by its Frobenius norm; |W|_* is the sum of the singular values,
    |E|_{2,1} the sum of the row lengths; L is the Laplacian of the k-nearest-neighbor graph with
    a_ij = exp(-|x_i - x_j|^2 / (2 h^2)), h the median distance of neighbors, scaled to a mean degree of one. A large
    row of E marks a label that neither the features nor the neighbors explain.

    The method treats wrong labels as errors of any kind, so it has no ``transition`` parameter.

    Parameters
    ----------
    alpha : float, default=10.0
        Weight of the errors. A smaller value gives a lower rank and simpler scores. Since A has norm one, a good alpha
        does not depend on the units of X, and only a little on the number of samples.
    beta : float, default=1.0
        Weight of the graph, per sample like alpha; 0 leaves out the graph and saves the neighbor search.
    n_neighbors : int, default=10
        Neighbors of a sample in the graph; if there are fewer other samples, all of them.
    tol, max_iter : float, default=1e-4, and int, default=1000
        The solver stops when all relative residuals are below ``tol``, or after ``max_iter`` iterations.
    classes : array-like of shape (n_classes,), default=None
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    random_state : int, RandomState instance or None, default=None
        Not used, since the fit is deterministic; present for code that sets it for every classifier.

    Attributes
    ----------
    classes_, coef_, intercept_, n_features_in_, feature_names_in_
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    outlier_score_ : ndarray of shape (n_samples,)
        The length of each row of E: large for a label that is probably wrong, between 0 and about 1.4.
    n_iter_ : int
        Iterations of the solver, counted in steps of ten.
    residuals_ : ndarray of shape (4,)
        Relative residuals at the end: of Y = A W + 1 b' + E, of the copy of W in the nuclear norm, and of the
        optimality conditions of W and of b.

    Notes
    -----
    The decomposition and its norms are those of the paper, as far as its abstract and later descriptions tell; the
    graph term is known from a caption in Luo et al. (2020), "the affinity graph used in LNSI, computed by Gaussian
    kernel"; neither code nor hyperparameters were available. The intercept, the sparse graph, and the scaling of A and
    of the graph are ours.

    Solved by ADMM. Its penalties balance primal and dual residuals (Boyd et al. 2011, section 3.4.1) instead of growing
    by a fixed factor, since a penalty that only grows freezes the iterates before the optimum. An iteration costs two
    products with X; memory is O(n_features^2 + n_samples (n_features + n_classes + n_neighbors)). A dense X is copied
    once to be centered; a sparse one is not. The neighbor search compares all pairs of samples if there are more than
    15 features.

    Like every regression on one-hot labels, this one misses a class that lies between two others on a line, because its
    score is nowhere the largest. Second-order features fix that. ``predict_proba`` estimates the label with its noise,
    P(noisy class | x) drawn toward its largest entry, since T is not used. ``fit`` takes no sample weights, because a
    neighbor graph has no place for them.

    References
    ----------
    Wei, Gong, Chen, Liu, Yang, Tao, Harnessing Side Information for Classification Under Label Noise, IEEE TNNLS 31(9),
    2020.
    Boyd, Parikh, Chu, Peleato, Eckstein, Distributed Optimization and Statistical Learning via the Alternating
    Direction Method of Multipliers, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = load_digits(return_X_y=True)
    >>> LNSIClassifier().fit(X, corrupt(y, symmetric(10, 0.2), random_state=0)).score(X, y) > 0.9
    True
    """

    alpha: float = 10.0
    beta: float = 1.0
    n_neighbors: int = 10
    tol: float = 1e-4
    max_iter: int = 1000
    classes: ArrayLike | None = None
    random_state: Any = None

    def fit(self, X: Any, y: ArrayLike, **refused: Any) -> Self:
        """Fit to noisy labels as :meth:`MCLDCEClassifier.fit` does, but refuse ``sample_weight`` and say why."""
        refused = {name: value for name, value in refused.items() if value is not None}
        if refused:
            raise TypeError(
                f"{type(self).__name__}.fit takes only X and y; got {', '.join(refused)}. sample_weight has no place "
                "in a neighbor graph: leave it out, or use MCLDCEClassifier, which takes weights"
            )
        self._check_parameters()
        X, codes, _ = check_training_data(self, X, y, classes=self.classes)
        # Columns in the order in which the classes appear: then the names of the classes cannot change a digit.
        present, first = np.unique(codes, return_index=True)
        absent = np.setdiff1d(np.arange(len(self.classes_)), present)
        columns = np.concatenate([present[np.argsort(first)], absent])
        order = np.argsort(columns)
        A = ScaledFeatures(X)
        fit = self._solve(A, np.eye(len(columns), dtype=X.dtype)[order[codes]], columns)
        coef, intercept = A.coefficients(fit.W, fit.b)
        self.coef_, self.intercept_ = coef[order], intercept[order]
        self.outlier_score_ = np.linalg.norm(fit.E.astype(np.float64), axis=1)
        self.residuals_ = fit.residuals
        return self

    def _check_parameters(self) -> None:
        check_number(self, "alpha", positive=True)
        check_number(self, "beta", why=", and 0 leaves out the graph")
        check_number(self, "tol", positive=True)
        check_count(self, "n_neighbors")
        check_count(self, "max_iter")

    def _solve(self, A: "ScaledFeatures", Y: NDArray[Any], columns: IntArray) -> "LowRankFit":
        """Return the solution for one-hot labels Y, whose columns stand for the classes ``columns``."""
        H = np.zeros((self.n_features_in_, self.n_features_in_))
        if self.beta:
            H = A.gram(gaussian_graph(*nearest_neighbors(A.X, self.n_neighbors)))
        fit = solve_low_rank(A, Y, H, alpha=self.alpha, beta=self.beta, tol=self.tol, max_iter=self.max_iter)
        self.n_iter_ = fit.n_iter
        return fit


def nearest_neighbors(X: Any, k: int) -> tuple[NDArray[Any], IntArray]:
    """Return distances and indices of the k nearest other samples, nearest first; of all others if there are fewer."""
    if X.shape[0] < 2:
        raise ValueError("a neighbor graph needs at least two samples; got one. Give more rows of X")
    distances, indices = NearestNeighbors(n_neighbors=min(k, X.shape[0] - 1)).fit(X).kneighbors()
    return distances, indices


def gaussian_graph(distances: NDArray[Any], indices: IntArray) -> Any:
    """Return the symmetric graph a_ij = exp(-|x_i - x_j|^2 / (2 h^2)) of neighbors, scaled to a mean degree of one.

    Two samples are joined if either is a neighbor of the other; h is the median distance of distinct neighbors.
    """
    apart = distances[distances > 0]  # repeated rows tell nothing about the scale
    h = float(np.median(apart)) if len(apart) else 1.0
    graph = sparse_rows(np.exp(-0.5 * (distances.astype(np.float64) / h) ** 2), indices)
    return unit_mean_degree(graph.maximum(graph.T).tocsr())


def unit_mean_degree(graph: Any) -> Any:
    """Return the graph scaled to a mean degree of one."""
    return graph * (graph.shape[0] / (graph.sum() or 1.0))


def sparse_rows(values: NDArray[Any], indices: IntArray) -> Any:
    """Return the sparse matrix whose row i holds ``values[i]`` in the columns ``indices[i]``."""
    n, k = indices.shape
    # A copy: the next steps work in place, and the candidates are needed again.
    graph = sparse.csr_array((values.ravel(), indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n), copy=True)
    graph.eliminate_zeros()  # a stored zero would count as an edge
    graph.sort_indices()
    return graph


class ScaledFeatures:
    """A = (X - 1 mean') / |X - 1 mean'|_F, centered without touching a sparse X.

    With A the problem does not depend on the units of X, and pure label noise gives A'(noise) of a size that depends
    neither on n_samples nor on n_features; so a good alpha does not depend on them either.
    """

    def __init__(self, X: Any) -> None:
        self.offset = mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        if sparse.issparse(X):
            self.X, self.mean = X, mean
            square = X.multiply(X).sum(dtype=np.float64) - X.shape[0] * mean @ mean
        else:
            # A float32 X may be so far from zero that its products would lose the digits that matter.
            self.X, self.mean = X - mean.astype(X.dtype), np.zeros(len(mean))
            square = np.einsum("ij,ij->", self.X, self.X, dtype=np.float64)
        self.scale = float(np.sqrt(max(square, 0))) or 1.0
        self.dtype = X.dtype

    def times(self, W: FloatArray) -> NDArray[Any]:
        """Return A W, in the precision of X."""
        V = W / self.scale
        return self.X @ V.astype(self.dtype) - (self.mean @ V).astype(self.dtype)

    def transposed_times(self, R: NDArray[Any]) -> FloatArray:
        """Return A' R."""
        product = np.asarray(self.X.T @ R, dtype=np.float64)
        return (product - np.outer(self.mean, R.sum(axis=0, dtype=np.float64))) / self.scale

    def gram(self, graph: Any = None) -> FloatArray:
        """Return A'A, or A' L A for the Laplacian L = D - graph: tr(F' L F) = sum_ij a_ij |f_i - f_j|^2 / 2."""
        product = self.X.T @ (self.X if graph is None else laplacian(graph).astype(self.dtype) @ self.X)
        n = self.X.shape[0] if graph is None else 0  # rows of L sum to zero, so that the mean drops out
        dense = product.toarray() if sparse.issparse(product) else product
        return (np.asarray(dense, dtype=np.float64) - n * np.outer(self.mean, self.mean)) / self.scale**2

    def coefficients(self, W: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coef_ and intercept_ with X coef_' + intercept_ = A W + 1 b'."""
        coef = W.T / self.scale
        return coef, b - coef @ self.offset


class LowRankFit(NamedTuple):
    """A minimizer, and the state from which another solve can start."""

    W: FloatArray  # (n_features, n_classes), of the rank that the nuclear norm leaves
    b: FloatArray  # (n_classes,)
    E: NDArray[Any]  # (n_samples, n_classes)
    n_iter: int
    residuals: FloatArray  # relative: Y = XW + 1b' + E; W = J; stationarity in W; stationarity in b
    state: tuple[Any, ...]


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
    """Return the minimizer, by the alternating direction method of multipliers (ADMM), of::

        |W|_* + alpha |E|_{2,1} + (beta/2) tr(W' H W)    subject to    Y = A W + 1 b' + E

    with a copy J = W for the nuclear norm. With scaled multipliers U1, U2 and penalties m1, m2, one iteration is::

        b  <- column means of Y - E + U1                                     (the columns of A sum to zero)
        W  <- (m1 A'A + m2 I + beta H)^-1 [m1 A'(Y - E + U1) + m2 (J - U2)]
        E  <- rows of Q = Y - A W - 1 b' + U1, shortened by alpha / m1;    U1 <- Q - E
        J  <- W + U2 with singular values reduced by 1 / m2;               U2 <- W + U2 - J

    where A W + 1 b' and W are over-relaxed in the last two lines. E and J do not depend on each other, nor do W and b,
    so this is the two-block method, which converges for convex problems.

    H is A' L A, shape (n_features, n_features). The columns of ``basis``, shape (n_classes, rank), are orthonormal; the
    rows of W are then restricted to their span, and the problem stays convex. ``start`` is the solution of a problem
    with the same A and Y.
    """
    norm = np.linalg.norm
    n, c = Y.shape
    d = len(H)
    G = A.gram()
    basis = np.eye(c) if basis is None else basis
    m1: Any
    m2: Any
    if start is None:
        # Without errors, the first W is then a ridge regression with the mean eigenvalue of A'A as penalty.
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
            continue  # convergence is guaranteed once the penalties no longer change
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
            stacklevel=4,
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
    """Return the factor of the penalty: a larger penalty enforces the constraint, a smaller one optimality."""
    return STEP if primal > LARGEST_RATIO * dual else 1 / STEP if dual > LARGEST_RATIO * primal else 1.0
