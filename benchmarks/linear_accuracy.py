"""Linear accuracy under noise: python benchmarks/linear_accuracy.py --out benchmarks/results/linear_accuracy.md"""

import numpy as np
from _shared import Report, arguments, features
from sklearn.linear_model import RidgeClassifier

from unflip.linear import MCLDCEClassifier, MCLDCEClassifierCV
from unflip.metrics import clean_accuracy, transition_error
from unflip.noise import corrupt, pairflip, symmetric

NOISES = {
    "sym 20": symmetric(10, 0.2),
    "sym 40": symmetric(10, 0.4),
    "sym 60": symmetric(10, 0.6),
    "pair 20": pairflip(10, 0.2),
    "pair 40": pairflip(10, 0.4),
    "pair 45": pairflip(10, 0.45),
}

options = arguments(__doc__)
report = Report("Linear classifiers on CIFAR-10 features", "python benchmarks/linear_accuracy.py", options)
X, y, X_test, y_test = features(options)
ceiling = RidgeClassifier().fit(X, y).score(X_test, y_test)
report.say(
    "50,000 training rows with noisy labels (`random_state=0`), 10,000 clean test rows; accuracy in percent. T is "
    f"estimated by VolMin from the noisy labels. Ridge on clean labels: {100 * ceiling:.2f}.\n"
)
rows = []
for name, T in NOISES.items():
    noisy = corrupt(y, T, random_state=0)
    exact = MCLDCEClassifier(alpha=1.0).fit(X, noisy)
    estimated = exact.transition_
    models = [
        RidgeClassifier().fit(X, noisy),
        MCLDCEClassifier(estimated, operator="published", alpha=1.0).fit_sums(exact.sums_),
        exact,
        MCLDCEClassifierCV(estimated, random_state=0).fit(X, noisy),
        MCLDCEClassifier(T, alpha=1.0).fit_sums(exact.sums_),
    ]
    score = clean_accuracy(corrupt(y_test, T, random_state=1), exact.predict(X_test), estimated)
    rows.append(
        [name, f"{transition_error(estimated, T):.3f}"]
        + [f"{100 * np.mean(model.predict(X_test) == y_test):.2f}" for model in models]
        + [f"{100 * score.estimate:.1f} [{100 * score.low:.1f}, {100 * score.high:.1f}]"]
    )
report.table(
    [
        "noise",
        "T error",
        "ridge",
        "published",
        "exact",
        "exact, CV",
        "exact, true T",
        "exact, estimated from noisy test",
    ],
    rows,
)
report.close()
