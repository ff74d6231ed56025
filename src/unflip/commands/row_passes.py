"""The passes over a table of any size: rows are drawn, some are held out, and the others are summed up."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray, IntArray
from unflip.commands.fit import FEWEST_HELD_OUT
from unflip.core import ClassSums
from unflip.tables import Block, Preprocessor, Table, reduce_blocks
from unflip.tables.read import FrameRows, left_out
from unflip.tables.sources import TableSource, check_few
from unflip.transition.sample import STREAMS, Draw, Smallest, key_limit

DRAW, FOLD = 0, 1
MOST_HELD_OUT = 100_000  # rows, which are in memory; more would hardly narrow the interval of the accuracy
FEWEST_NUMBERED = 10  # rows besides the first of each file; so many numbers do not follow the rows by chance


def row_numbers(seed: int, stream: int, rows: FrameRows) -> FloatArray:
    """Return a random number in [0, 1) for each row of a block, whatever the blocks are.

    Each file has its own stream, in which row i has number i: threads, workers, the size of the blocks and the pass
    make no difference, nor do rows that were left out.
    """
    places = rows.rows
    bits = np.random.PCG64([STREAMS, seed, stream, int(rows.files[0])]).advance(int(places[0]))
    return np.random.Generator(bits).random(int(places[-1] - places[0]) + 1)[places - places[0]]


class DrawRows(Draw):
    """Return what the first pass finds in a block: the rows with the smallest numbers, and all labels."""

    def __call__(self, block: Block) -> "Drawn":
        assert block.y is not None
        if not len(block):  # no row has a label
            return Drawn(Smallest((), self.size, 0, self.limit), Counter(), False, block.unlabeled)
        _check_finite(block)
        labels, counts = np.unique(block.y, return_counts=True)
        return Drawn(
            self.smallest(block, row_numbers(self.seed, DRAW, block.X)),
            Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True))),
            block.weights is None or bool(block.weights.any()),
            block.unlabeled,
        )


@dataclass(frozen=True, eq=False)
class Drawn:
    """What the first pass has found so far; it adds."""

    smallest: Smallest  # the rows drawn
    labels: Counter[Any]  # how many rows have each label, among all rows
    weighs: bool  # whether any row has a weight above zero
    unlabeled: int  # rows without a label, which are not among the others

    def __add__(self, other: "Drawn") -> "Drawn":
        labels = self.labels + other.labels
        check_few(list(labels))
        unlabeled = self.unlabeled + other.unlabeled
        return Drawn(self.smallest + other.smallest, labels, self.weighs or other.weighs, unlabeled)


def draw_rows(source: TableSource, size: int, seed: int, how: Mapping[str, Any]) -> Drawn:
    """Return the rows with the ``size`` smallest of their random numbers, in one pass; ``how`` is for reduce_blocks.

    If the source skips rows without a label, a warning counts them.
    """
    drawn: Drawn = reduce_blocks(source, DrawRows(size, seed, key_limit(size, source.n_rows)), **how)
    if drawn.smallest.n_kept < min(
        size, drawn.smallest.n_rows
    ):  # the limit was too low: labels are missing, or once in 10^9 draws
        drawn = reduce_blocks(source, DrawRows(size, seed, 1.0), **how)
    n, lost = drawn.smallest.n_rows, drawn.unlabeled
    if not n:
        raise ValueError(f"the label {source.label!r} is missing in each of the {lost:,} rows; name another column")
    if lost:
        warnings.warn(left_out(lost, n + lost), stacklevel=3)
    return drawn


@dataclass(frozen=True, eq=False)
class Split:
    """The rows drawn, in the order of the table: which are held out, and which are the sample."""

    rows: FrameRows
    y: NDArray[Any]
    weights: FloatArray | None
    held: IntArray
    sample: IntArray
    limit: float  # a row whose number is smaller is held out,
    kept: tuple[tuple[int, int], ...]  # except for these

    def taken(self, chosen: IntArray, without: dict[str, str]) -> tuple[Any, NDArray[Any], FloatArray | None]:
        frame = self.rows.frame.drop(columns=list(without)).iloc[chosen].reset_index(drop=True)
        return frame, self.y[chosen], None if self.weights is None else self.weights[chosen]


def split_rows(drawn: Drawn, share: float, sample_size: int) -> Split:
    """Hold out the rows with the smallest numbers, a share of all rows; the next ``sample_size`` are the sample."""
    piece, n = drawn.smallest.in_order(), drawn.smallest.n_rows
    h = min(round(share * n), n - 1, MOST_HELD_OUT)
    held = np.arange(len(piece.keys)) < h
    kept = []
    for name, count in zip(*np.unique(piece.y[:h], return_counts=True), strict=True):
        if drawn.labels[name.item()] == count:  # a label that occurs once stays in training, so no class is lost
            kept.append(int(np.flatnonzero(piece.y[:h] == name)[-1]))
    held[kept] = False
    if share and held.sum() < FEWEST_HELD_OUT:
        raise ValueError(f"{n} rows are too few to hold {share:.0%} of them out; give a test file, or more data")
    sample = np.zeros(len(held), dtype=bool)
    sample[h : h + sample_size] = sample[kept] = True
    rows: FrameRows = piece.X
    order = np.lexsort((rows.rows, rows.files))
    return Split(
        rows[order],
        piece.y[order],
        None if piece.weights is None else piece.weights[order],
        np.flatnonzero(held[order]),
        np.flatnonzero(sample[order]),
        float(piece.keys[h]) if h else 0.0,
        tuple((int(rows.files[i]), int(rows.rows[i])) for i in kept),
    )


def sample_findings(split: Split, label: str, without: Sequence[str] = ()) -> list[Any]:
    """Check the rows drawn, as far as they tell; their labels are those of a sample, and so are the copies."""
    frame = split.rows.frame.drop(columns=list(without)).reset_index(drop=True)
    return Table(frame, split.y, None, split.rows.rows, label, ()).findings


def unused_columns(rows: FrameRows) -> dict[str, str]:
    """Return the columns that the drawn rows show to be unusable, each with the reason."""
    frame, numbers = rows.frame, rows.rows
    found = {}
    starts = np.flatnonzero(np.diff(rows.files, prepend=-1))
    for name in frame.columns:  # rows between those drawn are missing: a numbering follows the numbers of the rows
        column = frame[name]
        if getattr(column.dtype, "kind", "O") in "iu" and len(column) - len(starts) >= FEWEST_NUMBERED:
            offset = column.to_numpy() - numbers
            if np.array_equal(offset, np.repeat(offset[starts], np.diff(starts, append=len(offset)))):
                found[str(name)] = "it numbers the rows"
    return {**Preprocessor().choose(frame).unused_, **found}


@dataclass(frozen=True, eq=False)
class SumFolds:
    """Return what the last pass finds in a block: the sums of its rows in each fold, without those held out.

    ``limit`` and ``kept`` are those of :class:`Split`.
    """

    preprocessor: Preprocessor
    classes: NDArray[Any]
    seed: int
    n_folds: int
    limit: float
    kept: tuple[tuple[int, int], ...] = ()

    def __call__(self, block: Block) -> "FoldSums | None":
        if not len(block):  # no row has a label
            return None
        rows: FrameRows = block.X
        codes = block.codes(self.classes)
        X = self.preprocessor.transform(rows.frame)
        fold = (self.n_folds * row_numbers(self.seed, FOLD, rows)).astype(np.intp)
        held = row_numbers(self.seed, DRAW, rows) < self.limit
        for file, row in self.kept:
            held &= ~((rows.files == file) & (rows.rows == row))
        fold[held] = -1
        sums = []
        for k in range(self.n_folds):
            chosen = np.flatnonzero(fold == k)
            weights = None if block.weights is None else block.weights[chosen]
            sums.append(ClassSums.of(X[chosen], codes[chosen], len(self.classes), weights))
        return FoldSums(tuple(sums), len(block))


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
