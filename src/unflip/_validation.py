"""The conventions of the package, each checked in one place."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

CONVENTION = "T[i, j] = P(noisy = j | clean = i), so every row sums to one"
LARGEST_CONDITION = 1e8  # beyond it T^-1 multiplies rounding errors and sampling noise into nonsense
SMALLEST, LARGEST = 1e-30, 1e30  # sizes of features: their squares, and the squares of these, are still numbers
SINGLE = 1e12  # beyond it, or below its inverse, squares of float32 lose digits or overflow
MANY_CLASSES = 512  # beyond it a singular value decomposition of T takes seconds, for 5,000 classes minutes


def check_transition(
    transition: Any, n_classes: int | None = None, *, invertible: bool = True, keep_sparse: bool = False
) -> FloatArray:
    """Return T[i, j] = P(noisy = j | clean = i) as float64, shape (n_classes, n_classes), or say what is wrong with it.

    If ``n_classes`` is None, any size is accepted. ``invertible`` refuses a matrix that cannot be inverted: it has
    destroyed the label, and nothing can be corrected with it. With ``keep_sparse`` a sparse matrix is returned as a CSC
    array, without ever being filled in.
    """
    T: Any
    try:
        if keep_sparse and hasattr(transition, "tocsc"):
            from scipy import sparse

            T = sparse.csc_array(transition, dtype=np.float64, copy=True)
            T.sum_duplicates()
            T.eliminate_zeros()
        else:
            T = np.array(transition.toarray() if hasattr(transition, "toarray") else transition, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"transition must be a matrix of numbers with {CONVENTION}; got {transition!r}") from error
    if len(T.shape) != 2 or T.shape[0] != T.shape[1]:
        raise ValueError(f"transition must be a square matrix, one row and one column per class; got shape {T.shape}")
    if n_classes is not None and T.shape[0] != n_classes:
        raise ValueError(
            f"transition is {T.shape[0]} x {T.shape[0]} but there are {n_classes} classes: give one row and one column "
            "per class, or name all classes with classes=[...] if the noise emptied one"
        )
    if T.shape[0] < 2:
        raise ValueError("transition must have at least two classes; got a 1 x 1 matrix")
    _check_probabilities(T)
    if invertible:
        condition = condition_number(T)
        if not condition <= LARGEST_CONDITION:
            raise ValueError(
                f"transition is singular (condition number {condition:.2g}): two classes flip in the same way, so the "
                "clean label cannot be recovered. Merge those classes, or lower the noise rate (symmetric noise must "
                "stay below (n_classes - 1) / n_classes)"
            )
    return T


def _check_probabilities(T: Any) -> None:
    dense = isinstance(T, np.ndarray)
    entries: Any = T if dense else T.tocoo().data
    if not np.isfinite(entries).all():
        raise ValueError("transition has NaN or infinite entries; every entry must be a probability")
    if entries.size and entries.min() < 0:
        k = int(entries.argmin())
        i, j = np.unravel_index(k, T.shape) if dense else (int(axis[k]) for axis in (T.tocoo().row, T.tocoo().col))
        raise ValueError(f"transition has a negative entry, T[{i}, {j}] = {T[i, j]:g}; {CONVENTION}")
    row_sums = T.sum(axis=1)
    if not np.allclose(row_sums, 1, atol=1e-6):
        if np.allclose(T.sum(axis=0), 1, atol=1e-6):
            raise ValueError(f"your matrix looks column-stochastic; transpose it. Here {CONVENTION}")
        worst = int(np.abs(row_sums - 1).argmax())
        raise ValueError(
            f"row {worst} of transition sums to {row_sums[worst]:g}, not to one; {CONVENTION}. "
            "Counts become such a matrix by T / T.sum(axis=1, keepdims=True)"
        )


def condition_number(T: Any) -> float:
    """Return the condition number of T, or an upper bound or a close estimate if the exact one would take minutes.

    Up to 512 classes it is exact, in the 2-norm. Beyond that, and for a sparse T, there are two cases. If the diagonal
    outweighs the rest, it gives a bound in the maximum norm (Varah, 1975). If not, T is factorized, and the 1-norm of
    its inverse is estimated from a few products (Higham and Tisseur, 2000)::

        |T| |T^-1| <= 1 / min_i (T[i, i] - sum_{j != i} T[i, j]),    rows of T sum to one
    """
    if isinstance(T, np.ndarray) and len(T) <= MANY_CLASSES:
        return float(np.linalg.cond(T))
    surplus = float((2 * T.diagonal() - T.sum(axis=1)).min())
    return 1 / surplus if surplus > 1e-3 else _estimated_condition(T)


def _estimated_condition(T: Any) -> float:
    # Imported here because only thousands of classes, or a sparse T, need it.
    from scipy import linalg, sparse
    from scipy.sparse.linalg import LinearOperator, onenormest, splu

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", linalg.LinAlgWarning)  # a zero pivot
            if sparse.issparse(T):
                solve = splu(T.tocsc()).solve
            else:
                factors = linalg.lu_factor(T, check_finite=False)

                def solve(b: FloatArray, trans: str = "N") -> Any:
                    return linalg.lu_solve(factors, b, trans="NT".index(trans), check_finite=False)

    except (RuntimeError, linalg.LinAlgWarning):
        return float(np.inf)

    transposed = partial(solve, trans="T")
    inverse = LinearOperator(T.shape, solve, rmatvec=transposed, matmat=solve, rmatmat=transposed, dtype=np.float64)
    with np.errstate(all="ignore"):
        return float(abs(T).sum(axis=0).max() * onenormest(inverse))


def check_labels(y: ArrayLike, classes: ArrayLike | None = None) -> tuple[NDArray[Any], IntArray]:
    """Return the sorted classes and the code of each label, ``classes[codes] == y``.

    Labels may be any values of one kind that can be ordered. ``classes`` names all of them if the noise (or a fold) has
    emptied one; the rows of T follow its order, so it must be sorted as scikit-learn sorts ``classes_``.
    """
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one label per sample, shape (n_samples,); got shape {labels.shape}")
    if len(labels) == 0:
        raise ValueError("y is empty; at least one label is needed")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"y has {int(np.isnan(labels).sum())} missing labels (NaN); drop those samples")
    try:
        known = np.unique(labels) if classes is None else check_classes(classes)
        codes = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        outside = known[codes] != labels
        if np.any(outside):
            strangers = np.unique(labels[outside])
            raise ValueError(
                f"y has labels outside classes: {strangers[:5].tolist()}; classes are {known[:10].tolist()}. "
                "Add them to classes, or drop those samples"
            )
    except TypeError as error:
        raise ValueError(f"labels must be all numbers or all strings, which can be ordered: {error}") from error
    if len(known) < 2:
        raise ValueError(
            f"y has one class only, {known[0]!r}; a classifier needs at least two classes. "
            "If the others are merely absent here, name all of them with classes=[...]"
        )
    return known, codes.astype(np.intp, copy=False)


def check_classes(classes: ArrayLike) -> NDArray[Any]:
    """Return the classes as a sorted array without repeats, or say how to fix them."""
    known = np.asarray(classes)
    if known.ndim != 1 or len(known) == 0:
        raise ValueError(f"classes must be a list of all class labels; got {classes!r}")
    ordered = np.unique(known)
    if len(ordered) != len(known) or np.any(ordered != known):
        raise ValueError(
            f"classes must be sorted and without repeats, {ordered[:10].tolist()}; got {known[:10].tolist()}. The rows "
            "and columns of transition follow this order: reorder them in the same way"
        )
    return ordered


def check_codes(y: ArrayLike, n_classes: int) -> IntArray:
    """Return ``y`` as class codes 0 .. n_classes - 1, the form that the core functions take."""
    codes = np.asarray(y)
    if codes.ndim != 1 or (codes.dtype.kind not in "iu" and len(codes)):
        raise ValueError(f"y must be class codes, integers of shape (n_samples,); got {codes.dtype} {codes.shape}")
    if len(codes) and not 0 <= codes.min() <= codes.max() < n_classes:
        found = f"{codes.min()} .. {codes.max()}; np.unique(y, return_inverse=True) turns labels into codes"
        raise ValueError(f"class codes must lie in 0 .. {n_classes - 1}; got {found}")
    return codes.astype(np.intp, copy=False)


def check_prior(prior: ArrayLike, n_classes: int) -> FloatArray:
    """Return class probabilities as float64, shape (n_classes,), summing to one."""
    pi = np.asarray(prior, dtype=np.float64)
    if pi.shape != (n_classes,):
        raise ValueError(f"prior must have one probability per class, shape ({n_classes},); got shape {pi.shape}")
    if not np.isfinite(pi).all() or pi.min() < 0 or not np.isclose(pi.sum(), 1, atol=1e-6):
        raise ValueError(
            f"prior must be probabilities that sum to one; got {pi.tolist()}. Counts become a prior by n / n.sum()"
        )
    return pi


def check_same_length(**arrays: Any) -> None:
    """Refuse arrays of different lengths, by their names."""
    lengths = {name: len(array) for name, array in arrays.items() if array is not None}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise ValueError(f"one entry per sample is needed, but lengths differ: {found}")


def check_range(X: Any, names: Any = None, *, fitting: bool = True) -> Any:
    """Return X in a precision that holds its squares; refuse a column whose numbers are too large, and name it.

    In ``fitting``, a column without any number larger than 1e-30 is refused, too: its variance would be zero. NaN is
    ignored. float32 becomes float64 where its squares would overflow or vanish.
    """
    if 0 in X.shape or X.dtype.kind != "f":
        return X
    if sparse.issparse(X):
        sizes = np.abs(X.data[: X.nnz])
        if sizes.min(initial=1) >= 1 / SINGLE and sizes.max(initial=1) <= SINGLE:  # no need to look at each column
            return X
        size: Any = np.zeros(X.shape[1])
        np.maximum.at(size, X.tocoo().col, sizes.astype(np.float64))
    else:
        size = np.maximum(np.fmax.reduce(X, axis=0), -np.fmin.reduce(X, axis=0)).astype(np.float64)
    over, under = size > LARGEST, (size > 0) & (size < SMALLEST)
    if over.any() or (fitting and under.any()):
        column = int((over if over.any() else under).argmax())
        said = f"column {column}" if names is None else f"the column {names[column]!r}"
        fault = f"reaches {size[column]:.3g}" if over.any() else f"does not exceed {size[column]:.3g}"
        raise ValueError(
            f"{said} {fault} in size, but numbers must be between {SMALLEST:g} and {LARGEST:g} to be squared and "
            "summed; multiply the column by a suitable number"
        )
    if X.dtype.itemsize < 8 and ((size > SINGLE) | ((size > 0) & (size < 1 / SINGLE))).any():
        return X.astype(np.float64)
    return X


def bounded_weights(weights: FloatArray) -> FloatArray:
    """Return weights whose sums and squares are numbers, with the same ratios: the largest is from 1e-20 to 1e20.

    Weights that are smaller than the largest by more than 20 orders of magnitude become zero: they are lost in rounding
    anyway, but their ratios are not. All other weights are returned as they are.
    """
    top = float(weights.max(initial=0))
    if top == 0:
        return weights
    factor = min(1.0, 1e20 / top) if top > 1 else max(1.0, 1e-20 / top)
    weights = weights if factor == 1 else weights * factor
    lost = (weights > 0) & (weights < 1e-20 * weights.max())
    return np.where(lost, 0.0, weights) if lost.any() else weights
