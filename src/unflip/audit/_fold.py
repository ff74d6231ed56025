"""A fold of the audit: which classifier is fitted, with which T, and what that says of P(clean = k | x)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from unflip import registry
from unflip._base import resolve_transition
from unflip._validation import FloatArray, IntArray, check_transition
from unflip.transition import VolMin

EVEN = 0.01  # EM leaves a class that starts at zero there
EM_STEPS = 8  # further ones bring p to the edge of the simplex, where it forgets which of two is likelier


def check_classifier(classifier: Any, X: Any) -> Any:
    if classifier is None:
        if getattr(X, "ndim", 2) > 2:
            raise ValueError(
                f"the default classifier takes a table, but X has shape {X.shape}. Give X.reshape(len(X), -1), or a "
                "network: classifier=NoisyLabelClassifier(network='cnn6')"
            )
        return default_classifier()
    name = classifier.__name__ if isinstance(classifier, type) else type(classifier).__name__
    if isinstance(classifier, type) or not (hasattr(classifier, "fit") and hasattr(classifier, "get_params")):
        raise ValueError(f"classifier must be a scikit-learn classifier, such as VolMin(), or None; got {classifier!r}")
    if not hasattr(classifier, "predict_proba"):
        raise ValueError(
            f"classifier must have predict_proba, because scores are probabilities; {name} has none. Wrap it: "
            f"sklearn.calibration.CalibratedClassifierCV({name}(...))"
        )
    return classifier


def default_classifier() -> VolMin:
    return VolMin(scaling="auto")


def unfitted(classifier: Any, classes: NDArray[Any], transition: Any) -> Any:
    """A clone that knows all classes, and T where it was given none of its own."""
    model = clone(classifier)
    learner, _ = _learner(model)
    params = learner.get_params(deep=False)
    wanted = {"classes": classes, "transition": transition}
    learner.set_params(**{k: v for k, v in wanted.items() if v is not None and k in params and params[k] is None})
    return model


def seeded(estimator: Any, seed: int | None) -> Any:
    """The estimator, with a seed wherever it has none of its own."""
    if seed is not None:
        unset = [k for k, v in estimator.get_params().items() if v is None and k.split("__")[-1] == "random_state"]
        estimator.set_params(**dict.fromkeys(unset, seed))
    return estimator


def transition_of(
    model: Any, transition: Any, X: Any, codes: IntArray, classes: NDArray[Any]
) -> tuple[FloatArray, bool]:
    """T of a fold, and whether it is an estimate.

    The matrix that was given, else what the classifier used, else estimated from what the classifier saw.
    """
    learner, features = _learner(model, X)
    own = getattr(learner, "transition_", None)
    shared = hasattr(transition, "fit") and getattr(learner, "transition", None) is transition
    if own is not None and (transition is None or shared):
        # A classifier that was given a matrix has no estimator; VolMin and its like are estimators themselves.
        return check_transition(own, len(classes)), getattr(learner, "transition_estimator_", learner) is not None
    try:
        T, estimator = resolve_transition(transition, default_classifier(), features, codes, classes, None)
    except (TypeError, ValueError) as error:
        if transition is not None:
            raise
        raise ValueError(
            f"VolMin cannot estimate T from the X that {type(learner).__name__} was fitted to ({error}). Give T as "
            "transition, or a Pipeline whose last step receives a table of numbers"
        ) from error
    return T, estimator is not None


def predicted(model: Any, X: Any, counts: IntArray, classes: NDArray[Any]) -> tuple[FloatArray, bool]:
    """What a fitted model says of X, shape (n_samples, n_classes), and whether that is of noisy labels.

    ``counts`` are those of the labels that the model has seen.
    """
    proba = np.asarray(model.predict_proba(X), dtype=np.float64)
    p = np.zeros((len(proba), len(classes)))
    p[:, np.searchsorted(classes, model.classes_)] = proba  # a fold may lack a class
    learner, _ = _learner(model)
    method = getattr(learner, "method", None)
    entry = registry.find_class(type(learner).__name__)
    if entry is not None and method in registry.names("deep"):
        entry = registry.find(method, "deep")
    robust = entry is not None and entry.robust
    # NoisyLabelClassifier keeps the T it was given also where cross-entropy learns the noisy posterior.
    if robust or (getattr(learner, "transition_", None) is not None and method != "ce"):
        return p, False
    n = counts.sum()
    return (n * p + counts / n) / (n + 1), True


def explanation(q: FloatArray, T: FloatArray, prior: FloatArray) -> FloatArray:
    """The p that makes sum_j q_j log (p T)_j large for each row of q, by EM from the prior."""
    p = np.tile(EVEN / len(T) + (1 - EVEN) * prior, (len(q), 1))
    for _ in range(EM_STEPS):
        explained = p @ T
        p *= np.divide(q, explained, out=np.zeros_like(q), where=explained > 0) @ T.T
    return p / p.sum(axis=1, keepdims=True)


def history_of(model: Any) -> list[dict[str, Any]]:
    """The training of a network, epoch by epoch; of others an empty list."""
    return list(getattr(_learner(model)[0], "history_", []))


def _learner(model: Any, X: Any = None) -> tuple[Any, Any]:
    """The classifier inside pipelines and searches; and X, if given, as it reaches that classifier."""
    while True:
        if isinstance(model, Pipeline):
            if X is not None and len(model) > 1:
                X = model[:-1].transform(X)
            model = model[-1]
        elif hasattr(model, "refit") and hasattr(model, "estimator"):
            model = getattr(model, "best_estimator_", model.estimator)
        else:
            return model, X
