"""Readers of ``.npz`` files: any features, and the labels of CIFAR-10N. Pickled objects in them are refused."""

import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._input import check_expanded, check_file
from unflip._validation import check_codes, check_same_length
from unflip.datasets.entry import Arrays, Codes, Dataset, Float32Array, check_test_is_not_train
from unflip.datasets.images import count_cifar10, read_cifar10

DIGITS = tuple("0123456789")
HEADER = 10_000  # limit for the header of an .npy file in bytes; plain arrays have about 118
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_features(path: Path) -> Dataset:
    """Read any ``.npz`` with ``x_train``, ``x_test``, ``y_test``, and ``y_train`` (clean) or ``y_noisy`` or both.

    Features become float32 without scaling. Labels are integers or strings; their sorted values give the codes and the
    class names. If the file has ``class_names``, the labels are codes already.
    """
    found = read_arrays(path, ("x_train", "x_test", "y_test"), ("y_train", "y_noisy", "class_names"))
    if "y_train" not in found and "y_noisy" not in found:
        raise ValueError(f"{path} has neither y_train (clean labels) nor y_noisy; add one of them")
    x_train, x_test = (_features(path, key, found[key]) for key in ("x_train", "x_test"))
    if x_train.shape[1:] != x_test.shape[1:]:
        shapes = f"x_train has shape {x_train.shape} and x_test {x_test.shape}"
        raise ValueError(f"{path}: {shapes}; they must agree except in the rows")
    labels: dict[str, NDArray[Any]] = {key: found[key] for key in ("y_train", "y_noisy", "y_test") if key in found}
    try:
        check_same_length(x_train=x_train, **{key: y for key, y in labels.items() if key != "y_test"})
        check_same_length(x_test=x_test, y_test=labels["y_test"])
        codes, class_names = _codes(labels, found.get("class_names"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return Dataset(path.stem, x_train, codes.get("y_train"), x_test, codes["y_test"], codes.get("y_noisy"), class_names)


def read_cifar10_features(path: Path) -> Arrays:
    """Read the features of CIFAR-10: any file of features whose labels are 0 .. 9."""
    data = read_features(path)
    if data.class_names != DIGITS or data.y_train is None:
        found = ", ".join(data.class_names[:12])
        raise ValueError(f"{path}: CIFAR-10's y_train and y_test must be 0 .. 9; got {found}")
    return check_test_is_not_train(Arrays(data.x_train, data.y_train, data.x_test, data.y_test), path, path)


def count_cifar10_features(path: Path) -> tuple[int, int]:
    """Return the number of rows for training and for testing, from the headers of the arrays."""
    keys = ("x_train", "x_test")
    with opened_npz(path, keys) as archive:
        n_train, n_test = ((*_check_member(archive, key), 0)[0] for key in keys)  # 0 rows if it has no axis
    return n_train, n_test


def read_cifar10n(*paths: Path, key: str) -> Arrays:
    """Read CIFAR-10N: the features or the batches of CIFAR-10, then the label file with the labels ``key``."""
    *samples, labels = paths
    _check_human_labels(labels, key)
    images = read_cifar10(*samples) if len(samples) > 1 else read_cifar10_features(*samples)
    found = read_arrays(labels, ("clean_label", key))
    try:
        clean, noisy = (check_codes(found[name], 10).astype(np.int64) for name in ("clean_label", key))
        check_same_length(x_train=images.x_train, clean_label=clean, **{key: noisy})
    except ValueError as error:
        raise ValueError(f"{labels}: {error}") from error
    if images.y_train is not None and (clean != images.y_train).any():
        at = int(np.argmax(clean != images.y_train))
        raise ValueError(
            f"{labels}: clean_label[{at}] is {clean[at]}, but sample {at} of {samples[0]} has the label "
            f"{images.y_train[at]}; use the official order of CIFAR-10 for both files"
        )
    return images._replace(y_noisy=noisy)


def count_cifar10n(*paths: Path, key: str) -> tuple[int, int]:
    """Return the number of rows for training and for testing, if the label file has the labels ``key``."""
    *samples, labels = paths
    _check_human_labels(labels, key)
    return count_cifar10(*samples) if len(samples) > 1 else count_cifar10_features(*samples)


def _check_human_labels(path: Path, key: str) -> None:
    with opened_npz(path) as archive:
        sets = [name for name in stored_names(archive) if "_label" in name]
    if key not in sets:
        there = ", ".join(name for name in sets if name != "clean_label") or "none"
        raise ValueError(f"{path} has no label set {key}, only {there}; make it again from all of CIFAR-10_human.pt")


def read_arrays(
    path: Path, required: Iterable[str] | None = None, optional: Iterable[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return arrays of an NPZ file by name, without optional ones that are absent; refuse pickled or damaged arrays.

    If nothing is required, all arrays are returned. Their sizes are checked before anything is decompressed, and zip's
    checksums (CRC-32) when all of it is.
    """
    arrays = {}
    with opened_npz(path, required or ()) as archive:
        wanted = [*(stored_names(archive) if required is None else required), *optional]
        keys = [key for key in dict.fromkeys(wanted) if key in stored_names(archive)]
        for key in keys:
            _check_member(archive, key)
        check_expanded(sum(archive.getinfo(f"{key}.npy").file_size for key in keys), path.stat().st_size, path)
        for key in keys:
            with archive.open(f"{key}.npy") as member:
                arrays[key] = np.lib.format.read_array(member, allow_pickle=False)
                member.read(1)  # only at its end is the checksum compared
    return arrays


@contextmanager
def opened_npz(path: Path, required: Iterable[str] = ()) -> Iterator[zipfile.ZipFile]:
    """Open the archive, and turn whatever goes wrong with it into a ValueError with its name."""
    if not zipfile.is_zipfile(check_file(path)):
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(4)
        fault = (
            f"is truncated: it ends at offset {size} without the directory that a zip archive has at its end"
            if start.startswith(b"PK")
            else f"is not an .npz file: it begins with {start!r} at offset 0"
        )
        raise ValueError(f"{path} {fault}; write it with numpy.savez")
    try:
        with zipfile.ZipFile(path) as archive:
            names = stored_names(archive)
            if missing := [key for key in required if key not in names]:
                raise ValueError(f"it has no array {', '.join(missing)}, only {', '.join(names) or 'nothing'}")
            yield archive
    except Exception as error:  # damaged files make zipfile and NumPy raise all kinds of errors
        raise ValueError(f"{path} cannot be read: {error}") from error


def stored_names(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the arrays in an open NPZ file."""
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _check_member(archive: zipfile.ZipFile, key: str) -> tuple[int, ...]:
    """Return the shape of an array from its header; refuse an array that is longer or shorter than its header says.

    ``numpy.load`` decompresses the whole of a member that is not an array, however long it is; here only the header is
    decompressed. What zipfile reads of a member ends where the archive's directory says.
    """
    info = archive.getinfo(f"{key}.npy")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # zipfile does not limit the others
        raise ValueError(f"{key} has an unsupported compression; save it with numpy.savez_compressed")
    with archive.open(info) as member:
        start = member.read(12)
        version = (start[6], start[7]) if len(start) == 12 else None
        if version not in HEADERS or start[:6] != b"\x93NUMPY":
            raise ValueError(f"{key} is not an array")
        head = 10 if version == (1, 0) else 12  # magic, version and the header's length, in 2 or 4 bytes
        head += int.from_bytes(start[8:head], "little")
        if head > HEADER:
            raise ValueError(f"{key} has a header of {head} bytes, expected fewer than {HEADER}")
    with archive.open(info) as member:
        np.lib.format.read_magic(member)
        shape, _fortran, dtype = HEADERS[version](member)
    if dtype.hasobject:
        raise ValueError(f"{key}: object arrays cannot be loaded, only pickle restores them; save numbers or strings")
    announced = head + prod(shape) * dtype.itemsize
    if info.file_size != announced:
        raise ValueError(f"{key} has {info.file_size} bytes, but its header announces {announced}")
    return tuple(shape)


def _features(path: Path, key: str, values: NDArray[Any]) -> Float32Array:
    if values.dtype.kind not in "fiub" or values.ndim < 2:
        raise ValueError(f"{path}: {key} is {values.dtype} of shape {values.shape}, expected numbers of shape (n, d)")
    with np.errstate(over="ignore"):  # what overflows float32 is refused below, with its row
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
        raise ValueError("some labels are strings and some are numbers; use one kind for all")
    # int64 before joining them: NumPy joins uint64 and int64 as floats
    labels = {key: y if y.dtype.kind == "U" else y.astype(np.int64) for key, y in labels.items()}
    classes = np.unique(np.concatenate([np.unique(y) for y in labels.values()]))
    codes = {key: np.searchsorted(classes, y).astype(np.int64) for key, y in labels.items()}
    return codes, tuple(str(label) for label in classes.tolist())
