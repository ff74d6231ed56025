"""Save and load models: a folder with ``model.json`` and ``weights.safetensors``, nothing of which is executed.

The second half of the file turns models to JSON and arrays, and back: what a file may hold, and the checks that its
parts fit together.
"""

import hashlib
import json
import os
import platform
import sys
import warnings
from dataclasses import fields
from inspect import get_annotations
from math import prod
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from unflip import __version__, registry
from unflip._input import check_file, read_json
from unflip._output import MODEL, check_place, recover, replaced_folder
from unflip._validation import check_classes, check_prior, check_transition
from unflip.core import ClassSums
from unflip.registry import saved_classes

Arrays = dict[str, NDArray[Any]]

FORMAT = 1
TRIES = 20
DOCUMENT, WEIGHTS = MODEL
LIBRARIES = ("numpy", "scipy", "sklearn", "pandas", "torch")  # whose versions a file records
BROKEN = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


class Savable:
    """Gives a classifier ``save(path)``; :func:`load` reads it back."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model to the folder ``path``: ``model.json`` and ``weights.safetensors``, without pickle.

        The folder appears whole or not at all. A folder that holds a saved model and nothing else is replaced; anything
        else is refused. What only code could restore (an estimator given as ``transition``, a generator given as
        ``random_state``, a splitter given as ``cv``) is left out: the fitted T is kept, how it was estimated is not.
        Of a network of your own, the class is named and the weights are kept. What :func:`load` would refuse, such as
        weights that are not finite, is refused here already.
        """
        folder, name = Path(os.path.realpath(path)), type(self).__name__
        if name not in saved_classes():
            raise ValueError(f"a {name} cannot be saved; the classes that can are {', '.join(saved_classes())}")
        check_replaceable(folder)
        arrays: Arrays = {}
        content = encode_model(self, "", arrays)
        if content["attributes"] is None:
            raise ValueError(f"this {name} is not fitted yet; call fit before save")
        loaded = {library: sys.modules[library].__version__ for library in LIBRARIES if library in sys.modules}
        versions = {"unflip": __version__, "python": platform.python_version(), **loaded}
        with replaced_folder(folder) as partial:
            _safetensors().numpy.save_file(arrays, partial / WEIGHTS)
            digest = hashlib.sha256((partial / WEIGHTS).read_bytes()).hexdigest()
            document = {"format": FORMAT, "versions": versions, "weights_sha256": digest, **content}
            document["checksum"] = checksum(document)
            (partial / DOCUMENT).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        return folder

    def _fitted_state(self) -> dict[str, Any]:
        """Return the fitted attributes as plain values, arrays, ClassSums, models and containers of them."""
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        return {name: value for name, value in vars(self).items() if name not in parameters}

    def _set_fitted_state(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def _check_fitted_state(self) -> None:
        """Raise a ValueError if the parts of the state do not fit together; ``save`` and :func:`load` call it."""
        check_classifier(self)


def load(path: str | os.PathLike[str], *, network: Any = None) -> Any:
    """Read a model from the folder that ``save`` wrote. No code from the file is run.

    ``network`` is for a model whose network is your own class: an object of this class, or a function that makes one.
    The file holds its weights and the name of the class, but not its code.

    A file that is truncated, edited (checksums tell), of a newer format or not one of ours is refused with the reason.
    So is one whose parts do not fit together: coefficients whose shape is not classes by features, a T whose rows do
    not sum to one, categories that make another number of features, weights that do not give probabilities, or
    parameters, attributes or arrays that the class does not have.
    """
    folder = Path(path)
    recover(folder)
    for _ in range(TRIES):  # the folder may be replaced, whole, while its files are read
        before = _identity(folder)
        try:
            return _load(folder, network)
        except (OSError, ValueError):
            if _identity(folder) == before:
                raise
    return _load(folder, network)


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return what tells a folder from another one that has its name later."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _load(folder: Path, network: Any) -> Any:
    document = read_document(folder)
    if document["class"] not in saved_classes():
        raise ValueError(f"{folder} holds a {document['class']!r}, which is not one of {', '.join(saved_classes())}")
    if document.get("checksum") != checksum(document):
        raise ValueError(
            f"{folder / DOCUMENT} is damaged or was edited: its checksum differs. To change a model, load it, set "
            "what you want and save it again"
        )
    _check_given_network(folder, _found(document, "network_class_"), network)
    arrays = _read_weights(folder / WEIGHTS, document.get("weights_sha256"))
    try:
        model = decode_model(document, arrays, network)
        if not model._fitted_state():
            raise ValueError("it has no fitted attributes")
        if arrays:
            raise ValueError(f"the weights hold {', '.join(map(repr, [*arrays][:5]))}, which the model does not have")
    except BROKEN as error:
        fault = "is damaged or was edited" if network is None else "does not fit the network that was given"
        raise ValueError(f"{folder} {fault}: {error}") from error
    return model


def _check_given_network(folder: Path, named: Any, network: Any) -> None:
    """Refuse a network that is missing, of another class than the file says, or given for a model without one."""
    if not isinstance(named, str):
        if network is not None:
            raise ValueError(f"{folder} needs no network; leave network={type(network).__name__} out")
        return
    name = named.rpartition(".")[2]
    if network is None:
        raise ValueError(
            f"{folder} has a network of the class {named}, whose code is not in the file; pass an object of this "
            f"class, with any weights: load({str(folder)!r}, network={name}(...))"
        )
    made = network if hasattr(network, "state_dict") else network()
    if class_name(made).rpartition(".")[2] != name:
        raise ValueError(f"{folder} has a network of the class {named}, but a {class_name(made)} was given")


def class_name(value: Any) -> str:
    """Return where the class of an object is defined, and its name."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def read_document(folder: Path) -> dict[str, Any]:
    """Return ``model.json`` of a saved model if its format is the one that this version reads."""
    path = folder / DOCUMENT
    if not os.path.lexists(path):
        raise FileNotFoundError(f"{folder} is not a saved model: it has no model.json")
    check_file(path, folder)
    try:
        document: dict[str, Any] = read_json(path)
        version, name, versions = document["format"], document["class"], document.get("versions", {})
        if not isinstance(name, str) or not isinstance(versions, dict):
            raise ValueError(f"its class is {name!r} and its versions are {versions!r}")
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if type(version) is not int or version != FORMAT:  # True == 1 == 1.0
        reads = f"unflip {__version__} reads format {FORMAT}"
        raise ValueError(f"{folder} has format {version!r}, but {reads}. Upgrade unflip, or save the model again")
    return document


def checksum(document: dict[str, Any]) -> str:
    """Return the SHA-256 of everything in a ``model.json`` except its own ``checksum``, whatever its layout."""
    rest = {name: value for name, value in document.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_model_folder(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work is done, a folder that a model cannot be saved to."""
    check_replaceable(Path(os.path.realpath(path)))
    check_place(path)
    _safetensors()


def check_replaceable(path: Path) -> None:
    """Refuse a path that holds anything but a saved model or an empty folder."""
    try:
        there = {item.name for item in path.iterdir()}
        ours = there <= {DOCUMENT, WEIGHTS} and all(check_file(path / name, path) for name in there)
        free = not there or (ours and read_json(path / DOCUMENT)["class"] in saved_classes())
    except (OSError, ValueError, KeyError, TypeError):
        free = not path.exists()
    if not free:
        raise FileExistsError(f"{path} exists and is not a saved model and nothing else; choose another path")


OTHER = {"file": "another file of data", "label": "another label", "classes": "other classes"}


def check_same_model(path: str | os.PathLike[str], data: str, label: Any, classes: Any = None) -> None:
    """Refuse to replace a saved model that was fitted to other data, another label or other classes.

    ``data`` and ``label`` are compared with what ``unflip fit`` wrote into ``metadata_``; ``classes`` may be unknown.
    """
    folder = Path(path)
    if not os.path.lexists(folder / DOCUMENT):
        return
    document = read_document(folder)
    metadata = (_found(document, "metadata_") or {}).get("dict", {})
    known = _found(document, "classes_") or {}
    earlier = {"file": metadata.get("data"), "label": metadata.get("label")}
    now: dict[str, Any] = {"file": data, "label": label}
    if classes is not None:
        earlier["classes"] = _listed(known.get("values", known.get("strings", [])))
        now["classes"] = _listed(np.asarray(classes).tolist())
    for what, value in now.items():
        if value is not None and earlier[what] != value:
            raise FileExistsError(
                f"{folder} holds a model with {OTHER[what]}: {earlier[what] or 'unknown'!s:.100}, not {value!s:.100}. "
                "Choose another folder, or replace the model with --force"
            )


def _listed(classes: list[Any]) -> str:
    return ", ".join(sorted({str(name) for name in classes if name is not None and name == name}))


def _found(content: Any, name: str) -> Any:
    """Return the first entry of this name anywhere in ``model.json``, or None."""
    if isinstance(content, dict):
        if content.get(name) is not None:
            return content[name]
        content = [*content.values()]
    items = content if isinstance(content, list) else []
    return next((found for item in items if (found := _found(item, name)) is not None), None)


def _read_weights(path: Path, digest: Any) -> Arrays:
    safetensors = _safetensors()
    try:
        with check_file(path, path.parent).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != digest:
            raise ValueError("its checksum is not the one that model.json was written with")
        with safetensors.safe_open(path, framework="numpy") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    except Exception as error:  # safetensors has its own exceptions, a missing file Python's
        raise ValueError(f"{path} is damaged or missing: {error}") from error


def _safetensors() -> ModuleType:
    try:
        import safetensors
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("saving and loading models needs safetensors: pip install 'unflip[data]'") from error
    return safetensors


OMITTED = {"omitted": True}  # stands for what only code could restore, such as the estimator that T came from
MAY_BE_OMITTED = (
    "transition",
    "transition_estimator_",
    "random_state",
    "checkpoint",
    "cv",
    "estimator",
    "models",
    "augment",
    "network",
)
# These stay in model.json, where people look for them.
READABLE = ("classes_", "transition_", "class_prior_", "transition", "class_prior")
LARGEST_READABLE = 10_000  # numbers
LARGEST_STRINGS = 2**28  # bytes of an array of strings

# The fitted attributes that a file may hold, by kind; 1 and 2 are the dimensions of an array of numbers. What is an
# object here is checked against the classes and features, or by the class itself. A class adds others by annotating
# them: ``toy_: FloatArray`` in its body.
KINDS: dict[Any, str] = {
    bool: "bytes_",
    Integral: "n_features_in_ n_iter_ n_rounds_",
    Real: "alpha_ loss_",
    str: "scaling_",
    dict: "categories_ metadata_ metrics_ noise_ unused_ weights",
    list: "classifiers_ history_ numbers_",
    (list, tuple): "input_shape_",
    np.ndarray: "classes_ feature_names_in_",
    1: "alphas_ class_prior_ coefficient_ component_ intercept_ mean_ median_ outlier_score_ residuals_ scale_ "
    "smoothing_",
    2: "centroid_ coef_ mean_operator_ noise_rates_ transition_std_",
    (Real, np.ndarray): "risk_",
    ClassSums: "sums_",
    object: "classifier_ preprocessor_ transition_ transition_estimator_",
}
ATTRIBUTES = {name: kind for kind, names in KINDS.items() for name in names.split()}
PLAIN = {int: Integral, float: Real, bool: (bool, Integral), str: str, dict: dict, NoneType: NoneType}
CALLED: dict[Any, str] = {Integral: "a whole number", int: "a whole number", Real: "a number", float: "a number"}
CALLED |= {bool: "a truth value", str: "a string", list: "a list", dict: "a dictionary", np.ndarray: "an array"}
CALLED[NoneType] = "None"


def encode_model(model: Any, key: str, arrays: Arrays) -> dict[str, Any]:
    """Return the class, parameters and fitted attributes (None before ``fit``) of a model."""
    prefix = f"{key}." if key else ""
    state = model._fitted_state()  # first, because a model may explain better than encode why it cannot be saved
    name = type(model).__name__
    content = {
        "class": name,
        "parameters": _encode(model.get_params(deep=False), f"{prefix}parameters", arrays),
        "attributes": _encode(state or None, f"{prefix}attributes", arrays),
    }
    try:  # as load will, but now, while the model is still in memory
        _check_parameters(model)
        if state:
            _check_attributes(model, state)
            model._check_fitted_state()
    except ValueError as error:
        raise ValueError(f"this {name} cannot be saved because load would refuse it: {error}") from error
    return content


def decode_model(content: Any, arrays: Arrays, network: Any = None) -> Any:
    """Return the model that :func:`encode_model` wrote, after checking that its parts fit together.

    ``network`` takes the place of a network that was omitted, being a class of the user's.
    """
    name = content["class"]
    if name not in registry.saved_classes():
        raise ValueError(f"it holds a {name!r}, which is not one of {', '.join(registry.saved_classes())}")
    parameters, attributes = (_decode(content[part], arrays, network) for part in ("parameters", "attributes"))
    if "network" in parameters and parameters["network"] is None:
        parameters["network"] = network
    model = registry.make(name, **parameters)
    _check_parameters(model)
    if attributes is not None:
        _check_attributes(model, attributes)
        model._set_fitted_state(attributes)
        model._check_fitted_state()
    return model


def _encode(value: Any, key: str, arrays: Arrays) -> Any:
    """Keep plain values, move arrays of numbers to ``arrays`` under ``key``, and turn the rest into tagged objects."""
    name = key.rpartition(".")[2]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _encode(value.item(), key, arrays)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biuf" and name in READABLE and value.size <= LARGEST_READABLE:
            return {"values": value.tolist(), "dtype": value.dtype.name}
        if value.dtype.kind in "biuf":
            while key in arrays:  # a name that contains a dot may spell the path of another one
                key += "'"
            arrays[key] = np.ascontiguousarray(value)
            return {"array": key}
        if value.ndim == 1 and all(isinstance(item, str) for item in value):
            return {"strings": value.tolist(), "dtype": "object" if value.dtype == object else "str"}
    if isinstance(value, ClassSums):
        return {"sums": {f.name: _encode(getattr(value, f.name), f"{key}.{f.name}", arrays) for f in fields(value)}}
    if isinstance(value, dict) and all(isinstance(item, str) for item in value):
        return {"dict": {item: _encode(content, f"{key}.{item}", arrays) for item, content in value.items()}}
    if isinstance(value, list | tuple | range) and name != "models":
        return {"list": [_encode(item, f"{key}.{i}", arrays) for i, item in enumerate(value)]}
    if name in MAY_BE_OMITTED:
        return OMITTED
    if hasattr(value, "_fitted_state"):
        return {"model": encode_model(value, key, arrays)}
    kind = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise ValueError(f"{name} cannot be saved without code: it is of type {kind}; use numbers or strings instead")


def _decode(value: Any, arrays: Arrays, network: Any) -> Any:
    """Undo :func:`_encode`, taking what it needs out of ``arrays``; what was omitted becomes None."""
    if isinstance(value, list):
        raise ValueError("there is a list where an entry is expected")
    if not isinstance(value, dict):
        return value
    (tag, content), *more = value.items()
    if [name for name, _ in more] != (["dtype"] if tag in ("values", "strings") else []):
        raise ValueError(f"there is an entry {tag!r} with {', '.join(repr(name) for name, _ in more) or 'no dtype'}")
    if tag == "array":
        if content not in arrays:
            raise ValueError(f"the array {content!r} is missing or used twice")
        return arrays.pop(content)
    if tag == "values":
        dtype = np.dtype(str(value["dtype"]))
        if dtype.kind not in "biuf":
            raise ValueError(f"values are of type {dtype}, which is not a number")
        return np.array(content, dtype=dtype)
    if tag == "strings":
        if not all(isinstance(item, str) for item in content):
            raise ValueError("a list of strings holds something else")
        size = 4 * len(content) * max(map(len, content), default=0)  # each takes as much memory as the longest
        if value["dtype"] == "str" and size > LARGEST_STRINGS:
            raise ValueError(f"a list of strings would take {size:,} bytes of memory")
        return np.array(content, dtype={"object": object, "str": str}[value["dtype"]])
    if tag == "sums":
        return ClassSums(**{name: _decode(item, arrays, network) for name, item in content.items()})
    if tag == "dict":
        return {name: _decode(item, arrays, network) for name, item in content.items()}
    if tag == "list":
        return [_decode(item, arrays, network) for item in content]
    if tag == "model":
        return decode_model(content, arrays, network)
    if value == OMITTED:
        return None
    raise ValueError(f"unknown entry {tag!r}")


def check_classifier(model: Any) -> None:
    """Refuse a fitted classifier whose parts do not fit together, or whose numbers do not give probabilities."""
    state = vars(model)
    classes = check_classes(state["classes_"])
    network = "input_shape_" in state  # which may take images, and these do not have a number of features
    shape = tuple(state["input_shape_"]) if network else (state["n_features_in_"],)
    c, d = len(classes), prod(shape)
    if c < 2 or not all(_is(size, Integral) and size >= 1 for size in shape):
        raise ValueError(f"it is a classifier of {c} classes and {' x '.join(map(str, shape))} features")
    shapes: dict[str, tuple[int, ...]] = {"coef_": (c, d), "intercept_": (c,), "centroid_": (d, c)}
    shapes |= {"mean_operator_": (c, d), "noise_rates_": (c, 2), "feature_names_in_": (d,)}
    for name, expected in shapes.items():
        if name in state and (found := np.shape(state[name])) != expected:
            raise ValueError(f"{name} has shape {found}; {c} classes and {d} features need {expected}")
    if "transition_" in state and not (network and state["transition_"] is None):  # some networks need no T
        check_transition(state["transition_"], c)
    if "class_prior_" in state:
        check_prior(state["class_prior_"], c)
    if "sums_" in state:
        sums: ClassSums = state["sums_"]
        found = (sums.counts.shape, sums.mean.shape, sums.centred_sums.shape, sums.scatter.shape)
        if found != ((c,), (d,), (c, d), (d, d)):
            raise ValueError(f"the sums have shapes {found}, which are not those of {c} classes and {d} features")
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
        raise ValueError("mean_ and scale_ must be finite, and scale_ must be positive")
    for name, values in model._fitted_state()["weights"].items():  # torch has checked their shapes against the layers
        if not np.isfinite(values).all():
            raise ValueError(f"the weights {name!r} contain NaN or infinity, as after a training that diverged")


def _check_parameters(model: Any) -> None:
    """Refuse parameters that do not have the type that the constructor declares, or that ``fit`` would refuse."""
    for item, hint in get_type_hints(type(model).__init__).items():
        value = getattr(model, item, None)
        if get_origin(hint) is Literal:
            right = isinstance(value, str) and value in get_args(hint)
        else:
            choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            kinds = [get_origin(choice) or choice for choice in choices]
            right = any(kind not in PLAIN or _is(value, PLAIN[kind]) for kind in kinds)
        if item != "return" and not right:
            raise ValueError(f"the parameter {item} of {type(model).__name__} must be {_called(hint)}; got {value!r}")
    if hasattr(model, "_check_parameters"):
        model._check_parameters()


def _check_attributes(model: Any, attributes: Any) -> None:
    """Refuse fitted attributes of the wrong kind, or that the class does not have, so that none replaces a method."""
    name = type(model).__name__
    if not isinstance(attributes, dict):
        raise ValueError(f"the fitted attributes of {name} are not a dictionary")
    own = {item for kind in type(model).__mro__ for item in get_annotations(kind) if item.endswith("_")}
    for item, value in attributes.items():
        if item not in ATTRIBUTES and item not in own:
            raise ValueError(f"{name} has no fitted attribute {item!r}")
        kind = ATTRIBUTES.get(item, object)
        if not _is(value, kind):
            raise ValueError(f"{item} of {name} must be {_called(kind)}; got {_called(type(value))}")


def _is(value: Any, kind: Any) -> bool:
    """Like isinstance, except that a truth value is a number only where truth values are allowed; see KINDS."""
    if isinstance(kind, int):
        return isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim == kind
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, bool | np.bool_):
        return bool in kinds or object in kinds
    return isinstance(value, kinds)


def _called(kind: Any) -> str:
    if isinstance(kind, int):
        return f"an array of numbers with {kind} dimensions"
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    choices = kind if isinstance(kind, tuple) else get_args(kind) if isinstance(kind, UnionType) else ()
    if choices:
        return " or ".join(map(_called, choices))
    return CALLED.get(kind, getattr(kind, "__name__", str(kind)))
