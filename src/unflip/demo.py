"""The main job on data that everyone has: scikit-learn's digits with pair noise."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split

from unflip.linear import MCLDCEClassifier, MCLDCEClassifierCV
from unflip.metrics import CleanAccuracy, clean_accuracy, transition_error
from unflip.noise import corrupt, pairflip
from unflip.transition import VolMin


class DemoRow(NamedTuple):
    classifier: str
    transition_error: float | None  # None: the classifier uses no T
    accuracy: float
    estimate: CleanAccuracy


class DemoResult(NamedTuple):
    n_train: int
    n_test: int
    noise_rate: float
    rows: list[DemoRow]


def run_demo(rate: float = 0.4, seed: int = 0) -> DemoResult:
    """Corrupt the digits, estimate T, and compare ridge with both operators of MC-LDCE.

    All training labels are noisy, and so are the held-out ones that the estimated accuracy reads; the clean test labels
    only make the column that nobody has on real data.
    """
    X, y = load_digits(return_X_y=True)
    T = pairflip(10, rate)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    noisy = corrupt(y_train, T, random_state=seed)
    noisy_test = corrupt(y_test, T, random_state=seed + 1)

    estimated = VolMin().fit(X_train, noisy).transition_
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
        predicted = model.predict(X_test)
        used = getattr(model, "transition_", None)
        rows.append(
            DemoRow(
                name,
                None if used is None else transition_error(used, T),
                float(np.mean(predicted == y_test)),
                clean_accuracy(noisy_test, predicted, estimated),
            )
        )
    return DemoResult(len(y_train), len(y_test), float(np.mean(noisy != y_train)), rows)
