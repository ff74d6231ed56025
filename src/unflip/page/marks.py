"""The numbers of the page as marks: shades of the heat map, flips in words, ticks and curves."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from unflip._validation import FloatArray
from unflip.page.data import ComparedClassifier

LEVELS = 24  # shades of the heat map; one path for each, however many classes there are
FAINT = 0.1  # the share of a flip that has the full shade if no other flip has more
FLIPS = 8  # the most frequent flips that are put into words


def heat(T: FloatArray) -> dict[str, Any]:
    """Return the cells of T as SVG paths by shade, in units of a cell; flips are shaded up to the largest."""
    flips = np.where(np.eye(len(T), dtype=bool), 0, T)
    largest = max(float(flips.max()), FAINT)
    paths: dict[int, str] = {}
    for i, row in enumerate(np.rint(flips / largest * LEVELS).astype(int)):
        for shade, run in groupby(range(len(T)), key=row.__getitem__):  # equal neighbors are one rectangle
            cells = list(run)
            paths[int(shade)] = paths.get(int(shade), "") + f"M{cells[0]} {i}h{len(cells)}v1h-{len(cells)}z"
    return {
        "largest": largest,
        "flipped": [(shade / LEVELS, paths[shade]) for shade in sorted(paths) if shade],
        "kept": [(float(T[i, i]), f"M{i} {i}h1v1h-1z") for i in range(len(T))],
        "strength": flips / largest,
        "values": T,
    }


def flips(T: FloatArray, clean_counts: FloatArray) -> list[tuple[int, int, float, float]]:
    """Return the most frequent flips as (clean, noisy, probability, expected number of samples)."""
    expected = clean_counts[:, None] * T
    np.fill_diagonal(expected, 0)
    cells = [divmod(int(flat), len(T)) for flat in np.argsort(-expected, axis=None, kind="stable")[:FLIPS]]
    return [(i, j, float(T[i, j]), float(expected[i, j])) for i, j in cells if round(expected[i, j]) > 0]


def axis(classifiers: Sequence[ComparedClassifier]) -> list[float]:
    """Return the ticks, at most seven round numbers, of an axis that holds every number of the classifiers."""
    numbers = [number for entry in classifiers for number in entry.numbers]
    if not numbers:
        return []
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        first = int(np.floor(min(numbers) / step + 1e-9))
        last = max(int(np.ceil(max(numbers) / step - 1e-9)), first + 1)
        if last - first <= 6:
            break
    return [tick * step for tick in range(first, last + 1)]


def curve(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Return a curve as the points of its unbroken pieces in a box of 100 x 100, with the numbers to write there."""
    y = np.asarray(values, dtype=np.float64)
    finite = np.flatnonzero(np.isfinite(y))
    if y.ndim != 1 or not len(finite):
        raise ValueError(f"curve {name!r} must be a list with at least one finite number; got {values!r}")
    low, high, last = float(y[finite].min()), float(y[finite].max()), finite[-1]
    across = 100 * np.arange(len(y)) / max(len(y) - 1, 1)
    down = 50.0 + 0 * y if high == low else 100 - 100 * (y - low) / (high - low)
    breaks = [0, *(k + 1 for k, (a, b) in enumerate(pairwise(finite)) if b > a + 1), len(finite)]
    pieces = [finite[start:stop] for start, stop in pairwise(breaks)]
    return {
        "name": name,
        "epochs": len(y),
        "low": low,
        "high": high,
        "last": float(y[last]),
        "end": (float(across[last]), float(down[last])),
        "pieces": [" ".join(f"{across[k]:.2f},{down[k]:.2f}" for k in piece) for piece in pieces],
    }
