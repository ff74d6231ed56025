"""Noise or overlapping classes: the shapes that T may have, what bounds it, and which shape the labels call for."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import betaln, digamma, gammaln, softmax
from scipy.stats import beta

from unflip._validation import FloatArray, IntArray
from unflip.core.ldce import solve_prior, well_conditioned
from unflip.core.posterior import bayes
from unflip.noise import symmetric

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
STEPS = 30  # of EM; more changed T by less than its error
POSSIBLE = 0.001  # of T that is spread evenly, so that no flip is ruled out
SILENT = 0.94  # of the rate at which labels are independent of their class: close to the largest that is tried
SETTLED = 1e-4  # EM ends if no entry of T changes by more
SAME = 1e-9  # probabilities that differ by less are equal but for rounding


def guarded(
    T: FloatArray, held_out: Callable[[FloatArray], FloatArray], codes: IntArray, w: FloatArray, folds: NDArray[Any]
) -> FloatArray:
    """Return the T that the labels call for: one with several rates, the symmetric one, or the identity.

    ``held_out(T)`` returns clean posteriors (n, c) of rows that the models, fitted through T, did not see; T is a first
    guess. Both shapes with several rates are fitted to the posteriors through the guess, and once more through what
    that gives. Then they respect the bounds that the posteriors without noise give, and lose the flips that two classes
    exchange. What is left must explain the labels better than one rate and than no noise by 2.5 standard errors, with
    models fitted through it, and so must rates that are fitted to the other ``folds``, because on the same labels they
    would win by their number alone; of two shapes that pass, the likelier one is taken. One rate and no noise may mix
    the classes by calibration, which T does, too (for 3 to 20 classes). One rate must lead no noise by half a standard
    error. A symmetric T does not change which class is the likeliest, so it does little harm. The weights w count: a
    row of weight 2 is two rows.
    """
    c = len(T)
    prior: FloatArray = np.bincount(codes, w / w.sum(), minlength=c).astype(np.float64)
    q = (w.sum() * held_out(np.eye(c)) + prior) / (w.sum() + 1)  # no label is ruled out
    bounds = lower_bounds(q, codes, w=w)
    p = held_out(T)
    through_one = held_out(symmetric(c, even_rate(p, codes, w)))
    even = symmetric(c, even_rate(through_one, codes, w))
    none = _best_calibrated(q, np.eye(c), codes, w, folds)
    one = _best_calibrated(through_one, even, codes, w, folds)

    def leads(explained: FloatArray) -> bool:
        return min(_lead(explained - none, w), _lead(explained - one, w)) > UNEVEN

    passed: list[tuple[float, FloatArray]] = []
    for step in (one_target, learned_rows):
        guess = repaired(fitted_shape(p, codes, w, T, step), bounds)
        through = held_out(guess)
        found = fitted_shape(through, codes, w, guess, step)
        unseen = np.empty(len(codes))
        for seen, test in ((folds != fold, folds == fold) for fold in np.unique(folds)):
            rates = fitted_shape(through[seen], codes[seen], w[seen], found, step)
            unseen[test] = np.log(label_probability(through[test], codes[test], rates))
        if leads(unseen):
            found = repaired(found, bounds)
            found = found if c == 2 else one_way(found, prior)
            if leads(np.log(label_probability(held_out(found), codes, found))):
                passed.append((float(w @ unseen), found))
    if passed:
        return max(passed, key=lambda likely: likely[0])[1]
    silent = 1 - even[0, 0] > SILENT * (1 - 1 / c)  # the features say nothing about the labels, nor about noise
    return np.eye(c) if silent or _lead(one - none, w) <= EVIDENCE else even


def is_even(T: FloatArray) -> bool:
    """Return whether T has one rate for all flips, or none."""
    seen = np.diag(T) < 1  # a class without labels keeps its row of the identity
    off = T[np.ix_(seen, seen)][~np.eye(int(seen.sum()), dtype=bool)]
    return not len(off) or float(np.ptp(off)) < 1e-9


def shared_rate(N: FloatArray) -> FloatArray:
    """Return the diagonal and the flat rest that all classes share, for expected counts N of (clean, noisy)."""
    c = len(N)
    rate = 1 - np.trace(N) / N.sum()
    return np.where(np.eye(c, dtype=bool), 1 - rate, rate / max(c - 1, 1))


def learned_rows(N: FloatArray) -> FloatArray:
    """Return the M-step whose rows lean on each other as much as they are alike.

    The noise rate of a class comes from a Beta distribution around the common rate r, and the shares of its flips from
    a Dirichlet distribution. How narrow the first and how even the second is, k and s, is what makes the counts
    likeliest: symmetric noise gives a large s, flips between few pairs of classes a small one. With flips F[i, j] =
    N[i, j] for j != i and psi the digamma function::

        rate_i  =  (sum_j F[i, j] + k r) / (sum_j N[i, j] + k)
        T[i, j]  ~  rate_i exp(psi(F[i, j] + s / (c - 1)) - psi(sum_j F[i, j] + s))      (variational Bayes)

    exp(psi(n)) is about n - 1/2, and next to nothing below one: with a small s, a few flips are taken for chance.
    """
    c = len(N)
    if c == 1:
        return np.ones((1, 1))
    off = ~np.eye(c, dtype=bool)
    flips = N[off].reshape(c, c - 1)
    flipped, kept = flips.sum(axis=1), np.diag(N)
    r = float(np.clip(flipped.sum() / N.sum(), 1e-4, 1 - 1e-4))

    def evenness(s: float) -> float:
        a = s / (c - 1)
        return float(np.sum(gammaln(s) - gammaln(flipped + s)) + np.sum(gammaln(flips + a) - gammaln(a)))

    def narrowness(k: float) -> float:
        return float(np.sum(betaln(kept + k * (1 - r), flipped + k * r) - betaln(k * (1 - r), k * r)))

    s = max((c - 1) * np.geomspace(0.01, 100, 15), key=evenness)
    k = max(np.geomspace(1, 1000, 12), key=narrowness)
    rate = (flipped + k * r) / (N.sum(axis=1) + k)
    shares = np.exp(digamma(flips + s / (c - 1)) - digamma(flipped + s)[:, np.newaxis])
    T = np.diag(1 - rate)
    T[off] = (rate[:, np.newaxis] * shares / shares.sum(axis=1, keepdims=True)).ravel()
    return possible(T)


def one_target(N: FloatArray) -> FloatArray:
    """Return the M-step for classes that keep their labels or lose them to one other class, all at the same rate r::

        T[i]  =  e_i   or   (1 - r) e_i + r e_t(i)

    The target t(i) is the most frequent flip, if it explains the counts of row i better than none: by more than the
    log c that it takes to name one of c - 1 targets or none. Pair flips and flips into one class are of this kind.
    """
    c = len(N)
    if c == 1:
        return np.ones((1, 1))
    rows, kept = np.arange(c), np.diag(N)
    target = np.where(np.eye(c, dtype=bool), -1, N).argmax(axis=1)
    lost = N[rows, target]
    flips, r = np.ones(c, dtype=bool), 0.0
    for _ in range(c):
        r = float(np.clip(lost[flips].sum() / max((lost + kept)[flips].sum(), 1e-9), 0.01, 0.49))
        chance = POSSIBLE / c
        gain = kept * np.log1p(-r) + lost * np.log(r) - kept * np.log1p(-chance) - lost * np.log(chance)
        before, flips = flips, gain > np.log(c)
        if not flips.any() or np.array_equal(before, flips):
            break
    T = np.eye(c)
    T[rows[flips], rows[flips]] = 1 - r
    T[rows[flips], target[flips]] = r
    return possible(T)


def possible(T: FloatArray) -> FloatArray:
    """Return T without zeros, which EM could not leave."""
    return (1 - POSSIBLE) * T + POSSIBLE / len(T)


# From one number to c (c - 1): the likelihood of held-out labels chooses.
SHAPES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "symmetric": shared_rate,
    "one target": one_target,
    "learned": learned_rows,
}


def fitted_shape(
    p: FloatArray, codes: IntArray, w: FloatArray, T: FloatArray, step: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return T of a shape, given by its M-step, that explains the labels of rows with clean posteriors p, by EM."""
    for _ in range(STEPS):
        before, T = T, step(expected_counts(p, codes, w, T))
        if np.abs(T - before).max() < SETTLED:
            break
    return T


def expected_counts(p: FloatArray, codes: IntArray, w: FloatArray, T: FloatArray) -> FloatArray:
    """Return the expected number of rows that are clean i and noisy j, shape (c, c)."""
    R = bayes(p, codes, T) * w[:, np.newaxis]
    return np.stack([np.bincount(codes, R[:, i], minlength=len(T)) for i in range(len(T))])


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
