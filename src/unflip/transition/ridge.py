"""T from the held-out scores of ridge regression: the fast way for a wide sparse X, such as words of texts."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from unflip._base import check_training_data
from unflip._validation import FloatArray, IntArray
from unflip.core.ldce import solve_prior, well_conditioned
from unflip.core.posterior import inverted_posterior, tempered
from unflip.core.ridge import solve_sparse_ridge
from unflip.models.arrays import LinearScores
from unflip.noise import symmetric
from unflip.transition._cross_fit import (
    LEAST_ROWS_SPARSE,
    SETTLED_SPARSE,
    em_transition,
    fit_temperature,
    is_wide,
    posterior_std,
    row_keys,
    standard_errors,
    sure_shares,
)
from unflip.transition._evidence import UNEVEN, even_rate

ALPHA = 2.0  # penalty, times the mean squared norm of a row
TOL, MOST = 3e-3, 100  # relative residual and iterations of the solver; 1e-6 changed T by 0.006 at most
FOLDS = 5
COLUMNS = 20  # that one run of the solver has: classes times folds
ROUNDS, STEPS = 5, 30  # of inversion, and of EM within each


class RidgeModel(LinearScores):
    """Ridge regression on one-hot labels with probabilities, for a wide sparse X.

    The least-squares fit to one-hot labels estimates P(y = k | x) by a linear function, which leaves [0, 1]. Its
    softmax stays inside, and has the same slope where all c classes are equally likely::

        W  =  argmin  sum_i w_i |W' x_i + b - onehot(y_i)|^2  +  alpha m |W|^2,     m the mean of |x_i|^2
        P(k | x)  =  softmax(c (W' x + b))_k
    """

    def __init__(self, alpha: float = ALPHA) -> None:
        self.alpha = alpha

    def fit(self, X: Any, y: ArrayLike, sample_weight: FloatArray | None = None) -> Self:
        """Fit to labels of any kind; X is checked by the caller."""
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        W, b = ridge_scores(X, codes, sample_weight, len(self.classes_), self.alpha)
        self.coef_, self.intercept_, self.n_features_in_ = np.ascontiguousarray(W.T), b, X.shape[1]
        return self


class RidgeEM(BaseEstimator):
    """T from the held-out scores of ridge regression, for a wide sparse X such as words of texts.

    The noisy posterior q(x) of each row comes from a :class:`RidgeModel` that did not see it, at the temperature that
    makes the noisy labels likeliest. T starts from the labels of the rows that the models are surest of. Then q is
    inverted through T, and T is fitted to the clean posterior p by EM, in turns::

        q(x) = p(x) T        by EM inversion, unflip.core.inverted_posterior
        T[i, j]  ~  sum_n 1[y_n = j] p_i(x_n) T[i, j] / (p(x_n) T)_j        rows lean on each other, as in VolMin

    The rate of symmetric noise is fitted in the same way, and it is kept unless the T with all rates makes the labels
    likelier by 2.5 standard errors: with few rows, false differences between the rates of two classes do more harm
    than a common rate. Other than in :class:`VolMin`, no model is fitted through T, and there is no classifier at the
    end (``benchmarks/text_columns.py`` compares both). With three classes or more it is faster than one logistic
    regression on such an X; with two it takes up to four times as long, a tenth of a second for 3,000 texts.

    Parameters
    ----------
    alpha : float, default=2.0
        Penalty of the ridge regression, times the mean squared norm of a row, which is one for TF-IDF.
    classes : array-like of shape (n_classes,), default=None
        As in :class:`VolMin`.
    random_state : int, RandomState instance or None, default=None
        Not used, because the fit is deterministic; it is here because all estimators of T take it.

    Attributes
    ----------
    transition_, transition_std_ : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i), and the standard error of each entry, given the posteriors.
    classes_, class_prior_ : ndarray of shape (n_classes,)
        The classes, and their clean prior.

    Examples
    --------
    >>> from scipy import sparse
    >>> from unflip.noise import corrupt, pairflip
    >>> random = np.random.default_rng(0)
    >>> y = random.integers(3, size=2000)
    >>> X = sparse.csr_array((random.random((2000, 60)) < 0.05 + 0.3 * np.eye(3)[y].repeat(20, axis=1)) * 1.0)
    >>> RidgeEM().fit(X, corrupt(y, pairflip(3, 0.3), random_state=0)).transition_.round(1) + 0.0
    array([[0.7, 0.3, 0. ], [0. , 0.7, 0.3], [0.3, 0. , 0.7]])
    """

    def __init__(self, *, alpha: float = ALPHA, classes: ArrayLike | None = None, random_state: Any = None) -> None:
        self.alpha = alpha
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels ``y`` of any kind; a dense ``X`` is made sparse."""
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
        c, w = len(self.classes_), np.ones(len(codes)) if weights is None else weights
        X, counted = sparse.csr_array(X), np.flatnonzero(w > 0)
        if len(counted) < len(w):
            X, codes, w = X[counted], codes[counted], w[counted]
        w = w * max(1.0, len(w) / w.sum())  # less than one label per row would leave everything to the penalty
        folds = row_keys(X) % FOLDS  # equal rows are held out together
        if len(np.unique(folds)) < 2:
            raise ValueError("RidgeEM needs different rows, to hold some of them out; got too few")
        z = held_out_scores(X, codes, w, c, self.alpha, folds)
        share = w / w.sum()
        noisy_prior: FloatArray = np.bincount(codes, share, minlength=c).astype(np.float64)
        q = softmax(fit_temperature(_rows(z), codes, np.eye(c), share) * z, axis=1)
        q = (len(codes) * q + noisy_prior) / (len(codes) + 1)  # no label is ruled out
        start = well_conditioned(sure_shares(z.T, codes, w))
        # With two classes there is one flip per row, and nothing for it to lean on.
        how: dict[str, Any] = {"steps": STEPS, "sample_weight": w, "shrink": c > 2}
        free = _fitted(q, codes, w, start, lambda p, T: em_transition(p, codes, T, **how))
        even = _fitted(q, codes, w, start, lambda p, T: symmetric(c, even_rate(p, codes, w)))
        lead = np.log(free[2] / even[2])
        T, p, _ = free if standard_errors(lead, w) > UNEVEN else even
        self.transition_ = T
        self.transition_std_ = posterior_std(p, self.transition_, w)
        self.class_prior_ = solve_prior(noisy_prior, self.transition_)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _fitted(q: FloatArray, codes: IntArray, w: FloatArray, T: FloatArray, step: Any) -> tuple[FloatArray, ...]:
    """Return T, the clean posteriors through it, and the probability of each label; ``step(p, T)`` is the next T."""
    share = w / w.sum()
    prior: FloatArray = np.bincount(codes, share, minlength=len(T)).astype(np.float64)
    for _ in range(ROUNDS):
        p = inverted_posterior(q, T, solve_prior(prior, T))
        p = tempered(p, fit_temperature(_rows(np.log(np.maximum(p, 1e-12))), codes, T, share))
        before, T = T, well_conditioned(step(p, T))  # so that there is a prior behind the labels
        if np.abs(T - before).sum() < SETTLED_SPARSE * len(T):
            break
    return T, p, np.maximum(np.einsum("nk,kn->n", p, T[:, codes]), 1e-12)


def _rows(z: FloatArray) -> FloatArray:
    """Return z with one row for each class, whose numbers lie together: a softmax is three times as fast."""
    return np.ascontiguousarray(z.T)


def ridge_scores(
    X: Any, codes: IntArray, weights: FloatArray | None, n_classes: int, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return W (d, c) and b (c,) of the logits of :class:`RidgeModel`, solved in float32."""
    w: Any = np.ones(len(codes)) if weights is None else weights
    X, norm = _unit_rows(X, w)
    targets: Any = np.eye(n_classes, dtype=np.float32)[codes]
    W, b = solve_sparse_ridge(X, targets, w.astype(np.float32), alpha, tol=TOL, most=MOST)
    return n_classes * W.astype(np.float64) / norm, n_classes * b.astype(np.float64)


def held_out_scores(X: Any, codes: IntArray, w: FloatArray, c: int, alpha: float, folds: Any) -> FloatArray:
    """Return the logits of each row by the model of the other folds, shape (n, c).

    A few classes at a time, in all folds at once, because every pass over X costs more than a column. The scores of
    two classes sum to one before they are logits, so that one of them is enough.
    """
    X, _ = _unit_rows(X, w)
    names, places = np.unique(folds, return_inverse=True)
    seen: Any = np.where(places[:, np.newaxis] == np.arange(len(names)), 0, w[:, np.newaxis]).astype(np.float32)
    z = np.empty((len(codes), c))
    fitted = range(c) if c > 2 else range(1, c)
    step = max(1, COLUMNS // len(names))
    for ks in (fitted[start : start + step] for start in range(0, len(fitted), step)):
        targets = (codes[:, np.newaxis] == np.repeat(ks, len(names))).astype(np.float32)
        W, b = solve_sparse_ridge(X, targets, np.tile(seen, len(ks)), alpha, tol=TOL, most=MOST)
        scores = (X @ W + b).reshape(len(codes), len(ks), len(names))
        z[:, list(ks)] = c * scores[np.arange(len(codes)), :, places]
    if c == 2:
        z[:, 0] = c - z[:, 1]
    return z


def _unit_rows(X: Any, w: FloatArray) -> tuple[Any, float]:
    """Return X in float32 and the root of its rows' mean squared norm, by which it is divided.

    So float32 holds squares of any unit.
    """
    X = sparse.csr_array(X)
    data = X.data.astype(np.float64, copy=False)
    squares = sparse.csr_array((data**2, X.indices, X.indptr), X.shape)
    norm = float(np.sqrt(w @ (squares @ np.ones(X.shape[1])) / w.sum())) or 1.0
    return sparse.csr_array(((data / norm).astype(np.float32), X.indices, X.indptr), X.shape), norm


def suits_ridge(X: Any, n_classes: int) -> bool:
    """Return whether T of these data is better estimated by RidgeEM: wide, sparse, and with enough rows."""
    return is_wide(X) and X.shape[0] >= LEAST_ROWS_SPARSE * n_classes
