"""What every classifier of the package shares: how it takes data, labels and T, and how linear scores predict."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from unflip._validation import FloatArray, IntArray, check_labels, check_transition
from unflip.models import Savable

SCORES = 2**24  # at once in predict


def check_training_data(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    classes: ArrayLike | None = None,
    reset: bool = True,
) -> tuple[Any, IntArray, FloatArray | None]:
    """Validate the arguments of ``fit``; set ``classes_`` and the feature attributes; return X, label codes, weights.

    ``classes`` are all classes, or None for those of ``y``. ``reset=False`` is a later ``partial_fit``: the features
    must be those already seen.
    """
    check_rows(X, y)
    X, y = validate_data(estimator, X, y, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
    check_classification_targets(y)
    estimator.classes_, codes = check_labels(y, classes)
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():  # scikit-learn before 1.9 lets it pass
            raise ValueError("sample_weight is zero for every sample; at least one must count")
    return X, codes, weights


def check_rows(X: Any, y: Any) -> None:
    """Refuse empty data and lengths that differ, before scikit-learn does so without saying how to mend it."""
    if y is None:
        return  # scikit-learn names what is missing
    n, labels = _num_samples(X), _num_samples(y)
    if n == 0:
        raise ValueError("X is empty, 0 sample(s): samples of at least two classes are needed; check filter and file")
    if n != labels:
        raise ValueError(f"X has {n} samples but y has {labels} labels; give one label for each row of X")


def resolve_transition(
    transition: Any, default: Any, X: Any, codes: IntArray, classes: NDArray[Any], sample_weight: FloatArray | None
) -> tuple[FloatArray, Any]:
    """Return T and the fitted estimator it came from (None if T was given).

    Sample weights reach an estimator whose ``fit`` takes them; another one estimates T from the samples as they are.

    Parameters
    ----------
    transition : array-like, estimator or None
        What the user gave: T itself, an estimator with ``fit`` and ``transition_``, or None for ``default``.
    default : estimator
    X, codes, classes, sample_weight
        Noisy training data.
    """
    if transition is not None and not hasattr(transition, "fit"):
        return check_transition(transition, len(classes)), None
    estimator = clone(default if transition is None else transition)
    if "classes" in estimator.get_params(deep=False) and estimator.classes is None:
        estimator.set_params(classes=classes)
    weighted = sample_weight is not None and has_fit_parameter(estimator, "sample_weight")
    estimator.fit(X, classes[codes], **({"sample_weight": sample_weight} if weighted else {}))
    if not hasattr(estimator, "transition_"):
        raise ValueError(
            f"transition must be a matrix or an estimator that sets transition_ in fit; {type(estimator).__name__} "
            "does not. AnchorPoints(classifier) and DualT(classifier) make one of a classifier"
        )
    return check_transition(estimator.transition_, len(classes)), estimator


class LinearScoresClassifier(Savable, ClassifierMixin, BaseEstimator):
    """Prediction from ``coef_`` (n_classes, n_features) and ``intercept_`` (n_classes,), one score per class."""

    def _scores(self, X: Any) -> NDArray[Any]:
        return self._scores_of(self._samples(X))

    def _samples(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])

    def _scores_of(self, X: Any) -> NDArray[Any]:
        # In the precision of X: casting X instead would double the memory of float32 data.
        scores: NDArray[Any] = safe_sparse_dot(X, self.coef_.T.astype(X.dtype, copy=False), dense_output=True)
        scores += self.intercept_.astype(X.dtype, copy=False)
        return scores

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return scores, shape (n_samples, n_classes); for two classes their difference, shape (n_samples,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely clean label of each sample, shape (n_samples,)."""
        X = self._samples(X)
        rows = max(1, SCORES // len(self.classes_))  # scores of thousands of classes are larger than X
        starts = range(0, X.shape[0], rows)
        best = [self._scores_of(X[start : start + rows]).argmax(axis=1) for start in starts]
        labels: NDArray[Any] = self.classes_[np.concatenate(best)]
        return labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
