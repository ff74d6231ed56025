"""Saved models: ``save`` writes one to a folder, without pickle, ``load`` reads it, ``card`` describes it."""

from typing import TYPE_CHECKING, Any

from unflip.models.folder import FORMAT, Savable, load

if TYPE_CHECKING:
    from unflip.models._card import card
    from unflip.models._onnx import to_onnx
    from unflip.models.arrays import as_arrays

__all__ = ["FORMAT", "Savable", "as_arrays", "card", "load", "to_onnx"]


def __getattr__(name: str) -> Any:
    if name == "card":  # every classifier imports Savable, and few programs need a card
        from unflip.models._card import card

        return card
    if name == "to_onnx":
        from unflip.models._onnx import to_onnx

        return to_onnx
    if name == "as_arrays":
        from unflip.models.arrays import as_arrays

        return as_arrays
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
