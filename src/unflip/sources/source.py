"""What a source of blocks is."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from unflip.sources.block import Block


class Part(Protocol):
    """A piece of a source that one worker reads from its beginning to its end: a small value that can be pickled."""

    def blocks(self) -> Iterator[Block]:
        """Read the piece, a block at a time."""


class Source:
    """Rows from anywhere, in parts that are read independently.

    Attributes
    ----------
    feature_names : tuple of str or None
    n_rows : int or None
        Where it is known without reading.
    rereadable : bool
        Whether :meth:`parts` may be called again; a generator cannot be.
    has_labels : bool
        False where there are none; an iterable shows it only when it is read.
    on_dask : bool
        Whether the rows are in Dask collections.
    """

    feature_names: Sequence[str] | None = None
    n_rows: int | None = None
    rereadable: bool = True
    has_labels: bool = True
    on_dask: bool = False

    def parts(self) -> Sequence[Part]:
        """The parts, in the order of the rows."""
        raise NotImplementedError

    def only_labels(self) -> "Source":
        """The same rows without features: as little as possible is read."""
        raise NotImplementedError

    def blocks(self) -> Iterator[Block]:
        """All blocks in the order of the rows, one at a time in this thread."""
        for part in self.parts():
            yield from part.blocks()
