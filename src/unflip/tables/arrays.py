"""Arrays in NPZ and safetensors files: rows of numbers, sparse or dense, and images."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from unflip._input import check_file, read_npy
from unflip._validation import check_same_length
from unflip.datasets.npz import opened_npz, read_arrays, stored_names
from unflip.tables.read import Table, as_frame, make_table, no_such

SAMPLES = ("X", "x", "X_train", "x_train", "X_test", "x_test")  # names of the samples in an NPZ
LABELS = ("y", "y_train", "y_noisy")
CLASSES = ("classes", "class_names")
SPARSE = ("data", "indices", "indptr", "row", "col", "shape", "format")  # the arrays of a sparse matrix


def read_npz(path: Path, label: str | Literal[False] | None, weights: str | None) -> Table:
    """Read samples, labels and weights of an NPZ or safetensors file, as :func:`unflip.tables.read_table` says."""
    if path.suffix.lower() == ".safetensors":
        return read_arrays_of(_read_safetensors(path), label, weights, str(path))
    with opened_npz(path) as archive:
        there = stored_names(archive)
    return _chosen(there, partial(read_arrays, path), label, weights, str(path))


def read_arrays_of(
    arrays: Mapping[str, Any], label: str | Literal[False] | None, weights: str | None, said: str = "the dict"
) -> Table:
    """Take samples, labels and weights from arrays or tensors by their names, like those of an NPZ file."""

    def read(required: Iterable[str], optional: Iterable[str]) -> dict[str, Any]:
        wanted = [*required, *(name for name in optional if name in arrays)]
        found = {name: as_frame(arrays[name]) for name in wanted}
        return {name: value if sparse.issparse(value) else np.asarray(value) for name, value in found.items()}

    return _chosen(list(arrays), read, label, weights, said)


def _chosen(
    there: Sequence[str], read: Callable[..., dict[str, Any]], label: Any, weights: str | None, said: str
) -> Table:
    beside = label if label and label.endswith(".npy") else None  # labels in a file of their own
    for name in (None if beside else label, weights):
        if name and name not in there:
            no_such(name, there, f"{said} has no array")
    chosen = None if beside else label if label is not None else next((n for n in LABELS if n in there), None)
    twins = [letter + str(chosen)[1:] for letter in "Xx"] if chosen and chosen[0] in "yY" else []
    samples = next((name for name in (*twins, *SAMPLES) if name in there), None)
    prefixes = ["", *(f"{name}_" for name in (*twins, *SAMPLES))]
    prefix = next((prefix for prefix in prefixes if prefix + "data" in there), None)
    if samples is None and prefix is None:
        no_such("X", there, f"{said} needs the samples as X or x_train, but has no array")
    names = CLASSES if chosen else ()
    if samples is None:
        parts = [f"{prefix}{name}" for name in SPARSE]
        found = read([name for name in (chosen, weights) if name], [*parts, *names])
        X, samples = _sparse_samples({name: found.get(f"{prefix}{name}") for name in SPARSE}, said), "X"
    else:
        found = read([name for name in (samples, chosen, weights) if name], names)
        X = _samples(found[samples], f"{samples} of {said}")
    y, sample_weight = (found[name] if name else None for name in (chosen, weights))
    if beside:
        y = read_npy(beside)
    elif y is not None:
        y = _named_labels(y, next((found[name] for name in CLASSES if name in found), None), said)
    n = X.shape[0]
    table = make_table(X, y, sample_weight, np.arange(n), beside or chosen or None, said)
    try:
        lengths = {samples: range(n), beside or chosen or "labels": y, weights or "weights": sample_weight}
        check_same_length(**lengths)
    except ValueError as error:
        raise ValueError(f"{said}: {error}") from error
    return table


def _read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("reading safetensors needs safetensors: pip install 'unflip[data]'") from error
    try:
        return load_file(check_file(path))
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} cannot be read as safetensors: {error}") from error


def _named_labels(y: NDArray[Any], classes: NDArray[Any] | None, said: str) -> NDArray[Any]:
    """Labels by name, if they are numbers of ``classes``; names, or numbers that are themselves classes, stay."""
    if classes is None or y.dtype.kind not in "iu" or (classes.dtype.kind in "iu" and np.isin(y, classes).all()):
        return y
    names = classes.reshape(-1)
    if len(y) and not 0 <= y.min() <= y.max() < len(names):
        raise ValueError(
            f"{said} names {len(names)} classes, so labels are 0 .. {len(names) - 1}; got {y.min()} to {y.max()}"
        )
    return names[y]


def _sparse_samples(parts: dict[str, NDArray[Any] | None], said: str) -> Any:
    """The matrix that :func:`scipy.sparse.save_npz` wrote, as CSR."""
    stored = parts["format"]
    kind = "csr" if stored is None else stored.item()
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    needed = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "coo": ("data", "row", "col")}
    if kind not in needed or any(parts[name] is None for name in (*needed[kind], "shape")):
        raise ValueError(f"{said} holds a sparse matrix in the format {kind!r}; save it with save_npz(path, X.tocsr())")
    data, *places = (parts[name] for name in needed[kind])
    shape = tuple(np.asarray(parts["shape"]).tolist())
    try:
        if kind == "coo":
            matrix: Any = sparse.coo_array((data, tuple(places)), shape)
        else:
            matrix = (sparse.csr_array if kind == "csr" else sparse.csc_array)((data, *places), shape)
            matrix.check_format()
        matrix = matrix.tocsr()
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{said} holds a damaged sparse matrix: {error}") from error
    return _checked_sparse(matrix, f"X of {said}")


def _checked_sparse(matrix: Any, said: str) -> Any:
    if not all(matrix.shape):
        raise ValueError(f"{said} is empty, of shape {matrix.shape}")
    if matrix.nnz:
        _samples(matrix.data.reshape(-1, 1), said)  # which refuses what is not a finite number
    return matrix if matrix.dtype.kind == "f" else matrix.astype(np.float32)


def _samples(values: Any, said: str) -> Any:
    """Rows of numbers as they are; images as float32 (n, channels, height, width), bytes scaled to [0, 1]."""
    if sparse.issparse(values):
        return _checked_sparse(values.tocsr(), said)
    if values.dtype.kind not in "biuf" or not 2 <= values.ndim <= 4:
        raise ValueError(
            f"{said} is {values.dtype} of shape {values.shape}; expected numbers of shape (n, features), or images "
            "(n, channels, height, width)"
        )
    if values.shape[0] == 0 or values.size == 0:
        raise ValueError(f"{said} is empty, of shape {values.shape}")
    bad = np.isinf(values) if values.ndim == 2 else ~np.isfinite(values)
    if bad.any():
        row = int(bad.reshape(len(bad), -1).any(axis=1).argmax())
        raise ValueError(f"{said} has infinite{' or missing' * (values.ndim > 2)} values, the first in row {row}")
    if values.ndim == 2:
        return values if values.dtype.kind == "f" else values.astype(np.float32)
    images = values[:, np.newaxis] if values.ndim == 3 else values
    if images.shape[1] not in (1, 3, 4) and images.shape[3] in (1, 3, 4):  # channels last, as Keras has them
        images = images.transpose(0, 3, 1, 2)
    scale = 255 if values.dtype == np.uint8 else 1
    return np.ascontiguousarray(images, dtype=np.float32) / np.float32(scale)
