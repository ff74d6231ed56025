"""Fit a table that need not fit into memory, or onto one machine, to a classifier like that of :func:`fit_table`."""

import os
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip._base import resolve_transition
from unflip._validation import FloatArray, IntArray, check_transition
from unflip.commands.fit import (
    FittedTable,
    Noise,
    check_same_kind,
    interval,
    labels,
    make_baseline,
)
from unflip.commands.predict import BLOCK
from unflip.commands.row_passes import (
    MOST_HELD_OUT,
    FoldSums,
    SumFolds,
    draw_rows,
    sample_findings,
    split_rows,
    unused_columns,
)
from unflip.commands.transition import read_transition
from unflip.core import ClassSums, clean_prior
from unflip.linear import MCLDCEClassifierCV
from unflip.metrics import CleanAccuracy, clean_accuracy
from unflip.tables import Preprocessor, Table, TableClassifier, reduce_blocks
from unflip.tables.read import LARGEST_CLASSES, as_labels, check_label_classes
from unflip.tables.sources import ROWS, open_tables, settled
from unflip.transition.sample import check_draw
from unflip.transition.volmin import VolMin

SAMPLED = "rows that preprocessing and T were learned from"


def fit_out_of_core(
    path: Any,
    label: str,
    *,
    weights: str | None = None,
    drop: tuple[str, ...] | list[str] = (),
    encoding: str | None = None,
    text: Any = "lsa",
    transition: Any = None,
    test: Table | Callable[[dict[str, str]], Table] | None = None,
    sample_size: int = 100_000,
    holdout: float = 0.2,
    random_state: int = 0,
    rows: int = ROWS,
    threads: int | None = None,
    dask: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> FittedTable:
    """Fit MC-LDCE with a linear model to a table of any size, in two passes over its files.

    The first pass draws rows uniformly and counts the labels. Medians, means, deviations, categories, the unused
    columns, and T are learned from the rows drawn. The second pass sums up all rows except those held out, each fold
    separately (:class:`unflip.core.ClassSums`), and the classifier and the baseline are solved from these sums. With
    the same preprocessing, T and penalty, the coefficients are those of a fit to these rows in memory, up to rounding;
    but the penalty is chosen by cross-validation over other folds than those of :func:`fit_table`, so it may differ.

    Parameters
    ----------
    path : path-like or list of them
        As in :func:`predict_files`; files have the meaning that :func:`unflip.tables.read_table` gives them.
    label, weights, drop
        The columns of the labels and of the sample weights, and columns to leave out. Rows whose label is missing are
        left out, with a warning that counts them.
    encoding : str, default=None
        As in :func:`unflip.tables.read_table`.
    text : {"lsa", "wordllama"}, default="lsa"
        What becomes of columns of free text, see :class:`~unflip.tables.Preprocessor`. TF-IDF itself has too many
        columns for sums over the rows.
    transition : array-like of shape (n_classes, n_classes) or path, default=None
        T[i, j] = P(noisy = j | clean = i), or its file, see :func:`read_transition`. If None, it is estimated from the
        sample; the labels of a class without a row in the sample are then treated as correct, with a warning.
    test : Table or callable, default=None
        As in :func:`fit_table`. If None, some rows are held out.
    sample_size : int, default=100_000
        Number of rows, all in memory, that preprocessing and T are learned from.
    holdout : float, default=0.2
        The share of the rows that is drawn to estimate the accuracy, and not trained on; at most 100,000 rows, which
        are in memory. A class keeps at least one row to train on.
    random_state : int, default=0
        The same seed gives the same rows and the same folds, whatever reads them.
    rows, threads
        As in :func:`unflip.tables.open_source` and :func:`unflip.tables.reduce_blocks`. The answer is the same to the
        bit for any number of threads.
    dask : str, default=None
        Address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``, whose workers then read the files. They must find
        them under the same names.
    tell : callable
        Called with a text when a step begins. By default, nothing is told.

    Notes
    -----
    Parquet is read by row groups, in parallel. A text file is read from its beginning by one thread or worker, so write
    many files, or Parquet. A text file is also read once more at first: its columns may look like numbers in some
    blocks and not in others, and only all rows together tell what they are.
    """
    check_draw(sample_size, random_state, "sample_size")
    if not 0 < holdout < 1:
        raise ValueError(f"holdout must be the share of the rows that are held out, between 0 and 1; got {holdout}")
    if isinstance(transition, str | os.PathLike) and not os.path.exists(transition):
        raise FileNotFoundError(f"{transition} does not exist")
    paths, path = located(path, dask)
    how: dict[str, Any] = {"threads": threads, "engine": "threads" if dask is None else "dask"}
    with connected_to(dask):
        tell(f"drawing a sample from {path}")
        source = settled(open_tables(paths, label, weights, drop, rows=rows, encoding=encoding), **how)
        source = source.changed(skip_unlabeled=True)
        drawn = draw_rows(source, MOST_HELD_OUT + sample_size, random_state, how)
        n = drawn.smallest.n_rows
        classes = as_labels(np.array(sorted(drawn.labels)))
        most = LARGEST_CLASSES if transition is None else n
        check_label_classes(classes, n, f"the label {label!r} of {path}", most)
        T = None
        if isinstance(transition, str | os.PathLike):
            T = read_transition(transition, classes)
        elif transition is not None:
            T = check_transition(transition, len(classes))
        split = split_rows(drawn, holdout if test is None else 0.0, sample_size)
        if split.weights is not None:
            parts = {"held out": split.held} | ({} if T is not None else {"drawn to estimate T": split.sample})
            _check_weights(drawn.weighs, split.weights, parts, f"the weights {weights!r} of {path}")
        unused = unused_columns(split.rows)
        findings = sample_findings(split, label)
        sample, y, w = split.taken(split.sample, unused)
        preprocessor = Preprocessor(text=text).fit(sample)
        if callable(test):
            test = test(preprocessor.kinds)
        estimator = std = None
        if T is None:
            tell(f"estimating T from {len(y):,} rows")
            T, std, estimator = _estimated(preprocessor.transform(sample, standardize=False), y, w, classes)
        tell(f"summing up {n - len(split.held):,} rows")
        used = [*preprocessor.kinds]
        function = SumFolds(preprocessor, classes, random_state, MCLDCEClassifierCV().cv, split.limit, split.kept)
        sums: FoldSums = reduce_blocks(source.only(used), function, **how)
    if sums.n_rows != n:
        raise ValueError(f"{path} had {n:,} rows and then {sums.n_rows:,}: it changed while it was read; try again")
    names = preprocessor.get_feature_names_out()
    folds = [replace(fold, classes=classes, feature_names=names) for fold in sums.folds if fold.weight > 0]
    if len(folds) < 2:
        raise ValueError(f"{n} rows are too few to choose a penalty by cross-validation; give more data")
    total: ClassSums = sum(folds)  # type: ignore[assignment]  # 0 + sums is sums

    classifier = MCLDCEClassifierCV(None if transition is None else T, random_state=random_state)
    model = _table_classifier(classifier, preprocessor, folds, T, estimator)
    name, uncorrected = make_baseline("linear", len(classes), random_state=random_state)
    other = _table_classifier(uncorrected, preprocessor, folds, None, None)
    if test is None:
        X_test, y_test, w_test = split.taken(split.held, unused)
    else:
        X_test, y_test, w_test = test.X, labels(test), test.sample_weight
        check_same_kind(classes, y_test)

    def score(fitted: TableClassifier) -> CleanAccuracy:
        blocks = [fitted.predict(X_test[start : start + BLOCK]) for start in range(0, len(X_test), BLOCK)]
        known: dict[str, Any] = {"classes": classes, "transition_std": std}
        return clean_accuracy(y_test, np.concatenate(blocks), T, sample_weight=w_test, **known)

    accuracy, baseline = score(model), score(other)
    noise = Noise(classes, T, total.noisy_prior, clean_prior(total.noisy_prior, T))
    preprocessor.unused_.update(unused)  # so that the model's card names them
    model.metrics_ = {
        "clean_accuracy": interval(accuracy),
        "held-out rows": len(y_test),
        "baseline": {**interval(baseline), "learner": name},
    }
    n_train = n - len(split.held)
    model.metadata_ = {"rows trained on": n_train, SAMPLED: len(y), "noise rate": noise.noise_rate}
    return FittedTable(
        "mcldce", "linear", model, noise, accuracy, name, baseline, n_train, len(y_test), unused, {}, findings
    )


def _estimated(
    X: FloatArray, y: NDArray[Any], weights: FloatArray | None, classes: NDArray[Any]
) -> tuple[FloatArray, FloatArray, Any]:
    """Return T, its standard errors, and the fitted estimator of the classes that the sample has."""
    seen, codes = np.unique(y, return_inverse=True)
    lost = np.setdiff1d(classes, seen)
    if len(lost):
        warnings.warn(
            f"no row of the sample has the label {', '.join(map(repr, lost[:5].tolist()))}{', ...' * (len(lost) > 5)}: "
            "T treats such labels as correct. Draw a larger sample, or give T",
            stacklevel=3,
        )
    part, estimator = resolve_transition(None, VolMin(), X, codes, seen, weights)
    T, std = np.eye(len(classes)), np.zeros((len(classes), len(classes)))
    places = np.searchsorted(classes, seen)
    T[np.ix_(places, places)] = part
    std[np.ix_(places, places)] = estimator.transition_std_
    return T, std, estimator


def _table_classifier(
    classifier: Any, preprocessor: Preprocessor, folds: list[ClassSums], T: FloatArray | None, estimator: Any
) -> TableClassifier:
    model = TableClassifier(classifier)
    model.preprocessor_, model.classifier_ = preprocessor, model._unfitted()
    if estimator is not None:
        model.classifier_.transition_, model.classifier_.transition_estimator_ = T, estimator
    model.classifier_.fit_sums(folds)
    del model.classifier_.feature_names_in_  # the preprocessor knows the columns, and gives an array
    model.metrics_, model.metadata_, model.noise_ = {}, {}, {}
    return model


def located(path: Any, dask: str | None) -> tuple[list[Any], str]:
    """Return the paths, which the workers of Dask must find as well, and what they are called."""
    paths = list(path) if isinstance(path, list | tuple) else [path]
    paths = [one if dask is None else os.path.abspath(one) for one in paths]
    return paths, str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _check_weights(any_counts: bool, weights: FloatArray, parts: dict[str, IntArray], said: str) -> None:
    if not any_counts:
        raise ValueError(f"{said} are zero in every row; at least one sample must count")
    for called, rows in parts.items():
        if len(rows) and not weights[rows].any():
            raise ValueError(
                f"{said} are zero in each of the {len(rows):,} rows {called}; at least one sample must count: "
                "draw more rows, or leave out rows of weight zero"
            )


def connected_to(address: str | None) -> Any:
    """Make the Dask scheduler at an address the active one; without an address, do nothing."""
    if address is None:
        return nullcontext()
    try:
        from unflip.commands._dask import connected
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a Dask scheduler needs Dask: pip install 'unflip[scale]'") from error
    return connected(address)
