"""What the package is for, on data that everyone has: scikit-learn's digits with pair noise."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split

from unflip._validation import FloatArray
from unflip.audit import LabelErrors, find_label_errors
from unflip.commands.audit import audit_page
from unflip.commands.fit import make_transition_estimator
from unflip.commands.folders import written_folder
from unflip.linear import MCLDCEClassifier, MCLDCEClassifierCV
from unflip.metrics import CleanAccuracy, clean_accuracy, transition_error
from unflip.noise import corrupt, pairflip

FILES = ("index.html",)


class DemoRow(NamedTuple):
    classifier: str
    estimate: CleanAccuracy
    noisy_accuracy: float  # on noisy test labels
    accuracy: float
    transition_error: float | None  # None if the classifier does not use T


class DemoResult(NamedTuple):
    n_train: int
    n_test: int
    rate: float
    transition: FloatArray  # as estimated from the noisy labels
    rows: list[DemoRow]
    errors: LabelErrors
    names: list[str]
    images: FloatArray  # the training samples, shape (n, 1, 8, 8), in 0 .. 1
    # The rest needs the true training labels, which nobody has on real data.
    n_wrong: int
    noise_rate: float
    precision: float  # the share of the suspects whose label is wrong; 1 if there are no suspects
    recall: float  # the share of the wrong labels that are among the suspects; 1 if no label is wrong
    noise_rate_left: float  # the share of wrong labels after accepting every suggestion

    def as_json(self) -> dict[str, Any]:
        """Return the values for a program."""
        plain = {name: getattr(self, name) for name in ("n_train", "n_test", "rate", "n_wrong", "noise_rate")}
        rows = [
            row._asdict() | {"estimate": row.estimate.estimate, "low": row.estimate.low, "high": row.estimate.high}
            for row in self.rows
        ]
        audit = {"estimated_rate": float(self.errors.rate), "n_suspects": len(self.errors.suspects)}
        audit |= {name: float(getattr(self, name)) for name in ("precision", "recall", "noise_rate_left")}
        values = {**plain, "transition": self.transition, "classifiers": rows, "audit": audit}
        return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in values.items()}


def run_demo(rate: float = 0.4, seed: int = 0) -> DemoResult:
    """Corrupt the digits, estimate T, compare ridge with both operators of MC-LDCE, and find the wrong labels.

    All training labels are noisy, and so are the held-out labels that the estimated accuracy is computed from. Clean
    labels are used only for the columns that nobody has on real data.
    """
    X, y = load_digits(return_X_y=True)
    T = pairflip(10, rate)
    train, test = train_test_split(np.arange(len(y)), test_size=0.4, stratify=y, random_state=seed)
    X_train, X_test, y_train, y_test = X[train], X[test], y[train], y[test]
    noisy = corrupt(y_train, T, random_state=seed)
    noisy_test = corrupt(y_test, T, random_state=seed + 1)

    estimator = make_transition_estimator(None, "linear").fit(X_train, noisy)
    estimated = estimator.transition_
    exact = MCLDCEClassifier(estimated).fit(X_train, noisy)
    models: dict[str, Any] = {
        "ridge on clean labels": RidgeClassifier().fit(X_train, y_train),
        "ridge": RidgeClassifier().fit(X_train, noisy),
        "MC-LDCE, published operator": MCLDCEClassifier(estimated, operator="published").fit_sums(exact.sums_),
        "MC-LDCE, exact operator": exact,
        "MC-LDCE, exact, CV": MCLDCEClassifierCV(estimated, random_state=seed).fit(X_train, noisy),
        "MC-LDCE, exact, true T": MCLDCEClassifier(T).fit_sums(exact.sums_),
    }
    rows = []
    for name, model in models.items():
        predicted, used = model.predict(X_test), getattr(model, "transition_", None)
        error = None if used is None else transition_error(used, T)
        accuracies = float(np.mean(predicted == noisy_test)), float(np.mean(predicted == y_test))
        score = clean_accuracy(noisy_test, predicted, estimated, transition_std=estimator.transition_std_)
        rows.append(DemoRow(name, score, *accuracies, error))
    errors = find_label_errors(X_train, noisy, make_transition_estimator(None, "linear"), random_state=seed)
    flipped = noisy != y_train
    found = int(flipped[errors.suspects].sum())
    return DemoResult(
        n_train=len(train),
        n_test=len(test),
        rate=rate,
        transition=estimated,
        rows=rows,
        errors=errors,
        names=[str(row) for row in train],
        images=X_train.reshape(-1, 1, 8, 8) / 16,  # intensities of a pixel
        n_wrong=int(flipped.sum()),
        noise_rate=float(flipped.mean()),
        precision=found / len(errors.suspects) if len(errors.suspects) else 1.0,
        recall=found / int(flipped.sum()) if flipped.any() else 1.0,
        noise_rate_left=float(np.mean(errors.suggested != y_train)),
    )


def write_demo_page(result: DemoResult, folder: str | os.PathLike[str]) -> Path:
    """Write ``index.html``, the page that ``unflip audit`` makes for your own data, and return its path."""
    from unflip.page import ComparedClassifier, write_page

    page = audit_page(
        result.errors,
        result.names,
        result.images,
        title=f"Digits with {result.rate:.0%} pair noise",
        command="unflip demo",
        classifiers=[ComparedClassifier.of(*row[:4]) for row in result.rows],
        summary=[
            ("really wrong", f"{result.n_wrong:,} ({result.noise_rate:.1%})"),
            ("suspects that are wrong", f"{result.precision:.1%}"),
            ("wrong labels found", f"{result.recall:.1%}"),
        ],
    )
    with written_folder(folder, FILES) as partial:
        write_page(page, partial / FILES[0])
    return Path(folder) / FILES[0]
