"""Parquet files as data frames of some rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unflip.sources.parquet import _open, row_group_runs
from unflip.sources.tables import pyarrow
from unflip.tables.frames import _check_unique, _pandas


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file: its row groups, its columns, and the index that pandas noted in it."""

    path: str
    sizes: tuple[int, ...]
    kinds: tuple[tuple[str, str], ...]  # of each column
    index: tuple[str, ...]  # columns
    first: int  # of an index that counts
    step: int

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.kinds if name not in self.index]

    @property
    def n_rows(self) -> int:
        return sum(self.sizes)

    def runs(self, rows: int) -> list[tuple[tuple[int, ...], int]]:
        """Row groups that are read together, and the number of their first row."""
        return list(row_group_runs(self.sizes, rows))

    def called(self, run: tuple[int, ...]) -> str:
        return f"{self.path}, row group{f' {run[0]}' if len(run) == 1 else f's {run[0]} to {run[-1]}'}"

    def frames(
        self, run: tuple[int, ...], start: int, columns: Sequence[str] | None, rows: int, label: str | None, text: Any
    ) -> Iterator[tuple[Any, dict[str, str]]]:
        """Read the columns (None is all) and the index, ``rows`` at a time; the schema says of what kind they are."""
        pd = _pandas("Parquet")
        names = [*(self.names if columns is None else columns), *self.index]
        try:
            with _open(self.path) as file:
                batches = file.iter_batches(rows, list(run), names, use_threads=False)
                for table in _regrouped(batches, rows):
                    frame = table.to_pandas(use_threads=False).rename(columns=str)
                    if not self.index:
                        counted = (self.first + self.step * row for row in (start, start + len(frame)))
                        frame.index = pd.RangeIndex(*counted, self.step)
                    start += len(frame)
                    yield frame, {}
        except OSError as error:
            raise ValueError(f"{self.called(run)} cannot be read: {error}") from error


def open_parquet(path: str) -> ParquetFile:
    """Read what the end of a file says of it."""
    try:
        with _open(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            sizes = tuple(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        _check_unique(schema.names)
    except (OSError, ValueError) as error:  # pyarrow's own are kinds of them
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    counted = next((item for item in index if isinstance(item, dict)), {})
    return ParquetFile(
        path,
        sizes,
        tuple((field.name, _kind(field.type)) for field in schema),
        tuple(item for item in index if isinstance(item, str) and item in schema.names),
        int(counted.get("start", 0)),
        int(counted.get("step", 1)),
    )


def _kind(arrow: Any) -> str:
    """What values of a type are to a model: files must agree in it, not in the width of their numbers."""
    types = pyarrow("Parquet").types
    if types.is_dictionary(arrow):
        return "categories"
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return "text"
    numbers = (types.is_integer, types.is_floating, types.is_decimal)
    return "numbers" if any(test(arrow) for test in numbers) else str(arrow)


def _regrouped(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Tables of exactly ``rows`` rows, but for the last: pyarrow may stop at the end of a row group."""
    from_batches = pyarrow("Parquet").Table.from_batches
    held: list[Any] = []
    n = 0
    for batch in batches:
        held.append(batch)
        n += batch.num_rows
        while n >= rows:
            table = from_batches(held)
            yield table.slice(0, rows)
            held = table.slice(rows).to_batches()
            n -= rows
    if n:
        yield from_batches(held)
