"""T: estimators of the noise transition matrix from noisy labels alone, one a file.

Each has ``fit(X, y)`` and then ``transition_``, T[i, j] = P(noisy = j | clean = i), and predicts the clean class.
``VolMinNet`` and ``CrossFitEM`` train networks and live in ``unflip.deep``; PyTorch is imported at their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unflip.transition._estimate import estimate_transition
from unflip.transition.anchor_points import AnchorPoints
from unflip.transition.dual_t import DualT
from unflip.transition.sample import Sample, sample_rows
from unflip.transition.volmin import VolMin

if TYPE_CHECKING:
    from unflip.transition.crossfit import CrossFitEM
    from unflip.transition.volminnet import VolMinNet

__all__ = [
    "AnchorPoints",
    "CrossFitEM",
    "DualT",
    "Sample",
    "VolMin",
    "VolMinNet",
    "estimate_transition",
    "sample_rows",
]

_WITH_NETWORKS = {"CrossFitEM": "crossfit", "VolMinNet": "volminnet"}


def __getattr__(name: str) -> Any:
    if name not in _WITH_NETWORKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("unflip.deep")  # first: it says how to install PyTorch
    value = getattr(import_module(f"unflip.transition.{_WITH_NETWORKS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
