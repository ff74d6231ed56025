"""The correction of sums by T, for a few classes and for thousands."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from unflip._validation import MANY_CLASSES, FloatArray
from unflip.core import ClassSums, clean_prior, corrected_labels, mixing_matrix
from unflip.core.centroid import Operator
from unflip.core.prior import nearest_prior

Undo = Callable[[FloatArray], FloatArray]


class Correction:
    """Turns sums over noisy classes into estimates of the sums over clean classes::

        E[noisy sums] = M' (clean sums),    hence    clean sums ~ (M^+)' (noisy sums)

    which is the clean centroid mu_noisy M^+ and all that the risk needs of the labels. Up to 512 classes M^+ is a
    matrix. Beyond, and for a sparse T, it is never formed: M is factorised once, and a solve costs c^2 d at most; a
    sparse T stays sparse, and T = diag(a) + 1 b', which symmetric noise is, needs no factors at all.

    Parameters
    ----------
    T : ndarray or sparse array of shape (n_classes, n_classes)
        Checked already.
    noisy_prior : ndarray of shape (n_classes,)
    operator : {"exact", "published"}

    Attributes
    ----------
    prior : ndarray of shape (n_classes,)
        The clean class prior.
    """

    def __init__(self, T: Any, noisy_prior: FloatArray, operator: Operator) -> None:
        if not sparse.issparse(T) and len(T) <= MANY_CLASSES:
            self.prior = clean_prior(noisy_prior, T)
            self._undo: Undo = corrected_labels(T, self.prior, operator).T.__matmul__
            return
        self._undo = _inverse(T)
        self.prior = nearest_prior(self._undo(noisy_prior), noisy_prior, T)
        if operator == "published":
            self._undo = _pseudo_inverse(_published(T, self.prior))

    def __call__(self, sums: ClassSums) -> ClassSums:
        """Return the sums with corrected ``counts`` and ``centred_sums``; counts may be negative, their sum stays."""
        return replace(sums, counts=self._undo(sums.counts), centred_sums=self._undo(sums.centred_sums))


def _inverse(M: Any) -> Undo:
    """Return b -> M'^-1 b."""
    if sparse.issparse(M):
        factors = splu(M.tocsc())
        return lambda b: factors.solve(b, "T")
    structure = _diagonal_plus_columns(M)
    if structure is not None:
        return lambda b: _solve_structured(*structure, b)
    lu = linalg.lu_factor(M, check_finite=False)
    return lambda b: np.asarray(linalg.lu_solve(lu, b, trans=1, check_finite=False))


def _pseudo_inverse(M: Any) -> Undo:
    """Return b -> (M^+)' b of the published M, which is symmetric and may be singular."""
    if (2 * M.diagonal() - M.sum(axis=1)).min() > 1e-3:  # the diagonal outweighs the rest: not singular
        return _inverse(M)
    inverse = np.linalg.pinv(M.toarray() if sparse.issparse(M) else M, hermitian=True)
    return inverse.__matmul__


def _published(T: Any, prior: FloatArray) -> Any:
    """:func:`~unflip.core.mixing_matrix`, sparse where T is."""
    if not sparse.issparse(T):
        return mixing_matrix(T, prior, "published")
    A = sparse.diags_array(prior) @ T
    A = A - sparse.diags_array(A.diagonal())
    return A + A.T + sparse.diags_array(1 - A.sum(axis=0) - A.sum(axis=1))


def _diagonal_plus_columns(M: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return a and b of M = diag(a) + 1 b', every column alike off the diagonal, or None if M is none such."""
    b = np.append(M[-1, :-1], M[0, -1])
    for rows in range(0, len(M), MANY_CLASSES):  # a block at a time: a difference of all would be another M
        alike = M[rows : rows + MANY_CLASSES] == b
        np.fill_diagonal(alike[:, rows:], True)
        if not alike.all():
            return None
    a = M.diagonal() - b
    return (a, b) if np.abs(a).min() > 1e-3 else None


def _solve_structured(a: FloatArray, b: FloatArray, right: FloatArray) -> FloatArray:
    """(diag(a) + b 1')^-1 right, by Sherman and Morrison (1950)."""
    one = right if right.ndim == 2 else right[:, np.newaxis]
    x, y = one / a[:, np.newaxis], b / a
    x -= np.outer(y, x.sum(axis=0) / (1 + y.sum()))
    return x.reshape(right.shape)
