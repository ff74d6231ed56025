"""Noise or overlapping classes: what bounds T, and whether the labels call for noise, and for more than one rate."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import softmax
from scipy.stats import beta

from unflip._validation import FloatArray, IntArray
from unflip.core.ldce import solve_prior, well_conditioned
from unflip.noise import symmetric
from unflip.transition._cross_fit import em_transition

REGIONS = (10, 15, 20, 30, 50, 80, 120, 200)  # sizes of the regions that bound the diagonal
LEVEL = 0.1  # the probability that the bound of a class is wrong, over all models and regions
DOMINANCE = 1.25  # the diagonal of a row is at least so many times its largest other entry
WORST_CONDITION = 10.0  # that of pair flips at 0.45; T^-1 magnifies what is beyond
EVIDENCE = 0.5  # standard errors by which noise must explain held-out labels better than no noise
UNEVEN = 2.5  # standard errors by which a T with more than one rate must lead the symmetric one
EXCHANGED = 0.05  # see one_way
SHARPNESS = (0.5, 4.0)  # of temperatures; models that know nothing would be flattened until a bias decides
MIXING = 100.0  # precision of the prior of what mixes the classes in a calibration
MIXED = range(3, 21)  # numbers of classes with such a calibration: two are not mixed, and for many it takes long
STEPS = 30  # of EM
SAME = 1e-9  # probabilities that differ by less are equal but for rounding


def guarded(
    T: FloatArray, held_out: Callable[[FloatArray], FloatArray], codes: IntArray, w: FloatArray, folds: NDArray[Any]
) -> FloatArray:
    """Return T if the labels call for it, otherwise the symmetric T or the identity.

    ``held_out(T)`` returns clean posteriors (n, c) of rows that the models, fitted through T, did not see. A T with
    many rates must explain the labels better than one rate and than no noise by 2.5 standard errors, and so must rates
    fitted to the other ``folds``, because on the same labels they would win by their number alone. One rate and no
    noise may mix the classes by calibration, which T does, too (for 3 to 20 classes). A T that passes respects the
    bounds that the posteriors without noise give, and loses the flips that two classes exchange. One rate must lead no
    noise by half a standard error. A symmetric T does not change which class is the likeliest, so it does little harm.
    The weights w count: a row of weight 2 is two rows.
    """
    c = len(T)
    prior: FloatArray = np.bincount(codes, w / w.sum(), minlength=c).astype(np.float64)
    q = (w.sum() * held_out(np.eye(c)) + prior) / (w.sum() + 1)  # no label is ruled out
    p = held_out(T)
    through_one = held_out(symmetric(c, even_rate(p, codes, w)))
    even = symmetric(c, even_rate(through_one, codes, w))
    none = _best_calibrated(q, np.eye(c), codes, w, folds)
    one = _best_calibrated(through_one, even, codes, w, folds)
    many = np.empty(len(codes))
    for seen, test in ((folds != fold, folds == fold) for fold in np.unique(folds)):
        rates = em_transition(p[seen], codes[seen], even, steps=STEPS, sample_weight=w[seen], shrink=c > 2)
        many[test] = np.log(label_probability(p[test], codes[test], rates))
    explained = (many, np.log(label_probability(p, codes, T)))
    if all(_lead(found - rival, w) > UNEVEN for found in explained for rival in (none, one)):
        T = repaired(T, lower_bounds(q, codes, w=w))
        return T if c == 2 else one_way(T, prior)
    return even if _lead(one - none, w) > EVIDENCE else np.eye(c)


def _best_calibrated(p: FloatArray, T: FloatArray, codes: IntArray, w: FloatArray, folds: NDArray[Any]) -> FloatArray:
    """Return the log-probability of each label under p and T, with p as it is or mixed, whichever is likelier."""
    plain: FloatArray = np.log(label_probability(p, codes, T))
    if len(T) not in MIXED:
        return plain
    z, mixed = np.log(np.maximum(p, 1e-9)), np.empty(len(codes))
    for seen, test in ((folds != fold, folds == fold) for fold in np.unique(folds)):
        A, b = mixing_map(z[seen], codes[seen], w[seen], T)
        mixed[test] = np.log(label_probability(softmax(z[test] @ A.T + b, axis=1), codes[test], T))
    return mixed if w @ mixed > w @ plain else plain


def _lead(difference: FloatArray, w: FloatArray) -> float:
    """Return the mean of a difference in units of its standard error, where a row of weight 2 counts as two rows."""
    mean = np.average(difference, weights=w)
    variance = np.average((difference - mean) ** 2, weights=w)
    return float(mean / max(np.sqrt(variance / w.sum()), 1e-12))


def label_probability(p: FloatArray, codes: IntArray, T: FloatArray) -> FloatArray:
    """Return (p T)[y] of each row, at least 1e-12."""
    return np.maximum(np.einsum("nk,kn->n", p, T[:, codes]), 1e-12)


def mixing_map(z: FloatArray, codes: IntArray, w: FloatArray, T: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return A and b that make the labels most likely under softmax(A z + b) and T, for log-probabilities z (n, c).

    A T with several rates mixes the probabilities of the classes. It would win by calibrating weak models better if the
    explanations without noise, and with one rate for all flips, could not mix them, too. A = t I + B, and B has a
    normal prior of mean zero and precision 100: Dirichlet calibration (Kull et al., NeurIPS 2019) with a penalty.
    """
    c, n = z.shape[1], w.sum()
    columns, v = T[:, codes].T, w / n
    penalty = np.concatenate([[0.0], np.full(c, 1 / n), np.full(c * c, MIXING / n)])

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        p = softmax(z @ (theta[0] * np.eye(c) + theta[1 + c :].reshape(c, c)).T + theta[1 : 1 + c], axis=1)
        R = p * columns
        q = np.maximum(R.sum(axis=1), 1e-12)
        G = (p - R / q[:, np.newaxis]) * v[:, np.newaxis]
        slope = G.T @ z
        gradient = np.concatenate([[np.trace(slope)], G.sum(axis=0), slope.ravel()])
        return -float(v @ np.log(q)) + float(penalty @ theta**2) / 2, gradient + penalty * theta

    start = np.eye(1, 1 + c + c * c)[0]
    bounds = [SHARPNESS] + [(None, None)] * (c + c * c)
    theta = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 100}).x
    return theta[0] * np.eye(c) + theta[1 + c :].reshape(c, c), theta[1 : 1 + c]


def one_way(T: FloatArray, noisy_prior: FloatArray) -> FloatArray:
    """Return T without the flips that two classes exchange, in so far as they may be overlap::

        J = diag(prior) T,    J[i, j] - r / (r + 0.05) min(J[i, j], J[j, i])   for i != j
        r = T[i, j] T[j, i] / (T[i, i] T[j, j])

    r is one if the rows of both classes agree, so that nothing tells them apart, and small if few labels are exchanged.
    """
    J = np.maximum(solve_prior(noisy_prior, T), 1e-9)[:, np.newaxis] * T
    diagonal = np.maximum(np.diag(T), 1e-9)
    r = T * T.T / np.outer(diagonal, diagonal)
    exchanged = r / (r + EXCHANGED) * np.minimum(J, J.T)
    np.fill_diagonal(exchanged, 0)
    J = J - exchanged + np.diag(exchanged.sum(axis=1))
    return J / J.sum(axis=1, keepdims=True)


def lower_bounds(q: FloatArray, codes: IntArray, level: float = LEVEL, w: FloatArray | None = None) -> FloatArray:
    """Return what T_jj is at least, from the label shares among the rows with the largest q_j (see StackedEM).

    With weights w, rows that have the same q_j count together, whatever their order.
    """
    weighted, w = w is not None, np.ones(len(codes)) if w is None else w
    counts = np.bincount(codes, w, minlength=q.shape[1])
    bounds = np.zeros(q.shape[1])
    for j, count in enumerate(counts):
        order = np.argsort(-q[:, j], kind="stable")
        sizes = np.concatenate([[0.0], np.cumsum(w[order])])
        hits = np.concatenate([[0.0], np.cumsum(w[order] * (codes[order] == j))])
        if weighted:
            ends = np.concatenate([[True], -np.diff(q[order, j]) > SAME, [True]])
            sizes, hits = sizes[ends], hits[ends]
        for k in REGIONS:
            hit = np.interp(k, sizes, hits)
            if k <= min(max(count, REGIONS[0]), sizes[-1]) and hit:
                bounds[j] = max(bounds[j], beta.ppf(level / len(REGIONS), hit, k - hit + 1))
    return bounds


def repaired(T: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return T with diagonals raised to their bounds and above their row, and a bounded condition number."""
    T = np.array(T)
    for j, row in enumerate(T):
        off = 1 - row[j]
        if row[j] < bounds[j]:
            row *= (1 - bounds[j]) / off
            row[j] = bounds[j]
        largest = np.delete(row, j).max(initial=0)
        if row[j] < DOMINANCE * largest:
            share = (DOMINANCE * largest - row[j]) / (DOMINANCE * largest - row[j] + 1)
            row *= 1 - share
            row[j] += share
    return well_conditioned(T, WORST_CONDITION)


def even_rate(p: FloatArray, codes: IntArray, w: FloatArray) -> float:
    """Return the rate of symmetric noise that makes the labels likeliest, given clean posteriors p."""
    right, others = p[np.arange(len(codes)), codes], max(p.shape[1] - 1, 1)

    def loss(r: float) -> float:
        return -float(w @ np.log(np.maximum((1 - r) * right + r / others * (1 - right), 1e-12)))

    return float(minimize_scalar(loss, bounds=(0, 0.95 * others / (others + 1)), method="bounded").x)
