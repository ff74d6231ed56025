"""What a linear model needs of the data: sums that add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unflip._validation import FloatArray, IntArray, check_codes, check_same_length

BLOCK = 2**18  # numbers in a block: 2 MiB of float64, large enough for BLAS, small enough for the cache
FEW_CLASSES = 64  # up to here a product with one-hot labels is faster than sorting the block by label


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Counts, feature sums per class and X'X of labelled rows: the sufficient statistics of a linear fit.

    Sums of two blocks of rows add with ``+`` (``sum(blocks)`` works too), in any order and on any machine; the result
    is that of all rows at once up to rounding. They are kept about the mean, and merged by the rule of Chan, Golub and
    LeVeque (1983), so that features far from zero lose no digits::

        delta = mean_b - mean_a
        scatter = scatter_a + scatter_b + delta delta' n_a n_b / (n_a + n_b)

    Attributes
    ----------
    counts : ndarray of shape (n_classes,)
        Number (or total weight) of rows per noisy class.
    mean : ndarray of shape (n_features,)
    centred_sums : ndarray of shape (n_classes, n_features)
        Sum of x - mean over the rows of each noisy class.
    scatter : ndarray of shape (n_features, n_features)
        Sum of (x - mean)(x - mean)'.

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

    @classmethod
    def of(cls, X: Any, y: ArrayLike, n_classes: int, sample_weight: ArrayLike | None = None) -> ClassSums:
        """Sum up rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Read once, block by block; memory beyond X is O(n_features^2 + n_features n_classes). The products inside a
            block of some hundred rows are taken in the precision of X, the sums over blocks in float64: float32 data
            are summed at their own precision, about 1e-7, and at twice the speed.
        y : array-like of int, shape (n_samples,)
            Codes of the noisy labels, 0 .. n_classes - 1.
        n_classes : int
        sample_weight : array-like of shape (n_samples,), default=None
        """
        codes = check_codes(y, n_classes)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        check_same_length(X=range(X.shape[0]), y=codes, sample_weight=weights)
        n, d = X.shape
        if n == 0:
            return cls(np.zeros(n_classes), np.zeros(d), np.zeros((n_classes, d)), np.zeros((d, d)))
        counts = np.bincount(codes, weights, minlength=n_classes).astype(np.float64)
        rows = max(1, min(n, BLOCK // max(d, 1)))
        precision = np.float32 if X.dtype == np.float32 else np.float64
        # Sums are taken about the first block's mean, then moved to the mean of all: one pass, no cancellation.
        offset = np.asarray(_dense(X[:rows]).mean(axis=0, dtype=np.float64)).astype(precision)
        buffer = np.empty((rows, d), dtype=precision)
        sums = np.zeros((n_classes, d))
        scatter = np.zeros((d, d))
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            block = np.subtract(_dense(X[part]), offset, out=buffer[: part.stop - start])
            root = np.ones(len(block), precision) if weights is None else np.sqrt(weights[part]).astype(precision)
            if weights is not None:
                block *= root[:, np.newaxis]
            scatter += block.T @ block
            _add_class_sums(sums, block, codes[part], root)
        total = counts.sum()
        shift = sums.sum(axis=0) / (total if total > 0 else 1.0)
        mean = offset.astype(np.float64) + shift
        return cls(counts, mean, sums - np.outer(counts, shift), scatter - total * np.outer(shift, shift))

    def __add__(self, other: ClassSums) -> ClassSums:
        if not isinstance(other, ClassSums):
            return NotImplemented
        if self.centred_sums.shape != other.centred_sums.shape:
            raise ValueError(
                f"sums of {self.n_classes} classes x {self.n_features} features cannot be added to sums of "
                f"{other.n_classes} x {other.n_features}: name all classes when summing each block"
            )
        total = self.weight + other.weight
        share = other.weight / total if total > 0 else 0.0
        delta = other.mean - self.mean
        mean = self.mean + share * delta
        moved = np.outer(self.counts, self.mean - mean) + np.outer(other.counts, other.mean - mean)
        return ClassSums(
            self.counts + other.counts,
            mean,
            self.centred_sums + other.centred_sums + moved,
            self.scatter + other.scatter + (self.weight * share) * np.outer(delta, delta),
        )

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
            raise ValueError("these sums hold no rows (or only rows of weight zero); there is nothing to fit")
        return self.counts / self.weight

    @property
    def centroid(self) -> FloatArray:
        """The noisy centroid mu = (1/n) sum x y', shape (n_features, n_classes), Eq. (empirical_centroid)."""
        return (self.centred_sums + np.outer(self.counts, self.mean)).T / self.weight

    @property
    def gram(self) -> FloatArray:
        """X'X about zero, shape (n_features, n_features)."""
        return self.scatter + self.weight * np.outer(self.mean, self.mean)


def _dense(block: Any) -> Any:
    return block.toarray() if hasattr(block, "toarray") else block


def _add_class_sums(sums: FloatArray, block: NDArray[Any], codes: IntArray, root: NDArray[Any]) -> None:
    """Add sum of root * row over the rows of each class, in O(n d) also for thousands of classes."""
    n_classes = len(sums)
    if n_classes <= FEW_CLASSES:
        one_hot = np.zeros((len(block), n_classes), dtype=block.dtype)
        one_hot[np.arange(len(block)), codes] = root
        sums += one_hot.T @ block
        return
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sums[ordered[starts]] += np.add.reduceat(block[order] * root[order, np.newaxis], starts, axis=0)
