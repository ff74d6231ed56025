"""CSV and TSV files as data frames of some rows, read with the meaning that :func:`unflip.tables.read_table` gives."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unflip.tables.frames import CHECKED, CSVFormat, _pandas, find_format, readable
from unflip.tables.table import TAB

Kinds = dict[str, str]  # of columns: "empty", "int", "float", "bool" or "text"


@dataclass(frozen=True)
class CSVFile:
    """A text file with a header; a first column without name is the index of its rows.

    A cell has no type of its own: pandas takes a column as numbers, booleans or text by all of its cells, and of a part
    of the rows it may see less than of all. :func:`column_kinds` tells what it saw; columns that turn out to hold more
    than one kind are read again as ``text``, which is what the whole column would be.
    """

    path: str
    format: CSVFormat
    checked: bool = False  # all of it was read before: no row is longer than the header
    n_rows: int | None = None

    @property
    def names(self) -> list[str]:
        return [name for name in self.format.header if name]

    def runs(self, rows: int) -> list[tuple[tuple[int, ...], int]]:
        """One run: a text file can only be read from its beginning."""
        return [((), 0)]

    def called(self, run: tuple[int, ...]) -> str:
        return self.path

    def frames(
        self, run: tuple[int, ...], start: int, columns: Sequence[str] | None, rows: int, label: str | None, text: Any
    ) -> Iterator[tuple[Any, Kinds]]:
        """Read the columns (None is all), ``rows`` at a time, with the kind of each."""
        pd = _pandas("CSV")
        options = self.format.options(label)
        options["dtype"] = {name or "Unnamed: 0": str for name in text if name in self.format.header}
        if self.checked and columns is not None:  # pandas overlooks long rows where it does not take all columns
            options["usecols"] = list(columns)
        with readable(self.path):
            reader = pd.read_csv(self.path, chunksize=rows, **options)
        with reader:
            while True:
                with readable(self.path):
                    frame = next(reader, None)
                if frame is None:
                    return
                unnamed = frame.columns[0]  # the name that pandas makes up for it
                if columns is not None:
                    frame = frame[list(columns)]
                frame = self.format.tidied(frame, label)
                kinds = column_kinds(frame)
                if columns is None and self.format.header[0] == "":
                    kinds[""] = kinds.pop(unnamed)
                    frame = frame.set_index(unnamed)
                yield frame, kinds


def open_csv(path: str) -> CSVFile:
    """Find separator and columns of a file, and refuse one whose rows are longer than its header."""
    pd = _pandas("CSV")
    with readable(path):
        separator = "\t" if path.lower().removesuffix(".gz").endswith(TAB) else ","
        # Here and not where the rows are read: that is done in threads, which have the filters of warnings in common.
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more cells in a row than names
            file = CSVFile(path, find_format(Path(path), separator))
            pd.read_csv(path, nrows=CHECKED, **file.format.options(None))
    return file


def column_kinds(frame: Any) -> Kinds:
    """Return what pandas took each column of a text file for."""
    return {name: _kind(frame[name]) for name in frame.columns}


def mixed_columns(seen: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Return the columns that are of one kind here and of another there, with the words that say where.

    Parameters
    ----------
    seen : dict of (column, kind) to str
        Where a column was first taken for which kind.
    """
    places: dict[str, dict[str, str]] = {}
    for (name, kind), where in seen.items():
        if kind != "empty":
            said = "numbers" if kind in ("int", "float") else kind
            places.setdefault(name, {}).setdefault(said, where)
    return {
        name: " and ".join(f"{kind} ({where})" for kind, where in sorted(of.items()))
        for name, of in places.items()
        if len(of) > 1
    }


def _kind(column: Any) -> str:
    code = getattr(column.dtype, "kind", "O")
    if code in "iu":
        return "int"
    if code == "f":
        return "float" if column.notna().any() else "empty"
    if code == "b":
        return "bool"
    first = column.first_valid_index()
    return "empty" if first is None else "bool" if isinstance(column.loc[first], bool) else "text"
