"""How uncertain an estimate of T is: standard errors of its entries, for every way to estimate it."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import null_space

from unflip._validation import FloatArray, IntArray

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
