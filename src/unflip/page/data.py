"""What the page shows, as plain data, and whether it is consistent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import FloatArray, check_transition
from unflip.metrics import CleanAccuracy

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Suspect:
    """A sample whose label is probably wrong.

    ``name`` is its row number or file name, ``probability`` the probability that its label ``given`` is wrong,
    ``suggested`` a better label, and ``thumbnail`` a small PNG. ``cells`` are the contents of its row, in the order of
    the page's columns, ``first`` the numbers of the most telling columns, and ``alike`` those of the page's examples
    that look like it.
    """

    name: str
    given: str
    suggested: str
    probability: float
    thumbnail: bytes | None = None
    cells: Sequence[str] = ()
    first: Sequence[int] = ()
    alike: Sequence[int] = ()


@dataclass(frozen=True)
class Example:
    """A sample that is confidently labeled, to compare suspects with."""

    name: str
    label: str
    cells: Sequence[str] = ()
    thumbnail: bytes | None = None


@dataclass(frozen=True)
class ComparedClassifier:
    """A classifier's estimated clean accuracy with its interval, and its accuracies on labels, as fractions."""

    name: str
    accuracy_estimate: float
    low: float
    high: float
    noisy_accuracy: float | None = None
    clean_accuracy: float | None = None
    note: str = ""

    @classmethod
    def of(
        cls, name: str, score: CleanAccuracy, noisy_accuracy: float | None = None, clean_accuracy: float | None = None
    ) -> "ComparedClassifier":
        """Return a classifier with its estimate clipped to the interval."""
        estimate = min(max(score.estimate, score.low), score.high)
        return cls(name, estimate, score.low, score.high, noisy_accuracy, clean_accuracy)

    @property
    def numbers(self) -> list[float]:
        """The ends of the interval and the accuracies on labels."""
        numbers = self.low, self.high, self.noisy_accuracy, self.clean_accuracy
        return [number for number in numbers if number is not None]


@dataclass(frozen=True)
class Page:
    """What the page shows, as plain data."""

    title: str
    summary: Sequence[tuple[str, str]]  # facts at the top, such as ("classifier", "MC-LDCE")
    classes: Sequence[str]
    transition: ArrayLike  # T[i, j] = P(noisy = j | clean = i)
    noisy_counts: ArrayLike  # the number of samples of each class by the given labels
    clean_counts: ArrayLike  # and by the true labels, as estimated
    noise_rates: ArrayLike  # the share of each true class that was given another label
    curves: Mapping[str, Sequence[float]]  # one value per epoch of training; one that is not finite leaves a gap
    classifiers: Sequence[ComparedClassifier]
    suspects: Sequence[Suspect] | None  # in the order of the export; None if nobody looked for any
    n_samples: int  # of the data
    n_suspects_total: int  # of the data, which may have more than the list on the page
    made_with: str  # the line at the bottom: program, version, command
    findings: Sequence[str] = ()  # what the checks of the data found, a sentence each
    noise_rate: float | None = None  # shown at the top; if None, it is computed from T and clean_counts
    noise_limit: float | None = None  # shown instead, as the most it can be, if labels cannot tell the rate
    columns: Sequence[str] = ()  # of the suspects' rows, the most telling first
    examples: Sequence[Example] = ()  # that suspects look like
    explanation: str = ""  # how the numbers of suspects and of wrong labels belong together


def check_page(page: Page) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return T and the arrays with one value per class, or explain what is wrong with the page."""
    for name in page.classes:
        _expect(isinstance(name, str), f"classes must be text; got {name!r}. Write str({name!r})")
    classes, suspects = set(page.classes), page.suspects or ()
    _expect(len(classes) == len(page.classes), f"every class needs a name of its own; got {sorted(page.classes)}")
    T = check_transition(page.transition, len(page.classes), invertible=False)
    counts = {}
    for field in ("noisy_counts", "clean_counts", "noise_rates"):
        values = counts[field] = np.asarray(getattr(page, field), dtype=np.float64)
        right = values.shape == (len(T),) and np.isfinite(values).all() and values.min() >= 0
        _expect(right, f"{field} must be one number >= 0 for each of the {len(T)} classes; got {values.tolist()}")
    for field in ("noisy_counts", "clean_counts"):
        _expect(counts[field].sum() > 0, f"{field} is zero for every class; give the number of samples of each class")
    rate, largest = page.noise_rate, counts["noise_rates"].max()
    _expect(rate is None or 0 <= rate <= 1, f"noise_rate must be a fraction or None; got {rate}")
    _expect(largest <= 1, f"noise_rates must be fractions; got {largest:g}")
    n, total, size = len(suspects), page.n_suspects_total, page.n_samples
    order = f"{n} suspects are listed, n_suspects_total={total} and n_samples={size}; none may exceed the next"
    _expect(n <= total <= size, order)
    for entry in page.classifiers:
        finite = all(map(np.isfinite, (entry.accuracy_estimate, *entry.numbers)))
        _expect(finite, f"the numbers of {entry.name!r} must be finite; got {entry}. Use None for what is unknown")
        low, estimate, high = entry.low, entry.accuracy_estimate, entry.high
        outside = f"the estimate of {entry.name!r}, {estimate:g}, must be inside its interval; got {low:g} to {high:g}"
        _expect(low <= estimate <= high, outside)
    shown: list[Any] = [*suspects, *page.examples]
    texts = [
        *page.columns,
        page.explanation,
        *(t for one in shown for t in (one.name, *one.cells)),
    ]
    for text in texts:
        _expect(isinstance(text, str), f"{text!r} must be text; write {str(text)!r}")
        # JSON would carry a lone surrogate, but the exported CSV could not.
        encoded = text.encode(errors="replace").decode() == text
        _expect(encoded, f"{text!r} is not valid text; rename it, or decode it as text first")
    for one in shown:
        right = len(one.cells) in (0, len(page.columns))
        _expect(right, f"{one.name!r} has {len(one.cells)} cells, but the page has {len(page.columns)} columns")
        picture = PNG if one.thumbnail is None else one.thumbnail
        _expect(picture.startswith(PNG), f"the thumbnail of {one.name!r} is not a PNG; it begins {picture[:8]!r}")
    for suspect in suspects:
        name, probability = suspect.name, suspect.probability
        for label in (suspect.given, suspect.suggested):
            _expect(label in classes, f"suspect {name!r} has the label {label!r}, which is not one of the classes")
        _expect(0 <= probability <= 1, f"suspect {name!r} has probability {probability}; it must be in 0 .. 1")
        limits = ((suspect.first, len(page.columns), "columns"), (suspect.alike, len(page.examples), "examples"))
        for numbers, most, said in limits:
            _expect(all(0 <= k < most for k in numbers), f"suspect {name!r} names {said} {list(numbers)} of {most}")
    return T, counts


def _expect(right: Any, message: str) -> None:
    if not right:
        raise ValueError(message)
