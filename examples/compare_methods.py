"""The linear methods side by side on pair noise, with one estimate of T for all methods that use it.

    python examples/compare_methods.py

`docs/methods.md` lists the methods with their papers; `benchmarks/linear_table.py` is the full comparison.
"""

import time

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unflip import VolMin, corrupt, linear, pairflip

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
noisy = corrupt(y_train, pairflip(10, 0.4), random_state=0)
T = VolMin(random_state=0).fit(X_train, noisy).transition_

METHODS = {
    "ridge": RidgeClassifier(),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "ULE": linear.ULEClassifier(T, alpha=300),
    "muSGD": linear.MuSGDClassifier(T, random_state=0),
    "Rank Pruning": linear.RankPruningClassifier(random_state=0),
    "LNSI": linear.LNSIClassifier(),
    "SCD": linear.SCDClassifier(),
    "LICS": linear.LICSClassifier(T),
    "CEGE": linear.CEGEClassifier(T),
    "MC-LDCE, published M": linear.MCLDCEClassifier(T, operator="published"),
    "MC-LDCE": linear.MCLDCEClassifier(T),
    "MC-LDCE, CV": linear.MCLDCEClassifierCV(T, random_state=0),
}

print(f"pair noise 40 %, {len(X_train):,} training images, accuracy on {len(X_test):,} clean labels")
for name, model in METHODS.items():
    start = time.perf_counter()
    model.fit(X_train, noisy)
    seconds = time.perf_counter() - start
    print(f"{name:<21} {model.score(X_test, y_test):.3f}  {seconds:6.2f} s")
