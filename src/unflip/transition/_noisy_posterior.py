"""What the estimators share that read T from the noisy posterior of a scikit-learn classifier."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from unflip._base import check_training_data
from unflip._validation import FloatArray, IntArray
from unflip.core import clean_prior, project_to_simplex
from unflip.core.ldce import well_conditioned


class NoisyPosteriorEstimator(ClassifierMixin, BaseEstimator):
    """fit: noisy posterior, then ``_read`` makes T of it; predict_proba: the posterior through T^-1."""

    classifier: Any
    classes: Any
    random_state: Any

    @abstractmethod
    def _read(self, proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
        """Return T from noisy posteriors (n, c), noisy label codes and weights; all weights are positive."""

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Noisy labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
            Needs a classifier that takes it.
        """
        self._check_parameters()
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
        if weights is not None:
            counted = np.flatnonzero(weights > 0)
            X, codes, weights = X[counted], codes[counted], weights[counted]
        self.classifier_ = self._fitted_classifier(X, codes, weights)
        w = np.ones(len(codes)) if weights is None else weights
        self.transition_ = well_conditioned(self._read(self._noisy_proba(X), codes, w))
        noisy_prior = np.bincount(codes, w, minlength=len(self.classes_)) / w.sum()
        self.class_prior_ = clean_prior(noisy_prior, self.transition_)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean = k | x), shape (n_samples, n_classes): the distribution nearest to p_noisy(x) T^-1."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        return project_to_simplex(np.linalg.solve(self.transition_.T, self._noisy_proba(X).T).T)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely clean label of each sample, shape (n_samples,)."""
        best = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _fitted_classifier(self, X: Any, codes: IntArray, weights: FloatArray | None) -> Any:
        if self.classifier is None:
            default = _default_classifier(X.shape[1] * len(self.classes_))
            both = {} if weights is None else {f"{step}__sample_weight": weights for step in default.named_steps}
            return default.fit(X, codes, **both)
        if not hasattr(self.classifier, "predict_proba"):
            raise ValueError(f"classifier must have predict_proba; {type(self.classifier).__name__} has none")
        model = clone(self.classifier)
        if self.random_state is not None and "random_state" in model.get_params():
            model.set_params(random_state=self.random_state)
        if weights is None:
            return model.fit(X, codes)
        if not has_fit_parameter(model, "sample_weight"):
            raise ValueError(f"sample_weight was given, but {type(model).__name__}.fit does not take it")
        return model.fit(X, codes, sample_weight=weights)

    def _noisy_proba(self, X: Any) -> FloatArray:
        """Noisy posteriors, shape (n, c); the classifier knows only the codes that occurred."""
        proba = np.zeros((X.shape[0], len(self.classes_)))
        proba[:, self.classifier_.classes_] = self.classifier_.predict_proba(X)
        return proba

    def _check_parameters(self) -> None:
        """Refuse bad parameters of the subclass."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def anchor_rows(proba: FloatArray, weights: FloatArray, percentile: float | None) -> FloatArray:
    """Return the matrix whose row i is the posterior of the sample at the percentile of p_i (None: at the maximum).

    The percentile is the smallest value below or at which that share of the weight lies, so a weight of two equals two
    samples. A class that no sample may have keeps the row of the identity.
    """
    c = proba.shape[1]
    T = np.eye(c)
    for i in range(c):
        p = proba[:, i]
        if p.max() <= 0:
            continue
        order = np.lexsort((*proba.T, p))  # the whole row breaks ties, whatever the order of the samples
        if percentile is None:
            place = len(order) - 1
        else:
            below = np.cumsum(weights[order])
            # A hair less than the share: sums of weights are rounded.
            place = int(np.searchsorted(below, (percentile / 100 - 1e-12) * below[-1]))
        T[i] = proba[order[place]]
    return T / T.sum(axis=1, keepdims=True)


def check_percentile(percentile: Any) -> None:
    if percentile is not None and not 0 < percentile <= 100:
        raise ValueError(f"percentile must lie in (0, 100], or be None for the maximum; got {percentile!r}")


def _default_classifier(n_parameters: int) -> Any:
    # Newton steps while a Hessian is small: exact, so that weights equal repetition. L-BFGS beyond.
    if n_parameters <= 500:
        logistic = LogisticRegression(solver="newton-cholesky", tol=1e-8, max_iter=1000)
    else:
        logistic = LogisticRegression(max_iter=1000)
    # Without centring, so that sparse X stays sparse.
    return make_pipeline(StandardScaler(with_mean=False), logistic)
