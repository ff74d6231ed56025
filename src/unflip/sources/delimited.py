"""CSV and TSV files, a few megabytes at a time."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from unflip.sources.block import Block
from unflip.sources.source import Source
from unflip.sources.tables import Columns, batch_block, choose_columns, pyarrow

SEPARATORS = ";\t|"  # of a .csv whose first line has no comma
TABS = (".tsv", ".tab")
BYTES = 2**22  # that pyarrow parses at a time


@dataclass(frozen=True)
class CSVPart:
    """One file, from its beginning to its end."""

    path: str
    columns: Columns
    label_type: str
    rows: int

    def blocks(self) -> Iterator[Block]:
        start = 0
        types = dict.fromkeys(self.columns.features, "float64")
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
        As in :class:`ParquetSource`. Whether the labels are numbers or strings is seen in the first megabytes.
    """

    def __init__(
        self, paths: Sequence[str], label: str | None, weights: str | None, columns: Sequence[str] | None, rows: int
    ) -> None:
        self.paths, self.rows = paths, rows
        self.has_labels = label is not None
        for path in paths:
            schema = _schema(path)
            if path == paths[0]:
                self.columns = choose_columns(schema, path, label, weights, columns)
                self.label_type = "null" if label is None else _label_type(schema.field(label).type)
            else:
                choose_columns(schema, path, label, weights, self.columns.features)
        self.feature_names = self.columns.features

    def parts(self) -> list[CSVPart]:
        return [CSVPart(path, self.columns, self.label_type, self.rows) for path in self.paths]

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


def _label_type(kind: Any) -> str:
    types = pyarrow("CSV").types
    return str(kind) if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) else "string"


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
    if path.lower().removesuffix(".gz").endswith(TABS):
        return "\t"
    with pyarrow("CSV").input_stream(path) as stream:
        header = stream.read(2**16).split(b"\n")[0].decode("utf-8", "replace")
    return "," if "," in header else next((mark for mark in SEPARATORS if mark in header), ",")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower() not in ("nan", "inf", "infinity")
