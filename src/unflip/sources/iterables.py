"""Blocks that the user makes: a generator, a list, or a function that starts one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from unflip.sources.block import Block, BlockError, make_block
from unflip.sources.source import Source


class IterableSource(Source):
    """An iterable of X, (X, y), (X, y, weights) or :class:`Block`, or a function without arguments that returns one.

    It is one part: the blocks come one after the other, and what is done with them may be done in parallel.
    """

    def __init__(self, iterable: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self.iterable = iterable
        # An iterator is used up by reading; a list or a function starts again.
        self.rereadable = not isinstance(iterable, Iterator)
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
            raise ValueError(
                "this iterator has been read and cannot be read again; give a function that returns a new one"
            )
        self._started = True
        start, shape = 0, None
        for number, item in enumerate(self.iterable() if callable(self.iterable) else self.iterable):
            block = self._block(item, f"block {number}", start)
            if shape is None:
                shape = block.X.shape[1]
                self.feature_names = block.feature_names
            self._check_columns(block, shape)
            start += len(block)
            yield block

    def _block(self, item: Any, name: str, start: int) -> Block:
        if isinstance(item, Block):
            return item if self.with_features else make_block(None, item.y, None, item.name, item.start)
        fields = item if isinstance(item, tuple | list) else (item,)
        if not 1 <= len(fields) <= 3:
            raise BlockError(f"{name}: a block is (X, y) or (X, y, weights); got {len(fields)} things")
        X, y, weights = (*fields, None, None)[:3]
        names = _names(X)
        if not self.with_features and y is not None:
            X = weights = names = None
        return make_block(X, y, weights, name, start, names)

    def _check_columns(self, block: Block, n_features: int) -> None:
        if block.X.shape[1] != n_features:
            block.refuse(f"X has {block.X.shape[1]} columns, but the first block has {n_features}")
        if _differ(block.feature_names, self.feature_names):
            block.refuse(
                f"the columns are {list(block.feature_names or [])[:10]}, but those of the first block "
                f"{list(self.feature_names or [])[:10]}; give all blocks the same columns in the same order"
            )


def _names(X: Any) -> Sequence[str] | None:
    return tuple(map(str, X.columns)) if hasattr(X, "columns") else None


def _differ(names: Sequence[str] | None, others: Sequence[str] | None) -> bool:
    return names is not None and others is not None and not np.array_equal(names, others)
