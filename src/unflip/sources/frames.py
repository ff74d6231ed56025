"""Tables in files of any size as blocks of data frames: numbers, categories and missing values as they are."""

import os
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unflip._validation import FloatArray, IntArray
from unflip.sources.block import Block, BlockError, make_block
from unflip.sources.csv_frames import CSVFile, open_csv
from unflip.sources.open import PARQUET, ROWS, TEXT, _paths
from unflip.sources.parquet_frames import ParquetFile, open_parquet
from unflip.sources.source import Source
from unflip.tables.frames import _pandas, no_such
from unflip.tables.labels import stripped_labels


@dataclass(frozen=True, eq=False)
class FrameRows:
    """Rows of a table: the X of a :class:`Block` that has not been made numbers yet.

    Attributes
    ----------
    frame : DataFrame
    files, rows : ndarray of shape (n_rows,)
        Where each row comes from: the number of its file, and its own in that file.
    kinds : dict of str to str
        What the columns of a text file were taken for, see :class:`~unflip.sources.csv_frames.CSVFile`.
    """

    frame: Any
    files: IntArray
    rows: IntArray
    kinds: dict[str, str] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.frame), len(self.frame.columns))

    def __getitem__(self, chosen: Any) -> "FrameRows":
        return FrameRows(self.frame.iloc[chosen], self.files[chosen], self.rows[chosen])

    def numbered(self) -> Any:
        """The data frame with the rows' numbers in their file as its index, so that an error names them so."""
        frame = self.frame.copy(deep=False)
        frame.index = _pandas("tables").Index(self.rows)
        return frame


def join_rows(pieces: Sequence[FrameRows]) -> FrameRows:
    """Return the rows of all pieces, one after the other."""
    pd = _pandas("tables")
    joined = pd.DataFrame({name: _joined([piece.frame[name] for piece in pieces]) for name in pieces[0].frame.columns})
    files, rows = (np.concatenate([getattr(piece, what) for piece in pieces]) for what in ("files", "rows"))
    joined.index = pd.Index(rows)  # so that what is said of a row names it as its file counts
    return FrameRows(joined, files, rows)


@dataclass(frozen=True)
class FramePart:
    """Some rows of a file, in blocks of at most ``rows``."""

    file: CSVFile | ParquetFile
    number: int
    run: tuple[int, ...]
    start: int
    rows: int
    features: tuple[str, ...] | None
    label: str | None
    weights: str | None
    text: frozenset[str]

    def blocks(self) -> Iterator[Block]:
        start, name = self.start, self.file.called(self.run)
        columns = [*(self.features or ()), *(name for name in (self.label, self.weights) if name)]
        for frame, kinds in self.file.frames(
            self.run, start, columns if self.features is not None else None, self.rows, self.label, self.text
        ):
            n = len(frame)
            said = f"the label {self.label!r} of {name}"
            y = stripped_labels(frame[self.label], said, start) if self.label else None
            weights = None if self.weights is None else self._weights_of(frame[self.weights], name, start)
            checked = make_block(None, range(n) if y is None else y, weights, name, start)
            chosen = frame if self.features is None else frame[list(self.features)]
            rows = FrameRows(chosen, np.full(n, self.number), np.arange(start, start + n), kinds)
            yield replace(checked, X=rows, y=None if y is None else checked.y)
            start += n

    def _weights_of(self, column: Any, name: str, start: int) -> FloatArray:
        """The weights as numbers; of text and dates the first is named, with its block."""
        plain = isinstance(column.dtype, np.dtype)
        values = column.to_numpy() if plain else column.astype(object).to_numpy(na_value=np.nan)
        try:
            if values.dtype.kind not in "biufO":
                raise ValueError
            return values.astype(np.float64)
        except (TypeError, ValueError) as error:
            read = _pandas("tables").to_numeric(column.astype(object), errors="coerce")
            row = int((read.isna() & column.notna()).to_numpy().argmax())
            raise BlockError(
                f"{name}, rows {start} to {start + len(values) - 1}: the weights {self.weights!r} must be one number "
                f"per row, but row {start + row} has {str(values[row])!r}; name another column"
            ) from error


class FrameSource(Source):
    """Parquet or CSV files of the same columns, whose blocks hold :class:`FrameRows`.

    Parameters
    ----------
    files : list of CSVFile or ParquetFile
    features : sequence of str or None
        Columns to read; None is all, and the index.
    label, weights : str or None
    rows : int
        In a block, at most.
    """

    def __init__(
        self,
        files: Sequence[CSVFile | ParquetFile],
        features: Sequence[str] | None,
        label: str | None,
        weights: str | None,
        rows: int,
    ) -> None:
        self.files, self.rows = files, rows
        self.features = None if features is None else tuple(features)
        self.label, self.weights = label, weights
        self.text: frozenset[str] = frozenset()
        self.has_labels = label is not None
        lengths = [file.n_rows for file in files]
        self.n_rows = None if None in lengths else sum(n or 0 for n in lengths)

    def parts(self) -> list[FramePart]:
        return [part for number in range(len(self.files)) for part in self._parts_of(number, self.rows)]

    def whole_files(self) -> list[FramePart]:
        """One part a file, so that the blocks do not begin anew with a row group."""
        largest = np.iinfo(np.int64).max
        return [part for number in range(len(self.files)) for part in self._parts_of(number, int(largest))]

    def as_text(self, columns: frozenset[str]) -> "FrameSource":
        """The same rows with further columns of text files read as text."""
        source = copy(self)
        source.text = self.text | columns
        return source

    def only(self, features: Sequence[str]) -> "FrameSource":
        """The same rows with these columns alone, once all of the files has been read or is known by its schema."""
        source = copy(self)
        source.features = tuple(features)
        source.files = [replace(file, checked=True) if isinstance(file, CSVFile) else file for file in self.files]
        return source

    def _parts_of(self, number: int, run_rows: int) -> list[FramePart]:
        file = self.files[number]
        rest = (self.rows, self.features, self.label, self.weights, self.text)
        return [FramePart(file, number, run, start, *rest) for run, start in file.runs(run_rows)]


def open_frames(
    path: str | os.PathLike[str],
    label: str | None = None,
    weights: str | None = None,
    drop: Sequence[str] = (),
    rows: int = ROWS,
) -> FrameSource:
    """Open a Parquet or CSV file, a folder or a pattern of such files as blocks of data frames.

    The columns of files after the first may stand in another order; further ones are ignored.

    Parameters
    ----------
    path : path-like
    label, weights : str, default=None
        Their columns. Without a label all columns are read, and the index.
    drop : sequence of str, default=()
        Columns to leave out.
    rows : int, default=65536
        In a block, at most.
    """
    files = [_open_file(found) for found in table_files(path)]
    first = files[0]
    dropped = [drop] if isinstance(drop, str) else drop
    named = [name for name in (label, weights, *dropped) if name is not None]
    for name in named:
        if name not in first.names:
            no_such(name, first.names, f"{first.path} has no column")
    if label is not None and label == weights:
        raise ValueError(f"label and weights are both {label!r}; name two columns")
    features = [name for name in first.names if name not in named]
    if not features:
        raise ValueError(f"{first.path} has no column beside label, weights and those dropped; nothing to learn from")
    needed = [*features, *(name for name in (label, weights) if name)]
    for file in files[1:]:
        _check_columns(file, first, needed)
    return FrameSource(files, None if label is None else features, label, weights, rows)


def table_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the Parquet or CSV files that a path names: itself, those of a folder or of a pattern."""
    found = _paths(os.fspath(path)) or []
    other = [one for one in found if not one.lower().endswith((*PARQUET, *TEXT))]
    if other:
        raise ValueError(f"{other[0]} is no Parquet or CSV file; only these are read in blocks")
    return found


def _joined(columns: list[Any]) -> Any:
    pd = _pandas("tables")
    types = {column.dtype for column in columns}
    if len(types) == 1:
        return pd.concat(columns, ignore_index=True)
    if all(getattr(dtype, "kind", "O") in "iuf" for dtype in types):
        return pd.concat([column.astype(np.float64) for column in columns], ignore_index=True)
    # Text beside a block without any value, or categories that differ: by their values.
    together = pd.concat([column.astype(object) for column in columns], ignore_index=True)
    return together.astype("category") if any(isinstance(dtype, pd.CategoricalDtype) for dtype in types) else together


def _open_file(path: str) -> CSVFile | ParquetFile:
    return open_parquet(path) if path.lower().endswith(PARQUET) else open_csv(path)


def _check_columns(file: CSVFile | ParquetFile, first: CSVFile | ParquetFile, needed: Sequence[str]) -> None:
    for name in needed:
        if name not in file.names:
            no_such(name, file.names, f"{file.path}, unlike {first.path}, has no column")
    if isinstance(file, ParquetFile) and isinstance(first, ParquetFile):
        kinds, expected = dict(file.kinds), dict(first.kinds)
        for name in needed:
            if kinds[name] != expected[name] and "null" not in (kinds[name], expected[name]):
                raise ValueError(
                    f"the column {name!r} holds {kinds[name]} in {file.path}, but {expected[name]} in {first.path}; "
                    "write it as one type in all files"
                )
