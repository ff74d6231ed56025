"""Train multi-class classifiers from noisy labels as if the labels were clean.

Give a learner the noisy labels ``y``, and the transition matrix ``T[i, j] = P(noisy = j | clean = i)`` or an estimator
of it. The learner corrects the label-dependent part of its loss (MC-LDCE) and predicts clean labels.
"""

from importlib import import_module
from typing import Any

from unflip.registry import TORCH, lazy_names

__version__ = "0.1.0"

# Public functions by the module that defines them. Classes come from the registry.
_FUNCTIONS = {
    "noise": ["symmetric", "pairflip", "asymmetric", "instance_dependent", "corrupt"],
    "core": [
        *("clean_prior", "imputation_matrix", "mixing_matrix", "corrected_labels", "clean_centroid", "clean_posterior"),
        "ClassSums",
    ],
    "transition": ["estimate_transition", "sample_rows"],
    "linear": ["class_sums"],
    "deep": ["MCLDCELoss"],
    "crowd": ["AnnotatorModel"],
    "metrics": ["clean_accuracy", "clean_scorer", "transition_error", "centroid_error"],
    "audit": ["find_label_errors"],
    "datasets": ["load_dataset"],
    "tables": ["read_table"],
    "models": ["load"],
}
# Every name loads on first use, so that importing unflip stays fast.
_HOME = {name: module for module, names in _FUNCTIONS.items() for name in names}
_CLASSES, _load_class, _ = lazy_names(globals(), "linear", "transition", "any", "table")

# Without PyTorch, what needs it is not listed, so that `from unflip import *` and inspect.getmembers(unflip) work.
_ABSENT = set() if TORCH else {"deep", *_FUNCTIONS["deep"]}

__all__ = ["__version__", *_HOME, *_CLASSES, *_FUNCTIONS]
__all__ = [name for name in __all__ if name not in _ABSENT]


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return import_module(f"{__name__}.{name}")
    if name in _HOME:
        globals()[name] = value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        return value
    return _load_class(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
