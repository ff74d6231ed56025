"""One reader for tables: CSV, Parquet and NPZ files, whole or in blocks of rows, with the same meaning."""

import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Number
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from unflip._validation import FloatArray, check_same_length

TEXT = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}  # suffixes and their separators
PARQUET = (".parquet", ".pq")
SEPARATORS = ";\t|"  # of a .csv whose first line has no comma
# Other ways to write an empty cell. A class may be called None; a number never is.
BLANK_LABELS = ["", "nan", "NaN", "NA", "N/A", "n/a", "<NA>", "null", "NULL", "#N/A"]
BLANKS = [*BLANK_LABELS, "None", "-nan", "-NaN", "#NA", "#N/A N/A", "?"]
CHECKED = 1000  # rows at the beginning of a text file that tell its decimal mark
UNNAMED = "Unnamed: 0"  # pandas' name for a first column without one
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)?,\d+([eE][+-]?\d+)?")
BUFFER = 2**17  # bytes per column that are read of a Parquet file at once
SAMPLES = ("X", "x", "X_train", "x_train", "X_test", "x_test")  # names of the samples in an NPZ
LABELS = ("y", "y_train", "y_noisy")
LARGEST_CLASSES = 1000
NUMBER = "it looks like a number to predict, not a class"
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
    text: Any = "tfidf"  #: what becomes of columns of free text, see :class:`~unflip.tables.Preprocessor`


def read_table(
    path: str | os.PathLike[str],
    label: str | Literal[False] | None = None,
    weights: str | None = None,
    drop: Sequence[str] = (),
    *,
    image_size: tuple[int, int] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Table:
    """Read samples and noisy labels from a file or a folder.

    Rows without a label are set aside, as ``unlabeled`` of the table.

    Parameters
    ----------
    path : path-like
        ``.csv``, ``.tsv`` (also with ``.gz``), ``.parquet``, ``.npz``, or a folder that has a folder of PNG or JPEG
        images for each class. If semicolons separate the columns, numbers may have decimal commas. An NPZ has ``X``
        and ``y``, or ``x_train`` and ``y_train``; uint8 images in it are scaled to [0, 1]. Pickled arrays are refused.
    label : str, None or False, default=None
        The label's column or, in an NPZ, its key. If None, a CSV or Parquet file is read without labels, an NPZ with
        ``y``, and images are labeled with the names of their folders. If False, no labels are read.
    weights : str, default=None
        Column (or key) of the sample weights.
    drop : sequence of str, default=()
        Columns to leave out.
    image_size : (height, width), default=None
        Resize the images of a folder. If None, images of different sizes are refused.
    kinds : dict of str to {"number", "category", "text"}, default=None
        The kind of each column, as the fitted model knows it. In a text file the cells of a category or text are then
        read as they are written. If None, the cells of a column decide.
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist")
    if source.is_dir():
        from unflip.tables.images import has_images, read_images

        if not has_images(source) and (tables := tables_in(source)):
            raise ValueError(
                f"{source} is a folder of tables, such as {Path(tables[0]).name}; name one of them. To fit a linear "
                "model to all of them, use --out-of-core, or fit_out_of_core in Python"
            )
        _refuse(source, "a folder of images", weights=weights, drop=drop, label=label)
        X, y, names = read_images(source, image_size)
        return _table(X, y if label is not False else None, None, names, "folder", str(source))
    if image_size is not None:
        raise ValueError(f"an image size is for folders of images, but {source} is a file; leave it out")
    if source.suffix.lower() == ".npz":
        _refuse(source, "an NPZ file", drop=drop)
        return _read_npz(source, label, weights)
    file = open_file(str(source))
    features = choose_features(file.names, label or None, weights, str(source), drop=drop)
    (rows,) = file.frames(Reading(label=label or None, kinds=kinds or {}))
    frame = rows.frame
    if len(frame) == 0:
        raise ValueError(f"{source} is empty: it has {len(file.names)} columns and no rows")
    y, sample_weight = (frame[name] if name else None for name in (label, weights))
    names = np.arange(len(frame)) if rows.names is None else rows.names
    return _table(frame[features], y, sample_weight, names, label or None, str(source))


def _table(X: Any, y: Any, sample_weight: Any, names: NDArray[Any], label: str | None, source: str) -> Table:
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
    return Table(X, labels, weights, names, label, tuple(str(name) for name in classes.tolist()), unlabeled)


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
    warnings.warn(f"{lost.sum():,} of {len(lost):,} rows have no label and are left out", stacklevel=3)
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
    """Return the rows of all pieces, one after the other, without their names."""
    import pandas as pd

    columns = pieces[0].frame.columns
    index = pd.Index(np.concatenate([piece.rows for piece in pieces]))
    joined = {name: _joined(pd, [piece.frame[name] for piece in pieces]) for name in columns}
    files = [piece.files for piece in pieces if piece.files is not None]
    return FrameRows(pd.DataFrame(joined).set_axis(index), None, np.concatenate(files) if files else None)


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
        with _readable(self.path), pd.read_csv(self.path, **options, iterator=True, chunksize=how.rows) as reader:
            for frame in reader:
                frame.index = range(start, start + len(frame))
                names = None
                if self.header[0] == "" and UNNAMED in frame:
                    names = _row_names(frame.pop(UNNAMED), "" in written)
                yield FrameRows(self._tidied(frame, how), names)
                start += len(frame)

    def _options(self, label: str | None) -> dict[str, Any]:
        return {
            "sep": self.separator,
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
class ParquetFile:
    """A Parquet file: its row groups, its columns, and the index that pandas noted in it."""

    path: str
    sizes: tuple[int, ...]
    kinds: tuple[tuple[str, str], ...]  # the type of each column
    index: str | None  # the column with the names of the rows
    hidden: tuple[str, ...]  # further columns of the index
    first: int  # of an index that counts
    step: int

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.kinds if name != self.index and name not in self.hidden]

    @property
    def n_rows(self) -> int:
        return sum(self.sizes)

    def runs(self, rows: int | None) -> list[tuple[tuple[int, ...], int]]:
        """Return row groups that are read together, at least ``rows`` rows if there are as many, and their start."""
        found, start, begin, run = [], 0, 0, []
        for number, size in enumerate(self.sizes):
            run.append(number)
            start += size
            if (rows is not None and start - begin >= rows) or number == len(self.sizes) - 1:
                found.append((tuple(run), begin))
                begin, run = start, []
        return found

    def called(self, run: tuple[int, ...]) -> str:
        return f"{self.path}, row group{f' {run[0]}' if len(run) == 1 else f's {run[0]} to {run[-1]}'}"

    def frames(self, how: Reading, run: tuple[int, ...] | None = None, start: int = 0) -> Iterator[FrameRows]:
        """Read one of the runs, or all of the file; the schema says what a column is."""
        run = tuple(range(len(self.sizes))) if run is None else run
        chosen = [*(self.names if how.columns is None else how.columns), *([self.index] if self.index else [])]
        whole = how.rows is None
        try:
            with _opened(self.path) as file:
                # No threads of its own for a block: other parts are read at the same time.
                batches = file.iter_batches(how.rows or max(self.n_rows, 1), list(run), chosen, use_threads=whole)
                for table in _regrouped(batches, file.schema_arrow, how.rows):
                    counted = range(start, start + table.num_rows)
                    names: Any = self.first + self.step * np.array(counted)
                    if self.index:
                        names = _row_names(table.column(self.index).to_pandas(), True)
                        table = table.drop_columns([self.index])
                    frame = table.to_pandas(use_threads=whole, ignore_metadata=True)
                    frame.index = counted
                    yield FrameRows(frame, None if self.hidden else names)
                    start = counted.stop
        except OSError as error:
            raise ValueError(f"{self.called(run)} cannot be read: {error}") from error


def open_file(path: str) -> TextFile | ParquetFile:
    """Find out how a text or Parquet file is read: its columns, its separator or its row groups."""
    suffix = table_suffix(path)
    if suffix not in (*PARQUET, *TEXT):
        raise ValueError(f"{path} must end in .csv, .tsv, .csv.gz, .tsv.gz, .parquet or .npz, or be a folder of images")
    try:
        import pandas as pd  # noqa: F401
    except ModuleNotFoundError as error:
        said = "Parquet" if suffix in PARQUET else "CSV"
        raise ModuleNotFoundError(f"reading {said} needs pandas: pip install 'unflip[data]'") from error
    return _open_parquet(path) if suffix in PARQUET else _open_text(path, TEXT[suffix])


def table_suffix(path: str) -> str:
    """Return the suffix that says how a file is read, in lower case and without ``.gz``."""
    return Path(path.lower().removesuffix(".gz")).suffix


def tables_in(folder: Path) -> list[str]:
    """Return the text and Parquet files in a folder and the folders in it, in order."""
    inside = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name[0] not in "._")
    return [str(path) for path in inside if table_suffix(path.name) in (*TEXT, *PARQUET)]


def with_point(value: Any) -> Any:
    """Return "1,5" as "1.5", and anything else as it is."""
    is_number = isinstance(value, str) and "." not in value and DECIMAL_COMMA.fullmatch(value.strip())
    return value.strip().replace(",", ".") if is_number else value


def _open_text(path: str, separator: str) -> TextFile:
    """Find separator, header and decimal mark, and refuse a file whose rows are longer than its header.

    Even a .csv may be separated by semicolons, tabs or bars, if its first line has no comma. With semicolons the
    decimal mark is a comma, as where Excel writes them, if this makes numbers of columns that are text otherwise in the
    first rows, and text of none.
    """
    import pandas as pd

    # Here and not where the rows are read: that is done in threads, which share the filters of warnings.
    with _readable(path), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # more cells in a row than names
        header = _header(pd, path, separator)
        if separator == "," and len(header) == 1:
            separator = next((mark for mark in SEPARATORS if mark in header[0]), separator)
            header = _header(pd, path, separator)
        if all(np.isfinite(_number(name)) for name in header):
            raise ValueError(f"the first line must name the columns, but it holds numbers: {', '.join(header[:5])}")
        _check_unique(header)
        named = (header[0], *(name or f"Unnamed: {k}" for k, name in enumerate(header[1:], 1)))
        marks = ".," if separator == ";" else "."
        files = [TextFile(path, separator, named, mark) for mark in marks]
        frames = [pd.read_csv(path, nrows=CHECKED, **file._options(None)) for file in files]
        numbers = [{n for n in frame.columns if pd.api.types.is_numeric_dtype(frame[n].dtype)} for frame in frames]
    return files[-1] if len(files) > 1 and numbers[0] < numbers[1] else files[0]


def _header(pd: Any, path: str, separator: str) -> list[str]:
    options = {"sep": separator, "header": None, "nrows": 1, "dtype": str}
    first = pd.read_csv(path, **options, keep_default_na=False, skipinitialspace=True)
    return [str(name) for name in first.iloc[0]]


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turn pandas' errors about a text file into a ValueError with its name."""
    import pandas as pd

    try:
        yield
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error}); save it with this encoding") from error
    except (pd.errors.ParserWarning, pd.errors.ParserError, OSError, EOFError, zlib.error, ValueError) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from error


def _row_names(column: Any, as_text: bool) -> NDArray[Any] | None:
    """Whole numbers or text; None if the column holds anything else, and the rows are only counted."""
    kind = column_kind(column)
    if kind not in ("int", "text") and not as_text:
        return None
    return np.asarray(column if kind == "int" else column.astype(object).where(column.notna(), ""))


def _open_parquet(path: str) -> ParquetFile:
    """Read what the end of a file says about it."""
    try:
        with _opened(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
        _check_unique(schema.names)
    except (OSError, ValueError) as error:  # pyarrow's own errors are kinds of these
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    counted = next((item for item in index if isinstance(item, dict)), {})
    hidden = [item for item in index if isinstance(item, str) and item in schema.names]
    names = hidden.pop() if len(hidden) == 1 and _names_rows(schema, groups, hidden[0]) else None
    kinds = tuple((field.name, _arrow_kind(field.type)) for field in schema)
    sizes, first, step = tuple(group.num_rows for group in groups), counted.get("start", 0), counted.get("step", 1)
    return ParquetFile(path, sizes, kinds, names, tuple(hidden), int(first), int(step))


def _names_rows(schema: Any, groups: list[Any], name: str) -> bool:
    """Whether a column of the index is text, or whole numbers without missing values."""
    kind, place = _arrow_kind(schema.field(name).type), schema.names.index(name)
    if kind != "int":
        return kind == "text"
    statistics = [group.column(place).statistics for group in groups]
    return all(found is not None and found.null_count == 0 for found in statistics)


def _arrow_kind(arrow: Any) -> str:
    """What values of a type are to a model: files must agree on it, but not on the width of their numbers."""
    from pyarrow import types

    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return "text"
    if types.is_dictionary(arrow):
        return "categories"
    if types.is_integer(arrow):
        return "int"
    if types.is_floating(arrow):
        return "float32" if arrow.bit_width <= 32 else "float"
    return "decimal" if types.is_decimal(arrow) else str(arrow)


def _opened(path: str) -> Any:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("reading Parquet needs pyarrow: pip install 'unflip[data]'") from error
    # By buffers, not whole row groups: these may be larger than memory.
    return parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)


def _regrouped(batches: Iterator[Any], schema: Any, rows: int | None) -> Iterator[Any]:
    """Tables of exactly ``rows`` rows, except the last: pyarrow may stop at the end of a row group."""
    from pyarrow import Table as ArrowTable

    held: list[Any] = []
    n = 0
    for batch in batches:
        held.append(batch)
        n += batch.num_rows
        while rows is not None and n >= rows:
            table = ArrowTable.from_batches(held)
            yield table.slice(0, rows)
            held = table.slice(rows).to_batches()
            n -= rows
    if n or rows is None:
        yield ArrowTable.from_batches(held, held[0].schema if held else schema)


def _check_unique(names: Sequence[str]) -> None:
    twice = [name for name, times in Counter(names).items() if name and times > 1]
    if twice:  # pandas would rename it
        raise ValueError(f"there is more than one column {twice[0]!r}; rename one of them")


# Arrays ---------------------------------------------------------------------------------------------------------------


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
    table = _table(X, y, sample_weight, np.arange(len(X)), chosen or None, str(path))
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
