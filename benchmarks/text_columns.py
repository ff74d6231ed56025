"""Tables of text with noisy labels: python benchmarks/text_columns.py --out benchmarks/results/text_columns.md

Each data set is a public one, as ``suite/text/NAME.csv.gz`` in the data directory, with the columns text, label and
split. ``--sets`` and ``--rows`` make it shorter.
"""

import argparse
import json
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

from unflip import CorrectedClassifier, estimate_transition
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
parser.add_argument("--records", type=Path, help="folder of finished cells, which are not run again")
options = parser.parse_args()


def timed(work: Any, runs: int = 1) -> tuple[Any, float]:
    """Return a result, and the seconds of processor time of the fastest run; other processes disturb it little."""
    best = np.inf
    for _ in range(runs):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return result, best


def cell(name: str, noise: str) -> list[str]:
    """Return a row of the table."""
    frame = pd.read_csv(path_of(options, f"suite/text/{name}.csv.gz")).dropna()
    y = pd.factorize(frame["label"], sort=True)[0]
    random = np.random.default_rng(0)
    test = (frame["split"] == "test").to_numpy()
    test = test if test.mean() < 0.5 else random.random(len(test)) < TEST_SHARE
    train = random.permutation(np.flatnonzero(~test))[: options.rows]
    c = int(y.max()) + 1
    texts, X_train, X_test = frame["text"].iloc[train], frame[["text"]].iloc[train], frame[["text"]][test]
    T = symmetric(c, 0.3) if noise == "sym 30" else pairflip(c, 0.35)
    noisy = corrupt(y[train], T, random_state=0)
    words = TfidfVectorizer()
    W_train, W_test = words.fit_transform(texts), words.transform(frame["text"][test])
    others = [LogisticRegression(), RidgeClassifier(), ComplementNB()]
    right = [model.fit(W_train, noisy).predict(W_test) == y[test] for model in others]
    scores = [100 * hits.mean() for hits in right]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ours, seconds = timed(lambda: TableClassifier(CorrectedClassifier(random_state=0)).fit(X_train, noisy))
    hits = ours.predict(X_test) == y[test]
    lead = 100 * (hits.astype(float) - right[int(np.argmax(scores))])
    error = 1.96 * lead.std() / np.sqrt(len(lead))
    X = ours.samples(X_train)
    _, plain = timed(lambda: LogisticRegression().fit(X, noisy), 3)
    fast, alone = timed(lambda: estimate_transition(X, noisy), 3)
    found = [f"{transition_error(one, T):.2f}" for one in (ours.transition_, fast)]
    times = [f"{plain:.2f}", f"{alone:.2f}", f"{alone / plain:.1f}", f"{seconds:.0f}"]
    shape = f"{X.shape[0]:,} x {X.shape[1]:,}, {c} classes"
    told = [str(one.message) for one in told]
    print(name, noise, "warnings:", told, flush=True)
    accuracies = [*(f"{s:.1f}" for s in scores), f"{100 * hits.mean():.1f}", f"{lead.mean():+.1f} ± {error:.1f}"]
    return [name, shape, noise, *accuracies, *found, *times]


def recorded(name: str, noise: str) -> list[str]:
    """Return a row of the table, from its record if there is one."""
    if options.records is None:
        return cell(name, noise)
    record = options.records / f"{name}-{noise.replace(' ', '-')}-{options.rows}.json"
    if not record.exists():
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(cell(name, noise)))
    return list(json.loads(record.read_text()))


command = f"python benchmarks/text_columns.py --rows {options.rows}"
command += "" if options.sets == SETS else f" --sets {options.sets}"
report = Report("Tables of text with noisy labels", command, options)
report.say(
    f"Accuracy on clean test labels in percent; one draw of the noise, and of at most {options.rows:,} rows to train "
    "on. LR, ridge and NB are scikit-learn's `LogisticRegression`, `RidgeClassifier` and `ComplementNB` on its "
    "`TfidfVectorizer()` and the noisy labels, with their defaults. *unflip* is `TableClassifier()` on the table of "
    "the texts, as `unflip fit` trains it, with a fixed random state. *lead* is how far it is above the best of the "
    "three, with the half-width of the 95 % interval of this difference, from the paired predictions of the test rows; "
    "the draw of the noise is not in it.\n\n"
    "Error of T: sum |T^ - T| / classes, of unflip, and of `estimate_transition` and `unflip transition` (*fast T*, "
    "`RidgeEM`). Seconds of processor time on one core: LR on the features of unflip, the fast T (the fastest of three "
    "runs of each), how many times as long as LR it takes, and all of unflip with its features.\n"
)
rows = [recorded(name, noise) for name in options.sets.split(",") for noise in ("sym 30", "pair 35")]
header = ["set", "shape", "noise", "LR", "ridge", "NB", "unflip", "lead", "error of T", "fast T"]
report.table([*header, "LR, s", "fast T, s", "ratio", "unflip, s"], rows)
report.close()
