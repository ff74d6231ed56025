"""The page that a person looks at: one HTML file with the noise that was found and the labels that are suspect."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import FloatArray, check_transition
from unflip.report import _write

try:
    from jinja2 import Environment, StrictUndefined, Template
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the page needs jinja2: pip install unflip[report]") from error

PNG = b"\x89PNG\r\n\x1a\n"
LEVELS = 24  # shades of the heat map; one path each, however many classes there are
FLIPS = 8  # the most frequent flips that are put into words


@dataclass(frozen=True)
class Suspect:
    """A sample whose label is probably wrong.

    ``name`` is its row number or file name, ``probability`` that its label ``given`` is wrong, ``suggested`` the label
    it should have, ``thumbnail`` a small PNG.
    """

    name: str
    given: str
    suggested: str
    probability: float
    thumbnail: bytes | None = None


@dataclass(frozen=True)
class ComparedClassifier:
    """A classifier's estimated clean accuracy with its interval, and what was measured on labels, as fractions."""

    name: str
    accuracy_estimate: float
    low: float
    high: float
    noisy_accuracy: float | None = None
    clean_accuracy: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Page:
    """What the page shows, as plain data.

    Parameters
    ----------
    title : str
    summary : sequence of (label, text)
        Facts at the top, such as ("classifier", "MC-LDCE").
    classes : sequence of str
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    noisy_counts, clean_counts : array-like of shape (n_classes,)
        Samples of each class by the given labels, and as estimated of the true ones.
    noise_rates : array-like of shape (n_classes,)
        The share of each true class that was given another label, 1 - T[i, i].
    curves : mapping of str to sequence of float
        A value an epoch; a value that is not finite leaves a gap.
    classifiers : sequence of ComparedClassifier
    suspects : sequence of Suspect
        In the order of the export; their labels are among ``classes``.
    n_samples, n_suspects_total : int
        Of the data, which may be more than the page lists.
    made_with : str
        The line at the foot: program, version, command.
    """

    title: str
    summary: Sequence[tuple[str, str]]
    classes: Sequence[str]
    transition: ArrayLike
    noisy_counts: ArrayLike
    clean_counts: ArrayLike
    noise_rates: ArrayLike
    curves: Mapping[str, Sequence[float]]
    classifiers: Sequence[ComparedClassifier]
    suspects: Sequence[Suspect]
    n_samples: int
    n_suspects_total: int
    made_with: str


def write_page(page: Page, path: str | Path) -> Path:
    """Write the page as one HTML file that needs no network, and return its path.

    The file appears whole or not at all; the same data give the same bytes. Every name stays text: the template escapes
    it, the data lie in a JSON block without ``<``, and the page's policy lets no script run but its own, known by its
    hash.

    Notes
    -----
    The page exports ``name,given,corrected`` of the ticked suspects as CSV by RFC 4180 (CRLF, quotes where needed,
    UTF-8 without a mark), with every value exactly as it came: the file is there to be joined with the data by name.
    A value that a spreadsheet would take for a formula (it begins with ``= + - @``, a tab or a return, and is no
    number) is therefore not altered; the page says how many there are and to import them as text.

    Raises
    ------
    ValueError
        Something of the page contradicts the rest, or a name cannot be written as UTF-8.
    ModuleNotFoundError
        There is no jinja2.
    """
    T, counts = _check(page)
    script = _part("page.js")
    html = _template().render(
        page=page,
        n_classes=len(T),
        noise_rate=1 - float(counts["clean_counts"] @ np.diag(T)) / float(counts["clean_counts"].sum()),
        heat=_heat(T),
        flips=_flips(T, counts["clean_counts"]),
        counts=counts,
        axis=_axis(page.classifiers),
        curves=[_curve(name, values) for name, values in page.curves.items()],
        has_thumbnails=any(suspect.thumbnail for suspect in page.suspects),
        data=_data(page, T),
        script=script,
        style=_part("page.css"),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    try:
        content = html.encode()
    except UnicodeEncodeError as error:
        bad = html[error.start : error.end]
        raise ValueError(f"a name on the page has {bad!r}, which is no character: decode it as text first") from error
    return _write(Path(path), content)


def _check(page: Page) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return T and the arrays of a value a class, or say what is wrong with the page."""
    for name in page.classes:
        if not isinstance(name, str):
            raise ValueError(f"classes must be text; got {name!r}. Write them as [str(name) for name in classes]")
    if len(set(page.classes)) != len(page.classes):
        raise ValueError(f"classes has a name twice: {sorted(page.classes)}; every class needs a name of its own")
    T = check_transition(page.transition, len(page.classes), invertible=False)
    counts = {}
    for field in ("noisy_counts", "clean_counts", "noise_rates"):
        values = np.asarray(getattr(page, field), dtype=np.float64)
        if values.shape != (len(T),) or not np.isfinite(values).all() or values.min() < 0:
            raise ValueError(f"{field} must be one number >= 0 for each of the {len(T)} classes; got {values.tolist()}")
        counts[field] = values
    for field in ("noisy_counts", "clean_counts"):
        if not counts[field].sum() > 0:
            raise ValueError(f"{field} is zero for every class; give the number of samples of each class")
    if counts["noise_rates"].max() > 1:
        raise ValueError(f"noise_rates must be fractions, 1 - T[i, i]; got {counts['noise_rates'].max():g}")
    if not len(page.suspects) <= page.n_suspects_total <= page.n_samples:
        raise ValueError(
            f"{len(page.suspects)} suspects are listed of n_suspects_total={page.n_suspects_total} among "
            f"n_samples={page.n_samples}; each number must be at least the one before"
        )
    for entry in page.classifiers:
        if not all(map(np.isfinite, (entry.accuracy_estimate, *_numbers(entry)))):
            raise ValueError(f"the numbers of {entry.name!r} must be finite; got {entry}. What is unknown is None")
        if not entry.low <= entry.accuracy_estimate <= entry.high:
            raise ValueError(
                f"the estimate of {entry.name!r}, {entry.accuracy_estimate:g}, must lie in its interval; "
                f"got {entry.low:g} to {entry.high:g}"
            )
    known = set(page.classes)
    for suspect in page.suspects:
        _check_suspect(suspect, known)
    return T, counts


def _check_suspect(suspect: Suspect, classes: set[str]) -> None:
    if not isinstance(suspect.name, str):
        raise ValueError(f"suspect {suspect.name!r} must be named by text; write {str(suspect.name)!r}")
    for label in (suspect.given, suspect.suggested):
        if label not in classes:
            raise ValueError(f"suspect {suspect.name!r} has the label {label!r}, which is none of the classes")
    if not 0 <= suspect.probability <= 1:
        raise ValueError(f"suspect {suspect.name!r} has probability {suspect.probability}; it must be in 0 .. 1")
    if suspect.thumbnail is not None and not suspect.thumbnail.startswith(PNG):
        raise ValueError(f"the thumbnail of suspect {suspect.name!r} is no PNG; it begins {suspect.thumbnail[:8]!r}")
    try:
        suspect.name.encode()  # JSON would carry a lone surrogate, but the exported CSV could not
    except UnicodeEncodeError as error:
        raise ValueError(
            f"suspect {suspect.name!r} has a name that is no text: rename the file, or give its row number"
        ) from error


def _data(page: Page, T: FloatArray) -> str:
    """Return what the script reads, as JSON without the characters that mean something in HTML."""
    code = {name: i for i, name in enumerate(page.classes)}
    thumbnails = [base64.b64encode(suspect.thumbnail or b"").decode() for suspect in page.suspects]
    data: dict[str, Any] = {
        "classes": list(page.classes),
        "transition": np.round(T, 5).tolist(),
        "name": [suspect.name for suspect in page.suspects],
        "given": [code[suspect.given] for suspect in page.suspects],
        "suggested": [code[suspect.suggested] for suspect in page.suspects],
        "probability": [round(float(suspect.probability), 6) for suspect in page.suspects],
        "thumbnail": thumbnails if any(thumbnails) else [],
    }
    text = json.dumps(data, separators=(",", ":"))
    # The browser keeps the ticks under this name, so those of another page are never taken for this one's.
    text = f'{{"key":"unflip-{hashlib.sha256(text.encode()).hexdigest()[:16]}",{text[1:]}'
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _heat(T: FloatArray) -> dict[str, Any]:
    """Return the cells of T as SVG paths by shade, in units of a cell; flips are shaded up to the largest of them."""
    flips = np.where(np.eye(len(T), dtype=bool), 0, T)
    largest = float(flips.max())
    shades = np.rint(flips / largest * LEVELS).astype(int) if largest > 0 else np.zeros(T.shape, dtype=int)
    paths: dict[int, list[str]] = {}
    for i, row in enumerate(shades):
        for shade, run in groupby(range(len(T)), key=row.__getitem__):  # equal neighbours are one rectangle
            cells = list(run)
            paths.setdefault(int(shade), []).append(f"M{cells[0]} {i}h{len(cells)}v1h-{len(cells)}z")
    paths.pop(0, None)
    return {
        "largest": largest,
        "flipped": [(shade / LEVELS, "".join(paths[shade])) for shade in sorted(paths)],
        "kept": [(float(T[i, i]), f"M{i} {i}h1v1h-1z") for i in range(len(T))],
        "strength": flips / largest if largest > 0 else flips,
        "values": T,
    }


def _flips(T: FloatArray, clean_counts: FloatArray) -> list[tuple[int, int, float, float]]:
    """Return the most frequent flips as (clean, noisy, probability, expected number of samples)."""
    expected = clean_counts[:, None] * T
    np.fill_diagonal(expected, 0)
    order = np.argsort(-expected, axis=None, kind="stable")[:FLIPS]
    cells = (divmod(int(flat), len(T)) for flat in order)
    return [(i, j, float(T[i, j]), float(expected[i, j])) for i, j in cells if expected[i, j] > 0]


def _axis(classifiers: Sequence[ComparedClassifier]) -> list[float]:
    """Return the ticks of an axis that holds every number of the classifiers, at most seven round ones."""
    numbers = [number for entry in classifiers for number in _numbers(entry)]
    if not numbers:
        return []
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        first = int(np.floor(min(numbers) / step + 1e-9))
        last = max(int(np.ceil(max(numbers) / step - 1e-9)), first + 1)
        if last - first <= 6:
            break
    return [tick * step for tick in range(first, last + 1)]


def _numbers(entry: ComparedClassifier) -> list[float]:
    ends = entry.low, entry.high, entry.noisy_accuracy, entry.clean_accuracy
    return [number for number in ends if number is not None]


def _curve(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Return a curve as the points of its unbroken pieces in a box of 100 x 100, with the numbers to write there."""
    y = np.asarray(values, dtype=np.float64)
    finite = np.flatnonzero(np.isfinite(y))
    if y.ndim != 1 or not len(finite):
        raise ValueError(f"curve {name!r} must be a list with at least one finite number; got {values!r}")
    low, high = float(y[finite].min()), float(y[finite].max())
    across = 100 * np.arange(len(y)) / max(len(y) - 1, 1)
    down = 50.0 + 0 * y if high == low else 100 - 100 * (y - low) / (high - low)
    breaks = [0, *(k + 1 for k, (a, b) in enumerate(pairwise(finite)) if b > a + 1), len(finite)]
    pieces = [finite[start:stop] for start, stop in pairwise(breaks)]
    last = finite[-1]
    return {
        "name": name,
        "epochs": len(y),
        "low": low,
        "high": high,
        "last": float(y[last]),
        "end": (float(across[last]), float(down[last])),
        "pieces": [" ".join(f"{across[k]:.2f},{down[k]:.2f}" for k in piece) for piece in pieces],
    }


@cache
def _part(name: str) -> str:
    text = (files("unflip.report") / "templates" / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")  # a browser would, and the script's hash must stay its hash


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["percent"] = _percent
    return environment.from_string(_part("page.html.j2"))


def _percent(fraction: float, digits: int = 1) -> str:
    """Return a fraction as per cent; what is not quite none or all is not rounded to it."""
    text = f"{fraction:.{digits}%}"
    if fraction > 0 and text == f"{0:.{digits}%}":
        return f"<{10**-digits:.{digits}f}%"
    if fraction < 1 and text == f"{1:.{digits}%}":
        return f">{100 - 10**-digits:.{digits}f}%"
    return text
