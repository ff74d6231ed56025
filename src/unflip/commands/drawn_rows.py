"""What the rows drawn from a table say of it: its classes, what is held out, and the columns that are of no use."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray, IntArray, check_classes
from unflip.commands.fit import FEWEST_HELD_OUT
from unflip.commands.row_passes import Drawn, draw_rows
from unflip.sources.csv_frames import mixed_columns
from unflip.sources.frames import FrameRows, FrameSource
from unflip.sources.labels import as_labels
from unflip.tables import Preprocessor
from unflip.tables.labels import LARGEST_CLASSES

MOST_HELD_OUT = 100_000  # rows, which are in memory; more would narrow the interval of the accuracy little
FEWEST_NUMBERED = (
    10  # rows beside the first of each file, from which on it is no chance that numbers go along with them
)


@dataclass(frozen=True, eq=False)
class Split:
    """The rows drawn, in the order of the table: which are held out, and which are the sample."""

    rows: FrameRows
    y: NDArray[Any]
    weights: FloatArray | None
    held: IntArray
    sample: IntArray
    limit: float  # a row whose number is smaller is held out,
    kept: tuple[tuple[int, int], ...]  # but for these

    def taken(self, chosen: IntArray, without: dict[str, str]) -> tuple[Any, NDArray[Any], FloatArray | None]:
        frame = self.rows.frame.drop(columns=list(without)).iloc[chosen].reset_index(drop=True)
        return frame, self.y[chosen], None if self.weights is None else self.weights[chosen]


def split_rows(drawn: Drawn, share: float, sample_size: int) -> Split:
    """Hold out the rows of the smallest numbers, a share of all rows; the next ``sample_size`` are the sample."""
    piece, n = drawn.in_order(), drawn.smallest.n_rows
    assert piece.y is not None
    h = min(round(share * n), n - 1, MOST_HELD_OUT)
    held = np.arange(len(piece.keys)) < h
    kept = []
    for name, count in zip(*np.unique(piece.y[:h], return_counts=True), strict=True):
        if drawn.labels[name.item()] == count:  # what occurs once stays in training, so no class is lost to it
            kept.append(int(np.flatnonzero(piece.y[:h] == name)[-1]))
    held[kept] = False
    if share and held.sum() < FEWEST_HELD_OUT:
        raise ValueError(f"{n} rows are too few to hold {share:.0%} of them out; give a test file, or more data")
    sample = np.zeros(len(held), dtype=bool)
    sample[h : h + sample_size] = sample[kept] = True
    order = np.lexsort((piece.X.rows, piece.X.files))
    rows: FrameRows = piece.X
    return Split(
        rows[order],
        piece.y[order],
        None if piece.weights is None else piece.weights[order],
        np.flatnonzero(held[order]),
        np.flatnonzero(sample[order]),
        float(piece.keys[h]) if h else 0.0,
        tuple((int(rows.files[i]), int(rows.rows[i])) for i in kept),
    )


def draw_consistently(
    source: FrameSource, size: int, seed: int, how: dict[str, Any], tell: Callable[[str], None]
) -> tuple[FrameSource, Drawn]:
    """Draw rows; again, if columns of text files turn out to hold more than one kind of values, with these as text."""
    drawn = draw_rows(source, size, seed, how)
    mixed = mixed_columns(drawn.kinds)
    if not mixed:
        return source, drawn
    for name, where in mixed.items():
        warnings.warn(f"the column {name!r} holds {where}: all of it is read as text", stacklevel=3)
    tell("drawing the sample again, with these columns as text")
    source = source.as_text(frozenset(mixed))
    return source, draw_rows(source, size, seed, how)


def find_classes(drawn: Drawn, label: str, said: str, has_transition: bool) -> NDArray[Any]:
    """Return the sorted classes of all rows, or say why the labels cannot be classes."""
    found = check_classes(as_labels(np.array(sorted(drawn.labels))))
    if len(found) < 2:
        raise ValueError(f"the label {label!r} of {said} has one class only, {found.tolist()}; at least two are needed")
    if len(found) == drawn.smallest.n_rows or (len(found) > LARGEST_CLASSES and not has_transition):
        raise ValueError(
            f"the label {label!r} of {said} has {len(found):,} different values in {drawn.smallest.n_rows:,} rows: "
            "they look like numbers, names or free text, not classes. If they are classes, give T"
        )
    return found


def unused_columns(rows: FrameRows) -> dict[str, str]:
    """Which columns are of no use, as far as the rows drawn tell."""
    frame = rows.frame
    found = {}
    starts = np.flatnonzero(np.diff(rows.files, prepend=-1))
    for name in frame.columns:  # the rows between those drawn are not there: a numbering goes along with the rows' own
        column = frame[name]
        if getattr(column.dtype, "kind", "O") in "iu" and len(column) - len(starts) >= FEWEST_NUMBERED:
            offset = column.to_numpy() - rows.rows
            if np.array_equal(offset, np.repeat(offset[starts], np.diff(starts, append=len(offset)))):
                found[str(name)] = "it numbers the rows"
    return {**Preprocessor().fit(frame).unused_, **found}
