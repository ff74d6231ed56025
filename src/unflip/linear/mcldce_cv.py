"""MC-LDCE with a linear model, its penalty chosen by the corrected risk on held-out noisy labels."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.sparsefuncs import mean_variance_axis

from unflip._base import check_training_data
from unflip._validation import FloatArray, IntArray
from unflip.core import ClassSums, clean_prior, decomposed_risk, linear_risk
from unflip.core.centroid import Operator, check_operator
from unflip.linear._centroid_ridge import CentroidRidge, fit_ridge, is_wide
from unflip.linear._correction import Correction
from unflip.linear._ridge import solve_ridge_path

Splits = list[tuple[IntArray, IntArray]]


class MCLDCEClassifierCV(CentroidRidge):
    """:class:`MCLDCEClassifier` with ``alpha`` chosen by cross-validation on the noisy labels alone.

    Accuracy on noisy labels rewards a model for predicting the noise. The corrected risk does not: on a held-out fold
    it estimates the squared loss on clean labels without bias::

        risk(alpha) = mean over held-out samples of  1 + |h|^2 - 2 <t, h>,    t = row y of M^+

    A fold is a :class:`~unflip.core.ClassSums`; a training set is the sum of the other folds, and one
    eigendecomposition of it serves all penalties, so that the search reads the data once.

    Parameters
    ----------
    transition : array-like or sparse matrix of shape (n_classes, n_classes), estimator or None, default=None
        As in :class:`MCLDCEClassifier`. It is estimated once, from all noisy samples.
    alphas : array-like of shape (n_alphas,), default=None
        Penalties to try, each > 0. None is 17 values from 1e-6 to 1e2 times the mean sum of squares of a feature, so
        that the grid fits data of any scale and size.
    cv : int, cross-validation generator or iterable of (train, test) rows, default=5
        An integer is the number of shuffled folds.
    operator : {"exact", "published"}, default="exact"
    fit_intercept : bool, default=True
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, where the noisy labels lack some; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None
        Seeds the folds and the default estimator of T.

    Attributes
    ----------
    alpha_ : float
        The penalty of least risk.
    alphas_ : ndarray of shape (n_alphas,)
    risk_ : ndarray of shape (n_alphas,)
        The cross-validated corrected risk of each penalty.
    classes_, transition_, transition_estimator_, class_prior_, centroid_, coef_, intercept_, sums_
        As in :class:`MCLDCEClassifier`, fitted to all samples with ``alpha_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = load_iris(return_X_y=True)
    >>> T = pairflip(3, 0.3)
    >>> model = MCLDCEClassifierCV(T, random_state=0).fit(X, corrupt(y, T, random_state=0))
    >>> float(model.alpha_) == float(model.alphas_[model.risk_.argmin()])
    True
    """

    def __init__(
        self,
        transition: Any = None,
        *,
        alphas: ArrayLike | None = None,
        cv: Any = 5,
        operator: Operator = "exact",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.transition = transition
        self.alphas = alphas
        self.cv = cv
        self.operator = operator
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the penalty and fit to all noisy labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Noisy labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
        """
        self._check_parameters()
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
        self._estimate_transition(X, codes, weights)
        splits = self._splits(X, codes)
        if is_wide(X):
            return self._fit_rows(X, codes, weights, splits)

        def sums_of(rows: Any) -> ClassSums:
            return ClassSums.of(X[rows], codes[rows], len(self.classes_), None if weights is None else weights[rows])

        if _is_partition(splits, len(codes)):
            folds = [sums_of(test) for _, test in splits]
            return self._fit_folds(sum(folds), folds)  # type: ignore[arg-type]  # 0 + sums is sums
        pairs = ((sums_of(train), sums_of(test)) for train, test in splits)
        return self._fit_pairs(sums_of(slice(None)), pairs)

    def fit_sums(self, folds: Sequence[ClassSums]) -> Self:
        """Choose the penalty and fit from sums of disjoint folds, without data.

        Parameters
        ----------
        folds : sequence of ClassSums
            At least two, of the same classes and features; classes and T as in :meth:`MCLDCEClassifier.fit_sums`.
        """
        self._check_parameters()
        if isinstance(folds, ClassSums) or len(folds) < 2:
            raise ValueError("cross-validation needs the sums of at least two folds: pass a list of ClassSums")
        total: ClassSums = sum(folds)  # type: ignore[assignment]  # 0 + sums is sums
        self._take_sums(total)
        return self._fit_folds(total, list(folds))

    def _fit_folds(self, total: ClassSums, folds: list[ClassSums]) -> Self:
        pairs = ((sum(folds[:k] + folds[k + 1 :]), fold) for k, fold in enumerate(folds))
        return self._fit_pairs(total, pairs)  # type: ignore[arg-type]

    def _fit_pairs(self, total: ClassSums, pairs: Iterable[tuple[ClassSums, ClassSums]]) -> Self:
        correct = Correction(self.transition_, total.noisy_prior, self.operator)
        self._set_alphas(np.trace(total.scatter) / total.n_features)
        risks, held_out = [], []
        for train, test in pairs:
            if train.weight > 0 and test.weight > 0:  # weights of zero may empty a fold
                clean = correct(test)
                path = solve_ridge_path(correct(train), None, self.alphas_, self.fit_intercept)
                risks.append([linear_risk(clean, W, b).total for W, b in path])
                held_out.append(test.weight)
        self._choose(risks, held_out)
        return self._solve(total, self.alpha_, correct)

    def _fit_rows(self, X: Any, codes: IntArray, weights: FloatArray | None, splits: Splits) -> Self:
        """The same choice where X'X is too large: each penalty is fitted and scored on rows."""
        w = np.ones(len(codes)) if weights is None else weights
        counts = np.bincount(codes, w, minlength=len(self.classes_))
        self.class_prior_ = clean_prior(counts / counts.sum(), self.transition_)
        labels = self._labels()
        self._set_alphas(_mean_scatter(X, w))
        splits = [(train, test) for train, test in splits if w[train].sum() > 0 and w[test].sum() > 0]
        risks = []
        for train, test in splits:
            models = [
                fit_ridge(X[train], labels[codes[train]], alpha, self.fit_intercept, w[train], self.random_state)
                for alpha in self.alphas_
            ]
            risks.append([decomposed_risk(m.predict(X[test]), codes[test], labels, w[test]).total for m in models])
        self._choose(risks, [w[test].sum() for _, test in splits])
        return self._fit_targets(X, codes, weights, self.alpha_)

    def _splits(self, X: Any, codes: IntArray) -> Splits:
        if isinstance(self.cv, Integral):
            if self.cv < 2:
                raise ValueError(f"cv must be at least 2 folds; got {self.cv}")
            folds = KFold(min(self.cv, len(codes)), shuffle=True, random_state=check_random_state(self.random_state))
            return list(folds.split(codes))
        return list(check_cv(self.cv).split(X, codes))

    def _set_alphas(self, scale: float) -> None:
        if self.alphas is None:
            self.alphas_ = np.logspace(-6, 2, 17) * (scale if scale > 0 else 1.0)
        else:
            self.alphas_ = np.asarray(self.alphas, dtype=np.float64)

    def _choose(self, risks: list[list[float]], held_out: list[float]) -> None:
        self.risk_ = np.average(risks, axis=0, weights=held_out)
        self.alpha_ = float(self.alphas_[self.risk_.argmin()])

    def _check_parameters(self) -> None:
        check_operator(self.operator)
        if self.alphas is not None:
            alphas = np.asarray(self.alphas, dtype=np.float64)
            if alphas.ndim != 1 or len(alphas) == 0 or not np.isfinite(alphas).all() or alphas.min() <= 0:
                raise ValueError(f"alphas must be a list of numbers > 0; got {self.alphas!r}")


def _mean_scatter(X: Any, w: FloatArray) -> float:
    """The mean over the features of sum w (x - mean)^2, trace(scatter) / n_features, without the scatter."""
    if sparse.issparse(X):
        _, variance = mean_variance_axis(X, axis=0, weights=w.astype(X.dtype))
    else:
        variance = np.average(np.square(X - np.average(X, axis=0, weights=w)), axis=0, weights=w)
    return float(np.mean(variance) * w.sum())


def _is_partition(splits: Splits, n_samples: int) -> bool:
    """Whether each row is held out once and trains otherwise, so that a training set is the sum of the other folds."""
    tests = np.concatenate([test for _, test in splits])
    return np.array_equal(np.sort(tests), np.arange(n_samples)) and all(
        len(train) + len(test) == n_samples and not np.isin(test, train).any() for train, test in splits
    )
