"""What an audit found."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray, IntArray


@dataclass(frozen=True, eq=False)  # == of arrays is no truth value
class LabelErrors:
    """What :func:`unflip.audit.find_label_errors` found.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    given : ndarray of shape (n_samples,)
        The labels as they were given.
    posterior : ndarray of shape (n_samples, n_classes)
        P(clean = k | x, given).
    proba : ndarray of shape (n_samples, n_classes)
        P(clean = k | x), what the model that did not see the sample says before it is told the label.
    transition : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i), the matrix that was given, or the mean over the folds.
    scores : ndarray of shape (n_samples,)
        P(the label is wrong | x, given) = 1 - P(clean = given | x, given).
    suggested : ndarray of shape (n_samples,)
        The most probable clean label; the given one where it is as probable as any other.
    n_errors : ndarray of shape (n_classes,)
        The expected number of wrong labels among those given as each class: the sum of their scores.
    histories : list of list of dict
        Of a network, ``history_`` in each fold.
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
        """The samples by falling score, equal scores in the order of the data."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def suspects(self) -> IntArray:
        """The samples whose suggested label is not the given one, by falling score."""
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
