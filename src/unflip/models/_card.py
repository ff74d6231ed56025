"""The model card: what a saved model is, what it learned from, and how far it can be trusted, in Markdown."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from unflip import registry
from unflip.models.folder import load, read_document

LARGEST_TABLE = 20  # classes up to which T is printed
SPECIAL = "\\`*_{}[]<>#|~&!$"  # characters with a meaning in Markdown, in the middle of a line
ESTIMATE = ("estimate", "low", "high")
CALLED = {"clean_accuracy": "estimated accuracy on clean labels", "baseline": "the same learner without correction"}
CALLED["data"] = "file"


def card(model_folder: str | os.PathLike[str], *, network: Any = None) -> str:
    """Return the model card, in Markdown, of the folder that ``save`` wrote.

    For a :class:`~unflip.tables.TableClassifier` the card shows all of ``metadata_`` and ``metrics_``. Their values are
    numbers, strings or, for an estimate with its interval, ``{"estimate": 0.9, "low": 0.87, "high": 0.93}``. The names
    ``metadata_["data"]``, ``metrics_["clean_accuracy"]`` and ``metrics_["baseline"]`` are spelled out. The noise is
    that of the classifier, or ``noise_`` if the classifier has no T. Whatever comes from the data, such as the names of
    classes and columns, is escaped. ``network`` is that of :func:`unflip.load`.
    """
    folder = Path(model_folder)
    model, versions = load(folder, network=network), read_document(folder).get("versions", {})
    classifier = getattr(model, "classifier_", model)
    noise = getattr(model, "noise_", {})
    if not hasattr(classifier, "classes_"):
        raise ValueError(f"{folder} holds a {type(model).__name__}, not a classifier; only a classifier has a card")
    known = bool(noise) or any(getattr(classifier, name, None) is not None for name in ("transition_", "noise_rates_"))
    given = classifier.get_params(deep=False).items()
    settings = {"method": type(classifier).__name__} | {name: _used(classifier, name, value) for name, value in given}
    names = [_escaped(name) for name in classifier.classes_.tolist()]
    shown = ", ".join(names[:LARGEST_TABLE]) + (", ..." if len(names) > LARGEST_TABLE else "")
    if network is not None:
        settings["network"] = getattr(classifier, "network_class_", None)
    made_with = [item for item in settings.items() if item[1] is not None]
    sections = {
        f"# {_escaped(Path(os.path.realpath(folder)).name)}": f"A classifier of {len(names)} classes ({shown}). unflip "
        "trained it from labels of which some are wrong; it predicts the clean label.",
        "## Data": _data(model, classifier),
        "## Noise found in the labels": _noise(classifier, noise),
        "## Accuracy": _accuracy(getattr(model, "metrics_", {}), known),
        "## How it was made": f"{_table(('setting', 'value'), made_with)}\n\n"
        + _table(("software", "version"), versions.items()),
        "## Limits": _limits(model, classifier, known),
    }
    return "\n\n".join(f"{title}\n\n{text}" for title, text in sections.items()) + "\n"


def _data(model: Any, classifier: Any) -> str:
    lines = [(CALLED.get(name, name), value) for name, value in getattr(model, "metadata_", {}).items()]
    parts = [_table(("", ""), lines)] if lines else []
    preprocessor = getattr(model, "preprocessor_", None)
    if preprocessor is None:
        shape = " x ".join(map(str, getattr(classifier, "input_shape_", None) or [classifier.n_features_in_]))
        parts.append(f"Samples are arrays of {shape} numbers.")
    elif not preprocessor.categories_ and not hasattr(preprocessor, "feature_names_in_"):
        given, used = preprocessor.n_features_in_, len(preprocessor.numbers_)
        parts.append(f"Samples are arrays of {given} numbers, {used} of which are used.")
    else:
        number = "number, standardized" if preprocessor.standardize else "number"
        columns = [(name, number) for name in preprocessor.numbers_]
        columns += [(name, f"category, {len(values)} values") for name, values in preprocessor.categories_.items()]
        parts.append("Columns used:\n\n" + _table(("column", "as"), columns))
        if preprocessor.unused_:
            parts.append("Columns not used:\n\n" + _table(("column", "why"), preprocessor.unused_.items()))
    return "\n\n".join(parts)


def _noise(classifier: Any, noise: dict[str, Any]) -> str:
    names = classifier.classes_.tolist()
    T, rates = getattr(classifier, "transition_", None), getattr(classifier, "noise_rates_", None)
    if T is not None:
        entry = registry.entry_of(classifier)
        learned = entry is not None and entry.learns_transition  # from a T that was given, perhaps
        given = not learned and classifier.get_params(deep=False).get("transition") is not None
        return _transition(names, T, getattr(classifier, "class_prior_", None), given)
    parts = []
    if noise:
        unused = " It is used to estimate the accuracy; the method does not use it."
        parts.append(_transition(names, noise["transition"], noise["class_prior"], noise["given"], unused))
    if rates is not None:
        own = zip(names, map(_percent, rates[:, 0]), strict=True)
        parts.append("The method's own estimate:\n\n" + _table(("class", "share with another label"), own))
    return "\n\n".join(parts) or "The method does not estimate how the labels are flipped."


def _transition(names: list[Any], T: Any, prior: Any, given: bool, more: str = "") -> str:
    lost = 1 - T.diagonal()
    origin = ("The noise was given." if given else "The noise was estimated from the labels themselves.") + more
    parts = [origin + ("" if prior is None else f" About {_percent(prior @ lost)} of the labels are wrong.")]
    shares = ["" for _ in names] if prior is None else map(_percent, prior)
    rows = zip(names, shares, map(_percent, lost), strict=True)
    parts.append(_table(("class", "share of the clean labels", "noise rate"), rows))
    if len(names) <= LARGEST_TABLE:
        dense = T.toarray() if hasattr(T, "toarray") else T
        body = [(name, *(f"{p:.3f}" for p in row)) for name, row in zip(names, dense, strict=True)]
        parts.append("P(given label | clean label), one row per clean label:\n\n" + _table(("", *names), body))
    return "\n\n".join(parts)


def _accuracy(metrics: dict[str, Any], known: bool) -> str:
    if not metrics:
        return "It was not measured."
    text = _table(("", "value"), [(CALLED.get(name, name), value) for name, value in metrics.items()])
    if "clean_accuracy" not in metrics:
        return text
    return text + (
        "\n\nThe accuracy on clean labels is estimated from noisy labels held out from training. Its interval covers "
        f"the sampling of data and noise, but not an error in the noise rates{' above' * known}."
    )


def _limits(model: Any, classifier: Any, known: bool) -> str:
    lines = [
        "The model assumes that the noise depends on the clean class alone. Where harder samples are mislabeled more "
        f"often, {'the rates above are averages and ' * known}the correction is partial.",
        "The model knows only its own classes: a sample of another class is given one of them.",
        "The accuracy above holds for samples from the same source as the training data, not for others.",
    ]
    if getattr(model, "preprocessor_", None) is not None:
        lines.append("Missing numbers are replaced by the median; categories that training did not see are ignored.")
    lines += _probabilities(classifier)
    return "\n".join(f"- {line}" for line in lines)


def _probabilities(classifier: Any) -> list[str]:
    """Say what the probabilities of a classifier are good for."""
    entry = registry.entry_of(classifier)
    if entry is None:
        return []
    options = classifier.get_params(deep=False)
    published = "published" in (options.get("operator"), (options.get("method_options") or {}).get("operator"))
    if entry.robust or entry.biased or published:
        return ["Probabilities serve to choose a class; where classes overlap, they are biased."]
    if (entry.takes_transition or entry.learns_transition) and getattr(classifier, "corrected_", True):
        return ["Probabilities are those of clean labels under the noise above; they are not calibrated further."]
    return ["Probabilities are roughly those of the labels as given, errors included: no T corrects them."]


def _table(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    titles = [_escaped(title) for title in header]
    body = [[_escaped(_value(cell)) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [titles, ["---"] * len(titles), *body])


def _used(classifier: Any, name: str, value: Any) -> Any:
    """Return the value of a setting, or, if it was left open, the one that ``fit`` chose."""
    is_open = value is None or (isinstance(value, str) and value == "auto")
    chosen = getattr(classifier, f"{name}_", None) if is_open else None
    return chosen if isinstance(chosen, int | float | str) else value


def _value(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(value.get(name), int | float) for name in ESTIMATE):
        more = "".join(f", {name} {item}" for name, item in value.items() if name not in ESTIMATE)
        return f"{value['estimate']:.3f} ({value['low']:.3f} to {value['high']:.3f}){more}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value))
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _escaped(text: Any) -> str:
    """Return the text as one line of Markdown that shows it as it is."""
    line = " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())
    return "".join(f"\\{char}" if char in SPECIAL else char for char in line)
