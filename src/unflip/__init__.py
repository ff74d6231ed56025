"""Train multi-class classifiers from noisy labels as if the labels were clean.

Give a learner the noisy labels ``y``, and the transition matrix ``T[i, j] = P(noisy = j | clean = i)`` or an estimator
of it; it corrects the label-dependent part of its loss (MC-LDCE) and predicts clean labels.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name -> the module that defines it. Loaded on first use, so that importing unflip stays fast.
_HOME = {
    "symmetric": "noise",
    "pairflip": "noise",
    "asymmetric": "noise",
    "instance_dependent": "noise",
    "corrupt": "noise",
    "clean_prior": "core",
    "imputation_matrix": "core",
    "mixing_matrix": "core",
    "corrected_labels": "core",
    "clean_centroid": "core",
    "clean_posterior": "core",
    "ClassSums": "core",
    "VolMin": "transition",
    "AnchorPoints": "transition",
    "DualT": "transition",
    "VolMinNet": "transition",
    "CrossFitEM": "transition",
    "estimate_transition": "transition",
    "sample_rows": "transition",
    "MCLDCEClassifier": "linear",
    "MCLDCEClassifierCV": "linear",
    "class_sums": "linear",
    "ULEClassifier": "linear",
    "MuSGDClassifier": "linear",
    "RankPruningClassifier": "linear",
    "LNSIClassifier": "linear",
    "SCDClassifier": "linear",
    "LICSClassifier": "linear",
    "CEGEClassifier": "linear",
    "NoisyLabelClassifier": "deep",
    "MCLDCELoss": "deep",
    "clean_accuracy": "metrics",
    "clean_scorer": "metrics",
    "transition_error": "metrics",
    "centroid_error": "metrics",
    "find_label_errors": "audit",
    "load_dataset": "datasets",
    "TableClassifier": "tabular",
    "Preprocessor": "files",
    "read_table": "files",
    "load": "files",
}
_MODULES = sorted(set(_HOME.values()))

__all__ = ["__version__", *_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
