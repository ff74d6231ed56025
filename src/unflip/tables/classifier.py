"""A classifier for tables as they come: preprocessing and a learner of the package in one, saved as one."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from unflip import registry
from unflip._base import check_rows, resolve_transition
from unflip._validation import FloatArray, check_labels, check_prior, check_transition
from unflip.crowd import is_matrix
from unflip.models import Savable
from unflip.registry import saved_classes
from unflip.tables.preprocessing import Preprocessor
from unflip.tables.read import as_frame, labeled_rows
from unflip.tables.text import Text


class TableClassifier(Savable, ClassifierMixin, BaseEstimator):
    """Learn from the noisy labels of a data frame: a :class:`~unflip.tables.Preprocessor`, then a classifier.

    Images go to the classifier as they are, so that whatever :func:`unflip.tables.read_table` reads can be fitted and
    saved together with what is known about it.

    :class:`~unflip.CorrectedClassifier` and :class:`~unflip.transition.VolMin` get the numbers in their own units,
    because they choose the scale themselves; other classifiers get standardized numbers. If the classifier is a linear
    one that needs T and was not given one, VolMin estimates it.

    Parameters
    ----------
    classifier : classifier, default=None
        Any classifier of the package that can be saved; it is cloned. If None, :class:`~unflip.CorrectedClassifier`
        compares several models.
    max_categories : int, default=50
    text : {"tfidf", "lsa", "wordllama"}, default="tfidf"
        As in :class:`~unflip.tables.Preprocessor`. A classifier that takes no sparse matrix gets "lsa" for "tfidf".

    Attributes
    ----------
    classifier_ : classifier
        The fitted clone.
    preprocessor_ : Preprocessor or None
        None for images.
    classes_, transition_, class_prior_
        Those of ``classifier_``; if it has no T, the last two are those of ``noise_``.
    unused_ : dict of str to str
        The columns that are not used, and why.
    metrics_ : dict
        Empty after ``fit``; whoever evaluates the model may fill it. It is saved with the model and shown by
        :func:`unflip.models.card`, which lists the names that the card knows.
    metadata_ : dict
        The same for the origin of the data.
    noise_ : dict
        The same for the noise if the classifier has no T of its own: "transition" and "class_prior" as arrays, and
        whether T was "given" rather than estimated.

    Examples
    --------
    >>> import pandas as pd
    >>> from unflip import VolMin
    >>> frame = pd.DataFrame({"age": [20, 60, 25, 70] * 10, "town": ["Ulm", "Bonn", "Ulm", "Ulm"] * 10})
    >>> model = TableClassifier(VolMin()).fit(frame, ["young", "old", "young", "old"] * 10)
    >>> model.predict(pd.DataFrame({"town": ["Rome"], "age": [65]})).tolist()
    ['old']
    """

    classifier_: Any
    preprocessor_: Preprocessor | None
    metrics_: dict[str, Any]
    metadata_: dict[str, Any]
    noise_: dict[str, Any]

    def __init__(self, classifier: Any = None, *, max_categories: int = 50, text: Text = "tfidf") -> None:
        self.classifier = classifier
        self.max_categories = max_categories
        self.text = text

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, evaluate: Any = None) -> Self:
        """Fit to noisy labels.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            A frame of any library that narwhals knows, a Hugging Face dataset or a tensor is taken as well.
        y : array-like of shape (n_samples,)
            Noisy labels of any kind. Rows whose label is missing (None, NaN or an empty string) are left out, with a
            warning that counts them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights for T and the classifier; the preprocessing counts all samples equally.
        evaluate : (X, y), default=None
            For a network, which keeps its accuracy on these samples after each epoch in ``history_``.
        """
        X, y = as_frame(X), as_frame(y)
        check_rows(X, y)
        X, y, sample_weight = labeled_rows(X, y, sample_weight)
        features = self.fit_preprocessor(X)
        seen = None if evaluate is None else (self.samples(evaluate[0]), evaluate[1])
        return self.fit_features(features, y, sample_weight, evaluate=seen)

    def fit_preprocessor(self, X: Any) -> Any:
        """Fit the preprocessor; return the features with the numbers in their own units, or images as they are."""
        self.preprocessor_ = None
        if np.ndim(X) > 2:
            return X
        classifier = self._unfitted()
        entry = registry.find_class(type(classifier).__name__)
        standardize = entry is None or not entry.own_scale
        if sparse.issparse(X) and not get_tags(classifier).input_tags.sparse:
            X = X.toarray()
        text: Text = "lsa" if self.text == "tfidf" and not get_tags(classifier).input_tags.sparse else self.text
        self.preprocessor_ = Preprocessor(self.max_categories, standardize=standardize, text=text).fit(X)
        return self.preprocessor_.transform(X, standardize=False)

    def fit_features(
        self, features: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, evaluate: Any = None
    ) -> Self:
        """Fit the classifier to what :meth:`fit_preprocessor` returned; ``evaluate`` is (:meth:`samples`, labels)."""
        classifier, y = self._unfitted(), y if is_matrix(y) else np.asarray(y)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        name = type(classifier).__name__
        further = {"sample_weight": sample_weight, "evaluate": evaluate}
        further = {key: value for key, value in further.items() if value is not None}
        if "sample_weight" in further and not has_fit_parameter(classifier, "sample_weight"):
            raise ValueError(f"{name} does not take sample weights; leave them out, or choose another classifier")
        if "evaluate" in further and not has_fit_parameter(classifier, "evaluate"):
            raise ValueError(f"{name} is not trained in epochs; leave evaluate out")
        params = classifier.get_params(deep=False)
        estimator, entry = None, registry.find_class(name)
        # From a sparse matrix, which is not standardized, the classifier estimates T itself.
        linear = (
            entry is not None and entry.family == "linear" and not entry.own_scale and not sparse.issparse(features)
        )
        transition = params.get("transition")
        needs_transition = entry is not None and entry.takes_transition and not entry.robust
        if linear and (hasattr(transition, "fit") or (needs_transition and transition is None)):
            given = {key: params.get(key) for key in ("classes", "random_state")}
            classes, codes = check_labels(y, params.get("classes"))
            T, estimator = resolve_transition(
                transition, registry.make("VolMin", **given), features, codes, classes, weights
            )
            classifier.set_params(transition=T)
        self.classifier_ = classifier.fit(self.standardized(features), y, **further)
        if estimator is not None:  # so that it reads as T estimated, not as T given
            self.classifier_.set_params(transition=transition)
            self.classifier_.transition_estimator_ = estimator
        self.metrics_, self.metadata_, self.noise_ = {}, {}, {}
        return self

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of the columns of a data frame, for :func:`~unflip.tables.read_table`; empty without one."""
        return {} if self.preprocessor_ is None else self.preprocessor_.kinds

    def standardized(self, features: Any) -> Any:
        """Return the features of :meth:`fit_preprocessor` as the classifier takes them."""
        if self.preprocessor_ is None or not self.preprocessor_.standardize or sparse.issparse(features):
            return features
        numbers, others = np.split(features, [len(self.preprocessor_.numbers_)], axis=1)
        return np.hstack([(numbers - self.preprocessor_.mean_) / self.preprocessor_.scale_, others])

    def samples(self, X: Any) -> Any:
        """Return X as the classifier takes it."""
        check_is_fitted(self)
        return as_frame(X) if self.preprocessor_ is None else self.preprocessor_.transform(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely clean label of each sample, shape (n_samples,)."""
        samples = self.samples(X)
        return self.classifier_.predict(samples)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean class | x), shape (n_samples, n_classes), or what the classifier's own method says."""
        samples = self.samples(X)
        return self.classifier_.predict_proba(samples)

    @property
    def classes_(self) -> NDArray[Any]:
        return self.classifier_.classes_

    @property
    def transition_(self) -> FloatArray | None:
        T = getattr(self.classifier_, "transition_", None)
        return self.classifier_.transition_ if T is not None or not self.noise_ else self.noise_["transition"]

    @property
    def class_prior_(self) -> FloatArray:  # without T the prior of a network is that of the noisy labels
        T = getattr(self.classifier_, "transition_", None)
        return self.classifier_.class_prior_ if T is not None or not self.noise_ else self.noise_["class_prior"]

    @property
    def unused_(self) -> dict[str, str]:
        return {} if self.preprocessor_ is None else self.preprocessor_.unused_

    @property
    def n_features_in_(self) -> int:
        return int((self.preprocessor_ or self.classifier_).n_features_in_)

    def _unfitted(self) -> Any:
        if self.classifier is None:
            return registry.make("CorrectedClassifier")
        if not hasattr(self.classifier, "predict_proba"):
            raise ValueError(f"classifier must be a classifier with predict_proba; got {self.classifier!r}")
        return clone(self.classifier)

    def _fitted_state(self) -> dict[str, Any]:
        state = super()._fitted_state()
        name = type(state.get("classifier_")).__name__
        if state and name not in saved_classes():
            raise ValueError(f"{name} cannot be saved without code; the classifiers that can are {_choices()}")
        return state

    def _set_fitted_state(self, state: dict[str, Any]) -> None:
        super()._set_fitted_state({"noise_": {}, **state})  # which an earlier file may lack

    def _check_fitted_state(self) -> None:
        classifier, preprocessor = self.classifier_, self.preprocessor_
        if type(classifier).__name__ not in saved_classes() or not hasattr(classifier, "predict_proba"):
            raise ValueError(f"classifier_ must be a fitted classifier, one of {_choices()}")
        check_is_fitted(classifier)
        if preprocessor is None:
            if len(getattr(classifier, "input_shape_", ())) < 2:
                raise ValueError("preprocessor_ is missing; only images do without one")
        elif not isinstance(preprocessor, Preprocessor):
            raise ValueError("preprocessor_ must be a Preprocessor")
        elif (found := len(preprocessor.get_feature_names_out())) != classifier.n_features_in_:
            raise ValueError(
                f"the columns make {found} features, but the classifier was fitted to {classifier.n_features_in_}"
            )
        if self.noise_:
            if self.noise_.keys() != {"transition", "class_prior", "given"}:
                raise ValueError("noise_ must have transition, class_prior and given, and nothing else")
            check_transition(self.noise_["transition"], len(classifier.classes_))
            check_prior(self.noise_["class_prior"], len(classifier.classes_))


def _choices() -> str:
    classifiers = [entry for entry in registry.ENTRIES if entry.saved and entry.family not in ("table", "arrays")]
    return ", ".join(entry.cls for entry in classifiers)
