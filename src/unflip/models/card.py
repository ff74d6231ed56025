"""A model card: what a saved model is, what it learnt from, and how far it can be trusted, in Markdown."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from unflip.models.folder import load, read_document

LARGEST_TABLE = 20  # classes up to which T is printed
SPECIAL = "\\`*_{}[]<>#|~&!$"  # characters with a meaning in Markdown, in the middle of a line
ESTIMATE = ("estimate", "low", "high")
CALLED = {
    "clean_accuracy": "estimated accuracy on clean labels",
    "baseline": "the same learner without correction",
    "data": "file",
}


def card(model_folder: str | os.PathLike[str]) -> str:
    """Return a model card in Markdown.

    Parameters
    ----------
    model_folder : path-like
        What ``save`` wrote.

    Returns
    -------
    str

    Notes
    -----
    Of a :class:`~unflip.tables.classifier.TableClassifier` it tells all of ``metadata_`` and ``metrics_``, whose values
    are numbers, strings or, for an estimate with its interval, ``{"estimate": 0.9, "low": 0.87, "high": 0.93}``. The
    names ``metadata_["data"]``, ``metrics_["clean_accuracy"]`` and ``metrics_["baseline"]`` are spelt out. The noise
    is that of the classifier, or of ``noise_`` where it has no T. Whatever comes from the data, such as class and
    column names, is escaped.
    """
    folder = Path(model_folder)
    model, versions = load(folder), read_document(folder).get("versions", {})
    classifier = getattr(model, "classifier_", model)
    noise = getattr(model, "noise_", {})
    if not hasattr(classifier, "classes_"):
        raise ValueError(f"{folder} holds a {type(model).__name__}, which is no classifier; a card describes one")
    above = bool(noise) or any(getattr(classifier, name, None) is not None for name in ("transition_", "noise_rates_"))
    sections = {
        f"# {_escaped(folder.resolve().name)}": _what(classifier),
        "## Data": _data(model, classifier),
        "## Noise found in the labels": _noise(classifier, noise),
        "## Accuracy": _accuracy(getattr(model, "metrics_", {}), above),
        "## How it was made": _origin(classifier, versions),
        "## Limits": _limits(model, classifier, above),
    }
    return "\n\n".join(f"{title}\n\n{text}" for title, text in sections.items()) + "\n"


def _what(classifier: Any) -> str:
    names = [_escaped(name) for name in classifier.classes_.tolist()]
    shown = ", ".join(names[:LARGEST_TABLE]) + (", ..." if len(names) > LARGEST_TABLE else "")
    return (
        f"A classifier of {len(names)} classes ({shown}), trained by unflip from labels some of which are wrong; it "
        "predicts the clean label."
    )


def _data(model: Any, classifier: Any) -> str:
    lines = [(CALLED.get(name, name), value) for name, value in getattr(model, "metadata_", {}).items()]
    parts = [_rows(("", ""), lines)] if lines else []
    preprocessor = getattr(model, "preprocessor_", None)
    if preprocessor is None:
        shape = " x ".join(map(str, getattr(classifier, "input_shape_", None) or [classifier.n_features_in_]))
        return "\n\n".join([*parts, f"Samples are arrays of {shape} numbers."])
    if not preprocessor.categories_ and not hasattr(preprocessor, "feature_names_in_"):
        parts.append(
            f"Samples are arrays of {preprocessor.n_features_in_} numbers; {len(preprocessor.numbers_)} are used."
        )
        return "\n\n".join(parts)
    used = [(name, "number, standardised") for name in preprocessor.numbers_]
    used += [(name, f"category, {len(values)} values") for name, values in preprocessor.categories_.items()]
    parts.append("Columns used:\n\n" + _rows(("column", "as"), used))
    if preprocessor.unused_:
        parts.append("Columns not used:\n\n" + _rows(("column", "why"), preprocessor.unused_.items()))
    return "\n\n".join(parts)


def _noise(classifier: Any, noise: dict[str, Any]) -> str:
    names = classifier.classes_.tolist()
    T, rates = getattr(classifier, "transition_", None), getattr(classifier, "noise_rates_", None)
    if T is not None:
        given = classifier.get_params(deep=False).get("transition") is not None
        return _transition(names, T, getattr(classifier, "class_prior_", None), _origin_of_noise(given))
    parts = []
    if noise:
        origin = _origin_of_noise(noise["given"]) + " The estimated accuracy rests on it; the method does not use it."
        parts.append(_transition(names, noise["transition"], noise["class_prior"], origin))
    if rates is not None:
        own = zip(names, map(_percent, rates[:, 0]), strict=True)
        parts.append("The method's own estimate:\n\n" + _rows(("class", "part of its samples with another label"), own))
    return "\n\n".join(parts) or "The method does not estimate how the labels are flipped."


def _origin_of_noise(given: bool) -> str:
    return "The noise was given." if given else "The noise was estimated from the labels themselves."


def _transition(names: list[Any], T: Any, prior: Any, origin: str) -> str:
    lost = 1 - T.diagonal()
    parts = [origin + ("" if prior is None else f" About {_percent(prior @ lost)} of the labels are wrong.")]
    shares = ["" if prior is None else _percent(share) for share in (prior if prior is not None else lost)]
    rows = zip(names, shares, map(_percent, lost), strict=True)
    parts.append(_rows(("class", "share of the clean labels", "noise rate"), rows))
    if len(names) <= LARGEST_TABLE:
        dense = T.toarray() if hasattr(T, "toarray") else T
        body = [(name, *(f"{p:.3f}" for p in row)) for name, row in zip(names, dense, strict=True)]
        parts.append("P(given label | clean label), a row for each clean label:\n\n" + _rows(("", *names), body))
    return "\n\n".join(parts)


def _accuracy(metrics: dict[str, Any], above: bool) -> str:
    if not metrics:
        return "It was not measured."
    text = _rows(("", "value"), [(CALLED.get(name, name), value) for name, value in metrics.items()])
    if "clean_accuracy" not in metrics:
        return text
    return text + (
        "\n\nThe accuracy on clean labels is estimated from noisy labels held out from training. Its interval speaks "
        f"of the sampling of data and noise; an error in the noise rates{' above' * above} is not in it."
    )


def _origin(classifier: Any, versions: dict[str, Any]) -> str:
    settings = {"method": type(classifier).__name__}
    settings.update((name, value) for name, value in classifier.get_params(deep=False).items() if value is not None)
    return _rows(("setting", "value"), settings.items()) + "\n\n" + _rows(("software", "version"), versions.items())


def _limits(model: Any, classifier: Any, above: bool) -> str:
    lines = [
        "It takes the noise to depend on the clean class alone. Where a label is wrong more often the harder the "
        f"sample is, {'the rates above are averages and ' * above}the correction is partial.",
        "It knows its classes and no others: a sample of none of them gets one of them.",
        "It was made for samples from where the training data came from; on others the accuracy above does not hold.",
    ]
    if getattr(model, "preprocessor_", None) is not None:
        lines.append("Missing numbers are replaced by the median; categories that training did not see are ignored.")
    if getattr(classifier, "transition_", None) is not None:
        lines.append(
            "Probabilities are those of clean labels under the estimated noise; they are not calibrated further."
        )
    return "\n".join(f"- {line}" for line in lines)


def _rows(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    titles = [_escaped(title) for title in header]
    body = [[_escaped(_value(cell)) for cell in row] for row in rows]
    lines = [titles, ["---"] * len(titles), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _value(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(value.get(name), int | float) for name in ESTIMATE):
        return f"{value['estimate']:.3f} ({value['low']:.3f} to {value['high']:.3f})" + "".join(
            f", {name} {item}" for name, item in value.items() if name not in ESTIMATE
        )
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_value(item) for item in value)
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _escaped(text: Any) -> str:
    """The text as one line of Markdown that shows it as it is."""
    line = " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())
    return "".join(f"\\{char}" if char in SPECIAL else char for char in line)
