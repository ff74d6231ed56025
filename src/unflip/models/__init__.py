"""Saved models: ``model.save(folder)`` writes one without pickle, ``load`` reads it, ``card`` describes it."""

from unflip.models.card import card
from unflip.models.folder import FORMAT, Savable, load

__all__ = ["FORMAT", "Savable", "card", "load"]
