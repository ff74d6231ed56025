"""CENTROID: the clean centroid from the noisy one, by the paper's operator and by the exact one."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import FloatArray, check_prior, check_transition
from unflip.core.prior import clean_prior
from unflip.core.sums import ClassSums

Operator = Literal["exact", "published"]


def imputation_matrix(i: int, j: int, n_classes: int) -> FloatArray:
    """Return K_{i -> j} of the paper's Definition 1, shape (n_classes, n_classes): e_j = K e_i.

    The identity with rows i and j swapped; K_{i -> i} is the identity.

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
        The clean class prior pi; only the published operator reads it. None is the uniform one.
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
    c = len(T)
    pi = np.full(c, 1 / c) if prior is None else check_prior(prior, c)
    # K_{i -> j} = I - e_i e_i' - e_j e_j' + e_i e_j' + e_j e_i', so the double sum collapses to the moved mass A:
    A = pi[:, np.newaxis] * T
    np.fill_diagonal(A, 0)
    return np.eye(c) + A + A.T - np.diag(A.sum(axis=0) + A.sum(axis=1))


def corrected_labels(transition: ArrayLike, prior: ArrayLike | None = None, operator: Operator = "exact") -> FloatArray:
    """Return M^+, shape (n_classes, n_classes): row y is what replaces the one-hot vector of the noisy label y.

    A regression on these rows has the corrected risk, Eq. (final_loss), up to a constant::

        1 + |h|^2 - 2 <t, h> = |h - t|^2 + 1 - |t|^2,   t = corrected_labels(T)[y]

    Parameters
    ----------
    transition, prior, operator
        As in :func:`mixing_matrix`.

    Examples
    --------
    >>> corrected_labels([[0.8, 0.2], [0.2, 0.8]]).round(3).tolist()
    [[1.333, -0.333], [-0.333, 1.333]]
    """
    M = mixing_matrix(transition, prior, operator)
    # T is refused where it is singular; the published M may be so.
    return np.asarray(np.linalg.inv(M) if operator == "exact" else np.linalg.pinv(M), dtype=np.float64)


def clean_centroid(sums: ClassSums, transition: ArrayLike, operator: Operator = "exact") -> FloatArray:
    """Return the estimated clean centroid, shape (n_features, n_classes), Eq. (estiation_with_matrix)::

        mu_clean ~ mu_noisy M^+,    mu_noisy = (1/n) sum_i x_i y_i'

    The clean prior that the published operator needs comes from the noisy label counts by :func:`clean_prior`.
    """
    T = check_transition(transition, sums.n_classes, invertible=False)  # clean_prior looks at its condition
    prior = clean_prior(sums.noisy_prior, T)
    return sums.centroid @ corrected_labels(T, prior, operator)


def check_operator(operator: str) -> None:
    """Refuse an operator that is neither of the two."""
    if operator not in ("exact", "published"):
        raise ValueError(f"operator must be 'exact' (M = T) or 'published' (the paper's M); got {operator!r}")
