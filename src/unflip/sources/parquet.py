"""Parquet files, row group by row group."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from unflip.sources.block import Block
from unflip.sources.source import Source
from unflip.sources.tables import Columns, batch_block, choose_columns, pyarrow

BUFFER = 2**17  # bytes of each column


@dataclass(frozen=True)
class ParquetPart:
    """A run of row groups of one file."""

    path: str
    groups: tuple[int, ...]
    start: int
    columns: Columns
    rows: int

    def blocks(self) -> Iterator[Block]:
        first, last = self.groups[0], self.groups[-1]
        name = f"{self.path}, row group {first}" if first == last else f"{self.path}, row groups {first} to {last}"
        start = self.start
        try:
            # No threads of its own: other parts are read at the same time.
            with _open(self.path) as file:
                batches = file.iter_batches(self.rows, list(self.groups), self.columns.names, use_threads=False)
                for batch in batches:
                    yield batch_block(batch, self.columns, name, start)
                    start += batch.num_rows
        except OSError as error:
            raise ValueError(f"{name} cannot be read: {error}") from error


class ParquetSource(Source):
    """Parquet files that have the same columns; a part is a row group, or several small ones.

    Parameters
    ----------
    paths : sequence of str
    label, weights : str or None
    columns : sequence of str or None
        The features; None is all other columns.
    rows : int
        In a block, at most; and in a part at least, where the file has as many.
    """

    def __init__(
        self, paths: Sequence[str], label: str | None, weights: str | None, columns: Sequence[str] | None, rows: int
    ) -> None:
        self.rows = rows
        self.has_labels = label is not None
        # Path and rows of each row group, from the files' ends: no data are read.
        self.groups: list[tuple[str, list[int]]] = []
        found: list[Columns] = []
        for path in paths:
            try:
                with _open(path) as file:
                    schema, metadata = file.schema_arrow, file.metadata
            except (OSError, ValueError) as error:  # pyarrow's own are kinds of them
                raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
            found.append(choose_columns(schema, path, label, weights, found[0].features if found else columns))
            sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
            self.groups.append((path, sizes))
        # float32 only if no file has more: else which file comes first would change the answer.
        self.columns = replace(found[0], single=all(one.single for one in found))
        self.feature_names = self.columns.features
        self.n_rows = sum(sum(sizes) for _, sizes in self.groups)

    def parts(self) -> list[ParquetPart]:
        return [
            ParquetPart(path, run, start, self.columns, self.rows)
            for path, sizes in self.groups
            for run, start in row_group_runs(sizes, self.rows)
        ]

    def only_labels(self) -> "ParquetSource":
        labels = copy(self)
        labels.columns, labels.feature_names = self.columns.only_label(), None
        return labels


def row_group_runs(sizes: Sequence[int], rows: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Row groups that are read together, at least ``rows`` rows where there are as many, and their first row."""
    start, begin, run = 0, 0, []
    for number, size in enumerate(sizes):
        run.append(number)
        start += size
        if start - begin >= rows or number == len(sizes) - 1:
            yield tuple(run), begin
            begin, run = start, []


def _open(path: str) -> Any:
    pyarrow("Parquet")
    from pyarrow import parquet

    # By buffers, not whole row groups: these may be larger than memory.
    return parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
