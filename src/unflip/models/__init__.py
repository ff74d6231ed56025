"""Saved models: ``model.save(folder)`` writes one without pickle, ``load`` reads it, ``card`` describes it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unflip.models.folder import FORMAT, Savable, load

if TYPE_CHECKING:
    from unflip.models.card import card

__all__ = ["FORMAT", "Savable", "card", "load"]


def __getattr__(name: str) -> Any:
    if name != "card":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The module of this name takes its place when it is imported: put the function back.
    globals()[name] = value = import_module("unflip.models.card").card
    return value
