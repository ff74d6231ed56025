"""Noise that depends on the sample: labels are wrong more often where the classes are hard to tell apart."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp, softmax
from scipy.stats import norm

from unflip._validation import FloatArray, IntArray
from unflip.core.posterior import bayes

SLOPE = (0.3, 0.1)  # of the log-odds of a wrong label in those of the class: mean and standard deviation beforehand
SHARPER = (0.18, 0.1)  # log of the temperature by which p is sharper than a constant noise makes it: the same
FAVOR = 1.5  # log of the odds that labels by people err more often on hard samples, beforehand
WORTH = 1_000  # labels; more do not make a model surer that is only roughly right
SLOPES = np.arange(0.05, 0.75, 0.1)
SHARPNESSES = np.arange(-0.2, 0.25, 0.1)  # around what is expected
NUMBERS = 60_000  # probabilities of the rows that the model is fitted to
MOST_ROWS = 8_000
MOST_OFFSET = 0.0  # where p_k = 1/2, at least half of the labels of class k are right
EDGE = 1e-4  # a probability that is nearer to 0 or 1 counts as this near
SHRINKAGE = 30.0  # rows of the mean rate that are added to each class
LEAST_RATE = 0.005
LEAST_NOISE = 0.02  # share of wrong labels according to T; if it is smaller, the evidence must be clear
CONFIDENCE = 0.9


@dataclass(frozen=True)
class VaryingNoise:
    r"""A noise whose rate depends on the sample.

    A sample of class k that looks like one, with a large p_k(x), is labeled wrongly less often than one that does
    not; and a wrong label is either one of those that T gives class k or one that the sample resembles::

        P(noisy != k | x, clean = k)  =  e_k(x)  =  sigmoid(offset - slope logit(p_k(x)))
        P(noisy = j | ..., wrong)     =  m p_j(x) / (1 - p_k(x))  +  (1 - m) T[k, j] / (1 - T[k, k])

    with p(x)^temperature in place of p(x). If the slope is zero, the rate is the same for all samples, and T says all.

    Attributes
    ----------
    transition : ndarray of shape (n_classes, n_classes)
        T of the formula.
    temperature, offset, slope, resemblance : float
        The last is m.
    evidence : float
        The log of the Bayes factor for a rate that depends on the sample.
    low, high : float
        The share of wrong labels is between them with probability 0.9.
    """

    transition: FloatArray
    temperature: float = 1.0
    offset: float = 0.0
    slope: float = 0.0
    resemblance: float = 0.0
    evidence: float = 0.0
    low: float = 0.0
    high: float = 1.0

    @property
    def varies(self) -> bool:
        """Whether the rate depends on the sample."""
        return self.slope > 0

    def joint(self, p: FloatArray, codes: IntArray) -> FloatArray:
        """Return P(clean = k, noisy | x) for p = P(clean | x) before the temperature, shape (n_samples, n_classes)."""
        if not self.varies:
            return p * self.transition.T[codes]
        theta = np.array([np.log(self.temperature), self.offset, self.slope, self.resemblance])
        return _Problem(np.log(np.maximum(p, 1e-12)), codes, self.transition).joint(theta)[0]

    def posterior(self, p: FloatArray, codes: IntArray) -> FloatArray:
        """Return P(clean = k | x, noisy), shape (n_samples, n_classes)."""
        joint = self.joint(p, codes)
        total = joint.sum(axis=1, keepdims=True)
        return np.where(total > 0, joint / np.where(total > 0, total, 1), p)


class _Problem:
    """The likelihood of noisy labels given log p, and its gradient in theta = (log temperature, offset, slope, m)."""

    def __init__(self, log_p: FloatArray, codes: IntArray, T: FloatArray, weights: FloatArray | None = None) -> None:
        rates = 1 - np.diag(T)
        off = T * (1 - np.eye(len(T)))
        self.transition, self.log_p, self.codes, self.rows = T, log_p, codes, np.arange(len(codes))
        self.weights = np.ones(len(codes)) if weights is None else weights
        self.flips = (off / np.maximum(rates, 1e-12)[:, np.newaxis])[:, codes].T  # (n, c)

    def joint(self, theta: FloatArray) -> tuple[FloatArray, ...]:
        """Return P(clean = k, noisy = y | x), shape (n, c), and what its gradient needs."""
        log_t, offset, slope, m = theta
        z = np.exp(log_t) * self.log_p
        p = softmax(z, axis=1)
        inner = np.clip(p, EDGE, 1 - EDGE)
        g = logit(inner)
        e = expit(offset - slope * g)
        alike = p[self.rows, self.codes][:, np.newaxis] / np.maximum(1 - p, EDGE)
        R = m * np.minimum(alike, 1.0) + (1 - m) * self.flips
        L = e * R
        L[self.rows, self.codes] = 1 - e[self.rows, self.codes]
        return p * L, p, z, g, e, R, alike, L

    def loss(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return - sum_i w_i log P(noisy = y_i | x_i) and its gradient."""
        J, p, z, g, e, R, alike, L = self.joint(theta)
        q = np.maximum(J.sum(axis=1), 1e-12)
        slope, m = theta[2], theta[3]
        own = np.zeros(p.shape, dtype=bool)
        own[self.rows, self.codes] = True
        dp = p * (z - np.sum(p * z, axis=1, keepdims=True))
        de = np.where(own, -1.0, R) * e * (1 - e) * p  # d J / d logit e
        dg = np.where((p > EDGE) & (p < 1 - EDGE), dp / np.maximum(p * (1 - p), 1e-12), 0)
        dp_y = dp[self.rows, self.codes][:, np.newaxis]
        da = np.where(alike < 1, dp_y / np.maximum(1 - p, EDGE) + alike * dp / np.maximum(1 - p, EDGE), 0)
        parts = (
            dp * L - slope * de * dg + np.where(own, 0, p * e * m * da),
            de,
            -de * g,
            np.where(own, 0, p * e * (np.minimum(alike, 1.0) - self.flips)),
        )
        w = self.weights / q
        return -float(self.weights @ np.log(q)), -np.array([w @ part.sum(axis=1) for part in parts])

    def fit(self, start: FloatArray, fixed: dict[int, float]) -> tuple[FloatArray, float]:
        """Return theta with some entries fixed, and its loss."""
        theta = np.array(start, dtype=np.float64)
        for k, value in fixed.items():
            theta[k] = value
        free = [k for k in range(4) if k not in fixed]
        limits = [(-1.5, 1.5), (-6.0, MOST_OFFSET), (0.0, 1.5), (0.0, 0.99)]

        def objective(x: FloatArray) -> tuple[float, FloatArray]:
            theta[free] = x
            value, gradient = self.loss(theta)
            return value / len(self.codes), gradient[free] / len(self.codes)

        options = {"maxiter": 40, "ftol": 1e-8}
        bounds = [limits[k] for k in free]
        found = minimize(objective, theta[free], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        theta[free] = found.x
        return theta.copy(), float(found.fun) * len(self.codes)

    def wrong(self, theta: FloatArray) -> float:
        """Return the expected share of wrong labels."""
        J = self.joint(theta)[0]
        kept = J[self.rows, self.codes] / np.maximum(J.sum(axis=1), 1e-12)
        return 1 - float(np.average(kept, weights=self.weights))


def fit_varying(
    p: FloatArray,
    codes: IntArray,
    transition: FloatArray,
    weights: FloatArray | None = None,
    seed: int = 0,
    *,
    presumed: bool = False,
) -> VaryingNoise:
    """Return the noise that explains the noisy labels best, given P(clean = k | x) from models that did not see them.

    Two hypotheses are compared: one rate for all samples (slope 0), and a slope that is about 0.3 beforehand. If the
    labels contradict the second, or T shows hardly any noise and they do not support it, T is returned as it is.
    Otherwise the slope and the temperature are averaged over, by the likelihood of the labels and their prior, because
    the labels alone hardly tell a sharp p with much noise from a less sharp one with little: :doc:`/theory` says what
    this rests on. The likelihood counts as that of at most 1,000 labels, since the model is only roughly right
    ("coarsened", Miller and Dunson 2019).

    Parameters
    ----------
    p : ndarray of shape (n_samples, n_classes)
    codes, transition, weights
        Noisy labels, T[i, j] = P(noisy = j | clean = i) that explains them through p, and sample weights.
    seed : int, default=0
        Of the rows that are drawn if there are many.
    presumed : bool, default=False
        Whether people are taken to have made the labels, so that a T with hardly any noise needs no such support.
    """
    n, c = p.shape
    rows = np.random.default_rng(seed).permutation(n)[: int(np.clip(NUMBERS // c, 1_000, MOST_ROWS))]
    w = None if weights is None else weights[rows] * (len(rows) / max(weights[rows].sum(), 1e-300))
    counts = np.bincount(codes, minlength=c)
    problem = _Problem(np.log(np.maximum(p[rows], 1e-12)), codes[rows], shrunk(transition, counts), w)
    rate = float(counts @ (1 - np.diag(transition))) / n
    constant, loss = problem.fit(np.array([0.0, logit(np.clip(rate, 0.05, 0.5)), 0.0, 0.1]), {2: 0.0})
    theta = np.array([constant[0], max(constant[1], -2.5), 0.0, max(constant[3], 0.1)])
    by_slope = []
    for slope in SLOPES:
        theta, value = problem.fit(theta, {2: slope})
        by_slope.append((theta, value))
    log_prior = -(((SLOPES - SLOPE[0]) / SLOPE[1]) ** 2) / 2
    log_prior -= logsumexp(log_prior)
    evidence = float(logsumexp(log_prior - np.array([value for _, value in by_slope])) + loss)
    power = min(1.0, WORTH / len(rows))
    if evidence + (FAVOR if presumed or rate > LEAST_NOISE else -FAVOR) < 0:
        near = [problem.fit(constant, {0: constant[0] + d, 2: 0.0}) for d in 2 * SHARPNESSES]
        low, high = _quantiles([problem.wrong(t) for t, _ in near], np.array([-power * value for _, value in near]))
        around = problem.wrong(constant)
        own = 1 - float(np.mean(bayes(p, codes, transition)[np.arange(n), codes]))
        low, high = _with_sampling(own, around - low, high - around, n)
        return VaryingNoise(transition, evidence=evidence, low=low, high=high)
    grid, logs = [], []
    for (start, _), slope, prior in zip(by_slope, SLOPES, log_prior, strict=True):
        for d in SHARPNESSES:
            start, value = problem.fit(start, {0: constant[0] + SHARPER[0] + d, 2: slope})
            grid.append(start)
            logs.append(prior - (d / SHARPER[1]) ** 2 / 2 - power * value)
    shares = [problem.wrong(t) for t in grid]
    mean = np.exp(np.array(logs) - logsumexp(logs)) @ np.array(grid)
    theta, _ = problem.fit(mean, {0: mean[0], 2: mean[2]})
    low, high = _quantiles(shares, np.array(logs))
    share = problem.wrong(theta)
    low, high = _with_sampling(share, share - low, high - share, min(n, WORTH))
    t, offset, slope, m = float(np.exp(theta[0])), *map(float, theta[1:])
    return VaryingNoise(problem.transition, t, offset, slope, m, evidence, low, high)


def _quantiles(shares: list[float], logs: FloatArray) -> tuple[float, float]:
    """Return the borders of the central 90 % of shares with the given log-weights."""
    weight = np.exp(logs - logsumexp(logs))
    order = np.argsort(shares)
    total = np.cumsum(weight[order]) - weight[order] / 2
    low, high = np.interp([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], total, np.array(shares)[order])
    return float(low), float(high)


def _with_sampling(share: float, below: float, above: float, n: int) -> tuple[float, float]:
    """Return an interval that also has the error of a share among n labels, which tell about half as much as truths."""
    error = norm.ppf((1 + CONFIDENCE) / 2) * np.sqrt(2 * share * (1 - share) / n)
    low, high = share - np.hypot(max(below, 0), error), share + np.hypot(max(above, 0), error)
    return max(float(low), 0.0), min(float(high), 1.0)


def shrunk(T: FloatArray, counts: FloatArray | IntArray) -> FloatArray:
    """Return T with the mean rate, evenly spread, in so many further rows of each class; no rate is zero."""
    c = len(T)
    n = np.asarray(counts, dtype=np.float64)
    rate = max(float(n @ (1 - np.diag(T)) / n.sum()), LEAST_RATE)
    even = np.where(np.eye(c, dtype=bool), 1 - rate, rate / max(c - 1, 1))
    share = (SHRINKAGE / (n + SHRINKAGE))[:, np.newaxis]
    return (1 - share) * T + share * even
