"""T: estimators of the noise transition matrix from noisy labels alone, one per file. The registry lists them.

Each has ``fit(X, y)`` and then ``transition_``, T[i, j] = P(noisy = j | clean = i), and predicts the clean class.
"""

from unflip.registry import lazy_names
from unflip.transition.estimate import estimate_transition
from unflip.transition.sample import Sample, sample_rows

_ESTIMATORS, __getattr__, __dir__ = lazy_names(globals(), "transition")

__all__ = ["Sample", "estimate_transition", "sample_rows", *_ESTIMATORS]
