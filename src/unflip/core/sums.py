"""All that a linear model needs to know about the data: sums that add."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from unflip._validation import FloatArray, IntArray, check_codes, check_same_length

FEW_CLASSES = 64  # up to here a dense product is faster than transposing a column-ordered block for a sparse one
MANY_ROWS = 2**10  # beyond it, a part of the rows gives their mean accurately enough
MOST_ROWS = 2**13  # in a block: the more rows, the more digits a sum of float32 loses
BLOCK = 2**21  # bytes of a block: large enough for BLAS, small enough for the cache
ROUNDING = float(np.finfo(np.float64).eps)  # of products in float64, relative
# Of products in float32, summed over at most MOST_ROWS rows. Measured: up to 5e-7 of the spreads of two features, and
# up to 7e-6 for features with few values, such as one-hot columns, whose rows share the same rounding errors.
ROUNDING_FLOAT32 = 1e-5


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Counts, feature sums per class and X'X of labelled rows: the sufficient statistics of a linear fit.

    Sums of two blocks of rows add with ``+`` (``sum(blocks)`` works too), in any order and on any machine; the result
    equals the sums of all rows at once, up to rounding. They are kept about the mean and moved to the common mean when
    they are added (Chan, Golub and LeVeque, 1983), so that features far from zero lose no digits::

        shift = mean_a - mean,    rest = sum of (x - mean_a), zero except for the rounding of mean_a
        scatter = sum over a and b of  scatter_a + shift rest' + rest shift' + n_a shift shift'

    Attributes
    ----------
    counts : ndarray of shape (n_classes,)
        Number (or total weight) of rows per noisy class.
    mean : ndarray of shape (n_features,)
    centred_sums : ndarray of shape (n_classes, n_features)
        Sum of x - mean over the rows of each noisy class.
    scatter : ndarray of shape (n_features, n_features)
        Sum of (x - mean)(x - mean)'.
    classes, feature_names : ndarrays of shape (n_classes,) and (n_features,), or None
        Their names. Sums can be added if their names are equal, or if one of them has none.
    rounding : float
        How exact the scatter is: the largest error of an entry, as a share of the spreads of its two features. It is
        larger if float32 rows were summed. Adding two sums keeps the larger value.

    Examples
    --------
    >>> X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 1, 0, 1, 1])
    >>> halves = ClassSums.of(X[:3], y[:3], 2) + ClassSums.of(X[3:], y[3:], 2)
    >>> bool(np.allclose(halves.gram, X.T @ X)), halves.counts.tolist()
    (True, [2.0, 4.0])
    """

    counts: FloatArray
    mean: FloatArray
    centred_sums: FloatArray
    scatter: FloatArray
    classes: NDArray[Any] | None = None
    feature_names: NDArray[Any] | None = None
    rounding: float = ROUNDING

    def __post_init__(self) -> None:
        for name, size in (("classes", self.centred_sums.shape[0]), ("feature_names", self.centred_sums.shape[1])):
            given = getattr(self, name)
            if given is not None:
                names = np.asarray(given)
                if names.shape != (size,):
                    raise ValueError(f"{name} must be {size} names, one for each of the sums; got shape {names.shape}")
                object.__setattr__(self, name, names)

    @classmethod
    def of(cls, X: Any, y: ArrayLike, n_classes: int, sample_weight: ArrayLike | None = None) -> ClassSums:
        """Sum the rows of X.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Read once, block by block; memory beyond X is O(n_features^2 + n_features n_classes). Products inside a
            block of a few thousand rows are computed in the precision of X, sums over blocks in float64: float32 data
            are summed to about 5e-7 of their spread (1e-5 if a feature has few values, such as 0 and 1), for any number
            of rows, and twice as fast.
        y : array-like of int, shape (n_samples,)
            Codes of the noisy labels, 0 .. n_classes - 1.
        sample_weight : array-like of shape (n_samples,), default=None
        """
        codes = check_codes(y, n_classes)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        check_same_length(X=range(X.shape[0]), y=codes, sample_weight=weights)
        precision: Any = np.float32 if X.dtype == np.float32 else np.float64
        with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite show in the sums
            sums = _sum_up(X, codes, n_classes, weights, precision)
            if precision == np.float32 and not np.isfinite(sums[-1]).all():  # 1e20 squared overflows float32
                precision = np.float64
                sums = _sum_up(X, codes, n_classes, weights, precision)
        return cls(*sums, rounding=ROUNDING_FLOAT32 if precision == np.float32 else ROUNDING)

    def __add__(self, other: ClassSums) -> ClassSums:
        if not isinstance(other, ClassSums):
            return NotImplemented
        if self.centred_sums.shape != other.centred_sums.shape:
            raise ValueError(
                f"sums of {self.n_classes} classes x {self.n_features} features cannot be added to sums of "
                f"{other.n_classes} x {other.n_features}; name all classes when you sum each block"
            )
        classes, names = (_common_names(self, other, name) for name in ("classes", "feature_names"))
        each = np.ones(self.n_classes)
        a = _Moments(self.weight, self.mean, each @ self.centred_sums)
        b = _Moments(other.weight, other.mean, each @ other.centred_sums)
        with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite show in the sums
            both, change = a.merge(b)
            shifts = np.stack([a.mean - both.mean, b.mean - both.mean])
            # c x d may be large: one product for both shifts, and no other temporary array.
            centred_sums = np.column_stack([self.counts, other.counts]) @ shifts
            centred_sums += self.centred_sums
            centred_sums += other.centred_sums
            change += self.scatter
            change += other.scatter
        rounding = max(self.rounding, other.rounding)
        return ClassSums(self.counts + other.counts, both.mean, centred_sums, change, classes, names, rounding)

    def __radd__(self, other: int) -> ClassSums:
        """``sum(blocks)`` starts from 0."""
        return self if other == 0 else NotImplemented

    @property
    def n_classes(self) -> int:
        return self.centred_sums.shape[0]

    @property
    def n_features(self) -> int:
        return self.centred_sums.shape[1]

    @property
    def weight(self) -> float:
        """Number of rows, or their total weight."""
        return float(self.counts.sum())

    @property
    def noisy_prior(self) -> FloatArray:
        """Frequencies of the noisy labels, shape (n_classes,)."""
        if self.weight <= 0:
            raise ValueError("these sums hold no rows, or only rows of weight zero; add rows that count before fitting")
        return self.counts / self.weight

    @property
    def centroid(self) -> FloatArray:
        """The noisy centroid mu = (1/n) sum x y', shape (n_features, n_classes), Eq. (empirical_centroid)."""
        return (self.centred_sums + np.outer(self.counts, self.mean)).T / self.weight

    @property
    def about_mean(self) -> ClassSums:
        """The sums of the same rows after subtracting the mean from each: nothing but the mean changes."""
        return replace(self, mean=np.zeros_like(self.mean))

    @property
    def gram(self) -> FloatArray:
        """X'X about zero, shape (n_features, n_features)."""
        return self.scatter + self.weight * np.outer(self.mean, self.mean)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Weight and mean of some rows, and the sum of x - mean, which is zero except for the rounding of the mean."""

    weight: float
    mean: FloatArray
    rest: FloatArray

    def merge(self, other: _Moments) -> tuple[_Moments, FloatArray]:
        """Return the moments of both, and what moving to the common mean adds to the sum of their scatters."""
        a, b = (self, other) if self.weight >= other.weight else (other, self)
        total = a.weight + b.weight
        # The rests are fed back; otherwise many small merges would not move a mean that is far from zero.
        step = (b.weight * (b.mean - a.mean) + a.rest + b.rest) / (total if total > 0 else 1.0)
        mean = a.mean + step
        shifts = np.stack([a.mean - mean, b.mean - mean])
        moments = np.stack([a.rest + a.weight / 2 * shifts[0], b.rest + b.weight / 2 * shifts[1]])
        half = shifts.T @ moments
        rest = a.rest + b.rest + a.weight * shifts[0] + b.weight * shifts[1]
        return _Moments(total, mean, rest), half + half.T


def _common_names(a: ClassSums, b: ClassSums, field: str) -> NDArray[Any] | None:
    names, others = getattr(a, field), getattr(b, field)
    if names is None or others is None or names is others:
        return others if names is None else names
    if not np.array_equal(names, others):
        k = int(np.flatnonzero([one != other for one, other in zip(names, others, strict=True)])[0])
        raise ValueError(
            f"the sums differ in their {field}: number {k} is {names[k]!r} here and {others[k]!r} there. Use the same "
            "classes and features, in the same order, for all blocks"
        )
    return names


def _sum_up(
    X: Any, codes: IntArray, n_classes: int, weights: FloatArray | None, precision: Any
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the first four fields of :class:`ClassSums` in one pass.

    Rows are summed about an offset in groups, each as large as all groups before it; the offset is the mean of all rows
    before it. If its distance from the group's own mean is J, then J^2 times the group's weight is at most twice what
    the distance of the two means adds to the scatter, and no more than that cancels, whatever the order of the rows.
    """
    n, d = X.shape
    rows = max(1, min(n, MOST_ROWS, BLOCK // max(d * np.dtype(precision).itemsize, 1)))
    # In the order of X: transposing a block of columns, which is how files store them, would cost as much as its X'X.
    by_column = isinstance(X, np.ndarray) and X.flags.f_contiguous and not X.flags.c_contiguous
    buffer = np.empty((rows, d), dtype=precision, order="F" if by_column else "C")
    product = np.empty((d, d), dtype=precision)
    sums, scatter = np.zeros((n_classes, d)), np.zeros((d, d))
    seen = _Moments(0.0, np.zeros(d), np.zeros(d))
    counts, offsets = [np.zeros(n_classes)], [np.zeros(d)]
    parts = np.ones(rows, precision), np.zeros(rows, np.intp), np.arange(rows + 1)
    labels = sparse.csc_array(parts, shape=(n_classes, rows))
    plain = weights is None and isinstance(X, np.ndarray) and X.flags.c_contiguous and X.dtype == precision
    start = 0
    while start < n:
        stop = min(2 * start if start else rows, n)
        group = slice(start, stop)
        weight = float(stop - start if weights is None else weights[group].sum())
        near = weight <= 4 * seen.weight  # otherwise the earlier rows count too little to tell where these are
        offset = seen.mean.astype(precision) if near else _mean(X[group], weights, group, buffer)
        # Features that are already centered about zero, such as scaled ones, need no copy of the block.
        as_it_is = plain and near and bool((seen.weight * seen.mean**2 <= np.diag(scatter)).all())
        if as_it_is:
            offset = np.zeros(d, dtype=precision)
        rest = np.zeros(d)
        for part in _parts(start, stop, rows):
            block = X[part] if as_it_is else np.subtract(_dense(X[part]), offset, out=buffer[: part.stop - part.start])
            root = None if weights is None else np.sqrt(weights[part]).astype(precision)
            if root is not None:
                block *= root[:, np.newaxis]
            scatter += np.matmul(block.T, block, out=product)
            by_class = _one_hot(labels, codes[part], root, block) @ block
            sums += by_class
            rest += by_class.sum(axis=0, dtype=np.float64)
        seen, change = seen.merge(_Moments(weight, offset.astype(np.float64), rest))
        scatter += change
        count = np.bincount(codes[group], None if weights is None else weights[group], minlength=n_classes)
        counts.append(count.astype(np.float64))
        offsets.append(offset.astype(np.float64))
        start = stop
    sums += np.stack(counts, axis=1) @ (np.stack(offsets) - seen.mean)
    return np.sum(counts, axis=0), seen.mean, sums, scatter


def _mean(X: Any, weights: FloatArray | None, group: slice, buffer: NDArray[Any]) -> NDArray[Any]:
    """Return roughly the mean, in the buffer's precision; computed about one row, so exact for a constant feature.

    If there are many rows without weights, every eighth row is enough: for any rows, n (offset - mean)^2 is then at
    most eight times the scatter, and no more than that cancels.
    """
    precision = buffer.dtype
    if weights is None and X.shape[0] > MANY_ROWS:
        X = X[::8]
    w = np.ones(X.shape[0]) if weights is None else weights[group]
    heaviest = int(w.argmax())
    first = _dense(X[heaviest : heaviest + 1])[0].astype(precision)
    total = np.zeros(X.shape[1])
    for part in _parts(0, X.shape[0], len(buffer)):
        difference = np.subtract(_dense(X[part]), first, out=buffer[: part.stop - part.start])
        total += w[part].astype(precision) @ difference
    return np.asarray(first + total / (w.sum() or 1.0), dtype=precision)


def _parts(start: int, stop: int, rows: int) -> Iterator[slice]:
    return (slice(a, min(a + rows, stop)) for a in range(start, stop, rows))


def _dense(block: Any) -> Any:
    return block.toarray() if hasattr(block, "toarray") else block


def _one_hot(reused: Any, codes: IntArray, root: NDArray[Any] | None, block: NDArray[Any]) -> Any:
    """Return (n_classes, n_rows) with root (or 1) at the class of each row: its product with the block sums each class.

    The product takes O(n d), even for thousands of classes. The matrix is reused, because building it takes as long as
    the product; the answer is valid until the next call.
    """
    matrix = reused if len(codes) == reused.shape[1] else reused[:, : len(codes)]
    matrix.indices[:] = codes
    if root is not None:
        matrix.data[:] = root
    return matrix.toarray() if not block.flags.c_contiguous and matrix.shape[0] <= FEW_CLASSES else matrix
