"""Save and load models: a folder with ``model.json`` and ``weights.safetensors``, nothing of which is executed."""

import hashlib
import json
import os
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from unflip import __version__
from unflip._output import check_place, replaced_folder
from unflip.models.encoding import Arrays, check_classifier, decode_model, encode_model
from unflip.registry import saved_classes

FORMAT = 1
DOCUMENT, WEIGHTS = "model.json", "weights.safetensors"
LIBRARIES = ("numpy", "scipy", "sklearn", "pandas", "torch")  # whose versions a file records
BROKEN = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


class Savable:
    """Gives a classifier ``save(path)``; :func:`load` reads it back."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model to the folder ``path``: ``model.json`` and ``weights.safetensors``, without pickle.

        The folder appears whole or not at all. A folder that holds a saved model and nothing else is replaced; anything
        else is refused. What only code could restore (an estimator given as ``transition``, a generator given as
        ``random_state``, a splitter given as ``cv``) is left out: the fitted T is kept, how it was estimated is not.
        What :func:`load` would refuse, such as weights that are not finite, is refused here already.
        """
        folder, name = Path(path).resolve(), type(self).__name__
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


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model from the folder that ``save`` wrote. No code from the file is run.

    A file that is truncated, edited (checksums tell), of a newer format or not one of ours is refused with the reason.
    So is one whose parts do not fit together: coefficients whose shape is not classes by features, a T whose rows do
    not sum to one, categories that make another number of features, weights that do not give probabilities, or
    parameters, attributes or arrays that the class does not have.
    """
    folder = Path(path)
    document = read_document(folder)
    if document["class"] not in saved_classes():
        raise ValueError(f"{folder} holds a {document['class']!r}, which is not one of {', '.join(saved_classes())}")
    if document.get("checksum") != checksum(document):
        raise ValueError(
            f"{folder / DOCUMENT} is damaged or was edited: its checksum differs. To change a model, load it, set "
            "what you want and save it again"
        )
    arrays = _read_weights(folder / WEIGHTS, document.get("weights_sha256"))
    try:
        model = decode_model(document, arrays)
        if not model._fitted_state():
            raise ValueError("it has no fitted attributes")
        if arrays:
            raise ValueError(f"the weights hold {', '.join(map(repr, [*arrays][:5]))}, which the model does not have")
    except BROKEN as error:
        raise ValueError(f"{folder} is damaged or was edited: {error}") from error
    return model


def read_document(folder: Path) -> dict[str, Any]:
    """Return ``model.json`` of a saved model if its format is the one that this version reads."""
    path = folder / DOCUMENT
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a saved model: it has no model.json")
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version, name, versions = document["format"], document["class"], document.get("versions", {})
        if not isinstance(name, str) or not isinstance(versions, dict):
            raise ValueError(f"its class is {name!r} and its versions are {versions!r}")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
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
    check_replaceable(Path(path).resolve())
    check_place(path)
    _safetensors()


def check_replaceable(path: Path) -> None:
    """Refuse a path that holds anything but a saved model or an empty folder."""
    try:
        there = {item.name for item in path.iterdir()}
        ours = there <= {DOCUMENT, WEIGHTS}
        free = not there or (ours and json.loads((path / DOCUMENT).read_bytes())["class"] in saved_classes())
    except (OSError, ValueError, KeyError, TypeError):
        free = not path.exists()
    if not free:
        raise FileExistsError(f"{path} exists and is not a saved model and nothing else; choose another path")


def _read_weights(path: Path, digest: Any) -> Arrays:
    safetensors = _safetensors()
    try:
        with path.open("rb") as file:
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
        raise ModuleNotFoundError("model files need safetensors: pip install safetensors") from error
    return safetensors
