"""A table to a classifier that withstands the noise in its labels, with what it is worth beside one that does not."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_random_state

from unflip import __version__
from unflip._output import check_place
from unflip._validation import FloatArray, IntArray, check_transition
from unflip.commands.folders import written_folder
from unflip.commands.learners import (
    UNCORRECTED,
    check_network,
    labels,
    make_baseline,
    make_classifier,
    make_transition_estimator,
    samples,
    usable,
)
from unflip.commands.transition import Noise
from unflip.metrics import CleanAccuracy, clean_accuracy
from unflip.models.folder import _safetensors, check_replaceable
from unflip.tables import Table
from unflip.tables.classifier import TableClassifier

FEWEST_HELD_OUT = 2
PAGE = ("index.html",)


@dataclass(frozen=True, eq=False)
class FittedTable:
    """What :func:`fit_table` found.

    Attributes
    ----------
    method, network : str
    model : TableClassifier
        With ``metrics_`` filled, ready to be saved.
    noise : Noise
    accuracy : CleanAccuracy
        Of the model on clean labels, estimated from noisy ones that it did not see.
    baseline_name : str
    baseline : CleanAccuracy or None
        Likewise of the learner without correction; None where the method itself is that.
    n_train, n_test : int
    unused : dict of str to str
        Which columns are left out, and why.
    curves : dict of str to list of float
        Of a network, by epoch: the loss, and the accuracy on the held-out noisy labels.
    """

    method: str
    network: str
    model: TableClassifier
    noise: Noise
    accuracy: CleanAccuracy
    baseline_name: str
    baseline: CleanAccuracy | None
    n_train: int
    n_test: int
    unused: dict[str, str]
    curves: dict[str, list[float]]


def fit_table(
    table: Table,
    *,
    method: str = "mcldce",
    network: str = "linear",
    transition: Any = None,
    test: Table | None = None,
    holdout: float = 0.2,
    epochs: int | None = None,
    random_state: Any = None,
    progress: bool | str = False,
    tell: Callable[[str], None] = lambda text: None,
) -> FittedTable:
    """Fit a classifier to the noisy labels of a table, and estimate its accuracy on clean labels.

    Parameters
    ----------
    table : Table
        What :func:`unflip.tables.read_table` gives, with labels; its weights count.
    method : str, default="mcldce"
        For a linear model "mcldce", "ule", "musgd", "rank-pruning", "lnsi", "scd", "lics" or "cege"; for a network any
        method of :class:`~unflip.deep.NoisyLabelClassifier`.
    network : {"linear", "mlp", "cnn6"}, default="linear"
        Images reach a linear model and "mlp" as rows of pixels.
    transition : array-like of shape (n_classes, n_classes), default=None
        T[i, j] = P(noisy = j | clean = i); None estimates it. A method that takes no T has it for the estimated
        accuracy alone.
    test : Table, default=None
        Noisy labels to estimate the accuracy from. None holds a part of the table out.
    holdout : float, default=0.2
        The part of each class that is held out, and not trained on, where there is no ``test``.
    epochs : int, default=None
        Of a network.
    random_state : int, RandomState instance or None, default=None
    progress : bool or "auto", default=False
        Show the progress of a network.
    tell : callable, default=None
        Called with a text as each step begins.
    """
    check_network(network, epochs)
    y = labels(table)
    T = None if transition is None else check_transition(transition, len(np.unique(y)))
    options: dict[str, Any] = {"epochs": epochs, "random_state": random_state, "progress": progress}
    classifier = make_classifier(method, network, T, **options)
    X, unused = usable(table, network)
    weights = table.sample_weight
    if test is None:
        train, held_out = _split(y, holdout, random_state)
        X_test, y_test, test_weights = _rows(X, y, weights, held_out)
        X, y, weights = _rows(X, y, weights, train)
    else:
        X_test, y_test, test_weights = samples(test.X, network), labels(test), test.sample_weight
        _check_kinds(y, y_test)

    first = "estimating T, then " if network != "linear" and T is None else ""
    tell(f"{first}fitting {method}, {network}, to {len(y):,} rows")
    evaluate = None if network == "linear" else (X_test, y_test)
    model = TableClassifier(classifier).fit(X, y, weights, evaluate=evaluate)
    T = getattr(model.classifier_, "transition_", None) if T is None else T
    if T is None:
        tell("estimating T, which the method itself does not need")
        estimator = make_transition_estimator(network, random_state=random_state, progress=progress)
        T = estimator.fit(X if model.preprocessor_ is None else model.preprocessor_.transform(X), y).transition_
    assert T is not None

    def score(fitted: TableClassifier) -> CleanAccuracy:
        predicted = fitted.predict(X_test)
        return clean_accuracy(y_test, predicted, T, classes=fitted.classes_, sample_weight=test_weights)

    accuracy, baseline, curves = score(model), None, _curves(method, model)
    name, uncorrected = make_baseline(network, len(model.classes_), **options)
    if method != UNCORRECTED:
        tell(f"fitting {name}")
        other = TableClassifier(uncorrected).fit(X, y, weights, evaluate=evaluate)
        baseline = score(other)
        curves |= _curves(name.split()[0], other)
    noise = Noise.of(y, T, weights)
    if model.preprocessor_ is not None:
        model.preprocessor_.unused_.update(unused)  # so that the model's card tells of them
    if getattr(model.classifier_, "transition_", None) is None:  # else it is saved with the classifier
        given = transition is not None
        model.noise_ = {"transition": noise.transition, "class_prior": noise.class_prior, "given": given}
    model.metrics_ = {"clean_accuracy": interval(accuracy), "held-out rows": len(y_test)}
    if baseline is not None:
        model.metrics_["baseline"] = {**interval(baseline), "learner": name}
    model.metadata_ = {"rows trained on": len(y), "noise rate": noise.noise_rate}
    if np.ndim(table.X) > 2:
        model.metadata_["image shape"] = list(table.X.shape[1:])
    return FittedTable(method, network, model, noise, accuracy, name, baseline, len(y), len(y_test), unused, curves)


def write_fit_page(
    fitted: FittedTable, folder: str | os.PathLike[str], *, title: str, command: str = "unflip fit"
) -> Path:
    """Write ``index.html``, the noise and what the classifiers are worth, to a folder, and return its path.

    The folder appears whole or not at all; an earlier one is replaced, any other refused.
    """
    from unflip.page.write import ComparedClassifier, Page, write_page

    noise, n = fitted.noise, fitted.n_train
    compared = {f"{fitted.method}, {fitted.network}": fitted.accuracy, fitted.baseline_name: fitted.baseline}
    scores = {name: interval(score) for name, score in compared.items() if score is not None}
    page = Page(
        title=title,
        summary=[
            ("classifier", next(iter(scores))),
            ("trained on", f"{n:,} rows"),
            ("judged by", f"{fitted.n_test:,} noisy labels that it did not see"),
        ],
        classes=noise.names,
        transition=noise.transition,
        noisy_counts=n * noise.noisy_prior,
        clean_counts=n * noise.class_prior,
        noise_rates=noise.noise_rates,
        curves=fitted.curves,
        classifiers=[ComparedClassifier(name, s["estimate"], s["low"], s["high"]) for name, s in scores.items()],
        suspects=None,
        n_samples=n,
        n_suspects_total=0,
        made_with=f"unflip {__version__}, {command}",
    )
    with written_folder(folder, PAGE) as partial:
        write_page(page, partial / PAGE[0])
    return Path(folder) / PAGE[0]


def check_model_folder(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work, a folder that a model cannot be saved to."""
    check_replaceable(Path(path).resolve())
    check_place(path)
    _safetensors()


def interval(score: CleanAccuracy) -> dict[str, float]:
    """Return an estimate with its interval, both cut to 0 .. 1, in the form that a model's card prints."""
    return {"estimate": min(max(score.estimate, score.low), score.high), "low": score.low, "high": score.high}


def _curves(name: str, model: TableClassifier) -> dict[str, list[float]]:
    history = getattr(model.classifier_, "history_", [])
    titles = {"loss": "loss", "accuracy": "accuracy on held-out noisy labels"}
    found = {f"{name}: {title}": [record.get(key) for record in history] for key, title in titles.items()}
    return {title: values for title, values in found.items() if values and None not in values}


def _split(y: NDArray[Any], share: float, random_state: Any) -> tuple[IntArray, IntArray]:
    """Hold out a share of each class; what occurs once stays in training, so no class is lost to it."""
    if not 0 < share < 1:
        raise ValueError(f"holdout is the share of the rows that are held out, between 0 and 1; got {share}")
    random = check_random_state(random_state)
    _, codes = np.unique(y, return_inverse=True)
    held_out = np.zeros(len(y), dtype=bool)
    for k in range(codes.max() + 1):
        rows = random.permutation(np.flatnonzero(codes == k))
        held_out[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
    if held_out.sum() < FEWEST_HELD_OUT:
        raise ValueError(
            f"{len(y)} rows are too few to hold {share:.0%} of them out; give further rows as a test file, or more data"
        )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _rows(X: Any, y: NDArray[Any], weights: FloatArray | None, rows: IntArray) -> tuple[Any, Any, Any]:
    return _safe_indexing(X, rows), y[rows], None if weights is None else weights[rows]


def _check_kinds(y: NDArray[Any], y_test: NDArray[Any]) -> None:
    if y.dtype.kind != y_test.dtype.kind:
        kinds = {"U": "text", "i": "whole numbers", "b": "booleans"}
        raise ValueError(
            f"the labels are {kinds[y.dtype.kind]}, those of the test data {kinds[y_test.dtype.kind]}; write both alike"
        )
