"""The labels of a table that are probably wrong, as CSV files and as a page."""

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from unflip import __version__
from unflip._output import write_columns
from unflip.audit import LabelErrors, find_label_errors
from unflip.commands.fit import (
    CALLED,
    candidate_name,
    candidate_records,
    check_network,
    explain_choice,
    features,
    interval,
    labels,
    make_baseline,
    make_classifier,
    make_transition_estimator,
    resolve_model,
    samples,
)
from unflip.commands.folders import written_folder
from unflip.metrics import CleanAccuracy, clean_accuracy
from unflip.tables import Preprocessor, Table

FILES = ("summary.json", "suspects.csv", "labels.csv", "index.html")
LISTED, LISTED_WITH_PICTURES = 5000, 1500  # suspects on the page, so that a browser opens it at once


def audit_table(
    table: Table,
    *,
    model: str | None = None,
    network: str | None = None,
    transition: Any = None,
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
        A table from :func:`unflip.tables.read_table` with labels. Its sample weights are used.
    model : {"auto", "logistic", "trees", "forest", "mcldce", "mlp", "cnn6"}, default=None
        What judges the labels, as in :func:`~unflip.commands.fit_table`. If None, it is "auto", unless ``network`` is
        given.
    network : {"linear", "mlp", "cnn6"}, default=None
        Instead of a model: :class:`~unflip.transition.VolMin`, or a network trained by MC-LDCE.
    transition : array-like of shape (n_classes, n_classes) or estimator, default=None
        T[i, j] = P(noisy = j | clean = i), or an estimator of it. If None, T is estimated by the default estimator.
    folds : int, default=5
    epochs : int, default=None
        Epochs of a network. If None, they depend on the size of the data.
    random_state : int, RandomState instance or None, default=None
    progress : bool or "auto", default=False
        Whether to show the progress of a network.
    on_fold : callable, default=None
        Called with 0, 1, ... when a fold begins.
    """
    y = labels(table)
    method, trained = resolve_model(model, None, network)
    check_network(trained, epochs)
    if model is None and network == "linear":
        classifier = make_transition_estimator(None, network)  # VolMin is a classifier as well
    elif method == "auto":
        classifier = None
    else:
        classifier = make_classifier(method, trained, None, epochs=epochs, progress=progress)
        if method in ("trees", "forest"):
            classifier.set_params(cv=folds)
        if transition is None and trained != "linear":
            transition = make_transition_estimator(None, trained, random_state=random_state, progress=progress)
    options = {"cv": folds, "random_state": random_state, "on_fold": on_fold, "sample_weight": table.sample_weight}
    return find_label_errors(features(table, trained), y, classifier, transition, **options)


def compare_classifiers(
    errors: LabelErrors,
    table: Table,
    *,
    model: str | None = None,
    network: str | None = None,
    folds: int = 5,
    random_state: Any = None,
) -> dict[str, CleanAccuracy]:
    """Return the estimated clean accuracy of the model that judged the labels, on samples that it had not seen.

    If it was chosen among several, theirs are next to it; for a linear model, that of ridge regression without
    correction, in as many folds.

    Parameters
    ----------
    errors : LabelErrors
        What :func:`audit_table` found.
    table, model, network, folds, random_state
        As they were given to it.
    """
    T, classes = errors.transition, errors.classes
    method, trained = resolve_model(model, None, network)
    if errors.candidates:
        return {candidate_name(one): one.accuracy for one in errors.candidates}
    judge = CALLED.get(method) or ("VolMin" if (model, trained) == (None, "linear") else f"{method}, {trained}")
    options: dict[str, Any] = {"classes": classes, "sample_weight": table.sample_weight}
    options["transition_std"] = errors.transition_std
    found = {judge: clean_accuracy(errors.given, classes[errors.proba.argmax(axis=1)], T, **options)}
    if trained == "linear":
        name, baseline = make_baseline(trained, len(classes), random_state=random_state)
        baseline.set_params(classes=classes)  # a fold may lack one
        _, counts = np.unique(errors.given, return_counts=True)
        splitter = StratifiedKFold(min(folds, counts.max()), shuffle=True, random_state=random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # rare classes and unused columns: the audit has told of them
            X = Preprocessor(text=table.text).fit_transform(samples(table.X, trained))
            params = {} if table.sample_weight is None else {"sample_weight": table.sample_weight}
            predicted = cross_val_predict(baseline, X, errors.given, cv=splitter, params=params)
        found[name] = clean_accuracy(errors.given, predicted, T, **options)
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

    ``compared`` is the result of :func:`compare_classifiers`, for the page and the summary.

    ::

        suspects.csv    name, given, suggested, probability_wrong of the labels with a better suggestion, surest first
        labels.csv      the same for every label, in the order of the table
        summary.json    the numbers
        index.html      the page

    The folder appears whole or not at all; an earlier result is replaced, any other folder is refused.
    """
    from unflip.page import ComparedClassifier, write_page

    scores = {name: interval(score) for name, score in (compared or {}).items()}
    summary = summarize(errors) | ({"clean_accuracy": scores} if scores else {})
    summary["findings"] = [finding.as_json() for finding in table.findings]
    page = audit_page(
        errors,
        [str(name) for name in table.names.tolist()],
        table.X if np.ndim(table.X) == 4 else None,
        title=title,
        command=command,
        classifiers=[ComparedClassifier.of(name, score) for name, score in (compared or {}).items()],
        findings=[finding.sentence for finding in table.findings],
    )
    with written_folder(folder, FILES) as partial:
        for name, rows in (("suspects.csv", errors.suspects), ("labels.csv", np.arange(len(errors.scores)))):
            columns = {
                "name": table.names[rows],
                "given": errors.given[rows],
                "suggested": errors.suggested[rows],
                "probability_wrong": errors.scores[rows].round(6),
            }
            write_columns(partial / name, columns)
        text = json.dumps({"made_with": f"unflip {__version__}", "data": title, **summary}, indent=1)
        (partial / "summary.json").write_text(text + "\n", encoding="utf-8")
        write_page(page, partial / "index.html")
    return summary


def summarize(errors: LabelErrors) -> dict[str, Any]:
    """Return the numbers of an audit for a program."""
    return {
        "n_samples": len(errors.scores),
        "n_suspects": len(errors.suspects),
        "expected_errors": errors.total,
        "error_rate": errors.rate,
        "classes": [str(name) for name in errors.classes.tolist()],
        "noise_rates": errors.noise_rates.tolist(),
        "expected_errors_by_given_class": errors.n_errors.tolist(),
        "transition": errors.transition.tolist(),
        "candidates": candidate_records(errors.candidates),
        "notes": errors.notes,
    }


def noisiest_class(errors: LabelErrors) -> int | None:
    """Return the class with the highest noise rate, or None if no class stands out.

    A class stands out if its rate is above that of all labels by more than three standard errors.
    """
    rates, rate = errors.noise_rates, min(errors.rate, 1.0)
    with np.errstate(divide="ignore"):
        deviation = np.sqrt(rate * (1 - rate) / errors.posterior.sum(axis=0))
    worst = int(rates.argmax())
    return worst if rates[worst] - rate > 3 * deviation[worst] else None


def audit_page(
    errors: LabelErrors,
    names: Sequence[str],
    images: Any = None,
    *,
    title: str,
    command: str,
    classifiers: Sequence[Any] = (),
    summary: Sequence[tuple[str, str]] = (),
    findings: Sequence[str] = (),
) -> Any:
    """Return the :class:`~unflip.page.Page` of an audit.

    Parameters
    ----------
    errors : LabelErrors
    names : sequence of str
        Names of the samples.
    images : array of shape (n_samples, channels, height, width), default=None
        For thumbnails.
    title, command : str
    classifiers : sequence of ComparedClassifier, default=()
    summary : sequence of (label, text), default=()
        Further facts for the top of the page.
    findings : sequence of str, default=()
        What the checks of the data found.
    """
    from unflip.page import Page, Suspect
    from unflip.page.thumbnails import thumbnail

    suspects, rates, worst = errors.suspects, errors.noise_rates, noisiest_class(errors)
    low, high = (0.0, 1.0) if images is None else (min(float(images.min()), 0.0), max(float(images.max()), 1.0))
    found = [("labels with a better suggestion", f"{len(suspects):,}")]
    if worst is not None:
        found.append(("noisiest class", f"{errors.classes[worst]} ({rates[worst]:.1%})"))
    if errors.candidates:
        found.append(("model", explain_choice(errors.candidates)))
    return Page(
        title=title,
        summary=[*found, *summary],
        classes=[str(name) for name in errors.classes.tolist()],
        transition=errors.transition,
        noisy_counts=np.bincount(np.searchsorted(errors.classes, errors.given), minlength=len(errors.classes)),
        clean_counts=errors.posterior.sum(axis=0),
        noise_rates=rates,
        curves=_curves(errors),
        classifiers=classifiers,
        findings=findings,
        suspects=[
            Suspect(
                names[i],
                str(errors.given[i]),
                str(errors.suggested[i]),
                float(np.clip(errors.scores[i], 0, 1)),
                None if images is None else thumbnail(images[i], low, high),
            )
            for i in suspects[: LISTED if images is None else LISTED_WITH_PICTURES]
        ],
        n_samples=len(errors.given),
        n_suspects_total=len(suspects),
        made_with=f"unflip {__version__}, {command}",
        noise_rate=min(errors.rate, 1.0),
    )


def _curves(errors: LabelErrors) -> dict[str, list[float]]:
    """Return the loss of a network by epoch, averaged over the folds."""
    losses = [[float(record["loss"]) for record in history] for history in errors.histories]
    epochs = min(map(len, losses), default=0)
    if not epochs:
        return {}
    return {f"loss, mean of {len(losses)} folds": np.mean([loss[:epochs] for loss in losses], axis=0).tolist()}
