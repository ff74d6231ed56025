"""T from anchor points: samples that are almost surely of one class."""

from typing import Any

from numpy.typing import ArrayLike

from unflip._validation import FloatArray, IntArray
from unflip.transition._noisy_posterior import NoisyPosteriorEstimator, anchor_rows, check_percentile


class AnchorPoints(NoisyPosteriorEstimator):
    """Estimate T by the noisy posteriors of anchor points.

    A sample x that is surely of clean class i shows row i of T as its noisy posterior; the sample with the largest
    noisy posterior of class i is taken for one (Patrini et al. 2017)::

        x_i = argmax_x P(noisy = i | x),    T[i, j] = P(noisy = j | x_i)

    Parameters
    ----------
    classifier : scikit-learn classifier with predict_proba, default=None
        Learns the noisy posterior; cloned. None is a multinomial logistic regression on scaled features.
    percentile : float in (0, 100] or None, default=97.0
        Take the sample at this percentile of P(noisy = i | x) in place of the maximum, which is often an outlier;
        None takes the maximum. Large classes need a smaller, rare classes a larger one: beyond the share of class i the
        sample is not of class i.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, where the noisy labels lack some; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None
        Handed to ``classifier`` if it takes one.

    Attributes
    ----------
    transition_ : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        The clean class prior, from the noisy one through T.
    classifier_ : classifier
        The fitted model of the noisy posterior; its labels are class codes.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

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

    def _read(self, proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
        return anchor_rows(proba, weights, self.percentile)

    def _check_parameters(self) -> None:
        check_percentile(self.percentile)
