"""NOISE: transition matrices of the noise models, and the draw that corrupts labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from scipy.stats import norm

from unflip._validation import FloatArray, check_labels, check_range, check_same_length, check_transition

RandomState = int | np.random.RandomState | np.random.Generator | None


def symmetric(n_classes: int, rate: float) -> FloatArray:
    """Return T of symmetric noise: a label flips with probability ``rate``, to each other class equally.

    ::

        T[i, i] = 1 - rate,    T[i, j] = rate / (n_classes - 1)

    Examples
    --------
    >>> symmetric(3, 0.2).tolist()
    [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    """
    _check_sizes(n_classes, rate)
    return np.where(np.eye(n_classes, dtype=bool), 1 - rate, rate / (n_classes - 1))


def pairflip(n_classes: int, rate: float) -> FloatArray:
    """Return T of pair noise: a label flips with probability ``rate`` to the next class, the last one to the first.

    ::

        T[i, i] = 1 - rate,    T[i, i + 1 mod n_classes] = rate

    Examples
    --------
    >>> pairflip(3, 0.4).tolist()
    [[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.4, 0.0, 0.6]]
    """
    return asymmetric(n_classes, {i: ((i + 1) % n_classes, rate) for i in range(n_classes)})


def asymmetric(n_classes: int, flips: Mapping[int, tuple[int, float]]) -> FloatArray:
    """Return T of one-sided noise: ``flips = {i: (j, rate)}`` flips class i, and no other, to j with probability rate.

    Examples
    --------
    >>> asymmetric(3, {0: (2, 0.25)}).tolist()
    [[0.75, 0.0, 0.25], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    _check_sizes(n_classes, 0)
    T = np.eye(n_classes)
    for i, (j, rate) in flips.items():
        _check_sizes(n_classes, rate)
        if not (0 <= i < n_classes and 0 <= j < n_classes) or i == j:
            raise ValueError(f"a flip must go from one class code in 0 .. {n_classes - 1} to another; got {i} -> {j}")
        T[i, i], T[i, j] = 1 - rate, rate
    return T


def corrupt(
    y: ArrayLike, transition: ArrayLike, random_state: RandomState = None, classes: ArrayLike | None = None
) -> NDArray[Any]:
    """Return noisy labels of the same dtype: each label is drawn once, independently, from its row of T.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Clean labels of any kind.
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i); it need not be invertible.
    random_state : int, RandomState, Generator or None, default=None
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, if ``y`` lacks some of them.

    Examples
    --------
    >>> corrupt(["cat", "dog", "cat"], [[0, 1], [1, 0]], random_state=0).tolist()
    ['dog', 'cat', 'dog']
    """
    known, codes = check_labels(y, classes)
    T = check_transition(transition, len(known), invertible=False)
    return _as_given(known[_draw(T, codes, random_state)], y)


def instance_dependent(
    X: ArrayLike,
    y: ArrayLike,
    rate: float,
    random_state: RandomState = None,
    classes: ArrayLike | None = None,
    spread: float = 0.1,
) -> NDArray[Any]:
    """Return noisy labels whose flip rate and flip target both depend on x: noise that no single T describes.

    After Xia et al. (2020), Algorithm 2: the rates q follow a truncated normal distribution N(rate, spread^2); a label
    of class k flips to class j with probability proportional to exp(x' w_kj), with random directions w::

        P(noisy = j | x, clean = k) = q(x) softmax_{j != k}(x' w_kj),    P(noisy = k | x, clean = k) = 1 - q(x)

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Features; they are standardized inside.
    y, random_state, classes
        As in :func:`corrupt`.
    rate : float in [0, 1]
        The mean flip rate.
    spread : float, default=0.1
        Standard deviation of the rates before truncation at two standard deviations. It is lowered to rate / 2 or
        (1 - rate) / 2 if larger, so that the rates stay in [0, 1] and their mean stays ``rate``.

    Notes
    -----
    The original draws q independently of x. Here the same rates are assigned in the order of a random projection of x,
    so that whole regions of the input space are noisier than others.

    References
    ----------
    Xia et al., Part-dependent Label Noise: Towards Instance-dependent Label Noise, NeurIPS 2020.

    Examples
    --------
    >>> X, y = np.random.default_rng(0).normal(size=(1000, 5)), np.arange(1000) % 3
    >>> bool(abs(np.mean(instance_dependent(X, y, 0.3, random_state=0) != y) - 0.3) < 0.05)
    True
    """
    known, codes = check_labels(y, classes)
    _check_sizes(len(known), rate)
    if spread < 0:
        raise ValueError(f"spread must be a standard deviation and cannot be negative; got {spread}")
    features = np.asarray(X, dtype=np.float64)
    if features.ndim != 2 or not np.isfinite(features).all():
        raise ValueError(f"X must be finite numbers of shape (n_samples, n_features); got shape {features.shape}")
    check_same_length(X=features, y=codes)
    check_range(features)
    rng = _generator(random_state)
    n, d = features.shape
    scale = features.std(axis=0)
    Z = (features - features.mean(axis=0)) / np.where(scale > 0, scale, 1)

    narrow = min(spread, rate / 2, (1 - rate) / 2)
    low, high = norm.cdf([-2, 2])
    quantiles = low + (high - low) * (np.arange(n) + 0.5) / n
    q = np.empty(n)
    q[np.argsort(Z @ rng.normal(size=d), kind="stable")] = rate + narrow * norm.ppf(quantiles)

    P = np.empty((n, len(known)))
    for k in range(len(known)):
        mine = codes == k
        scores = Z[mine] @ rng.normal(size=(d, len(known)))
        scores[:, k] = -np.inf
        P[mine] = q[mine, np.newaxis] * softmax(scores, axis=1)
        P[mine, k] = 1 - q[mine]
    return _as_given(known[_draw(P, np.arange(n), rng)], y)


def _draw(P: FloatArray, rows: NDArray[np.intp], random_state: RandomState) -> NDArray[np.intp]:
    """Draw one class code for each entry of ``rows`` from that row of P, in memory O(P + rows)."""
    c = P.shape[1]
    # Row r of the cumulative sums is moved to [r, r + 1], so that one sorted search is enough for all rows.
    ladder = (np.minimum(np.cumsum(P, axis=1), 1) + np.arange(len(P))[:, np.newaxis]).ravel()
    drawn = np.searchsorted(ladder, rows + _generator(random_state).random(len(rows)), side="right") - rows * c
    # A row that sums to a little less than one must not draw past its last possible class.
    last = c - 1 - np.argmax(P[:, ::-1] > 0, axis=1)
    return np.minimum(drawn, last[rows])


def _generator(random_state: RandomState) -> np.random.Generator:
    """Return a local generator from whatever scikit-learn users pass as random_state; never the global one."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return np.random.default_rng(random_state)


def _as_given(noisy: NDArray[Any], y: ArrayLike) -> NDArray[Any]:
    """Return the labels with the dtype of y, but never with strings so short that a class name is cut."""
    dtype = np.asarray(y).dtype
    return noisy.astype(np.promote_types(dtype, noisy.dtype) if dtype.kind in "US" else dtype, copy=False)


def _check_sizes(n_classes: int, rate: float) -> None:
    if n_classes < 2:
        raise ValueError(f"noise needs at least two classes; got n_classes={n_classes}")
    if not 0 <= rate <= 1:
        hint = f". If it is a percentage, give {rate / 100:g}" if rate > 1 else ""
        raise ValueError(f"rate must be a probability in [0, 1]; got {rate}{hint}")
