"""Shared by the linear classifiers: how they take T, and ridge regression from sums."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from unflip._base import LinearClassifier, check_training_data, resolve_transition
from unflip._validation import FloatArray, IntArray
from unflip.core import ClassSums
from unflip.core.ldce import solve_prior
from unflip.core.one_vs_rest import binary_labels, binary_rates
from unflip.transition.ridge import RidgeEM, suits_ridge
from unflip.transition.volmin import VolMin

EPSILON = float(np.finfo(np.float64).eps)
NAMED = 5  # features in a warning


@dataclass(eq=False, repr=False, kw_only=True)
class TransitionClassifier(LinearClassifier):
    """Shared base of the linear classifiers that use T: an array, an estimator or None for VolMin."""

    transition: Any = field(default=None, kw_only=False)
    classes: ArrayLike | None = None
    random_state: Any = None
    _keep_sparse = False  # whether a sparse T stays sparse

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Noisy labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
            A sample of weight 2 counts as if it occurred twice.
        """
        self._check_parameters()
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
        self._set_transition(X, codes, weights)
        return self._fit(X, codes, weights)

    def _fit(self, X: Any, codes: IntArray, weights: FloatArray | None) -> Self:
        """Fit to data that have been checked; ``classes_`` and ``transition_`` are set."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        check_number(self, "alpha")

    def _set_transition(self, X: Any, codes: IntArray, weights: FloatArray | None) -> None:
        T, sparse_T = self.transition, self._keep_sparse
        seed = self.random_state
        default: Any = RidgeEM() if suits_ridge(X, len(self.classes_)) else VolMin(random_state=seed)
        found = resolve_transition(T, default, X, codes, self.classes_, weights, keep_sparse=sparse_T)
        self.transition_, self.transition_estimator_ = found

    def _one_vs_rest(self, codes: IntArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Set ``class_prior_`` and ``noise_rates_``; return the weights, ones if None, and G.

        Row ``G[codes[i]]`` holds the corrected labels of sample i in the problems of class k against the rest, see
        :func:`~unflip.core.one_vs_rest.binary_labels`.
        """
        w = np.ones(len(codes)) if weights is None else weights
        counts = np.bincount(codes, w, minlength=len(self.classes_))
        self.class_prior_ = solve_prior(counts / counts.sum(), self.transition_)
        self.noise_rates_ = np.column_stack(binary_rates(self.transition_, self.class_prior_))
        return w, binary_labels(self.transition_, self.class_prior_, self.classes_)

    def _fitted_state(self) -> dict[str, Any]:
        state = super()._fitted_state()
        T: Any = state.get("transition_")
        if sparse.issparse(T):  # a model file holds arrays
            state["transition_"] = {"data": T.data, "indices": T.indices, "indptr": T.indptr}
        return state

    def _set_fitted_state(self, state: dict[str, Any]) -> None:
        super()._set_fitted_state(state)
        T = state.get("transition_")
        if isinstance(T, dict):
            shape = (len(state["classes_"]),) * 2
            matrix: Any = sparse.csc_array((T["data"], T["indices"], T["indptr"]), shape=shape)
            matrix.check_format(full_check=True)  # an index outside would read foreign memory
            self.transition_ = matrix


def check_number(model: Any, name: str, *, positive: bool = False, why: str = "") -> None:
    """Refuse a parameter that is not a finite number >= 0, or > 0."""
    value: Any = getattr(model, name)
    if not isinstance(value, Real) or not 0 <= float(value) < np.inf or (positive and value == 0):
        raise ValueError(f"{name} must be a number {'>' if positive else '>='} 0{why}; got {value!r}")


def check_count(model: Any, name: str) -> None:
    """Refuse a parameter that is not a whole number >= 1."""
    value: Any = getattr(model, name)
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < 1:
        raise ValueError(f"{name} must be a whole number >= 1; got {value!r}")


def solve_ridge(
    sums: ClassSums, centroid: FloatArray, mean: FloatArray, alpha: float, fit_intercept: bool = True, warn: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return W (n_features, n_classes) and b (n_classes,), the ridge regression on targets t_i, from sums alone::

        min  sum_i |W' x_i + b - t_i|^2 + alpha |W|^2      W = (X'X + alpha I)^-1 n mu,    mu = mean of x t'

    With an intercept, x is taken about its mean in X'X and in mu; then b = mean of t - W' mean of x.

    A constant feature gets the coefficient zero. If other features are linearly dependent up to rounding, and alpha is
    too small to decide between them, W has the least norm and a warning (SciPy's ``LinAlgWarning``) names them.

    ``centroid`` is mu, of ``sums.about_mean`` if there is an intercept and of ``sums`` if not; ``mean`` is that of t.
    """
    A, B = finite_gram(sums, fit_intercept), sums.weight * centroid
    # About its mean, a constant feature has no square except from the rounding of the mean.
    rounding = sums.weight * (4 * EPSILON * sums.mean) ** 2 if fit_intercept else 0.0
    varies = np.diag(A) > rounding
    W = np.zeros_like(B)
    if varies.any():
        inner = A if varies.all() else A[np.ix_(varies, varies)]
        W[varies], dependent = _solve(inner, B[varies], alpha, sums.rounding)
        if warn and dependent is not None:
            known = sums.feature_names
            names = [f"feature {j}" if known is None else repr(str(known[j])) for j in np.flatnonzero(varies)]
            _warn_of(dependent, np.array(names, dtype=object), alpha, max(1e-6, 100 * sums.rounding))
    return W, mean - sums.mean @ W if fit_intercept else np.zeros(W.shape[1])


def solve_ridge_path(
    sums: ClassSums, centroid: FloatArray, prior: FloatArray, alphas: Iterable[float], fit_intercept: bool = True
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield :func:`solve_ridge` for each alpha from one eigendecomposition, without a warning.

    ::

        X'X = V diag(v) V',    W(alpha) = V diag(1 / (v + alpha)) V' n mu
    """
    v, V = np.linalg.eigh(finite_gram(sums, fit_intercept))
    v = np.maximum(v, 0)
    rotated = V.T @ (sums.weight * centroid)
    for alpha in alphas:
        if alpha > 1e4 * EPSILON * v.max():
            W = V @ (rotated / (v + alpha)[:, np.newaxis])
            yield W, prior - sums.mean @ W if fit_intercept else np.zeros(W.shape[1])
        else:  # the eigenvalues of small features are rounding errors of large ones
            yield solve_ridge(sums, centroid, prior, alpha, fit_intercept, warn=False)


def finite_gram(sums: ClassSums, fit_intercept: bool) -> FloatArray:
    """Return X'X, of centered features if there is an intercept, or refuse sums that are not finite."""
    if not np.isfinite(sums.scatter).all():
        raise ValueError(
            "the sums are not finite: X holds NaN, infinity or numbers whose squares overflow; clean or scale X"
        )
    return sums.scatter if fit_intercept else sums.gram


def _solve(A: FloatArray, B: FloatArray, alpha: float, rounding: float) -> tuple[FloatArray, FloatArray | None]:
    """Solve (A + alpha I) W = B; return W and, if the matrix is singular up to rounding, its null space."""
    scale = np.sqrt(np.diag(A) + alpha)
    # With a unit diagonal, a pivot is the share of a feature that those before it leave unexplained.
    scaled = A / scale / scale[:, np.newaxis]
    np.fill_diagonal(scaled, 1.0)
    B = B / scale[:, np.newaxis]
    # Measured: after summing float32, rounding moved zero eigenvalues by up to 4e-6, less than half of this.
    nothing = max(10 * len(A) * EPSILON, rounding)
    # NumPy's LAPACK here and below, not SciPy's: each brings its own threads, which would fight over the cores.
    try:
        smallest = float(np.diag(np.linalg.cholesky(scaled)).min() ** 2)  # pivot
    except np.linalg.LinAlgError:
        smallest = 0.0
    if smallest > nothing and rounding > EPSILON:
        # A pivot may still be large: 1,000 times the eigenvalue if the last feature is a category of 0.1 %. This is the
        # share of a feature that all others leave unexplained, divided by d: no larger than the eigenvalue.
        smallest = float(1 / (len(A) * np.linalg.inv(scaled).diagonal().max()))
    if smallest > nothing:
        return np.linalg.solve(scaled, B) / scale[:, np.newaxis], None
    v, V = np.linalg.eigh(scaled)
    lost = v <= nothing
    N, V, v = V[:, lost], V[:, ~lost], v[~lost]
    U = V @ (V.T @ B / v[:, np.newaxis])
    if not lost.any():
        return U / scale[:, np.newaxis], None
    # N z changes no score. The z for which W = (U - N z) / scale is shortest is the limit of a small alpha.
    z = np.linalg.lstsq(N / scale[:, np.newaxis], U / scale[:, np.newaxis], rcond=None)[0]
    return (U - N @ z) / scale[:, np.newaxis], N


def _warn_of(null_space: FloatArray, names: np.ndarray, alpha: float, share_of_none: float) -> None:
    """Say which features depend on which: N' x = 0 for the k columns of N means that the others give k features."""
    d, k = null_space.shape
    # The features with the largest share in N are solved for; of two equal ones, the later.
    order = np.arange(d)[::-1]
    share = null_space[order] * (1 + share_of_none * order[:, np.newaxis] / d)
    R, pivots = linalg.qr(share.T, mode="r", pivoting=True)
    weights = np.abs(linalg.solve_triangular(R[:, :k], R[:, k:]))
    found = order[pivots]
    dependencies = []
    for i in np.argsort(found[:k])[:NAMED]:
        others = np.sort(found[k:][weights[i] > share_of_none])
        more = f" and {len(others) - NAMED} others" if len(others) > NAMED else ""
        dependencies.append(f"{names[found[i]]} depends on {', '.join(names[others[:NAMED]])}{more}")
    warnings.warn(
        f"X'X is singular up to rounding, since {k} of {d} features are linear combinations of others: "
        f"{'; '.join(dependencies)}{f'; and {k - NAMED} more' if k > NAMED else ''}. The solution of least norm is "
        f"used; drop such features, or raise alpha, which is {alpha:g}",
        linalg.LinAlgWarning,
        stacklevel=6,
    )
