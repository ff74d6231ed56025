"""MODEL: linear classifiers for noisy labels, with scikit-learn's interface. The registry lists them."""

from unflip.linear.class_sums import class_sums
from unflip.registry import lazy_names

_CLASSES, __getattr__, __dir__ = lazy_names(globals(), "linear")

__all__ = ["class_sums", *_CLASSES]
