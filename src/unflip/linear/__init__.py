"""MODEL: linear classifiers for noisy labels, with scikit-learn's interface."""

from unflip.linear.cege import CEGEClassifier
from unflip.linear.class_sums import class_sums
from unflip.linear.lics import LICSClassifier
from unflip.linear.lnsi import LNSIClassifier
from unflip.linear.mcldce import MCLDCEClassifier
from unflip.linear.mcldce_cv import MCLDCEClassifierCV
from unflip.linear.musgd import MuSGDClassifier
from unflip.linear.rank_pruning import RankPruningClassifier
from unflip.linear.scd import SCDClassifier
from unflip.linear.ule import ULEClassifier

__all__ = [
    "CEGEClassifier",
    "LICSClassifier",
    "LNSIClassifier",
    "MCLDCEClassifier",
    "MCLDCEClassifierCV",
    "MuSGDClassifier",
    "RankPruningClassifier",
    "SCDClassifier",
    "ULEClassifier",
    "class_sums",
]
