"""Tables of text with noisy labels: python benchmarks/text_columns.py --out benchmarks/results/text_columns.md

Each data set is a public one, as ``suite/text/NAME.csv.gz`` in the data directory, with the columns text, label and
split. ``--sets`` and ``--rows`` make it shorter.
"""

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _shared import Report, path_of
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import ComplementNB

from unflip import estimate_transition
from unflip.metrics import transition_error
from unflip.noise import corrupt, pairflip, symmetric
from unflip.tables import TableClassifier

SETS = "banking77,emotion_tweets,reuters_r8,humaid_events,mr_polarity,sst2,tweet_irony,tweet_offensive,tweet_sentiment"
TEST_SHARE = 0.3  # of a set whose own test part is larger than the rest

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data-dir", type=Path, default=os.environ.get("UNFLIP_DATA"), help="default: UNFLIP_DATA")
parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
parser.add_argument("--sets", default=SETS, help="names, separated by commas")
parser.add_argument("--rows", type=int, default=3000, help="rows to train on, drawn at random")
options = parser.parse_args()


def timed(work: Any) -> tuple[Any, float]:
    """Return a result, and the seconds of processor time that it took, which other processes disturb little."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


command = f"python benchmarks/text_columns.py --rows {options.rows}"
report = Report("Tables of text with noisy labels", command, options)
report.say(
    f"Accuracy on clean test labels in percent; one draw of the noise, and of at most {options.rows:,} rows to train "
    "on. "
    "LR, ridge and NB are scikit-learn's `LogisticRegression`, `RidgeClassifier` and `ComplementNB` on its "
    "`TfidfVectorizer()` and the noisy labels, with their defaults. *unflip* is `TableClassifier()` on the table of "
    "the texts, as `unflip fit` trains it, and *lead* is how far it is above the best of the three. Error of T: sum "
    "|T^ - T| / classes. Seconds of processor time on one core: LR on the features of unflip, T by "
    "`estimate_transition`, and all of unflip with its features.\n"
)
rows = []
for name in options.sets.split(","):
    frame = pd.read_csv(path_of(options, f"suite/text/{name}.csv.gz")).dropna()
    y = pd.factorize(frame["label"], sort=True)[0]
    random = np.random.default_rng(0)
    test = (frame["split"] == "test").to_numpy()
    test = test if test.mean() < 0.5 else random.random(len(test)) < TEST_SHARE
    train = random.permutation(np.flatnonzero(~test))[: options.rows]
    c = int(y.max()) + 1
    texts, X_train, X_test = frame["text"].iloc[train], frame[["text"]].iloc[train], frame[["text"]][test]
    words = TfidfVectorizer()
    W_train, W_test = words.fit_transform(texts), words.transform(frame["text"][test])
    for noise, T in (("sym 30", symmetric(c, 0.3)), ("pair 35", pairflip(c, 0.35))):
        noisy = corrupt(y[train], T, random_state=0)
        others = [LogisticRegression(), RidgeClassifier(), ComplementNB()]
        scores = [100 * model.fit(W_train, noisy).score(W_test, y[test]) for model in others]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            ours, seconds = timed(lambda: TableClassifier().fit(X_train, noisy))  # noqa: B023 - called at once
        score = 100 * ours.score(X_test, y[test])
        X = ours.samples(X_train)
        _, plain = timed(lambda: LogisticRegression().fit(X, noisy))  # noqa: B023
        _, alone = timed(lambda: estimate_transition(X, noisy))  # noqa: B023
        times = [f"{plain:.1f}", f"{alone:.1f}", f"{alone / plain:.1f}", f"{seconds:.0f}"]
        error = f"{transition_error(ours.transition_, T):.2f}"
        shape = f"{X.shape[0]:,} x {X.shape[1]:,}, {c} classes"
        lead = f"{score - max(scores):+.1f}"
        rows.append([name, shape, noise, *(f"{s:.1f}" for s in scores), f"{score:.1f}", lead, error, *times])
        print(*rows[-1], "warnings:", len(told), flush=True)
header = ["set", "shape", "noise", "LR", "ridge", "NB", "unflip", "lead", "error of T"]
report.table([*header, "LR, s", "T, s", "ratio", "unflip, s"], rows)
report.close()
