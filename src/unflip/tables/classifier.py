"""A classifier for tables as they come: preprocessing and a learner of the package in one, saved as one."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from unflip import registry
from unflip._base import check_rows
from unflip._validation import FloatArray, check_prior, check_transition
from unflip.models import Savable
from unflip.registry import saved_classes
from unflip.tables.preprocessing import Preprocessor


class TableClassifier(Savable, ClassifierMixin, BaseEstimator):
    """Learn from the noisy labels of a data frame: a :class:`~unflip.tables.Preprocessor`, then a classifier.

    Images go to the classifier as they are, so that whatever :func:`unflip.tables.read_table` reads can be fitted, and
    the result saved together with what is known about it.

    Parameters
    ----------
    classifier : classifier, default=None
        Any of the package that can be saved; it is cloned. None is
        :class:`~unflip.linear.MCLDCEClassifierCV`.
    max_categories : int, default=50
        As in :class:`~unflip.tables.Preprocessor`.

    Attributes
    ----------
    classifier_ : classifier
        The fitted clone.
    preprocessor_ : Preprocessor or None
        None for images.
    classes_, transition_, class_prior_
        Those of ``classifier_``; the last two those of ``noise_`` where it has no T.
    unused_ : dict of str to str
        Which columns are left out, and why.
    metrics_ : dict
        Empty after ``fit``: for whoever evaluates the model to fill, saved with it and told by ``card``. See
        :func:`unflip.models.card` for the names that the card knows.
    metadata_ : dict
        Empty after ``fit``: likewise for the origin of the data.
    noise_ : dict
        Empty after ``fit``: likewise for the noise where the classifier has no T of its own, with "transition" and
        "class_prior" as arrays, and whether T was "given" or else estimated.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [20, 60, 25, 70] * 10, "town": ["Ulm", "Bonn", "Ulm", "Ulm"] * 10})
    >>> model = TableClassifier().fit(frame, ["young", "old", "young", "old"] * 10)
    >>> model.predict(pd.DataFrame({"town": ["Rome"], "age": [65]})).tolist()
    ['old']
    """

    classifier_: Any
    preprocessor_: Preprocessor | None
    metrics_: dict[str, Any]
    metadata_: dict[str, Any]
    noise_: dict[str, Any]

    def __init__(self, classifier: Any = None, *, max_categories: int = 50) -> None:
        self.classifier = classifier
        self.max_categories = max_categories

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, evaluate: Any = None) -> Self:
        """Fit to noisy labels.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
        y : array-like of shape (n_samples,)
            Noisy labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
            Counts in the classifier; the scale of the features is that of all samples.
        evaluate : (X, y), default=None
            For a network, which keeps its accuracy on these after each epoch in ``history_``.
        """
        classifier = self._unfitted()
        check_rows(X, y)
        further: dict[str, Any] = {}
        if sample_weight is not None:
            if not has_fit_parameter(classifier, "sample_weight"):
                raise ValueError(
                    f"{type(classifier).__name__} takes no sample weights; leave them out, or choose another classifier"
                )
            further["sample_weight"] = sample_weight
        preprocessor = None if np.ndim(X) > 2 else Preprocessor(self.max_categories).fit(X)
        samples = X if preprocessor is None else preprocessor.transform(X)
        if evaluate is not None:
            if not has_fit_parameter(classifier, "evaluate"):
                raise ValueError(f"{type(classifier).__name__} is not trained in epochs; leave evaluate out")
            seen = evaluate[0] if preprocessor is None else preprocessor.transform(evaluate[0])
            further["evaluate"] = (seen, evaluate[1])
        self.classifier_ = classifier.fit(samples, np.asarray(y), **further)
        self.preprocessor_ = preprocessor
        self.metrics_, self.metadata_, self.noise_ = {}, {}, {}
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely clean label of each sample, shape (n_samples,)."""
        labels: NDArray[Any] = self.classifier_.predict(self._samples(X))
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean class | x), shape (n_samples, n_classes)."""
        proba: FloatArray = self.classifier_.predict_proba(self._samples(X))
        return proba

    @property
    def classes_(self) -> NDArray[Any]:
        classes: NDArray[Any] = self.classifier_.classes_
        return classes

    @property
    def transition_(self) -> FloatArray | None:
        T: FloatArray | None = self.noise_["transition"] if self._has_noise() else self.classifier_.transition_
        return T

    @property
    def class_prior_(self) -> FloatArray:
        # Without T the prior of a network is that of the noisy labels.
        prior: FloatArray = self.noise_["class_prior"] if self._has_noise() else self.classifier_.class_prior_
        return prior

    @property
    def unused_(self) -> dict[str, str]:
        return {} if self.preprocessor_ is None else self.preprocessor_.unused_

    @property
    def n_features_in_(self) -> int:
        of = self.classifier_ if self.preprocessor_ is None else self.preprocessor_
        return int(of.n_features_in_)

    def _has_noise(self) -> bool:
        return bool(self.noise_) and getattr(self.classifier_, "transition_", None) is None

    def _unfitted(self) -> Any:
        if self.classifier is None:
            return registry.make("MCLDCEClassifierCV")
        if not hasattr(self.classifier, "predict_proba"):
            raise ValueError(f"classifier must be a classifier with predict_proba; got {self.classifier!r}")
        return clone(self.classifier)

    def _samples(self, X: Any) -> Any:
        check_is_fitted(self)
        return X if self.preprocessor_ is None else self.preprocessor_.transform(X)

    def _fitted_state(self) -> dict[str, Any]:
        state = super()._fitted_state()
        if state and type(self.classifier_).__name__ not in saved_classes():
            raise ValueError(f"{type(self.classifier_).__name__} cannot be saved without code; these can: {_choices()}")
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
                raise ValueError("preprocessor_ is missing; only images do without")
        else:
            if not isinstance(preprocessor, Preprocessor):
                raise ValueError("preprocessor_ must be a Preprocessor")
            found, expected = len(preprocessor.get_feature_names_out()), classifier.n_features_in_
            if found != expected:
                raise ValueError(f"the columns make {found} features, but the classifier was fitted to {expected}")
        if self.noise_:
            if self.noise_.keys() != {"transition", "class_prior", "given"}:
                raise ValueError("noise_ must have transition, class_prior and given, and nothing else")
            check_transition(self.noise_["transition"], len(classifier.classes_))
            check_prior(self.noise_["class_prior"], len(classifier.classes_))


def _choices() -> str:
    return ", ".join(name for name in saved_classes() if name not in ("TableClassifier", "Preprocessor"))
