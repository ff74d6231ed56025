"""One binary problem of Rank Pruning: held-out probabilities, rates, pruning, the weighted fit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from unflip._validation import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
Splits = list[tuple[IntArray, IntArray]]
KEPT = 10  # samples that pruning leaves on each side, as published
LARGEST_RATE = 0.9999  # of an estimate, as published; the sum of both rates stays below it too


def fit_problem(
    model: Any,
    X: Any,
    s: BoolArray,
    weights: FloatArray | None,
    splits: Splits,
    rates: FloatArray | None,
) -> tuple[Any, tuple[float, float]]:
    """Return the classifier of class k (s) against the rest, and its rates (lost, gained)."""
    known = (0.0, 0.0) if rates is None else (float(rates[0]), float(rates[1]))
    if s.all() or not s.any():
        return _fitted(model, X, s, weights), known
    lost, gained = known
    if lost + gained > 1:
        s, lost, gained = ~s, 1 - lost, 1 - gained
    if rates is not None and max(lost, gained) < 1e-12:  # nothing to prune, so nothing to rank
        return _fitted(model, X, s, weights), known
    _weight_arguments(model, None)  # refuse before the folds are fitted
    w = np.ones(len(s)) if weights is None else weights
    p = np.empty(len(s))
    for train, test in splits:
        if len(test) > 0:
            blind = _fitted(model, X[train], s[train], None if weights is None else w[train])
            p[test] = positive_probability(blind, X[test])
    if rates is None:
        known = lost, gained = confident_rates(p, s, w, [test for _, test in splits])
    kept = ~to_prune(p, s, w, lost, gained)
    reweighted = w / np.where(s, 1 - lost, 1 - gained)
    return _fitted(model, X[kept], s[kept], reweighted[kept]), known


def confident_rates(p: FloatArray, s: BoolArray, weights: FloatArray, folds: list[IntArray]) -> tuple[float, float]:
    """Return (rho1, rho0) from held-out probabilities of s = 1, shape (n,), and the rows of each fold."""
    both_sides: list[Any] = [rows for rows in folds if s[rows].any() and not s[rows].all()]
    rates = []
    for rows in both_sides or [slice(None)]:
        p_, s_, w = p[rows], s[rows], weights[rows]
        # Slack: a mean of equal numbers is rounded, and all of them must reach it.
        positive = p_ >= np.average(p_[s_], weights=w[s_]) - 1e-12
        negative = p_ <= np.average(p_[~s_], weights=w[~s_]) + 1e-12
        rates.append([w[positive & ~s_].sum() / w[positive].sum(), w[negative & s_].sum() / w[negative].sum()])
    rho = np.minimum(rates, LARGEST_RATE).mean(axis=0)
    rho1, rho0 = rho * min(1.0, LARGEST_RATE / max(rho.sum(), LARGEST_RATE))
    return float(rho1), float(rho0)


def to_prune(p: FloatArray, s: BoolArray, weights: FloatArray, rho1: float, rho0: float) -> BoolArray:
    """Return which samples are pruned, shape (n,), given held-out probabilities of s = 1."""
    total, share = weights.sum(), weights[s].sum() / weights.sum()
    prior = clean_share(share, rho1, rho0)
    rank = np.round(logit(np.clip(p, 0, 1, dtype=np.float64)), 9)  # log-odds, rounded: equal samples stay together
    pruned = np.zeros(len(s), dtype=bool)
    for side, sign, wrong in ((s, 1, rho0 * (1 - prior)), (~s, -1, rho1 * prior)):
        rows = np.flatnonzero(side)
        rows = rows[np.argsort(sign * rank[rows])]
        below = np.cumsum(weights[rows])
        # A sample goes if it and all that rank with it or worse weigh no more than what is wrong.
        ranked = sign * rank[rows]
        below = below[np.searchsorted(ranked, ranked, side="right") - 1]
        # Weights that are all below one, such as those that sum to one, count as samples all the same.
        most = min(wrong * total, below[-1] - KEPT * min(1.0, weights.max()))
        pruned[rows] = below <= most + 1e-12 * total
    return pruned


def clean_share(share: float, rho1: float, rho0: float) -> float:
    return float(np.clip((share - rho0) / (1 - rho1 - rho0), 0, 1))


def stratified(s: BoolArray, places: IntArray, cv: int) -> Splits:
    """Folds of equal parts of both sides; if a side has but one place, all rows are in training and test."""
    if s.all() or not s.any():
        return []  # nothing to learn
    ranks = [np.unique(places[side], return_inverse=True)[1] for side in (s, ~s)]
    n_folds = min(cv, *(int(rank.max()) + 1 for rank in ranks))
    folds = np.empty(len(s), dtype=np.intp)
    folds[s], folds[~s] = (rank % n_folds for rank in ranks)
    return [(np.flatnonzero((folds != k) | (n_folds == 1)), np.flatnonzero(folds == k)) for k in range(n_folds)]


def _fitted(model: Any, X: Any, s: BoolArray, weights: FloatArray | None) -> Any:
    if s.all() or not s.any():
        return constant(bool(s.any()))
    model, labels = clone(model), s.astype(np.intp)
    if weights is None:
        return model.fit(X, labels)
    with np.errstate(invalid="ignore"):  # the weighted variance of a constant may round to less than zero
        return model.fit(X, labels, **_weight_arguments(model, weights))


def positive_probability(classifier: Any, X: Any) -> FloatArray:
    """P(s = 1 | x), shape (n,); 0 if there was none."""
    return np.asarray(classifier.predict_proba(X) @ (classifier.classes_ == 1))


def constant(positive: bool) -> Any:
    return DummyClassifier().fit([[0]], [int(positive)])


def _weight_arguments(model: Any, weights: FloatArray | None) -> dict[str, Any]:
    """The arguments of ``model.fit`` that carry weights, or why it takes none."""
    steps = dict(model.steps) if isinstance(model, Pipeline) else {"": model}
    takes = [name for name, step in steps.items() if hasattr(step, "fit") and has_fit_parameter(step, "sample_weight")]
    *_, (last, final) = steps.items()
    if last not in takes:
        raise ValueError(
            f"Rank Pruning weights the samples, but {type(final).__name__}.fit does not take sample_weight; "
            "give a classifier that does"
        )
    return {f"{name}__sample_weight" if name else "sample_weight": weights for name in takes}
