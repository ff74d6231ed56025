"""Fitted classifiers as arrays: what :func:`as_arrays` makes of a model of scikit-learn, so that it can be saved."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import Pipeline
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.sparsefuncs import inplace_column_scale
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from unflip._validation import FloatArray
from unflip.core.posterior import blended
from unflip.models.folder import Savable
from unflip.models.trees import TreeEnsemble
from unflip.registry import saved_classes

SUPPORTED = (
    "the classifiers of this package, HistGradientBoostingClassifier, RandomForestClassifier, ExtraTreesClassifier, "
    "DecisionTreeClassifier, LogisticRegression, ComplementNB and MultinomialNB, also after StandardScaler, "
    "TruncatedSVD or Nystroem with kernel='rbf' in a Pipeline"
)


def as_arrays(estimator: Any, classes: NDArray[Any] | None = None) -> Any:
    """Return a classifier with the same ``predict_proba`` that can be saved without code.

    Parameters
    ----------
    estimator : fitted classifier
        A classifier of this package is returned as it is, unless it holds others. Boosted trees, forests and trees of
        scikit-learn become a :class:`~unflip.models.trees.TreeEnsemble`, LogisticRegression :class:`LinearScores`, and
        a Pipeline with StandardScaler, TruncatedSVD or Nystroem :class:`Scaled`, :class:`Projected` or :class:`Radial`.
        The members of a :class:`Blend` are treated in the same way.
    classes : ndarray, default=None
        What the classes are to be called, in their order, if not as ``classes_`` of the estimator says. This is for a
        model inside another one, which checks the names of the features: they are left out.

    Raises
    ------
    ValueError
        If the model cannot be stored as arrays. The message says why, and what to do.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.ensemble._forest import ForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import ComplementNB, MultinomialNB
    from sklearn.tree import DecisionTreeClassifier

    if classes is not None:
        return _renamed(as_arrays(estimator), classes)
    if isinstance(estimator, Blend):
        members = [as_arrays(member) for member in estimator.members_]
        names = ("weights_", "classes_", "temperatures_", "calibration_")
        return Blend(members, *(getattr(estimator, name) for name in names))
    if isinstance(estimator, Savable) and type(estimator).__name__ in saved_classes():
        if not estimator._fitted_state():
            raise ValueError(f"this {type(estimator).__name__} is not fitted yet; call fit first")
        return estimator
    if isinstance(estimator, Pipeline):
        return _pipeline(estimator)
    if isinstance(estimator, HistGradientBoostingClassifier | ForestClassifier | DecisionTreeClassifier):
        return TreeEnsemble.from_estimator(estimator)
    if isinstance(estimator, LogisticRegression | ComplementNB | MultinomialNB | LinearScores):
        return LinearScores.from_estimator(estimator)
    raise ValueError(
        f"a {type(estimator).__name__} cannot be saved without code; what can be saved are {SUPPORTED}. Choose one of "
        "these, or save the fitted model with skops, whose files hold code that you must trust on loading: "
        "skops.io.dump(model, 'model.skops')"
    )


class _Arrays(Savable, ClassifierMixin, BaseEstimator):
    """Shared by the classifiers below: the label is the one with the largest probability."""

    n_features_in_: int

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each sample, shape (n_samples,)."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes, shape (n_samples, n_classes)."""
        raise NotImplementedError

    def _describe(self, estimator: Any) -> None:
        """Take over the classes and features of a fitted classifier."""
        self.classes_, self.n_features_in_ = estimator.classes_, int(estimator.n_features_in_)
        if hasattr(estimator, "feature_names_in_"):
            self.feature_names_in_ = estimator.feature_names_in_


class LinearScores(_Arrays):
    """The softmax of ``X @ coef_.T + intercept_``: logistic regression or naive Bayes, by :meth:`from_estimator`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
    """

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Return the scores of a fitted LogisticRegression, ComplementNB or MultinomialNB, or of a subclass."""
        check_is_fitted(estimator)
        model = cls()
        model._describe(estimator)
        if hasattr(estimator, "feature_log_prob_"):
            # Complement naive Bayes has no prior, unless there is a single class.
            bare = type(estimator).__name__ == "ComplementNB" and len(estimator.classes_) > 1
            prior = np.zeros(len(estimator.classes_)) if bare else estimator.class_log_prior_
            model.coef_, model.intercept_ = estimator.feature_log_prob_, prior
            return model
        coef, intercept = np.atleast_2d(estimator.coef_), np.ravel(estimator.intercept_)
        c = len(estimator.classes_)
        if c > 2 and (getattr(estimator, "solver", "") == "liblinear" or len(coef) != c):
            raise ValueError(
                f"its {c} classes are fitted one against the rest; for probabilities of all at once, choose another "
                "solver of LogisticRegression, such as 'lbfgs'"
            )
        if len(coef) == 1:  # of two classes; the scores of the first are zero
            coef, intercept = np.vstack([np.zeros_like(coef), coef]), np.array([0.0, intercept[0]])
        # In the order in which it is saved: the last bits of a product depend on it.
        model.coef_, model.intercept_ = np.ascontiguousarray(coef), intercept
        return model

    def predict_proba(self, X: Any) -> FloatArray:
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        proba: FloatArray = softmax(safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_, axis=1)
        return proba


class Scaled(_Arrays):
    """A classifier of ``(X - mean_) / scale_``, as a StandardScaler and a classifier in a Pipeline are.

    Attributes
    ----------
    classifier_ : fitted classifier
    mean_, scale_ : ndarray of shape (n_features,)
    """

    @classmethod
    def of(cls, classifier: Any, mean: ArrayLike, scale: ArrayLike) -> Self:
        """Return a fitted classifier behind a scaler."""
        model = cls()
        model.mean_, model.scale_ = np.asarray(mean, dtype=np.float64), np.asarray(scale, dtype=np.float64)
        model.classifier_ = classifier
        model.classes_, model.n_features_in_ = classifier.classes_, len(model.mean_)
        return model

    def predict_proba(self, X: Any) -> FloatArray:
        kinds: Any = [np.float64, np.float32]
        options = {"accept_sparse": "csr", "dtype": kinds, "ensure_all_finite": "allow-nan", "copy": True}
        X = validate_data(self, X, reset=False, **options)
        if issparse(X):
            if self.mean_.any():
                raise ValueError("X is sparse, but the features are centered, which needs all of them; give a dense X")
            inplace_column_scale(X, 1 / self.scale_)
        else:
            X -= self.mean_
            X /= self.scale_
        proba: FloatArray = self.classifier_.predict_proba(X)
        return proba

    def _check_fitted_state(self) -> None:
        _check_member(self.classifier_)
        found = (self.classifier_.n_features_in_, self.mean_.shape, self.scale_.shape)
        if found != (self.n_features_in_, (self.n_features_in_,), (self.n_features_in_,)):
            raise ValueError(f"the scale of {self.n_features_in_} features does not fit a classifier of {found[0]}")
        if not np.array_equal(self.classes_, self.classifier_.classes_):
            raise ValueError("the classes are not those of the classifier")
        if not (np.isfinite(self.mean_).all() and np.isfinite(self.scale_).all() and (self.scale_ > 0).all()):
            raise ValueError("mean_ and scale_ must be finite, and scale_ must be positive")
        super()._check_fitted_state()


class Projected(_Arrays):
    """A classifier of ``X @ components_.T``, as TruncatedSVD and a classifier in a Pipeline are.

    Attributes
    ----------
    classifier_ : fitted classifier
    components_ : ndarray of shape (n_components, n_features)
    """

    components_: FloatArray

    @classmethod
    def of(cls, classifier: Any, components: ArrayLike) -> Self:
        """Return a fitted classifier behind a projection."""
        model = cls()
        model.classifier_, model.components_ = classifier, np.asarray(components, dtype=np.float64)
        model.classes_, model.n_features_in_ = classifier.classes_, model.components_.shape[1]
        return model

    def predict_proba(self, X: Any) -> FloatArray:
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        proba: FloatArray = self.classifier_.predict_proba(safe_sparse_dot(X, self.components_.T, dense_output=True))
        return proba

    def _check_fitted_state(self) -> None:
        _check_member(self.classifier_)
        found = self.components_
        if not isinstance(found, np.ndarray) or found.dtype.kind != "f" or not np.isfinite(found).all():
            raise ValueError("components_ must be an array of finite numbers")
        if found.shape != (self.classifier_.n_features_in_, self.n_features_in_):
            raise ValueError(f"components_ of shape {found.shape} do not fit the features")
        if not np.array_equal(self.classes_, self.classifier_.classes_):
            raise ValueError("the classes are not those of the classifier")
        super()._check_fitted_state()


class Radial(_Arrays):
    """A classifier of ``exp(-gamma_ |x - centers_|^2) @ mixing_.T``, as Nystroem and a classifier in a Pipeline are.

    Attributes
    ----------
    classifier_ : fitted classifier
    centers_ : ndarray of shape (n_components, n_features)
    mixing_ : ndarray of shape (n_components, n_components)
    gamma_ : float
    """

    centers_: FloatArray
    mixing_: FloatArray
    gamma_: float

    @classmethod
    def of(cls, classifier: Any, centers: ArrayLike, mixing: ArrayLike, gamma: float) -> Self:
        """Return a fitted classifier behind the features of a kernel."""
        model = cls()
        model.classifier_, model.gamma_ = classifier, float(gamma)
        model.centers_, model.mixing_ = (np.ascontiguousarray(A, dtype=np.float64) for A in (centers, mixing))
        model.classes_, model.n_features_in_ = classifier.classes_, model.centers_.shape[1]
        return model

    def predict_proba(self, X: Any) -> FloatArray:
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        proba: FloatArray = self.classifier_.predict_proba(
            rbf_kernel(X, self.centers_, gamma=self.gamma_) @ self.mixing_.T
        )
        return proba

    def _check_fitted_state(self) -> None:
        _check_member(self.classifier_)
        for found in (self.centers_, self.mixing_):
            if not isinstance(found, np.ndarray) or found.dtype.kind != "f" or not np.isfinite(found).all():
                raise ValueError("centers_ and mixing_ must be arrays of finite numbers")
        k = self.classifier_.n_features_in_
        if self.centers_.shape != (k, self.n_features_in_) or self.mixing_.shape != (k, k):
            raise ValueError(f"{self.centers_.shape} centers and {self.mixing_.shape} weights do not fit the features")
        if not isinstance(self.gamma_, float) or not 0 < self.gamma_ < np.inf:
            raise ValueError(f"gamma_ must be a positive number, got {self.gamma_!r}")
        if not np.array_equal(self.classes_, self.classifier_.classes_):
            raise ValueError("the classes are not those of the classifier")
        super()._check_fitted_state()


class Blend(_Arrays):
    """The weighted mean of the probabilities of several fitted classifiers, each at a temperature, calibrated::

        P(k | x)  =  softmax(t log p + b)_k,     p  =  sum_m weights_[m] P_m(x)^temperatures_[m] / Z

    Parameters
    ----------
    members : sequence of fitted classifiers
    weights : array-like of shape (n_members,), default=None
        Not negative. They are divided by their sum. If None, all are equal.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted; a member that does not know a class gives it probability zero. If None, they are those of
        the first member.
    temperatures, calibration : array-like of shape (n_members,) and (1 + n_classes,), default=None
        Temperatures, and (t, b). If None, they change nothing.

    Attributes
    ----------
    members_ : list of classifiers
    weights_, temperatures_, calibration_ : ndarray
    """

    members_: list[Any]
    weights_: FloatArray
    temperatures_: FloatArray
    calibration_: FloatArray

    def __init__(
        self,
        members: Sequence[Any] | None = None,
        weights: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        temperatures: ArrayLike | None = None,
        calibration: ArrayLike | None = None,
    ) -> None:
        if members is None:  # load makes an empty one and fills it
            return
        self._set(list(members), weights, classes)
        n, c = len(self.members_), len(self.classes_)
        self.temperatures_ = np.ones(n) if temperatures is None else np.asarray(temperatures, dtype=np.float64)
        self.calibration_ = np.eye(1, 1 + c)[0] if calibration is None else np.asarray(calibration, dtype=np.float64)
        self._check_calibration()

    def _set(self, members: list[Any], weights: ArrayLike | None, classes: ArrayLike | None) -> None:
        given = np.ones(len(members)) if weights is None else np.asarray(weights, dtype=np.float64)
        if not members or given.shape != (len(members),):
            raise ValueError(f"there are {len(members)} members and weights of shape {given.shape}; give one for each")
        if not (np.isfinite(given).all() and (given >= 0).all() and given.sum() > 0):
            raise ValueError(f"weights must be finite and not negative, and not all zero; got {given}")
        self.members_, self.weights_ = members, given / given.sum()
        self._describe(members[0])
        if classes is not None:
            self.classes_ = np.asarray(classes)
        self._check_members()

    def predict_proba(self, X: Any) -> FloatArray:
        posteriors = []
        for member in self.members_:
            p = np.zeros((_num_samples(X), len(self.classes_)))
            p[:, np.searchsorted(self.classes_, member.classes_)] = member.predict_proba(X)
            posteriors.append(p)
        return blended(posteriors, self.weights_, self.temperatures_, self.calibration_)

    @property
    def codes_(self) -> NDArray[Any]:
        """The columns of ``predict_proba``, as :func:`unflip._base.fit_codes` gives them to a model."""
        return np.arange(len(self.classes_))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return no parameters: the members are fitted already, and are saved as ``members_``."""
        return {}

    def _fitted_state(self) -> dict[str, Any]:
        for member in getattr(self, "members_", ()):  # encode would say less
            _check_member(member)
        names = ["classes_", "n_features_in_", "feature_names_in_"]
        names += ["members_", "weights_", "temperatures_", "calibration_"]
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def _check_calibration(self) -> None:
        found = [np.asarray(a).shape for a in (self.temperatures_, self.calibration_)]
        expected = [(len(self.members_),), (1 + len(self.classes_),)]
        if found != expected or not (np.isfinite(self.temperatures_).all() and np.isfinite(self.calibration_).all()):
            raise ValueError(f"temperatures and calibration must be finite, of shapes {expected}; got shapes {found}")

    def _check_members(self) -> None:
        for member in self.members_:
            known = np.isin(member.classes_, self.classes_).all()
            if not known or member.n_features_in_ != self.n_features_in_:
                raise ValueError(
                    f"the members have other classes or features: {self.classes_.tolist()} of "
                    f"{self.n_features_in_} features and {member.classes_.tolist()} of {member.n_features_in_}"
                )

    def _check_fitted_state(self) -> None:
        if not isinstance(self.members_, list) or not isinstance(self.weights_, np.ndarray):
            raise ValueError("members_ must be a list of classifiers and weights_ an array")
        for member in self.members_:
            _check_member(member)
        if self.weights_.shape != (len(self.members_),) or self.weights_.dtype.kind != "f" or not len(self.weights_):
            raise ValueError(f"there are {len(self.members_)} members and weights of shape {self.weights_.shape}")
        if not ((self.weights_ >= 0).all() and abs(self.weights_.sum() - 1) < 1e-9):
            raise ValueError(f"the weights must not be negative and must sum to one; got {self.weights_}")
        self._check_calibration()
        self._check_members()
        super()._check_fitted_state()


def _check_member(model: Any) -> None:
    if type(model).__name__ not in saved_classes() or not hasattr(model, "predict_proba"):
        raise ValueError(f"a {type(model).__name__} is not a classifier that can be saved; pass it through as_arrays")
    if not hasattr(model, "classes_"):
        raise ValueError(f"the {type(model).__name__} inside is not fitted")


def _renamed(model: Any, classes: NDArray[Any]) -> Any:
    """Return a copy with other names of the classes, and without those of the features; see :func:`as_arrays`."""
    if len(classes) != len(model.classes_):
        raise ValueError(f"{len(classes)} names were given for {len(model.classes_)} classes")
    model = copy.copy(model)
    if isinstance(model, Scaled | Projected | Radial):
        model.classifier_ = _renamed(model.classifier_, classes)
    model.classes_ = classes
    for name in ("codes_", "feature_names_in_"):  # the first is what unflip._base.fit_codes leaves
        vars(model).pop(name, None)
    return model


def _pipeline(pipeline: Any) -> Any:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.kernel_approximation import Nystroem
    from sklearn.preprocessing import StandardScaler

    check_is_fitted(pipeline)
    steps = [step for _, step in pipeline.steps if step is not None and step != "passthrough"]
    model = as_arrays(steps[-1])
    for step in reversed(steps[:-1]):
        if type(step) is TruncatedSVD:
            model = Projected.of(model, step.components_)
            continue
        if type(step) is Nystroem and step.kernel == "rbf":
            gamma = 1 / step.n_features_in_ if step.gamma is None else step.gamma
            model = Radial.of(model, step.components_, step.normalization_, gamma)
            continue
        if type(step) is not StandardScaler:
            raise ValueError(
                f"a Pipeline with {type(step).__name__} cannot be saved without code; only StandardScaler, "
                "TruncatedSVD and Nystroem with kernel='rbf' may stand before the classifier. Transform the data "
                "before fit, or save the fitted model with skops: skops.io.dump(model, 'model.skops')"
            )
        d = step.n_features_in_
        mean = step.mean_ if step.with_mean else np.zeros(d)
        model = Scaled.of(model, mean, step.scale_ if step.with_std else np.ones(d))
        if hasattr(step, "feature_names_in_"):
            model.feature_names_in_ = step.feature_names_in_
    return model
