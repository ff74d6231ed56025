"""A uniform sample of data of any size, for the estimators of T."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from unflip._validation import FloatArray
from unflip.tables.blocks import Block, Engine, reduce_blocks
from unflip.tables.read import FrameRows, check_same_kind, join_rows
from unflip.tables.sources import ROWS, labeled_like, open_source

# A word of our own before the seed: [0, 0, 0] is the stream of default_rng(0), which may have made the data; keys and
# labels would then be the same numbers.
STREAMS = int.from_bytes(b"unflip")
PIECES = 32  # of a few rows each that wait to be joined


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn uniformly without replacement, in random order, from a source that has ``n_rows`` rows."""

    X: Any  #: array or CSR, shape (n_drawn, n_features)
    y: NDArray[Any] | None
    weights: FloatArray | None
    n_rows: int
    feature_names: Sequence[str] | None = None


def sample_rows(
    source: Any,
    size: int = 100_000,
    *,
    y: Any = None,
    label: str | None = None,
    weights: Any = None,
    columns: Sequence[Any] | None = None,
    random_state: int = 0,
    rows: int = ROWS,
    threads: int | None = None,
    engine: Engine | None = None,
) -> Sample:
    """Draw rows uniformly without replacement, in one pass over data of any size.

    Every row gets a random key, and the rows with the ``size`` smallest keys are kept::

        key_i ~ U(0, 1),    sample = {i : key_i among the size smallest}

    This is the form of reservoir sampling that merges: the smallest keys of two halves hold the smallest of the whole,
    so threads and Dask workers draw the same sample as a single pass. Each block has its own stream of keys, seeded by
    ``random_state`` and the block's number.

    Parameters
    ----------
    source, y, label, weights, columns, rows
        As in :func:`unflip.tables.open_source`. The weights are drawn with their rows; they do not change the odds of
        a row.
    size : int, default=100_000
        Number of rows to draw. If there are fewer rows, all are returned, in random order.
    random_state : int, default=0
    threads, engine
        As in :func:`unflip.tables.reduce_blocks`.

    Notes
    -----
    T is estimated from a sample, ``VolMin().fit(sample.X, sample.y)``, and not by gradients summed over all blocks. The
    first of VolMin's fits alone takes 43 to 110 iterations on the data below, each a pass over all rows, and
    cross-fitting more; a sample takes one pass. What it costs is accuracy where the sample is small: on 320 features of
    CIFAR-10 (:func:`unflip.metrics.transition_error`, one draw, ``benchmarks/scale.py``) the error of T was

    ========== ===== ====== ====== ======
    rows       5,000 10,000 20,000 50,000
    pair 0.4   0.062  0.052  0.039  0.002
    sym 0.4    0.106  0.041  0.015  0.007
    ========== ===== ====== ====== ======

    that is, it falls faster than 1/sqrt(rows) and had not leveled off at 50,000. Take as many rows as memory and time
    allow; 50,000 took VolMin less than half a minute on one core.

    Memory is that of the sample if the source knows its number of rows (arrays, Parquet, Dask arrays), else a few times
    as much.

    Examples
    --------
    >>> from unflip.noise import corrupt, symmetric
    >>> from unflip.transition import VolMin
    >>> rng, T = np.random.default_rng(0), symmetric(3, 0.3)
    >>> def blocks():
    ...     for seed in range(20):
    ...         y = rng.integers(3, size=500)
    ...         yield np.eye(3)[y] + rng.normal(size=(500, 3)) / 9, corrupt(y, T, random_state=seed)
    >>> sample = sample_rows(blocks(), 3000)
    >>> VolMin().fit(sample.X, sample.y).transition_.round(1).diagonal(), sample.n_rows
    (array([0.7, 0.7, 0.7]), 10000)
    """
    check_draw(size, random_state, "size")
    how: dict[str, Any] = {"threads": threads, "engine": engine}
    opened = open_source(source, y, label=label, weights=weights, columns=columns, rows=rows)
    opened = labeled_like(opened, **how)
    draw = Draw(int(size), int(random_state), key_limit(int(size), opened.n_rows))
    drawn: Smallest = reduce_blocks(opened, draw, **how)
    if drawn.n_kept < min(size, drawn.n_rows):  # about once in 10^9 draws: the limit was too low
        drawn = reduce_blocks(opened, replace(draw, limit=1.0), **how)
    piece = drawn.in_order()
    return Sample(piece.X, piece.y, piece.weights, drawn.n_rows, opened.feature_names)


def check_draw(size: Any, random_state: Any, said: str) -> None:
    """Refuse a size of the sample or a seed that is not a whole number."""
    if not isinstance(size, int | np.integer) or size < 1:
        raise ValueError(f"{said} must be a whole number of rows, at least 1; got {size!r}")
    if not isinstance(random_state, int | np.integer) or random_state < 0:
        raise ValueError(f"random_state must be a whole number >= 0, the seed of every block; got {random_state!r}")


@dataclass(frozen=True)
class Draw:
    """Return the rows of a block with keys below the limit, at most ``size``."""

    size: int
    seed: int
    limit: float

    def __call__(self, block: Block) -> Any:
        block.check_finite()
        return self.smallest(block, np.random.default_rng([STREAMS, self.seed, *block.index]).random(len(block)))

    def smallest(self, block: Block, keys: FloatArray) -> "Smallest":
        piece = Piece(keys, block.X, block.y, block.weights, block.where).below(self.limit)
        found = Smallest((piece,), self.size, len(block), self.limit)
        return found.sorted_out() if found.n_kept > self.size else found


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows with their keys, and the block they come from, for errors."""

    keys: FloatArray
    X: Any
    y: Any
    weights: FloatArray | None
    where: str = ""

    def below(self, limit: float) -> "Piece":
        kept = np.flatnonzero(self.keys < limit)
        return self if len(kept) == len(self.keys) else self.take(kept)

    def take(self, rows: NDArray[np.intp]) -> "Piece":
        y, w = (None if values is None else values[rows] for values in (self.y, self.weights))
        return Piece(self.keys[rows], self.X[rows], y, w, self.where)


@dataclass(frozen=True, eq=False)
class Smallest:
    """The ``size`` rows with the smallest keys so far, and at most as many others, which are sorted out now and then.

    ``n_rows`` rows were read, and no key of the sample is as large as ``limit``.
    """

    pieces: tuple[Piece, ...]
    size: int
    n_rows: int
    limit: float

    def __add__(self, other: "Smallest") -> "Smallest":
        limit = min(self.limit, other.limit)
        # What the other already excludes need not be copied.
        pieces = tuple(piece.below(limit) for piece in (*self.pieces, *other.pieces))
        pieces = (_joined(pieces),) if len(pieces) > PIECES else pieces
        both = Smallest(pieces, self.size, self.n_rows + other.n_rows, limit)
        return both.sorted_out() if both.n_kept > 2 * self.size else both

    @property
    def n_kept(self) -> int:
        return sum(len(piece.keys) for piece in self.pieces)

    def sorted_out(self) -> "Smallest":
        keys = np.concatenate([piece.keys for piece in self.pieces])
        limit = float(np.partition(keys, self.size)[self.size])  # the first key that is not drawn
        return replace(self, pieces=tuple(piece.below(limit) for piece in self.pieces), limit=limit)

    def in_order(self) -> Piece:
        """Return the rows by their keys, smallest first: any beginning of them is a uniform sample."""
        rows = _joined(self.pieces)
        return rows.take(np.argsort(rows.keys, kind="stable")[: self.size])


def key_limit(size: int, n_rows: int | None) -> float:
    """Return a key below which at least ``size`` of n_rows keys fall, within six standard deviations."""
    return 1.0 if not n_rows else min(1.0, (size + 6 * np.sqrt(size) + 36) / n_rows)


def _joined(pieces: Sequence[Piece]) -> Piece:
    first = pieces[0]
    for piece in pieces[1:]:
        if first.y is not None and piece.y is not None:
            check_same_kind(first.y, first.where, piece.y, piece.where)
    pieces = [piece for piece in pieces if len(piece.keys)] or [first]
    keys, X, y, weights = (_stacked([getattr(p, name) for p in pieces]) for name in ("keys", "X", "y", "weights"))
    return Piece(keys, X, y, weights, first.where)


def _stacked(parts: list[Any]) -> Any:
    if isinstance(parts[0], FrameRows):
        return join_rows(parts)
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return None if parts[0] is None else np.concatenate(parts)
