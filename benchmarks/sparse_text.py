"""Linear models on texts: python benchmarks/sparse_text.py --out benchmarks/results/sparse_text.md

TF-IDF of single words, sparse. The data are the public sets banking77, reuters_r8 and humaid_events as
``suite/text/NAME.csv.gz`` in the data directory, with the columns text, label and split.
"""

import time
from typing import Any

import numpy as np
import pandas as pd
from _shared import Report, arguments, path_of
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from unflip.linear import ForwardLogisticClassifier, MCLDCEClassifier
from unflip.metrics import transition_error
from unflip.noise import corrupt, pairflip, symmetric

SETS = ("reuters_r8", "banking77")
LARGE = 11_000  # rows of humaid_events to train on


def fitted(model: Any, X: Any, y: np.ndarray) -> tuple[Any, float]:
    """Return the fitted model and the seconds of processor time that it took, which other processes disturb little."""
    start = time.process_time()
    model.fit(X, y)
    return model, time.process_time() - start


options = arguments(__doc__)
report = Report("Linear models on texts", "python benchmarks/sparse_text.py", options)
report.say(
    "Accuracy on clean test labels in percent, one draw of the noise. LR is scikit-learn's `LogisticRegression` on the "
    "noisy labels, *joint* is `ForwardLogisticClassifier()`, *true T* the same with T given. Error of T: sum "
    "|T^ - T| / classes. Seconds of processor time on one core; *ratio* is joint / LR.\n"
)
rows = []
for name in SETS:
    frame = pd.read_csv(path_of(options, f"suite/text/{name}.csv.gz")).dropna()
    y = pd.factorize(frame["label"], sort=True)[0]
    test = (frame["split"] == "test").to_numpy()
    words = TfidfVectorizer()
    X, X_test = words.fit_transform(frame["text"][~test]), words.transform(frame["text"][test])
    c = int(y.max()) + 1
    for noise, T in (("none", np.eye(c)), ("pair 35", pairflip(c, 0.35)), ("sym 40", symmetric(c, 0.4))):
        noisy = corrupt(y[~test], T, random_state=0)
        plain, seconds = fitted(LogisticRegression(), X, noisy)
        joint, joint_seconds = fitted(ForwardLogisticClassifier(), X, noisy)
        known, _ = fitted(ForwardLogisticClassifier(transition=T), X, noisy)
        accuracies = [f"{100 * model.score(X_test, y[test]):.1f}" for model in (plain, joint, known)]
        error = f"{transition_error(joint.transition_, T):.2f}"
        shape = f"{X.shape[0]:,} x {X.shape[1]:,}, {c} classes"
        times = [f"{seconds:.1f}", f"{joint_seconds:.1f}", f"{joint_seconds / seconds:.1f}"]
        rows.append([name, shape, noise, *accuracies, error, *times])
header = ["set", "shape", "noise", "LR", "joint", "true T", "error of T", "LR, s", "joint, s", "ratio"]
report.table(header, rows)

frame = pd.read_csv(path_of(options, "suite/text/humaid_events.csv.gz")).dropna()
y = pd.factorize(frame["label"], sort=True)[0]
train, test = np.split(np.random.default_rng(0).permutation(len(y)), [LARGE])
words = TfidfVectorizer()
X, X_test = words.fit_transform(frame["text"].iloc[train]), words.transform(frame["text"].iloc[test])
c = int(y.max()) + 1
report.say(
    f"\nThe closed form, humaid_events, {X.shape[0]:,} x {X.shape[1]:,} words, {c} classes: scikit-learn's "
    "`RidgeClassifier()`, and `MCLDCEClassifier()`, which also estimates T and chooses its penalty among 17 by five "
    "folds. *ratio* is MC-LDCE / ridge.\n"
)
rows = []
for noise, T in (("sym 30", symmetric(c, 0.3)), ("pair 35", pairflip(c, 0.35))):
    noisy = corrupt(y[train], T, random_state=0)
    ridge, seconds = fitted(RidgeClassifier(), X, noisy)
    closed, closed_seconds = fitted(MCLDCEClassifier(), X, noisy)
    accuracies = [f"{100 * model.score(X_test, y[test]):.1f}" for model in (ridge, closed)]
    times = [f"{seconds:.2f}", f"{closed_seconds:.1f}", f"{closed_seconds / seconds:.0f}"]
    rows.append([noise, *accuracies, f"{transition_error(closed.transition_, T):.2f}", *times])
report.table(["noise", "ridge", "MC-LDCE", "error of T", "ridge, s", "MC-LDCE, s", "ratio"], rows)
report.close()
