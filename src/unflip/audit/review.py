"""What a reviewer sees of a suspect: the contents of its row, the most telling columns first, and rows like it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray, IntArray
from unflip.audit.find import LabelErrors

BINS = 10  # of a column of numbers
LEVELS = 20  # the most frequent values of any other column; the rest are one level
READ = 20  # characters; a column of longer texts that hardly repeat is read, not counted
SURE = 0.1  # a label is confident if its probability of being wrong is below this
MODELS = 5000  # confident rows that suspects are compared with, over all classes


@dataclass(frozen=True, eq=False)
class RowContents:
    """The cells of some rows.

    Attributes
    ----------
    columns : list of str
        The columns, the most telling first, over all rows.
    cells : list of list of str
        The text of each cell, in the order of the columns.
    order : ndarray of shape (n_rows, n_columns)
        The columns of each row, the most telling for this row first.
    """

    columns: list[str]
    cells: list[list[str]]
    order: IntArray


def row_contents(frame: Any, errors: LabelErrors, rows: IntArray) -> RowContents:
    """Return the cells of rows, and the order in which they tell the suggested label from the given one.

    ::

        evidence  =  log P(value | clean = suggested)  -  log P(value | clean = given)

    P(value | clean = k) is counted with P(clean = k | x, given) as weights; numbers are counted in ten bins, and rare
    values of other columns together. A column of texts comes first: it has to be read.
    """
    given, suggested = (np.searchsorted(errors.classes, values[rows]) for values in (errors.given, errors.suggested))
    evidence = np.zeros((len(rows), frame.shape[1]))
    is_text = np.zeros(frame.shape[1], dtype=bool)
    for j, name in enumerate(frame.columns):
        column = frame[name]
        if _is_text(column):
            is_text[j] = True
            continue
        levels = _levels(column)
        counts = np.stack([np.bincount(levels, p) for p in errors.posterior.T], axis=1) + 1 / (levels.max() + 1)
        log_p = np.log(counts / counts.sum(axis=0))  # (n_levels, n_classes)
        evidence[:, j] = log_p[levels[rows], suggested] - log_p[levels[rows], given]
    overall = np.lexsort((-evidence.mean(axis=0), ~is_text)) if len(rows) else np.arange(frame.shape[1])
    evidence = np.where(is_text, np.inf, evidence)[:, overall]
    names = [frame.columns[j] for j in overall]
    cells = [_texts(frame[name].iloc[rows]) for name in names]
    return RowContents(
        [str(n) for n in names], list(map(list, zip(*cells, strict=True))), np.argsort(-evidence, axis=1, kind="stable")
    )


def cells_of(frame: Any, columns: Sequence[str], rows: IntArray) -> dict[int, list[str]]:
    """Return the text of the cells of rows, by their number."""
    named = {str(name): name for name in frame.columns}
    cells = [_texts(frame[named[name]].iloc[rows]) for name in columns]
    return {int(row): list(texts) for row, *texts in zip(rows, *cells, strict=True)}


def look_alikes(X: Any, errors: LabelErrors, rows: IntArray, k: int = 3) -> IntArray:
    """Return the ``k`` nearest confidently labeled rows of the class suggested for each row, shape (n_rows, k).

    Confident rows are those whose given label is the most probable one, with a probability of being wrong below 0.1, or
    the surest half of the class if there are fewer than ``k``. At most 5,000 of them, evenly drawn from all classes,
    are compared by Euclidean distance in X, shape (n_samples, n_features), dense or sparse. Where there are fewer, the
    number is -1.
    """
    from sklearn.neighbors import NearestNeighbors  # not needed by any other command

    found = np.full((len(rows), k), -1, dtype=np.intp)
    most = max(MODELS // len(errors.classes), 4 * k)
    for label in np.unique(errors.suggested[rows]):
        mine = np.flatnonzero((errors.given == label) & (errors.suggested == label))
        mine = mine[np.argsort(errors.scores[mine], kind="stable")]
        sure = int(np.sum(errors.scores[mine] < SURE))
        mine = mine[: sure if sure >= k else -(-len(mine) // 2)]
        mine = (
            mine[np.unique(np.linspace(0, len(mine) - 1, min(most, len(mine))).astype(np.intp))] if len(mine) else mine
        )
        asked = np.flatnonzero(errors.suggested[rows] == label)
        near = min(k, len(mine))
        if near:
            nearest = NearestNeighbors(n_neighbors=near, algorithm="brute").fit(X[mine])
            found[asked, :near] = mine[nearest.kneighbors(X[rows[asked]], return_distance=False)]
    return found


def _is_text(column: Any) -> bool:
    if getattr(column.dtype, "kind", "O") in "biufmM" or not (values := column.dropna().astype(str)).size:
        return False
    return bool(values.str.len().mean() > READ and values.nunique() > len(values) / 2)


def _levels(column: Any) -> IntArray:
    """Return a small number for the value of each row; missing values have one of their own."""
    if getattr(column.dtype, "kind", "O") in "iuf":
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        known = values[np.isfinite(values)]
        edges = np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1])) if len(known) else known
        return np.where(np.isfinite(values), 1 + np.searchsorted(edges, values, side="left"), 0)
    codes, values = column.astype(object).where(column.notna(), None).factorize()
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    place = np.full(len(values) + 1, LEVELS + 1)
    place[np.argsort(-counts, kind="stable")[:LEVELS]] = np.arange(1, 1 + min(LEVELS, len(values)))
    place[-1] = 0  # code -1 is missing
    return place[codes]


def _texts(column: Any) -> list[str]:
    """Return the cells as text: whole numbers without a point, and nothing where nothing is known."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "f":
        return ["" if v != v else str(int(v)) if v == int(v) and abs(v) < 1e15 else f"{v:.6g}" for v in _finite(column)]
    missing: NDArray[np.bool_] = np.asarray(column.isna())
    return ["" if lost else str(value) for lost, value in zip(missing, column.tolist(), strict=True)]


def _finite(column: Any) -> FloatArray:
    values: FloatArray = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)
