"""One reader for tables: text, JSON Lines, Parquet, Arrow and NPZ files, whole or in blocks of rows."""

import codecs
import glob
import io
import os
import re
import shutil
import sys
import tempfile
import warnings
import weakref
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from numbers import Number
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from unflip._input import check_file, check_limit, check_there, file_size, limit, opened, parse_json
from unflip._validation import FloatArray

TEXT = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}  # suffixes and their separators
JSON_LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".arrows", ".feather", ".ipc")
TABLES = (*PARQUET, *ARROW, *TEXT, *JSON_LINES)  # suffixes of files with columns
SEPARATORS = ";\t|"  # of a .csv whose first line has no comma
# Other ways to write an empty cell. A class may be called None; a number never is.
BLANK_LABELS = ["", "nan", "NaN", "NA", "N/A", "n/a", "<NA>", "null", "NULL", "#N/A"]
BLANKS = [*BLANK_LABELS, "None", "-nan", "-NaN", "#NA", "#N/A N/A", "?"]
CHECKED = 1000  # rows at the beginning of a text file that tell its decimal mark
UNNAMED = "Unnamed: 0"  # pandas' name for a first column without one
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)?,\d+([eE][+-]?\d+)?")
MARKS = {  # the longer ones first, since UTF-32 begins as UTF-16 does
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
CHUNK = 2**20  # bytes of a text file that are decoded at once
LARGEST_CLASSES = 1000
NUMBER = "it looks like a number to predict, not a class"
_SPOOLED: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
KINDS = {"U": "strings", "b": "booleans"}  # of labels, by NumPy's letter; all others are numbers


@dataclass(frozen=True, eq=False)
class Table:
    """Samples with their labels, as :func:`read_table` returns them.

    Attributes
    ----------
    X : DataFrame or ndarray
        A data frame for a CSV or Parquet file; an array (n_samples, n_features) for an NPZ; float32 images
        (n_samples, channels, height, width) for a folder or an NPZ of images.
    names : ndarray of shape (n_samples,)
        The file names of images. For other data, the row numbers, counted from 0, or the values of a first column
        without a name if these are whole numbers or text.
    """

    X: Any
    y: NDArray[Any] | None  #: strings, whole numbers or booleans
    sample_weight: FloatArray | None
    names: NDArray[Any]
    label: str | None  #: the label's column
    class_names: tuple[str, ...]
    unlabeled: "Table | None" = None  #: the rows without a label, which are not among the others
    notes: tuple[str, ...] = ()  #: what was changed while it was read, a sentence each
    annotations: Any = None  #: the labels of several annotators, whose majority is y
    text: Any = "tfidf"  #: what becomes of columns of free text, see :class:`~unflip.tables.Preprocessor`

    @cached_property
    def findings(self) -> list[Any]:
        """What :func:`unflip.tables.checks.check_table` finds in it."""
        from unflip.tables.checks import check_table

        return check_table(self)


def read_table(
    path: Any,
    label: str | Literal[False] | None = None,
    weights: str | None = None,
    drop: Sequence[str] = (),
    *,
    image_size: tuple[int, int] | None = None,
    kinds: Mapping[str, str] | None = None,
    encoding: str | None = None,
) -> Table:
    """Read samples and noisy labels from files or a folder.

    Rows without a label are set aside, as ``unlabeled`` of the table.

    Parameters
    ----------
    path : path-like, list of them, file object, data frame, Dataset or dict of arrays
        ``.csv``, ``.tsv``, ``.jsonl`` (each also with ``.gz``), ``.parquet``, ``.arrow``, ``.feather``, ``.npz``, or a
        folder that has a folder of PNG or JPEG images for each class. Several files with the same columns, a pattern
        such as ``"data/*.csv"``, or a folder of them are read one after the other, and their rows are counted through;
        ``"-"`` is standard input. If semicolons separate the columns, numbers may have decimal commas. An NPZ has
        ``X`` and ``y``, or ``x_train`` and ``y_train``; X may be sparse, as :func:`scipy.sparse.save_npz` writes it; if
        it has ``classes``, y may be their numbers; uint8 images in it are scaled to [0, 1]. Pickled arrays are refused.
        A frame of pandas, polars or any other library that narwhals knows, a Hugging Face dataset, and a dict of
        arrays or tensors, which is read like an NPZ, are tables, too.
    label : str, None or False, default=None
        The label's column or, in an NPZ, its key or an ``.npy`` file. If None, a file with columns is read without
        labels, an NPZ with ``y``, and images are labeled with the names of their folders. If False, no labels are read.
    weights : str, default=None
        Column (or key) of the sample weights.
    drop : sequence of str, default=()
        Columns to leave out.
    image_size : (height, width), default=None
        Resize the images of a folder. If None, images of different sizes are refused.
    kinds : dict of str to {"number", "date", "category", "text"}, default=None
        The kind of each column, as the fitted model knows it. In a text file the cells of a category or text are then
        read as they are written. If None, the cells of a column decide.
    encoding : str, default=None
        The encoding of text files, such as "cp1251". If None, it is found: by a byte order mark, else UTF-8, else
        cp1252 with a warning.
    """
    given: Any = path
    if isinstance(given, list | tuple) and len(given) == 1:
        given = given[0]
    is_stream = hasattr(given, "read") and not hasattr(given, "columns")
    if not isinstance(given, str | os.PathLike | list | tuple) and not is_stream:
        _refuse("DATA in memory", image_size=image_size, encoding=encoding)
        return _from_memory(given, label, weights, drop)
    if is_stream or given == "-":
        given = spooled(given)
    several = table_files(given) if isinstance(given, list | tuple) or glob.has_magic(os.fspath(given)) else []
    source = Path(several[0] if several else given)
    if check_there(source).is_dir():
        from unflip.tables.images import has_images, read_images

        if has_images(source) or not tables_in(source):
            _refuse(f"{source}, a folder of images,", weights=weights, drop=drop, label=label, encoding=encoding)
            X, y, names = read_images(source, image_size)
            return make_table(X, y if label is not False else None, None, names, "folder", str(source))
        several = table_files(source)
    if image_size is not None:
        raise ValueError(f"an image size is for folders of images, but {source} is not one; leave it out")
    if source.suffix.lower() in (".npz", ".safetensors"):
        _refuse(f"{source}, an NPZ file,", drop=drop, encoding=encoding)
        from unflip.tables.arrays import read_npz

        return read_npz(source, label, weights)
    if len(several) > 1:
        from unflip.tables.sources import read_together  # which is built on this module

        rows, features = read_together(several, label or None, weights, drop, kinds=kinds, encoding=encoding)
        said = f"{source} and {len(several) - 1} other files"
    else:
        said = several[0] if several else str(source)
        file = open_file(said, encoding)
        features = choose_features(file.names, label or None, weights, said, drop=drop)
        (rows,) = file.frames(Reading(label=label or None, kinds=kinds or {}))
    frame = rows.frame
    if len(frame) == 0:
        raise ValueError(f"{said} is empty: it has {len(frame.columns)} columns and no rows")
    y, sample_weight = (frame[name] if name else None for name in (label, weights))
    names = np.arange(len(frame)) if rows.names is None else rows.names
    return make_table(frame[features], y, sample_weight, names, label or None, said)


def _from_memory(data: Any, label: str | Literal[False] | None, weights: str | None, drop: Sequence[str]) -> Table:
    """A data frame, or arrays by their names."""
    from unflip.tables.frames import is_frame

    if isinstance(data, Mapping) and not is_frame(data):
        from unflip.tables.arrays import read_arrays_of

        _refuse("a dict of arrays", drop=drop)
        return read_arrays_of(data, label, weights)
    if not is_frame(data):
        raise ValueError(f"a table is a path, a data frame or a dict with X and y; got {type(data).__name__}")
    frame = as_frame(data)
    check_unique(list(frame.columns))
    features = choose_features(list(frame.columns), label or None, weights, "the data frame", drop=drop)
    if len(frame) == 0:
        raise ValueError(f"the data frame is empty: it has {len(frame.columns)} columns and no rows")
    names = row_names(frame.index.to_series(), False)
    frame = frame.reset_index(drop=True)
    y, sample_weight = (frame[name] if name else None for name in (label, weights))
    names = np.arange(len(frame)) if names is None else names
    return make_table(frame[features], y, sample_weight, names, label or None, "the data frame")


def spooled(stream: Any = "-") -> str:
    """Return a temporary file with what a stream holds; its suffix says what that is. "-" is standard input.

    A table is read more than once, and a stream cannot be. The file is removed with the stream, at the latest when the
    process ends.
    """
    stream = sys.stdin if stream == "-" else stream
    if stream not in _SPOOLED:
        folder = tempfile.mkdtemp(prefix="unflip-")
        weakref.finalize(stream, shutil.rmtree, folder, ignore_errors=True)
        source, raw = getattr(stream, "buffer", stream), Path(folder, "stdin")
        most = shutil.disk_usage(folder).free // 2
        with raw.open("wb") as file:
            while chunk := source.read(CHUNK):
                file.write(chunk.encode() if isinstance(chunk, str) else chunk)
                if file.tell() > most:
                    raise ValueError(
                        f"standard input is longer than {most:,} bytes, half of what is free in {folder}; give a file, "
                        "or name a folder with more space in the environment variable TMPDIR"
                    )
        with raw.open("rb") as file:
            suffix = _suffix_of(file.read(CHUNK))
        _SPOOLED[stream] = str(raw.rename(raw.with_suffix(suffix)))
    return _SPOOLED[stream]


def _suffix_of(start: bytes) -> str:
    """What the beginning of a file says about its format; text that is not JSON is CSV."""
    if start.startswith(b"\x1f\x8b"):
        return _suffix_of(zlib.decompressobj(wbits=31).decompress(start)) + ".gz"
    magic = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\xff\xff\xff\xff": ".arrows", b"PK\x03\x04": ".npz"}
    known = next((suffix for mark, suffix in magic.items() if start.startswith(mark)), None)
    is_json = start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")
    return known or (".jsonl" if is_json else ".csv")


def make_table(X: Any, y: Any, sample_weight: Any, names: NDArray[Any], label: str | None, source: str) -> Table:
    unlabeled = None
    try:
        lost = np.zeros(len(names), dtype=bool) if y is None else missing_labels(y)
        if lost.any() and not lost.all() and len(lost) == len(names):  # else it is an error, which is named below
            kept = np.flatnonzero(~lost)
            unlabeled = Table(_safe_indexing(X, np.flatnonzero(lost)), None, None, names[lost], None, ())
            X, y, names = (_safe_indexing(values, kept) for values in (X, y, names))
            sample_weight = None if sample_weight is None else _safe_indexing(sample_weight, kept)
        labels = None if y is None else as_labels(y)
        weights = None if sample_weight is None else as_weights(sample_weight)
        if weights is not None and not weights.any():
            raise ValueError("the weight is zero in every row; at least one sample must count")
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if labels is None:
        return Table(X, None, weights, names, None, ())
    classes = np.unique(labels)
    check_label_classes(classes, len(labels), f"the label {label!r} of {source}")
    named = tuple(str(name) for name in classes.tolist())
    return Table(X, labels, weights, names, label, named, unlabeled, _spaces(y))


def _spaces(y: Any) -> tuple[str, ...]:
    """The note that labels had spaces around them, which are left out."""
    given, codes = _distinct(y, "", 0)
    if given.ndim != 1 or given.dtype.kind not in "UO":
        return ()
    around = np.array([isinstance(value, str) and value != value.strip() for value in given.tolist()], dtype=bool)
    rows = around if codes is None else np.append(around, False)[codes]
    if not around.any():
        return ()
    such, n = str(given[around][0]), int(rows.sum())
    said = (
        f"1 label had spaces around it, {such!r}"
        if n == 1
        else f"{n:,} labels had spaces around them, such as {such!r}"
    )
    return (f"{said}; the spaces were left out.",)


# Columns --------------------------------------------------------------------------------------------------------------


def choose_features(
    names: Sequence[Any], label: Any, weights: Any, said: str, columns: Any = None, drop: Sequence[Any] | str = ()
) -> list[Any]:
    """Return the features, ``columns`` or all that are left, after checking that every column exists once."""
    dropped = [drop] if isinstance(drop, str) else list(drop)
    for name in (label, weights, *(columns or ()), *dropped):
        if name is not None and name not in names:
            no_such(str(name), map(str, names), f"{said} has no column")
    if label is not None and label == weights:
        raise ValueError(f"label and weights are both {label!r}; name two different columns")
    if columns is not None and {label, weights} & set(columns):
        raise ValueError(f"columns must not contain the label or the weights; got {list(columns)[:20]}")
    features = [name for name in names if name not in (label, weights)] if columns is None else list(columns)
    features = [name for name in features if name not in dropped]
    if not features:
        raise ValueError(f"{said} has no columns except label, weights and dropped ones; nothing is left to learn from")
    return features


def no_such(name: str, there: Iterable[str], sentence: str) -> NoReturn:
    """Refuse a name that does not exist: suggest the nearest one, and list those that exist."""
    names = list(there)
    hint = "; does the first line name the columns?" if any(np.isfinite(_number(item)) for item in names) else "."
    hint = f"; did you mean {near!r}?" if (near := nearest(name, names)) else hint
    raise ValueError(f"{sentence} {name!r}{hint} It has {', '.join(map(repr, names[:30])) or 'none'}")


def nearest(name: str, there: Iterable[str]) -> str | None:
    """Return the name that was probably meant, in whatever case it is written."""
    lower = {item.lower(): item for item in there}
    near = get_close_matches(name.lower(), lower, 1)
    return lower[near[0]] if near else None


def column_kind(column: Any) -> str:
    """Return what pandas took a column of a text file for: "empty", "int", "float", "bool" or "text"."""
    code = getattr(column.dtype, "kind", "O")
    if code in "iub":
        return "bool" if code == "b" else "int"
    if code == "f":
        return "float" if column.notna().any() else "empty"
    first = column.first_valid_index()
    if first is None or isinstance(column.loc[first], str):
        return "empty" if first is None else "text"
    return "bool" if isinstance(column.loc[first], bool) else "int"  # of more than 64 bits


# Labels and weights ---------------------------------------------------------------------------------------------------


def as_labels(values: Any, start: int = 0) -> NDArray[Any]:
    """Return labels as strings, int64 or booleans, or say in which row they are not. This is the only rule for labels.

    Leading and trailing spaces are stripped; a string of nothing but spaces is a missing label. Numbers must be whole,
    so 1.0 is the label 1. Lists, dates and mixtures of strings and numbers are refused. ``start`` is the number of the
    first row, for errors.
    """
    said = _called("the label", values)
    labels, codes = _distinct(values, said, start)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(
            f"{said} has shape {labels.shape}; one label per row is needed. For one-hot rows, give the place of the 1"
        )
    missing = _is_missing(labels)
    missing = missing if codes is None else np.append(missing, True)[codes]  # code -1, the last, is missing
    if missing.any():
        row, n = start + missing.argmax(), missing.sum()
        raise ValueError(f"{said} is missing in row {row} ({n} missing); fill in the labels, or drop those rows")
    if labels.dtype.kind in "UO":
        _check_lengths(labels, codes, said, start)
    if labels.dtype.kind == "U":
        labels = np.char.strip(labels)
    elif labels.dtype.kind == "O":
        labels = _of_one_kind(labels, said)
    if labels.dtype.kind in "fiu":
        numbers = labels.astype(np.float64)
        bad = (np.abs(numbers) >= 2**53) | (numbers != np.round(numbers))
        if bad.any():
            row = (bad if codes is None else bad[codes]).argmax()
            raise ValueError(f"{said} is {labels[bad][0]:g} in row {start + row}: {NUMBER}")
        labels = labels.astype(np.int64, copy=False)
    if labels.dtype.kind not in "biU":
        raise ValueError(f"{said} holds {labels.dtype}; labels must be strings, whole numbers or booleans")
    return labels if codes is None else labels[codes]


def _check_lengths(labels: NDArray[Any], codes: NDArray[np.intp] | None, said: str, start: int) -> None:
    """Refuse a label that is too long for the name of a class, before each row takes as much memory as it."""
    if labels.dtype.kind == "U" and labels.dtype.itemsize <= 4 * limit("UNFLIP_MAX_LABEL"):
        return
    sizes = np.array([len(label) if isinstance(label, str) else 0 for label in labels.tolist()], dtype=np.int64)
    if len(sizes) and sizes.max() > limit("UNFLIP_MAX_LABEL"):
        row = start + (sizes.argmax() if codes is None else (codes == sizes.argmax()).argmax())
        what = f"{said} has {sizes.max():,} characters in row {row}, too many for the name of a class"
        check_limit("UNFLIP_MAX_LABEL", int(sizes.max()), what)


def many(n: int, one: str, several: str) -> str:
    """Return a number with its noun, which is one or several."""
    return f"{n:,} {one if n == 1 else several}"


def left_out(lost: int, n: int, what: str = "no label") -> str:
    """Return how many rows are not used because they have no label."""
    return f"{lost:,} of {n:,} rows {f'has {what} and is' if lost == 1 else f'have {what} and are'} left out"


def missing_labels(values: Any) -> NDArray[np.bool_]:
    """Return which labels are missing: None, NaN, NA, or a string of nothing but spaces; see :func:`as_labels`."""
    labels, codes = _distinct(values, _called("the label", values), 0)
    missing = _is_missing(labels) if labels.ndim == 1 else np.zeros(len(np.atleast_1d(labels)), dtype=bool)
    return missing if codes is None else np.append(missing, True)[codes]


def labeled_rows(X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """Return the rows that have a label, with a warning that counts the others; all of them, if each has one."""
    # NumPy would make a string of NaN in a list of strings.
    lost = missing_labels(np.array(y, dtype=object) if isinstance(y, list | tuple) else y)
    if not lost.any() or lost.all():  # the latter is an error with its own message
        return X, y, sample_weight
    warnings.warn(left_out(int(lost.sum()), len(lost)), stacklevel=3)
    kept = np.flatnonzero(~lost)
    labels, weights = (None if a is None else _safe_indexing(a, kept) for a in (y, sample_weight))
    return _safe_indexing(X, kept), as_labels(labels), weights


def check_label_classes(classes: NDArray[Any], n_rows: int, said: str, most: int = LARGEST_CLASSES) -> None:
    """Refuse labels that cannot be classes: a single one, or nearly as many as there are rows."""
    if len(classes) < 2:
        raise ValueError(f"{said} has only one class, {classes.tolist()}; a classifier needs at least two")
    if len(classes) == n_rows or len(classes) > most:
        raise ValueError(
            f"{said} has {len(classes):,} different values in {n_rows:,} rows: "
            + (NUMBER if classes.dtype.kind == "i" else "they look like names or free text, not classes")
        )


def check_same_kind(labels: NDArray[Any], where: str, others: NDArray[Any], there: str) -> None:
    """Refuse labels of different kinds, of the blocks ``where`` and ``there``: NumPy would make 1 of True, "1" of 1."""
    (kind, such), (other, as_these) = (
        (KINDS.get(array.dtype.kind, "numbers"), f", such as {array[0].item()!r}," if len(array) else "")
        for array in (labels, others)
    )
    if kind != other:
        raise ValueError(f"the labels are {kind}{such} in {where}, but {other}{as_these} in {there}; use one kind")


def as_weights(values: Any, start: int = 0) -> FloatArray:
    """Return weights as float64, or say in which row there is none."""
    said = _called("the weight", values)
    weights = _plain_array(values)
    if weights.ndim != 1:
        raise ValueError(f"{said} must be one number per row; got shape {weights.shape}")
    is_date = weights.dtype.kind in "mM"
    plain = weights if weights.dtype.kind in "biuf" else [np.nan if is_date else _number(v) for v in weights.tolist()]
    numbers: FloatArray = np.asarray(plain, dtype=np.float64)
    wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(wrong):
        value = weights[wrong[0]]
        raise ValueError(
            f"{said} is {value if isinstance(value, float | np.number) else repr(str(value))} in row "
            f"{start + wrong[0]} ({len(wrong)} such rows); a weight must be a number >= 0"
        )
    return numbers


def _called(said: str, values: Any) -> str:
    return said if getattr(values, "name", None) is None else f"{said} {values.name!r}"


def _distinct(values: Any, said: str, start: int) -> tuple[NDArray[Any], NDArray[np.intp] | None]:
    """Labels, each once, and the code of each row: the rows of a column are many. For arrays the labels themselves."""
    if not hasattr(values, "factorize") or (isinstance(values.dtype, np.dtype) and values.dtype.kind != "O"):
        return _plain_array(values), None
    try:
        codes, labels = values.factorize()
    except TypeError as error:
        row = next(k for k, value in enumerate(values) if type(value).__hash__ is None)
        shown = f"{np.asarray(values.iloc[row]).tolist()!r:.60}"
        raise ValueError(f"{said} is a list in row {start + row}, {shown}; one label per row is needed") from error
    return _plain_array(labels), codes


def _plain_array(values: Any) -> NDArray[Any]:
    if hasattr(values, "to_numpy"):  # pandas' own kinds, such as str, category and Int64, become NumPy's
        values = values.to_numpy() if isinstance(values.dtype, np.dtype) else values.astype(object).to_numpy()
    if isinstance(values, list | tuple) and all(isinstance(value, str) for value in values):
        _check_lengths(np.array(values, dtype=object), None, "the label", 0)
    found: NDArray[Any] = np.asarray(values)
    return np.char.decode(found, "utf-8") if found.dtype.kind == "S" else found


def _is_missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind == "U":
        return (labels == "") | np.char.isspace(labels)
    if labels.dtype.kind == "O":
        return np.array([_is_lost(label) for label in labels.tolist()], dtype=bool)
    return labels != labels  # NaN and NaT


def _is_lost(label: Any) -> bool:
    if isinstance(label, str):
        return not label.strip()
    equal = label == label  # not for NaN and NaT; pandas.NA says neither
    return label is None or type(equal).__name__ == "NAType" or (isinstance(equal, bool | np.bool_) and not equal)


def _of_one_kind(labels: NDArray[Any], said: str) -> NDArray[Any]:
    kinds = {type(label) for label in labels.tolist()}
    holds = ", ".join(sorted(kind.__name__ for kind in kinds))
    if all(issubclass(kind, str) for kind in kinds):
        return np.array([label.strip() for label in labels], dtype=str)
    if kinds <= {bool, np.bool_}:
        return labels.astype(bool)
    if kinds & {bool, np.bool_} or any(issubclass(kind, str) for kind in kinds):
        raise ValueError(f"{said} must be of one kind, all numbers or all strings; it holds {holds}")
    if not all(issubclass(kind, Number) for kind in kinds):
        raise ValueError(f"{said} holds {holds}; labels must be strings, whole numbers or booleans")
    return labels.astype(np.float64)


def _number(value: Any) -> float:
    """A value as a number, NaN if it is not one; "1_000", which Python alone takes for a number, is not."""
    try:
        return float("nan") if isinstance(value, str) and "_" in value else float(value)
    except (TypeError, ValueError):
        return float("nan")


# Files ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FrameRows:
    """Rows of a file: what it calls them, unless it only counts them, and the number of their file, if it has one.

    The index of the frame has the numbers of the rows in their file, which errors name.
    """

    frame: Any
    names: NDArray[Any] | None = None
    files: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.frame), len(self.frame.columns))

    @property
    def rows(self) -> NDArray[np.intp]:
        return np.asarray(self.frame.index)

    def __getitem__(self, chosen: Any) -> "FrameRows":
        names, files = (None if values is None else values[chosen] for values in (self.names, self.files))
        return FrameRows(self.frame.iloc[chosen], names, files)


def join_rows(pieces: Sequence[FrameRows]) -> FrameRows:
    """Return the rows of all pieces, one after the other."""
    import pandas as pd

    columns = pieces[0].frame.columns
    index = pd.Index(np.concatenate([piece.rows for piece in pieces]))
    joined = {name: _joined(pd, [piece.frame[name] for piece in pieces]) for name in columns}
    files = [piece.files for piece in pieces if piece.files is not None]
    known = [piece.names for piece in pieces if piece.names is not None]
    names = np.concatenate(known) if len(known) == len(pieces) else None
    return FrameRows(pd.DataFrame(joined).set_axis(index), names, np.concatenate(files) if files else None)


def _joined(pd: Any, columns: list[Any]) -> Any:
    types = {column.dtype for column in columns}
    if len(types) == 1:
        return pd.concat(columns, ignore_index=True)
    if all(getattr(dtype, "kind", "O") in "iuf" for dtype in types):
        return pd.concat([column.astype(np.float64) for column in columns], ignore_index=True)
    # Text next to a block without any value, or categories that differ: by their values.
    together = pd.concat([column.astype(object) for column in columns], ignore_index=True)
    if any(isinstance(dtype, pd.CategoricalDtype) for dtype in types):
        return together.astype("category")
    return together.astype(str) if any(isinstance(dtype, pd.StringDtype) for dtype in types) else together


class Reading(NamedTuple):
    """How the rows of a file are read."""

    rows: int | None = None  # in a frame; if None, one frame has all rows
    label: str | None = None  # a cell "None" in this column of a text file is a class, not a missing value
    columns: Sequence[str] | None = None  # if None, all; rows of text that are longer than the header are then refused
    text: frozenset[str] = frozenset()  # columns of text files to read as written; "" has the names of the rows
    kinds: Mapping[str, str] = {}  # as in read_table


@dataclass(frozen=True)
class TextFile:
    """A CSV or TSV file with a header, read by pandas; a first column without a name has the names of the rows.

    A cell has no type of its own. Pandas infers the type of a column from the cells it reads at once, and may infer
    another type from fewer rows. Columns in ``text`` are read as they are written.
    """

    path: str
    separator: str
    header: tuple[str, ...]  # the name of an index, as DataFrame.to_csv writes it, is empty
    decimal: str = "."
    encoding: str = "utf-8"
    size: int | None = None  # bytes, when it was looked at first
    n_rows = None  # not known without reading

    @property
    def names(self) -> list[str]:
        return [name for name in self.header if name]

    def runs(self, rows: int | None) -> list[tuple[tuple[int, ...], int]]:
        """Return one run: a text file can only be read from its beginning."""
        return [((), 0)]

    def called(self, run: tuple[int, ...]) -> str:
        return self.path

    def frames(self, how: Reading, run: tuple[int, ...] = (), start: int = 0) -> Iterator[FrameRows]:
        """Read one of the runs, which begins with the row ``start``."""
        import pandas as pd

        written = {*how.text, *(name for name, kind in how.kinds.items() if kind != "number")} & set(self.header)
        options = self._options(how.label) | {"dtype": {name or UNNAMED: str for name in written}}
        if how.columns is not None:
            options["usecols"] = [name or UNNAMED for name in how.columns]
        options |= {"iterator": True, "chunksize": how.rows}
        with readable(self.path), opened(self.path, self.size) as file, pd.read_csv(file, **options) as reader:
            for frame in reader:
                frame.index = range(start, start + len(frame))
                names = None
                if self.header[0] == "" and UNNAMED in frame:
                    names = row_names(frame.pop(UNNAMED), "" in written)
                yield FrameRows(self._tidied(frame, how), names)
                start += len(frame)

    def _options(self, label: str | None) -> dict[str, Any]:
        return {
            "sep": self.separator,
            "encoding": self.encoding,
            "decimal": self.decimal,
            "skipinitialspace": True,
            "index_col": False,
            "low_memory": False,
            "keep_default_na": False,
            "na_values": {name or UNNAMED: BLANK_LABELS if name == label else BLANKS for name in self.header},
        }

    def _tidied(self, frame: Any, how: Reading) -> Any:
        changed = {}
        for name in frame.columns:
            column = frame[name]
            if getattr(column.dtype, "kind", "O") not in "bO":
                continue
            kind = column_kind(column)
            if kind == "int":
                changed[name] = column.astype(np.float64)
            elif kind == "bool" and how.kinds.get(name) == "number":
                changed[name] = column.map(str, na_action="ignore")  # True is not a number
            elif kind == "text" and self.decimal == "," and name != how.label:
                # numbers in columns of text are written as those in columns of numbers are
                changed[name] = column.map(with_point, na_action="ignore")
        return frame.assign(**changed) if changed else frame


@dataclass(frozen=True)
class JsonLinesFile:
    """A file with a JSON object in each line. Its columns are the keys of all objects; a key that is absent is missing.

    Unlike the cells of a CSV file, its values have types: ``"1"`` is text, and 1 a number.
    """

    path: str
    names: tuple[str, ...]
    n_rows: int
    encoding: str = "utf-8"
    size: int | None = None  # bytes, when it was looked at first

    def runs(self, rows: int | None) -> list[tuple[tuple[int, ...], int]]:
        """Return one run: lines can only be read from the beginning."""
        return [((), 0)]

    def called(self, run: tuple[int, ...]) -> str:
        return self.path

    def frames(self, how: Reading, run: tuple[int, ...] = (), start: int = 0) -> Iterator[FrameRows]:
        """Read all rows, which begin with the row ``start``."""
        import pandas as pd

        columns = list(self.names if how.columns is None else how.columns)
        with readable(self.path):
            objects = json_objects(self.path, self.encoding, self.size)
            while rows := list(islice(objects, how.rows)):
                counted = range(start, start + len(rows))
                values = {name: [row.get(name) for row in rows] for name in columns}
                yield FrameRows(pd.DataFrame(values, index=counted, columns=columns))
                start = counted.stop
                if how.rows is None:
                    return
        if start == 0 and how.rows is None:
            yield FrameRows(pd.DataFrame(columns=columns))


def open_file(path: str, encoding: str | None = None, *, numbered: bool = False) -> Any:
    """Find out how a file is read: its columns, and its separator and encoding or its row groups.

    With ``numbered``, the columns of a text may be called 0, 1, 2, as pandas calls those of an array; otherwise such a
    first line is taken for data without names, and refused.
    """
    suffix = table_suffix(path)
    if suffix not in TABLES:
        raise ValueError(
            f"{path} must end in .csv, .tsv, .jsonl (each also with .gz), .parquet, .arrow, .feather or .npz, or be a "
            "folder of images"
        )
    try:
        import pandas as pd  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"reading {suffix} files needs pandas: pip install 'unflip[data]'") from error
    check_file(path)
    if suffix in (*PARQUET, *ARROW):
        if encoding is not None:
            raise ValueError(f"{path} has no encoding, which only text has; leave out {encoding!r}")
        from unflip.tables.arrow import open_arrow

        return open_arrow(path)
    with readable(path):
        encoding = find_encoding(path, encoding)
        if suffix in JSON_LINES:
            return _open_json(path, encoding)
        return _open_text(path, TEXT[suffix], encoding, numbered)


def table_suffix(path: str) -> str:
    """Return the suffix that says how a file is read, in lower case and without ``.gz``."""
    return Path(path.lower().removesuffix(".gz")).suffix


def tables_in(folder: Path) -> list[str]:
    """Return the files with columns in a folder and the folders in it, in order."""
    inside = (path for path in sorted(folder.rglob("*")) if not path.is_dir() and path.name[0] not in "._")
    return [str(path) for path in inside if table_suffix(path.name) in TABLES]


def table_files(source: Any) -> list[str]:
    """Return the files that a path, a pattern, a folder or a list of them names; none if it is something else."""
    if isinstance(source, str | os.PathLike):
        found = _files(os.fspath(source))
    elif isinstance(source, list | tuple) and source and all(isinstance(s, str | os.PathLike) for s in source):
        found = [path for item in source for path in _files(os.fspath(item))]
    else:
        return []
    kinds = [PARQUET, ARROW, JSON_LINES]
    known = {next((kind[0] for kind in kinds if table_suffix(path) in kind), ".csv") for path in found}
    if len(known) > 1:
        raise ValueError(f"the files are of different kinds, {', '.join(sorted(known))}; give one kind")
    return found


def _files(path: str) -> list[str]:
    if path == "-":
        return [spooled()]
    if Path(path).is_dir():
        if Path(path, "dataset_dict.json").exists():
            splits = sorted(item.name for item in Path(path).iterdir() if item.is_dir())
            raise ValueError(f"{path} holds the splits {', '.join(splits)} of a dataset; name one of these folders")
        if not (found := tables_in(Path(path))):
            raise ValueError(f"the folder {path} has no file that ends in {', '.join(TABLES)}")
        return found
    if os.path.lexists(path):
        check_there(path)
        if table_suffix(path) not in (*TABLES, ".npy"):
            raise ValueError(f"{path} must end in {', '.join(TABLES)}, .csv.gz, .tsv.gz or .npy")
        return [path]
    if not (matching := sorted(glob.glob(path, recursive=True))):
        raise FileNotFoundError(f"{path} does not exist")
    return [one for item in matching for one in _files(item)]


# Encodings


def find_encoding(path: str, given: str | None = None) -> str:
    """Return the encoding of a text file: as given, by its byte order mark, else UTF-8, else cp1252 with a warning.

    All of the file is decoded, since its first letter with an accent may be in the last row. What is neither is refused
    with the name of the encoding that it may be in; so is a line that is too long to be kept in memory.
    """
    known = None if given is None else check_encoding(given)
    with opened(path) as raw:
        file = _Lines(raw)
        chunk = file.read(CHUNK)
        known = known or next((name for mark, name in MARKS.items() if chunk.startswith(mark)), None)
        if known is not None:
            while file.read(CHUNK):
                pass
            return known
        if 8 * chunk.count(0) > len(chunk):
            # UTF-16 without a mark: in text of Western languages every second byte is zero
            width = "utf-16-le" if chunk[1::2].count(0) > chunk[::2].count(0) else "utf-16-be"
            raise ValueError(f"it has zero bytes, which text in UTF-8 has not. {_name_it(width)}")
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while chunk:
                decoder.decode(chunk)
                chunk = file.read(CHUNK)
            decoder.decode(b"", True)
            return "utf-8"
        except UnicodeDecodeError as error:
            problem, sample = error, chunk
    if _looks_western(sample):
        warnings.warn(
            f"{path} is not text in UTF-8; it is read as cp1252, the encoding of Windows in Western Europe. If this is "
            "wrong, name its encoding",
            stacklevel=2,
        )
        return "cp1252"
    raise ValueError(f"it is not text in UTF-8 ({problem.reason}). {_name_it(_guessed(sample))}")


class _Lines:
    """A file whose lines are measured as it is read."""

    def __init__(self, file: Any) -> None:
        self.file, self.open = file, 0  # bytes of the line that has not ended

    def read(self, size: int) -> bytes:
        chunk: bytes = self.file.read(size)
        end = chunk.rfind(b"\n")
        self.open = len(chunk) - end - 1 if end >= 0 else self.open + len(chunk)
        check_limit("UNFLIP_MAX_LINE", self.open, f"it has a line of {self.open:,} bytes or more")
        return chunk


def check_encoding(name: str) -> str:
    """Return the name of an encoding that Python knows."""
    try:
        return codecs.lookup(name).name
    except LookupError as error:
        raise ValueError(f"unknown encoding {name!r}; for example utf-8, utf-16, cp1252 or gb18030") from error


def _name_it(guess: str | None) -> str:
    such = guess or "cp1251"
    maybe = f"It may be in {guess}: n" if guess else "N"
    return f"{maybe}ame the encoding, encoding={such!r} in Python and --encoding {such} on the command line"


def _looks_western(sample: bytes) -> bool:
    """Whether the letters with accents in cp1252 are single ones among plain letters, and signs are between words.

    In other encodings whole words become such letters (Cyrillic, Chinese), or signs are in the middle of words (DOS,
    Polish).
    """
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:  # cp1252 lacks five bytes
        return False
    letters = re.findall(r"[^\W\x00-\x7f]+", text.replace("ß", "s"))
    signs = re.findall(r"[^\w\x00-\x7f]", text)
    inside = re.findall(r"(?<=[A-Za-z])[^\w\x00-\x7f’‘´·\xa0\xad](?=[a-z])", text)
    long = sum(len(run) > 1 for run in letters)
    return 3 * long <= len(letters) and 10 * len(inside) <= len(letters) + len(signs)


def _guessed(sample: bytes) -> str | None:
    try:
        from charset_normalizer import from_bytes
    except ModuleNotFoundError:
        return None
    best = from_bytes(sample[: 2**16]).best()
    return None if best is None else str(best.encoding)


def with_point(value: Any) -> Any:
    """Return "1,5" as "1.5", and anything else as it is."""
    is_number = isinstance(value, str) and "." not in value and DECIMAL_COMMA.fullmatch(value.strip())
    return value.strip().replace(",", ".") if is_number else value


def _open_text(path: str, separator: str, encoding: str, numbered: bool = False) -> TextFile:
    """Find separator, header and decimal mark, and refuse a file whose rows are longer than its header.

    Even a .csv may be separated by semicolons, tabs or bars, if its first line has no comma. With semicolons the
    decimal mark is a comma, as where Excel writes them, if this makes numbers of columns that are text otherwise in the
    first rows, and text of none.
    """
    import pandas as pd

    # Here and not where the rows are read: that is done in threads, which share the filters of warnings.
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # more cells in a row than names
        header = _header(pd, path, separator, encoding)
        if separator == "," and len(header) == 1:
            separator = next((mark for mark in SEPARATORS if mark in header[0]), separator)
            header = _header(pd, path, separator, encoding)
        numbers = all(np.isfinite(_number(name)) for name in header)
        if numbers and not (numbered and header == [str(k) for k in range(len(header))]):
            raise ValueError(f"the first line must name the columns, but it holds numbers: {', '.join(header[:5])}")
        check_limit("UNFLIP_MAX_COLUMNS", len(header), f"it has {len(header):,} columns")
        check_unique(header)
        named = (header[0], *(name or f"Unnamed: {k}" for k, name in enumerate(header[1:], 1)))
        marks = ".," if separator == ";" else "."
        files = [TextFile(path, separator, named, mark, encoding, file_size(path)) for mark in marks]
        frames = []
        for file in files:
            with opened(path) as raw:
                frames.append(pd.read_csv(raw, nrows=CHECKED, **file._options(None)))
        numeric = [{n for n in frame.columns if pd.api.types.is_numeric_dtype(frame[n].dtype)} for frame in frames]
    return files[-1] if len(files) > 1 and numeric[0] < numeric[1] else files[0]


def _header(pd: Any, path: str, separator: str, encoding: str) -> list[str]:
    options = {"sep": separator, "encoding": encoding, "header": None, "nrows": 1, "dtype": str}
    with opened(path) as file:
        first = pd.read_csv(file, **options, keep_default_na=False, skipinitialspace=True)
    return [str(name) for name in first.iloc[0]]


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn pandas' errors about a text file into a ValueError with its name."""
    import pandas as pd

    try:
        yield
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty") from error
    except UnicodeError as error:
        raise ValueError(f"{path} is not text in the encoding that was named: {error}") from error
    except (FileNotFoundError, PermissionError):
        raise
    except (pd.errors.ParserWarning, pd.errors.ParserError, OSError, EOFError, zlib.error, ValueError) as error:
        if str(error).startswith(f"{path} "):
            raise
        raise ValueError(f"{path} cannot be read as a table: {error}") from error


def row_names(column: Any, as_text: bool) -> NDArray[Any] | None:
    """Whole numbers or text; None if the column holds anything else, and the rows are only counted."""
    kind = column_kind(column)
    if kind not in ("int", "text") and not as_text:
        return None
    return np.asarray(column if kind == "int" else column.astype(object).where(column.notna(), ""))


def _open_json(path: str, encoding: str) -> JsonLinesFile:
    """Read all lines once: any of them may have a key of its own."""
    names: dict[str, None] = {}
    n = 0
    for row in json_objects(path, encoding):
        names.update(dict.fromkeys(row))
        n += 1
        check_limit("UNFLIP_MAX_COLUMNS", len(names), f"it has {len(names):,} columns or more")
    if not n:
        raise ValueError("it is empty")
    return JsonLinesFile(path, tuple(names), n, encoding, file_size(path))


def json_objects(path: str, encoding: str, size: int | None = None) -> Iterator[dict[str, Any]]:
    """Read the objects of a file of JSON Lines, one at a time; empty lines are left out."""
    with opened(path, size) as raw:
        file = io.TextIOWrapper(raw, encoding, newline="\n")
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = parse_json(line)
            except ValueError as error:
                raise ValueError(f"line {number} is not JSON: {error}. Each line must be a JSON object") from error
            if not isinstance(row, dict):
                raise ValueError(f'line {number} must be a JSON object such as {{"age": 20}}; got {line.strip():.40}')
            yield row


def as_frame(data: Any) -> Any:
    """Return a pandas frame or series, or an array, for what another library holds; anything else as it is.

    Frames and series of polars, pyarrow, DuckDB and whatever else narwhals knows become pandas ones, tensors become
    arrays, and a dataset of Hugging Face becomes a frame in which classes have their names. Dask collections stay: they
    need not fit into memory.
    """
    library = type(data).__module__.split(".")[0]
    if library in ("numpy", "pandas", "scipy", "builtins") or hasattr(type(data), "__dask_graph__"):
        return data
    from unflip.tables.frames import converted

    return converted(data)


def class_names(column: Any, names: Sequence[str]) -> Any:
    """Return the names of classes for a column of their numbers, as Hugging Face's ``datasets`` stores them."""
    codes = column.fillna(-1).astype(np.int64)  # -1 is how datasets writes that there is no label
    if len(codes) and codes.max() >= len(names):
        raise ValueError(f"column {column.name!r} has the code {codes.max()}, but names for {len(names)} classes only")
    return np.array([*names, None], dtype=object)[codes]


def check_unique(names: Sequence[str]) -> None:
    twice = [name for name, times in Counter(names).items() if name and times > 1]
    if twice:  # pandas would rename it
        raise ValueError(f"there is more than one column {twice[0]!r}; rename one of them")


def _refuse(said: str, **options: Any) -> None:
    for name, value in options.items():
        if value:
            values = ", ".join(map(repr, [value] if isinstance(value, str) else value))
            raise ValueError(f"{said} takes no {name.replace('_', ' ')}: leave out {values}")
