"""Saved models: ``model.save(folder)`` writes one without pickle, ``load`` reads it, ``card`` describes it."""

from typing import TYPE_CHECKING, Any

from unflip.models.folder import FORMAT, Savable, load

if TYPE_CHECKING:
    from unflip.models._card import card

__all__ = ["FORMAT", "Savable", "card", "load"]


def __getattr__(name: str) -> Any:
    if name == "card":  # every classifier imports Savable, and few programs need a card
        from unflip.models._card import card

        return card
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
