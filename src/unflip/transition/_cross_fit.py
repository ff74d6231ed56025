"""Cross-fitting: T from the posteriors of models that did not see the sample.

``em_transition`` fits T to held-out posteriors of any kind: of networks in ``CrossFitEM``, of logistic models in
``VolMin``. The rest of the file is the logistic case: the data as the solver needs them, the loss through T with its
gradient, and the rounds of cross-fitting. At the end are the standard errors of an estimated T.
"""

import zlib
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cholesky, null_space, solve_triangular
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln, log_softmax, softmax
from sklearn.utils.sparsefuncs import inplace_column_scale, mean_variance_axis

from unflip._validation import FloatArray, IntArray
from unflip.transition._lbfgs import lbfgs

SMALL = 1_000_000  # n_samples x n_features x n_classes: up to here a step takes about a millisecond in float64
WIDEST_WHITENING = 1024  # features; beyond it a Cholesky factor costs more than the iterations it saves
ALPHA = 0.25  # penalty of the models per feature; the temperature makes up for it: 0.06 and 1 give nearly the same T
LEAST_ROWS = 20  # distinct rows per class; with fewer, the models of the folds know too little
LARGE = 10_000_000  # n_samples x n_features x n_classes: from here on two folds instead of five
RULED_OUT = -1000.0  # logit of a class that T rules out; times the smallest temperature it still gives zero
LIFT = 0.01  # EM cannot leave a zero, so the start is mixed with this much of the uniform matrix
SETTLED = 0.005  # mean change of a row of T, summed over its entries, at which the rounds end
# For a wide sparse X:
ALPHA_SPARSE = 0.35  # as ALPHA, while T is estimated
OTHER_ALPHAS = (0.6, 0.2)  # tried for the final model: symmetric noise needs more penalty than pair noise
LEAST_ROWS_SPARSE = 5  # distinct rows per class; rows of T that lean on each other need fewer
LARGE_SPARSE = 2_500_000  # stored numbers x n_classes: from here on two folds instead of five
SETTLED_SPARSE = 0.02  # as SETTLED
SURE = 0.3  # share of the rows of a predicted class, the surest ones, that T starts from
PSEUDO_ROWS = 10  # rows with the common noise rate that each row of T gets
# Distinct rows that suffice to choose a scaling: in all, per feature and per class, whichever is most. With fewer rows
# per feature all models overfit, and the scaling with fewer effective features leads too easily.
DECIDING, DECIDING_PER_FEATURE, DECIDING_PER_CLASS = 5_000, 20, 40
# In log-likelihood per label, for "common": pixels lead by 0.003 to 0.025, columns in other units by next to nothing.
LEAST_LEAD = 0.0025
LEVELS = 64  # that the ranks of a column are coarsened to in the key of a row


def em_transition(
    posteriors: FloatArray,
    y: IntArray,
    transition: FloatArray,
    *,
    volume: float = 0.0,
    steps: int = 1,
    sample_weight: FloatArray | None = None,
    shrink: bool = False,
) -> FloatArray:
    """Return T after EM steps with fixed posteriors P(clean | x), shape (n_samples, n_classes), and noisy codes ``y``.

    See :class:`unflip.transition.CrossFitEM` for the formula. ``volume`` weighs the volume; a row whose diagonal would
    no longer be its largest entry is left to the likelihood alone. Without volume, no step lowers the likelihood of the
    noisy labels. ``shrink`` takes the rows of T from :func:`shrunk_rows`; the weights are then numbers of samples.
    """
    T = np.array(transition, dtype=np.float64)
    c = len(T)
    w = np.ones(len(y)) if sample_weight is None else sample_weight
    parts = [(posteriors[y == j], w[y == j]) for j in range(c)]
    for _ in range(steps):
        N = np.empty((c, c))
        for j, (p, weight) in enumerate(parts):
            N[:, j] = T[:, j] * (p.T @ (weight / np.maximum(p @ T[:, j], 1e-300)))
        free = shrunk_rows(N) if shrink else unit_rows(N, T)  # a class without samples keeps its row
        drawn = np.maximum(free - volume * T * np.linalg.pinv(T).T, 0) if volume else free
        on_top = (drawn.argmax(axis=1) == np.arange(c)) | (volume == 0)
        T = np.where(on_top[:, np.newaxis], unit_rows(drawn, free), free)
    return T


def shrunk_rows(counts: FloatArray) -> FloatArray:
    """Return T from counts N[i, j] of clean i and noisy j, for many classes with few samples each.

    The rows lean on each other: each noise rate on the common one r, and the flips of each class on all other classes
    equally, as much as the rows together make likely (a Dirichlet prior whose strength s is learned)::

        rate_i = (sum_{j != i} N[i, j] + 10 r) / (sum_j N[i, j] + 10)
        T[i, j] = rate_i (N[i, j] + s / (c - 1)) / (sum_{k != i} N[i, k] + s)    for j != i

    Symmetric noise gives a large s, pair noise a small one. A row whose diagonal would not be its largest entry, as may
    happen to a rare class next to a frequent one, takes the common rate.
    """
    c = len(counts)
    off = ~np.eye(c, dtype=bool)
    flips = counts[off].reshape(c, c - 1)
    flipped = flips.sum(axis=1)

    def likelihood(s: float) -> float:
        a = s / (c - 1)
        return float(np.sum(gammaln(s) - gammaln(flipped + s)) + np.sum(gammaln(flips + a) - gammaln(a)))

    s = max(c * np.geomspace(0.05, 1e4, 12), key=likelihood)
    shares = (flips + s / (c - 1)) / (flipped[:, np.newaxis] + s)
    common = flipped.sum() / max(counts.sum(), 1e-300)
    rate = (flipped + PSEUDO_ROWS * common) / (counts.sum(axis=1) + PSEUDO_ROWS)
    most = 1 / (1 + shares.max(axis=1))  # with this rate, the largest flip equals the diagonal
    rate = np.where(rate < most, rate, np.minimum(common, most))
    T = np.diag(1 - rate)
    T[off] = (rate[:, np.newaxis] * shares).ravel()
    return T


def mean_log_likelihood(
    posteriors: FloatArray, y: IntArray, transition: FloatArray, sample_weight: FloatArray | None = None
) -> float:
    """Return the mean of log (p T)[y], the log-likelihood of noisy labels under clean posteriors p and T."""
    q = np.einsum("nk,kn->n", posteriors, transition[:, y])
    return float(np.average(np.log(np.maximum(q, 1e-300)), weights=sample_weight))


class Problem(NamedTuple):
    """Data as the objective needs them: rows sorted by noisy label, so that T[:, y] is constant over a slice."""

    X: Any  # (n, d) scaled, dense or CSR
    center: FloatArray  # (d,) still to be subtracted from X; zero if dense
    weights: FloatArray  # (n,) summing to one
    slices: list[slice]  # the rows of each noisy class
    keys: NDArray[np.uint32]  # (n,) of row_keys, which decide the folds
    total: float  # the sum of the weights as given
    covariance: FloatArray | None  # (d, d), or None if there are too many features
    whitening: FloatArray | None  # (d, d) P with W = U P
    volume: float
    penalty: float  # alpha d

    @property
    def is_wide(self) -> bool:
        """Whether X is sparse and too wide for whitening, such as words of texts."""
        return is_wide(self.X)

    @property
    def codes(self) -> IntArray:
        """The noisy label of each row, shape (n,)."""
        return np.repeat(np.arange(len(self.slices)), [rows.stop - rows.start for rows in self.slices])

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether each class is the label of any row, shape (c,)."""
        return np.array([rows.stop > rows.start for rows in self.slices])

    def take(self, kept: NDArray[np.bool_]) -> "Problem":
        """Return the problem of some of the rows, in the same coordinates."""
        share = float(self.weights[kept].sum())
        slices = slices_of(self.codes[kept], len(self.slices))
        rows = {"X": self.X[kept], "weights": self.weights[kept] / share, "slices": slices, "keys": self.keys[kept]}
        return self._replace(**rows, total=self.total * share)

    def with_penalty(self, penalty: float) -> "Problem":
        """Return the problem with another penalty, in coordinates in which the loss is evenly curved.

        ::

            W = U P,    P (cov X + c penalty / n I) P' = I

        At equal probabilities the loss is curved like cov X / c, so compared with cov X the penalty counts c times.
        Where many directions have so little variance that the penalty alone holds them, coordinates for another penalty
        are slow: the models of 1,400 digits take 1.8 s in these and 0.2 s in their own.
        """
        P = None
        if self.covariance is not None:
            # The small number covers constant and repeated columns, and the rounding of float32.
            identity = np.eye(len(self.covariance))
            c = self.present.sum() or len(self.slices)  # rows that are not in memory have no slices
            S = self.covariance + (c * penalty / self.total + 1e-5) * identity
            P = solve_triangular(cholesky(S, lower=True), identity, lower=True)
        return self._replace(penalty=penalty, whitening=P)

    def unpack(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return W (c, d) and b (c,) of theta = (U, b)."""
        c = len(self.slices)
        U, b = theta[:-c].reshape(c, -1), theta[-c:]
        return (U if self.whitening is None else U @ self.whitening), b

    def logits(self, W: FloatArray, b: FloatArray, rows: Any = slice(None)) -> NDArray[Any]:
        """Return W x + b, class by class, shape (c, n): sums over classes then run along memory."""
        X = self.X[rows]
        Z = np.ascontiguousarray((X @ W.T.astype(X.dtype)).T) if sparse.issparse(X) else W.astype(X.dtype) @ X.T
        Z += (b - W @ self.center).astype(X.dtype)[:, np.newaxis]
        return Z

    def loss(self, W: FloatArray, b: FloatArray, T: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Return the penalized forward loss, its gradients in U (c, d) and b (c,), and counts (c, c).

        ::

            (1/n) sum_i w_i (-log (softmax(W x_i + b) T)[y_i])  +  (penalty / 2n) |W|^2

        ``counts[k, j]`` is the share of the samples that are clean k, by their posterior, and noisy j.
        """
        X, P, shrinkage = self.X, self.whitening, self.penalty / self.total
        p = self.logits(W, b)  # (c, n), clean probabilities from the next lines on
        p -= p.max(axis=0)
        np.exp(p, out=p)
        p /= p.sum(axis=0)
        R = np.empty_like(p)  # p_k T[k, y], then the clean posterior given y, times the weight
        for j, rows in enumerate(self.slices):
            np.multiply(p[:, rows], T[:, j : j + 1].astype(p.dtype), out=R[:, rows])
        q = np.maximum(R.sum(axis=0), 1e-30)  # probability of the label that was seen
        w = self.weights.astype(p.dtype)
        R *= w / q
        counts = np.stack([R[:, rows].sum(axis=1, dtype=np.float64) for rows in self.slices], axis=1)
        G = p  # the gradient in the logits is w (p - posterior)
        G *= w
        G -= R
        loss = -float(self.weights @ np.log(q, dtype=np.float64)) + shrinkage / 2 * float(np.sum(W**2))
        g_b = G.sum(axis=1, dtype=np.float64)
        g_W = np.asarray((X.T @ G.T).T if sparse.issparse(X) else G @ X, dtype=np.float64)
        g_W += shrinkage * W - np.outer(g_b, self.center)
        return loss, g_W if P is None else g_W @ P.T, g_b, counts


def is_wide(X: Any) -> bool:
    """Return whether X is sparse with more features than can be whitened; such data have a path of their own."""
    return sparse.issparse(X) and X.shape[1] > WIDEST_WHITENING


def prepare(
    X: Any, codes: IntArray, weights: FloatArray | None, c: int, volume: float, penalty: float, scaling: str = "each"
) -> tuple[Problem, FloatArray, FloatArray]:
    """Return the problem in scaled, centered features, and the mean and scale of the given ones; see ``VolMin``."""
    w = np.ones(len(codes)) if weights is None else weights
    order = rows_in_order(codes, weights)
    total = float(w[order].sum())
    share = w[order] / total
    X = X[order]  # a copy
    n, d = X.shape
    dtype = np.float64 if n * d * c <= SMALL else np.float32
    keys = row_keys(X)
    if sparse.issparse(X):
        mean, variance = mean_variance_axis(X.astype(np.float64), axis=0, weights=share)
        scale = scale_of(mean, variance, scaling)
        X = X.astype(dtype)
        inplace_column_scale(X, (1 / scale).astype(dtype))
        center = mean / scale
    else:
        X = X.astype(np.promote_types(X.dtype, dtype), copy=False)
        share_X = share.astype(X.dtype)
        mean = share_X @ X
        X -= mean
        scale = scale_of(mean, share_X @ np.square(X), scaling)
        X /= scale.astype(X.dtype)
        X = X.astype(dtype, copy=False)
        center = np.zeros(d)
    covariance = None
    if d <= WIDEST_WHITENING:
        half = np.sqrt(share).astype(dtype)[:, np.newaxis]
        H = X.multiply(half).tocsr() if sparse.issparse(X) else X * half
        S = H.T @ H
        covariance = np.asarray(S.todense() if sparse.issparse(S) else S, dtype=np.float64) - np.outer(center, center)
    problem = Problem(X, center, share, slices_of(codes[order], c), keys, total, covariance, None, volume, penalty)
    return problem.with_penalty(penalty), mean, scale


def rows_in_order(codes: IntArray, weights: FloatArray | None) -> IntArray:
    """Return the rows that count, in the order of a problem: by their labels."""
    order = np.argsort(codes, kind="stable")
    return order if weights is None else order[weights[order] > 0]


def choose_scaling(X: Any, codes: IntArray, weights: FloatArray | None, c: int) -> str:
    """Return "common" if it predicts held-out noisy labels clearly better than "each", and "each" otherwise.

    Large data are judged by the part of their rows with the smallest keys: equal rows are in it or not together, in
    any order and with any weights.
    """
    if is_wide(X):  # rare words would count as much as common ones
        return "common"
    d = X.shape[1]
    enough = max(DECIDING, DECIDING_PER_FEATURE * d, DECIDING_PER_CLASS * len(np.unique(codes)))
    if X.shape[0] > enough:
        if weights is not None:
            counted = np.flatnonzero(weights > 0)
            X, codes, weights = X[counted], codes[counted], weights[counted]
        keys = row_keys(X)
        kept = np.flatnonzero(keys <= np.unique(keys)[:enough][-1])
        X, codes, weights = X[kept], codes[kept], None if weights is None else weights[kept]
    losses = []
    for scaling in ("each", "common"):
        problem, _, _ = prepare(X, codes, weights, c, 0.0, ALPHA * d, scaling)
        if not number_of_folds(problem):
            return "each"
        losses.append(held_out_loss(problem))
    return "common" if losses[0] - losses[1] > LEAST_LEAD else "each"


def held_out_loss(problem: Problem) -> float:
    """Return how badly logistic models predict the noisy labels that they did not see.

    ::

        sum_i w_i (-log softmax(t z_i)[y_i])        z_i of the model that saw the other folds, t with the least sum
    """
    c, codes, folds = len(problem.slices), problem.codes, problem.keys % number_of_folds(problem)
    z, start = np.empty((c, len(codes))), start_without_empty(problem, np.eye(c))
    for k in np.unique(folds):
        model = fit_model(problem.take(folds != k), np.eye(c), start)
        z[:, folds == k] = problem.logits(*problem.unpack(model), folds == k)
    t = fit_temperature(z, codes, np.eye(c), problem.weights)
    return -float(problem.weights @ log_softmax(t * z, axis=0)[codes, np.arange(len(codes))])


def cross_fit(
    problem: Problem, T: FloatArray, rounds: int, known: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Return T refined, the clean model W (c, d) and b (c,) that goes with it, and out-of-fold posteriors (n, c).

    If there are too few rows, return None.

    Each fold gets the logits z of a model that did not see it, fitted through the current T; then T, by EM, and one
    temperature t are fitted to the noisy labels of all folds, and the next round begins, unless T hardly moved::

        max over t, T   sum_i w_i log (softmax(t z_i) T)[y_i]

    Without the temperature, T would have to make up for penalized models, which are less sure than they should be. If T
    is ``known``, only the temperature is fitted.
    """
    n_folds, c = number_of_folds(problem), len(problem.slices)
    if not n_folds:
        return None
    start = start_without_empty(problem, T) if known else None
    folds = _Folds(problem.with_penalty(ALPHA * problem.X.shape[1]), problem.keys % n_folds, start)
    T = folds.refine(T if known else (1 - LIFT) * T + LIFT / c, 1 if known else rounds, known)
    return T, *folds.model(T), folds.posteriors


def held_out_posteriors(problem: Problem, T: FloatArray, folds: NDArray[Any]) -> FloatArray:
    """Return P(clean | x) of each row from a model of the other folds, fitted through T, shape (n, c).

    ``folds`` has the fold of each row. One temperature makes the noisy labels of all folds most likely.
    """
    alpha = ALPHA_SPARSE if problem.is_wide else ALPHA
    start = None if problem.is_wide else start_without_empty(problem, T)
    models = _Folds(problem.with_penalty(alpha * problem.X.shape[1]), folds, start)
    if problem.is_wide:  # the loss through T has many minima, that of the labels as they are has one
        models.fit(np.eye(len(T)))
    models.refine(T, 1, known=True)
    return models.posteriors


def cross_fit_wide(
    problem: Problem, T: FloatArray | None, rounds: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Return what :func:`cross_fit` does for a wide sparse X; T is None if it is not known.

    The loss through T has many local minima if there are many features, so all models start from logistic regression on
    the noisy labels, whose loss has none. The same models give a first T: the shares of the noisy labels among the 30 %
    of the held-out rows of each predicted class that they are most sure of. Minimum volume is not used. The penalty of
    the final model is the one with which held-out noisy labels are most likely through T.
    """
    n_folds, c = number_of_folds(problem), len(problem.slices)
    if not n_folds:
        return None
    d = problem.X.shape[1]
    folds = _Folds(problem.with_penalty(ALPHA_SPARSE * d), problem.keys % n_folds)
    folds.fit(np.eye(c))
    if T is not None:
        T = folds.refine(T, 1, known=True)
    else:
        T = folds.refine(sure_shares(folds.z, problem.codes, problem.weights * problem.total), rounds, shrink=True)
    best = folds
    for alpha in OTHER_ALPHAS:
        other = folds.with_penalty(alpha * d, T)
        if other.likelihood > folds.likelihood:
            best = other
            break
    return T, *best.model(T), best.posteriors


class _Folds:
    """The models of the folds, and the logits z (c, n) that each row gets from the model that did not see it."""

    def __init__(self, problem: Problem, folds: NDArray[Any], start: FloatArray | None = None) -> None:
        c, n_folds = len(problem.slices), int(folds.max()) + 1
        self.problem, self.folds = problem, folds
        self.seen = [problem.take(self.folds != k) for k in range(n_folds)]
        self.models = [np.zeros(c * (problem.X.shape[1] + 1)) if start is None else start] * n_folds
        self.z = np.empty((c, len(problem.weights)))

    def fit(self, T: FloatArray) -> None:
        for k, seen in enumerate(self.seen):
            self.models[k] = fit_model(seen, T, self.models[k], rough=True)
            rows = self.folds == k
            self.z[:, rows] = self.problem.logits(*self.problem.unpack(self.models[k]), rows)

    def refine(self, T: FloatArray, rounds: int, known: bool = False, shrink: bool = False) -> FloatArray:
        """Return T after rounds of models and EM, with the temperature of the last of them."""
        problem, codes = self.problem, self.problem.codes
        w = problem.weights * (problem.total if shrink else 1.0)
        for _ in range(rounds):
            self.fit(T)
            self.temperature = fit_temperature(self.z, codes, T, problem.weights)
            if known:
                break
            before, T = T, em_transition(self.posteriors, codes, T, steps=30, sample_weight=w, shrink=shrink)
            if np.abs(T - before).sum() < (SETTLED_SPARSE if shrink else SETTLED) * len(T):
                break
        self.likelihood = mean_log_likelihood(self.posteriors, codes, T, problem.weights)
        return T

    def with_penalty(self, penalty: float, T: FloatArray) -> "_Folds":
        """Return the same folds with models of another penalty."""
        other = copy(self)
        other.problem, other.z = self.problem.with_penalty(penalty), np.empty_like(self.z)
        other.models, other.seen = list(self.models), [part.with_penalty(penalty) for part in self.seen]
        other.refine(T, 1, known=True)
        return other

    def model(self, T: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return W and b of the model of all rows, times the temperature."""
        W, b = self.problem.unpack(fit_model(self.problem, T, np.mean(self.models, axis=0)))
        return self.temperature * W, self.temperature * b

    @property
    def posteriors(self) -> FloatArray:
        """P(clean | x) of each row from the model that did not see it, shape (n, c)."""
        p: FloatArray = softmax(self.temperature * self.z, axis=0).T
        return p


def sure_shares(z: FloatArray, codes: IntArray, w: FloatArray) -> FloatArray:
    """Return T from the labels of the rows of each predicted class, of logits (c, n), that models are surest of."""
    c = len(z)
    predicted, sure = z.argmax(axis=0), -log_softmax(z, axis=0).max(axis=0)
    counts = np.zeros((c, c))
    for k in range(c):
        rows = np.flatnonzero(predicted == k)
        rows = rows[np.argsort(sure[rows], kind="stable")[: max(10, int(SURE * len(rows)))]]
        counts[k] = np.bincount(codes[rows], w[rows], minlength=c)
    return shrunk_rows(counts)


def row_keys(X: Any) -> NDArray[np.uint32]:
    """Return a number for each row that depends on the ranks of its values within their columns, shape (n,).

    Folds by these numbers put equal rows into one fold, in any order and with any weights: a sample that occurs twice
    cannot be both seen and unseen, and weights equal repetition. Ranks among the distinct values of a column do not
    change with its unit or offset, so neither do the folds. They are coarsened, to 64 levels where there are many
    columns, because rounding in another unit may make two values equal and shift the ranks above them::

        key_i = sum_j mix(j, level_ij)  modulo 2^64,        level = floor(rank L / U) if U > L distinct values
    """
    if is_wide(X):
        return _sparse_row_keys(X)
    n, d = X.shape
    levels = max(LEVELS, int(2 ** (32 / d)))  # in few columns more levels, to tell rows apart
    sums = np.zeros(n, dtype=np.uint64)
    if sparse.issparse(X):
        X = X.tocsc()
        for j in range(d):
            rows = X.indices[X.indptr[j] : X.indptr[j + 1]]
            implicit = n > len(rows)
            values = np.append(X.data[X.indptr[j] : X.indptr[j + 1]], [0.0] * implicit)
            mixed = _mix(j, _levels(values, levels))
            if implicit:  # every row gets the number of zero, and those with an entry the difference
                sums += mixed[-1]
                mixed = mixed[:-1] - mixed[-1]
            sums[rows] += mixed
    else:
        for start in range(0, d, 32):  # columns that lie together are faster to sort
            for j, values in enumerate(np.ascontiguousarray(X[:, start : start + 32].T), start):
                sums += _mix(j, _levels(values, levels))
    return (sums >> np.uint64(32)).astype(np.uint32)


def _levels(values: NDArray[Any], levels: int) -> NDArray[np.uint64]:
    """Return the rank of each value among the distinct ones, coarsened to so many levels."""
    ordered = np.sort(values)
    distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    if len(distinct) > levels:  # the first value of each level
        distinct = distinct[-(-np.arange(levels) * len(distinct) // levels)]
    return np.searchsorted(distinct, values, side="right").astype(np.uint64)


def _mix(column: int, levels: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 bits that look random, for a level of a column: the finalizer of splitmix64 (Steele et al., 2014)."""
    x = levels * np.uint64(0x9E3779B97F4A7C15) + np.uint64(column * 0xD1B54A32D192ED03 % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _sparse_row_keys(X: Any) -> NDArray[np.uint32]:
    """Return the same for a wide sparse X, of the places of its entries: they hardly ever agree for different rows."""
    X = X.tocsr()
    if not X.has_canonical_format or not X.data.all():
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    places = X.indices.astype(np.int64)
    return np.array([zlib.crc32(places[a:b]) for a, b in pairwise(X.indptr)], dtype=np.uint32)


def number_of_folds(problem: Problem) -> int:
    """Return five, two for large data, and zero for data with too few distinct rows."""
    (n, d), c = problem.X.shape, problem.present.sum()  # an empty class needs no rows
    least = LEAST_ROWS_SPARSE if problem.is_wide else LEAST_ROWS
    if min(len(np.unique(problem.keys)), problem.total) < least * c:
        return 0
    if problem.is_wide:
        return 2 if problem.X.nnz * c > LARGE_SPARSE else 5
    return 2 if n * d * c > LARGE else 5


def start_without_empty(problem: Problem, T: FloatArray) -> FloatArray:
    """Return (U, b) of zeros, but for b of the classes that T rules out, because none of their labels was seen.

    The best probability of such a class is zero. From equal probabilities the solver would go there slowly, and might
    take the others to another local minimum on the way.
    """
    start = np.zeros(len(T) * (problem.X.shape[1] + 1))
    start[-len(T) :][T[:, problem.present].sum(axis=1) == 0] = RULED_OUT
    return start


def fit_model(problem: Problem, T: FloatArray, start: FloatArray | None = None, *, rough: bool = False) -> FloatArray:
    """Return (U, b) that explain the noisy labels through a fixed T; ``rough`` stops earlier for a wide sparse X."""

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        loss, g_U, g_b, _ = problem.loss(*problem.unpack(theta), T)
        return loss, np.concatenate([g_U.ravel(), g_b])

    start = np.zeros(len(T) * (problem.X.shape[1] + 1)) if start is None else start
    if problem.is_wide:  # without whitening the last iterations are many, and change few predictions
        limits: dict[str, Any] = {"maxiter": 30, "gtol": 1e-3} if rough else {"maxiter": 60, "gtol": 3e-4}
        return lbfgs(objective, start, **limits, precision=problem.X.dtype.type)[0]
    options = {"maxiter": 200, "gtol": 1e-4, "ftol": 0.0, "maxcor": 20}
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)


def fit_temperature(z: FloatArray, codes: IntArray, T: FloatArray, weights: FloatArray) -> float:
    """Return the t that makes the noisy labels most likely under softmax(t z) T."""
    columns = T[:, codes]  # (c, n)
    z = z - z.max(axis=0)  # so that exp does not overflow, whatever t is

    def loss(log_t: float) -> float:
        e = np.exp(np.exp(log_t) * z)
        p = np.sum(e * columns, axis=0) / np.sum(e, axis=0)
        return -float(weights @ np.log(np.maximum(p, 1e-30)))

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-3}).x))


def slices_of(codes: IntArray, c: int) -> list[slice]:
    """Return the rows of each class, for codes in order."""
    return [slice(int(a), int(b)) for a, b in pairwise(np.searchsorted(codes, np.arange(c + 1)))]


def unit_rows(A: NDArray[Any], otherwise: FloatArray) -> FloatArray:
    """Return A with rows that sum to one; a row of zeros becomes that of ``otherwise``."""
    sums = A.sum(axis=1, keepdims=True)
    return np.where(sums > 0, A / np.where(sums > 0, sums, 1), otherwise)


def scale_of(mean: FloatArray, variance: FloatArray, scaling: str) -> FloatArray:
    """Return standard deviations, or the root of the mean variance for all; one where that is zero up to rounding."""
    rounding = (10 * np.finfo(np.float32).eps * mean) ** 2
    variance = np.where(variance > rounding, variance, 0).astype(np.float64)
    if scaling == "common":
        # The mean over all features, including constant ones: it is that of the same data in any other axes.
        variance = np.full(len(mean), variance.mean())
    return np.sqrt(np.where(variance > 0, variance, 1))


MANY = 32  # classes; beyond it the n_classes^2 unknowns are treated row by row
SMOOTHING = 2.0  # uniform labels added to each row of T: a count of zero is not a probability of zero
PRIOR = 4.0  # the information of a probability between 0 and 1, whose variance is at most 1/4
NUMBERS = 4_000_000  # that a block of rows may need


def posterior_std(
    posteriors: FloatArray, transition: FloatArray, sample_weight: FloatArray | None = None
) -> FloatArray:
    """Return standard errors of T that was fitted to noisy labels with the posteriors p = P(clean | x) of other data.

    They come from the Fisher information of T and of what the labels also have to tell about p, its temperature and
    the bias of each class, all of which are nuisance parameters phi here::

        q = p T,    p = softmax(t log p + b),    phi = (t, b) at (1, 0)
        I[ab] = sum_i w_i sum_j (dq_ij/da) (dq_ij/db) / q_ij,    cov T = (I_TT - I_Tphi I_phiphi^-1 I_phiT)^-1

    within the changes of T that keep its row sums. The errors of a model of the wrong kind are not in it: a model that
    takes overlap for noise does so with any number of samples. Beyond 32 classes each row is treated as if the others
    and p were known. Shapes: posteriors (n_samples, n_classes), T (n_classes, n_classes).
    """
    n, c = posteriors.shape
    w = np.ones(n) if sample_weight is None else sample_weight
    T = smoothed(transition, w @ posteriors)
    step = max(1, NUMBERS // (c * (c + 1)))
    blocks = [slice(start, start + step) for start in range(0, n, step)]
    if c > MANY:
        information = np.zeros((c, c))
        for block in blocks:
            information += (posteriors[block] ** 2).T @ (w[block, np.newaxis] / (posteriors[block] @ T))
        return _row_std(information)
    # One label's worth is known about phi beforehand: probabilities of 0 and 1 have no temperature.
    I_T, I_both, I_phi = np.zeros((c, c, c, c)), np.zeros((c, c, c + 1)), np.eye(c + 1)
    for block in blocks:
        p = posteriors[block]
        q = p @ T
        z = np.log(np.maximum(p, 1e-12))
        dp = np.empty((len(p), c + 1, c))  # of the temperature, then of the biases
        dp[:, 0] = p * (z - np.sum(p * z, axis=1, keepdims=True))
        dp[:, 1:] = p[:, :, np.newaxis] * (np.eye(c) - p[:, np.newaxis])
        root = np.sqrt(w[block, np.newaxis] / q)
        dq = (dp @ T) * root[:, np.newaxis]
        for j in range(c):
            A = p * root[:, j, np.newaxis]
            I_T[:, j, :, j] += A.T @ A
            I_both[:, j] += A.T @ dq[:, :, j]
        flat = dq.transpose(0, 2, 1).reshape(-1, c + 1)
        I_phi += flat.T @ flat
    B = tangent(c)
    both = B.T @ I_both.reshape(c * c, -1)
    information = B.T @ I_T.reshape(c * c, -1) @ B - both @ np.linalg.solve(I_phi, both.T)
    return _std(B, np.linalg.inv(information + PRIOR * np.eye(len(information))))


def consensus_std(
    members: IntArray, codes: IntArray, weights: FloatArray, transition: FloatArray, prior: FloatArray
) -> FloatArray:
    """Return standard errors of T that was fitted to triples of labels, which overlap.

    Triples that share a sample are not independent, so the inverse information is too small; with the scores s_n of
    the triples, in T and in the prior::

        cov = H^-1 J H^-1,    H = sum_n w_n s_n s_n',    J = sum of w_m w_n s_m s_n' over m, n that share a sample

    ``members`` and ``codes``, shape (n, 3), are the samples of each triple and their labels. Beyond 32 classes the
    labels are counted as if the clean classes were known.
    """
    c, n = len(transition), len(members)
    T = smoothed(transition, prior * weights.sum())
    if c > MANY:
        return count_std(T, prior * weights.sum())
    r = prior * np.prod(T.T[codes], axis=1)
    r /= r.sum(axis=1, keepdims=True)
    counts = np.zeros((n, c))
    for column in codes.T:
        counts[np.arange(n), column] += 1
    B, Q = tangent(c), null_space(np.ones((1, c)))
    s_T = [(r[:, k, np.newaxis] * counts / T[k]) @ Q for k in range(c)]
    s = np.hstack([*s_T, (r / np.maximum(prior, 1e-3)) @ Q]) * weights[:, np.newaxis]
    added = PRIOR * np.eye(s.shape[1])
    k = B.shape[1]
    added[:k, :k] += (B.T * (SMOOTHING / c / T.ravel() ** 2)) @ B  # of the smoothing: H knows nothing about zero counts
    rows = sparse.csr_array((np.ones(3 * n), members.ravel(), np.arange(0, 3 * n + 1, 3)), (n, int(members.max()) + 1))
    shared = rows @ rows.T
    shared.data[:] = 1
    plain = np.linalg.inv(s.T @ (s / weights[:, np.newaxis]) + added)
    covariance = plain @ (s.T @ (shared @ s) + added) @ plain
    return np.maximum(_std(B, covariance[:k, :k]), _std(B, plain[:k, :k]))


def standard_errors(lead: FloatArray, w: FloatArray) -> float:
    """Return the weighted mean of a difference in units of its standard error."""
    mean = np.average(lead, weights=w)
    error = np.sqrt(np.average((lead - mean) ** 2, weights=w) * (w @ w)) / w.sum()
    return float(mean / max(error, 1e-12))


def count_std(shares: FloatArray, counts: FloatArray) -> FloatArray:
    """Return standard errors of label shares, one row for each class, from so many labels per row.

    ::

        sqrt(T (1 - T) / (count + 1))        of the Dirichlet distribution with count + 2 labels, smoothed
    """
    T = smoothed(shares, counts)
    return np.sqrt(T * (1 - T) / (counts[:, np.newaxis] + SMOOTHING + 1))


def smoothed(T: FloatArray, counts: FloatArray) -> FloatArray:
    """Return T after two more labels per row, spread evenly, besides the given number of labels."""
    share = SMOOTHING / (counts[:, np.newaxis] + SMOOTHING)
    return (1 - share) * T + share / len(T)


def tangent(c: int) -> FloatArray:
    """Return an orthonormal basis of the changes of T that keep its row sums, shape (c^2, c (c - 1))."""
    return np.kron(np.eye(c), null_space(np.ones((1, c))))


def _row_std(information: FloatArray) -> FloatArray:
    """Return standard errors for a diagonal information per row, with the sum of the row fixed."""
    V = 1 / (information + PRIOR)
    return np.sqrt(np.maximum(V - V**2 / V.sum(axis=1, keepdims=True), 0))


def _std(B: FloatArray, covariance: NDArray[np.floating]) -> FloatArray:
    c = round(len(B) ** 0.5)
    return np.sqrt(np.maximum(np.einsum("ab,bc,ac->a", B, covariance, B, optimize=True), 0)).reshape(c, c)
