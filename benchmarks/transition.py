"""Error and time of the estimators of T: python benchmarks/transition.py --out benchmarks/results/transition.md"""

import time

import numpy as np
from _shared import Report, arguments, features, seconds
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

from unflip.metrics import transition_error
from unflip.noise import asymmetric, corrupt, pairflip, symmetric
from unflip.transition import AnchorPoints, DualT, VolMin

NOISES = {
    "none": np.eye(10),
    "sym 20": symmetric(10, 0.2),
    "sym 40": symmetric(10, 0.4),
    "sym 60": symmetric(10, 0.6),
    "pair 20": pairflip(10, 0.2),
    "pair 40": pairflip(10, 0.4),
    # truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog
    "one-sided 40": asymmetric(10, {9: (1, 0.4), 2: (0, 0.4), 4: (7, 0.4), 3: (5, 0.4), 5: (3, 0.4)}),
}
ESTIMATORS = {
    "VolMin": VolMin(),
    "without guard": VolMin(guard=False),
    "anchor, 97 %": AnchorPoints(),
    "anchor, maximum": AnchorPoints(percentile=None),
    "Dual-T": DualT(),
}

options = arguments(__doc__)
report = Report("Estimators of T on CIFAR-10 features", "python benchmarks/transition.py", options)
X, y, X_test, y_test = features(options)
report.say(
    "50,000 rows of 320 features with noisy labels (`random_state=0`). A cell shows the error of T, sum |T^ - T| / c; "
    "the seconds of the fit; and the seconds as a multiple of `RidgeClassifier().fit` on the same data in the same "
    'run. "Counted" is the error of counting T with the clean labels, which nobody has.\n'
)
rows = []
for name, T in NOISES.items():
    noisy = corrupt(y, T, random_state=0)
    ridge = seconds(lambda noisy=noisy: RidgeClassifier().fit(X, noisy))
    counts = np.bincount(10 * y + noisy, minlength=100).reshape(10, 10)
    cells = [f"{transition_error(counts / counts.sum(axis=1, keepdims=True), T):.3f}", f"{ridge:.2f} s"]
    for estimator in ESTIMATORS.values():
        start = time.perf_counter()
        estimator.fit(X, noisy)
        took = time.perf_counter() - start
        cells.append(f"{transition_error(estimator.transition_, T):.3f}; {took:.1f} s; {took / ridge:.0f}x")
    rows.append([name, *cells])
report.table(["noise", "counted", "ridge", *ESTIMATORS], rows)

report.say(
    "What cross-fitting and the guard add to VolMin: error of T, and accuracy of VolMin's own classifier on clean test "
    "rows in percent, for minimum volume alone (`rounds=0`), with cross-fitting (`guard=False`), and with both. "
    "Digits: mean of three draws of the noise on one split.\n"
)
digits, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(labels))
digits, labels = digits[order], labels[order]
DATA = {
    "digits, 1,078 rows": (digits[:1078], labels[:1078], digits[1078:], labels[1078:], range(3)),
    "CIFAR-10 features, 5,000 rows": (X[:5000], y[:5000], X_test, y_test, range(1)),
    "CIFAR-10 features, 50,000 rows": (X, y, X_test, y_test, range(1)),
}
rows = []
for data, (train, clean, test, truth, seeds) in DATA.items():
    for name in ("none", "sym 20", "sym 60", "pair 40", "pair 45"):
        T = NOISES.get(name, pairflip(10, 0.45))
        cells = []
        for estimator in (VolMin(rounds=0), VolMin(guard=False), VolMin()):
            cells.append([])
            for seed in seeds:
                estimator.fit(train, corrupt(clean, T, random_state=seed))
                cells[-1].append((transition_error(estimator.transition_, T), 100 * estimator.score(test, truth)))
        errors, accuracies = np.mean(cells, axis=1).T
        rows.append([data, name, *(f"{error:.3f}" for error in errors), *(f"{one:.1f}" for one in accuracies)])
steps = ["volume", "cross-fitting", "guard"]
report.table(["data", "noise", *(f"{of}: {step}" for of in ("error", "accuracy") for step in steps)], rows)
report.close()
