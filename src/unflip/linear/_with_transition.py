"""What the linear classifiers share that correct by T."""

from numbers import Real
from typing import Any

import numpy as np

from unflip._base import LinearScoresClassifier, check_training_data, resolve_transition
from unflip._validation import FloatArray, IntArray
from unflip.core import clean_prior
from unflip.core.one_vs_rest import binary_labels, binary_rates
from unflip.transition import VolMin


class TransitionClassifier(LinearScoresClassifier):
    """Takes ``transition`` as an array, an estimator or None, which is :class:`~unflip.transition.VolMin`."""

    transition: Any
    alpha: float
    classes: Any
    random_state: Any

    def _estimate_transition(self, X: Any, codes: IntArray, weights: FloatArray | None) -> None:
        self.transition_, self.transition_estimator_ = resolve_transition(
            self.transition,
            VolMin(random_state=self.random_state),
            X,
            codes,
            self.classes_,
            weights,
        )

    def _check_alpha(self) -> None:
        if not (isinstance(self.alpha, Real) and 0 <= self.alpha < np.inf):
            raise ValueError(f"alpha must be a number >= 0; got {self.alpha!r}")


class OneVsRestCorrection(TransitionClassifier):
    """A binary correction for c classes: c problems, class k against the rest, whose labels are +1 and -1."""

    def _corrected_problem(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, IntArray, FloatArray, FloatArray]:
        """Validate, take T and set what is known of the noise; return X, label codes, weights and G.

        Row ``G[codes[i]]`` are the corrected labels of sample i in the c problems, see
        :func:`~unflip.core.one_vs_rest.binary_labels`.
        """
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
        self._estimate_transition(X, codes, weights)
        w = np.ones(len(codes)) if weights is None else weights
        counts = np.bincount(codes, w, minlength=len(self.classes_))
        self.class_prior_ = clean_prior(counts / counts.sum(), self.transition_)
        self.noise_rates_ = np.column_stack(binary_rates(self.transition_, self.class_prior_))
        return X, codes, w, binary_labels(self.transition_, self.class_prior_, self.classes_)
