"""CSV and TSV files, a few megabytes at a time."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from unflip.sources.block import Block
from unflip.sources.source import Source
from unflip.sources.tables import Columns, batch_block, choose_columns, pyarrow
from unflip.tables.frames import SEPARATORS, _is_number
from unflip.tables.table import TAB

BYTES = 2**22  # that pyarrow parses at a time


@dataclass(frozen=True)
class CSVPart:
    """One file, from its beginning to its end."""

    path: str
    columns: Columns
    booleans: frozenset[str]  # features that are True and False in this file
    label_type: str
    rows: int

    def blocks(self) -> Iterator[Block]:
        start = 0
        types = {name: "bool" if name in self.booleans else "float64" for name in self.columns.features}
        types |= {self.columns.label: self.label_type} if self.columns.label else {}
        types |= {self.columns.weights: "float64"} if self.columns.weights else {}
        try:
            with _open(self.path, self.columns.names, types) as reader:
                for batch in reader:
                    for first in range(0, batch.num_rows, self.rows):
                        part = batch.slice(first, self.rows)
                        yield batch_block(part, self.columns, self.path, start)
                        start += part.num_rows
        except (pyarrow("CSV").ArrowInvalid, OSError) as error:
            raise ValueError(f"{self.path}, after row {start}, cannot be read as a table: {error}") from error


class CSVSource(Source):
    """CSV files with a header and the same columns; a part is a file.

    Parameters
    ----------
    paths : sequence of str
        In UTF-8, compressed if it ends in ``.gz``.
    label, weights, columns, rows
        As in :class:`ParquetSource`. Whether the labels are numbers, booleans or strings is seen in the first megabytes
        of each file; if they are strings in one they are in all.
    """

    def __init__(
        self, paths: Sequence[str], label: str | None, weights: str | None, columns: Sequence[str] | None, rows: int
    ) -> None:
        self.paths, self.rows = paths, rows
        self.has_labels = label is not None
        schemas = []
        for path in paths:
            schemas.append(_schema(path))
            if len(schemas) == 1:
                self.columns = choose_columns(schemas[0], path, label, weights, columns)
            else:
                choose_columns(schemas[-1], path, label, weights, self.columns.features)
        self.booleans = [_booleans(schema, self.columns.features) for schema in schemas]
        self.label_type = "null" if label is None else _label_type(paths, [schema.field(label) for schema in schemas])
        self.feature_names = self.columns.features

    def parts(self) -> list[CSVPart]:
        return [
            CSVPart(path, self.columns, booleans, self.label_type, self.rows)
            for path, booleans in zip(self.paths, self.booleans, strict=True)
        ]

    def only_labels(self) -> "CSVSource":
        labels = copy(self)
        labels.columns, labels.feature_names = self.columns.only_label(), None
        return labels


def _schema(path: str) -> Any:
    try:
        with _open(path) as reader:
            schema = reader.schema
    except (pyarrow("CSV").ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from error
    if schema.names and all(_is_number(name) for name in schema.names):
        raise ValueError(
            f"{path}: the first line must name the columns, but it holds numbers: {', '.join(schema.names[:5])}"
        )
    return schema


def _booleans(schema: Any, features: Sequence[str]) -> frozenset[str]:
    is_boolean = pyarrow("CSV").types.is_boolean
    return frozenset(name for name in features if is_boolean(schema.field(name).type))


def _label_type(paths: Sequence[str], fields: Sequence[Any]) -> str:
    """Return one type for the labels of all files; where a file has none, the others decide."""
    types = pyarrow("CSV").types
    known = ((types.is_integer, "int64"), (types.is_floating, "double"), (types.is_boolean, "bool"))
    seen: dict[str, str] = {}  # the first file of each type
    for path, field in zip(paths, fields, strict=True):
        if not types.is_null(field.type):
            seen.setdefault(next((name for test, name in known if test(field.type)), "string"), path)
    if not seen or "string" in seen:
        return "string"
    numbers = [name for name in ("double", "int64") if name in seen]
    if numbers and "bool" in seen:  # pyarrow would take 0 and 1 for booleans too
        raise ValueError(
            f"the labels are booleans in {seen['bool']}, but numbers in {seen[numbers[0]]}; make all of one kind"
        )
    return numbers[0] if numbers else "bool"


def _open(path: str, include: list[str] | None = None, types: dict[str, str] | None = None) -> Any:
    pyarrow("CSV")
    from pyarrow import csv

    return csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=BYTES),
        parse_options=csv.ParseOptions(delimiter=_separator(path)),
        convert_options=csv.ConvertOptions(include_columns=include, column_types=types, strings_can_be_null=True),
    )


def _separator(path: str) -> str:
    if path.lower().removesuffix(".gz").endswith(TAB):
        return "\t"
    with pyarrow("CSV").input_stream(path) as stream:
        header = stream.read(2**16).split(b"\n")[0].decode("utf-8", "replace")
    return "," if "," in header else next((mark for mark in SEPARATORS if mark in header), ",")
