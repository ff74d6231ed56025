"""What an audit found."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray, IntArray


@dataclass(frozen=True, eq=False)  # == of arrays has no truth value
class LabelErrors:
    """What :func:`unflip.audit.find_label_errors` found.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    given : ndarray of shape (n_samples,)
        The labels as they were given.
    posterior, proba : ndarray of shape (n_samples, n_classes)
        P(clean = k | x, given), and P(clean = k | x): what a model that did not see the sample predicts before it is
        told the label.
    transition : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i), which judged the labels: the matrix that was given, or the estimate from all
        samples, or the mean over the folds if each had its own; or the symmetric matrix that takes the place of an
        estimate (see the Notes of :func:`unflip.audit.find_label_errors`), which has the same rate for all classes.
    scores : ndarray of shape (n_samples,)
        P(the label is wrong | x, given) = 1 - P(clean = given | x, given).
    suggested : ndarray of shape (n_samples,)
        The most probable clean label; the given label if it is as probable as any other.
    n_errors : ndarray of shape (n_classes,)
        The expected number of wrong labels among those given as each class: the sum of their scores.
    histories : list of list of dict
        ``history_`` of the network of each fold; empty for other classifiers.
    """

    classes: NDArray[Any]
    given: NDArray[Any]
    posterior: FloatArray
    proba: FloatArray
    transition: FloatArray
    scores: FloatArray
    suggested: NDArray[Any]
    n_errors: FloatArray
    histories: list[list[dict[str, Any]]]

    @property
    def ranked(self) -> IntArray:
        """The samples by falling score; equal scores keep the order of the data."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def suspects(self) -> IntArray:
        """The samples whose suggested label differs from the given one, by falling score."""
        order = self.ranked
        return order[self.suggested[order] != self.given[order]]

    @property
    def total(self) -> float:
        """The expected number of wrong labels."""
        return float(self.n_errors.sum())

    @property
    def rate(self) -> float:
        """The expected share of wrong labels."""
        return self.total / len(self.scores)

    @property
    def noise_rates(self) -> FloatArray:
        """The expected share of wrong labels among the samples of each clean class, shape (n_classes,).

        ::

            1 - sum of P(clean = k | x, given) over the samples given as k  /  the sum over all samples

        Counted in the data, it differs between classes even if T is symmetric. A class without samples has rate 0.
        """
        size = self.posterior.sum(axis=0)
        kept = (self.posterior * (self.given[:, np.newaxis] == self.classes)).sum(axis=0)
        return np.clip(1 - np.divide(kept, size, out=np.ones_like(size), where=size > 0), 0, 1)
