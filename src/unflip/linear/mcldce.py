"""MC-LDCE with a linear model: ridge regression on the estimated clean centroid."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.model_selection import check_cv
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from unflip._base import check_training_data
from unflip._validation import FloatArray, IntArray, check_classes, check_transition
from unflip.core import ClassSums, clean_centroid, decomposed_risk, linear_risk
from unflip.core.ldce import Correction, Operator, check_operator
from unflip.core.ridge import solve_sparse_ridge
from unflip.linear._base import TransitionClassifier, check_number, finite_gram, solve_ridge, solve_ridge_path
from unflip.transition._cross_fit import row_keys

WIDE = 4096  # features; beyond it, and beyond the number of rows, X'X costs more than Ridge's own solvers
WIDE_SPARSE = 512  # features of a sparse X; beyond it skipping the zeros pays off
RISES = 2  # penalties in a row with a higher risk than the best, after which a wide sparse X tries no smaller ones
ROUGH, MOST_ROUGH = 1e-4, 200  # relative residual and iterations while penalties are compared
MANY_LABELS = 64  # corrected labels that are in memory at once
Splits = list[tuple[IntArray, IntArray]]


@dataclass(eq=False, repr=False, kw_only=True)
class MCLDCEClassifier(TransitionClassifier):
    """Multi-class loss decomposition and centroid estimation (MC-LDCE) for a linear model.

    The squared loss sees the labels only through the centroid mu = (1/n) sum x y'. The clean centroid is estimated from
    the noisy one, and the risk, Eq. (final_loss), is minimized in closed form::

        R(W) = 1 + (1/n) sum |W' x_i|^2 - 2 tr(W' mu_noisy M^+) + (alpha/n) |W|^2
        W    = (X'X + alpha I)^-1  n mu_noisy M^+

    (the paper prints tr(W mu M^+), whose shapes do not match; W' is meant).

    Parameters
    ----------
    transition : array-like or sparse matrix of shape (n_classes, n_classes), estimator or None, default=None
        T[i, j] = P(noisy = j | clean = i); a sparse T stays sparse. Or an estimator with ``fit(X, y)`` and
        ``transition_``, which is cloned and fitted to the noisy data. If None, :class:`unflip.transition.VolMin` is
        used, and on a wide sparse X :class:`unflip.transition.RidgeEM`.
    operator : {"exact", "published"}, default="exact"
        M = T, the unbiased operator; or the M that the paper prints, see :func:`unflip.core.mixing_matrix`.
    alpha : float or None, default=None
        Ridge penalty on the scale of scikit-learn's ``Ridge``: with T = I this classifier is ridge regression on
        one-hot labels. If None, it is chosen by the corrected risk on held-out noisy labels, see Notes.
    alphas : array-like of shape (n_alphas,), default=None
        Penalties to choose from, each > 0. If None, 17 values are tried, from 1e-6 to 1e2 times the mean sum of squares
        of a feature, so that the grid fits data of any scale and size.
    cv : int, cross-validation generator or iterable of (train, test) rows, default=5
        An integer is the number of shuffled folds, which ``random_state`` seeds too (None as 0, so that a fit can be
        repeated). Not used if ``alpha`` is a number.
    fit_intercept : bool, default=True
        Add an intercept, which is not penalized.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted. Needed if the noisy labels lack some; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None
        Seed of the default estimator of T, of the folds and, for a wide X, of the solver.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transition_ : ndarray or sparse array of shape (n_classes, n_classes)
    transition_estimator_ : estimator or None
        The fitted estimator that gave ``transition_``; None if T was given.
    class_prior_, centroid_ : ndarrays of shape (n_classes,) and (n_features, n_classes)
        The estimated clean class prior and clean centroid.
    coef_, intercept_ : ndarrays of shape (n_classes, n_features) and (n_classes,)
    alpha_ : float
        The penalty that was used.
    alphas_, risk_ : ndarrays of shape (n_alphas,)
        The penalties that were tried, and the cross-validated risk of each. Only set if ``alpha`` is None. For a wide
        sparse X the search goes from the largest penalty down, and ends when the risk has risen twice.
    sums_ : ClassSums
        All that the fit took from the data (not kept for wide X, see Notes). ``set_params(alpha=...)`` followed by
        ``fit_sums(model.sums_)`` solves again without the data.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    *The penalty.* Accuracy on noisy labels rewards a model for predicting the noise. The corrected risk does not: on a
    held-out fold it estimates the squared loss on clean labels without bias::

        risk(alpha) = mean over held-out samples of  1 + |h|^2 - 2 <t, h>,    t = row y of M^+

    A fold is a :class:`~unflip.core.ClassSums`; a training set is the sum of the other folds, and one
    eigendecomposition of it serves all penalties, so that the search reads the data once. T is estimated once, from all
    samples.

    If there are only the sums of all rows, as in ``partial_fit`` and in ``fit_sums`` with one sum, there are no folds,
    and ``alpha=None`` uses generalized cross-validation instead (Golub, Heath and Wahba, 1979), which needs nothing but
    these sums::

        risk(alpha) = (1/n) sum |h_i - t_i|^2 / (1 - df / n)^2,    df = 1 + tr (X'X + alpha I)^-1 X'X

    with the residuals of the training samples. It tends to choose nearly the same penalty. Pass the sums of folds to
    ``fit_sums``, or a number as ``alpha``, to avoid it.

    *Memory.* If T and alpha are given, X is read once, in blocks; memory beyond X is O(n_features^2 + n_features
    n_classes) plus the codes of the labels, a few bytes per row. If alpha is chosen, a fold of X is copied at a time.
    A dense X with more than 4,096 features and fewer rows than features goes through scikit-learn's ``Ridge`` on the
    corrected targets ``corrected_labels(T)[y]``, and a sparse X with more than 512 features through conjugate
    gradients: the same optimum.

    When solving from sums, nothing but T itself is c x c for c classes, and beyond 512 classes T is factorized, not
    inverted; a sparse T stays sparse. Estimating T is another matter: the default estimator has c^2 parameters and fits
    a c-class logistic regression, which works for hundreds of classes, not thousands.

    If features are linearly dependent up to rounding and ``alpha`` does not decide between them, the solution of least
    norm is used, and SciPy's ``LinAlgWarning`` names the features, once per fit.

    References
    ----------
    Ding et al., Multi-class Label Noise Learning via Loss Decomposition and Centroid Estimation, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = load_digits(return_X_y=True)
    >>> MCLDCEClassifier().fit(X, corrupt(y, pairflip(10, 0.3), random_state=0)).score(X, y) > 0.9
    True
    """

    _keep_sparse = True

    operator: Operator = "exact"
    alpha: float | None = None
    alphas: ArrayLike | None = None
    cv: Any = 5
    fit_intercept: bool = True

    def _fit(self, X: Any, codes: IntArray, weights: FloatArray | None) -> Self:
        def sums_of(rows: Any) -> ClassSums:
            return ClassSums.of(X[rows], codes[rows], len(self.classes_), None if weights is None else weights[rows])

        if self.alpha is not None:
            self._set_alpha(self.alpha)
            if _is_wide(X):
                _fit_rows(self, X, codes, weights, self.alpha_)
            else:
                _fit_sums(self, ClassSums.of(X, codes, len(self.classes_), weights), self.alpha_)
            return self
        splits = self._splits(X, codes)
        if _is_wide(X):
            return self._fit_wide(X, codes, weights, splits)
        if _is_partition(splits, len(codes)):
            return self._fit_folds([sums_of(test) for _, test in splits])
        pairs = ((sums_of(train), sums_of(test)) for train, test in splits)
        return self._fit_pairs(sums_of(slice(None)), pairs)

    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a block of noisy samples to those seen so far: fitting all blocks equals fitting all rows at once.

        If ``alpha`` is None, this holds up to the choice of the penalty, which is made from the sums of all blocks.

        T is determined once, at the first call. If it must be estimated, it is estimated from the first block alone:
        give T, or a first block that is large and in random order.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A sparse block is read in parts; X'X is kept dense.
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes. Needed at the first call unless they were given to the constructor.
        sample_weight : float or array-like of shape (n_samples,), default=None
            All weights of a block may be zero: such a block adds nothing. Before the first block that counts, the model
            is not fitted and cannot predict. Only if T must be estimated has the first block to count.
        """
        self._check_parameters()
        first = not hasattr(self, "coef_") and not hasattr(self, "sums_")
        known: Any = self.classes if first else self.classes_
        if first and known is None and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit, since a block may lack some")
        if known is not None and classes is not None and not np.array_equal(check_classes(classes), known):
            raise ValueError(
                f"classes are {list(known)} since the first call or the constructor; got {classes!r}. Leave them out, "
                "or begin with a new model"
            )
        if not first and not hasattr(self, "sums_"):
            raise ValueError("fit kept no sums of its wide X to add to; begin with partial_fit instead")
        classes = classes if known is None else known
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=classes, reset=first, all_zero=True)
        if first:
            if not _is_given(self.transition) and weights is not None and not weights.any():
                raise ValueError(
                    "T must be estimated from the first block, but sample_weight is zero for every sample of it; begin "
                    "with a block that counts, or give T as a matrix"
                )
            self._set_transition(X, codes, weights)
        block = ClassSums.of(X, codes, len(self.classes_), weights)
        sums = block if first else self.sums_ + block
        if sums.weight > 0:
            self._fit_total(sums)
        else:  # nothing to solve yet
            self.sums_: ClassSums = _named(self, sums)
        return self

    def fit_sums(self, sums: ClassSums | Sequence[ClassSums]) -> Self:
        """Solve from sums of noisy data: of blocks from anywhere, or the same sums with another T or alpha.

        A list holds the sums of disjoint folds, from which the penalty is chosen if ``alpha`` is None; for a single sum
        see Notes. The classes are those that the sums name, otherwise ``classes``, those of an earlier fit, or
        0 .. n_classes - 1. Feature names in the sums become ``feature_names_in_``. Sums hold no single sample, so T
        cannot be estimated from them: give it as an array, or call ``fit`` once with an estimator; its ``transition_``
        is then used again.
        """
        self._check_parameters()
        folds = [sums] if isinstance(sums, ClassSums) else list(sums)
        if not folds:
            raise ValueError("there are no sums to fit; pass a ClassSums, or a list with one for each fold")
        total = _total(folds)
        _take_sums(self, total)
        return self._fit_folds(folds) if self.alpha is None and len(folds) > 1 else self._fit_total(total)

    def _fit_total(self, sums: ClassSums) -> Self:
        """Fit from the sums of all rows."""
        correct = Correction(self.transition_, sums.noisy_prior, self.operator)
        if self.alpha is not None:
            self._set_alpha(self.alpha)
        else:
            self._set_alphas(np.trace(sums.scatter) / sums.n_features)
            self._choose([_generalized_risks(sums, correct, self.alphas_, self.fit_intercept)], [sums.weight])
        _fit_sums(self, sums, self.alpha_, correct)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")  # sums alone may be of blocks that count nothing

    def _fit_folds(self, folds: list[ClassSums]) -> Self:
        pairs = ((_total(folds[:k] + folds[k + 1 :]), fold) for k, fold in enumerate(folds))
        return self._fit_pairs(_total(folds), pairs)

    def _fit_pairs(self, total: ClassSums, pairs: Iterable[tuple[ClassSums, ClassSums]]) -> Self:
        correct = Correction(self.transition_, total.noisy_prior, self.operator)
        self._set_alphas(np.trace(total.scatter) / total.n_features)
        risks, held_out = [], []
        for train, test in pairs:
            if train.weight > 0 and test.weight > 0:  # weights of zero may empty a fold
                clean = replace(test, counts=correct(test.counts), centred_sums=correct(test.centred_sums))
                centroid, prior = _clean_means(train, correct, self.fit_intercept)
                path = solve_ridge_path(train, centroid, prior, self.alphas_, self.fit_intercept)
                risks.append([linear_risk(clean, W, b).total for W, b in path])
                held_out.append(test.weight)
        self._choose(risks, held_out)
        _fit_sums(self, total, self.alpha_, correct)
        return self

    def _fit_wide(self, X: Any, codes: IntArray, weights: FloatArray | None, splits: Splits) -> Self:
        """Make the same choice if X'X is too large: each penalty is fitted and scored on rows."""
        w = np.ones(len(codes)) if weights is None else weights
        counts = np.bincount(codes, w, minlength=len(self.classes_))
        labels = _labels(Correction(self.transition_, counts / counts.sum(), self.operator), len(counts))
        with np.errstate(invalid="ignore"):  # the weighted variance of a constant may round to less than zero
            variance = StandardScaler(with_mean=False).fit(X, sample_weight=w).var_
        self._set_alphas(np.mean(variance) * w.sum())
        splits = [(train, test) for train, test in splits if w[train].sum() > 0 and w[test].sum() > 0]
        held_out = [w[test].sum() for _, test in splits]
        risks: list[Any] = []
        if sparse.issparse(X) and splits:
            folds = [_SparseFold(self, X, labels, codes, w, *split) for split in splits]
            tried: dict[float, list[float]] = {}
            for alpha in sorted(self.alphas_.tolist(), reverse=True):
                tried[alpha] = [fold.risk(alpha) for fold in folds]
                means = np.average(list(tried.values()), axis=1, weights=held_out)
                if len(means) - means.argmin() > RISES:
                    break
            kept = [alpha for alpha in self.alphas_.tolist() if alpha in tried]
            risks = [[tried[alpha][k] for alpha in kept] for k in range(len(folds))]
            self.__dict__["alphas_"] = np.array(kept)
        else:
            for train, test in splits:
                models = [_ridge(self, X[train], labels[codes[train]], w[train], alpha) for alpha in self.alphas_]
                risks.append([decomposed_risk(m.predict(X[test]), codes[test], labels, w[test]).total for m in models])
        self._choose(risks, held_out)
        _fit_rows(self, X, codes, weights, self.alpha_)
        return self

    def _splits(self, X: Any, codes: IntArray) -> Splits:
        if not isinstance(self.cv, Integral):
            return list(check_cv(self.cv).split(X, codes))
        if self.cv < 2:
            raise ValueError(f"cv must be at least 2 folds; got {self.cv}")
        seed = 0 if self.random_state is None else self.random_state  # a default fit can be repeated
        # Equal rows share a fold: neither their order nor repeating instead of weighting them changes the choice.
        keys: Any = row_keys(X)
        same = np.unique(keys if (keys != keys[0]).any() else np.arange(len(codes)), return_inverse=True)[1]
        n = int(same.max()) + 1
        n_folds = min(int(self.cv), n)
        dealt = check_random_state(seed).permutation(n)[same] % n_folds
        return [(np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in range(n_folds)]

    def _set_alphas(self, scale: float) -> None:
        grid: Any = np.logspace(-6, 2, 17) * (scale if scale > 0 else 1.0) if self.alphas is None else self.alphas
        self.alphas_ = np.asarray(grid, dtype=np.float64)

    def _choose(self, risks: list[list[float]], held_out: list[float]) -> None:
        if not risks:  # one fold has all the weight, so that nothing can be held out
            self.risk_ = np.zeros(len(self.alphas_))
            self.alpha_ = float(self.alphas_[len(self.alphas_) // 2])
            return
        self.risk_ = np.average(risks, axis=0, weights=held_out)
        self.alpha_ = float(self.alphas_[self.risk_.argmin()])

    def _set_alpha(self, alpha: float) -> None:
        self.alpha_ = float(alpha)
        for name in ("alphas_", "risk_"):  # of an earlier fit
            self.__dict__.pop(name, None)

    def _check_parameters(self) -> None:
        check_operator(self.operator)
        if self.alpha is not None:
            check_number(self, "alpha")
        if self.alphas is not None:
            alphas = np.asarray(self.alphas, dtype=np.float64)
            if alphas.ndim != 1 or len(alphas) == 0 or not np.isfinite(alphas).all() or alphas.min() <= 0:
                raise ValueError(f"alphas must be a list of numbers > 0; got {self.alphas!r}")


class MCLDCEClassifierCV(MCLDCEClassifier):
    """:class:`MCLDCEClassifier` under the name that it had while the choice of ``alpha`` was a class of its own.

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


def _fit_sums(model: Any, sums: ClassSums, alpha: float, correct: Correction | None = None) -> None:
    """Set what a fit learns from sums: prior, centroid, coefficients."""
    sums = _named(model, sums)
    correct = correct or Correction(model.transition_, sums.noisy_prior, model.operator)
    centroid, prior = _clean_means(sums, correct, model.fit_intercept)
    W, model.intercept_ = solve_ridge(sums, centroid, prior, alpha, model.fit_intercept)
    model.coef_ = W.T
    model.class_prior_ = correct.prior
    model.centroid_ = centroid + np.outer(sums.mean, prior) if model.fit_intercept else centroid
    model.sums_ = sums  # last: a block that cannot be solved is not added


def _named(model: Any, sums: ClassSums) -> ClassSums:
    """Return the sums with the names of classes and features, so that those of two models cannot be mixed up."""
    if sums.feature_names is None and hasattr(model, "feature_names_in_"):
        sums = replace(sums, feature_names=model.feature_names_in_)
    return replace(sums, classes=model.classes_)


def _clean_means(sums: ClassSums, correct: Correction, fit_intercept: bool) -> tuple[FloatArray, FloatArray]:
    """Return the clean centroid, of x - mean if there is an intercept, and the mean of the corrected labels."""
    return clean_centroid(sums.about_mean if fit_intercept else sums, correct), correct(sums.noisy_prior)


def _generalized_risks(sums: ClassSums, correct: Correction, alphas: FloatArray, fit_intercept: bool) -> list[float]:
    """Return the generalized cross-validation score of each penalty, from the sums of all rows.

    ::

        X'X = V diag(v) V',  r = V' n mu,    residuals = sum |t|^2 - sum r^2 / (v + alpha) (2 - v / (v + alpha))
    """
    n, c = sums.weight, sums.n_classes
    centroid, mean = _clean_means(sums, correct, fit_intercept)
    v, V = np.linalg.eigh(finite_gram(sums, fit_intercept))
    v = np.maximum(v, 0)
    explained = np.sum((V.T @ (n * centroid)) ** 2, axis=1)
    squares = -n * float(mean @ mean) * fit_intercept
    for start in range(0, c, MANY_LABELS):  # in parts: all rows of M^+ are c x c
        chosen = np.arange(start, min(start + MANY_LABELS, c))
        one_hot = np.zeros((c, len(chosen)))
        one_hot[chosen, chosen - start] = 1
        squares += float(np.sum(correct(one_hot) ** 2, axis=0) @ sums.counts[chosen])
    risks = []
    for alpha in alphas:
        share = v / (v + alpha)
        residuals = squares - float(np.sum(explained / (v + alpha) * (2 - share)))
        free = 1 - (share.sum() + fit_intercept) / n
        risks.append(max(residuals, 0.0) / n / free**2 if free > 0 else np.inf)
    return risks


def _fit_rows(model: Any, X: Any, codes: IntArray, weights: FloatArray | None, alpha: float) -> None:
    """Set what :func:`_fit_sums` would, if X'X is too large: ridge regression on the rows themselves."""
    n, c = len(codes), len(model.classes_)
    w = np.ones(n) if weights is None else weights
    counts = np.bincount(codes, w, minlength=c)
    correct = Correction(model.transition_, counts / counts.sum(), model.operator)
    targets = _labels(correct, c)[codes]
    if sparse.issparse(X):
        exact = X.astype(np.float64, copy=False)
        W, model.intercept_ = solve_sparse_ridge(exact, targets, w, alpha, model.fit_intercept)
        model.coef_ = W.T
    else:
        ridge = _ridge(model, X, targets, weights, alpha)
        model.coef_, model.intercept_ = ridge.coef_, np.broadcast_to(ridge.intercept_, c).astype(np.float64)
    sums = sparse.csr_array((w, codes, np.arange(n + 1)), shape=(n, c)).T @ X
    model.centroid_ = correct((sums.toarray() if sparse.issparse(sums) else sums) / counts.sum()).T
    model.class_prior_ = correct.prior
    if hasattr(model, "sums_"):  # of an earlier fit to other data
        del model.sums_


def _labels(correct: Correction, n_classes: int) -> FloatArray:
    """Return M^+, the corrected labels, as a matrix."""
    return correct(np.eye(n_classes)).T


class _SparseFold:
    """A fold of a wide sparse X, in float32; the solution for a penalty is where that for the next one begins."""

    def __init__(
        self, model: Any, X: Any, labels: FloatArray, codes: IntArray, w: FloatArray, train: IntArray, test: IntArray
    ) -> None:
        single = np.float32
        self.seen: Any = (X[train].astype(single), labels[codes[train]].astype(single), w[train].astype(single))
        self.held_out = (codes[test], labels, w[test])
        self.X_test, self.fit_intercept = X[test], model.fit_intercept
        self.W: FloatArray | None = None

    def risk(self, alpha: float) -> float:
        X, targets, w = self.seen
        rough: dict[str, Any] = {"tol": ROUGH, "most": MOST_ROUGH, "start": self.W}
        self.W, b = solve_sparse_ridge(X, targets, w, alpha, self.fit_intercept, **rough)
        return decomposed_risk(self.X_test @ self.W + b, *self.held_out).total


def _ridge(model: Any, X: Any, targets: FloatArray, weights: FloatArray | None, alpha: float) -> Ridge:
    """Return scikit-learn's ridge on the corrected targets, converged far enough to be the same optimum."""
    tolerance = 1e-10 if X.dtype == np.float64 else 1e-6
    ridge = Ridge(alpha, fit_intercept=model.fit_intercept, tol=tolerance, random_state=model.random_state)
    return ridge.fit(X, targets.astype(X.dtype, copy=False), weights)


def _is_wide(X: Any) -> bool:
    return bool(X.shape[1] > (WIDE_SPARSE if sparse.issparse(X) else max(WIDE, X.shape[0])))


def _is_given(transition: Any) -> bool:
    """Return whether T is a matrix, not None or an estimator."""
    return transition is not None and not hasattr(transition, "fit")


def _take_sums(model: Any, sums: ClassSums) -> None:
    """Set what ``fit`` would have learned about classes, T and features."""
    own = None if model.classes is None else check_classes(model.classes)
    if sums.classes is not None:
        model.classes_ = check_classes(sums.classes)
        if own is not None and not np.array_equal(own, model.classes_):
            raise ValueError(
                f"the sums are of the classes {model.classes_[:10].tolist()}, but classes is {own[:10].tolist()}; make "
                "them equal, or leave classes out"
            )
    elif not hasattr(model, "classes_"):
        model.classes_ = np.arange(sums.n_classes) if own is None else own
    if len(model.classes_) != sums.n_classes:
        raise ValueError(
            f"the sums have {sums.n_classes} classes, but the model has {len(model.classes_)}: "
            f"{model.classes_[:10].tolist()}; name one class for each row of the sums"
        )
    if _is_given(model.transition):
        model.transition_ = check_transition(model.transition, sums.n_classes, keep_sparse=True)
        model.transition_estimator_ = None
    elif not hasattr(model, "transition_"):
        raise ValueError("sums hold no samples to estimate T from; pass it, as estimate_transition(X_sample, y_sample)")
    if sums.feature_names is not None and all(isinstance(name, str) for name in sums.feature_names):
        model.feature_names_in_ = sums.feature_names.astype(object)
    elif getattr(model, "n_features_in_", sums.n_features) != sums.n_features and hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # of an earlier fit to other features
    model.n_features_in_ = sums.n_features


def _total(folds: Sequence[ClassSums]) -> ClassSums:
    return sum(folds)  # type: ignore[return-value]  # 0 + sums is sums


def _is_partition(splits: Splits, n_samples: int) -> bool:
    """Return whether each row is held out once and trains otherwise, so that training sets are sums of folds."""
    tests = np.concatenate([test for _, test in splits])
    return np.array_equal(np.sort(tests), np.arange(n_samples)) and all(
        len(train) + len(test) == n_samples and not np.isin(test, train).any() for train, test in splits
    )
