"""The two passes over a table of any size: rows are drawn, then the others summed up."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray, IntArray
from unflip.core import ClassSums
from unflip.sources import Block, reduce_blocks
from unflip.sources.classes import MOST
from unflip.sources.frames import FrameRows, FrameSource, join_rows
from unflip.tables import Preprocessor
from unflip.transition.sample import STREAMS, Piece, Smallest, key_limit

DRAW, FOLD = 0, 1
PIECES = 32  # data frames of a few rows each that wait to be joined


def row_numbers(seed: int, stream: int, rows: FrameRows) -> FloatArray:
    """Return a random number in [0, 1) of each row of a block, whatever the blocks are.

    Each file has its own stream, of which row i has number i: threads, workers, the size of the blocks and the pass
    make no difference.
    """
    bits = np.random.PCG64([STREAMS, seed, stream, int(rows.files[0])]).advance(int(rows.rows[0]))
    return np.random.Generator(bits).random(len(rows.rows))


@dataclass(frozen=True)
class DrawRows:
    """The function of a block in the first pass: its rows of the smallest numbers, its labels, what its columns are."""

    size: int
    seed: int
    limit: float

    def __call__(self, block: Block) -> "Drawn":
        assert block.y is not None
        rows: FrameRows = block.X
        _check_finite(block)
        piece = Piece(row_numbers(self.seed, DRAW, rows), rows, block.y, block.weights).below(self.limit)
        found = Smallest((piece,), self.size, len(block), self.limit)
        labels, counts = np.unique(block.y, return_counts=True)
        return Drawn(
            found.sorted_out() if found.n_kept > self.size else found,
            Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True))),
            {(name, kind): block.where for name, kind in rows.kinds.items() if kind != "empty"},
            block.weights is None or bool(block.weights.any()),
        ).joined()


@dataclass(frozen=True, eq=False)
class Drawn:
    """What the first pass found so far; it adds.

    Attributes
    ----------
    smallest : Smallest
        The rows drawn.
    labels : Counter
        How many rows have each label, of all rows.
    kinds : dict of (column, kind) to str
        Where a column of a text file was first taken for which kind.
    weighs : bool
        Whether any row has a weight above zero.
    """

    smallest: Smallest
    labels: Counter[Any]
    kinds: Mapping[tuple[str, str], str]
    weighs: bool

    def __add__(self, other: "Drawn") -> "Drawn":
        labels = self.labels + other.labels
        if len(labels) > MOST:
            raise ValueError(
                f"there are more than {MOST:,} different labels, such as {list(labels)[:3]}: they look like numbers or "
                "names, not classes"
            )
        kinds = {**other.kinds, **self.kinds}
        return Drawn(self.smallest + other.smallest, labels, kinds, self.weighs or other.weighs).joined()

    def joined(self) -> "Drawn":
        """The same in fewer data frames: of many blocks only a few rows are drawn, or none."""
        pieces = tuple(piece for piece in self.smallest.pieces if len(piece.keys))
        if len(pieces) > PIECES:
            pieces = (_joined(pieces),)
        return replace(self, smallest=replace(self.smallest, pieces=pieces))

    def in_order(self) -> Piece:
        """The rows by their numbers, smallest first: any beginning of them is a uniform sample."""
        all_rows = _joined(self.smallest.pieces)
        return all_rows.take(np.argsort(all_rows.keys, kind="stable")[: self.smallest.size])


def draw_rows(source: FrameSource, size: int, seed: int, how: Mapping[str, Any]) -> Drawn:
    """Return the rows with the ``size`` smallest of their random numbers, in one pass.

    Parameters
    ----------
    source : FrameSource
    size : int
    seed : int
    how : dict
        ``threads`` and ``engine`` of :func:`unflip.sources.reduce_blocks`.
    """
    drawn: Drawn = reduce_blocks(source, DrawRows(size, seed, key_limit(size, source.n_rows)), **how)
    if drawn.smallest.n_kept < min(size, drawn.smallest.n_rows):  # about once in 10^9 draws: the limit was too low
        drawn = reduce_blocks(source, DrawRows(size, seed, 1.0), **how)
    return drawn


@dataclass(frozen=True, eq=False)
class SumFolds:
    """The function of a block in the second pass: the sums of its rows in each fold, without those held out.

    Parameters
    ----------
    preprocessor : Preprocessor
    classes : ndarray of shape (n_classes,)
    seed, n_folds : int
    limit : float
        A row whose number is smaller is held out,
    kept : sequence of (file, row)
        but for these.
    """

    preprocessor: Preprocessor
    classes: NDArray[Any]
    seed: int
    n_folds: int
    limit: float
    kept: tuple[tuple[int, int], ...] = ()

    def __call__(self, block: Block) -> "FoldSums":
        rows: FrameRows = block.X
        codes = block.codes(self.classes)
        try:
            X = self.preprocessor.transform(rows.numbered())
        except ValueError as error:
            block.refuse(str(error))
        fold = (self.n_folds * row_numbers(self.seed, FOLD, rows)).astype(np.intp)
        held = row_numbers(self.seed, DRAW, rows) < self.limit
        for file, row in self.kept:
            held &= ~((rows.files == file) & (rows.rows == row))
        fold[held] = -1
        return FoldSums(
            tuple(self._sums(X, codes, block.weights, np.flatnonzero(fold == k)) for k in range(self.n_folds)),
            len(block),
        )

    def _sums(self, X: FloatArray, codes: IntArray, weights: FloatArray | None, rows: IntArray) -> ClassSums:
        w = None if weights is None else weights[rows]
        return ClassSums.of(X[rows], codes[rows], len(self.classes), w)


@dataclass(frozen=True, eq=False)
class FoldSums:
    """The sums of each fold, and how many rows were read for them; they add."""

    folds: tuple[ClassSums, ...]
    n_rows: int

    def __add__(self, other: "FoldSums") -> "FoldSums":
        folds = tuple(one + another for one, another in zip(self.folds, other.folds, strict=True))
        return FoldSums(folds, self.n_rows + other.n_rows)


def _check_finite(block: Block) -> None:
    """Refuse infinite numbers here, where the row is known: the preprocessor would count it among the rows drawn."""
    frame = block.X.frame
    for name in frame.columns:
        if getattr(frame[name].dtype, "kind", "O") == "f":
            infinite = np.flatnonzero(np.isinf(frame[name].to_numpy(dtype=np.float64, na_value=np.nan)))
            if len(infinite):
                block.refuse(f"column {name!r} is infinite in row {block.start + infinite[0]}; leave such cells empty")


def _joined(pieces: tuple[Piece, ...]) -> Piece:
    keys = np.concatenate([piece.keys for piece in pieces])
    y = np.concatenate([piece.y for piece in pieces if piece.y is not None])
    weights = [piece.weights for piece in pieces if piece.weights is not None]
    return Piece(keys, join_rows([piece.X for piece in pieces]), y, np.concatenate(weights) if weights else None)
