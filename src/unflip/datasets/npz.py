"""Readers of ``.npz`` files: any features, and the labels of CIFAR-10N. Pickled objects in them are refused."""

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import check_codes, check_same_length
from unflip.datasets.cifar10 import read_cifar10
from unflip.datasets.dataset import Arrays, Codes, Dataset, Float32Array

DIGITS = tuple("0123456789")


def read_features(path: Path) -> Dataset:
    """Read any ``.npz`` with ``x_train``, ``x_test``, ``y_test``, and ``y_train`` (clean) or ``y_noisy`` or both.

    Features become float32 as they are, without scaling. Labels are integers or strings of one kind; their sorted
    values make the codes and the class names. With ``class_names`` in the file they are codes already.
    """
    found = _arrays(path, ("x_train", "x_test", "y_test"), ("y_train", "y_noisy", "class_names"))
    if "y_train" not in found and "y_noisy" not in found:
        raise ValueError(f"{path} has neither y_train (clean labels) nor y_noisy; one of them is needed")
    x_train, x_test = (_features(path, key, found[key]) for key in ("x_train", "x_test"))
    if x_train.shape[1:] != x_test.shape[1:]:
        raise ValueError(
            f"{path}: x_train has shape {x_train.shape} and x_test {x_test.shape}; all but the first number must agree"
        )
    labels: dict[str, NDArray[Any]] = {key: found[key] for key in ("y_train", "y_noisy", "y_test") if key in found}
    try:
        check_same_length(x_train=x_train, **{key: y for key, y in labels.items() if key != "y_test"})
        check_same_length(x_test=x_test, y_test=labels["y_test"])
        codes, class_names = _codes(labels, found.get("class_names"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return Dataset(path.stem, x_train, codes.get("y_train"), x_test, codes["y_test"], codes.get("y_noisy"), class_names)


def read_cifar10_features(path: Path) -> Arrays:
    """Read the features of CIFAR-10: those of any file, where the labels are 0 .. 9."""
    data = read_features(path)
    if data.class_names != DIGITS or data.y_train is None:
        raise ValueError(f"{path}: CIFAR-10's y_train and y_test are 0 .. 9, got {', '.join(data.class_names[:12])}")
    return Arrays(data.x_train, data.y_train, data.x_test, data.y_test)


def read_cifar10n(features: Path, labels: Path, key: str) -> Arrays:
    """Read CIFAR-10N with the features of the images; ``key`` names the human labels in the label file."""
    return _with_human_labels(read_cifar10_features(features), features, labels, key)


def read_cifar10n_images(*paths: Path, key: str) -> Arrays:
    """Read CIFAR-10N with the images: the batches of CIFAR-10, then the label file."""
    *batches, labels = paths
    return _with_human_labels(read_cifar10(*batches), batches[0], labels, key)


def _with_human_labels(images: Arrays, source: Path, path: Path, key: str) -> Arrays:
    found = _arrays(path, ("clean_label", key))
    try:
        clean, noisy = (check_codes(found[name], 10).astype(np.int64) for name in ("clean_label", key))
        check_same_length(x_train=images.x_train, clean_label=clean, **{key: noisy})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if images.y_train is not None and (clean != images.y_train).any():
        at = int(np.argmax(clean != images.y_train))
        raise ValueError(
            f"{path}: clean_label[{at}] is {clean[at]}, but sample {at} of {source} has the label "
            f"{images.y_train[at]}; the label file follows the official order of CIFAR-10, the samples do not (or the "
            "reverse)"
        )
    return images._replace(y_noisy=noisy)


def _arrays(path: Path, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, NDArray[Any]]:
    if not zipfile.is_zipfile(path):
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(4)
        fault = (
            f"is truncated: it ends at offset {size} without the directory that a zip archive has at its end"
            if start.startswith(b"PK")
            else f"is not an .npz file: it begins with {start!r} at offset 0"
        )
        raise ValueError(f"{path} {fault}; write it with numpy.savez")
    arrays = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            if missing := [key for key in required if key not in archive]:
                there = ", ".join(archive.files) or "nothing"
                raise ValueError(f"it has no array {', '.join(missing)}, but {there}")
            for key in (*required, *optional):
                if key in archive:
                    arrays[key] = archive[key]
                    if not isinstance(arrays[key], np.ndarray):
                        raise ValueError(f"{key} is not an array")
    except Exception as error:  # objects, which only pickle restores, and damage make NumPy raise whatever it meets
        raise ValueError(f"{path} cannot be read: {error}") from error
    return arrays


def _features(path: Path, key: str, values: NDArray[Any]) -> Float32Array:
    if values.dtype.kind not in "fiub" or values.ndim < 2:
        raise ValueError(f"{path}: {key} is {values.dtype} of shape {values.shape}, expected numbers of shape (n, d)")
    with np.errstate(over="ignore"):  # what overflows float32 is refused below, with its place
        x: Float32Array = values.astype(np.float32)
    if not np.isfinite(x).all():
        row = int(np.argmin(np.isfinite(x).reshape(len(x), -1).all(axis=1)))
        raise ValueError(f"{path}: {key}[{row}] has NaN, infinite or too large values; drop or fill them")
    return x


def _codes(
    labels: dict[str, NDArray[Any]], class_names: NDArray[Any] | None
) -> tuple[dict[str, Codes], tuple[str, ...]]:
    for key, y in labels.items():
        if y.ndim != 1 or len(y) == 0 or y.dtype.kind not in "iubU":
            raise ValueError(f"{key} is {y.dtype} of shape {y.shape}, expected integers or strings, one per sample")
    if class_names is not None:
        names = tuple(str(name) for name in class_names.reshape(-1))
        return {key: check_codes(y, len(names)).astype(np.int64) for key, y in labels.items()}, names
    if len({y.dtype.kind == "U" for y in labels.values()}) > 1:
        raise ValueError("some labels are strings and some are numbers; write them all in one kind")
    # int64 before they meet: NumPy joins uint64 and int64 as floats
    labels = {key: y if y.dtype.kind == "U" else y.astype(np.int64) for key, y in labels.items()}
    classes = np.unique(np.concatenate([np.unique(y) for y in labels.values()]))
    codes = {key: np.searchsorted(classes, y).astype(np.int64) for key, y in labels.items()}
    return codes, tuple(str(label) for label in classes.tolist())
