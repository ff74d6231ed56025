"""Models out and in: a folder with ``model.json`` and ``weights.safetensors``. Nothing in it is ever executed."""

import json
import os
import shutil
import tempfile
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip import __version__
from unflip.core import ClassSums

FORMAT = 1
# What load may build. A file names a class; it never says where to import it from.
CLASSES = (
    "MCLDCEClassifier",
    "MCLDCEClassifierCV",
    "ULEClassifier",
    "MuSGDClassifier",
    "RankPruningClassifier",
    "LNSIClassifier",
    "SCDClassifier",
    "LICSClassifier",
    "CEGEClassifier",
    "VolMin",
    "NoisyLabelClassifier",
)
FILES = {"model.json", "weights.safetensors"}
OMITTED = {"omitted": True}  # stands for what only code could restore, such as the estimator that T came from
MAY_BE_OMITTED = ("transition", "transition_estimator_", "random_state", "checkpoint", "cv")


class Savable:
    """Gives a classifier ``save(path)``; :func:`load` reads it back."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model to the folder ``path``: ``model.json`` and ``weights.safetensors``, no pickle.

        The folder appears whole or not at all. A folder that holds a saved model and nothing else is replaced; anything
        else is refused. What only code could restore (an estimator given as ``transition``, a generator given as
        ``random_state``, a splitter given as ``cv``) is left out: the fitted T is kept, how it was estimated is not.
        """
        return _write(Path(path).resolve(), self)

    def _fitted_state(self) -> dict[str, Any]:
        """The fitted attributes, as plain values, arrays, ClassSums and containers of them."""
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        return {name: value for name, value in vars(self).items() if name not in parameters}

    def _set_fitted_state(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that ``save`` wrote. It runs no code from the file.

    A file that is truncated, of another format or not one of ours is refused with the reason. What is inside, such as
    the coefficients, is taken as it is.

    Parameters
    ----------
    path : path-like
        The model's folder.
    """
    folder = Path(path)
    if not (folder / "model.json").is_file():
        raise FileNotFoundError(f"{folder} is not a saved model: it has no model.json")
    try:
        document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        version, name = document["format"], document["class"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / 'model.json'} is damaged: {error}") from error
    if version != FORMAT:
        raise ValueError(
            f"{folder} has format {version!r}; this version of unflip ({__version__}) reads format {FORMAT}. "
            "Upgrade unflip, or save the model again"
        )
    if name not in CLASSES:
        raise ValueError(f"{folder} holds a {name!r}, which is none of {', '.join(CLASSES)}")
    try:
        with _safetensors().safe_open(folder / "weights.safetensors", framework="numpy") as file:
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no mapping
    except Exception as error:  # safetensors has its own exceptions, a missing file Python's
        raise ValueError(f"{folder / 'weights.safetensors'} is damaged or missing: {error}") from error
    try:
        parameters = _decode(document["parameters"], arrays)
        attributes = _decode(document["attributes"], arrays)
        model = getattr(import_module("unflip"), name)(**parameters)
        model._set_fitted_state(attributes)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{folder} is damaged or was edited: {error}") from error
    return model


def _write(path: Path, model: Any) -> Path:
    name = type(model).__name__
    if name not in CLASSES:
        raise ValueError(f"{name} cannot be saved; these can: {', '.join(CLASSES)}")
    if path.exists() and not _is_saved_model(path):
        raise FileExistsError(
            f"{path} exists and is not a folder with a saved model and nothing else; choose another path"
        )
    state = model._fitted_state()
    if not state:
        raise ValueError(f"this {name} is not fitted yet; call fit before save")
    arrays: dict[str, NDArray[Any]] = {}
    document = {
        "format": FORMAT,
        "class": name,
        "unflip": __version__,
        "parameters": _encode(model.get_params(deep=False), "parameters", arrays),
        "attributes": _encode(state, "attributes", arrays),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    aside = partial.with_name(partial.name + ".old")
    try:
        partial.chmod(0o755)
        (partial / "model.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        _safetensors().numpy.save_file(arrays, partial / "weights.safetensors")
        if path.exists():
            path.rename(aside)
        try:
            partial.rename(path)
        except OSError:
            if aside.exists():  # the old model is better than none
                aside.rename(path)
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if path.exists():
            shutil.rmtree(aside, ignore_errors=True)
    return path


def _is_saved_model(path: Path) -> bool:
    try:
        document = json.loads((path / "model.json").read_text(encoding="utf-8"))
        return {item.name for item in path.iterdir()} <= FILES and document["class"] in CLASSES
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _encode(value: Any, key: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Plain values stay, arrays of numbers move to ``arrays`` under ``key``, the rest becomes a tagged object."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _encode(value.item(), key, arrays)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biuf":
            arrays[key] = np.ascontiguousarray(value)
            return {"array": key}
        if value.ndim == 1 and all(isinstance(item, str) for item in value):
            return {"strings": value.tolist(), "dtype": "object" if value.dtype == object else "str"}
    if isinstance(value, ClassSums):
        return {"sums": {f.name: _encode(getattr(value, f.name), f"{key}.{f.name}", arrays) for f in fields(value)}}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: _encode(item, f"{key}.{name}", arrays) for name, item in value.items()}}
    if isinstance(value, list | tuple | range):
        return {"list": [_encode(item, f"{key}.{i}", arrays) for i, item in enumerate(value)]}
    name = key.rpartition(".")[2]
    if name in MAY_BE_OMITTED:
        return OMITTED
    kind = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise ValueError(
        f"{name} is of a kind that cannot be saved without code, {kind}; labels must be numbers or strings"
    )


def _decode(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Undo :func:`_encode`; what was omitted is None."""
    if not isinstance(value, dict):
        return value
    (tag, content), *more = value.items()
    if tag == "array":
        return arrays[content]
    if tag == "strings":
        return np.array(content, dtype=object if value["dtype"] == "object" else None)
    if tag == "sums":
        return ClassSums(**{name: _decode(item, arrays) for name, item in content.items()})
    if tag == "dict":
        return {name: _decode(item, arrays) for name, item in content.items()}
    if tag == "list":
        return [_decode(item, arrays) for item in content]
    if value == OMITTED:
        return None
    raise ValueError(f"unknown entry {tag!r}" + (" with more" if more else ""))


def _safetensors() -> ModuleType:
    try:
        import safetensors
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("model files need safetensors: pip install safetensors") from error
    return safetensors
