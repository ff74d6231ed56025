"""Rank Pruning: drop the samples whose labels are probably wrong, weight the others, fit again."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from unflip._base import check_training_data
from unflip._validation import FloatArray
from unflip.core import clean_prior
from unflip.core.one_vs_rest import BinaryRates, binary_rates, check_informative
from unflip.linear._pruned_problem import Splits, clean_share, constant, fit_problem, positive_probability, stratified
from unflip.linear._with_transition import TransitionClassifier
from unflip.transition._cross_fit import row_keys

LARGEST_NEWTON = 500  # features; a Newton step solves a system of so many


class RankPruningClassifier(TransitionClassifier):
    """Rank Pruning (Northcutt et al. 2017) around any probabilistic classifier, one class against the rest.

    In each of the c problems let s = 1 where the noisy label is class k, and p(x) the probability of s = 1 by a
    classifier that did not see x. The rates are counted among the samples of which it is confident, in each fold, and
    averaged over the folds::

        LB   = mean of p where s = 1                        UB   = mean of p where s = 0
        rho1 = P(s=0 | y=1) = #{s=0, p>=LB} / #{p>=LB}      rho0 = P(s=1 | y=0) = #{s=1, p<=UB} / #{p<=UB}

    So many labels are expected to be wrong; those of lowest rank are pruned, and the classifier is fitted to what is
    left, weighted so that each side counts as much as it does among the clean labels::

        P(y=1)           = (P(s=1) - rho0) / (1 - rho1 - rho0)
        pi1 = P(y=0|s=1) = rho0 P(y=0) / P(s=1)             prune this share of s = 1, those of lowest p
        pi0 = P(y=1|s=0) = rho1 P(y=1) / P(s=0)             prune this share of s = 0, those of highest p
        weight           = 1 / (1 - rho1) where s = 1,  1 / (1 - rho0) where s = 0

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes), estimator or None, default=None
        None is the published estimate of the rates. Otherwise they are those of T, see
        :func:`unflip.core.one_vs_rest.binary_rates`: T[i, j] = P(noisy = j | clean = i), or an estimator with
        ``fit(X, y)`` and ``transition_``, which is cloned and fitted to the noisy data.
    classifier : classifier with ``predict_proba``, default=None
        Cloned for each fit. Its ``fit`` must take ``sample_weight`` (in a Pipeline that of the last step; each step
        that takes it gets it). None is logistic regression on standardised features.
    cv : int, cross-validation generator or iterable of (train, test) rows, default=3
        An integer is the number of shuffled folds, stratified for each problem; fewer where a side has fewer distinct
        samples. A side of one sample is predicted by a classifier that saw it.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, where the noisy labels lack some; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None
        Seeds the folds and, unless None, the classifier.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    noise_rates_ : ndarray of shape (n_classes, 2)
        Of each class against the rest: lost, rho1 = P(noisy != k | clean = k), and gained,
        rho0 = P(noisy = k | clean != k).
    class_prior_ : ndarray of shape (n_classes,)
        The estimated clean class prior; without T it is P(y=1) of the c problems, normalised.
    classifiers_ : list of n_classes classifiers
        Fitted to the pruned problems; class 1 is class k.
    transition_, transition_estimator_
        T and the fitted estimator that gave it (None if T was given). Only where ``transition`` is not None: the
        published estimate knows the rates of the c problems, not T.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    The scores of :meth:`decision_function` are the probabilities of the c classifiers. A class without noisy labels
    scores 0 everywhere.

    *Beyond the publication.* The paper treats two classes and rho1 + rho0 < 1. Estimates beyond that are scaled to
    a sum of 0.9999. If the rates of a given T sum to more than one, s says the opposite more often than not: it is
    replaced by 1 - s, whose rates are 1 - rho1 and 1 - rho0. The rates of T = I are zero: then nothing is pruned or
    weighted, and this is the classifier, one against the rest.

    *Weights.* Means and counts are weighted, and pruning takes a share of the weight. Folds are drawn from the distinct
    rows of X: a weight of two equals the sample twice, where the classifier has it so.

    *Limits.* Confident counting presumes that the classifier separates class from rest; where classes overlap, lost
    comes out too large. It also presumes that all of the rest is mislabelled alike, as in symmetric noise; in pair
    noise only one class of it is, and gained comes out too small.

    References
    ----------
    Northcutt, Wu and Chuang, Learning with Confident Examples: Rank Pruning for Robust Classification with Noisy
    Labels, UAI 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = load_digits(return_X_y=True)
    >>> noisy = corrupt(y, symmetric(10, 0.3), random_state=0)
    >>> RankPruningClassifier(random_state=0).fit(X, noisy).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        transition: Any = None,
        *,
        classifier: Any = None,
        cv: Any = 3,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.transition = transition
        self.classifier = classifier
        self.cv = cv
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Noisy labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
        """
        self._check_parameters()
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
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
            self._estimate_transition(X, codes, weights)
            self.class_prior_ = clean_prior(noisy_prior, self.transition_)
            rates = list(self._rates_of_transition(noisy_prior))
        elif hasattr(self, "transition_"):  # of an earlier fit
            del self.transition_, self.transition_estimator_

        random = check_random_state(self.random_state)
        _, same = np.unique(row_keys(X), return_inverse=True)
        places = random.permutation(same.max() + 1)[same]  # equal rows have one place, in any order of the rows
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

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean class | x), shape (n_samples, n_classes): the c probabilities, divided by their sum."""
        scores = self._scores(X)
        total = scores.sum(axis=1, keepdims=True)
        return np.divide(scores, total, out=np.full_like(scores, 1 / scores.shape[1]), where=total > 0)

    def _scores_of(self, X: Any) -> FloatArray:
        if self.classifier is None and sparse.issparse(X) and _centres(self.classifiers_):
            X = X.toarray()
        return np.column_stack([positive_probability(classifier, X) for classifier in self.classifiers_])

    def _rates_of_transition(self, noisy_prior: FloatArray) -> FloatArray:
        rates = binary_rates(self.transition_, self.class_prior_)
        seen = (noisy_prior > 0) & (noisy_prior < 1)  # the other problems have nothing to learn
        check_informative(BinaryRates(*(rate[seen] for rate in rates)), self.classes_[seen])
        return np.column_stack(rates)

    def _unfitted(self, X: Any, random: np.random.RandomState) -> Any:
        if self.classifier is None:
            return _default_classifier(X.shape[1], X.dtype, centre=not sparse.issparse(X))
        model = clone(self.classifier)
        if self.random_state is not None:
            seed = self.random_state if isinstance(self.random_state, Integral) else random.randint(2**31)
            seeded = [name for name in model.get_params() if name.rpartition("__")[2] == "random_state"]
            model.set_params(**dict.fromkeys(seeded, seed))
        return model

    def _check_parameters(self) -> None:
        if isinstance(self.cv, Integral) and self.cv < 2:
            raise ValueError(f"cv must be at least 2 folds; got {self.cv}")
        if self.classifier is not None and not hasattr(self.classifier, "predict_proba"):
            raise ValueError(f"classifier must have predict_proba; {type(self.classifier).__name__} has none")

    def _fitted_state(self) -> dict[str, Any]:
        if self.classifier is not None:
            raise ValueError(
                "only the default classifier can be saved without code; another one was given as classifier"
            )
        state = super()._fitted_state()
        if "classifiers_" in state:
            state["classifiers_"] = [_to_plain(classifier) for classifier in self.classifiers_]
        return state

    def _set_fitted_state(self, state: dict[str, Any]) -> None:
        plain = [_from_plain(item, state["n_features_in_"]) for item in state["classifiers_"]]
        super()._set_fitted_state({**state, "classifiers_": plain})


def _partition(splits: Any, n_samples: int) -> Splits:
    """The splits as rows, if each row is held out once."""
    rows = np.arange(n_samples)
    found = [(rows[train], rows[test]) for train, test in splits]
    held_out = np.bincount(np.concatenate([rows[:0], *(test for _, test in found)]), minlength=n_samples)
    if (held_out != 1).any():
        raise ValueError(
            f"cv must hold out each sample once; sample {(held_out != 1).argmax()} is held out "
            f"{held_out[held_out != 1][0]} times. Use a partition such as KFold or GroupKFold"
        )
    return found


def _default_classifier(n_features: int, dtype: Any = np.float64, *, centre: bool) -> Any:
    # Newton steps while a Hessian is small: exact, so that weights equal repetition. L-BFGS beyond.
    if n_features <= LARGEST_NEWTON:
        logistic = LogisticRegression(solver="newton-cholesky", tol=1e-8 if dtype == np.float64 else 1e-5)
    else:
        logistic = LogisticRegression(max_iter=1000)
    return make_pipeline(StandardScaler(with_mean=centre), logistic)


def _centres(classifiers: list[Any]) -> bool:
    """Whether default classifiers were fitted to dense X, whose mean they subtract."""
    return any(isinstance(model, Pipeline) and model[0].with_mean for model in classifiers)


def _to_plain(classifier: Any) -> bool | list[dict[str, Any]]:
    if isinstance(classifier, DummyClassifier):
        return bool(classifier.classes_[0])
    return [{name: value for name, value in vars(step).items() if name.endswith("_")} for _, step in classifier.steps]


def _from_plain(plain: Any, n_features: int) -> Any:
    if isinstance(plain, bool):
        return constant(plain)
    classifier = _default_classifier(n_features, centre=plain[0]["mean_"] is not None)
    for (_, step), fitted in zip(classifier.steps, plain, strict=True):
        vars(step).update(fitted)
    return classifier
