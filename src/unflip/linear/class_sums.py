"""The sums of a linear fit, from data of any size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unflip._validation import LARGEST, check_classes
from unflip.core import ClassSums
from unflip.tables.blocks import Block, Engine, reduce_blocks
from unflip.tables.read import as_labels
from unflip.tables.sources import ROWS, check_has_labels, find_classes, labeled_like, open_source

HEAVIEST = 1e200  # sum of the weights; times the largest square of a feature, 1e60, it is still a number


def class_sums(
    source: Any,
    y: Any = None,
    *,
    label: str | None = None,
    weights: Any = None,
    columns: Sequence[Any] | None = None,
    classes: ArrayLike | None = None,
    rows: int = ROWS,
    threads: int | None = None,
    engine: Engine | None = None,
) -> ClassSums:
    """Return all that a linear fit needs from data that may not fit into memory, or onto one machine.

    The fit reads the data only through sums, which add over blocks of rows (:class:`unflip.core.ClassSums`)::

        counts[j] = number of rows with label j,    mean = (1/n) sum x
        centred_sums[j] = sum of x - mean over the rows with label j
        scatter = sum of (x - mean)(x - mean)'

    ``MCLDCEClassifier(transition=T).fit_sums(sums)`` then gives the same answer as ``fit`` on all rows at once. Each
    row is read once; if ``classes`` is not given, a first pass reads only the labels.

    Parameters
    ----------
    source : arrays, path, iterable of blocks, Dask array or Dask dataframe
        As in :func:`unflip.tables.open_source`: X with ``y``; a Parquet or CSV file, folder, list or pattern; an
        iterable of (X, y) or (X, y, weights) blocks, or a function that returns one.
    y, label : array-like, and str, default=None
        The noisy labels of X, or their column in files and data frames.
    weights : str or array-like, default=None
        The column of the sample weights, or the weights of the rows of X.
    columns : sequence, default=None
        The features. If None, all columns except label and weights are used.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted. Needed for a generator, which can be read only once.
    rows, threads : int, default=65536 and None
        Maximum number of rows in a block, and number of threads. If None, all processors are used. The answer is the
        same to the bit for any number of threads.
    engine : {"threads", "dask"}, default=None
        If None, Dask collections run on the active Dask scheduler, and everything else in threads. "dask" sends files
        to that scheduler too.

    Notes
    -----
    NaN, an unknown label or a negative weight raises a ``BlockError``, a ValueError that names the block and its rows.

    Memory is at most two blocks per thread and a few sums of n_features^2 + n_classes n_features numbers. On Dask there
    is one task per partition (for files: a row group, or a CSV file) and a tree that adds eight sums per step; the
    client receives one sum.

    Examples
    --------
    >>> from unflip.linear import MCLDCEClassifier
    >>> from unflip.noise import corrupt, pairflip
    >>> rng, T = np.random.default_rng(0), pairflip(3, 0.3)
    >>> def blocks():
    ...     for seed in range(5):
    ...         y = rng.integers(3, size=200)
    ...         yield np.eye(3)[y] + rng.normal(size=(200, 3)) / 9, corrupt(y, T, random_state=seed)
    >>> sums = class_sums(blocks(), classes=[0, 1, 2])
    >>> MCLDCEClassifier(T).fit_sums(sums).predict(np.eye(3)), sums.weight
    (array([0, 1, 2]), 1000.0)
    """
    opened = open_source(source, y, label=label, weights=weights, columns=columns, rows=rows)
    if classes is None:
        classes = find_classes(opened, threads=threads, engine=engine)
    check_has_labels(opened)
    known = check_classes(as_labels(classes))
    sums: ClassSums = reduce_blocks(labeled_like(opened, known), SumsOf(known), threads=threads, engine=engine)
    if not sums.weight <= HEAVIEST:
        raise ValueError(f"the weights sum to {sums.weight:.3g}, too much to sum rows; divide them by the largest")
    names = None if opened.feature_names is None else np.asarray(opened.feature_names)
    return replace(sums, classes=known, feature_names=names)


@dataclass(frozen=True, eq=False)
class SumsOf:
    """The function that turns a block into its sums, or raises an error that names it."""

    classes: NDArray[Any]

    def __call__(self, block: Block) -> ClassSums:
        sums = ClassSums.of(block.X, block.codes(self.classes), len(self.classes), block.weights)
        # NaN or infinity in a feature shows in its square. Only then are the entries examined: a pass over every block
        # would cost a good part of the time to read it.
        bearable = np.diag(sums.scatter) <= LARGEST**2 * max(sums.weight, 1)  # not if it is NaN
        bearable &= np.abs(sums.mean) <= LARGEST
        if not bearable.all():
            block.check_finite()
            column = int(bearable.argmin())
            said = column if block.feature_names is None else repr(block.feature_names[column])
            block.refuse(f"the numbers in column {said} are too large to be squared; divide it by a constant")
        return sums
