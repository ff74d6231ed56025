"""Multinomial logistic regression through T: the data as the solver wants them, and the loss with its gradient."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from sklearn.utils.sparsefuncs import inplace_column_scale, mean_variance_axis

from unflip._validation import FloatArray, IntArray

SMALL = 1_000_000  # n_samples x n_features x n_classes: up to here a step takes about a millisecond in float64
WIDEST_WHITENING = 1024  # features; beyond it a Cholesky factor costs more than the iterations it saves


class Problem(NamedTuple):
    """What the objective needs: rows sorted by label, so that T[:, y] is constant over a slice."""

    X: Any  # (n, d) scaled, dense or CSR
    centre: FloatArray  # (d,) still to be subtracted from X; zero if dense
    weights: FloatArray  # (n,) summing to one
    slices: list[slice]  # the rows of each noisy class
    rows: IntArray  # (n,) where they stood in the data as given
    total: float  # the sum of the weights as given
    whitening: FloatArray | None  # (d, d) P with W = U P
    volume: float
    penalty: float  # alpha d
    scaling: str  # "each" or "common"


def prepare(
    X: Any, codes: IntArray, weights: FloatArray | None, c: int, volume: float, penalty: float, scaling: str = "each"
) -> tuple[Problem, FloatArray, FloatArray]:
    """Return the problem in scaled, centred features, and the mean and scale of the given ones.

    ``scaling`` is "each", every feature to unit variance, or "common", one scale for all to a mean variance of one.
    """
    w = np.ones(len(codes)) if weights is None else weights
    order = np.argsort(codes, kind="stable")
    order = order[w[order] > 0]
    if len(order) == 0:
        raise ValueError("sample_weight is zero for every sample; at least one must count")
    w = w[order]
    n, d = len(order), X.shape[1]
    dtype = np.float64 if n * d * c <= SMALL else np.float32
    total = float(w.sum())
    share = w / total
    X = X[order]  # a copy
    if sparse.issparse(X):
        mean, variance = mean_variance_axis(X.astype(np.float64), axis=0, weights=share)
        scale = _scale(mean, variance, scaling)
        X = X.astype(dtype)
        inplace_column_scale(X, (1 / scale).astype(dtype))
        centre = mean / scale
    else:
        X = X.astype(np.promote_types(X.dtype, dtype), copy=False)
        share_X = share.astype(X.dtype)
        mean = share_X @ X
        X -= mean
        scale = _scale(mean, share_X @ np.square(X), scaling)
        X /= scale.astype(X.dtype)
        X = X.astype(dtype, copy=False)
        centre = np.zeros(d)
    slices = _slices(codes[order], c)
    # At equal probabilities the loss is curved like cov X / c, so beside cov X the penalty counts c times.
    P = _whitening(X, centre, share, c * penalty / total) if d <= WIDEST_WHITENING else None
    return Problem(X, centre, share, slices, order, total, P, volume, penalty, scaling), mean, scale


def take(problem: Problem, kept: NDArray[np.bool_]) -> Problem:
    """Return the problem of some of the rows, in the same coordinates."""
    weights = problem.weights[kept]
    share = float(weights.sum())
    return problem._replace(
        X=problem.X[kept],
        weights=weights / share,
        slices=_slices(codes_of(problem)[kept], len(problem.slices)),
        rows=problem.rows[kept],
        total=problem.total * share,
    )


def with_penalty(problem: Problem, penalty: float) -> Problem:
    """Return the problem with another penalty, in coordinates that suit it."""
    P = problem.whitening
    if P is not None and problem.scaling == "common":
        # Here many directions have so little variance that the penalty alone holds them. In old coordinates the models
        # of 1,400 digits take 1.8 s, in new ones 0.2 s; where each feature has unit variance 0.3 s in either.
        P = _whitening(problem.X, problem.centre, problem.weights, len(problem.slices) * penalty / problem.total)
    return problem._replace(penalty=penalty, whitening=P)


def codes_of(problem: Problem) -> IntArray:
    """The noisy labels of the rows, shape (n,)."""
    return np.repeat(np.arange(len(problem.slices)), [rows.stop - rows.start for rows in problem.slices])


def logits(W: FloatArray, b: FloatArray, problem: Problem) -> NDArray[Any]:
    """W x + b, class by class, shape (c, n): sums over classes then run along memory."""
    X = problem.X
    Z = np.ascontiguousarray((X @ W.T.astype(X.dtype)).T) if sparse.issparse(X) else W.astype(X.dtype) @ X.T
    Z += (b - W @ problem.centre).astype(X.dtype)[:, np.newaxis]
    return Z


def label_loss(
    W: FloatArray, b: FloatArray, T: FloatArray, problem: Problem
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Return what W and b see, the penalised forward loss, its gradients in U (c, d) and b (c,), and counts (c, c).

    ::

        (1/n) sum_i w_i (-log (softmax(W x_i + b) T)[y_i]) + (penalty / 2n) |W|^2

    ``counts[k, j]`` is the share of samples that are clean k, by the posterior, and noisy j.
    """
    X, centre, weights, slices, _, total, P, _, penalty, _ = problem
    p = logits(W, b, problem)  # (c, n), clean probabilities from the next line on
    p -= p.max(axis=0)
    np.exp(p, out=p)
    p /= p.sum(axis=0)
    R = np.empty_like(p)  # p_k T[k, y], then the clean posterior given y, times the weight
    for j, rows in enumerate(slices):
        np.multiply(p[:, rows], T[:, j : j + 1].astype(p.dtype), out=R[:, rows])
    q = np.maximum(R.sum(axis=0), 1e-30)  # probability of the label that was seen
    w = weights.astype(p.dtype)
    R *= w / q
    counts = np.stack([R[:, rows].sum(axis=1, dtype=np.float64) for rows in slices], axis=1)
    G = p  # the gradient in the logits is w (p - posterior)
    G *= w
    G -= R
    loss = -float(weights @ np.log(q, dtype=np.float64)) + penalty / (2 * total) * float(np.sum(W**2))
    g_b = G.sum(axis=1, dtype=np.float64)
    g_W = np.asarray((X.T @ G.T).T if sparse.issparse(X) else G @ X, dtype=np.float64)
    g_W += penalty / total * W - np.outer(g_b, centre)
    return loss, g_W if P is None else g_W @ P.T, g_b, counts


def _slices(codes: IntArray, c: int) -> list[slice]:
    return [slice(int(a), int(b)) for a, b in pairwise(np.searchsorted(codes, np.arange(c + 1)))]


def _scale(mean: FloatArray, variance: FloatArray, scaling: str) -> FloatArray:
    """Standard deviations, or d times the root of the mean variance; one where that is zero up to rounding."""
    rounding = (10 * np.finfo(np.float32).eps * mean) ** 2
    if scaling == "common":
        # The mean over all features, also the constant ones: it is that of the same data in any other axes.
        variance = np.full(len(mean), np.where(variance > rounding, variance, 0.0).mean(dtype=np.float64))
        rounding = np.zeros(len(mean))
    scale: FloatArray = np.sqrt(np.where(variance > rounding, variance, 1.0)).astype(np.float64)
    return scale


def _whitening(X: Any, centre: FloatArray, share: FloatArray, penalty: float) -> FloatArray:
    """Return P, (d, d), with P (cov X + penalty I) P' = I, so that W = U P is evenly curved in U."""
    half = np.sqrt(share).astype(X.dtype)[:, np.newaxis]
    if sparse.issparse(X):
        H = X.multiply(half).tocsr()
        S = np.asarray((H.T @ H).todense(), dtype=np.float64)
    else:
        H = X * half
        S = (H.T @ H).astype(np.float64)
    S -= np.outer(centre, centre)
    # The small number covers constant and repeated columns, and the rounding of float32.
    S.flat[:: len(S) + 1] += penalty + 1e-5
    P: FloatArray = solve_triangular(cholesky(S, lower=True), np.eye(len(S)), lower=True)
    return P
