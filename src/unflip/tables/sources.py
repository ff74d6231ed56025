"""Blocks of rows from anywhere: arrays, memory maps, files, generators and Dask collections."""

import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from unflip._input import check_file, mapped_npy
from unflip.tables.arrow import ArrowFile
from unflip.tables.blocks import NO_LABELS, Block, BlockError, Engine, Source, as_matrix, make_block, reduce_blocks
from unflip.tables.preprocessing import as_numbers
from unflip.tables.read import (
    CHECKED,
    TABLES,
    FrameRows,
    JsonLinesFile,
    Reading,
    TextFile,
    as_frame,
    check_same_kind,
    choose_features,
    column_kind,
    join_rows,
    missing_labels,
    no_such,
    open_file,
    table_files,
    table_suffix,
)

File = TextFile | JsonLinesFile | ArrowFile
ROWS = 65_536  # 32 MiB of 64 features in float64
MOST = 100_000  # beyond it a column names rows, not classes, and the set would grow with the data


def open_source(
    source: Any,
    y: Any = None,
    *,
    label: str | None = None,
    weights: Any = None,
    columns: Sequence[Any] | None = None,
    rows: int = ROWS,
) -> Source:
    """Return blocks of rows from anywhere.

    Parameters
    ----------
    source : Source, arrays, path, iterable, Dask array or Dask dataframe
        One of

        - X, with ``y``: an array, tensor, memmap, sparse matrix, data frame of any library that narwhals knows, Hugging
          Face dataset or Dask collection; or the tuple (X, y);
        - a Parquet, Arrow, CSV or JSON Lines file, with the meaning that :func:`read_table` gives it, but with numbers
          or booleans as its features; a folder or a list of such files, a pattern such as ``"data/*.parquet"``, or an
          ``.npy`` file;
        - an iterable of blocks (X, y) or (X, y, weights), or a function without arguments that returns one. An
          iterator, such as a generator, can be read only once.
    y : array-like, Dask collection or path of an .npy file, default=None
        Labels of X. Without labels the rows can still be predicted.
    label : str, default=None
        The label's column in files and data frames.
    weights : str or array-like, default=None
        The column of the weights, or the weights of the rows of X.
    columns : sequence, default=None
        The features: names of columns, or column numbers of an array. If None, these are all columns except label and
        weights.
    rows : int, default=65536
        Maximum number of rows in a block. Memory is a few blocks of this size per thread.

    Examples
    --------
    >>> X, y = np.arange(12.0).reshape(6, 2), np.array(list("abcabc"))
    >>> [block.where for block in open_source(X, y, rows=4).blocks()]
    ['block 0, rows 0 to 3', 'block 1, rows 4 to 5']
    """
    if not isinstance(rows, int | np.integer) or rows < 1:
        raise ValueError(f"rows must be a whole number, at least 1; got {rows!r}")
    if isinstance(source, Source):
        _refuse("an open source", y=y, label=label, weights=weights, columns=columns)
        return source
    if isinstance(source, tuple) and len(source) in (2, 3) and getattr(source[0], "ndim", 0) == 2 and y is None:
        source, y, weights = (*source, weights)[:3]
    columns = [columns] if isinstance(columns, str) else columns
    source, y, weights = map(as_frame, (source, y, weights))
    paths = table_files(source)
    if paths and not paths[0].endswith(".npy"):
        if y is not None:
            raise ValueError("name the label's column of a file with label=, not y=")
        if weights is not None and not isinstance(weights, str):
            raise ValueError("weights of a file must be the name of a column")
        tables = open_tables(paths, label, weights, columns=columns, rows=int(rows))
        kinds = [_number_kinds(file, tables) for file in tables.files]
        return tables.changed(
            numbers=np.float32 if all(set(of.values()) == {"float32"} for of in kinds) else np.float64,
            booleans=[frozenset(name for name, kind in of.items() if kind == "bool") for of in kinds],
            feature_names=tables.features,
        )
    if len(paths) > 1:
        raise ValueError("give one .npy file for X; for several, give a function that yields (X, y) blocks")
    is_file = isinstance(weights, os.PathLike) or (isinstance(weights, str) and weights.endswith(".npy"))
    weights = _load(weights) if is_file and label is None else weights
    X, y = _load(paths[0]) if paths else source, _load(y)
    if any(hasattr(type(values), "__dask_graph__") for values in (X, y, weights)):
        from unflip.tables._dask import dask_source  # it is installed, since its collection exists

        return dask_source(X, y, label, weights, columns, rows)
    if hasattr(X, "iloc") and (label is not None or isinstance(weights, str)):
        if y is not None and label is not None:
            raise ValueError("give y or label, not both")
        column, frame = weights if isinstance(weights, str) else None, X
        X = frame[choose_features(list(frame.columns), label, column, "the data frame", columns)]
        y, weights = frame[label] if label is not None else y, weights if column is None else frame[column]
        label = columns = None
    if hasattr(X, "shape") or (y is not None and not callable(X)):
        _refuse("an array", label=label)
        X = X if hasattr(X, "shape") else as_matrix(X)
        return ArraySource(X, y, weights, int(rows), check_columns(X, columns))
    if callable(X) or isinstance(X, Iterable):
        _refuse("an iterable of blocks", y=y, label=label, weights=weights, columns=columns)
        return IterableSource(X)
    raise ValueError(f"a source is X with y, a path, an iterable of (X, y) or Dask data; got {type(source).__name__}")


def find_classes(source: Source, *, threads: int | None = None, engine: Engine | None = None) -> NDArray[Any]:
    """Return the distinct labels of a source, sorted, in a pass that reads only the labels.

    Only the label's column of files is read, and only what y depends on in Dask collections. A function that returns
    blocks is called and makes all of them; a generator, which can be read only once, is refused. Text files take a pass
    more, since all labels together tell what they are. ``threads`` and ``engine`` are those of :func:`reduce_blocks`.
    """
    check_has_labels(source)
    if not source.rereadable:
        raise ValueError(
            "iterators can be read only once: name all classes with classes=[...], or give a function that returns one"
        )
    how: dict[str, Any] = {"threads": threads, "engine": engine}
    found: LabelSet = reduce_blocks(labeled_like(source, **how).only_labels(), _label_set, **how)
    return found.labels


def check_has_labels(source: Source) -> None:
    """Refuse a source that is known to have no labels."""
    if not source.has_labels:
        raise ValueError(NO_LABELS)


def labeled_like(source: Source, classes: NDArray[Any] | None = None, **how: Any) -> Source:
    """Return the source with the labels of text files read in the kind of these classes, or of all its labels."""
    if not (isinstance(source, TableSource) and source.is_text and source.label):
        return source
    if classes is None:
        return settled(source, [source.label], **how)
    return source.as_text([source.label]) if classes.dtype.kind == "U" else source


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Distinct labels, sorted, and one of the blocks that they come from; sets add to their union."""

    labels: NDArray[Any]
    where: str

    def __add__(self, other: "LabelSet") -> "LabelSet":
        check_same_kind(self.labels, self.where, other.labels, other.where)
        union = np.union1d(self.labels, other.labels)
        check_few(union)
        return LabelSet(union, self.where)


def check_few(labels: Sequence[Any] | NDArray[Any]) -> None:
    """Refuse more labels than there can be classes, before they fill the memory."""
    if len(labels) > MOST:
        raise ValueError(
            f"there are more than {MOST:,} different labels, such as {list(labels[:3])}: they look like numbers or "
            "names, not classes"
        )


def _label_set(block: Block) -> LabelSet:
    if block.y is None:
        block.refuse(NO_LABELS)
    return LabelSet(np.unique(block.y), block.where)


# Arrays ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """Some rows of arrays, in blocks of at most ``rows``. X is None if only the labels matter."""

    X: Any
    y: Any
    weights: Any
    name: str
    start: int
    rows: int
    feature_names: Sequence[str] | None = None
    columns: Sequence[Any] | None = None

    def blocks(self) -> Iterator[Block]:
        X, y, weights = (v.open() if isinstance(v, MappedRows) else v for v in (self.X, self.y, self.weights))
        n = _length(y if X is None else X)
        for start in range(0, n, self.rows):
            # The last block takes what is left, so that a y of another length is seen.
            stop = start + self.rows if start + self.rows < n else None
            x, labels, w = (_slice(values, start, stop) for values in (X, y, weights))
            if x is not None and self.columns is not None:
                x = x[list(self.columns)] if hasattr(x, "iloc") else x[:, list(self.columns)]
            yield make_block(x, labels, w, self.name, self.start + start, self.feature_names)


class ArraySource(Source):
    """Arrays or data frames in memory, or memory maps, which each part opens by itself and closes again.

    A part is one block. A map in Fortran order, or a view of a map, stays mapped as it is: its rows are not a run of
    bytes in the file, and the pages that are touched count as memory in use, up to the size of the file. The same holds
    for a copy-on-write map (mode "c"), whose changes exist only in memory.
    """

    def __init__(self, X: Any, y: Any, weights: Any, rows: int, columns: Sequence[Any] | None = None) -> None:
        self.X, self.y, self.weights, self.rows, self.columns = X, y, weights, rows, columns
        self.has_labels = y is not None
        if hasattr(X, "iloc"):
            self.feature_names = string_names(X.columns if columns is None else columns)
        self.n_rows = _length(y if X is None else X)
        for said, values in (("labels", y), ("weights", weights)):
            if values is not None and _length(values) != self.n_rows:
                raise ValueError(f"X has {self.n_rows} rows but there are {_length(values)} {said}; give one per row")

    def parts(self) -> list[ArrayPart]:
        found = []
        for number, start in enumerate(range(0, self.n_rows or 0, self.rows)):
            X, y, w = (_portion(array, start, start + self.rows) for array in (self.X, self.y, self.weights))
            found.append(ArrayPart(X, y, w, f"block {number}", start, self.rows, self.feature_names, self.columns))
        return found

    def only_labels(self) -> "ArraySource":
        return ArraySource(None, self.y, None, self.rows)


@dataclass(frozen=True)
class MappedRows:
    """Rows of a memory-mapped file: pickled as its name, and mapped only while they are read.

    A mapping of the whole file would count as memory in use as its pages are touched, up to the size of the file.
    """

    path: str
    dtype: Any
    offset: int
    shape: tuple[int, ...]

    def open(self) -> Any:
        try:
            return np.memmap(check_file(self.path), self.dtype, mode="r", offset=self.offset, shape=self.shape)
        except ValueError as error:
            raise ValueError(f"{self.path} changed while it was read: {error}") from error


def check_columns(X: Any, columns: Sequence[Any] | None) -> list[Any] | None:
    """Return the columns of an array or a data frame, which must exist."""
    if columns is None:
        return None
    if hasattr(X, "iloc"):
        return choose_features(list(X.columns), None, None, "the data frame", columns)
    numbers = [column for column in columns if isinstance(column, int | np.integer)]
    if len(numbers) < len(columns) or not numbers or not -X.shape[1] <= min(numbers) <= max(numbers) < X.shape[1]:
        raise ValueError(f"columns of an array are numbers from 0 to {X.shape[1] - 1}; got {list(columns)[:20]}")
    return list(columns)


def string_names(columns: Iterable[Any]) -> tuple[str, ...] | None:
    """Return the names of columns if all are strings, as scikit-learn does: numbers only count the columns."""
    names = tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def _portion(values: Any, start: int, stop: int) -> Any:
    # The rows of the file in order: not a view, whose place in the file is unknown, nor a changed copy.
    is_map = isinstance(values, np.memmap) and isinstance(values.base, mmap.mmap) and values.filename is not None
    if is_map and values.mode != "c" and values.flags.c_contiguous:
        shape = (min(stop, len(values)) - start, *values.shape[1:])
        size = values.dtype.itemsize * int(np.prod(values.shape[1:], dtype=np.int64))
        return MappedRows(str(values.filename), values.dtype, values.offset + start * size, shape)
    return _slice(values, start, stop)


def _slice(values: Any, start: int, stop: int | None) -> Any:
    if values is None:
        return None
    return values.iloc[start:stop] if hasattr(values, "iloc") else values[start:stop]


def _length(values: Any) -> int:
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def _load(values: Any) -> Any:
    """An .npy file as a memory map; anything else as it is."""
    if not isinstance(values, str | os.PathLike):
        return values
    if not os.fspath(values).endswith(".npy"):
        raise ValueError(f"y must be labels or an .npy file; got {values!r}. Name a column of a file with label=")
    return mapped_npy(values)


def _refuse(said: str, **given: Any) -> None:
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} cannot be given with {said}")


# Files ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TablePart:
    """Some rows of a file, in blocks of at most as many rows as ``how``, a source without its files, says."""

    file: File
    number: int
    run: tuple[int, ...]
    start: int
    how: "TableSource"

    def blocks(self) -> Iterator[Block]:
        how, start, name = self.how, self.start, self.file.called(self.run)
        for rows in self.file.frames(how.reading, self.run, start):
            read, lost = len(rows.frame), 0
            if how.skip_unlabeled and how.label_read:
                missing = missing_labels(rows.frame[how.label_read])
                if lost := int(missing.sum()):
                    rows = rows[np.flatnonzero(~missing)]
            n, frame = len(rows.frame), rows.frame
            y, weights = (frame[column] if column else None for column in (how.label_read, how.weights))
            X: Any = None
            if how.numbers is None:
                X = FrameRows(frame[list(how.features)], rows.names if how.named else None, np.full(n, self.number))
            elif how.features:
                X = self._matrix(frame, Block(frame, None, None, name, start))
            names = how.features if how.numbers is not None and how.features else None
            yield replace(make_block(X, y, weights, name, start, names), unlabeled=lost)
            start += read

    def _matrix(self, frame: Any, block: Block) -> Any:
        columns = {}
        for name in self.how.features:
            column = frame[name]
            kind = column_kind(column) if isinstance(self.file, TextFile) else "of the schema"
            if kind in ("int", "float", "bool") and (kind == "bool") != (name in self.how.booleans[self.number]):
                said = ("booleans", "numbers") if kind == "bool" else ("numbers", "booleans")
                block.refuse(f"column {name!r} has {said[0]}, but {said[1]} in the first rows; make them one kind")
            if getattr(column.dtype, "kind", "O") not in "fiub":
                try:
                    columns[name] = as_numbers(column, name)
                except ValueError as error:
                    block.refuse(str(error))
        chosen = frame[list(self.how.features)]
        return as_matrix(chosen.assign(**columns) if columns else chosen).astype(self.how.numbers, copy=False)


class TableSource(Source):
    """Parquet or CSV files with the same columns; their blocks hold :class:`FrameRows`, or numbers.

    A part is a text file, or as many row groups of a Parquet file as fill a block.
    """

    def __init__(
        self,
        files: Sequence[File],
        features: Sequence[str],
        label: str | None,
        weights: str | None,
        reading: Reading,
    ) -> None:
        self.files, self.features, self.reading = files, tuple(features), reading
        self.label = self.label_read = label
        self.skip_unlabeled = False  # if not, a row without a label is an error
        self.weights = weights
        self.named = True  # whether what a file calls its rows can be their names
        self.numbers: Any = None  # the type of the matrix; if None, the blocks hold data frames
        self.booleans: list[frozenset[str]] = []  # of each file, if the blocks hold numbers
        self.is_text = any(isinstance(file, TextFile) for file in files)
        self.has_labels = label is not None
        self.no_rows = f"{files[0].path} is empty: it has {len(files[0].names)} columns and no rows"
        lengths = [file.n_rows for file in files]
        self.n_rows = None if None in lengths else sum(n or 0 for n in lengths)

    def parts(self, whole_files: bool = False) -> list[TablePart]:
        """Return the parts; with ``whole_files``, blocks do not begin again with each row group."""
        how, rows = self.changed(files=()), None if whole_files else self.reading.rows
        runs = ((file, number, *run) for number, file in enumerate(self.files) for run in file.runs(rows))
        return [TablePart(*run, how) for run in runs]

    def changed(self, **attributes: Any) -> "TableSource":
        source = copy(self)
        vars(source).update(attributes)
        return source

    def as_text(self, columns: Iterable[Any]) -> "TableSource":
        """Return the same rows with further columns of text files read as they are written."""
        return self.changed(reading=self.reading._replace(text=self.reading.text | frozenset(columns)))

    def only(self, features: Sequence[str]) -> "TableSource":
        """Return the same rows with only these features; text files must have been read before, to check all rows."""
        columns = [*features, *(name for name in (self.label_read, self.weights) if name)]
        return self.changed(features=tuple(features), reading=self.reading._replace(columns=columns))

    def only_labels(self) -> "TableSource":
        return self.changed(weights=None, feature_names=None, numbers=np.float64).only(())


def open_tables(
    path: Any,
    label: str | None = None,
    weights: str | None = None,
    drop: Sequence[str] = (),
    *,
    columns: Sequence[str] | None = None,
    rows: int | None = ROWS,
    kinds: Mapping[str, str] | None = None,
    encoding: str | None = None,
) -> TableSource:
    """Open Parquet or CSV files as blocks of data frames, with the meaning that :func:`read_table` gives them.

    The columns of files after the first may be in another order; further ones are ignored. ``path`` is a file, a
    folder, a pattern or a list of them; ``columns`` are the features. The other parameters are those of ``read_table``.
    """
    found = table_files(path)
    if other := [one for one in found if table_suffix(one) not in TABLES]:
        raise ValueError(f"{other[0]} is not a Parquet or CSV file; only these are read in blocks")
    files = [open_file(one, encoding) for one in found]
    first = files[0]
    features = choose_features(first.names, label, weights, first.path, columns, drop)
    needed = [*features, *(name for name in (label, weights) if name)]
    for file in files[1:]:
        for name in needed:
            if name not in file.names:
                no_such(name, file.names, f"{file.path}, unlike {first.path}, has no column")
        if isinstance(file, ArrowFile) and isinstance(first, ArrowFile):
            _check_same_types(file, first, needed)
    source = TableSource(files, features, label, weights, Reading(rows, label, kinds=kinds or {}))
    return source if source.is_text else source.only(features)


def read_together(
    paths: Sequence[str], label: str | None, weights: str | None, drop: Sequence[str], **how: Any
) -> tuple[FrameRows, list[str]]:
    """Return all rows of several files, with label and weights, and the features among their columns.

    ``how`` has ``kinds`` and ``encoding`` of :func:`open_tables`. A column is what all rows together say it is.
    """
    source = open_tables(list(paths), label, weights, drop, **how)
    source = source if how.get("kinds") else settled(source)
    columns = (*source.features, *(name for name in (label, weights) if name))
    plain = source.changed(label_read=None, weights=None, features=columns)
    pieces = [block.X for block in plain.blocks() if len(block)]
    if not pieces:
        raise ValueError(source.no_rows)
    return FrameRows(join_rows(pieces).frame.reset_index(drop=True)), list(source.features)


def settled(source: TableSource, columns: Sequence[str] | None = None, **how: Any) -> TableSource:
    """Return the source with what each column is decided by all of its rows, as :func:`read_table` decides it.

    Text files are read once for it; Parquet has a schema. A column is text if any of its cells is, or if it mixes
    numbers and booleans. Only some ``columns`` may be decided about; "" has the names of the rows.
    """
    headers = {name for file in source.files if isinstance(file, TextFile) for name in file.header}
    if not headers or (columns is not None and not headers & set(columns)):
        return source
    chosen: list[Any] = [*source.features, source.label] if columns is None else list(columns)
    reading = source.reading._replace(columns=None if columns is None else chosen)
    bare = source.changed(label_read=None, weights=None, numbers=None, features=tuple(filter(None, chosen)))
    seen: Counter[tuple[str, str]] = reduce_blocks(bare.changed(reading=reading), _block_kinds, **how)
    kinds: dict[str, set[str]] = {}
    for name, kind in seen:
        kinds.setdefault(name, set()).add("number" if kind in ("int", "float") else kind)
    text = [name for name, found in kinds.items() if "text" in found or {"bool", "number"} <= found]
    return source.as_text(text).changed(named="" in text or "other" not in kinds.get("", ()))


def _number_kinds(file: File, source: TableSource) -> dict[str, str]:
    """What the features of a file hold, which must be numbers or booleans."""
    if isinstance(file, ArrowFile):
        kinds = dict(file.kinds)
    else:
        first = next(file.frames(Reading(CHECKED, source.label))).frame
        kinds = {name: column_kind(first[name]) for name in first.columns}
    known = ("int", "float", "float32", "decimal", "bool", "null", "empty")
    other = [f"{name!r} ({kinds[name]})" for name in source.features if kinds[name] not in known]
    if other:
        raise ValueError(
            f"{file.path} has {len(other)} columns that are not numbers: {', '.join(other[:5])}; name the features "
            "with columns=[...], or turn these into numbers first"
        )
    return {name: kinds[name] for name in source.features}


def _block_kinds(block: Block) -> Counter[tuple[str, str]]:
    frame, names = block.X.frame, block.X.names
    of_names = "other" if names is None else "text" if names.dtype.kind == "O" else "int"
    return Counter([*((name, column_kind(frame[name])) for name in frame.columns), ("", of_names)])


def _check_same_types(file: ArrowFile, first: ArrowFile, needed: Sequence[str]) -> None:
    numbers = {"int": "numbers", "float": "numbers", "float32": "numbers", "decimal": "numbers"}
    kinds, expected = ({name: numbers.get(kind, kind) for name, kind in one.kinds} for one in (file, first))
    for name in needed:
        if kinds[name] != expected[name] and "null" not in (kinds[name], expected[name]):
            raise ValueError(
                f"the column {name!r} holds {kinds[name]} in {file.path}, but {expected[name]} in {first.path}; "
                "write it as one type in all files"
            )


# Iterables ------------------------------------------------------------------------------------------------------------


class IterableSource(Source):
    """An iterable of X, (X, y), (X, y, weights) or :class:`Block`, or a function without arguments that returns one.

    It is one part: the blocks come one after the other, and the work on them may be done in parallel. All of them have
    labels, weights and columns if the first has, and are sparse if it is.
    """

    in_process = True

    def __init__(self, iterable: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self.iterable = iterable
        # An iterator is used up by reading; a list or a function starts again.
        self.rereadable = not isinstance(iterable, Iterator)
        used = "an iterator that was read before has none left: give a function that returns a new one"
        self.no_rows = f"the source has no rows; {'check the generator' if self.rereadable else used}"
        self.with_features = True
        self._started = False

    def parts(self) -> list["IterableSource"]:
        return [self]

    def only_labels(self) -> "IterableSource":
        labels = IterableSource(self.iterable)
        labels.with_features = False
        return labels

    def blocks(self) -> Iterator[Block]:
        if self._started and not self.rereadable:
            raise ValueError("this iterator cannot be read again; give a function that returns a new one")
        self._started = True
        start, first = 0, None
        for number, item in enumerate(self.iterable() if callable(self.iterable) else self.iterable):
            block = self._block(item, f"block {number}", start)
            if first is None:
                first, self.feature_names = _form(block), block.feature_names
            for found, wanted in zip(_form(block), first, strict=True):
                if found != wanted:
                    block.refuse(f"{found}, but {wanted} in the first block; make all blocks the same")
            mine, expected = block.feature_names, self.feature_names
            if mine is not None and expected is not None and tuple(mine) != tuple(expected):
                block.refuse(
                    f"the columns are {list(mine)[:10]}, but {list(expected)[:10]} in the first block; give all blocks "
                    "the same columns in the same order"
                )
            start += len(block)
            yield block

    def _block(self, item: Any, name: str, start: int) -> Block:
        names = None
        if isinstance(item, Block):
            fields: Sequence[Any] = (item.X, item.y, item.weights)
            name, start, names = item.name, item.start, item.feature_names
        else:
            fields = item if isinstance(item, tuple | list) else (item,)
        if not 1 <= len(fields) <= 3:
            raise BlockError(f"{name}: a block is (X, y) or (X, y, weights); got {len(fields)} things")
        X, y, weights = (*fields, None, None)[:3]
        if names is None and hasattr(X, "columns"):
            names = string_names(X.columns)
        if not self.with_features and y is not None:
            X = weights = names = None
        return make_block(X, y, weights, name, start, names)


def _form(block: Block) -> list[str]:
    """What all blocks must have in common, as errors say it; the first block itself is not kept."""
    return [
        "there are no labels" if block.y is None else "there are labels",
        "there are no weights" if block.weights is None else "there are weights",
        "X is sparse" if sparse.issparse(block.X) else "X is dense",
        f"X has {block.X.shape[1]} columns",
    ]
