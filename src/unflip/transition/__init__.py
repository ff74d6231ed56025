"""T: estimators of the noise transition matrix from noisy labels alone, one per file.

Each has ``fit(X, y)`` and then ``transition_``, T[i, j] = P(noisy = j | clean = i), and predicts the clean class. The
names come from ``unflip.registry`` and are loaded on first use: those that train networks import PyTorch only then.
"""

from importlib import import_module
from typing import Any

from unflip import registry
from unflip.transition.estimate import estimate_transition
from unflip.transition.sample import Sample, sample_rows

_ESTIMATORS = [entry.cls for entry in registry.ENTRIES if entry.family == "transition"]

__all__ = ["Sample", "estimate_transition", "sample_rows", *_ESTIMATORS]


def __getattr__(name: str) -> Any:
    entry = registry.find_class(name)
    if entry is None or entry.family != "transition":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if entry.networks:
        import_module("unflip.deep")  # first, because it says how to install PyTorch
    globals()[name] = value = entry.load()
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
