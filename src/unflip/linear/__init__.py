"""MODEL: linear classifiers for noisy labels, with scikit-learn's interface."""

from unflip.linear.mcldce import MCLDCEClassifier
from unflip.linear.mcldce_cv import MCLDCEClassifierCV

__all__ = ["MCLDCEClassifier", "MCLDCEClassifierCV"]
