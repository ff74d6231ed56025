"""Signs that rules made the labels, whose errors no label can show."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_selection import chi2
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from unflip._validation import FloatArray, IntArray

LEAVES = 4  # of the tree, for each class
TERMS = 200  # that it may choose from
SHARE = 0.85  # of what the model gains over the commonest label, from which on a tree is suspicious
LEAST_GAIN = 0.05
MOST_ROWS = 5_000


def rule_note(X: Any, codes: IntArray, noisy_proba: FloatArray, random_state: int = 0) -> str | None:
    """Return a sentence if a few words predict the labels as well as all of them do; None if not, or without words.

    A decision tree with four leaves per class is compared with the model that judges, both on rows that they did not
    see::

        (accuracy of the tree - share of the commonest label) / (accuracy of the model - the same)   >=   0.85

    Labels by people need many words. Keywords, distant supervision and other rules need few, and where a rule errs, the
    words agree with it. ``noisy_proba`` are P(noisy = j | x) by the model, shape (n_samples, n_classes); X must be
    sparse and not negative, such as TF-IDF weights.
    """
    c = noisy_proba.shape[1]
    if not sparse.issparse(X) or X.shape[1] <= TERMS or not X.nnz or X.data.min() < 0 or len(codes) < 50 * c:
        return None
    rows = np.random.default_rng(random_state).permutation(len(codes))[:MOST_ROWS]
    X, y = sparse.csr_array(X)[rows], codes[rows]
    most = np.bincount(y).max() / len(y)
    full = float(np.mean(noisy_proba[rows].argmax(axis=1) == y))
    if full - most < LEAST_GAIN:
        return None
    hits = 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        splits = list(StratifiedKFold(2, shuffle=True, random_state=random_state).split(y, y))
    for train, test in splits:
        terms = np.argsort(-np.nan_to_num(chi2(X[train], y[train])[0]), kind="stable")[:TERMS]
        tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES * c, random_state=random_state)
        tree.fit(X[train][:, terms].toarray(), y[train])
        hits += int(np.sum(tree.predict(X[test][:, terms].toarray()) == y[test]))
    few = hits / len(y)
    if few - most < SHARE * (full - most):
        return None
    return (
        f"A few words predict these labels as well as all words do ({few:.0%} against {full:.0%} of the labels), as if "
        "rules had made them. Where a rule is wrong, the words agree with it, so that no label shows it: many more "
        "labels may be wrong than estimated."
    )
