"""MC-LDCE with a linear model: ridge regression on the estimated clean centroid."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from unflip._base import check_training_data
from unflip._validation import check_classes
from unflip.core import ClassSums
from unflip.core.centroid import Operator, check_operator
from unflip.linear._centroid_ridge import CentroidRidge, is_wide


class MCLDCEClassifier(CentroidRidge):
    """Multi-class loss decomposition and centroid estimation (MC-LDCE) for a linear model.

    The squared loss sees the labels only through the centroid mu = (1/n) sum x y'. The clean centroid is estimated from
    the noisy one, and the risk, Eq. (final_loss), is minimised in closed form::

        R(W) = 1 + (1/n) sum |W' x_i|^2 - 2 tr(W' mu_noisy M^+) + (alpha/n) |W|^2
        W    = (X'X + alpha I)^-1  n mu_noisy M^+

    (the paper prints tr(W mu M^+), whose shapes do not agree; W' is meant). The intercept is not penalised.

    Parameters
    ----------
    transition : array-like or sparse matrix of shape (n_classes, n_classes), estimator or None, default=None
        T[i, j] = P(noisy = j | clean = i), which stays sparse if it is; or an estimator with ``fit(X, y)`` and
        ``transition_``, which is cloned and fitted to the noisy data; or None for :class:`unflip.transition.VolMin`.
    operator : {"exact", "published"}, default="exact"
        M = T, the unbiased operator; or the M that the paper prints, see :func:`unflip.core.mixing_matrix`.
    alpha : float, default=1.0
        Ridge penalty on the scale of scikit-learn's ``Ridge``: with T = I this classifier is ridge regression on
        one-hot labels.
    fit_intercept : bool, default=True
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, where the noisy labels lack some; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None
        Seeds the default estimator of T and, for sparse X, the solver.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transition_ : ndarray or sparse array of shape (n_classes, n_classes)
    transition_estimator_ : estimator or None
        The fitted estimator that gave ``transition_``.
    class_prior_ : ndarray of shape (n_classes,)
        The estimated clean class prior.
    centroid_ : ndarray of shape (n_features, n_classes)
        The estimated clean centroid.
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
    sums_ : ClassSums
        All that the fit took from the data (not kept for wide X, see Notes). ``set_params(alpha=...)`` and
        ``fit_sums(model.sums_)`` solves again without it.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    Given T, X is read once, in blocks; memory beyond X is O(n_features^2 + n_features n_classes) and the codes of the
    labels, some bytes a row. Sparse X with more than 512 features, and dense X with more than 4,096 features and fewer
    rows than features, goes through scikit-learn's ``Ridge`` on the corrected targets ``corrected_labels(T)[y]``: the
    same optimum.

    Nothing but T itself is c x c for c classes in the sums' path, and beyond 512 classes T is factorised, not inverted;
    a sparse T stays sparse. An estimator of T is another matter: the default one has c^2 parameters and fits a c-class
    logistic regression, which is for hundreds of classes, not thousands.

    Where features are linearly dependent up to rounding and ``alpha`` does not decide between them, the solution of
    least norm is taken, and SciPy's ``LinAlgWarning`` names the features, once a fit.

    References
    ----------
    Ding et al., Multi-class Label Noise Learning via Loss Decomposition and Centroid Estimation, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = load_digits(return_X_y=True)
    >>> noisy = corrupt(y, pairflip(10, 0.3), random_state=0)
    >>> MCLDCEClassifier().fit(X, noisy).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        transition: Any = None,
        *,
        operator: Operator = "exact",
        alpha: float = 1.0,
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.transition = transition
        self.operator = operator
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels.

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
        if is_wide(X):
            return self._fit_targets(X, codes, weights, self.alpha)
        return self._solve(ClassSums.of(X, codes, len(self.classes_), weights), self.alpha)

    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a block of noisy samples to those seen so far: the fit of all blocks is the fit of all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Sparse blocks are read row block by row block; X'X is kept dense.
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes; needed at the first call unless the constructor has them.
        sample_weight : array-like of shape (n_samples,), default=None

        Notes
        -----
        T is taken once, at the first call. If it must be estimated, that is done from the first block alone: give T, or
        a first block that is large and in random order.
        """
        self._check_parameters()
        first = not hasattr(self, "coef_")
        known: Any = self.classes if first else self.classes_
        if first and known is None and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: a block may lack some")
        if known is not None and classes is not None and not np.array_equal(check_classes(classes), known):
            raise ValueError(f"classes are {list(known)} since the first call or the constructor; got {classes!r}")
        if not first and not hasattr(self, "sums_"):
            raise ValueError("fit kept no sums of its wide X to add to; begin with partial_fit instead")
        X, codes, weights = check_training_data(
            self, X, y, sample_weight, classes=classes if known is None else known, reset=first
        )
        if first:
            self._estimate_transition(X, codes, weights)
        block = ClassSums.of(X, codes, len(self.classes_), weights)
        return self._solve(block if first else self.sums_ + block, self.alpha)

    def fit_sums(self, sums: ClassSums) -> Self:
        """Solve from sums, without data: sums of blocks from anywhere, or another T or alpha for the same sums.

        Parameters
        ----------
        sums : ClassSums
            Of the noisy data. Its classes are those that the sums name, else ``classes``, those of an earlier fit, or
            0 .. n_classes - 1. Names of features in the sums become ``feature_names_in_``.

        Notes
        -----
        Sums hold no single sample, so T cannot be estimated from them: give it as an array, or fit once with an
        estimator; its ``transition_`` is then used again.
        """
        self._check_parameters()
        self._take_sums(sums)
        return self._solve(sums, self.alpha)

    def _check_parameters(self) -> None:
        check_operator(self.operator)
        self._check_alpha()
