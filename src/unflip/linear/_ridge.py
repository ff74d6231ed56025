"""Ridge regression from sums alone, stable where X'X is singular or nearly so."""

import warnings
from collections.abc import Iterable, Iterator

import numpy as np
from scipy import linalg

from unflip._validation import FloatArray
from unflip.core import ClassSums

EPSILON = float(np.finfo(np.float64).eps)
NAMED = 5  # features in a warning


def solve_ridge(
    sums: ClassSums, labels: FloatArray | None, alpha: float, fit_intercept: bool = True, *, warn: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return W (n_features, n_classes) and b (n_classes,) that minimise, from sums alone::

        sum_i |W' x_i + b - t_i|^2 + alpha |W|^2,    t_i = row y_i of labels

    ``labels=None`` is the identity: the sums are those of clean labels, or corrected to be so.

    A constant feature gets the coefficient zero. Where other features are linearly dependent up to rounding, and alpha
    is too small to decide between them, W is of least norm and a warning (SciPy's ``LinAlgWarning``) names them.
    """
    A, B = _normal_equations(sums, labels, fit_intercept)
    # About the mean a constant feature has no square but that of the rounding of its mean.
    rounding = sums.weight * (4 * EPSILON * sums.mean) ** 2 if fit_intercept else 0.0
    varies = np.diag(A) > rounding
    W = np.zeros_like(B)
    if varies.any():
        inner = A if varies.all() else A[np.ix_(varies, varies)]
        W[varies], dependent = _solve(inner, B[varies], alpha, sums.rounding)
        if warn and dependent is not None:
            _warn_of(dependent, _names(sums)[varies], alpha, max(1e-6, 100 * sums.rounding))
    return W, _intercept(sums, labels, W, fit_intercept)


def solve_ridge_path(
    sums: ClassSums, labels: FloatArray | None, alphas: Iterable[float], fit_intercept: bool = True
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield :func:`solve_ridge` for each alpha from one eigendecomposition, without a warning.

    ::

        X'X = V diag(v) V',    W(alpha) = V diag(1 / (v + alpha)) V' B
    """
    A, B = _normal_equations(sums, labels, fit_intercept)
    v, V = np.linalg.eigh(A)
    v = np.maximum(v, 0)
    rotated = V.T @ B
    for alpha in alphas:
        if alpha > 1e4 * EPSILON * v.max():
            W = V @ (rotated / (v + alpha)[:, np.newaxis])
            yield W, _intercept(sums, labels, W, fit_intercept)
        else:  # the eigenvalues of small features are rounding errors of large ones
            yield solve_ridge(sums, labels, alpha, fit_intercept, warn=False)


def _solve(A: FloatArray, B: FloatArray, alpha: float, rounding: float) -> tuple[FloatArray, FloatArray | None]:
    """Solve (A + alpha I) W = B; return W and, where the matrix is singular up to rounding, its null space."""
    scale = np.sqrt(np.diag(A) + alpha)
    # With a unit diagonal a pivot is the share of a feature that those before it leave unexplained.
    scaled = A / scale / scale[:, np.newaxis]
    np.fill_diagonal(scaled, 1.0)
    B = B / scale[:, np.newaxis]
    # Measured: rounding moved eigenvalues that are zero by up to 4e-6 where float32 was summed up, not half of it.
    nothing = max(10 * len(A) * EPSILON, rounding)
    smallest = _smallest_pivot(scaled)
    if smallest > nothing and rounding > EPSILON:
        # A pivot may be large all the same, 1,000 times the eigenvalue where the last feature is a category of 0.1 %.
        # This is the share of a feature that all others leave unexplained, over d: no larger than the eigenvalue.
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


def _smallest_pivot(A: FloatArray) -> float:
    """Of the Cholesky factorisation of A; 0 where A is not positive definite."""
    # NumPy's LAPACK here and above, not SciPy's: each brings its own threads, which would fight over the cores.
    try:
        return float(np.diag(np.linalg.cholesky(A)).min() ** 2)
    except np.linalg.LinAlgError:
        return 0.0


def _normal_equations(sums: ClassSums, labels: FloatArray | None, fit_intercept: bool) -> tuple[FloatArray, FloatArray]:
    """X'X and X't. With an intercept both are taken about the mean of x: there the intercept is the mean target."""
    if not np.isfinite(sums.scatter).all():
        raise ValueError("the sums are not finite: X holds NaN, infinity or numbers whose squares overflow; clean it")
    if fit_intercept:
        A, B = sums.scatter, sums.centred_sums.T
    else:
        A, B = sums.gram, sums.weight * sums.centroid
    return A, B if labels is None else B @ labels


def _intercept(sums: ClassSums, labels: FloatArray | None, W: FloatArray, fit_intercept: bool) -> FloatArray:
    if not fit_intercept:
        return np.zeros(W.shape[1])
    prior = sums.counts / sums.weight
    return (prior if labels is None else prior @ labels) - sums.mean @ W


def _names(sums: ClassSums) -> np.ndarray:
    if sums.feature_names is None:
        return np.array([f"feature {j}" for j in range(sums.n_features)], dtype=object)
    return np.array([repr(str(name)) for name in sums.feature_names], dtype=object)


def _warn_of(null_space: FloatArray, names: np.ndarray, alpha: float, share_of_none: float) -> None:
    """Say which features depend on which: N' x = 0 for the k columns of N is k features given by the others."""
    d, k = null_space.shape
    # The features of the largest share in N are solved for; of two that are alike the later one.
    order = np.arange(d)[::-1]
    share = null_space[order] * (1 + share_of_none * order[:, np.newaxis] / d)
    R, pivots = linalg.qr(share.T, mode="r", pivoting=True)
    weights = np.abs(linalg.solve_triangular(R[:, :k], R[:, k:]))
    found = order[pivots]
    said = []
    for i in np.argsort(found[:k])[:NAMED]:
        others = np.sort(found[k:][weights[i] > share_of_none])
        more = f" and {len(others) - NAMED} others" if len(others) > NAMED else ""
        said.append(f"{names[found[i]]} depends on {', '.join(names[others[:NAMED]])}{more}")
    warnings.warn(
        f"X'X is singular up to rounding, since {k} of {d} features are linear combinations of others: "
        f"{'; '.join(said)}{f'; and {k - NAMED} more' if k > NAMED else ''}. The solution of least norm is taken: drop "
        f"such features, or raise alpha, which is {alpha:g}",
        linalg.LinAlgWarning,
        stacklevel=5,
    )
