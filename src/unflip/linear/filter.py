"""Majority and consensus filters: drop the samples whose labels other models dispute, fit to the rest."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from unflip._base import check_held_out_once, check_samples, check_training_data, fit_codes, predicted_codes, seeded
from unflip._validation import FloatArray, IntArray
from unflip.models import Savable
from unflip.models.arrays import Blend, as_arrays

Vote = Literal["majority", "consensus"]
Splits = list[tuple[IntArray, IntArray]]


class FilterClassifier(Savable, ClassifierMixin, BaseEstimator):
    """Brodley and Friedl's filters (1999) around any scikit-learn classifiers.

    Each of m models predicts the label of every sample from the folds that do not contain it. A sample is dropped if
    too many of them contradict its label, and the estimator is fitted to the others::

        mistakes_i = #{models j : prediction of j for x_i, trained without the fold of i, is not y_i}
        majority:  drop i if mistakes_i > m / 2          consensus:  drop i if mistakes_i = m

    Parameters
    ----------
    estimator : classifier, default=None
        Fitted to the samples that are kept. If None, logistic regression on standardized features is used.
    models : sequence of classifiers, default=None
        The models that vote; cloned for each fold. If None, they are a decision tree, the nearest neighbor and
        logistic regression.
    vote : {"majority", "consensus"}, default="majority"
        The majority filter finds more of the wrong labels, the consensus filter drops fewer of the correct ones.
    cv : int, cross-validation generator or iterable of (train, test) rows, default=4
        An integer is the number of shuffled folds, stratified by label. Others must hold each row out once.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, if the noisy labels lack some of them.
    random_state : int, RandomState instance or None, default=None
        Seeds the folds, and the models that have no ``random_state`` of their own.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    estimator_ : classifier
        The fitted classifier. Its own ``classes_`` are codes, 0 for the first class.
    mistakes_ : ndarray of shape (n_samples,)
        How many of the models contradict each label.
    kept_ : ndarray of shape (n_samples,)
        Which samples it was fitted to.
    class_prior_ : ndarray of shape (n_classes,)
        The shares of the classes among these samples.

    Notes
    -----
    *Reconstructed.* The paper votes with a decision tree (C4.5), nearest neighbors and a linear machine. scikit-learn
    has no C4.5: its tree here has at least two samples in each leaf, C4.5's default, and is not pruned; logistic
    regression takes the place of the linear machine. The last two see standardized features. The paper does not treat
    classes that lose all their samples: such a class keeps them, so that it can still be predicted.

    *Weights.* They reach the classifiers that take them, and no vote; samples of weight zero are left out altogether.

    *Limits.* A filter needs models that are right more often than the labels. The nearest neighbor repeats the noise of
    its neighbor, so that with heavy noise many correct labels are dropped as well; give other ``models`` then.

    References
    ----------
    Brodley and Friedl, Identifying Mislabeled Training Data, Journal of Artificial Intelligence Research 11, 1999.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = load_digits(return_X_y=True)
    >>> noisy = corrupt(y, symmetric(10, 0.3), random_state=0)
    >>> FilterClassifier(random_state=0).fit(X, noisy).score(X, y) > 0.9
    True
    """

    classes_: NDArray[Any]
    class_prior_: FloatArray
    estimator_: Any

    def __init__(
        self,
        estimator: Any = None,
        models: Sequence[Any] | None = None,
        *,
        vote: Vote = "majority",
        cv: Any = 4,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.models = models
        self.vote = vote
        self.cv = cv
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels ``y`` of any kind, shape (n_samples,); X may be sparse."""
        self._check_parameters()
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
        random = check_random_state(self.random_state)
        seed = random.randint(2**31 - 1)
        counted = np.arange(len(codes)) if weights is None else np.flatnonzero(weights > 0)
        if isinstance(self.cv, Integral):
            splits = [(counted[a], counted[b]) for a, b in stratified(codes[counted], int(self.cv), random)]
        else:
            splits = [(np.intersect1d(a, counted), b) for a, b in _splits(self.cv, X, codes)]
        models = default_models(X) if self.models is None else self.models
        self.mistakes_ = np.zeros(len(codes), dtype=np.intp)
        for train, test in splits:
            for model in models:
                fitted = self._fitted(model, X, codes, weights, train, seed)
                self.mistakes_[test] += fitted.codes_[fitted.predict(X[test])] != codes[test]
        self.kept_ = np.zeros(len(codes), dtype=bool)
        self.kept_[counted] = to_keep(self.mistakes_[counted], codes[counted], len(models), self.vote)
        rows = np.flatnonzero(self.kept_)
        classifier = default_classifier(X) if self.estimator is None else self.estimator
        self.estimator_ = self._fitted(classifier, X, codes, weights, rows, seed)
        counts = np.bincount(codes[rows], None if weights is None else weights[rows], minlength=len(self.classes_))
        self.class_prior_ = counts / counts.sum()
        return self

    def _fitted(
        self, model: Any, X: Any, codes: IntArray, weights: FloatArray | None, rows: IntArray, seed: int
    ) -> Any:
        return fit_codes(seeded(clone(model), seed), X[rows], codes[rows], None if weights is None else weights[rows])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely clean label of each sample, shape (n_samples,)."""
        check_is_fitted(self)
        X = check_samples(self, X)
        labels: NDArray[Any] = self.classes_[self.estimator_.codes_[self.estimator_.predict(X)]]
        return labels

    @available_if(lambda self: self.estimator is None or hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean class | x), shape (n_samples, n_classes)."""
        check_is_fitted(self)
        return predicted_codes(self.estimator_, check_samples(self, X), len(self.classes_))

    def _check_parameters(self) -> None:
        if self.vote not in ("majority", "consensus"):
            raise ValueError(f"vote must be 'majority' or 'consensus'; got {self.vote!r}")
        if isinstance(self.cv, Integral) and self.cv < 2:
            raise ValueError(f"cv must be at least 2 folds; got {self.cv}")
        if self.models is not None and len(self.models) == 0:
            raise ValueError("models is empty; give at least one classifier, or None for the default ones")
        for model in [self.estimator, *(self.models or ())]:
            if model is not None and (isinstance(model, type) or not hasattr(model, "fit") or not is_classifier(model)):
                raise ValueError(f"estimator and models must be scikit-learn classifiers; got {model!r}")

    def _fitted_state(self) -> dict[str, Any]:
        """Return what predicts; ``estimator_`` is stored as arrays, what belongs to the training rows is left out."""
        names = ("classes_", "n_features_in_", "feature_names_in_", "class_prior_")
        state = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return state | ({"estimator_": self._as_arrays()} if hasattr(self, "estimator_") else {})

    def _as_arrays(self) -> Blend:
        model, codes = self.estimator_, np.arange(len(self.classes_))
        return model if isinstance(model, Blend) else Blend([as_arrays(model, codes[model.codes_])], classes=codes)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def to_keep(mistakes: IntArray, codes: IntArray, n_models: int, vote: Vote) -> NDArray[np.bool_]:
    """Return which samples the filter keeps, shape (n,), given how many of the models contradict each label."""
    kept: NDArray[np.bool_] = mistakes <= n_models / 2 if vote == "majority" else mistakes < n_models
    lost = np.setdiff1d(codes, codes[kept])  # a class that lost all its samples keeps them
    return kept | np.isin(codes, lost)


def stratified(codes: IntArray, cv: int, random: np.random.RandomState) -> Splits:
    """Return shuffled folds with equal parts of each class; the names and the order of the classes do not matter."""
    n_folds = min(cv, int(np.bincount(codes).max()))
    places, folds = random.permutation(len(codes)), np.empty(len(codes), dtype=np.intp)
    for k in np.unique(codes):
        rows = np.flatnonzero(codes == k)
        rows = rows[np.argsort(places[rows])]
        # Each class starts in another fold, so that rare classes do not all meet in the first one.
        folds[rows] = (places[rows[0]] + np.arange(len(rows))) % n_folds
    found = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(n_folds)]
    return [(train, test) for train, test in found if len(train) and len(test)]


def default_models(X: Any) -> list[Any]:
    """Return a tree, the nearest neighbor and a linear model, as in the paper."""
    scaler = StandardScaler(with_mean=not sparse.issparse(X))
    nearest = make_pipeline(scaler, KNeighborsClassifier(1))
    return [DecisionTreeClassifier(min_samples_leaf=2), nearest, default_classifier(X)]


def default_classifier(X: Any) -> Any:
    """Return logistic regression on standardized features; a sparse X is not centered."""
    return make_pipeline(StandardScaler(with_mean=not sparse.issparse(X)), LogisticRegression(max_iter=1000))


def _splits(cv: Any, X: Any, codes: IntArray) -> Splits:
    rows = np.arange(len(codes))  # a splitter may also give masks
    splits = [(rows[train], rows[test]) for train, test in check_cv(cv).split(X, codes)]
    check_held_out_once([test for _, test in splits], len(codes))
    return splits
