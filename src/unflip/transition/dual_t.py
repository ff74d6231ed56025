"""T as a product of two matrices that are easier to estimate."""

import numpy as np

from unflip._validation import FloatArray, IntArray
from unflip.transition._cross_fit import count_std, unit_rows
from unflip.transition.anchor_points import AnchorPoints, anchor_rows


class DualT(AnchorPoints):
    """Estimate T through an intermediate class, the class that the noisy model predicts (Dual-T).

    The noisy posterior itself is hard to learn, so T is estimated by way of l = argmax_j P(noisy = j | x)
    (Yao et al. 2020)::

        T = T_club T_spade
        T_club[i, l]   = P(noisy = l | x_i)                       x_i is the anchor point of class i
        T_spade[l, j]  = count(argmax = l, noisy = j) / count(argmax = l)

    Parameters and attributes are those of :class:`AnchorPoints`, which gives T_club.

    Notes
    -----
    A class that is never predicted keeps the row of the identity in T_spade. The product is meant for over-confident
    classifiers such as deep networks: a calibrated posterior at the anchor is already the row of T, and T_spade adds
    the noise a second time. With logistic regression on CIFAR-10 features it was worse than the default
    :class:`AnchorPoints` under each noise tried.

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

    def _transition(self, proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
        return anchor_rows(proba, weights, self.percentile) @ noisy_given_predicted(proba, codes, weights)

    def _std(self, proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
        """Return the standard errors of the product, as if those of the factors were independent."""
        club, spade = anchor_rows(proba, weights, self.percentile), noisy_given_predicted(proba, codes, weights)
        predicted = np.bincount(proba.argmax(axis=1), weights, minlength=len(club)).astype(np.float64)
        var_club, var_spade = super()._std(proba, codes, weights) ** 2, count_std(spade, predicted) ** 2
        return np.sqrt(var_club @ spade**2 + club**2 @ var_spade)


def noisy_given_predicted(proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
    """Return T_spade, the shares of the noisy labels among the samples of each predicted class."""
    c = proba.shape[1]
    counts = np.bincount(proba.argmax(axis=1) * c + codes, weights, minlength=c * c).reshape(c, c)
    return unit_rows(counts, np.eye(c))
