"""T in one call."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from unflip import registry
from unflip._validation import FloatArray, check_transition
from unflip.crowd import is_matrix
from unflip.tables.preprocessing import Preprocessor, is_frame
from unflip.tables.read import labeled_rows
from unflip.transition.ridge import RidgeEM, suits_ridge
from unflip.transition.volmin import VolMin


def estimate_transition(
    X: Any,
    y: ArrayLike,
    method: Any = None,
    *,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: Any = None,
    **params: Any,
) -> FloatArray:
    """Return T[i, j] = P(noisy = j | clean = i), shape (n_classes, n_classes), estimated from noisy labels alone.

    Parameters
    ----------
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        The estimators with networks also take images. A data frame with other columns than numbers goes
        through a :class:`~unflip.tables.Preprocessor` first.
    y : array-like of shape (n_samples,) or (n_samples, n_annotators)
        Noisy labels of any kind. With those of several annotators, T is that of all labels together, found by
        :class:`unflip.AnnotatorModel` and :class:`unflip.CorrectedClassifier`, and there is no ``method``. Rows whose
        label is missing are left out, with a warning that counts them.
    method : str, estimator or None, default=None
        If None, :class:`VolMin` is used, which returns the identity unless its model calls for noise; for a sparse X
        with more than 1,024 features, such as TF-IDF, :class:`RidgeEM`, which is faster than one logistic regression
        there, or up to four times as slow with two classes. "volmin" (:class:`VolMin`), "ridge-em" (:class:`RidgeEM`),
        "stacked-em" (:class:`StackedEM`), "anchor" (:class:`AnchorPoints`), "dual-t" (:class:`DualT`), "hoc"
        (:class:`HOC`), "selective" (:class:`Selective`), "volminnet" (:class:`VolMinNet`) or "crossfit-em"
        (:class:`CrossFitEM`); or any estimator with ``fit(X, y)`` and ``transition_``, which is cloned.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights for the estimator's ``fit``, which must take them; those of the estimators named above do.
    classes, random_state, **params
        Parameters of the estimator; ``classes`` and ``random_state`` as in :class:`VolMin`.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = make_blobs(3000, centers=3, random_state=1)
    >>> estimate_transition(X, corrupt(y, symmetric(3, 0.4), random_state=0)).round(1)
    array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
    """
    if is_matrix(y):
        if method is not None or params:
            raise ValueError("the labels of several annotators are joined by EM; leave out method and its parameters")
        method = registry.make("CorrectedClassifier")
    if method is None:
        estimator = None
    elif isinstance(method, str):
        estimator = registry.find(method, "transition").load()()
    elif hasattr(method, "fit") and not isinstance(method, type):
        estimator = clone(method)
    else:
        names = ", ".join(registry.names("transition"))
        raise ValueError(f"method must be one of {names}, or an estimator with fit and transition_; got {method!r}")
    if not is_matrix(y):
        X, y, sample_weight = labeled_rows(X, y, sample_weight)
    if is_frame(X) and X.select_dtypes("number").shape[1] < X.shape[1]:
        chosen = registry.find_class(type(estimator).__name__)
        X = Preprocessor(standardize=estimator is not None and not getattr(chosen, "own_scale", False)).fit_transform(X)
    if estimator is None:
        wide = suits_ridge(X, len(np.unique(np.asarray(y))))
        estimator = RidgeEM() if wide and not params else VolMin()
    given = {"classes": classes, "random_state": random_state}
    known = estimator.get_params(deep=False)
    params |= {name: value for name, value in given.items() if value is not None and name in known}
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    if weights and not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"{type(estimator).__name__} takes no sample_weight in fit; leave the weights out, or choose an estimator "
            "of T that takes them, such as method='volmin'"
        )
    estimator.set_params(**params).fit(X, y, **weights)
    if not hasattr(estimator, "transition_"):
        raise ValueError(f"{method!r} has no transition_ after fit; AnchorPoints(classifier) estimates it")
    return check_transition(estimator.transition_)
