"""Random changes of images that keep their class: shifts, crops with padding, and mirroring, one batch at a time."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Augment = Callable[[Tensor], Tensor]
SHIFTS = {"shift": 1, "crop": 4}  # pixels by which an image may move; a crop with padding of 4 is a shift by up to 4


def shift(x: Tensor, pixels: int) -> Tensor:
    """Move each image of a batch (b, channels, height, width) by up to ``pixels`` up or down and left or right.

    Each image is moved on its own, all moves are equally likely, and zeros fill what becomes free: a random crop of the
    padded image. The moves come from torch's default generator.

    Examples
    --------
    >>> shift(torch.ones(2, 1, 5, 5), 1).shape
    torch.Size([2, 1, 5, 5])
    """
    b, _, height, width = x.shape
    windows = (
        F.pad(x, [pixels] * 4).unfold(2, height, 1).unfold(3, width, 1)
    )  # (b, channels, moves, moves, h, w), a view
    moves = torch.randint(2 * pixels + 1, (2, b), device=x.device)
    return windows[torch.arange(b, device=x.device), :, moves[0], moves[1]]


def flip(x: Tensor) -> Tensor:
    """Mirror each image of a batch (b, channels, height, width) left to right with probability one half."""
    mirrored = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
    return torch.where(mirrored, x.flip(3), x)


def make_augment(given: str | Augment | None) -> Augment | None:
    """Return what changes the images of a batch.

    Parameters
    ----------
    given : {"shift", "crop", "flip"}, some of them joined by "+", callable or None
        ``"shift"`` moves an image by up to one pixel, ``"crop"`` by up to four, and ``"flip"`` mirrors it with
        probability one half.
        A callable takes and returns a batch.

    Examples
    --------
    >>> make_augment("crop+flip")(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 3, 32, 32])
    """
    if given is None or callable(given):
        return given
    words = given.split("+") if isinstance(given, str) else [given]
    if unknown := [word for word in words if word not in (*SHIFTS, "flip")]:
        known = "'shift', 'crop' or 'flip', several joined by '+', a callable, or None"
        raise ValueError(f"unknown augmentation {unknown[0]!r}; give {known}")

    def augment(x: Tensor) -> Tensor:
        if x.ndim != 4:
            got = tuple(x.shape[1:])
            raise ValueError(f"augment needs images, samples of shape (channels, height, width); got {got}")
        for word in words:
            x = flip(x) if word == "flip" else shift(x, SHIFTS[word])
        return x

    return augment


def name_of(given: Any) -> str | None:
    """Return what a checkpoint keeps of an augmentation: its words, or the name of a callable."""
    return (
        given if given is None or isinstance(given, str) else getattr(given, "__qualname__", type(given).__qualname__)
    )
