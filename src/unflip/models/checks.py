"""What a saved model must be: parameters and attributes that its class has, of their kind, and fitting together."""

import warnings
from math import prod
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from unflip._validation import check_classes, check_prior, check_transition
from unflip.core import ClassSums

# Every fitted attribute that a file may hold, and its kind; a number is that of the dimensions of an array of numbers.
# What is an object here is checked against the classes and features below, or by the class itself.
ATTRIBUTES: dict[str, Any] = {
    "alpha_": Real,
    "alphas_": 1,
    "bytes_": bool,
    "categories_": dict,
    "centroid_": 2,
    "class_prior_": 1,
    "classes_": np.ndarray,
    "classifier_": object,
    "classifiers_": list,
    "coef_": 2,
    "coefficient_": 1,
    "component_": 1,
    "feature_names_in_": np.ndarray,
    "history_": list,
    "input_shape_": (list, tuple),
    "intercept_": 1,
    "loss_": Real,
    "mean_": 1,
    "mean_operator_": 2,
    "median_": 1,
    "metadata_": dict,
    "metrics_": dict,
    "n_features_in_": Integral,
    "n_iter_": Integral,
    "n_rounds_": Integral,
    "noise_": dict,
    "noise_rates_": 2,
    "numbers_": list,
    "outlier_score_": 1,
    "preprocessor_": object,
    "residuals_": 1,
    "risk_": (Real, np.ndarray),
    "scale_": 1,
    "scaling_": str,
    "smoothing_": 1,
    "sums_": ClassSums,
    "transition_": object,
    "transition_estimator_": object,
    "unused_": dict,
    "weights": dict,  # of a network
}
PLAIN = {int: Integral, float: Real, bool: (bool, Integral), str: str, dict: dict, NoneType: NoneType}

CALLED = {
    Integral: "a whole number",
    int: "a whole number",
    Real: "a number",
    float: "a number",
    bool: "a truth value",
    str: "a string",
    list: "a list",
    dict: "a dictionary",
    np.ndarray: "an array",
    NoneType: "None",
}


def check_parameters(model: Any) -> None:
    """Refuse parameters that are not of the kind that the constructor names, or that ``fit`` would refuse."""
    name = type(model).__name__
    for item, hint in get_type_hints(type(model).__init__).items():
        value = getattr(model, item, None)
        if get_origin(hint) is Literal:
            right = isinstance(value, str) and value in get_args(hint)
        else:
            choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            kinds = [get_origin(choice) or choice for choice in choices]
            right = any(kind not in PLAIN or _is(value, PLAIN[kind]) for kind in kinds)
        if item != "return" and not right:
            raise ValueError(f"the parameter {item} of {name} must be {_called(hint)}; got {value!r}")
    if hasattr(model, "_check_parameters"):
        model._check_parameters()


def check_attributes(name: str, attributes: Any) -> None:
    """Refuse fitted attributes that no class has, so that none takes the place of a method, and wrong kinds of them."""
    if not isinstance(attributes, dict):
        raise ValueError(f"the fitted attributes of {name} are no dictionary")
    for item, value in attributes.items():
        if item not in ATTRIBUTES:
            raise ValueError(f"{name} has no fitted attribute {item!r}")
        kind = ATTRIBUTES[item]
        if isinstance(kind, int):
            right = isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim == kind
        else:
            right = _is(value, kind)
        if not right:
            wanted = f"an array of numbers with {kind} dimensions" if isinstance(kind, int) else _called(kind)
            raise ValueError(f"{item} of {name} must be {wanted}; got {_called(type(value))}")


def check_classifier(model: Any) -> None:
    """Refuse a fitted classifier whose parts do not fit together, or whose numbers give no probabilities."""
    state = vars(model)
    classes = check_classes(state["classes_"])
    network = "input_shape_" in state  # which takes images, too, and these have no number of features
    shape = tuple(state["input_shape_"]) if network else (state["n_features_in_"],)
    c, d = len(classes), prod(shape)
    if c < 2 or not all(_is(size, Integral) and size >= 1 for size in shape):
        raise ValueError(f"a classifier of {c} classes and {' x '.join(map(str, shape))} features")
    shapes = {
        "coef_": (c, d),
        "intercept_": (c,),
        "centroid_": (d, c),
        "mean_operator_": (c, d),
        "noise_rates_": (c, 2),
        "feature_names_in_": (d,),
    }
    for name, expected in shapes.items():
        if name in state and np.shape(state[name]) != expected:
            found = np.shape(state[name])
            raise ValueError(f"{name} has shape {found}; {c} classes and {d} features make it {expected}")
    if "transition_" in state and not (network and state["transition_"] is None):  # some networks need no T
        check_transition(state["transition_"], c)
    if "class_prior_" in state:
        check_prior(state["class_prior_"], c)
    if "sums_" in state:
        sums: ClassSums = state["sums_"]
        found = (sums.counts.shape, sums.mean.shape, sums.centred_sums.shape, sums.scatter.shape)
        if found != ((c,), (d,), (c, d), (d, d)):
            raise ValueError(f"the sums have shapes {found}, not those of {c} classes and {d} features")
        if not (_is(sums.rounding, Real) and 0 < sums.rounding < 1):
            raise ValueError(f"the rounding of the sums must be a number between 0 and 1; got {sums.rounding!r}")
    if network:
        _check_network(model, d)
    sample = np.zeros((1, *shape), dtype=np.uint8 if state.get("bytes_") else np.float32 if network else np.float64)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # such as that a sample of zeros has no feature names
        proba = model.predict_proba(sample)
    if proba.shape != (1, c) or not np.isfinite(proba).all():
        raise ValueError(f"it gives {proba.tolist()} as the probabilities of {c} classes")


def _check_network(model: Any, n_features: int) -> None:
    scales = {np.shape(model.mean_), np.shape(model.scale_)}
    if not scales <= {(1,), (n_features,)}:
        raise ValueError(f"the scale of the features has shapes {scales}; there are {n_features} features")
    if not (np.isfinite(model.mean_).all() and np.isfinite(model.scale_).all() and (model.scale_ > 0).all()):
        raise ValueError("mean_ and scale_ must be finite, and scale_ positive")
    for name, values in model._fitted_state()["weights"].items():  # torch has checked their shapes against the layers
        if not np.isfinite(values).all():
            raise ValueError(f"the weights {name!r} hold NaN or infinity, as after a training that diverged")


def _is(value: Any, kind: Any) -> bool:
    """As isinstance, but a truth value is a number only where truth values may be."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, bool | np.bool_):
        return bool in kinds or object in kinds
    return isinstance(value, kinds)


def _called(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    choices = kind if isinstance(kind, tuple) else get_args(kind) if isinstance(kind, UnionType) else ()
    if choices:
        return " or ".join(map(_called, choices))
    return CALLED.get(kind, getattr(kind, "__name__", str(kind)))
