"""T as a product of two matrices that are easier to estimate."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import FloatArray, IntArray
from unflip.transition._noisy_posterior import NoisyPosteriorEstimator, anchor_rows, check_percentile


class DualT(NoisyPosteriorEstimator):
    """Estimate T through an intermediate class, the class that the noisy model predicts (Dual-T).

    The noisy posterior itself is hard to learn, so T goes by way of l = argmax_j P(noisy = j | x)
    (Yao et al. 2020)::

        T = T_club T_spade
        T_club[i, l]   = P(noisy = l | x_i)                       the anchor point of class i
        T_spade[l, j]  = count(argmax = l, noisy = j) / count(argmax = l)

    Parameters
    ----------
    classifier : scikit-learn classifier with predict_proba, default=None
        Learns the noisy posterior; cloned. None is a multinomial logistic regression on scaled features.
    percentile : float in (0, 100] or None, default=97.0
        Of the anchor points, see :class:`AnchorPoints`.
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
    A class that is never predicted keeps the row of the identity in T_spade. A matrix whose condition number is above
    100 is mixed with the identity until it is not. The product is meant for over-confident classifiers such as
    deep networks: a calibrated posterior on the anchor is T's row already, and T_spade adds the noise once more. With
    logistic regression on CIFAR-10 features it was worse than the default :class:`AnchorPoints` under each noise tried.

    References
    ----------
    Yao et al., Dual T: Reducing Estimation Error for Transition Matrix in Label-noise Learning, NeurIPS 2020.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = make_blobs(3000, centers=3, random_state=1)
    >>> DualT().fit(X, corrupt(y, symmetric(3, 0.1), random_state=0)).transition_.argmax(axis=1)
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
        return anchor_rows(proba, weights, self.percentile) @ _noisy_given_predicted(proba, codes, weights)

    def _check_parameters(self) -> None:
        check_percentile(self.percentile)


def _noisy_given_predicted(proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
    """Return T_spade, the shares of the noisy labels among the samples of each predicted class."""
    c = proba.shape[1]
    counts = np.bincount(proba.argmax(axis=1) * c + codes, weights, minlength=c * c).reshape(c, c)
    counts[counts.sum(axis=1) == 0] = np.eye(c)[counts.sum(axis=1) == 0]
    return counts / counts.sum(axis=1, keepdims=True)
