"""Parquet and Arrow files, read by row groups or batches; the schema says what a column is."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from unflip._input import check_file, check_limit, parse_json
from unflip.tables.read import PARQUET, FrameRows, Reading, check_unique, class_names, row_names, table_suffix

# What damaged files make pyarrow, and what reads its metadata, raise; its own errors are kinds of these.
BROKEN = (OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RuntimeError, MemoryError)
BUFFER = 2**17  # bytes per column that are read of a Parquet file at once


@dataclass(frozen=True)
class ArrowFile:
    """A Parquet or Arrow file: its row groups or batches, its columns, and the index that pandas noted in it."""

    path: str
    sizes: tuple[int, ...]
    kinds: tuple[tuple[str, str], ...]  # the type of each column
    index: str | None  # the column with the names of the rows
    hidden: tuple[str, ...]  # further columns of the index
    first: int  # of an index that counts
    step: int
    classes: tuple[tuple[str, tuple[str, ...]], ...] = ()  # columns of codes, as Hugging Face writes them, and names

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
        said = "row group" if table_suffix(self.path) in PARQUET else "batch"
        several = "es" if said == "batch" else "s"
        return f"{self.path}, {said}" + (f" {run[0]}" if len(run) == 1 else f"{several} {run[0]} to {run[-1]}")

    def frames(self, how: Reading, run: tuple[int, ...] | None = None, start: int = 0) -> Iterator[FrameRows]:
        """Read one of the runs, or all of the file; the schema says what a column is."""
        run = tuple(range(len(self.sizes))) if run is None else run
        chosen = [*(self.names if how.columns is None else how.columns), *([self.index] if self.index else [])]
        whole = how.rows is None
        n = sum(self.sizes[number] for number in run)  # rows that are left
        try:
            with _opened(self.path) as file:
                # No threads of its own for a block: other parts are read at the same time.
                batches = file.iter_batches(how.rows or max(self.n_rows, 1), list(run), chosen, use_threads=whole)
                for table in _regrouped(batches, file.schema_arrow, how.rows):
                    counted = range(start, start + table.num_rows)
                    names: Any = self.first + self.step * np.array(counted)
                    if self.index:
                        names = row_names(table.column(self.index).to_pandas(), True)
                        table = table.drop_columns([self.index])
                    frame = table.to_pandas(use_threads=whole, ignore_metadata=True)
                    frame.index = counted
                    for name, classes in self.classes:
                        if name in frame:
                            frame[name] = class_names(frame[name], classes)
                    yield FrameRows(frame, None if self.hidden else names)
                    start = counted.stop
                    n -= counted.stop - counted.start
                if n:
                    raise ValueError(
                        f"it changed while it was read; it has {sum(self.sizes) - n} rows instead of {sum(self.sizes)}"
                    )
        except PermissionError:
            raise
        except BROKEN as error:
            raise ValueError(f"{self.called(run)} cannot be read: {_said(error)}") from error


def open_arrow(path: str) -> ArrowFile:
    """Read what a file says about itself."""
    try:
        with _opened(path) as file:
            schema, sizes, index = file.schema_arrow, _sizes(file), _index_columns(file)
        check_unique(schema.names)
        check_limit("UNFLIP_MAX_COLUMNS", len(schema.names), f"it has {len(schema.names):,} columns")
        counted = next((item for item in index if isinstance(item, dict)), {})
        hidden = [item for item in index if isinstance(item, str) and item in schema.names]
        names = hidden.pop() if len(hidden) == 1 and _names_rows(path, schema, hidden[0]) else None
        classes = _class_labels(schema)
        kinds = tuple((field.name, "text" if field.name in classes else _arrow_kind(field.type)) for field in schema)
        first, step = counted.get("start", 0), counted.get("step", 1)
        return ArrowFile(path, sizes, kinds, names, tuple(hidden), int(first), int(step), tuple(classes.items()))
    except (FileNotFoundError, PermissionError):
        raise
    except BROKEN as error:
        raise ValueError(f"{path} cannot be read as {_format(path)}: {_said(error)}") from error


def _said(error: Exception) -> str:
    """What an error about a damaged file says; those of lookups are only a key."""
    return f"it is damaged ({type(error).__name__}: {error})" if isinstance(error, LookupError) else str(error)


def _format(path: str) -> str:
    return "Parquet" if table_suffix(path) in PARQUET else "Arrow"


def _index_columns(file: Any) -> list[Any]:
    return (file.schema_arrow.pandas_metadata or {}).get("index_columns", [])


def _sizes(file: Any) -> tuple[int, ...]:
    if isinstance(file, ArrowBatches):
        return file.sizes
    return tuple(file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups))


def _names_rows(path: str, schema: Any, name: str) -> bool:
    """Whether a column of the index is text, or whole numbers without missing values."""
    kind, place = _arrow_kind(schema.field(name).type), schema.names.index(name)
    if kind != "int":
        return kind == "text"
    with _opened(path) as file:
        if isinstance(file, ArrowBatches):
            return all(batch.column(0).null_count == 0 for batch in file.iter_batches(None, None, [name]))
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        statistics = [group.column(place).statistics for group in groups]
    return all(found is not None and found.null_count == 0 for found in statistics)


def _class_labels(schema: Any) -> dict[str, tuple[str, ...]]:
    """The names of classes whose codes are in the columns of a file that Hugging Face's ``datasets`` wrote."""
    noted = parse_json((schema.metadata or {}).get(b"huggingface", b"{}").decode())
    features = noted.get("info", {}).get("features") or {}
    return {
        name: tuple(map(str, feature["names"]))
        for name, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and feature.get("names")
    }


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
        raise ModuleNotFoundError(f"reading {_format(path)} needs pyarrow: pip install 'unflip[data]'") from error
    check_file(path)
    if table_suffix(path) not in PARQUET:
        return ArrowBatches(path)
    # By buffers, not whole row groups: these may be larger than memory.
    return parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False, page_checksum_verification=True)


class ArrowBatches:
    """An Arrow file or stream (Feather is the former), with what is used of pyarrow's ``ParquetFile``."""

    def __init__(self, path: str) -> None:
        self.path = path
        with self._reader() as reader:
            self.schema_arrow = reader.schema
        first = self.schema_arrow.names[:1]
        self.sizes = tuple(batch.num_rows for batch in self.iter_batches(None, None, first))

    def __enter__(self) -> "ArrowBatches":
        return self

    def __exit__(self, *error: object) -> None:
        pass  # it is open only while it is read

    def iter_batches(
        self, batch_size: int | None, row_groups: Sequence[int] | None, columns: Sequence[str], use_threads: bool = True
    ) -> Iterator[Any]:
        """Read batches, as they are in the file, by their numbers; None reads all of them."""
        with self._reader([self.schema_arrow.names.index(name) for name in columns], use_threads) as reader:
            if hasattr(reader, "get_batch"):
                numbers = range(reader.num_record_batches) if row_groups is None else row_groups
                found: Iterable[Any] = map(reader.get_batch, numbers)
            else:
                found = (batch for k, batch in enumerate(reader) if row_groups is None or k in row_groups)
            for batch in found:
                batch.validate(full=True)  # pyarrow trusts offsets, and would read memory that is not the file's
                yield batch.select(list(columns))

    @contextmanager
    def _reader(self, fields: Sequence[int] = (), use_threads: bool = True) -> Iterator[Any]:
        from pyarrow import OSFile, ipc

        options = ipc.IpcReadOptions(included_fields=sorted(fields), use_threads=use_threads)
        with OSFile(self.path) as file:  # not mapped: pages that are touched would count as memory in use
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            with (ipc.open_file if is_file else ipc.open_stream)(file, options=options) as reader:
                yield reader


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
