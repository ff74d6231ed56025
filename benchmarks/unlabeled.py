"""Do rows without a label help? python benchmarks/unlabeled.py --out benchmarks/results/unlabeled.md

Each data set is a public one, as ``suite/text/NAME.csv.gz`` or ``suite/tables/NAME.csv.gz`` in the data directory.
"""

import numpy as np
import pandas as pd
from _shared import Report, arguments, path_of
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from unflip.linear import ForwardLogisticClassifier
from unflip.noise import corrupt, pairflip, symmetric
from unflip.tables import Preprocessor

SETS = ("text/sst2", "text/emotion_tweets", "text/tweet_sentiment", "tables/dry_bean", "tables/magic", "tables/led7")
LABELED, UNLABELED, TEST = 500, 1500, 1200
SURE = 0.8  # probability from which on a predicted label is learned from

options = arguments(__doc__)
report = Report("Rows without a label", "python benchmarks/unlabeled.py", options)
report.say(
    f"Accuracy on {TEST:,} clean labels in percent, one draw: {LABELED} rows with noisy labels, {UNLABELED:,} without. "
    "*labeled rows*: `ForwardLogisticClassifier()` on the former. *self-training*: the same T, and again with the rows "
    f"whose predicted class has a probability of at least {SURE}, with that class, flipped by T, as their label; "
    "*sure* is their share. *spreading*: scikit-learn's `LabelSpreading` over the ten nearest neighbors, soft (alpha "
    "0.9), of all rows (texts: 100 singular vectors), for the test rows. The standard error of an "
    "accuracy is at most 1.4.\n"
)
rows = []
for name in SETS:
    frame = pd.read_csv(path_of(options, f"suite/{name}.csv.gz")).dropna()
    target = "label" if name.startswith("text") else frame.columns[-1]
    frame = frame.sample(min(len(frame), LABELED + UNLABELED + TEST), random_state=0).reset_index(drop=True)
    y = pd.factorize(frame[target], sort=True)[0]
    X = Preprocessor().fit_transform(frame[["text"]] if name.startswith("text") else frame.drop(columns=target))
    dense = TruncatedSVD(100, random_state=0).fit_transform(X) if name.startswith("text") else X
    dense, c = StandardScaler().fit_transform(dense), int(y.max()) + 1
    known, rest, test = np.split(np.arange(len(y)), [LABELED, LABELED + UNLABELED])
    for noise, T in (("sym 30", symmetric(c, 0.3)), ("pair 35", pairflip(c, 0.35))):
        noisy = corrupt(y[known], T, random_state=0)
        plain = ForwardLogisticClassifier(classes=np.arange(c)).fit(X[known], noisy)
        proba = plain.predict_proba(X[rest])
        sure = proba.max(axis=1) >= SURE
        drawn = corrupt(proba.argmax(axis=1)[sure], plain.transition_, random_state=0, classes=np.arange(c))
        both = np.concatenate([known, rest[sure]])
        again = ForwardLogisticClassifier(transition=plain.transition_, classes=np.arange(c))
        again.fit(X[both], np.concatenate([noisy, drawn]))
        spread = LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.9, max_iter=100)
        spread.fit(dense, np.concatenate([noisy, np.full(len(y) - LABELED, -1)]))
        scores = [100 * model.score(X[test], y[test]) for model in (plain, again)]
        scores.append(100 * float(np.mean(spread.transduction_[test] == y[test])))
        rows.append([name.split("/")[1], c, noise, *(f"{s:.1f}" for s in scores), f"{sure.mean():.0%}"])
        print(*rows[-1], flush=True)
report.table(["set", "classes", "noise", "labeled rows", "self-training", "spreading", "sure"], rows)
report.close()
