"""Rank Pruning: drop the samples whose labels are probably wrong, weight the others, fit again."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from unflip._validation import FloatArray, IntArray
from unflip.core.ldce import solve_prior
from unflip.core.one_vs_rest import BinaryRates, binary_rates, check_informative
from unflip.linear._base import TransitionClassifier
from unflip.transition._cross_fit import row_keys

BoolArray = NDArray[np.bool_]
Splits = list[tuple[IntArray, IntArray]]
LARGEST_NEWTON = 500  # features; a Newton step solves a system of this size
KEPT = 10  # samples that pruning leaves on each side, as published
LARGEST_RATE = 0.9999  # of an estimate, as published; the sum of both rates stays below it too


@dataclass(eq=False, repr=False, kw_only=True)
class RankPruningClassifier(TransitionClassifier):
    """Rank Pruning (Northcutt et al. 2017) around any probabilistic classifier, one class against the rest.

    In each of the c problems let s = 1 if the noisy label is class k, and let p(x) be the probability of s = 1 by a
    classifier that did not see x. The rates are counted among the samples of which it is confident, in each fold, and
    averaged over the folds::

        LB   = mean of p where s = 1                        UB   = mean of p where s = 0
        rho1 = P(s=0 | y=1) = #{s=0, p>=LB} / #{p>=LB}      rho0 = P(s=1 | y=0) = #{s=1, p<=UB} / #{p<=UB}

    They give the number of labels that are expected to be wrong. Those of lowest rank are pruned, and the classifier is
    fitted to the rest, weighted so that each side counts as much as it does among the clean labels::

        P(y=1)           = (P(s=1) - rho0) / (1 - rho1 - rho0)
        pi1 = P(y=0|s=1) = rho0 P(y=0) / P(s=1)             prune this share of s = 1, those of lowest p
        pi0 = P(y=1|s=0) = rho1 P(y=1) / P(s=0)             prune this share of s = 0, those of highest p
        weight           = 1 / (1 - rho1) where s = 1,  1 / (1 - rho0) where s = 0

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes), estimator or None, default=None
        T as in :class:`~unflip.linear.MCLDCEClassifier`, whose rates are then used, see
        :func:`unflip.core.one_vs_rest.binary_rates`. If None, the rates are estimated as published.
    classifier : classifier with ``predict_proba``, default=None
        Cloned for each fit. Its ``fit`` must take ``sample_weight`` (in a Pipeline, that of the last step; each step
        that takes it gets it). If None, logistic regression on standardized features is used.
    cv : int, cross-validation generator or iterable of (train, test) rows, default=3
        An integer is the number of shuffled folds, stratified for each problem; there are fewer if a side has fewer
        distinct samples. A side with one sample is predicted by a classifier that saw it.
    classes, random_state
        As in :class:`~unflip.linear.MCLDCEClassifier`. The seed is also that of the folds and, unless None, of the
        classifier.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As in :class:`~unflip.linear.MCLDCEClassifier`.
    noise_rates_ : ndarray of shape (n_classes, 2)
        For each class against the rest: rho1 (lost, P(noisy != k | clean = k)) and rho0 (gained).
    class_prior_ : ndarray of shape (n_classes,)
        The estimated clean class prior; without T it is P(y=1) of the c problems, normalized.
    classifiers_ : list of n_classes classifiers
        Fitted to the pruned problems; their class 1 is class k.
    transition_, transition_estimator_
        T and the fitted estimator that gave it (None if T was given). Only set if ``transition`` is not None: the
        published estimate gives the rates of the c problems, not T.

    Notes
    -----
    The scores of :meth:`decision_function` are the probabilities of the c classifiers, and :meth:`predict_proba`
    divides them by their sum. A class without noisy labels scores 0 everywhere.

    *Beyond the publication.* The paper treats two classes and rho1 + rho0 < 1. Estimates beyond that are scaled to
    a sum of 0.9999. If the rates of a given T sum to more than one, s says the opposite more often than not: it is
    replaced by 1 - s, whose rates are 1 - rho1 and 1 - rho0. The rates of T = I are zero: then nothing is pruned or
    weighted, and this is the classifier, one against the rest.

    *Weights.* Means and counts are weighted, and pruning takes a share of the weight. Folds are drawn from the distinct
    rows of X: a weight of two equals the sample twice, if that holds for the classifier.

    *Limits.* Confident counting assumes that the classifier separates the class from the rest; if classes overlap, lost
    comes out too large. It also assumes that all of the rest is mislabeled at the same rate, as in symmetric noise; in
    pair noise only one class of it is, and gained comes out too small.

    References
    ----------
    Northcutt, Wu and Chuang, Learning with Confident Examples: Rank Pruning for Robust Classification with Noisy
    Labels, UAI 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = load_digits(return_X_y=True)
    >>> RankPruningClassifier(random_state=0).fit(X, corrupt(y, symmetric(10, 0.3), random_state=0)).score(X, y) > 0.9
    True
    """

    classifier: Any = None
    cv: Any = 3

    def _check_parameters(self) -> None:
        if isinstance(self.cv, Integral) and self.cv < 2:
            raise ValueError(f"cv must be at least 2 folds; got {self.cv}")
        if self.classifier is not None and not hasattr(self.classifier, "predict_proba"):
            raise ValueError(f"classifier must have predict_proba, which {type(self.classifier).__name__} does not")

    def _set_transition(self, X: Any, codes: IntArray, weights: FloatArray | None) -> None:
        if self.transition is not None:
            counted: Any = slice(None) if weights is None else weights > 0
            super()._set_transition(X[counted], codes[counted], None if weights is None else weights[counted])
        elif hasattr(self, "transition_"):  # of an earlier fit
            del self.transition_, self.transition_estimator_

    def _fit(self, X: Any, codes: IntArray, weights: FloatArray | None) -> Self:
        splits = None if isinstance(self.cv, Integral) else _partition(check_cv(self.cv).split(X, codes), len(codes))
        if weights is not None:
            counted = weights > 0
            X, codes, weights = X[counted], codes[counted], weights[counted]
            if splits is not None:
                row = np.cumsum(counted) - 1  # of the samples that count
                splits = [(row[train[counted[train]]], row[test[counted[test]]]) for train, test in splits]
        counts = np.bincount(codes, weights, minlength=len(self.classes_))
        noisy_prior = counts / counts.sum()
        rates: list[FloatArray | None] = [None] * len(counts)
        if self.transition is not None:
            self.class_prior_ = solve_prior(noisy_prior, self.transition_)
            known = binary_rates(self.transition_, self.class_prior_)
            seen = (noisy_prior > 0) & (noisy_prior < 1)  # the other problems have nothing to learn
            check_informative(BinaryRates(*(rate[seen] for rate in known)), self.classes_[seen])
            rates = list(np.column_stack(known))
        random = check_random_state(self.random_state)
        _, same = np.unique(row_keys(X), return_inverse=True)
        places = random.permutation(same.max() + 1)[same]  # equal rows share a place, in any order of the rows
        model = self._unfitted(X, random)
        problems = [
            fit_problem(model, X, codes == k, weights, splits or stratified(codes == k, places, self.cv), rates[k])
            for k in range(len(counts))
        ]
        self.classifiers_ = [classifier for classifier, _ in problems]
        self.noise_rates_ = np.array([found for _, found in problems])
        if self.transition is None:
            prior = np.array([clean_share(p, *found) for p, (_, found) in zip(noisy_prior, problems, strict=True)])
            self.class_prior_ = prior / prior.sum() if prior.sum() > 0 else noisy_prior
        return self

    def _unfitted(self, X: Any, random: np.random.RandomState) -> Any:
        if self.classifier is None:
            return _default_classifier(X.shape[1], X.dtype, center=not sparse.issparse(X))
        model = clone(self.classifier)
        if self.random_state is not None:
            seed = self.random_state if isinstance(self.random_state, Integral) else random.randint(2**31)
            seeded = [name for name in model.get_params() if name.rpartition("__")[2] == "random_state"]
            model.set_params(**dict.fromkeys(seeded, seed))
        return model

    def _scores_of(self, X: Any) -> FloatArray:
        if self.classifier is None and sparse.issparse(X):
            pipelines = [model for model in self.classifiers_ if isinstance(model, Pipeline)]
            if any(model[0].with_mean for model in pipelines):  # fitted to a dense X, whose mean it subtracts
                X = X.toarray()
        return np.column_stack([positive_probability(classifier, X) for classifier in self.classifiers_])

    def _probabilities(self, scores: NDArray[Any]) -> FloatArray:
        total = scores.sum(axis=1, keepdims=True)
        return np.divide(scores, total, out=np.full_like(scores, 1 / scores.shape[1]), where=total > 0)

    def _fitted_state(self) -> dict[str, Any]:
        if self.classifier is not None:
            raise ValueError(
                "only the default classifier can be saved; leave classifier out, or keep the model as it is"
            )
        state = super()._fitted_state()
        if "classifiers_" in state:
            state["classifiers_"] = [_to_plain(classifier) for classifier in self.classifiers_]
        return state

    def _set_fitted_state(self, state: dict[str, Any]) -> None:
        plain = [_from_plain(item, state["n_features_in_"]) for item in state["classifiers_"]]
        super()._set_fitted_state({**state, "classifiers_": plain})


def fit_problem(
    model: Any, X: Any, s: BoolArray, weights: FloatArray | None, splits: Splits, rates: FloatArray | None
) -> tuple[Any, tuple[float, float]]:
    """Return the classifier of class k (s) against the rest, and its rates (lost, gained)."""
    known = lost, gained = (0.0, 0.0) if rates is None else (float(rates[0]), float(rates[1]))
    constant = s.all() or not s.any()
    if lost + gained > 1 and not constant:
        s, lost, gained = ~s, 1 - lost, 1 - gained
    if constant or (rates is not None and max(lost, gained) < 1e-12):  # nothing to prune, so nothing to rank
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
    total = weights.sum()
    prior = clean_share(weights[s].sum() / total, rho1, rho0)
    rank = np.round(logit(np.clip(p, 0, 1, dtype=np.float64)), 9)  # log-odds, rounded: equal samples stay together
    pruned = np.zeros(len(s), dtype=bool)
    for side, sign, wrong in ((s, 1, rho0 * (1 - prior)), (~s, -1, rho1 * prior)):
        rows = np.flatnonzero(side)
        rows = rows[np.argsort(sign * rank[rows])]
        ranked = sign * rank[rows]
        # A sample is pruned if it and all samples of the same or a lower rank weigh no more than the wrong labels do.
        below = np.cumsum(weights[rows])[np.searchsorted(ranked, ranked, side="right") - 1]
        # Weights that are all below one, such as those that sum to one, still count as samples.
        most = min(wrong * total, below[-1] - KEPT * min(1.0, weights.max()))
        pruned[rows] = below <= most + 1e-12 * total
    return pruned


def clean_share(share: float, rho1: float, rho0: float) -> float:
    """Return P(y = 1) from P(s = 1)."""
    return float(np.clip((share - rho0) / (1 - rho1 - rho0), 0, 1))


def stratified(s: BoolArray, places: IntArray, cv: int) -> Splits:
    """Return folds with equal parts of both sides; if a side has only one place, all rows are in training and test."""
    if s.all() or not s.any():
        return []  # nothing to learn
    ranks = [np.unique(places[side], return_inverse=True)[1] for side in (s, ~s)]
    n_folds = min(cv, *(int(rank.max()) + 1 for rank in ranks))
    folds = np.empty(len(s), dtype=np.intp)
    folds[s], folds[~s] = (rank % n_folds for rank in ranks)
    return [(np.flatnonzero((folds != k) | (n_folds == 1)), np.flatnonzero(folds == k)) for k in range(n_folds)]


def _partition(splits: Any, n_samples: int) -> Splits:
    """Return the splits as rows, if each row is held out once."""
    rows = np.arange(n_samples)
    found = [(rows[train], rows[test]) for train, test in splits]
    held_out = np.bincount(np.concatenate([rows[:0], *(test for _, test in found)]), minlength=n_samples)
    if (held_out != 1).any():
        raise ValueError(
            f"cv must hold out each sample once; sample {(held_out != 1).argmax()} is held out "
            f"{held_out[held_out != 1][0]} times. Use a partition such as KFold or GroupKFold"
        )
    return found


def _fitted(model: Any, X: Any, s: BoolArray, weights: FloatArray | None) -> Any:
    if s.all() or not s.any():
        return DummyClassifier().fit([[0]], [int(s.any())])
    carried = {} if weights is None else _weight_arguments(model, weights)
    with np.errstate(invalid="ignore"):  # the weighted variance of a constant may round to less than zero
        return clone(model).fit(X, s.astype(np.intp), **carried)


def positive_probability(classifier: Any, X: Any) -> FloatArray:
    """Return P(s = 1 | x), shape (n,); 0 if the classifier saw no s = 1."""
    return np.asarray(classifier.predict_proba(X) @ (classifier.classes_ == 1))


def _weight_arguments(model: Any, weights: FloatArray | None) -> dict[str, Any]:
    """Return the arguments of ``model.fit`` that carry weights, or refuse a model that takes none."""
    steps = dict(model.steps) if isinstance(model, Pipeline) else {"": model}
    takes = [name for name, step in steps.items() if hasattr(step, "fit") and has_fit_parameter(step, "sample_weight")]
    *_, (last, final) = steps.items()
    if last not in takes:
        raise ValueError(f"{type(final).__name__}.fit does not take sample_weight; Rank Pruning needs one that does")
    return {f"{name}__sample_weight" if name else "sample_weight": weights for name in takes}


def _default_classifier(n_features: int, dtype: Any = np.float64, *, center: bool) -> Any:
    logistic = LogisticRegression(max_iter=1000)
    if n_features <= LARGEST_NEWTON:  # the Hessian is small: Newton steps are exact, so that weights equal repetition
        logistic = LogisticRegression(solver="newton-cholesky", tol=1e-8 if dtype == np.float64 else 1e-4)
    return make_pipeline(StandardScaler(with_mean=center), logistic)


def _to_plain(classifier: Any) -> bool | list[dict[str, Any]]:
    if isinstance(classifier, DummyClassifier):
        return bool(classifier.classes_[0])
    return [{name: value for name, value in vars(step).items() if name.endswith("_")} for _, step in classifier.steps]


def _from_plain(plain: Any, n_features: int) -> Any:
    if isinstance(plain, bool):
        return DummyClassifier().fit([[0]], [int(plain)])
    classifier = _default_classifier(n_features, center=plain[0]["mean_"] is not None)
    for (_, step), fitted in zip(classifier.steps, plain, strict=True):
        vars(step).update(fitted)
    return classifier
