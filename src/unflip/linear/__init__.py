"""MODEL: linear classifiers for noisy labels, with scikit-learn's interface. The registry lists them."""

from importlib import import_module
from typing import Any

from unflip.linear.class_sums import class_sums
from unflip.registry import ENTRIES

# Each class loads on first use. The function class_sums does not: its module, which has the same name, would hide it.
_HOME = {entry.cls: entry.module for entry in ENTRIES if entry.family == "linear"}

__all__ = ["class_sums", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"unflip.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
