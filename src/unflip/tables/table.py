"""Tables in: CSV, Parquet and NPZ files and folders of images, with their labels."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray, check_same_length
from unflip.tables.frames import no_such, read_csv, read_parquet
from unflip.tables.images import SUFFIXES as IMAGES
from unflip.tables.images import read_images
from unflip.tables.labels import check_label_column, check_weights

COMMA, TAB = (".csv", ".txt"), (".tsv", ".tab")
PARQUET = (".parquet", ".pq")
SAMPLES = ("X", "x", "X_train", "x_train", "X_test", "x_test")  # names of the samples in an NPZ
LABELS = ("y", "y_train", "y_noisy")


@dataclass(frozen=True, eq=False)
class Table:
    """Samples with their labels, as :func:`read_table` gives them.

    Attributes
    ----------
    X : DataFrame or ndarray
        A data frame of a CSV or Parquet file; an array (n_samples, n_features) of an NPZ; images of a folder or an NPZ,
        float32 (n_samples, channels, height, width).
    y : ndarray of shape (n_samples,) or None
        Strings, whole numbers or booleans.
    sample_weight : ndarray of shape (n_samples,) or None
    names : ndarray of shape (n_samples,)
        File names of images, else the number of each row, counted from 0, or what a first column without name says.
    label : str or None
        The label's column.
    class_names : tuple of str
    """

    X: Any
    y: NDArray[Any] | None
    sample_weight: FloatArray | None
    names: NDArray[Any]
    label: str | None
    class_names: tuple[str, ...]


def read_table(
    path: str | os.PathLike[str],
    label: str | Literal[False] | None = None,
    weights: str | None = None,
    drop: Sequence[str] = (),
    *,
    image_size: tuple[int, int] | None = None,
) -> Table:
    """Read samples and noisy labels from a file or a folder.

    Parameters
    ----------
    path : path-like
        ``.csv``, ``.tsv`` (also with ``.gz``), ``.parquet``, ``.npz``, or a folder that has a folder of PNG or JPEG
        images for each class. Where semicolons separate the columns numbers may have decimal commas. An NPZ has ``X``
        and ``y``, or ``x_train`` and ``y_train``; uint8 images in it are scaled to [0, 1]. Pickled arrays are refused.
    label : str, None or False, default=None
        The label's column or, in an NPZ, its key. None is no labels for a CSV or Parquet file, ``y`` of an NPZ, and the
        names of the folders of images. False reads no labels.
    weights : str, default=None
        Column (or key) of the sample weights.
    drop : sequence of str, default=()
        Columns to leave out.
    image_size : (height, width), default=None
        Resize the images of a folder. None refuses images of different sizes.

    Returns
    -------
    Table
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist")
    suffix = Path(source.name.lower().removesuffix(".gz")).suffix
    if source.is_dir():
        if tables := _tables_in(source):
            raise ValueError(
                f"{source} is a folder of tables, such as {tables[0].name}: name one of them. A linear model can be "
                "fitted to all of them with --out-of-core, or by fit_out_of_core in Python"
            )
        _refuse(source, "a folder of images", weights=weights, drop=drop, label=label)
        X, y, names = read_images(source, image_size)
        return _table(X, y if label is not False else None, None, names, "folder", str(source))
    if image_size is not None:
        raise ValueError(f"an image size is for folders of images; {source} is a file")
    if suffix == ".npz":
        _refuse(source, "an NPZ file", drop=drop)
        return _read_npz(source, label, weights)
    if suffix in (*COMMA, *TAB):
        frame = read_csv(source, label or None, "\t" if suffix in TAB else ",")
    elif suffix in PARQUET:
        frame = read_parquet(source)
    else:
        raise ValueError(
            f"{source} has none of the suffixes .csv, .tsv, .csv.gz, .tsv.gz, .parquet and .npz, and is not a folder"
        )
    return _of_frame(frame, label or None, weights, drop, source)


def _tables_in(folder: Path) -> list[Path]:
    """Tables in a folder that has no images."""
    files = sorted(path for path in folder.rglob("*") if path.name[0] not in "._")
    if any(path.suffix.lower() in IMAGES for path in files):
        return []
    suffixes = (*COMMA, *TAB, *PARQUET)
    return [path for path in files if path.name.lower().removesuffix(".gz").endswith(suffixes) and path.is_file()]


def _of_frame(frame: Any, label: str | None, weights: str | None, drop: Sequence[str], source: Path) -> Table:
    if len(frame) == 0:
        raise ValueError(f"{source} is empty: it has {len(frame.columns)} columns and no rows")
    for name in [label, weights, *([drop] if isinstance(drop, str) else drop)]:
        if name is not None and name not in frame.columns:
            no_such(name, list(frame.columns), f"{source} has no column")
    if label is not None and label == weights:
        raise ValueError(f"label and weights are both {label!r}; name two columns")
    left = frame.drop(columns=[*{label, weights, *([drop] if isinstance(drop, str) else drop)} - {None}])
    if len(left.columns) == 0:
        raise ValueError(f"{source} has no column beside label, weights and those dropped; nothing to learn from")
    rows = np.asarray(frame.index)
    return _table(
        left.reset_index(drop=True),
        frame[label] if label is not None else None,
        frame[weights] if weights is not None else None,
        rows if rows.ndim == 1 and rows.dtype.kind in "iuOU" else np.arange(len(frame)),
        label,
        str(source),
        weights,
    )


def _table(
    X: Any, y: Any, sample_weight: Any, names: NDArray[Any], label: str | None, source: str, weights: str | None = None
) -> Table:
    labels = None if y is None else check_label_column(y, f"the label {label!r} of {source}")
    return Table(
        X,
        labels,
        None if sample_weight is None else check_weights(sample_weight, f"the weights {weights!r} of {source}"),
        names,
        None if labels is None else label,
        () if labels is None else tuple(str(name) for name in np.unique(labels).tolist()),
    )


def _read_npz(path: Path, label: str | Literal[False] | None, weights: str | None) -> Table:
    from unflip.datasets.npz import opened_npz, read_arrays, stored_names

    with opened_npz(path) as archive:
        there = stored_names(archive)
    for name in (label, weights):
        if name and name not in there:
            no_such(name, there, f"{path} has no array")
    chosen = label if label is not None else next((name for name in LABELS if name in there), None)
    twins = [letter + str(chosen)[1:] for letter in "Xx"] if chosen and chosen[0] in "yY" else []
    samples = next((name for name in (*twins, *SAMPLES) if name in there), None)
    if samples is None:
        no_such("X", there, f"{path} needs the samples as X or x_train, but has no array")
    found = read_arrays(path, [name for name in (samples, chosen, weights) if name])
    X = _samples(found[samples], f"{samples} of {path}")
    y, sample_weight = (found[name] if name else None for name in (chosen, weights))
    table = _table(X, y, sample_weight, np.arange(len(X)), chosen or None, str(path), weights)
    try:
        check_same_length(**{name: found[name] for name in (samples, chosen, weights) if name})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return table


def _samples(values: NDArray[Any], said: str) -> NDArray[Any]:
    """Rows of numbers as they are; images as float32 (n, channels, height, width), bytes scaled to [0, 1]."""
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


def _refuse(source: Path, kind: str, **options: Any) -> None:
    for name, value in options.items():
        if value:
            said = ", ".join(map(repr, [value] if isinstance(value, str) else value))
            raise ValueError(f"{source} is {kind}, which has no columns: leave out {name} ({said})")
