"""Audit a table that need not fit into memory, or onto one machine."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._validation import FloatArray, IntArray, check_transition
from unflip.audit import LabelAuditor, LabelErrors
from unflip.commands.audit import Totals
from unflip.commands.fit import CALLED, make_classifier, resolve_model
from unflip.commands.out_of_core import connected_to, located
from unflip.commands.row_passes import DRAW, draw_rows, row_numbers, sample_findings, split_rows, unused_columns
from unflip.commands.transition import read_transition
from unflip.metrics import clean_accuracy
from unflip.tables import Block, Preprocessor, Table, reduce_blocks
from unflip.tables.read import FrameRows, as_labels, check_label_classes, join_rows
from unflip.tables.sources import ROWS, open_tables, settled
from unflip.tables.text import Text
from unflip.transition.sample import check_draw

MODELS = ("logistic", "mcldce")


def audit_out_of_core(
    path: Any,
    label: str,
    *,
    model: str = "logistic",
    id: str | None = None,
    weights: str | None = None,
    drop: tuple[str, ...] | list[str] = (),
    transition: Any = None,
    folds: int = 5,
    sample_size: int = 100_000,
    most: int = 10_000,
    random_state: int = 0,
    rows: int = ROWS,
    threads: int | None = None,
    dask: str | None = None,
    encoding: str | None = None,
    text: Text = "lsa",
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[LabelErrors, Table, Totals]:
    """Return which labels of a table of any size are probably wrong, in two passes over its files.

    The first pass draws rows, by a random number that follows from the row's place in its file. Preprocessing, T and
    the model are learned from them as :func:`audit_table` learns from a table, and judge them in folds. The second pass
    judges all other rows, none of which the model has seen, and keeps those that are most probably wrong. If all rows
    are drawn, the scores are those of :func:`audit_table`.

    Parameters
    ----------
    path, label, weights, drop, rows, threads, dask, encoding, text, tell
        As in :func:`fit_out_of_core`.
    model : {"logistic", "mcldce"}, default="logistic"
    id : str, default=None
        The column that names the rows. If None, they are named by their number, after the name of their file if there
        are several.
    transition : array-like of shape (n_classes, n_classes) or path, default=None
        T[i, j] = P(noisy = j | clean = i), or its file. If None, it is estimated from the rows drawn.
    folds : int, default=5
    sample_size : int, default=100_000
        Number of rows, all in memory, that are drawn.
    most : int, default=10_000
        Number of suspects to keep.
    random_state : int, default=0

    Returns
    -------
    errors : LabelErrors
        The suspects that were kept, and the drawn rows that are no suspects.
    table : Table
        Their rows.
    totals : Totals
        The numbers of all rows, for :func:`write_audit`.
    """
    if model not in MODELS:
        raise ValueError(f"out of core, the model must be {' or '.join(MODELS)}; got {str(model)!r}")
    check_draw(sample_size, random_state, "sample_size")
    paths, path = located(path, dask)
    how: dict[str, Any] = {"threads": threads, "engine": "threads" if dask is None else "dask"}
    with connected_to(dask):
        tell(f"drawing a sample from {path}")
        kinds = {} if id is None else {id: "category"}  # a name is read as it is written
        source = settled(open_tables(paths, label, weights, drop, rows=rows, kinds=kinds, encoding=encoding), **how)
        if id is not None and id not in source.features:
            raise ValueError(f"{path} has no column {id!r} to name the rows; it has {', '.join(source.features[:30])}")
        source = source.changed(skip_unlabeled=True)
        drawn = draw_rows(source, sample_size, random_state, how)
        n, classes = drawn.smallest.n_rows, as_labels(np.array(sorted(drawn.labels)))
        check_label_classes(classes, n, f"the label {label!r} of {path}")
        T = read_transition(transition, classes) if isinstance(transition, str | os.PathLike) else transition
        T = None if T is None else check_transition(T, len(classes))
        split = split_rows(drawn, 0.0, sample_size)
        named = {} if id is None else {id: "it names the rows"}
        unused = unused_columns(replace(split.rows, frame=split.rows.frame.drop(columns=[*named]))) | named
        sample, y, w = split.taken(split.sample, unused)
        preprocessor = Preprocessor(text=text).fit(sample)
        tell(f"judging {len(y):,} rows")
        judge = make_classifier(*resolve_model(model, None, None), None)
        auditor = LabelAuditor(judge, T, folds, classes=classes, random_state=random_state)
        auditor.fit(preprocessor.transform(sample, standardize=False), y, w)
        called = RowNames(id, tuple(os.path.basename(file.path) for file in source.files))
        own = auditor.errors_
        found = Judged.of(own, split.rows, called, most)
        if len(y) < n:
            tell(f"judging {n - len(y):,} rows that the model has not seen")
            limit = float(np.sort(drawn.smallest.in_order().keys)[-1])
            found = found + reduce_blocks(
                source, JudgeRows(auditor, preprocessor, called, random_state, limit, most), **how
            )
    if found.n_rows != n:
        raise ValueError(f"{path} had {n:,} rows and then {found.n_rows:,}: it changed while it was read; try again")
    rest = np.flatnonzero(own.suggested == own.given)
    errors = _joined(own, rest, found)
    frame = join_rows([split.rows[rest], found.rows]).frame.reset_index(drop=True)
    names = np.concatenate([called(split.rows)[rest], found.names])
    frame = frame.drop(columns=[] if id is None else [id])
    table = Table(frame, errors.given, None, names, label, tuple(str(name) for name in classes.tolist()))
    # Of the uniform sample: among the suspects that were kept, labels disagree far more often than in the data.
    vars(table)["findings"] = sample_findings(split, label, [*named])
    said: dict[str, Any] = {"classes": classes, "transition_std": own.transition_std, "sample_weight": w}
    accuracy = clean_accuracy(own.given, classes[own.proba.argmax(axis=1)], own.transition, **said)
    sums = (found.n_suspects, found.n_errors, found.noisy, found.clean, found.kept, found.among)
    scale = float(found.n_errors.sum()) / max(own.total, 1e-12)  # from the rows drawn to all rows
    interval = (own.interval[0] * scale, min(own.interval[1] * scale, float(n)))
    totals = Totals(n, *sums, {CALLED.get(model, model): accuracy}, interval, own.by_rules)
    return errors, table, totals


@dataclass(frozen=True)
class RowNames:
    """What rows are called: by a column, or by their number, after the name of the file if there are several."""

    column: str | None
    files: tuple[str, ...]

    def __call__(self, rows: FrameRows) -> NDArray[Any]:
        if self.column is not None:
            return np.array([str(value) for value in rows.frame[self.column].tolist()], dtype=object)
        if rows.names is not None and len(self.files) == 1:
            return rows.names.astype(object)
        if len(self.files) == 1:
            return rows.rows.astype(object)
        places = zip(rows.files.tolist(), rows.rows.tolist(), strict=True)
        return np.array([f"{self.files[file]}:{row}" for file, row in places], dtype=object)


@dataclass(frozen=True, eq=False)
class Judged:
    """What was found in some rows: sums over all of them, and the most probable suspects; they add."""

    n_rows: int
    n_suspects: int
    n_errors: FloatArray  # (c,) expected wrong labels by given class
    noisy: FloatArray  # (c,) labels as given
    clean: FloatArray  # (c,) and as they probably are
    kept: FloatArray  # (c,) of the latter, those with the right label
    among: float  # expected wrong labels among the suspects
    rows: FrameRows  # of the suspects that are kept, the surest first
    names: NDArray[Any]
    errors: tuple[NDArray[Any], ...]  # given, posterior, proba, scores, suggested
    most: int

    @classmethod
    def of(cls, errors: LabelErrors, rows: FrameRows, called: RowNames, most: int) -> "Judged":
        chosen = errors.suspects[:most]
        codes, c = np.searchsorted(errors.classes, errors.given), len(errors.classes)
        kept: Any = np.bincount(codes, errors.posterior[np.arange(len(codes)), codes], minlength=c)
        part = (errors.given, errors.posterior, errors.proba, errors.scores, errors.suggested)
        return cls(
            len(codes),
            len(errors.suspects),
            errors.n_errors,
            np.bincount(codes, minlength=c).astype(np.float64),
            errors.posterior.sum(axis=0),
            kept,
            float(errors.scores[errors.suspects].sum()),
            rows[chosen],
            called(rows[chosen]),
            tuple(values[chosen] for values in part),
            most,
        )

    def __add__(self, other: "Judged") -> "Judged":
        sums = ("n_rows", "n_suspects", "n_errors", "noisy", "clean", "kept", "among")
        rows = join_rows([self.rows, other.rows])
        errors = tuple(np.concatenate(pair) for pair in zip(self.errors, other.errors, strict=True))
        order = np.lexsort((rows.rows, rows.files, -errors[3]))[: self.most]  # equal scores in the order of the rows
        return replace(
            self,
            **{name: getattr(self, name) + getattr(other, name) for name in sums},
            rows=rows[order],
            names=np.concatenate([self.names, other.names])[order],
            errors=tuple(values[order] for values in errors),
        )


@dataclass(frozen=True, eq=False)
class JudgeRows:
    """Return what is found among the rows of a block that were not drawn."""

    auditor: LabelAuditor
    preprocessor: Preprocessor
    called: RowNames
    seed: int
    limit: float  # the largest number of a row that was drawn
    most: int

    def __call__(self, block: Block) -> Judged | None:
        assert block.y is not None
        if not len(block):  # no row has a label
            return None
        rows: FrameRows = block.X
        new: IntArray = np.flatnonzero(row_numbers(self.seed, DRAW, rows) > self.limit)
        block.codes(self.auditor.classes_)  # refuses a label that the first pass did not see
        if not len(new):  # all of them were drawn
            c, none = len(self.auditor.classes_), block.y[new]
            found = (none, np.zeros((0, c)), np.zeros((0, c)), np.zeros(0), none)
            zero, rest = np.zeros(c), rows[new]
            return Judged(0, 0, zero, zero, zero, zero, 0.0, rest, self.called(rest), found, self.most)
        X = self.preprocessor.transform(rows.frame.iloc[new], standardize=False)
        return Judged.of(self.auditor.find(X, block.y[new]), rows[new], self.called, self.most)


def _joined(own: LabelErrors, rest: IntArray, found: Judged) -> LabelErrors:
    """Return the drawn rows that are no suspects, and the suspects that were kept."""
    given, posterior, proba, scores, suggested = (
        np.concatenate([values[rest], more])
        for values, more in zip(
            (own.given, own.posterior, own.proba, own.scores, own.suggested), found.errors, strict=True
        )
    )
    return replace(own, given=given, posterior=posterior, proba=proba, scores=scores, suggested=suggested)
