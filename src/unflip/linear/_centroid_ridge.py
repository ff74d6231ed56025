"""Ridge regression on a centroid: what the MC-LDCE classifiers share."""

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge

from unflip._validation import FloatArray, IntArray, check_classes, check_transition
from unflip.core import ClassSums, clean_centroid, clean_prior, corrected_labels, project_to_simplex
from unflip.linear._with_transition import TransitionClassifier

WIDE = 4096  # features; beyond it, and beyond the number of rows, X'X costs more than Ridge's own solvers
WIDE_SPARSE = 512  # features of a sparse X; beyond it the zeros are worth skipping


class CentroidRidge(TransitionClassifier):
    """The path from data to coefficients; ``alpha`` is what the two public classes choose differently."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean class | x), shape (n_samples, n_classes): the scores, projected to the simplex.

        Squared-loss scores estimate these probabilities, but roughly at the edges; ``CalibratedClassifierCV`` refines
        them (against the noisy labels it is given).
        """
        return project_to_simplex(self._scores(X))

    def _solve(self, sums: ClassSums, alpha: float) -> Self:
        self.sums_ = sums
        self.class_prior_ = clean_prior(sums.noisy_prior, self.transition_)
        self.centroid_ = clean_centroid(sums, self.transition_, self.operator)
        W, self.intercept_ = solve_ridge(sums, self._labels(), alpha, self.fit_intercept)
        self.coef_ = W.T
        return self

    def _fit_targets(self, X: Any, codes: IntArray, weights: FloatArray | None, alpha: float) -> Self:
        counts = np.bincount(codes, weights, minlength=len(self.classes_))
        self.class_prior_ = clean_prior(counts / counts.sum(), self.transition_)
        labels = self._labels()
        ridge = fit_ridge(X, labels[codes], alpha, self.fit_intercept, weights, self.random_state)
        self.coef_, self.intercept_ = ridge.coef_, np.broadcast_to(ridge.intercept_, len(labels)).astype(np.float64)
        indicator = sparse.csr_array(
            (np.ones(len(codes)) if weights is None else weights, codes, np.arange(len(codes) + 1)),
            shape=(len(codes), len(labels)),
        )
        sums = indicator.T @ X
        self.centroid_ = (sums.toarray() if sparse.issparse(sums) else sums).T / counts.sum() @ labels
        if hasattr(self, "sums_"):  # of an earlier fit to other data
            del self.sums_
        return self

    def _labels(self) -> FloatArray:
        return corrected_labels(self.transition_, self.class_prior_, self.operator)

    def _take_sums(self, sums: ClassSums) -> None:
        """Set what ``fit`` would have learned of classes, T and features; sums cannot tell more."""
        if not hasattr(self, "classes_"):
            self.classes_ = np.arange(sums.n_classes) if self.classes is None else check_classes(self.classes)
        if len(self.classes_) != sums.n_classes:
            raise ValueError(f"the sums have {sums.n_classes} classes, but the classes are {self.classes_.tolist()}")
        if self.transition is not None and not hasattr(self.transition, "fit"):
            self.transition_, self.transition_estimator_ = check_transition(self.transition, sums.n_classes), None
        elif not hasattr(self, "transition_"):
            raise ValueError(
                "sums hold no samples to estimate T from: pass transition as an array, for example "
                "estimate_transition(X_sample, y_sample)"
            )
        if getattr(self, "n_features_in_", sums.n_features) != sums.n_features and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of an earlier fit to other features
        self.n_features_in_ = sums.n_features


def is_wide(X: Any) -> bool:
    """Whether Ridge's own solvers are to be preferred to X'X."""
    return bool(X.shape[1] > (WIDE_SPARSE if sparse.issparse(X) else max(WIDE, X.shape[0])))


def solve_ridge(
    sums: ClassSums, labels: FloatArray, alpha: float, fit_intercept: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return W (n_features, n_classes) and b (n_classes,) that minimise, from sums alone::

    sum_i |W' x_i + b - t_i|^2 + alpha |W|^2,    t_i = row y_i of labels
    """
    A, B = _normal_equations(sums, labels, fit_intercept)
    scale = np.sqrt(np.diag(A) + alpha)
    if scale.min() > 0:
        # With a unit diagonal a pivot is the share of a feature that those before it leave unexplained.
        scaled = (A + alpha * np.eye(len(A))) / np.outer(scale, scale)
        if _smallest_pivot(scaled) > 10 * len(A) * np.finfo(np.float64).eps:
            W = np.linalg.solve(scaled, B / scale[:, np.newaxis]) / scale[:, np.newaxis]
            return W, _intercept(sums, labels, W, fit_intercept)
    return next(solve_ridge_path(sums, labels, [alpha], fit_intercept))


def solve_ridge_path(
    sums: ClassSums, labels: FloatArray, alphas: Iterable[float], fit_intercept: bool = True
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield :func:`solve_ridge` for each alpha from one eigendecomposition; of least norm where it is singular.

    ::

        X'X = V diag(v) V',    W(alpha) = V diag(1 / (v + alpha)) V' B
    """
    A, B = _normal_equations(sums, labels, fit_intercept)
    v, V = np.linalg.eigh(A)
    v = np.maximum(v, 0)
    rotated = V.T @ B
    rounding = v.max() * len(A) * np.finfo(np.float64).eps
    for alpha in alphas:
        kept = v + alpha > rounding
        W = V[:, kept] @ (rotated[kept] / (v[kept] + alpha)[:, np.newaxis])
        yield W, _intercept(sums, labels, W, fit_intercept)


def _smallest_pivot(A: FloatArray) -> float:
    """Of the Cholesky factorisation of A; 0 where A is not positive definite."""
    # NumPy's LAPACK here and below, not SciPy's: each brings its own threads, which would fight over the cores.
    try:
        return float(np.diag(np.linalg.cholesky(A)).min() ** 2)
    except np.linalg.LinAlgError:
        return 0.0


def _normal_equations(sums: ClassSums, labels: FloatArray, fit_intercept: bool) -> tuple[FloatArray, FloatArray]:
    """X'X and X't. With an intercept both are taken about the mean of x: there the intercept is the mean target."""
    if fit_intercept:
        return sums.scatter, sums.centred_sums.T @ labels
    return sums.gram, sums.weight * sums.centroid @ labels


def _intercept(sums: ClassSums, labels: FloatArray, W: FloatArray, fit_intercept: bool) -> FloatArray:
    return sums.noisy_prior @ labels - sums.mean @ W if fit_intercept else np.zeros(sums.n_classes)


def fit_ridge(
    X: Any, targets: NDArray[Any], alpha: float, fit_intercept: bool, weights: FloatArray | None, random_state: Any
) -> Ridge:
    """scikit-learn's ridge on the corrected targets, converged far enough to be the same optimum."""
    tolerance = 1e-10 if X.dtype == np.float64 else 1e-6
    ridge = Ridge(alpha, fit_intercept=fit_intercept, tol=tolerance, random_state=random_state)
    return ridge.fit(X, targets.astype(X.dtype, copy=False), weights)
