"""Values to JSON and arrays, and back: what a model file may hold, and nothing that only code could restore."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip.core import ClassSums
from unflip.models.checks import check_attributes, check_parameters

Arrays = dict[str, NDArray[Any]]

OMITTED = {"omitted": True}  # stands for what only code could restore, such as the estimator that T came from
MAY_BE_OMITTED = ("transition", "transition_estimator_", "random_state", "checkpoint", "cv")
# These stand in model.json, where people look for them.
READABLE = ("classes_", "transition_", "class_prior_", "transition", "class_prior")
LARGEST_READABLE = 10_000  # numbers


def encode(value: Any, key: str, arrays: Arrays) -> Any:
    """Plain values stay, arrays of numbers move to ``arrays`` under ``key``, the rest becomes a tagged object."""
    name = key.rpartition(".")[2]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return encode(value.item(), key, arrays)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biuf" and name in READABLE and value.size <= LARGEST_READABLE:
            return {"values": value.tolist(), "dtype": value.dtype.name}
        if value.dtype.kind in "biuf":
            while key in arrays:  # a name with a dot in it may spell the path of another
                key += "'"
            arrays[key] = np.ascontiguousarray(value)
            return {"array": key}
        if value.ndim == 1 and all(isinstance(item, str) for item in value):
            return {"strings": value.tolist(), "dtype": "object" if value.dtype == object else "str"}
    if isinstance(value, ClassSums):
        return {"sums": {f.name: encode(getattr(value, f.name), f"{key}.{f.name}", arrays) for f in fields(value)}}
    if isinstance(value, dict) and all(isinstance(item, str) for item in value):
        return {"dict": {item: encode(content, f"{key}.{item}", arrays) for item, content in value.items()}}
    if isinstance(value, list | tuple | range):
        return {"list": [encode(item, f"{key}.{i}", arrays) for i, item in enumerate(value)]}
    if name in MAY_BE_OMITTED:
        return OMITTED
    if hasattr(value, "_fitted_state"):
        return {"model": encode_model(value, key, arrays)}
    kind = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise ValueError(
        f"{name} is of a kind that cannot be saved without code, {kind}; labels must be numbers or strings, and so "
        "must what is noted beside them"
    )


def encode_model(model: Any, key: str, arrays: Arrays) -> dict[str, Any]:
    """Return class, parameters and fitted attributes (None before ``fit``) of a model."""
    prefix = f"{key}." if key else ""
    state = model._fitted_state()  # first: a model may say better than encode why it cannot be saved
    name = type(model).__name__
    content = {
        "class": name,
        "parameters": encode(model.get_params(deep=False), f"{prefix}parameters", arrays),
        "attributes": encode(state or None, f"{prefix}attributes", arrays),
    }
    try:  # as load will, but now, while the model is still in memory
        check_parameters(model)
        if state:
            check_attributes(name, state)
            model._check_fitted_state()
    except ValueError as error:
        raise ValueError(f"this {name} cannot be saved, since load would refuse it: {error}") from error
    return content


def decode(value: Any, arrays: Arrays, build: Callable[[Any, Arrays], Any]) -> Any:
    """Undo :func:`encode`, taking what it needs out of ``arrays``; what was omitted is None.

    ``build`` makes a model of the entry of one.
    """
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise ValueError("a list stands where an entry is expected")
        return value
    (tag, content), *more = value.items()
    if [name for name, _ in more] != (["dtype"] if tag in ("values", "strings") else []):
        raise ValueError(f"an entry {tag!r} with {', '.join(repr(name) for name, _ in more) or 'no dtype'}")
    if tag == "array":
        if content not in arrays:
            raise ValueError(f"the array {content!r} is missing, or used twice")
        return arrays.pop(content)
    if tag == "values":
        dtype = np.dtype(str(value["dtype"]))
        if dtype.kind not in "biuf":
            raise ValueError(f"values are of type {dtype}, which is no number")
        return np.array(content, dtype=dtype)
    if tag == "strings":
        if not all(isinstance(item, str) for item in content):
            raise ValueError("a list of strings holds something else")
        return np.array(content, dtype={"object": object, "str": str}[value["dtype"]])
    if tag == "sums":
        return ClassSums(**{name: decode(item, arrays, build) for name, item in content.items()})
    if tag == "dict":
        return {name: decode(item, arrays, build) for name, item in content.items()}
    if tag == "list":
        return [decode(item, arrays, build) for item in content]
    if tag == "model":
        return build(content, arrays)
    if value == OMITTED:
        return None
    raise ValueError(f"unknown entry {tag!r}")
