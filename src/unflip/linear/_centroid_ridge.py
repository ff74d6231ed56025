"""Ridge regression on a centroid: what the MC-LDCE classifiers share."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge

from unflip._validation import FloatArray, IntArray, check_classes, check_sparse_transition, check_transition
from unflip.core import ClassSums, clean_prior, corrected_labels, project_to_simplex
from unflip.linear._correction import Correction
from unflip.linear._ridge import solve_ridge
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

    def _solve(self, sums: ClassSums, alpha: float, correct: Correction | None = None) -> Self:
        if sums.feature_names is None and hasattr(self, "feature_names_in_"):
            sums = replace(sums, feature_names=self.feature_names_in_)
        # With their names the sums of two models cannot be mixed up.
        self.sums_ = replace(sums, classes=self.classes_)
        correct = correct or Correction(self.transition_, sums.noisy_prior, self.operator)
        clean = correct(self.sums_)
        self.class_prior_ = correct.prior
        self.centroid_ = clean.centroid
        W, self.intercept_ = solve_ridge(clean, None, alpha, self.fit_intercept)
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

    def _estimate_transition(self, X: Any, codes: IntArray, weights: FloatArray | None) -> None:
        if sparse.issparse(self.transition):
            self._take_transition(len(self.classes_))
        else:
            super()._estimate_transition(X, codes, weights)

    def _take_transition(self, n_classes: int) -> None:
        check = check_sparse_transition if sparse.issparse(self.transition) else check_transition
        self.transition_, self.transition_estimator_ = check(self.transition, n_classes), None

    def _take_sums(self, sums: ClassSums) -> None:
        """Set what ``fit`` would have learned of classes, T and features; sums cannot tell more."""
        own = None if self.classes is None else check_classes(self.classes)
        if sums.classes is not None:
            self.classes_ = check_classes(sums.classes)
            if own is not None and not np.array_equal(own, self.classes_):
                raise ValueError(f"the sums are of the classes {_some(self.classes_)}, but classes is {_some(own)}")
        elif not hasattr(self, "classes_"):
            self.classes_ = np.arange(sums.n_classes) if own is None else own
        if len(self.classes_) != sums.n_classes:
            raise ValueError(f"the sums have {sums.n_classes} classes, but the classes are {_some(self.classes_)}")
        if self.transition is not None and not hasattr(self.transition, "fit"):
            self._take_transition(sums.n_classes)
        elif not hasattr(self, "transition_"):
            raise ValueError(
                "sums hold no samples to estimate T from: pass transition as an array, for example "
                "estimate_transition(X_sample, y_sample)"
            )
        if sums.feature_names is not None and all(isinstance(name, str) for name in sums.feature_names):
            self.feature_names_in_ = sums.feature_names.astype(object)
        elif getattr(self, "n_features_in_", sums.n_features) != sums.n_features and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of an earlier fit to other features
        self.n_features_in_ = sums.n_features

    def _fitted_state(self) -> dict[str, Any]:
        state = super()._fitted_state()
        if sparse.issparse(state.get("transition_")):  # a model file holds arrays
            T = state["transition_"]
            state["transition_"] = {"data": T.data, "indices": T.indices, "indptr": T.indptr}
        return state

    def _set_fitted_state(self, state: dict[str, Any]) -> None:
        super()._set_fitted_state(state)
        if isinstance(state.get("transition_"), dict):
            T, c = state["transition_"], len(state["classes_"])
            matrix = sparse.csc_array((T["data"], T["indices"], T["indptr"]), shape=(c, c))
            matrix.check_format(full_check=True)  # an index outside would be read from foreign memory
            self.transition_ = matrix


def _some(classes: NDArray[Any]) -> str:
    return f"{classes[:10].tolist()}" + (f" and {len(classes) - 10} more" if len(classes) > 10 else "")


def is_wide(X: Any) -> bool:
    """Whether Ridge's own solvers are to be preferred to X'X."""
    return bool(X.shape[1] > (WIDE_SPARSE if sparse.issparse(X) else max(WIDE, X.shape[0])))


def fit_ridge(
    X: Any, targets: NDArray[Any], alpha: float, fit_intercept: bool, weights: FloatArray | None, random_state: Any
) -> Ridge:
    """scikit-learn's ridge on the corrected targets, converged far enough to be the same optimum."""
    tolerance = 1e-10 if X.dtype == np.float64 else 1e-6
    ridge = Ridge(alpha, fit_intercept=fit_intercept, tol=tolerance, random_state=random_state)
    return ridge.fit(X, targets.astype(X.dtype, copy=False), weights)
