"""Shared by every classifier of the package: checking data, labels and T, and predicting from linear scores."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
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

from unflip._validation import (
    FloatArray,
    IntArray,
    bounded_weights,
    check_labels,
    check_range,
    check_same_length,
    check_transition,
)
from unflip.core.ldce import project_to_simplex
from unflip.models import Savable

SCORES = 2**24  # numbers that predict holds at once
ZERO_WEIGHTS = "sample_weight is zero for every sample; give at least one non-zero number, or leave it out"


def check_training_data(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    classes: ArrayLike | None = None,
    reset: bool = True,
    all_zero: bool = False,
) -> tuple[Any, IntArray, FloatArray | None]:
    """Validate the arguments of ``fit``; set ``classes_`` and the feature attributes; return X, label codes, weights.

    If ``classes`` is None, the classes are those of ``y``. ``reset=False`` is for a later ``partial_fit``: the features
    must be those already seen. ``all_zero`` accepts weights that are all zero, as of a block that adds nothing.
    """
    check_rows(X, y)
    X, y = validate_data(estimator, X, y, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
    X = check_range(X, getattr(estimator, "feature_names_in_", None), fitting=reset)
    check_classification_targets(y)
    estimator.classes_, codes = check_labels(y, classes)
    if sample_weight is None:
        return X, codes, None
    if np.any(np.asarray(sample_weight) != 0) or np.ndim(sample_weight) > 1:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        weights = bounded_weights(weights)
        left = np.unique(codes[weights > 0])
        if len(left) < 2 and len(np.unique(codes)) > 1 and not all_zero:
            raise ValueError(
                f"only the class {estimator.classes_[left[0]]!r} has a weight that counts; a classifier needs samples "
                "of at least two classes, with weights of more than 1e-20 of the largest one"
            )
        return X, codes, weights
    if not all_zero:
        raise ValueError(ZERO_WEIGHTS)
    if np.ndim(sample_weight) == 1:  # otherwise it is one number for all samples
        check_same_length(X=codes, sample_weight=sample_weight)
    return X, codes, np.zeros(len(codes))


def check_held_out_once(tests: Sequence[IntArray], n: int) -> None:
    """Refuse folds that hold some of n rows out never, or more than once."""
    if np.any(np.bincount(np.concatenate([np.arange(0), *tests]), minlength=n) != 1):
        raise ValueError("cv must hold each row out exactly once; use a splitter such as StratifiedKFold or GroupKFold")


def check_samples(estimator: Any, X: Any, **options: Any) -> Any:
    """Validate X of a prediction: scikit-learn's checks, and numbers whose squares are numbers."""
    X = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32], **options)
    return check_range(X, getattr(estimator, "feature_names_in_", None), fitting=False)


def check_rows(X: Any, y: Any) -> None:
    """Refuse empty data and different lengths with a message that says how to fix them, unlike scikit-learn's."""
    if y is None:
        return  # scikit-learn names what is missing
    n, labels = _num_samples(X), _num_samples(y)
    if n == 0:
        raise ValueError("X is empty, 0 sample(s); at least two classes are needed: check the filter or the file")
    if n != labels:
        raise ValueError(f"X has {n} samples but y has {labels} labels; give one label for each row of X")


def resolve_transition(
    transition: Any, default: Any, X: Any, codes: IntArray, classes: Any, weights: Any, *, keep_sparse: bool = False
) -> tuple[FloatArray, Any]:
    """Return T, checked, and the fitted estimator it came from (None if T was given).

    ``transition`` is T itself, or an estimator with ``fit`` and ``transition_``; if None, ``default`` is used. Sample
    weights are passed to an estimator whose ``fit`` takes them; any other estimator ignores them. With ``keep_sparse``,
    a T that is given as a sparse matrix stays sparse.
    """
    if transition is not None and not hasattr(transition, "fit"):
        return check_transition(transition, len(classes), keep_sparse=keep_sparse), None
    estimator = clone(default if transition is None else transition)
    if "classes" in estimator.get_params(deep=False) and estimator.classes is None:
        estimator.set_params(classes=classes)
    weighted = weights is not None and has_fit_parameter(estimator, "sample_weight")
    estimator.fit(X, classes[codes], **({"sample_weight": weights} if weighted else {}))
    if not hasattr(estimator, "transition_"):
        raise ValueError(
            f"transition must be a matrix or an estimator that sets transition_ in fit; {type(estimator).__name__} "
            "does not. AnchorPoints(classifier) and DualT(classifier) turn a classifier into such an estimator"
        )
    return check_transition(estimator.transition_, len(classes)), estimator


def seeded(estimator: Any, seed: Any) -> Any:
    """Return the estimator, with a seed wherever it has none of its own."""
    if seed is not None:
        unset = [k for k, v in estimator.get_params().items() if v is None and k.split("__")[-1] == "random_state"]
        estimator.set_params(**dict.fromkeys(unset, seed))
    return estimator


def weighting(model: Any, weights: FloatArray | None) -> dict[str, Any]:
    """Return the arguments of ``fit`` that pass weights to the classifier inside, if it takes them."""
    if isinstance(model, Pipeline):
        return {f"{model.steps[-1][0]}__{name}": value for name, value in weighting(model[-1], weights).items()}
    if hasattr(model, "refit") and hasattr(model, "estimator"):  # a search
        return weighting(model.estimator, weights)
    if isinstance(model, CalibratedClassifierCV) and not weighting(model.estimator, weights):
        return {}  # it would take weights, but not pass them on
    return {"sample_weight": weights} if weights is not None and has_fit_parameter(model, "sample_weight") else {}


def fit_codes(model: Any, X: Any, codes: IntArray, weights: FloatArray | None) -> Any:
    """Fit a classifier to codes, some of which may be missing; :func:`predicted_codes` knows which.

    Weights reach the classifier if it takes them. XGBoost accepts labels only without gaps. That an iterative solver
    stops early is not worth a warning for each fold: what counts is how well the model predicts labels that it did not
    see, which is measured.
    """
    present, labels = np.unique(codes, return_inverse=True)
    if len(present) == 1:
        return _Constant(int(present[0]))
    # The weights are our own, not the user's to route.
    with config_context(enable_metadata_routing=False), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, labels, **weighting(model, weights))
    model.codes_ = present
    return model


class _Constant:
    """A class that was alone."""

    def __init__(self, code: int) -> None:
        self.codes_ = np.array([code])

    def predict(self, X: Any) -> IntArray:
        return np.zeros(_num_samples(X), dtype=np.int64)

    def predict_proba(self, X: Any) -> FloatArray:
        return np.ones((_num_samples(X), 1))


def predicted_codes(model: Any, X: Any, n_classes: int) -> FloatArray:
    """Return the probabilities of all classes, from a model that :func:`fit_codes` fitted."""
    p = np.zeros((_num_samples(X), n_classes))
    p[:, model.codes_] = model.predict_proba(X)
    return p


class LinearClassifier(Savable, ClassifierMixin, BaseEstimator):
    """Prediction from ``coef_`` (n_classes, n_features) and ``intercept_`` (n_classes,), one score per class."""

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

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean class | x), shape (n_samples, n_classes).

        Scores of a squared loss estimate these probabilities and are projected to the simplex. They are rough near 0
        and 1; ``CalibratedClassifierCV`` refines them (against the noisy labels it is given).
        """
        return self._probabilities(self._scores(X))

    def _probabilities(self, scores: NDArray[Any]) -> FloatArray:
        return project_to_simplex(scores)

    def _scores(self, X: Any) -> NDArray[Any]:
        return self._scores_of(self._samples(X))

    def _samples(self, X: Any) -> Any:
        check_is_fitted(self)
        return check_samples(self, X)

    def _scores_of(self, X: Any) -> NDArray[Any]:
        # In the precision of X: casting X instead would double the memory of float32 data.
        scores: NDArray[Any] = safe_sparse_dot(X, self.coef_.T.astype(X.dtype, copy=False), dense_output=True)
        scores += self.intercept_.astype(X.dtype, copy=False)
        return scores

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
