"""Fit a classifier to the noisy labels of a table, and estimate how accurate it is on clean labels."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing, check_random_state

from unflip import __version__, registry
from unflip._base import resolve_transition
from unflip._validation import FloatArray, IntArray, check_transition
from unflip.commands.folders import written_folder
from unflip.core.ldce import solve_prior
from unflip.corrected import posterior_accuracy
from unflip.crowd import AnnotatorModel
from unflip.metrics import CleanAccuracy, clean_accuracy
from unflip.tables import Preprocessor, Table
from unflip.tables.classifier import TableClassifier

MODELS = ("auto", "logistic", "trees", "forest", "mcldce", "mlp", "cnn6")
NETWORKS = ("linear", "mlp", "cnn6")
# The models that are not a method with a network, as they are called in a table of accuracies.
CALLED = {"auto": "the chosen model", "logistic": "logistic regression through T"}
CALLED |= {"trees": "boosted trees through T", "forest": "extra-trees through T"}
UNCORRECTED = "ce"  # the method of a network that takes the labels as they are
FEWEST_HELD_OUT = 2
OVERLAP = (
    "Noise and overlapping classes cannot be told apart for sure in these data. More rows or better features may tell."
)
PAGE = ("index.html",)


@dataclass(frozen=True, eq=False)
class Noise:
    """How the labels of a table are flipped.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    transition : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    noisy_prior, class_prior : ndarray of shape (n_classes,)
        The share of each class among the given labels, and among the clean labels according to T.
    notes : list of str
        What the data cannot tell, a sentence each.
    """

    classes: NDArray[Any]
    transition: FloatArray
    noisy_prior: FloatArray
    class_prior: FloatArray
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        y: NDArray[Any],
        transition: FloatArray,
        sample_weight: FloatArray | None = None,
        notes: Sequence[str] = (),
    ) -> "Noise":
        """Return the noise of labels whose T is known."""
        classes, codes = np.unique(y, return_inverse=True)
        counts = np.bincount(codes, sample_weight, minlength=len(classes))
        noisy_prior = counts / counts.sum()
        return cls(classes, transition, noisy_prior, solve_prior(noisy_prior, transition), list(notes))

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.classes.tolist()]

    @property
    def noise_rates(self) -> FloatArray:
        """The share of each clean class that was given another label."""
        return 1 - np.diag(self.transition)

    @property
    def noise_rate(self) -> float:
        """The share of all labels that are wrong."""
        return float(self.class_prior @ self.noise_rates)

    def as_json(self) -> dict[str, Any]:
        """Return the values for a program, in the form that :func:`read_transition` reads."""
        names = ("transition", "noise_rate", "noise_rates", "noisy_prior", "class_prior")
        values = {name: np.asarray(getattr(self, name)).tolist() for name in names}
        return {"classes": self.names} | values | ({"notes": self.notes} if self.notes else {})


@dataclass(frozen=True, eq=False)
class FittedTable:
    """What :func:`fit_table` found.

    Attributes
    ----------
    method, network : str
        A method of the registry and what it trains; or the name of a model, such as "auto", and "linear".
    model : TableClassifier
        With ``metrics_`` filled, ready to be saved.
    noise : Noise
    accuracy : CleanAccuracy
        The model's accuracy on clean labels, estimated from noisy labels that it did not see.
    baseline_name : str
    baseline : CleanAccuracy or None
        The same for the learner without correction; None if the method is that learner, or if the learner without
        correction is among the candidates.
    n_train, n_test : int
    unused : dict of str to str
        The columns that are not used, and why.
    curves : dict of str to list of float
        For a network, by epoch: the loss, and the accuracy on the held-out noisy labels.
    findings : list of Finding
        What :func:`unflip.tables.check_table` found in the data.
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
    findings: list[Any] = field(default_factory=list)

    @property
    def scores(self) -> dict[str, CleanAccuracy]:
        """The estimated accuracies by the name of the classifier, the model's own first."""
        scores = {self.name: self.accuracy, self.baseline_name: self.baseline}
        return {name: score for name, score in scores.items() if score is not None}

    @property
    def name(self) -> str:
        """What the model is called in a table of accuracies."""
        chosen = " and ".join(candidate_name(one) for one in self.candidates if one.chosen)
        return chosen or CALLED.get(self.method) or f"{self.method}, {self.network}"

    @property
    def candidates(self) -> list[Any]:
        """The models that were compared, each a ``Candidate`` of CorrectedClassifier; empty if there was no choice."""
        return list(getattr(self.model.classifier_, "candidates_", []))


def fit_table(
    table: Table,
    *,
    model: str | None = None,
    method: str | None = None,
    network: str | None = None,
    transition: Any = None,
    test: Table | Callable[[dict[str, str]], Table] | None = None,
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
        A table from :func:`unflip.tables.read_table` with labels. Its sample weights are used.
    model : {"auto", "logistic", "trees", "forest", "mcldce", "mlp", "cnn6"}, default=None
        "auto" compares several models, with and without correction, and takes the best:
        :class:`~unflip.CorrectedClassifier`. "trees" (HistGradientBoostingClassifier) and "forest"
        (ExtraTreesClassifier) are corrected by the same class, "logistic" is the joint logistic model, "mcldce" the
        closed form, and "mlp" and "cnn6" are networks. If None, it is "auto", unless ``method`` or ``network`` is
        given. Only "cnn6" sees images as such; all others see rows of pixels.
    method : str, default=None
        Instead of a model, the name of a linear method, or of a method for networks, in :mod:`unflip.registry`; if
        None, "mcldce" for a linear model and "discounted-forward" for a network.
    network : {"linear", "mlp", "cnn6"}, default=None
        What the method trains; if None, a linear model.
    transition : array-like of shape (n_classes, n_classes) or estimator, default=None
        T[i, j] = P(noisy = j | clean = i), or an estimator of it. If None, T is estimated by the default estimator. For
        a method that does not use T, it serves the estimated accuracy only.
    test : Table or callable, default=None
        Noisy labels to estimate the accuracy from, or a function that reads them, given the kinds of the columns that
        the training data showed. If None, part of the table is held out.
    holdout : float, default=0.2
        The share of each class that is held out, and not trained on, if there is no ``test``.
    epochs : int, default=None
        Epochs of a network. If None, they depend on the size of the data.
    random_state : int, RandomState instance or None, default=None
    progress : bool or "auto", default=False
        Whether to show the progress of a network.
    tell : callable
        Called with a text when a step begins. By default, nothing is told.
    """
    method, network = resolve_model(model, method, network)
    y, weights, crowd = labels(table), table.sample_weight, table.annotations
    if crowd is not None:
        check_crowd(method, transition, test)
    estimates = transition is None or hasattr(transition, "fit")
    given = None if estimates else check_transition(transition, len(np.unique(y)))
    common: dict[str, Any] = {"random_state": random_state, "progress": progress}
    options: dict[str, Any] = {"epochs": epochs, **common}
    classifier = make_classifier(method, network, transition if estimates else given, **options)
    learner = TableClassifier(classifier, text=table.text)
    X, unused, source = samples(table.X, network), {}, None
    if test is None:
        # Only the whole table tells a column that numbers the rows from any other.
        unused = unused_columns(X)
        X = X.drop(columns=list(unused)) if unused else X
        parts = _split(y, holdout, random_state)
        X, X_test = (_safe_indexing(X, rows) for rows in parts)
        y, y_test = (y[rows] for rows in parts)
        weights, test_weights = (None if weights is None else weights[rows] for rows in parts)
        given_labels: Any = y if crowd is None else crowd.take(parts[0])
    else:
        given_labels = y
    raw = learner.fit_preprocessor(X)
    if test is not None:
        test = test(learner.kinds) if callable(test) else test
        X_test, y_test, test_weights = samples(test.X, network), labels(test), test.sample_weight
        check_same_kind(y, y_test)
    X_train, X_test = learner.standardized(raw), learner.samples(X_test)
    if network != "linear" and estimates and registry.find(method, "deep").takes_transition:
        tell(f"estimating T from {len(y):,} rows")
        estimator = transition or make_transition_estimator(None, network, X_train, **common)
        estimate, source = estimated_transition(X_train, y, weights, estimator)
        learner.classifier.set_params(transition=estimate)
    what = "comparing models on" if method == "auto" else f"fitting {CALLED.get(method, f'{method}, {network},')} to"
    tell(f"{what} {len(y):,} rows")
    evaluate = None if network == "linear" else (X_test, y_test)
    learner.fit_features(raw, given_labels, weights, evaluate=evaluate)
    if network != "linear" and estimates:
        for classifier in (learner.classifier, learner.classifier_):  # so that it reads as T estimated, not as given
            classifier.set_params(transition=None)
    T = given if given is not None else getattr(learner.classifier_, "transition_", None)
    source = learner.classifier_ if source is None else source
    if T is None:
        tell("estimating T, which the method itself does not need")
        seen = raw if network == "linear" else X_train
        estimator = transition or make_transition_estimator(None, network, seen, **common)
        T, source = estimated_transition(seen, y, weights, estimator)
    known: dict[str, Any] = {"classes": learner.classes_}
    if given is None:
        known |= {"transition_std": transition_std(source), "alternatives": getattr(source, "alternatives_", ())}
    notes = getattr(learner.classifier_, "notes_", overlap_notes(source) if given is None else [])

    if crowd is not None:  # the labels alone, so that the model is not its own judge
        judged = AnnotatorModel().fit(crowd).posterior_[parts[1]]

    def score(classifier: Any) -> CleanAccuracy:
        if crowd is not None:
            predicted = np.searchsorted(crowd.classes, classifier.predict(X_test))
            return posterior_accuracy(judged, predicted, test_weights)
        return clean_accuracy(y_test, classifier.predict(X_test), T, sample_weight=test_weights, **known)

    accuracy, baseline, curves = score(learner.classifier_), None, _curves(method, learner.classifier_)
    candidates = getattr(learner.classifier_, "candidates_", [])
    name, uncorrected = make_baseline(network, len(learner.classes_), method=method, **options)
    if method != UNCORRECTED and not candidates:
        tell(f"fitting {name}")
        uncorrected.fit(X_train, y, sample_weight=weights, **({} if evaluate is None else {"evaluate": evaluate}))
        baseline = score(uncorrected)
        curves |= _curves(name.split()[0], uncorrected)
    noise = Noise.of(y, T, weights, notes) if crowd is None else crowd_noise(learner)
    unused = {**unused, **learner.unused_}
    if learner.preprocessor_ is not None:
        learner.preprocessor_.unused_ = unused  # so that the model's card shows them
    if getattr(learner.classifier_, "transition_", None) is None:  # otherwise it is saved with the classifier
        learner.noise_ = {"transition": T, "class_prior": noise.class_prior, "given": given is not None}
    learner.metrics_ = {"clean_accuracy": interval(accuracy), "held-out rows": len(y_test)}
    if baseline is not None:
        learner.metrics_["baseline"] = {**interval(baseline), "learner": name}
    if candidates:
        learner.metrics_ |= {f"compared: {candidate_name(one)}": interval(one.accuracy) for one in candidates}
        learner.metrics_["choice"] = explain_choice(candidates)
    learner.metadata_ = {"rows trained on": len(y), "noise rate": noise.noise_rate}
    if np.ndim(table.X) > 2:
        learner.metadata_["image shape"] = list(table.X.shape[1:])
    told = (len(y), len(y_test), unused, curves, table.findings)
    return FittedTable(method, network, learner, noise, accuracy, name, baseline, *told)


def check_crowd(method: str, transition: Any, test: Any = None) -> None:
    """Refuse what the labels of several annotators do not go with."""
    if method not in ("auto", "trees", "forest"):
        raise ValueError(
            f"{method!r} takes one label per row; with several annotators, choose model auto, trees or forest"
        )
    if transition is not None:
        raise ValueError("each annotator has a T of their own, which is estimated; leave transition out")
    if test is not None:
        raise ValueError("with several annotators, part of the table is held out to judge by; leave test out")


def crowd_noise(model: Any) -> Noise:
    """Return the noise of all labels of several annotators, found by a fitted model."""
    model = getattr(model, "classifier_", model)
    crowd = model.annotator_model_
    counts = crowd.annotations_.counts.sum(axis=0)
    return Noise(model.classes_, model.transition_, counts / counts.sum(), model.class_prior_, list(model.notes_))


def resolve_model(
    model: str | None, method: str | None, network: str | None, *, proper: bool = False
) -> tuple[str, str]:
    """Return the method and the network of a model; the model is "auto" if none of the three is given.

    If no method is named, a network is trained by discounted forward correction; if its probabilities matter and not
    only its predictions (``proper``), by forward correction, whose loss is a proper score.
    """
    default = "forward" if proper else "discounted-forward"
    if model is None and method is None and network is None:
        return "auto", "linear"
    if model is None:
        network = network or "linear"
        return method or ("mcldce" if network == "linear" else default), network
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}; got {model!r}")
    if network not in (None, model):
        raise ValueError(f"model {model} and network {network} exclude each other; give one of them")
    if model in NETWORKS:
        return method or default, model
    if method is not None:
        raise ValueError(f"model {model} has no methods; leave out method {method}, or give it with network linear")
    return model, "linear"


def candidate_name(candidate: Any) -> str:
    """Return what a ``Candidate`` of CorrectedClassifier is called in a sentence or a table."""
    return f"{candidate.name}, {'corrected' if candidate.corrected else 'uncorrected'}"


def candidate_records(candidates: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the candidates for a program."""
    return [
        {
            "name": one.name,
            "corrected": bool(one.corrected),
            "clean_accuracy": interval(one.accuracy),
            "chosen": bool(one.chosen),
        }
        for one in candidates
    ]


def explain_choice(candidates: Sequence[Any]) -> str:
    """Return a sentence that says which candidate was chosen, and why."""
    (chosen,) = (one for one in candidates if one.chosen)
    best = max(candidates, key=lambda one: one.accuracy.estimate)
    if len({one.name for one in candidates}) == 1:  # one model, as it is and through T
        reason = "the labels are noisy" if chosen.corrected else "the labels do not show that they are noisy"
    elif best.chosen:
        reason = "its estimated accuracy is the highest"
    else:
        gain = 100 * (best.accuracy.estimate - chosen.accuracy.estimate)
        reason = f"{candidate_name(best)} is estimated {gain:.1f} points higher, which is too little to be sure"
    return f"Chosen: {candidate_name(chosen)}; {reason}."


def write_fit_page(
    fitted: FittedTable, folder: str | os.PathLike[str], *, title: str, command: str = "unflip fit"
) -> Path:
    """Write ``index.html``, with the noise and the accuracies of the classifiers, to a folder, and return its path.

    The folder appears whole or not at all; an earlier result is replaced, any other folder is refused.
    """
    from unflip.page import ComparedClassifier, Page, write_page

    noise, n = fitted.noise, fitted.n_train
    page = Page(
        title=title,
        summary=[
            ("classifier", next(iter(fitted.scores))),
            ("trained on", f"{n:,} rows"),
            ("evaluated on", f"{fitted.n_test:,} noisy labels that it did not see"),
        ],
        classes=noise.names,
        transition=noise.transition,
        noisy_counts=n * noise.noisy_prior,
        clean_counts=n * noise.class_prior,
        noise_rates=noise.noise_rates,
        curves=fitted.curves,
        classifiers=[ComparedClassifier.of(name, score) for name, score in fitted.scores.items()],
        suspects=None,
        findings=[finding.sentence for finding in fitted.findings],
        n_samples=n,
        n_suspects_total=0,
        made_with=f"unflip {__version__}, {command}",
    )
    with written_folder(folder, PAGE) as partial:
        write_page(page, partial / PAGE[0])
    return Path(folder) / PAGE[0]


def make_classifier(
    method: str,
    network: str,
    transition: Any,
    *,
    epochs: int | None = None,
    random_state: Any = None,
    progress: bool | str = False,
) -> Any:
    """Return the unfitted classifier of a method, with T or its estimator if the method takes one."""
    check_network(network, epochs)
    if network == "linear" and method in CALLED:
        return _make_model(method, transition, random_state)
    family: registry.Family = "linear" if network == "linear" else "deep"
    if method not in registry.names(family):
        kind = "linear models" if family == "linear" else "networks"
        raise ValueError(
            f"{method!r} is not a method for {kind}; choose one of {', '.join(registry.names(family))}"
            + (". To train a network, choose network mlp or cnn6" if family == "linear" else "")
        )
    given = {"transition": transition, "random_state": random_state}
    if family == "deep":
        options = {"method": method, "network": network, "epochs": epochs, "progress": progress}
        return registry.make("NoisyLabelClassifier", **options, **given)
    cls = registry.find(method, family).load()
    return cls(**{name: value for name, value in given.items() if name in cls().get_params(deep=False)})


def _make_model(name: str, transition: Any, random_state: Any) -> Any:
    if name == "logistic":
        return registry.make("ForwardLogisticClassifier", transition=transition)
    options = {"transition": transition, "random_state": random_state}
    return registry.make("CorrectedClassifier", estimator=_make_trees(name, random_state), **options)


def _make_trees(name: str, random_state: Any) -> Any:
    """Return the trees that are to be corrected, or None if the model is to be chosen."""
    if name == "auto":
        return None
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

    if name == "forest":
        return ExtraTreesClassifier(200, min_samples_leaf=2, random_state=random_state)
    return HistGradientBoostingClassifier(random_state=random_state)


def make_baseline(network: str, n_classes: int, method: str = "mcldce", **options: Any) -> tuple[str, Any]:
    """Return the name and the classifier that takes the noisy labels as they are; see :func:`make_classifier`."""
    if network != "linear":
        return "cross-entropy without correction", make_classifier(UNCORRECTED, network, None, **options)
    if method == "logistic":  # through T = I it is plain logistic regression
        return "logistic regression without correction", make_classifier(method, network, np.eye(n_classes), **options)
    if method in CALLED:
        kind, name = ("forest", "extra-trees") if method == "forest" else ("trees", "boosted trees")
        return f"{name} without correction", _make_trees(kind, options.get("random_state"))
    return "ridge without correction", make_classifier("mcldce", network, np.eye(n_classes), **options)


def make_transition_estimator(
    name: str | None, network: str, X: Any = None, *, random_state: Any = None, progress: bool | str = False
) -> Any:
    """Return an estimator of T by its name in the registry.

    If None, it is the default: VolMin, which is a classifier as well, or for a network that of NoisyLabelClassifier
    for the samples X, or without X CrossFitEM with that network.
    """
    check_network(network)
    given = {"random_state": random_state, "progress": progress}
    given |= {} if network == "linear" else {"network": network}
    if name is None and network != "linear" and X is not None:
        from unflip.deep.classifier import default_estimator

        return default_estimator(X, **given)
    cls = registry.find(name or ("volmin" if network == "linear" else "crossfit-em"), "transition").load()
    return cls(**{key: value for key, value in given.items() if key in cls().get_params(deep=False)})


def estimated_transition(
    features: Any, y: NDArray[Any], weights: FloatArray | None, estimator: Any
) -> tuple[FloatArray, Any]:
    """Return T, estimated from the :func:`features` of a table, and the fitted estimator."""
    classes, codes = np.unique(y, return_inverse=True)
    return resolve_transition(None, estimator, features, codes, classes, weights)


def transition_std(model: Any) -> FloatArray | None:
    """Return the standard errors of a model's T, or of the estimator that it came from; None if they are unknown."""
    source = model if hasattr(model, "transition_std_") else getattr(model, "transition_estimator_", None)
    return getattr(source, "transition_std_", None)


def overlap_notes(estimator: Any) -> list[str]:
    """Return what a user should know about T: what the estimator says, or that the labels do not tell it for sure."""
    return list(getattr(estimator, "notes_", [OVERLAP] if getattr(estimator, "overlap_", False) else []))


def features(table: Table, network: str) -> Any:
    """Return the samples of a table as an estimator of T takes them.

    The numbers are standardized for a network only: VolMin chooses the scale of the features itself. Pixels and
    embeddings have one scale in common, which would be lost.
    """
    X = samples(table.X, network)
    if np.ndim(X) > 2:
        return X
    text: Any = "lsa" if table.text == "tfidf" and network != "linear" else table.text
    found = Preprocessor(standardize=network != "linear", text=text).fit_transform(X)
    return found.toarray() if network != "linear" and sparse.issparse(found) else found  # networks take dense arrays


def samples(X: Any, network: str) -> Any:
    """Return X as the network takes it: images as rows of pixels, except for ``cnn6``."""
    check_network(network)
    if network == "cnn6" and np.ndim(X) < 3:
        raise ValueError("network cnn6 needs images, but this is a table; choose linear or mlp")
    return X.reshape(len(X), -1) if network != "cnn6" and np.ndim(X) > 2 else X


def unused_columns(X: Any) -> dict[str, str]:
    """Return the columns of a data frame that cannot be used, and why."""
    return Preprocessor().choose(X).unused_ if hasattr(X, "columns") else {}


def labels(table: Table) -> NDArray[Any]:
    """Return the labels of a table, or explain that it has none."""
    if table.y is None:
        raise ValueError("the table has no labels; give the name of their column (in an NPZ file, their key)")
    return table.y


def check_network(network: str, epochs: int | None = None) -> None:
    if network not in NETWORKS:
        raise ValueError(f"network must be one of {', '.join(NETWORKS)}; got {network!r}")
    if network == "linear" and epochs is not None:
        raise ValueError("epochs apply to networks, not to a linear model; leave them out, or choose mlp or cnn6")
    if network != "linear" and find_spec("torch") is None:
        raise ModuleNotFoundError(f"the network {network} needs PyTorch: pip install 'unflip[deep]'")


def check_same_kind(y: NDArray[Any], y_test: NDArray[Any]) -> None:
    """Refuse test labels that are not of the kind of the training labels."""
    if y.dtype.kind != y_test.dtype.kind:
        kinds = {"U": "text", "i": "whole numbers", "b": "booleans"}
        raise ValueError(
            f"the labels are {kinds[y.dtype.kind]}, but those of the test data are {kinds[y_test.dtype.kind]}; write "
            "both in the same way"
        )


def interval(score: CleanAccuracy) -> dict[str, float]:
    """Return an estimate with its interval, both clipped to 0 .. 1, in the form that a model's card prints."""
    return {"estimate": min(max(score.estimate, score.low), score.high), "low": score.low, "high": score.high}


def _curves(name: str, classifier: Any) -> dict[str, list[float]]:
    history = getattr(classifier, "history_", [])
    titles = {"loss": "loss", "accuracy": "accuracy on held-out noisy labels"}
    found = {f"{name}: {title}": [record.get(key) for record in history] for key, title in titles.items()}
    return {title: values for title, values in found.items() if values and None not in values}


def _split(y: NDArray[Any], share: float, random_state: Any) -> tuple[IntArray, IntArray]:
    """Hold out a share of each class; a label that occurs once stays in training, so that no class is lost."""
    if not 0 < share < 1:
        raise ValueError(f"holdout must be the share of the rows to hold out, between 0 and 1; got {share}")
    random = check_random_state(random_state)
    _, codes = np.unique(y, return_inverse=True)
    held_out = np.zeros(len(y), dtype=bool)
    for k in range(codes.max() + 1):
        rows = random.permutation(np.flatnonzero(codes == k))
        held_out[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
    if held_out.sum() < FEWEST_HELD_OUT:
        raise ValueError(
            f"{len(y)} rows are too few to hold {share:.0%} of them out; give other rows as a test file, or more data"
        )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
