"""The labels of a table that are probably wrong, as CSV files and as the page."""

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from unflip import __version__
from unflip._output import write_columns
from unflip._validation import FloatArray
from unflip.audit import LabelErrors, find_label_errors
from unflip.commands.fit import interval
from unflip.commands.folders import written_folder
from unflip.commands.learners import labels, make_baseline, make_classifier, make_transition_estimator, prepared, usable
from unflip.metrics import CleanAccuracy, clean_accuracy
from unflip.tables import Preprocessor, Table

FILES = ("summary.json", "suspects.csv", "labels.csv", "index.html")
LISTED, LISTED_WITH_PICTURES = 5000, 1500  # suspects on the page, which stays of a size that a browser opens at once


def audit_table(
    table: Table,
    *,
    network: str = "linear",
    transition: FloatArray | None = None,
    folds: int = 5,
    epochs: int | None = None,
    random_state: Any = None,
    progress: bool | str = False,
    on_fold: Callable[[int], None] | None = None,
) -> LabelErrors:
    """Return which labels of a table are probably wrong, see :func:`unflip.audit.find_label_errors`.

    Parameters
    ----------
    table : Table
        What :func:`unflip.tables.read_table` gives, with labels.
    network : {"linear", "mlp", "cnn6"}, default="linear"
        What judges the labels: :class:`~unflip.transition.VolMin`, or a network by MC-LDCE.
    transition : array-like of shape (n_classes, n_classes), default=None
        T[i, j] = P(noisy = j | clean = i); None estimates it.
    folds : int, default=5
    epochs : int, default=None
        Of a network.
    random_state : int, RandomState instance or None, default=None
    progress : bool or "auto", default=False
        Show the progress of a network.
    on_fold : callable, default=None
        Called with 0, 1, ... as each fold begins.
    """
    y = labels(table)
    if network == "linear" and epochs is None:
        classifier = make_transition_estimator(network)  # VolMin is a classifier as well
    else:
        classifier = make_classifier("mcldce", network, None, epochs=epochs, progress=progress)
    X, _ = usable(table, network)
    options = {"cv": folds, "random_state": random_state, "on_fold": on_fold}
    return find_label_errors(X, y, prepared(classifier, X), transition, **options)


def compare_classifiers(
    errors: LabelErrors, table: Table, *, network: str = "linear", folds: int = 5, random_state: Any = None
) -> dict[str, CleanAccuracy]:
    """Return the estimated clean accuracy of what judged the labels, on samples that it had not seen.

    Beside it, for a linear model, that of ridge regression without correction in as many folds.

    Parameters
    ----------
    errors : LabelErrors
        What :func:`audit_table` found.
    table, network, folds, random_state
        As they were given to it.
    """
    T, classes = errors.transition, errors.classes
    judge = "VolMin" if network == "linear" else f"mcldce, {network}"
    found = {judge: clean_accuracy(errors.given, classes[errors.proba.argmax(axis=1)], T, classes=classes)}
    if network == "linear":
        name, baseline = make_baseline(network, len(classes), random_state=random_state)
        baseline.set_params(classes=classes)  # a fold may lack one
        X, _ = usable(table, network)
        _, counts = np.unique(errors.given, return_counts=True)
        splitter = StratifiedKFold(min(folds, counts.max()), shuffle=True, random_state=random_state)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # the audit took it too
            predicted = cross_val_predict(make_pipeline(Preprocessor(), baseline), X, errors.given, cv=splitter)
        found[name] = clean_accuracy(errors.given, predicted, T, classes=classes)
    return found


def write_audit(
    errors: LabelErrors,
    table: Table,
    folder: str | os.PathLike[str],
    *,
    title: str,
    command: str = "unflip audit",
    compared: Mapping[str, CleanAccuracy] | None = None,
) -> dict[str, Any]:
    """Write what an audit found to a folder, and return its summary.

    ``compared`` is what :func:`compare_classifiers` gives, for the page and the summary.

    ::

        suspects.csv    name, given, suggested, probability_wrong: labels that should be another, surest first
        labels.csv      the same of every label, in the order of the table
        summary.json    the numbers
        index.html      the page

    The folder appears whole or not at all; an earlier one of the same files is replaced, any other refused.
    """
    from unflip.page.write import ComparedClassifier, write_page

    summary = summarise(errors)
    if compared:
        summary["clean_accuracy"] = {name: interval(score) for name, score in compared.items()}
    everything = np.arange(len(errors.scores))
    with written_folder(folder, FILES) as partial:
        for name, rows in (("suspects.csv", errors.suspects), ("labels.csv", everything)):
            write_columns(
                partial / name,
                {
                    "name": table.names[rows],
                    "given": errors.given[rows],
                    "suggested": errors.suggested[rows],
                    "probability_wrong": errors.scores[rows].round(6),
                },
            )
        text = json.dumps({"made_with": f"unflip {__version__}", "data": title, **summary}, indent=1)
        (partial / "summary.json").write_text(text + "\n", encoding="utf-8")
        images = table.X if np.ndim(table.X) == 4 else None
        scores = [(name, interval(score)) for name, score in (compared or {}).items()]
        page = audit_page(
            errors,
            [str(name) for name in table.names.tolist()],
            images,
            title=title,
            command=command,
            classifiers=[ComparedClassifier(name, s["estimate"], s["low"], s["high"]) for name, s in scores],
        )
        write_page(page, partial / "index.html")
    return summary


def summarise(errors: LabelErrors) -> dict[str, Any]:
    """Return the numbers of an audit for a program."""
    return {
        "n_samples": len(errors.scores),
        "n_suspects": len(errors.suspects),
        "expected_errors": errors.total,
        "error_rate": errors.rate,
        "classes": [str(name) for name in errors.classes.tolist()],
        "expected_errors_by_given_class": errors.n_errors.tolist(),
        "transition": errors.transition.tolist(),
    }


def audit_page(
    errors: LabelErrors,
    names: Sequence[str],
    images: Any = None,
    *,
    title: str,
    command: str,
    classifiers: Sequence[Any] = (),
    summary: Sequence[tuple[str, str]] = (),
) -> Any:
    """Return the :class:`~unflip.page.write.Page` of an audit.

    Parameters
    ----------
    errors : LabelErrors
    names : sequence of str
        Of the samples.
    images : array of shape (n_samples, channels, height, width), default=None
        For thumbnails.
    title, command : str
    classifiers : sequence of ComparedClassifier, default=()
    summary : sequence of (label, text), default=()
        Further facts for the top of the page.
    """
    from unflip.page.thumbnails import thumbnail
    from unflip.page.write import Page, Suspect

    suspects = errors.suspects
    listed = suspects[: LISTED if images is None else LISTED_WITH_PICTURES]
    low, high = (0.0, 1.0) if images is None else (min(float(images.min()), 0.0), max(float(images.max()), 1.0))
    n, c = errors.posterior.shape
    codes = np.searchsorted(errors.classes, errors.given)
    rates = np.clip(1 - np.diag(errors.transition), 0, 1)
    worst = int(rates.argmax())
    return Page(
        title=title,
        summary=[
            ("labels with a better suggestion", f"{len(suspects):,}"),
            ("noisiest class", f"{errors.classes[worst]} ({rates[worst]:.1%})"),
            *summary,
        ],
        classes=[str(name) for name in errors.classes.tolist()],
        transition=errors.transition,
        noisy_counts=np.bincount(codes, minlength=c),
        clean_counts=errors.posterior.sum(axis=0),
        noise_rates=rates,
        curves=_curves(errors),
        classifiers=classifiers,
        suspects=[
            Suspect(
                names[i],
                str(errors.given[i]),
                str(errors.suggested[i]),
                float(np.clip(errors.scores[i], 0, 1)),
                None if images is None else thumbnail(images[i], low, high),
            )
            for i in listed
        ],
        n_samples=n,
        n_suspects_total=len(suspects),
        made_with=f"unflip {__version__}, {command}",
        noise_rate=min(errors.rate, 1.0),
    )


def _curves(errors: LabelErrors) -> dict[str, list[float]]:
    """The loss of a network by epoch, the mean over the folds."""
    losses = [[float(record["loss"]) for record in history] for history in errors.histories]
    epochs = min(map(len, losses), default=0)
    if not epochs:
        return {}
    return {f"loss, mean of {len(losses)} folds": np.mean([loss[:epochs] for loss in losses], axis=0).tolist()}
