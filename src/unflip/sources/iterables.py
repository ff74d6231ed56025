"""Blocks that the user makes: a generator, a list, or a function that starts one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from unflip.sources.block import Block, BlockError, make_block
from unflip.sources.columns import string_names
from unflip.sources.source import Source


class IterableSource(Source):
    """An iterable of X, (X, y), (X, y, weights) or :class:`Block`, or a function without arguments that returns one.

    It is one part: the blocks come one after the other, and what is done with them may be done in parallel. All have
    labels, weights and columns as the first has, and are sparse if it is.
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
        start, first = 0, None
        for number, item in enumerate(self.iterable() if callable(self.iterable) else self.iterable):
            block = self._block(item, f"block {number}", start)
            if first is None:
                first = _form(block)
                self.feature_names = block.feature_names
            self._check_like(block, first)
            start += len(block)
            yield block

    def _block(self, item: Any, name: str, start: int) -> Block:
        names = None
        if isinstance(item, Block):
            fields: Sequence[Any] = (item.X, item.y, item.weights)
            name, start, names = item.name, item.start, item.feature_names
        else:
            fields = item if isinstance(item, tuple | list) else (item,)
        if not 1 <= len(fields) <= 3:
            raise BlockError(f"{name}: a block is (X, y) or (X, y, weights); got {len(fields)} things")
        X, y, weights = (*fields, None, None)[:3]
        if names is None and hasattr(X, "columns"):
            names = string_names(X.columns)
        if not self.with_features and y is not None:
            X = weights = names = None
        return make_block(X, y, weights, name, start, names)

    def _check_like(self, block: Block, first: "Form") -> None:
        form = _form(block)
        for said, has, expected in (
            ("labels", form.labels, first.labels),
            ("weights", form.weights, first.weights),
        ):
            if has != expected:
                block.refuse(
                    f"there are {'' if has else 'no '}{said}, but {'none' if has else 'some'} in the first block; "
                    "give them with all blocks or with none"
                )
        if form.sparse != first.sparse:
            is_form, first_form = ("sparse", "dense") if form.sparse else ("dense", "sparse")
            block.refuse(f"X is {is_form}, but that of the first block {first_form}; make all of one form")
        if form.n_features != first.n_features:
            block.refuse(f"X has {form.n_features} columns, but the first block has {first.n_features}")
        if _differ(block.feature_names, self.feature_names):
            block.refuse(
                f"the columns are {list(block.feature_names or [])[:10]}, but those of the first block "
                f"{list(self.feature_names or [])[:10]}; give all blocks the same columns in the same order"
            )


@dataclass(frozen=True)
class Form:
    """What all blocks have in common; the first block itself is not kept."""

    n_features: int
    sparse: bool
    labels: bool
    weights: bool


def _form(block: Block) -> Form:
    return Form(block.X.shape[1], sparse.issparse(block.X), block.y is not None, block.weights is not None)


def _differ(names: Sequence[str] | None, others: Sequence[str] | None) -> bool:
    return names is not None and others is not None and not np.array_equal(names, others)
