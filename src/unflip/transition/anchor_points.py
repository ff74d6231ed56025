"""T from anchor points: samples that almost surely belong to one class."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from unflip._base import check_samples, check_training_data
from unflip._validation import FloatArray, IntArray
from unflip.core import clean_prior, project_to_simplex
from unflip.core.ldce import well_conditioned
from unflip.transition._cross_fit import count_std


class AnchorPoints(ClassifierMixin, BaseEstimator):
    """Estimate T from the noisy posteriors of anchor points.

    A sample x that surely belongs to clean class i shows row i of T as its noisy posterior. The sample with the largest
    noisy posterior of class i is taken as such a sample (Patrini et al. 2017)::

        x_i = argmax_x P(noisy = i | x),    T[i, j] = P(noisy = j | x_i)

    Parameters
    ----------
    classifier : scikit-learn classifier with predict_proba, default=None
        Learns the noisy posterior; it is cloned. If None, a multinomial logistic regression on scaled features is used.
    percentile : float in (0, 100] or None, default=97.0
        Take the sample at this percentile of P(noisy = i | x) instead of the maximum, which is often an outlier. If
        None, the maximum is taken. Large classes need a smaller percentile and rare classes a larger one: if fewer than
        100 - percentile per cent of the samples belong to class i, the sample at the percentile does not.
    classes, random_state
        As in :class:`VolMin`. The seed is passed to ``classifier`` if it takes one.

    Attributes
    ----------
    transition_, transition_std_ : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i), and the standard error of each entry: that of shares among as many labels as
        there are samples at or above the percentile.
    classes_, class_prior_ : ndarray of shape (n_classes,)
        The classes, and the clean class prior, computed from the noisy one through T.
    classifier_ : classifier
        The fitted model of the noisy posterior; its labels are class codes.

    Notes
    -----
    The posterior is that of the training samples, as in the original. A matrix whose condition number is above 100 is
    mixed with the identity until it is not. ``predict_proba`` is the distribution nearest to p_noisy(x) T^-1.

    References
    ----------
    Patrini et al., Making Deep Neural Networks Robust to Label Noise: A Loss Correction Approach, CVPR 2017.
    Xia et al., Are Anchor Points Really Indispensable in Label-noise Learning?, NeurIPS 2019 (the percentile).

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = make_blobs(3000, centers=3, random_state=1)
    >>> AnchorPoints().fit(X, corrupt(y, pairflip(3, 0.3), random_state=0)).transition_.argmax(axis=1)
    array([0, 1, 2])
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        percentile: float | None = 97.0,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.classifier = classifier
        self.percentile = percentile
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels ``y`` of any kind; ``X`` may be sparse. Weights need a classifier that takes them."""
        if self.percentile is not None and not 0 < self.percentile <= 100:
            raise ValueError(f"percentile must be in (0, 100], or None for the maximum; got {self.percentile!r}")
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
        if weights is not None:
            counted = np.flatnonzero(weights > 0)
            X, codes, weights = X[counted], codes[counted], weights[counted]
        w = np.ones(len(codes)) if weights is None else weights
        self.classifier_ = self._fitted_classifier(X, codes, weights)
        proba = self._noisy_proba(X)
        self.transition_ = well_conditioned(self._transition(proba, codes, w))
        self.transition_std_ = self._std(proba, codes, w)
        noisy_prior = np.bincount(codes, w, minlength=len(self.classes_)) / w.sum()
        self.class_prior_ = clean_prior(noisy_prior, self.transition_)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean = k | x), shape (n_samples, n_classes): the distribution nearest to p_noisy(x) T^-1."""
        check_is_fitted(self)
        X = check_samples(self, X)
        return project_to_simplex(np.linalg.solve(self.transition_.T, self._noisy_proba(X).T).T)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely clean label of each sample, shape (n_samples,)."""
        best = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _transition(self, proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
        """Return T from noisy posteriors (n, c), noisy label codes and weights; all weights are positive."""
        return anchor_rows(proba, weights, self.percentile)

    def _std(self, proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
        """Return the standard errors of T."""
        above = 1.0 if self.percentile is None else max(1.0, (1 - self.percentile / 100) * weights.sum())
        return count_std(anchor_rows(proba, weights, self.percentile), np.full(len(self.classes_), above))

    def _fitted_classifier(self, X: Any, codes: IntArray, weights: FloatArray | None) -> Any:
        if self.classifier is None:
            # Newton steps while the Hessian is small: they are exact, so that weights equal repetition.
            newton = {"solver": "newton-cholesky", "tol": 1e-8} if X.shape[1] * len(self.classes_) <= 500 else {}
            # Without centering, so that sparse X stays sparse.
            model = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=1000, **newton))
            both = {} if weights is None else {f"{step}__sample_weight": weights for step in model.named_steps}
            return model.fit(X, codes, **both)
        if not hasattr(self.classifier, "predict_proba"):
            name = type(self.classifier).__name__
            raise ValueError(f"classifier must have predict_proba; {name} has none. Wrap it in CalibratedClassifierCV")
        model = clone(self.classifier)
        if self.random_state is not None and "random_state" in model.get_params():
            model.set_params(random_state=self.random_state)
        if weights is None:
            return model.fit(X, codes)
        if not has_fit_parameter(model, "sample_weight"):
            raise ValueError(f"{type(model).__name__}.fit does not take sample_weight; use another classifier")
        return model.fit(X, codes, sample_weight=weights)

    def _noisy_proba(self, X: Any) -> FloatArray:
        """Return noisy posteriors, shape (n, c); the classifier knows only the codes that occurred."""
        proba = np.zeros((X.shape[0], len(self.classes_)))
        proba[:, self.classifier_.classes_] = self.classifier_.predict_proba(X)
        return proba

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def anchor_rows(proba: FloatArray, weights: FloatArray, percentile: float | None) -> FloatArray:
    """Return the matrix whose row i is the posterior of the sample at the percentile of p_i (None: the maximum).

    The percentile is the smallest value with at least that share of the weight at or below it, so a weight of two
    equals two samples. A class that has zero probability everywhere keeps the row of the identity.
    """
    T = np.eye(proba.shape[1])
    for i in np.flatnonzero(proba.max(axis=0) > 0):
        order = np.lexsort((*proba.T, proba[:, i]))  # the whole row breaks ties, whatever the order of the samples
        below = np.cumsum(weights[order])
        share = 1.0 if percentile is None else percentile / 100 - 1e-12  # a hair less: sums of weights are rounded
        T[i] = proba[order[np.searchsorted(below, share * below[-1])]]
    return T / T.sum(axis=1, keepdims=True)
