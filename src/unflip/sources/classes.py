"""The classes of a source, in one pass over its labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip.sources.block import Block
from unflip.sources.labels import check_same_kind
from unflip.sources.reduce import Engine, reduce_blocks
from unflip.sources.source import Source

MOST = 100_000  # beyond it the column names rows, not classes, and the set would grow with the data


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Different labels, sorted, and one of the blocks that they are of; sets add to their union."""

    labels: NDArray[Any]
    where: str

    def __add__(self, other: "LabelSet") -> "LabelSet":
        check_same_kind(self.labels, self.where, other.labels, other.where)
        union = np.union1d(self.labels, other.labels)
        if len(union) > MOST:
            raise ValueError(
                f"there are more than {MOST:,} different labels, such as {union[:3].tolist()}: they look like numbers "
                "or names, not classes"
            )
        return LabelSet(union, self.where)


def find_classes(source: Source, *, threads: int | None = None, engine: Engine | None = None) -> NDArray[Any]:
    """Return the different labels of a source, sorted, from a pass that reads the labels alone.

    Of files only the label's column is read, of Dask collections only what y depends on. A function that returns blocks
    is called and makes all of them.

    Parameters
    ----------
    source : Source
        Of :func:`open_source`. A generator, which can be read only once, is refused.
    threads, engine
        As in :func:`reduce_blocks`.
    """
    check_has_labels(source)
    if not source.rereadable:
        raise ValueError(
            "the blocks come from an iterator that can be read only once: name all classes with classes=[...], or give "
            "a function that returns a new iterator"
        )
    found: LabelSet = reduce_blocks(source.only_labels(), _label_set, threads=threads, engine=engine)
    return found.labels


def check_has_labels(source: Source) -> None:
    """Refuse a source of which it is known that it has none."""
    if not source.has_labels:
        raise ValueError("there are no labels; give y, or name the label's column with label=")


def _label_set(block: Block) -> LabelSet:
    if block.y is None:
        block.refuse("there are no labels; give y, or name the label's column with label=")
    return LabelSet(np.unique(block.y), block.where)
