"""T as a heat map with class names."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import check_transition
from unflip.report.figures import INK, PALE, STYLE, Drawing, picture, style  # first: its error says what to install

# isort: split
from matplotlib.colors import LinearSegmentedColormap, to_rgba

__all__ = ["draw_transition", "picture"]

FLIPPED = LinearSegmentedColormap.from_list("flipped", ["#f7f6f2", "#0b6e75"])  # the colors of the page
KEPT = "#cfcfcf"
LARGEST_WRITTEN = 20  # classes up to which each cell shows its number
SMALLEST_WRITTEN = 0.005  # smaller numbers, which would be written as 0, are left out
LARGEST_NAMED = 60  # classes up to which each one is named
LONGEST_NAME = 18  # characters
CELL, MARGIN = 0.5, 1.6  # inches


def draw_transition(transition: ArrayLike, classes: Sequence[str]) -> Drawing:
    """Return the drawing of T[i, j] = P(noisy = j | clean = i).

    Flips are shaded up to the largest of them; labels that stayed are gray.
    """
    T = check_transition(transition, len(classes), invertible=False)
    side = min(max(CELL * len(T), 2.0), 10.0)
    flips = np.where(np.eye(len(T), dtype=bool), 0, T)
    largest = max(float(flips.max()), 1e-9)
    colors = FLIPPED(flips / largest)
    colors[np.diag_indices(len(T))] = to_rgba(KEPT)
    with style.context(["default", STYLE]):
        drawing = Drawing(figsize=(side + MARGIN, side + MARGIN), dpi=150, layout="constrained")
        ax = drawing.subplots()
        ax.imshow(colors)
        if len(T) <= LARGEST_WRITTEN:
            for i, j in np.ndindex(T.shape):
                if T[i, j] >= SMALLEST_WRITTEN:
                    color = "white" if flips[i, j] > 0.6 * largest else INK
                    ax.text(j, i, f"{100 * T[i, j]:.0f}", ha="center", va="center", fontsize=8, color=color)
        if len(T) <= LARGEST_NAMED:
            names = [_short(name) for name in classes]
            ax.set_xticks(range(len(T)), names, rotation=90 if max(map(len, names)) > 3 else 0)
            ax.set_yticks(range(len(T)), names)
        ax.tick_params(length=0, labelsize=8)
        ax.spines[:].set_visible(False)
        ax.set_xlabel("given label")
        ax.set_ylabel("clean label")
        ax.set_title("P(given label | clean label), %", fontsize=10, color=PALE, loc="left")
    return drawing


def _short(name: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in name)
    return printable if len(printable) <= LONGEST_NAME else printable[: LONGEST_NAME - 1] + "…"
