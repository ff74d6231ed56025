"""The labels of a table that are probably wrong, as CSV files and as a page."""

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from unflip import __version__
from unflip._input import read_npy
from unflip._output import unguarded, write_columns
from unflip._validation import FloatArray, IntArray
from unflip.audit import LabelAuditor, LabelErrors, find_label_errors
from unflip.audit.exchange import WRITERS, Task, task_text
from unflip.audit.review import RowContents, cells_of, look_alikes, row_contents
from unflip.commands.fit import (
    CALLED,
    Noise,
    candidate_name,
    candidate_records,
    check_crowd,
    check_network,
    check_same_kind,
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
from unflip.commands.predict import predict_table
from unflip.core.ldce import solve_prior
from unflip.datasets.npz import read_arrays
from unflip.metrics import CleanAccuracy, clean_accuracy
from unflip.tables import Preprocessor, Table
from unflip.tables.read import Reading, many, no_such, open_file

FILES = ("summary.json", "suspects.csv", "labels.csv", "index.html", "label_studio.json", "label_studio.xml", "argilla")
ALIKE = 3  # confidently labeled rows that are shown next to a suspect
FIRST = 4  # the most telling columns of a row, which are shown before it is opened
EXPORTED_SIDE = 512  # pixels of a picture for other tools
MOST_COLUMNS = 60  # of a row on the page; suspects.csv has all
SIDES = {48: 4000, 32: 12_000, 24: 40_000}  # pixels of a picture, and how many so large ones a page may have
GIVEN = "the given probabilities"


def audit_table(
    table: Table,
    *,
    model: str | None = None,
    network: str | None = None,
    transition: Any = None,
    folds: int = 5,
    pred_probs: ArrayLike | None = None,
    groups: ArrayLike | None = None,
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
        Instead of a model: :class:`~unflip.transition.VolMin`, or a network trained by forward correction.
    transition : array-like of shape (n_classes, n_classes) or estimator, default=None
        T[i, j] = P(noisy = j | clean = i), or an estimator of it. If None, T is estimated by the default estimator.
    folds : int, default=5
    pred_probs : array-like of shape (n_samples, n_classes), default=None
        Instead of a model: out-of-sample probabilities of the noisy labels, see :func:`read_probabilities`.
    groups : array-like of shape (n_samples,), default=None
        Rows of one group are held out together.
    epochs : int, default=None
        Epochs of a network. If None, they depend on the size of the data.
    random_state : int, RandomState instance or None, default=None
    progress : bool or "auto", default=False
        Whether to show the progress of a network.
    on_fold : callable, default=None
        Called with 0, 1, ... when a fold begins.
    """
    y = labels(table)
    method, trained = resolve_model(model, None, network, proper=True)
    check_network(trained, epochs)
    y = y if table.annotations is None else table.annotations
    if table.annotations is not None and pred_probs is None:
        check_crowd(method, transition)
    if pred_probs is not None:
        if model is not None or network is not None:
            raise ValueError("probabilities take the place of a model; leave out model and network")
        further = {"transition": transition, "sample_weight": table.sample_weight, "random_state": random_state}
        return find_label_errors(y=y, cv=folds, pred_probs=pred_probs, groups=groups, **further)
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
    options = {"cv": folds, "random_state": random_state, "on_fold": on_fold, "groups": groups}
    options["sample_weight"] = table.sample_weight
    return find_label_errors(features(table, trained), y, classifier, transition, **options)


def judge_table(model: Any, table: Table, transition: ArrayLike | None = None) -> LabelErrors:
    """Return which labels are probably wrong according to a saved model that has not seen the table.

    ``model`` is what :func:`unflip.load` returns; T is the model's, unless it is given.
    """
    if hasattr(transition, "fit"):
        raise ValueError("a saved model judges by its own T; give T as a matrix, or leave it out")
    if table.annotations is not None:
        raise ValueError("a saved model judges one label per row; audit several annotators without a saved model")
    y = labels(table)
    auditor = LabelAuditor.of(model, transition)
    check_same_kind(auditor.classes_, y)
    return auditor.judge(predict_table(model, table)[1], y)


def noise_of(errors: LabelErrors, table: Table, totals: "Totals") -> Noise:
    """Return the noise that an audit found, of all classes, whether or not they occur."""
    counts: Any = totals.noisy
    if table.sample_weight is not None:
        counts = np.bincount(np.searchsorted(errors.classes, errors.given), table.sample_weight, len(counts))
    prior = counts / counts.sum()
    return Noise(errors.classes, errors.transition, prior, solve_prior(prior, errors.transition))


def compare_classifiers(
    errors: LabelErrors,
    table: Table,
    *,
    model: str | None = None,
    network: str | None = None,
    folds: int = 5,
    random_state: Any = None,
    judge: str | None = None,
) -> dict[str, CleanAccuracy]:
    """Return the estimated clean accuracy of the model that judged the labels, on samples that it had not seen.

    If it was chosen among several, theirs are next to it; for a linear model, that of ridge regression without
    correction, in as many folds. If the model was not trained here, ``judge`` is what it is called.

    Parameters
    ----------
    errors : LabelErrors
        What :func:`audit_table` found.
    table, model, network, folds, random_state
        As they were given to it.
    """
    T, classes = errors.transition, errors.classes
    method, trained = resolve_model(model, None, network, proper=True)
    if errors.candidates:
        return {candidate_name(one): one.accuracy for one in errors.candidates}
    own = CALLED.get(method) or ("VolMin" if (model, trained) == (None, "linear") else f"{method}, {trained}")
    options: dict[str, Any] = {"classes": classes, "sample_weight": table.sample_weight}
    options["transition_std"] = errors.transition_std
    found = {judge or own: clean_accuracy(errors.given, classes[errors.proba.argmax(axis=1)], T, **options)}
    if trained == "linear" and judge is None:
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


def split_column(table: Table, column: str, said: str) -> tuple[Table, NDArray[Any]]:
    """Return a table without a column that is no feature, and the column; ``said`` is the option that names it."""
    if not hasattr(table.X, "columns"):
        raise ValueError(f"{said} {column!r} names a column of a table, but these are arrays or images; leave it out")
    if column not in table.X.columns:
        no_such(column, map(str, table.X.columns), "the table has no column")
    values = table.X[column]
    if values.isna().any():
        raise ValueError(
            f"the column {column!r} ({said}) is empty in {many(int(values.isna().sum()), 'row', 'rows')}; fill it in"
        )
    rest = table.X.drop(columns=[column])
    if not len(rest.columns):
        raise ValueError(f"{said} {column!r} is the only column; nothing is left to learn from")
    return replace(table, X=rest), values.astype(object).to_numpy()


def named_by(table: Table, column: str) -> Table:
    """Return a table whose rows are named by a column, which is then no feature; every name must occur once."""
    rest, names = split_column(table, column, "--id")
    seen = Counter(names.tolist())
    if len(seen) < len(names):
        name, times = seen.most_common(1)[0]
        raise ValueError(f"the column {column!r} does not name the rows: {name!r} occurs {times} times; choose another")
    return replace(rest, names=np.array([str(name) for name in names.tolist()], dtype=object))


def read_probabilities(path: str | os.PathLike[str], table: Table) -> FloatArray:
    """Read out-of-sample probabilities of the noisy labels of a table, shape (n_samples, n_classes).

    An ``.npy`` file has one column per class, in sorted order, and so has the one array of an ``.npz`` file. The
    columns of a CSV, TSV or Parquet file are called like the classes, or ``probability_CLASS``, as ``unflip predict``
    writes them. If it has a column ``name``, the rows are found by their names, otherwise by their order.
    """
    classes, n = np.unique(labels(table)), len(table.names)
    suffix = Path(path).suffix.lower()
    if suffix in (".npy", ".npz"):
        arrays = [read_npy(path)] if suffix == ".npy" else [*read_arrays(Path(path)).values()]
        if len(arrays) != 1:
            raise ValueError(f"{path} must hold one array, the probabilities; it holds {len(arrays)} arrays")
        if arrays[0].dtype.kind not in "fiub":
            raise ValueError(f"{path} must hold numbers, the probabilities; it holds {arrays[0].dtype}")
        return np.asarray(arrays[0], dtype=np.float64)
    file = open_file(os.fspath(path), numbered=True)
    frame = next(iter(file.frames(Reading(kinds={"name": "category"})))).frame  # a name is read as it is written
    chosen = []
    for label in map(str, classes.tolist()):
        name = next((name for name in (f"probability_{label}", label) if name in frame.columns), None)
        if name is None:
            no_such(label, map(str, frame.columns), f"{path} must have a column for each class, but has none for")
        chosen.append(name)
    proba = frame[chosen].to_numpy(dtype=np.float64, na_value=np.nan)
    if "name" in frame.columns:
        there, wanted = ([str(name) for name in names] for names in (frame["name"].tolist(), table.names.tolist()))
        if not {*wanted} <= {*there}:  # names that unflip predict wrote may be guarded
            there = [unguarded(name) for name in there]
        places = {name: k for k, name in enumerate(there)}
        lost = [name for name in wanted if name not in places]
        if lost:
            raise ValueError(f"{path} has no probabilities of {len(lost):,} of {n:,} rows, such as {lost[0]!r}")
        return proba[[places[name] for name in wanted]]
    if len(proba) != n:
        raise ValueError(f"{path} has {len(proba):,} rows, but the data have {n:,}; give one for each, or their names")
    return proba


@dataclass(frozen=True, eq=False)
class Totals:
    """The numbers of an audit over all labels, of which :class:`LabelErrors` may have only some (out of core)."""

    n_rows: int
    n_suspects: int
    n_errors: FloatArray  # (c,) expected wrong labels by given class
    noisy: FloatArray  # (c,) labels as given
    clean: FloatArray  # (c,) and as they probably are
    kept: FloatArray  # (c,) of the latter, those with the right label
    among: float  # expected wrong labels among the suspects
    compared: Mapping[str, CleanAccuracy] = field(default_factory=dict)  # of the model, on the rows that were drawn
    interval: tuple[float, float] = (0.0, 0.0)  # 90 %, of the number of wrong labels
    by_rules: bool = False
    by_several: bool = False  # annotators
    undecided: bool = False  # as in LabelErrors, and the next
    suspected: float | None = None

    @classmethod
    def of(cls, errors: LabelErrors) -> "Totals":
        codes, c = np.searchsorted(errors.classes, errors.given), len(errors.classes)
        clean = errors.posterior.sum(axis=0)
        noisy, kept = np.bincount(codes, minlength=c).astype(np.float64), (1 - errors.noise_rates) * clean
        among = float(errors.scores[errors.suspects].sum())
        sums = (errors.n_errors, noisy, clean, kept, among)
        by_several = errors.annotators is not None
        told: dict[str, Any] = {"interval": errors.interval, "by_rules": errors.by_rules, "by_several": by_several}
        told |= {"undecided": errors.undecided, "suspected": errors.suspected}
        return cls(len(codes), len(errors.suspects), *sums, **told)

    @property
    def total(self) -> float:
        """The expected number of wrong labels."""
        return float(self.n_errors.sum())

    @property
    def noise_rates(self) -> FloatArray:
        """As in :class:`LabelErrors`."""
        return np.clip(1 - np.divide(self.kept, self.clean, out=np.ones_like(self.clean), where=self.clean > 0), 0, 1)


def explain_counts(totals: Totals) -> str:
    """Return a sentence that says how the number of suspects and that of wrong labels belong together."""
    n, total, among = totals.n_rows, totals.total, totals.among
    if totals.suspected is not None:
        suspects = {0: "No label has", 1: "1 label has"}.get(totals.n_suspects, f"{totals.n_suspects:,} labels have")
        return f"{suspects} a likelier one."
    if not totals.n_suspects:
        return f"No label has a likelier one, but about {total:,.0f} of {n:,} are wrong without showing it."
    are = "is a suspect" if totals.n_suspects == 1 else "are suspects"
    return (
        f"{totals.n_suspects:,} of {n:,} labels {are}, because another label is more likely there than the given one: "
        f"about {among:,.0f} of these are wrong, and about {total - among:,.0f} of the others, which makes "
        f"{total:,.0f} in all."
    )


def explain_interval(totals: Totals) -> str:
    """Return the number of wrong labels with its interval in a sentence, or say that there is no such number."""
    low, high = totals.interval
    if totals.by_rules:
        return "How many labels are wrong cannot be told: rules seem to have made them, and their errors do not show."
    if totals.suspected is not None:
        return (
            f"These labels cannot tell noise from classes that overlap. Between {low:,.0f} and {high:,.0f} of "
            f"{totals.n_rows:,} are wrong; about {totals.suspected:,.0f}, if people made them and err as they usually "
            "do."
        )
    share = f"{totals.total / totals.n_rows:.1%}"
    about = f"About {totals.total:,.0f} of {totals.n_rows:,} labels ({share}) are wrong"
    if totals.by_several:
        return (
            f"{about}: at least {low:,.0f} even if the annotators err independently of each other, and up to "
            f"{high:,.0f} if they share their errors, which labels alone cannot tell. Real annotators usually share "
            "some."
        )
    if totals.undecided:
        return (
            f"{about}, but classes that overlap would explain the labels about as well: the number may be anywhere "
            f"between {low:,.0f} and {high:,.0f}."
        )
    return f"{about}, with 90 % probability between {low:,.0f} and {high:,.0f}."


def write_audit(
    errors: LabelErrors,
    table: Table,
    folder: str | os.PathLike[str],
    *,
    title: str,
    command: str = "unflip audit",
    compared: Mapping[str, CleanAccuracy] | None = None,
    id: str | None = None,
    exports: Sequence[str] = (),
    totals: Totals | None = None,
    raw: bool = False,
) -> dict[str, Any]:
    """Write what an audit found to a folder, and return its summary.

    ``compared`` is the result of :func:`compare_classifiers`, for the page and the summary. ``id`` is the column that
    names the rows, if there is one (:func:`named_by`); :func:`apply_corrections` will look for it. ``exports`` are
    tools that get the suspects to review, "label-studio" and "argilla", see :mod:`unflip.audit.exchange`. ``totals``
    are the numbers of all labels, if ``errors`` are only some of them; then there is no labels.csv. Unless ``raw``,
    text in the CSV files that a spreadsheet would take for a formula gets an apostrophe; :func:`apply_corrections`
    reads it without.

    ::

        suspects.csv    the labels with a better suggestion, surest first: name, given, suggested, probability_wrong;
                        looks_like_1 to 3, rows of the suggested class that look like it; and the cells of the row
        labels.csv      name, given, suggested, probability_wrong of every label, in the order of the table
        summary.json    the numbers
        index.html      the page

    The folder appears whole or not at all; an earlier result is replaced, any other folder is refused.
    """
    from unflip.page import ComparedClassifier, write_page

    for tool in exports:
        if tool not in WRITERS:
            raise ValueError(f"exports must be some of {', '.join(WRITERS)}; got {tool!r}")
    compared = compared or (totals.compared if totals is not None else {})
    scores = {name: interval(score) for name, score in compared.items()}
    summary = summarize(errors, totals) | ({"clean_accuracy": scores} if scores else {})
    summary["findings"] = [finding.as_json() for finding in table.findings]
    several = {} if table.annotations is None else {"annotators": len(table.annotations.names)}
    summary["columns"] = {"label": table.label, "id": id, **several} | ({"raw": True} if raw else {})
    review = review_of(errors, table)
    page = audit_page(
        errors,
        [str(name) for name in table.names.tolist()],
        table.X if np.ndim(table.X) == 4 else None,
        title=title,
        command=command,
        classifiers=[ComparedClassifier.of(name, score) for name, score in compared.items()],
        review=review,
        table=table,
        totals=totals,
        findings=[finding.sentence for finding in table.findings],
    )
    with written_folder(folder, FILES) as partial:
        every = {"labels.csv": np.arange(len(errors.scores))} if totals is None else {}
        for name, rows in ({"suspects.csv": errors.suspects} | every).items():
            columns = {
                "name": table.names[rows],
                "given": errors.given[rows],
                "suggested": errors.suggested[rows],
                "probability_wrong": errors.scores[rows].round(6),
            }
            if name == "suspects.csv":
                columns |= review.columns(table.names, columns)
            write_columns(partial / name, columns, raw)
        text = json.dumps({"made_with": f"unflip {__version__}", "data": title, **summary}, indent=1)
        (partial / "summary.json").write_text(text + "\n", encoding="utf-8")
        write_page(page, partial / "index.html")
        for tool in exports:
            WRITERS[tool](partial, _tasks(errors, table, review), summary["classes"], f"unflip {__version__}")
    return summary


def _tasks(errors: LabelErrors, table: Table, review: "Review") -> list[Task]:
    """Return the suspects as other tools show them."""
    from unflip.page.thumbnails import thumbnail

    suspects, images = errors.suspects, table.X if np.ndim(table.X) == 4 else None
    low, high = (0.0, 1.0) if images is None else (min(float(images.min()), 0.0), max(float(images.max()), 1.0))
    tasks = []
    for k, i in enumerate(suspects):
        found = (str(table.names[i]), str(errors.given[i]), str(errors.suggested[i]), float(errors.scores[i]))
        text = "" if review.contents is None else task_text(review.contents.columns, review.contents.cells[k])
        picture = None if images is None else thumbnail(images[i], low, high, EXPORTED_SIDE)
        tasks.append(Task(*found, text, picture))
    return tasks


@dataclass(frozen=True, eq=False)
class Review:
    """What a reviewer sees of each suspect: rows that look like it, shape (n_suspects, 3), and the cells of its row."""

    alike: IntArray
    contents: RowContents | None = None  # of the suspects; None without columns that have names

    def columns(self, names: NDArray[Any], taken: Container[str] = ()) -> dict[str, NDArray[Any]]:
        """Return columns of a file; one that has a name of ours is called "... (data)"."""
        named = np.append(names.astype(object), "")  # -1, the last, is no row
        found = {f"looks_like_{k + 1}": named[rows] for k, rows in enumerate(self.alike.T)}
        if self.contents is None:
            return found
        for k, name in enumerate(self.contents.columns):
            cells = np.array([row[k] for row in self.contents.cells], dtype=object)
            found[f"{name} (data)" if name in taken or name in found else name] = cells
        return found


def review_of(errors: LabelErrors, table: Table) -> Review:
    """Return the contents of the suspects' rows, and the confidently labeled rows that look like them."""
    suspects = errors.suspects
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # unused columns: the audit has told of them
        X = samples(table.X, "linear")
        X = Preprocessor().fit_transform(X) if hasattr(X, "columns") else np.nan_to_num(X)
    contents = row_contents(table.X, errors, suspects) if hasattr(table.X, "columns") else None
    return Review(look_alikes(X, errors, suspects, ALIKE), contents)


def summarize(errors: LabelErrors, totals: Totals | None = None) -> dict[str, Any]:
    """Return the numbers of an audit for a program."""
    totals = totals or Totals.of(errors)
    return {
        "n_samples": totals.n_rows,
        "n_suspects": totals.n_suspects,
        "expected_errors": totals.total,
        "error_rate": totals.total / totals.n_rows,
        "expected_errors_interval": list(totals.interval),
        "undecided": totals.undecided,
        "suspected_errors": totals.suspected,
        "by_rules": totals.by_rules,
        "explanation": explain_counts(totals),
        "count": explain_interval(totals),
        "classes": [str(name) for name in errors.classes.tolist()],
        "noise_rates": totals.noise_rates.tolist(),
        "expected_errors_by_given_class": totals.n_errors.tolist(),
        "transition": errors.transition.tolist(),
        "candidates": candidate_records(errors.candidates),
        "notes": errors.notes,
    }


def noisiest_class(totals: Totals) -> int | None:
    """Return the class with the highest noise rate, or None if no class stands out.

    A class stands out if its rate is above that of all labels by more than three standard errors.
    """
    rates, rate = totals.noise_rates, min(totals.total / totals.n_rows, 1.0)
    with np.errstate(divide="ignore"):
        deviation = np.sqrt(rate * (1 - rate) / totals.clean)
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
    review: Review | None = None,
    table: Table | None = None,
    totals: Totals | None = None,
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
    review, table : Review and Table, default=None
        For the contents of the suspects' rows, and the rows that look like them.
    totals : Totals, default=None
        The numbers of all labels, if ``errors`` are only some of them.
    """
    from unflip.page import Example, Page, Suspect

    totals = totals or Totals.of(errors)
    suspects, rates, worst = errors.suspects, totals.noise_rates, noisiest_class(totals)
    found = [("labels with a better suggestion", f"{totals.n_suspects:,}")]
    if worst is not None:
        found.append(("noisiest class", f"{errors.classes[worst]} ({rates[worst]:.1%})"))
    if errors.candidates:
        found.append(("model", explain_choice(errors.candidates)))
    contents = None if review is None else review.contents
    columns = [] if contents is None else contents.columns[:MOST_COLUMNS]
    near = np.empty((len(suspects), 0), dtype=np.intp) if review is None else review.alike
    examples = np.unique(near[near >= 0])
    place = {int(row): k for k, row in enumerate(examples)}
    picture = _thumbnails(images, len(suspects) + len(examples))
    cells = {} if contents is None or table is None else cells_of(table.X, columns, examples)
    return Page(
        title=title,
        summary=[*found, *summary],
        classes=[str(name) for name in errors.classes.tolist()],
        transition=errors.transition,
        noisy_counts=totals.noisy,
        clean_counts=totals.clean,
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
                picture(i),
                [] if contents is None else contents.cells[k][: len(columns)],
                [] if contents is None else [int(j) for j in contents.order[k] if j < len(columns)][:FIRST],
                [place[int(row)] for row in near[k] if row >= 0],
            )
            for k, i in enumerate(suspects)
        ],
        n_samples=totals.n_rows,
        n_suspects_total=totals.n_suspects,
        made_with=f"unflip {__version__}, {command}",
        noise_rate=min((totals.total if totals.suspected is None else totals.suspected) / totals.n_rows, 1.0),
        noise_limit=None if totals.suspected is None else min(totals.interval[1] / totals.n_rows, 1.0),
        columns=columns,
        examples=[Example(names[i], str(errors.given[i]), cells.get(i, []), picture(i)) for i in examples.tolist()],
        explanation=f"{explain_interval(totals)} {explain_counts(totals)}",
    )


def _thumbnails(images: Any, n: int) -> Callable[[int], bytes | None]:
    """Return a function that makes the small picture of a sample, the smaller the more of them there are."""
    from unflip.page.thumbnails import thumbnail

    if images is None:
        return lambda i: None
    low, high = min(float(images.min()), 0.0), max(float(images.max()), 1.0)
    largest = next((side for side, most in SIDES.items() if n <= most), min(SIDES))
    return lambda i: thumbnail(images[i], low, high, largest)


def _curves(errors: LabelErrors) -> dict[str, list[float]]:
    """Return the loss of a network by epoch, averaged over the folds."""
    losses = [[float(record["loss"]) for record in history] for history in errors.histories]
    epochs = min(map(len, losses), default=0)
    if not epochs:
        return {}
    return {f"loss, mean of {len(losses)} folds": np.mean([loss[:epochs] for loss in losses], axis=0).tolist()}
