"""Loss decomposition and centroid estimation (LDCE): the formulas of the paper, in the order of its argument.

The squared loss sees a label only through the centroid mu = (1/n) sum x y'. Noise multiplies the expected centroid by a
matrix M, so the clean centroid is estimated by multiplying with its pseudo-inverse M^+::

    prior       noisy_prior = T' pi                      clean_prior
    noise       E[mu_noisy] = mu_clean M                 imputation_matrix, mixing_matrix
    correction  mu_clean ~ mu_noisy M^+                  corrected_labels, clean_centroid
    risk        R = 1 + mean |h|^2 - 2 tr(W' mu_clean)   decomposed_risk, linear_risk

Public functions check T. Within the package a T that has been checked goes through :class:`Correction`.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from scipy.optimize import nnls
from scipy.sparse.linalg import splu

from unflip._validation import (
    MANY_CLASSES,
    FloatArray,
    bounded_weights,
    check_codes,
    check_prior,
    check_same_length,
    check_transition,
)
from unflip.core.sums import ClassSums

Operator = Literal["exact", "published"]
LARGEST_ACTIVE_SET = 128  # classes; beyond it gradient steps cost less than an active set
LARGEST_CONDITION = 100.0  # T^-1 multiplies sampling noise by up to this; symmetric 0.6 has 3, pairflip 0.45 has 10


def clean_prior(noisy_prior: ArrayLike, transition: ArrayLike) -> FloatArray:
    """Return the clean class prior pi, shape (n_classes,), from the noisy one.

    Solves the paper's prior equations, Eq. (eq_priors)::

        P(noisy = j) = sum_i T[i, j] pi_i        that is   noisy_prior = T' pi

    Rows of T sum to one, so the plain solution sums to one too, but sampling noise or an error in T may push a rare
    class below zero. The paper does not say what to do then; we take the point of the simplex that fits best::

        min |T' pi - noisy_prior|^2   subject to   pi >= 0, sum pi = 1

    ``noisy_prior``, shape (n_classes,), are the frequencies of the noisy labels; ``transition`` is T.

    Examples
    --------
    >>> clean_prior([0.55, 0.45], [[0.9, 0.1], [0.2, 0.8]]).round(6).tolist()
    [0.5, 0.5]
    """
    T = check_transition(transition)
    return solve_prior(check_prior(noisy_prior, len(T)), T)


def solve_prior(noisy: FloatArray, T: Any, plain: FloatArray | None = None) -> FloatArray:
    """Return :func:`clean_prior` for a T that has been checked and may be sparse; ``plain`` is T'^-1 noisy if known."""
    if plain is None:
        plain = np.asarray(np.linalg.solve(T.T, noisy), dtype=np.float64)
    if plain.min() >= 0:
        return plain / plain.sum()
    if len(noisy) <= LARGEST_ACTIVE_SET:
        # On the simplex noisy = noisy (1' pi), so T' pi - noisy = B pi with B = T' - noisy 1'. Minimizing |B u|^2 +
        # (1' u - 1)^2 over u >= 0 gives the same direction: with u = s pi the best s leaves q / (1 + q), q = |B pi|^2.
        B = (T.toarray() if sparse.issparse(T) else T).T - noisy[:, np.newaxis]
        try:
            u = nnls(np.vstack([B, np.ones(len(noisy))]), np.append(np.zeros(len(noisy)), 1.0))[0]
            return np.asarray(u / u.sum(), dtype=np.float64)
        except RuntimeError:  # its limit of iterations; gradient steps have the same limit point
            pass
    return _projected_gradient(plain, noisy, T)


def _projected_gradient(start: FloatArray, noisy: FloatArray, T: Any) -> FloatArray:
    """min |T' pi - noisy|^2 over the simplex by accelerated steps (Beck and Teboulle, 2009), restarted uphill."""
    step = 1 / float(T.sum(axis=0).max())  # |T|^2 <= |T|_1 |T|_max, and rows sum to one
    pi = project_to_simplex(start[np.newaxis])[0]
    ahead, t = pi, 1.0
    for _ in range(10_000):
        gradient = T @ (T.T @ ahead - noisy)
        moved = project_to_simplex((ahead - step * gradient)[np.newaxis])[0]
        change = moved - pi
        if np.abs(change).max() <= 1e-12 / len(noisy):
            break
        t_next = 1.0 if (ahead - moved) @ change > 0 else (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = moved + (0.0 if t_next == 1 else (t - 1) / t_next) * change
        pi, t = moved, t_next
    return moved


def imputation_matrix(i: int, j: int, n_classes: int) -> FloatArray:
    """Return K_{i -> j} of the paper's Definition 1, shape (n_classes, n_classes): e_j = K e_i.

    It is the identity with rows i and j swapped; K_{i -> i} is the identity.

    Examples
    --------
    >>> imputation_matrix(0, 2, 3) @ [1, 0, 0]
    array([0., 0., 1.])
    """
    if not (0 <= i < n_classes and 0 <= j < n_classes):
        raise ValueError(f"i and j must be class codes in 0 .. {n_classes - 1}; got i={i}, j={j}")
    K = np.eye(n_classes)
    K[[i, j]] = K[[j, i]]
    return K


def mixing_matrix(transition: ArrayLike, prior: ArrayLike | None = None, operator: Operator = "exact") -> FloatArray:
    """Return M with E[noisy centroid] = clean centroid @ M, shape (n_classes, n_classes).

    ``"exact"``: class-conditional noise gives E[noisy' | x, y] = y' T for a one-hot y, hence::

        M = T

    ``"published"`` is the paper's Eq. (calculation_M)::

        M = sum_i pi_i sum_j T[i, j] K_{i -> j}'

    which averages the swaps over the classes before they are applied, so that each swap also moves samples of the other
    classes. It is always symmetric. It equals T for two classes that flip at the same rate; for more classes it stays
    close to the identity (``docs/theory.md``).

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    prior : array-like of shape (n_classes,), default=None
        The clean class prior pi, which only the published operator uses. If None, the uniform prior is used.
    operator : {"exact", "published"}, default="exact"

    Examples
    --------
    >>> T = [[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.4, 0.0, 0.6]]
    >>> mixing_matrix(T, operator="published").round(3).tolist()[0]
    [0.733, 0.133, 0.133]
    """
    check_operator(operator)
    T = check_transition(transition, invertible=operator == "exact")
    if operator == "exact":
        return T
    return np.asarray(_published(T, np.full(len(T), 1 / len(T)) if prior is None else check_prior(prior, len(T))))


def _published(T: Any, prior: FloatArray) -> Any:
    """The published M; sparse if T is."""
    # K_{i -> j} = I - e_i e_i' - e_j e_j' + e_i e_j' + e_j e_i', so the double sum collapses to the moved mass A:
    diagonal = sparse.diags_array if sparse.issparse(T) else np.diag
    A = diagonal(prior) @ T if sparse.issparse(T) else prior[:, np.newaxis] * T
    A = A - diagonal(A.diagonal())
    return A + A.T + diagonal(1 - A.sum(axis=0) - A.sum(axis=1))


def corrected_labels(transition: ArrayLike, prior: ArrayLike | None = None, operator: Operator = "exact") -> FloatArray:
    """Return M^+, shape (n_classes, n_classes): row y replaces the one-hot vector of the noisy label y.

    A regression on these rows has the corrected risk, Eq. (final_loss), up to a constant::

        1 + |h|^2 - 2 <t, h> = |h - t|^2 + 1 - |t|^2,   t = corrected_labels(T)[y]

    The parameters are those of :func:`mixing_matrix`.

    Examples
    --------
    >>> corrected_labels([[0.8, 0.2], [0.2, 0.8]]).round(3).tolist()
    [[1.333, -0.333], [-0.333, 1.333]]
    """
    return pseudo_inverse(mixing_matrix(transition, prior, operator), operator)


def pseudo_inverse(M: FloatArray, operator: Operator = "exact") -> FloatArray:
    """Return M^+ for an M whose T has been checked; the exact M is T."""
    # A singular T was refused; the published M may be singular.
    return np.asarray(np.linalg.inv(M) if operator == "exact" else np.linalg.pinv(M), dtype=np.float64)


class Correction:
    """M^+ for a T that has been checked, as a function of the sums (or means) over noisy classes::

        E[noisy sums] = M' (clean sums),    hence    clean sums ~ (M^+)' (noisy sums)

    Up to 512 classes M^+ is a matrix. Beyond that, and for a sparse T, it is never formed: M is factorized once, and a
    solve costs c^2 d at most; a sparse T stays sparse, and T = diag(a) + 1 b', the form of symmetric noise, needs no
    factors at all. ``prior`` is the clean class prior, shape (n_classes,).
    """

    def __init__(self, T: Any, noisy_prior: FloatArray, operator: Operator = "exact") -> None:
        if not sparse.issparse(T) and len(T) <= MANY_CLASSES:
            self.prior = solve_prior(noisy_prior, T)
            M = T if operator == "exact" else _published(T, self.prior)
            self._undo: Callable[[FloatArray], FloatArray] = pseudo_inverse(M, operator).T.__matmul__
            return
        self._undo = _solver(T)
        self.prior = solve_prior(noisy_prior, T, self._undo(noisy_prior))
        if operator == "published":
            M = _published(T, self.prior)
            if (2 * M.diagonal() - M.sum(axis=1)).min() > 1e-3:  # the diagonal outweighs the rest: not singular
                self._undo = _solver(M)
            else:  # M is symmetric
                self._undo = np.linalg.pinv(M.toarray() if sparse.issparse(M) else M, hermitian=True).__matmul__

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return (M^+)' rows for one row, or one number, per noisy class."""
        return self._undo(rows)


def _solver(M: Any) -> Callable[[FloatArray], FloatArray]:
    """Return b -> M'^-1 b."""
    if sparse.issparse(M):
        factors = splu(M.tocsc())
        return lambda b: factors.solve(b, "T")
    if (structure := _diagonal_plus_columns(M)) is not None:
        return lambda b: _solve_structured(*structure, b)
    lu = linalg.lu_factor(M, check_finite=False)
    return lambda b: np.asarray(linalg.lu_solve(lu, b, trans=1, check_finite=False))


def _diagonal_plus_columns(M: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return a and b if M = diag(a) + 1 b', with columns that are constant off the diagonal, and None otherwise."""
    b = np.append(M[-1, :-1], M[0, -1])
    for rows in range(0, len(M), MANY_CLASSES):  # one block at a time: the whole difference would be another M
        same = M[rows : rows + MANY_CLASSES] == b
        np.fill_diagonal(same[:, rows:], True)
        if not same.all():
            return None
    a = M.diagonal() - b
    return (a, b) if np.abs(a).min() > 1e-3 else None


def _solve_structured(a: FloatArray, b: FloatArray, right: FloatArray) -> FloatArray:
    """(diag(a) + b 1')^-1 right, by Sherman and Morrison (1950)."""
    columns = right if right.ndim == 2 else right[:, np.newaxis]
    x, y = columns / a[:, np.newaxis], b / a
    x -= np.outer(y, x.sum(axis=0) / (1 + y.sum()))
    return x.reshape(right.shape)


def clean_centroid(sums: ClassSums, transition: ArrayLike | Correction, operator: Operator = "exact") -> FloatArray:
    """Return the estimated clean centroid, shape (n_features, n_classes), Eq. (estiation_with_matrix)::

        mu_clean ~ mu_noisy M^+,    mu_noisy = (1/n) sum_i x_i y_i'

    ``sums`` are of the noisy data; ``transition`` is T, or the correction that a fit has made from it. The clean prior
    that the published operator needs comes from the noisy label counts by :func:`clean_prior`.
    """
    if not isinstance(transition, Correction):
        check_operator(operator)
        transition = Correction(check_transition(transition, sums.n_classes), sums.noisy_prior, operator)
    return transition(sums.centroid.T).T


def check_operator(operator: str) -> None:
    """Refuse an operator that is neither of the two."""
    if operator not in ("exact", "published"):
        raise ValueError(f"operator must be 'exact' (M = T) or 'published' (the paper's M); got {operator!r}")


class DecomposedRisk(NamedTuple):
    """The mean squared loss as two parts, Eq. (eq_trace); only the second is affected by noise."""

    label_free: float  # 1 + mean |h|^2
    label_dependent: float  # -2 mean <t, h>, for a linear model -2 tr(W' mu)

    @property
    def total(self) -> float:
        return self.label_free + self.label_dependent


def decomposed_risk(
    scores: ArrayLike, y: ArrayLike, labels: ArrayLike, sample_weight: ArrayLike | None = None
) -> DecomposedRisk:
    """Return the (corrected) squared risk of any model's scores, Eq. (final_loss) sample by sample::

        R = (1 + mean |h_i|^2)  -  2 mean <t_i, h_i>,    t_i = row y_i of ``labels``

    With ``labels = corrected_labels(T)`` it estimates the risk on clean labels from noisy ones without bias; with the
    identity it is the plain mean of |y - h|^2. It may be negative. It is an estimate, so never clip it.

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_classes)
        h, the model's raw outputs.
    y, sample_weight : array-like of shape (n_samples,)
        Codes of the noisy labels, and weights or None.
    labels : array-like of shape (n_classes, n_classes)
        Row k stands for the label k.

    Examples
    --------
    >>> decomposed_risk([[0.5, 0.5]], [0], np.eye(2))
    DecomposedRisk(label_free=1.5, label_dependent=-1.0)
    """
    h = np.asarray(scores, dtype=np.float64)
    rows = np.asarray(labels, dtype=np.float64)
    codes = check_codes(y, len(rows))
    weights = np.ones(len(h)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    check_same_length(scores=h, y=codes, sample_weight=weights)
    weights = bounded_weights(weights)
    return DecomposedRisk(
        1 + float(np.average(np.sum(h * h, axis=1), weights=weights)),
        -2 * float(np.average(np.sum(rows[codes] * h, axis=1), weights=weights)),
    )


def linear_risk(
    sums: ClassSums, coef: FloatArray, intercept: FloatArray, labels: FloatArray | None = None
) -> DecomposedRisk:
    """Return :func:`decomposed_risk` of the scores ``X @ coef + intercept`` from sums alone.

    ::

        mean |h|^2   = tr(W' S W) / n + |h_mean|^2       S the scatter, h_mean = W' mean + b
        mean <t, h>  = sum_k <t_k, n_k b + W' sum_{y = k} x> / n

    ``coef`` is W, shape (n_features, n_classes). If ``labels`` is None, the identity is used: the labels are clean, or
    the sums have been corrected already.
    """
    W, n = coef, sums.weight
    at_mean = sums.mean @ W + intercept
    squares = np.sum(W * (sums.scatter @ W)) / n + at_mean @ at_mean
    # tr(labels' (sums W + counts at_mean')), with the labels moved to the sums: c x d, never c x c scores.
    own, counts = sums.centred_sums, sums.counts
    if labels is not None:
        own, counts = labels.T @ own, counts @ labels
    return DecomposedRisk(1 + float(squares), -2 * float(np.sum(own * W.T) + counts @ at_mean) / n)


def project_to_simplex(scores: ArrayLike) -> FloatArray:
    """Return the nearest probabilities to each row of scores, shape (n_samples, n_classes).

    ::

        argmin_p |p - s|^2   subject to   p >= 0, sum p = 1;    p = max(s - tau, 0)

    Least-squares scores estimate P(class | x) but may leave [0, 1]; this is the closest distribution, and it keeps
    their order. The threshold tau comes from sorting (Held, Wolfe and Crowder 1974).

    Examples
    --------
    >>> project_to_simplex([[0.7, 0.5, -0.3]]).round(2).tolist()
    [[0.6, 0.4, 0.0]]
    """
    s = np.asarray(scores, dtype=np.float64)
    ordered = -np.sort(-s, axis=1)
    tau = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, s.shape[1] + 1)
    last = np.count_nonzero(ordered > tau, axis=1) - 1  # the smallest score that stays positive
    p = np.maximum(s - np.take_along_axis(tau, last[:, np.newaxis], axis=1), 0)
    return p / p.sum(axis=1, keepdims=True)


def well_conditioned(T: FloatArray, limit: float = LARGEST_CONDITION) -> FloatArray:
    """Return T, or the mixture of T with the identity that is nearest to T and no worse conditioned than ``limit``::

        (1 - t) T + t I,    t in [0, 1] as small as possible (to 1 %)

    The identity says that the labels are correct, which is the safe answer when there is too little data. This is the
    last step of every estimator of T.
    """
    T = np.maximum(T, 0)
    T = T / T.sum(axis=1, keepdims=True)
    I = np.eye(len(T))
    mixtures = ((1 - t) * T + t * I for t in np.linspace(0, 1, 101))
    return next((mixed for mixed in mixtures if np.linalg.cond(mixed) <= limit), I)
