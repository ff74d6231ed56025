"""Each label's probability of being wrong, judged by a model that did not see it."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import norm
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from unflip import registry
from unflip._base import check_rows, resolve_transition, seeded, weighting
from unflip._validation import FloatArray, IntArray, check_labels, check_same_length, check_transition
from unflip.audit.rules import rule_note
from unflip.core import clean_posterior, clean_prior, inverted_posterior
from unflip.crowd import AnnotatorModel, annotations_of, is_matrix
from unflip.metrics import CleanAccuracy, clean_accuracy
from unflip.noise import symmetric
from unflip.tables.read import as_frame
from unflip.transition._cross_fit import mean_log_likelihood
from unflip.transition._row_order import row_order
from unflip.transition.varying import VaryingNoise, fit_varying
from unflip.transition.volmin import VolMin

Data = tuple[Any, IntArray, FloatArray | None]  # X, label codes, weights

LARGEST_SEED = 2**31 - 1
MANY_ROWS = 10_000  # that a model is taken to have learned from if it does not say
NOTABLE = 0.01  # the share of labels that may be wrong from which on it is worth saying
TOO_FEW = "There are too few rows to compare models, so a linear model judges the labels."


@dataclass(frozen=True, eq=False)  # == of arrays has no truth value
class LabelErrors:
    """What :func:`unflip.audit.find_label_errors` found.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    given : ndarray of shape (n_samples,)
        The labels as they were given.
    posterior, proba : ndarray of shape (n_samples, n_classes)
        P(clean = k | x, given), and P(clean = k | x): what a model that did not see the sample predicts before it is
        told the label.
    transition : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i), which judged the labels: the matrix that was given, or the estimate from all
        samples, or the mean over the folds if each had its own; or the symmetric matrix that takes the place of an
        estimate (see the Notes of :func:`unflip.audit.find_label_errors`), which has the same rate for all classes.
    scores : ndarray of shape (n_samples,)
        P(the label is wrong | x, given) = 1 - P(clean = given | x, given).
    suggested : ndarray of shape (n_samples,)
        The most probable clean label; the given label if it is as probable as any other.
    n_errors : ndarray of shape (n_classes,)
        The expected number of wrong labels among those given as each class: the sum of their scores.
    histories : list of list of dict
        ``history_`` of the network of each fold; empty for other classifiers.
    transition_std : ndarray of shape (n_classes, n_classes) or None
        The standard error of each entry of ``transition``; None if T was given or its estimator has none.
    candidates : list of Candidate
        The models that :class:`unflip.CorrectedClassifier` compared; empty for other classifiers.
    notes : list of str
        What the data cannot tell, a sentence each, according to the same class.
    annotators : AnnotatorModel or None
        What is known about several annotators; None for one label per sample.
    noise : VaryingNoise or None
        How the rate of wrong labels depends on the sample, see Notes of :func:`unflip.audit.find_label_errors`; None if
        T was given.
    by_rules : bool
        Whether a few words predict the labels so well that rules may have made them; then many more labels may be wrong
        than ``total``, and ``notes`` say so.
    undecided : bool
        Whether CorrectedClassifier cannot tell noise from classes that overlap: it averages both explanations, or T = I
        although ``doubt`` takes at least 1 % of the labels for wrong. Then the number of wrong labels may be anywhere
        in ``interval``.
    doubt : ndarray of shape (n_samples, n_classes) or None
        ``posterior`` if people made the labels, and err as in the sets by which the prior of VaryingNoise was chosen.
        None unless T = I for want of evidence.
    """

    classes: NDArray[Any]
    given: NDArray[Any]
    posterior: FloatArray
    proba: FloatArray
    transition: FloatArray
    scores: FloatArray
    suggested: NDArray[Any]
    n_errors: FloatArray
    histories: list[list[dict[str, Any]]]
    transition_std: FloatArray | None = None
    candidates: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    annotators: AnnotatorModel | None = None
    noise: VaryingNoise | None = None
    by_rules: bool = False
    undecided: bool = False
    doubt: FloatArray | None = None

    @property
    def ranked(self) -> IntArray:
        """The samples by falling score; equal scores keep the order of the data."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def suspects(self) -> IntArray:
        """The samples whose suggested label differs from the given one, by falling score."""
        order = self.ranked
        return order[self.suggested[order] != self.given[order]]

    @property
    def total(self) -> float:
        """The expected number of wrong labels."""
        return float(self.n_errors.sum())

    @property
    def rate(self) -> float:
        """The expected share of wrong labels."""
        return self.total / len(self.scores)

    @property
    def suspected(self) -> float | None:
        """The number of wrong labels according to ``doubt``, if the labels do not tell whether it is right, or None."""
        if self.doubt is None or not self.undecided:
            return None
        return float(np.sum(1 - _of_labels(self.doubt, self._codes)))

    @property
    def interval(self) -> tuple[float, float]:
        """Between which numbers the number of wrong labels lies, with probability 0.9 unless it is ``undecided``.

        It allows for what the labels cannot tell about the noise; if T was given, only for chance. For several
        annotators it begins at the number of wrong labels if they err independently, and ends at that if the labels of
        a row say no more than a single one, each with its chance: which errors they share does not show in labels. In
        ten sets with known truth, 19 % of the majority votes are wrong on average, 12 % are expected to be, and the
        interval always covers the truth.

        If it is ``undecided`` whether there is noise, the interval begins at 0 and ends at the number of labels that
        would differ from a second draw out of q(x) = P(noisy | x), sum_i 1 - q_given(x_i): people who know no more than
        x would err as often.
        """
        low, high = self._modeled_interval
        if not self.undecided:
            return low, high
        return 0.0, max(high, float(np.sum(1 - _of_labels(self.proba @ self.transition, self._codes))))

    @property
    def _codes(self) -> IntArray:
        return np.searchsorted(self.classes, self.given)

    @property
    def _modeled_interval(self) -> tuple[float, float]:
        n, total = len(self.scores), self.total
        if self.noise is not None:
            return min(self.noise.low * n, total), max(self.noise.high * n, total)
        few = many = self.scores
        if self.annotators is not None:
            n_labels = self.annotators.annotations_.counts.sum(axis=1)
            wrong = self.given[:, np.newaxis] != self.classes
            few, many = ((self.annotators.posterior_at(p) * wrong).sum(axis=1) for p in (1.0, 1 / n_labels))
        low, high = (
            float(p.sum() + side * np.sqrt((p * (1 - p)).sum()))
            for p, side in ((few, norm.ppf(0.05)), (many, norm.ppf(0.95)))
        )
        return min(max(low, 0.0), total), max(min(high, float(n)), total)

    def accuracy(self, y_pred: ArrayLike | None = None, confidence: float = 0.95) -> CleanAccuracy:
        """Return the estimated accuracy of predictions on the clean labels of these samples, with an interval.

        The estimate is that of :func:`unflip.clean_accuracy` with ``transition``. Its interval also covers the accuracy
        according to ``posterior`` and ``doubt``, and to both with as few and as many wrong labels as the model of noise
        allows, because the labels cannot tell noise that depends on the sample from one T. ``y_pred`` must come from a
        model that did not see these labels; if None, it is what ``proba`` predicts.
        """
        predicted = self.classes[self.proba.argmax(axis=1)] if y_pred is None else np.asarray(y_pred)
        shares = [wrong / len(self.given) for wrong in self._modeled_interval]
        found = [P for P in (self.posterior, self.doubt) if P is not None]
        ends = [_with_share(np.log(np.maximum(P, 1e-9)), self._codes, share) for P in found for share in shares]
        return clean_accuracy(
            self.given,
            predicted,
            self.transition,
            classes=self.classes,
            confidence=confidence,
            transition_std=self.transition_std,
            posteriors=[*found, *(end for end in ends if end is not None)],
        )

    @property
    def noise_rates(self) -> FloatArray:
        """The expected share of wrong labels among the samples of each clean class, shape (n_classes,).

        ::

            1 - sum of P(clean = k | x, given) over the samples given as k  /  the sum over all samples

        Counted in the data, it differs between classes even if T is symmetric. A class without samples has rate 0.
        """
        size = self.posterior.sum(axis=0)
        kept = (self.posterior * (self.given[:, np.newaxis] == self.classes)).sum(axis=0)
        return np.clip(1 - np.divide(kept, size, out=np.ones_like(size), where=size > 0), 0, 1)


def find_label_errors(
    X: Any = None,
    y: ArrayLike | None = None,
    classifier: Any = None,
    transition: Any = None,
    cv: Any = 5,
    *,
    pred_probs: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: Any = None,
    on_fold: Callable[[int], None] | None = None,
) -> LabelErrors:
    """Return each label's probability of being wrong, and the label that it should probably be, as LabelErrors.

    A model that did not see the sample gives p_k(x) = P(clean = k | x). The given label is evidence too, as strong as T
    makes it, and Bayes' rule joins both::

        P(clean = k | x, given = j)  =  p_k(x) T[k, j] / sum_l p_l(x) T[l, j]
        score                        =  1 - P(clean = given | x, given)

    With T = I no label can be wrong; if T is uninformative, the score is 1 - p_given(x). In between, a label j that
    often comes from class i, with a large T[i, j], is doubted on less evidence than one that hardly ever does. Scores
    are probabilities, so their sum over some samples is the expected number of wrong labels among them.

    Parameters
    ----------
    X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features), or array of images
        Whatever the classifier takes. It is not needed if ``pred_probs`` are given.
    y : array-like of shape (n_samples,) or (n_samples, n_annotators)
        Noisy labels of any kind. Of several annotators, the majority vote is judged; missing labels are None, NaN, ""
        or negative integers. ``X`` may then be left out.
    classifier : classifier with ``predict_proba``, default=None
        Cloned and fitted again in each fold. If None, :class:`unflip.CorrectedClassifier` chooses one; it fits in folds
        itself, and its T and its predictions for the rows that were held out are used. A classifier of this package
        predicts p(x). Any other learns the noisy posterior q(x) = p(x) T, from which p(x) is computed, see Notes. In a
        pipeline, or a search such as ``GridSearchCV``, the classifier inside decides.
    transition : array-like of shape (n_classes, n_classes), estimator or None, default=None
        T[i, j] = P(noisy = j | clean = i); or an estimator with ``fit(X, y)`` and ``transition_``, which is fitted once
        to all samples. If None, CorrectedClassifier uses its own estimate from all samples, and VolMin and the linear
        classifiers of this package use that of VolMin; with any other classifier, T is its own in each fold, or else
        VolMin's estimate from all samples. A classifier of this package with ``transition=None`` is trained with the T
        that is given here.
    cv : int, splitter or iterable of (train, test), default=5
        An int is the number of folds: stratified and shuffled; those of VolMin and ForwardLogisticClassifier follow
        from the values of the rows. If a splitter holds a sample out more than once, its posteriors are averaged.
    pred_probs : array-like of shape (n_samples, n_classes), default=None
        Instead of a classifier: P(noisy label = j | x) of each sample, predicted by a model that was trained on the
        noisy labels of other samples, such as ``cross_val_predict(model, X, y, method="predict_proba")``. Its columns
        are the classes in sorted order.
    groups : array-like of shape (n_samples,), default=None
        Samples of one group, such as the pictures of one person, are held out together.
    classes : array-like of shape (n_classes,), default=None
        As in :class:`unflip.transition.VolMin`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights for the estimate of T, and for the classifier if its ``fit`` takes them. Every label is judged, and
        counted once.
    random_state : int, RandomState instance or None, default=None
        Seeds the folds, and the classifier and the estimator of T unless they have a ``random_state`` of their own.
    on_fold : callable, default=None
        Called with 0, 1, ... as each fold begins.

    Notes
    -----
    Folds are needed because a model that saw a wrong label has partly learned it. A class whose samples all lie in one
    fold, such as one that occurs once, is unknown to the model of that fold: its labels score high, which is right for
    a misspelled label and otherwise worth checking.

    *What T never saw.* An estimated T[i, j] may be zero only because no such flip was among the n_i samples of class i,
    and would then hide it. So Bayes' rule uses T with one sample of evenly spread labels added to each row, (n_i T[i] +
    1 / n_classes) / (n_i + 1). T = I is a single finding about all labels and gets one sample for all of them, so that
    the order is that of 1 - p_given(x), unless the rate depends on the sample; one sample per class would make flips
    out of small classes likelier.

    *Even flips.* T has c (c - 1) free entries, and the few labels of a class and pair determine them poorly; their
    errors disturb the order of the scores. So the symmetric T with the same noise rate, a single number, takes its
    place, unless the estimated one explains the held-out labels so much better that Akaike's criterion prefers it::

        sum_i log (p(x_i) T)_{y_i}  -  sum_i log (p(x_i) T_symmetric)_{y_i}   >   c (c - 1) - 1

    With a symmetric T the order is that of 1 - p_given(x). A matrix that was given is used as it is.

    *Noise that depends on the sample.* People mislabel hard samples more often than easy ones, and then T alone counts
    too few wrong labels: it takes their disagreement with the model for overlap of the classes. So unless T was given,
    :class:`~unflip.transition.varying.VaryingNoise` is fitted to the labels that were held out. If they do not
    contradict it, its posterior and that of T are averaged (their logarithms), and all odds of wrong labels are
    multiplied by the one factor that makes their expected number that of VaryingNoise.

    *The clean posterior from a noisy one.* q(x) of a fitted model is rarely a mixture of the rows of T, so q T^-1
    leaves the simplex. Instead p(x) moves from the clean prior towards what explains q best, the solution of p T = q if
    one exists, in eight steps of EM::

        p -> argmax  sum_j q_j log (p T)_j,      p_k <- p_k sum_j T[k, j] q_j / (p T)_j

    At the end of that path many p_k are zero, and the order of the unlikely classes is lost. Before the first step, one
    sample with the labels of the noisy prior is added to the n that the model learned from, q <- (n q + prior) /
    (n + 1): a forest or nearest neighbors may rule a label out, and what is impossible cannot be judged.

    *Which classifier.* The default compares linear models and trees. :class:`~unflip.ForwardLogisticClassifier` and
    :class:`~unflip.transition.VolMin`, the same model, are linear in the features, choose their scale themselves, and
    are fast: the models that find T by cross-fitting also judge the samples that they did not see. For images, pass a
    network, such as :class:`unflip.transition.CrossFitEM`.

    *Probabilities.* With ``pred_probs``, VolMin judges, whose features are then the logarithms of the probabilities: it
    estimates T, and its model of the clean class fixes probabilities that are too sure or not sure enough. T is that of
    minimum volume, without the guard of VolMin, so the probabilities must be near one for some samples of each class
    where the labels are right; where classes overlap, too many labels are taken for wrong.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip import VolMin
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = load_digits(return_X_y=True)
    >>> noisy = corrupt(y, pairflip(10, 0.3), random_state=0)
    >>> found = find_label_errors(X, noisy, VolMin(), random_state=0)
    >>> bool(np.mean(noisy[found.suspects] != y[found.suspects]) > 0.9)
    True
    """
    if is_matrix(y):
        return _judged_crowd(X, y, classifier, transition, cv, pred_probs, groups, classes, sample_weight, random_state)
    options = {"classes": classes, "sample_weight": sample_weight, "groups": groups, "random_state": random_state}
    return _judged(X, y, classifier, transition, cv, pred_probs=pred_probs, on_fold=on_fold, **options)[0]


def _judged_crowd(
    X: Any,
    Y: Any,
    classifier: Any,
    transition: Any,
    cv: Any,
    pred_probs: Any,
    groups: Any,
    classes: Any,
    sample_weight: Any,
    random_state: Any,
) -> LabelErrors:
    """Judge the majority votes by what all annotators say, and by a model that did not see the row."""
    if transition is not None:
        raise ValueError("each annotator has a T of their own, which is estimated; leave transition out")
    a = annotations_of(Y, classes)
    empty = np.flatnonzero(a.counts.sum(axis=1) == 0)
    if len(empty):
        raise ValueError(f"{len(empty)} rows, {empty[0]} first, have no label of any annotator; drop them")
    candidates, notes, proba = [], [], pred_probs
    if X is None:
        crowd = AnnotatorModel().fit(a, proba=pred_probs)
    else:
        given = {"cv": cv, "classes": classes, "random_state": random_state}
        if type(classifier).__name__ == "CorrectedClassifier":
            model = clone(classifier)
        else:
            model = registry.make("CorrectedClassifier", estimator=classifier, **given)
        model.fit(X, a, sample_weight=sample_weight, groups=groups)
        crowd, proba, candidates, notes = model.annotator_model_, model.oof_proba_, model.candidates_, model.notes_
    # Not posterior_: its discount for shared errors would count as many wrong labels where annotators share none.
    q, votes, rows = crowd.posterior_at(crowd.temperature_), a.majority, np.arange(a.n_rows)
    likely = crowd.fit_.posterior
    best = likely.argmax(axis=1)
    suggested = np.where(likely[rows, votes] >= likely[rows, best], votes, best)
    scores = np.clip(1 - q[rows, votes], 0, 1)
    T = q.T @ np.eye(len(a.classes))[votes] + np.eye(len(a.classes))  # of the votes; a class may have no row
    return LabelErrors(
        classes=a.classes,
        given=a.classes[votes],
        posterior=q,
        proba=np.tile(crowd.class_prior_, (a.n_rows, 1)) if proba is None else np.asarray(proba),
        transition=T / T.sum(axis=1, keepdims=True),
        scores=scores,
        suggested=a.classes[suggested],
        n_errors=np.bincount(votes, scores, minlength=len(a.classes)).astype(np.float64),
        histories=[],
        candidates=candidates,
        notes=notes,
        annotators=crowd,
    )


class LabelAuditor(BaseEstimator):
    """An audit that is kept, to judge the labels of new rows.

    ``fit`` finds the errors among the training labels as :func:`find_label_errors` does, and fits the same classifier
    to all rows; ``find`` judges the labels of other rows with it, by the same T and the same rule.

    Parameters
    ----------
    classifier, transition, cv, classes, random_state
        As in :func:`find_label_errors`.

    Attributes
    ----------
    errors_ : LabelErrors
        What is wrong with the training labels.
    classifier_ : classifier
        Fitted to all rows.
    classes_, transition_, class_prior_ : ndarray
        The classes, the T by which labels are judged, and the clean class prior.
    noise_ : VaryingNoise or None
        How the rate of wrong labels depends on the sample.
    undecided_ : bool
        As in :class:`LabelErrors`, of the training labels and so of those that are judged.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip import VolMin
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = load_digits(return_X_y=True)
    >>> noisy = corrupt(y, pairflip(10, 0.3), random_state=0)
    >>> auditor = LabelAuditor(VolMin(), random_state=0).fit(X[:1000], noisy[:1000])
    >>> found = auditor.find(X[1000:], noisy[1000:])
    >>> bool(np.mean(noisy[1000:][found.suspects] != y[1000:][found.suspects]) > 0.8)
    True
    """

    errors_: LabelErrors
    classes_: NDArray[Any]
    transition_: FloatArray
    class_prior_: FloatArray
    classifier_: Any
    noise_: VaryingNoise | None
    undecided_: bool
    _counts: FloatArray | IntArray  # of the labels that the classifier has seen, or what they should be

    def __init__(
        self,
        classifier: Any = None,
        transition: Any = None,
        cv: Any = 5,
        *,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.classifier = classifier
        self.transition = transition
        self.cv = cv
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:
        """Audit the training labels, and fit the classifier to all of them."""
        given: dict[str, Any] = {"classes": self.classes, "sample_weight": sample_weight, "groups": groups}
        self.errors_, folds, model = _judged(
            X, y, self.classifier, self.transition, self.cv, random_state=self.random_state, **given
        )
        self.classes_, self.noise_ = self.errors_.classes, self.errors_.noise
        self.undecided_ = self.errors_.undecided
        self.transition_ = np.mean([fold.used for fold in folds], axis=0)
        self.class_prior_ = np.mean([fold.prior for fold in folds], axis=0)
        if not hasattr(model, "classes_"):  # the models of the folds judged, none has seen all rows
            weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
            model = seeded(clone(model), self.random_state)
            model.fit(X, np.asarray(y), **weighting(model, weights))
        self.classifier_ = model
        self._counts = np.bincount(np.searchsorted(self.classes_, np.asarray(y)), minlength=len(self.classes_))
        return self

    @classmethod
    def of(cls, model: Any, transition: ArrayLike | None = None) -> Self:
        """Return an auditor that judges by a fitted classifier of the package, such as :func:`unflip.load` returns.

        T is that of the model, unless it is given.
        """
        check_is_fitted(model)
        T = getattr(model, "transition_", None) if transition is None else transition
        if T is None or not hasattr(model, "predict_proba"):
            raise ValueError(f"{type(model).__name__} has no T or no predict_proba; give T, or choose another model")
        auditor = cls(model, transition)
        auditor.noise_, auditor.undecided_ = None, False
        auditor.classifier_, auditor.classes_ = model, model.classes_
        T = check_transition(T, len(model.classes_))
        prior = getattr(model, "class_prior_", None)
        prior = np.full(len(T), 1 / len(T)) if prior is None else np.asarray(prior)
        # Without a T, a network's prior is that of the noisy labels.
        auditor.class_prior_ = clean_prior(prior, T) if getattr(model, "transition_", None) is None else prior
        rows = getattr(model, "metadata_", {}).get("rows trained on", MANY_ROWS)
        auditor._counts = rows * auditor.class_prior_ @ T
        auditor.transition_ = T if transition is not None else _with_a_sample(T, rows * auditor.class_prior_)
        return auditor

    def find(self, X: Any, y: ArrayLike) -> LabelErrors:
        """Return which labels of new rows are probably wrong."""
        check_is_fitted(self, "classifier_")
        check_rows(X, y)
        return self.judge(_predicted(self.classifier_, X, self.classes_), y)

    def judge(self, proba: FloatArray, y: ArrayLike) -> LabelErrors:
        """Return the same from the probabilities that the classifier predicted, shape (n_samples, n_classes)."""
        known, codes = check_labels(given := np.asarray(y), self.classes_)
        T, noisy = self.transition_, speaks_of_noisy_labels(self.classifier_)
        proba = _with_a_label(proba, self._counts) if noisy else proba
        fold = _Fold(np.arange(len(codes)), proba, noisy, T, T, self.class_prior_, False, None)
        return _label_errors(given, known, codes, [fold], noise=self.noise_, undecided=self.undecided_)


def _judged(
    X: Any,
    y: ArrayLike | None,
    classifier: Any,
    transition: Any,
    cv: Any,
    *,
    classes: ArrayLike | None,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    random_state: Any,
    pred_probs: ArrayLike | None = None,
    on_fold: Callable[[int], None] | None = None,
) -> tuple[LabelErrors, "list[_Fold]", Any]:
    """Return the errors, the folds that judged, and the classifier: fitted to all samples if that was the way."""
    if y is None:
        raise ValueError("y is missing; give the labels that are to be judged")
    if X is None and pred_probs is None:
        raise ValueError("X is missing; give the samples, or pred_probs=, their out-of-sample probabilities")
    check_rows(y if X is None else X, y)
    X, y = as_frame(X), as_frame(y)
    given = np.asarray(y)
    known, codes = check_labels(given, classes)
    if np.bincount(codes).max() < 2:
        raise ValueError(f"each of the {len(codes)} labels occurs once; give y as classes, with several samples each")
    check_classification_targets(given)
    if not hasattr(transition, "fit") or isinstance(transition, type):
        transition = None if transition is None else check_transition(transition, len(known))
    weights = None if sample_weight is None else _check_sample_weight(sample_weight, given, ensure_non_negative=True)
    random = check_random_state(random_state)
    if pred_probs is not None:
        if classifier is not None:
            raise ValueError("give a classifier or pred_probs, not both")
        # Without its guard, which takes flips of few classes for overlap, so that fewer of them would be ranked first.
        X, classifier = _log_probabilities(pred_probs, codes, len(known), weights), VolMin(guard=False)
    model = clone(_check_classifier(classifier, X))
    (X,) = indexable(X)
    data = (X, codes, weights)
    pairs = None if isinstance(cv, Integral) and groups is None else list(_splits(cv, *data, groups, random))
    histories: list[list[dict[str, Any]]] = []
    whole: _Fold | None = None
    told: tuple[list[Any], list[str]] = ([], [])
    if type(model).__name__ == "CorrectedClassifier" and isinstance(cv, Integral):
        model.set_params(**({"cv": _n_folds(cv, codes)} if classifier is None else {}))
        if on_fold is not None:
            on_fold(0)
        whole = _cross_fitted(model, transition, data, known, groups, random_state)
        told = (model.candidates_, model.notes_)
        if whole is None:
            model, told = VolMin(), ([], [TOO_FEW])
    if whole is None and isinstance(model, VolMin) and (transition is None or model.transition is None):
        if on_fold is not None:
            on_fold(0)
        whole = _held_out(model, transition, data, known, cv if pairs is None else pairs)
    if whole is not None:
        found = _label_errors(given, known, codes, [whole], told=told, weights=weights)
        return _with_rule_note(found, X, codes), [whole], model
    model = clone(model)
    folds: list[_Fold] = []
    shared = _shared_transition(model, transition, data, known, random_state)
    for train, test in _splits(cv, *data, groups, random) if pairs is None else pairs:
        if on_fold is not None:
            on_fold(len(folds))
        seed = None if random_state is None else int(random.randint(LARGEST_SEED))
        seen, w = _safe_indexing(X, train), None if weights is None else weights[train]
        fitted = seeded(clone(model), seed)
        fitted.fit(seen, given[train], **weighting(fitted, w))
        learner, _ = _inside(fitted)
        histories.append(list(getattr(learner, "history_", [])))  # of a network, epoch by epoch
        if shared is None and getattr(learner, "transition_", None) is not None:
            own = getattr(learner, "transition", None)
            T, estimated = check_transition(learner.transition_, len(known)), own is None or hasattr(own, "fit")
            source = learner if hasattr(learner, "transition_std_") else getattr(learner, "transition_estimator_", None)
            std = getattr(source, "transition_std_", None) if estimated else None
        else:
            if shared is None:
                T, std = _estimate(None, fitted, data, known, seed)
                shared = (T, True, std)
            T, estimated, std = shared
        counts = np.bincount(codes[train], w, minlength=len(known))
        prior = clean_prior(counts / counts.sum(), T)
        used = _with_a_sample(T, counts.sum() * prior) if estimated else T
        proba, noisy = _predicted(fitted, _safe_indexing(X, test), known), speaks_of_noisy_labels(fitted)
        proba = _with_a_label(proba, counts) if noisy else proba
        folds.append(_Fold(test, proba, noisy, T, used, prior, estimated, std))
    folds = _with_even_flips(folds, codes)
    found = _label_errors(given, known, codes, folds, histories, told, weights=weights)
    return _with_rule_note(found, X, codes), folds, model


def _label_errors(
    given: NDArray[Any],
    known: NDArray[Any],
    codes: IntArray,
    folds: "list[_Fold]",
    histories: list[list[dict[str, Any]]] | None = None,
    told: Any = ((), ()),
    noise: VaryingNoise | None = None,
    weights: FloatArray | None = None,
    undecided: bool = False,
) -> LabelErrors:
    posterior, proba = _posteriors(folds, codes)
    doubt, doubted = None, False
    if noise is None and all(fold.estimated for fold in folds):
        noise = fit_varying(proba, codes, np.mean([fold.transition for fold in folds], axis=0), weights)
        if folds[0].doubt is not None:  # the number may be that of this explanation
            p, T = folds[0].doubt
            other = fit_varying(p, codes, T, weights, presumed=True)
            noise, doubt = replace(noise, high=max(noise.high, other.high)), other.posterior(p, codes)
            doubted = 1 - float(_of_labels(doubt, codes).mean()) >= NOTABLE and not noise.varies
        undecided = folds[0].averaged or doubted
    if noise is not None:
        posterior = _averaged(posterior, proba, codes, noise)
    scores = 1 - _of_labels(posterior, codes)
    best = np.where(posterior.max(axis=1) > 1 - scores, posterior.argmax(axis=1), codes)
    # The classes have the type of y, unless that would change one (a name longer than any in y).
    named = known.astype(given.dtype)
    named = named if np.array_equal(named, known) else known
    # A T that all folds share is its own mean without rounding.
    T = np.mean(list({id(fold.transition): fold.transition for fold in folds}.values()), axis=0)
    n_errors = np.bincount(codes, scores, minlength=len(known)).astype(np.float64)
    stds = [fold.std for fold in folds if fold.std is not None]
    std = np.mean(stds, axis=0) if len(stds) == len(folds) else None
    found = (named, given, posterior, proba, T, scores, named[best], n_errors, list(filter(None, histories or [])))
    candidates, notes = map(list, told)
    return LabelErrors(*found, std, candidates, notes, noise=noise, undecided=undecided, doubt=doubt)


def _of_labels(p: FloatArray, codes: IntArray) -> FloatArray:
    """Return the probability of each row's own label."""
    own: FloatArray = p[np.arange(len(codes)), codes]
    return own


def _with_rule_note(errors: LabelErrors, X: Any, codes: IntArray) -> LabelErrors:
    note = rule_note(X, codes, errors.proba @ errors.transition)
    return errors if note is None else replace(errors, notes=[note, *errors.notes], by_rules=True)


def _averaged(posterior: FloatArray, proba: FloatArray, codes: IntArray, noise: VaryingNoise) -> FloatArray:
    """Return the posterior by T if the rate does not vary; otherwise its average with that by the noise, see Notes."""
    if not noise.varies:
        return posterior
    varying = noise.posterior(proba, codes)
    both = (np.log(np.maximum(posterior, 1e-9)) + np.log(np.maximum(varying, 1e-9))) / 2
    found = _with_share(both, codes, 1 - float(_of_labels(varying, codes).mean()))
    return varying if found is None else found


def _with_share(logs: FloatArray, codes: IntArray, wrong: float) -> FloatArray | None:
    """Return posteriors whose odds of a wrong label are multiplied by the factor that makes so many labels wrong.

    None if no factor does.
    """
    rows = np.arange(len(codes))

    def shifted(shift: float) -> FloatArray:
        moved = logs.copy()
        moved[rows, codes] += shift
        return np.asarray(softmax(moved, axis=1))

    def excess(shift: float) -> float:
        return 1 - float(shifted(shift)[rows, codes].mean()) - wrong

    if not excess(20.0) < 0 < excess(-20.0):
        return None
    return shifted(brentq(excess, -20.0, 20.0, xtol=1e-6))


class _Fold(NamedTuple):
    test: Any
    proba: FloatArray
    noisy: bool  # whether proba are probabilities of noisy labels
    transition: FloatArray
    used: FloatArray  # by Bayes' rule: T, or T with a sample added
    prior: FloatArray
    estimated: bool
    std: FloatArray | None  # standard errors of T
    doubt: tuple[FloatArray, FloatArray] | None = None  # p and T of noise that overlap explains as well
    averaged: bool = False  # whether proba is, with the explanation that no label is wrong

    def p(self, T: FloatArray) -> FloatArray:
        """Return P(clean = k | x) of the samples that were held out."""
        return inverted_posterior(self.proba, T, self.prior) if self.noisy else self.proba

    def log_likelihood(self, T: FloatArray, codes: IntArray) -> float:
        return len(self.proba) * mean_log_likelihood(self.p(T), codes[self.test], T)


def _with_a_sample(T: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return T with one sample of evenly spread labels added to each class, or to all if T = I; see Notes."""
    n = sizes.sum() if np.array_equal(T, np.eye(len(T))) else sizes[:, np.newaxis]
    return (n * T + 1 / len(T)) / (n + 1)


def _cross_fitted(
    model: Any, transition: Any, data: Data, classes: NDArray[Any], groups: Any, random_state: Any
) -> _Fold | None:
    """Fit CorrectedClassifier to all samples; it keeps what it predicts for each sample that it held out.

    Return None if there are too few samples to hold any out.
    """
    X, codes, weights = data
    if model.classes is None:
        model.set_params(classes=classes)
    if transition is not None and model.transition is None:
        model.set_params(transition=transition)
    estimated = model.transition is None or hasattr(model.transition, "fit")
    further = weighting(model, weights) | ({} if groups is None else {"groups": groups})
    seeded(model, random_state).fit(X, classes[codes], **further)
    if model.oof_proba_ is None:
        return None
    fold = _fold_of_all(model, model.oof_proba_, estimated, data)
    witness = model.witness_
    if estimated and witness.shape_ == "none":
        return fold._replace(doubt=(witness.clean_proba_, witness.suspected_))
    return fold._replace(averaged=estimated and witness.share_ < 1)


def _held_out(model: VolMin, transition: Any, data: Data, classes: NDArray[Any], cv: Any) -> _Fold | None:
    """Fit VolMin to all samples, with what the models of its folds predict for each sample that they did not see.

    Return None if there are too few samples, or if the folds do not hold each sample out once.
    """
    X, codes, weights = data
    if model.classes is None:
        model.set_params(classes=classes)
    if transition is not None:
        model.set_params(transition=transition)
    estimated = model.transition is None or hasattr(model.transition, "fit")
    if isinstance(cv, list):
        tests = [np.arange(len(codes))[test] for _, test in cv]
        held = np.concatenate(tests)
        if len(tests) < 2 or not np.array_equal(np.sort(held), np.arange(len(codes))):
            return None
        cv = np.empty(len(codes), dtype=np.intp)
        for number, test in enumerate(tests):
            cv[test] = number
    proba = model.fit_held_out(X, classes[codes], weights, folds=cv if np.ndim(cv) else _n_folds(cv, codes))
    return None if proba is None else _fold_of_all(model, proba, estimated, data)


def _fold_of_all(model: Any, proba: FloatArray, estimated: bool, data: Data) -> _Fold:
    """Return all samples as one fold, with the T of a model that was fitted to all of them."""
    _, codes, weights = data
    T, prior, n = check_transition(model.transition_, proba.shape[1]), model.class_prior_, len(codes)
    used = _with_a_sample(T, (n if weights is None else weights.sum()) * prior) if estimated else T
    std = getattr(model, "transition_std_", None) if estimated else None
    (fold,) = _with_even_flips([_Fold(np.arange(n), proba, False, T, used, prior, estimated, std)], codes)
    return fold


def _log_probabilities(pred_probs: ArrayLike, codes: IntArray, c: int, weights: FloatArray | None) -> FloatArray:
    """Return the logarithms of checked probabilities, in which no label is ruled out."""
    q, n = np.array(pred_probs, dtype=np.float64), len(codes)
    if q.shape != (n, c):
        raise ValueError(
            f"pred_probs must have one row per label and one column per class, shape {(n, c)}; got {q.shape}. If the "
            "model knew more classes than y has, name them all with classes="
        )
    if not np.isfinite(q).all() or q.min() < 0 or np.abs(q.sum(axis=1) - 1).max() > 0.01:
        raise ValueError(
            "each row of pred_probs must sum to one and have no negative entry; pass what predict_proba gives"
        )
    counts = np.bincount(codes, weights, minlength=c)
    return np.log((n * q / q.sum(axis=1, keepdims=True) + counts / counts.sum()) / (n + 1))


def _check_classifier(classifier: Any, X: Any) -> Any:
    if classifier is None:
        if getattr(X, "ndim", 2) > 2:
            raise ValueError(
                f"the default classifier takes a table, but X has shape {X.shape}. Pass X.reshape(len(X), -1), or a "
                "network: classifier=NoisyLabelClassifier('forward', 'cnn6')"
            )
        return registry.make("CorrectedClassifier")
    if isinstance(classifier, type) or not (hasattr(classifier, "fit") and hasattr(classifier, "get_params")):
        raise ValueError(f"classifier must be a scikit-learn classifier, such as VolMin(), or None; got {classifier!r}")
    if not hasattr(classifier, "predict_proba"):
        name = type(classifier).__name__
        raise ValueError(f"classifier must have predict_proba; {name} has none. Wrap it in CalibratedClassifierCV")
    return classifier


def _inside(model: Any, X: Any = None, y: Any = None) -> tuple[Any, Any]:
    """Return the classifier inside pipelines and searches; and X, if given, as the steps before it transform it."""
    if isinstance(model, Pipeline):
        return _inside(model[-1], clone(model[:-1]).fit_transform(X, y) if X is not None and len(model) > 1 else X, y)
    if hasattr(model, "refit") and hasattr(model, "estimator"):
        return _inside(getattr(model, "best_estimator_", model.estimator), X, y)
    return model, X


def _shared_transition(
    model: Any, transition: Any, data: Data, classes: NDArray[Any], random_state: Any
) -> tuple[FloatArray, bool, FloatArray | None] | None:
    """Return the T of all folds, whether it is an estimate, and its standard errors; tell the model.

    If each fold has its own T, return None.
    """
    learner, _ = _inside(model)
    params = learner.get_params(deep=False)
    if "classes" in params and params["classes"] is None:
        learner.set_params(classes=classes)
    unset = "transition" in params and params["transition"] is None
    entry = registry.find_class(type(learner).__name__)
    by_volmin = entry is not None and entry.family == "linear" and entry.takes_transition and not entry.robust
    if transition is None and not (unset and (by_volmin or isinstance(learner, VolMin))):
        return None
    estimated = transition is None or hasattr(transition, "fit")
    T, std = _estimate(transition, model, data, classes, random_state) if estimated else (transition, None)
    if unset:
        learner.set_params(transition=T)
    return T, estimated, std


def _estimate(
    transition: Any, model: Any, data: Data, classes: NDArray[Any], random_state: Any
) -> tuple[FloatArray, FloatArray | None]:
    """Return T, and its standard errors, as an estimator learns it from the samples as they reach the classifier.

    If ``transition`` is None, the estimator is VolMin.
    """
    X, codes, weights = data
    learner, features = _inside(model, X, classes[codes])
    is_volmin = transition is None and isinstance(learner, VolMin)
    estimator = clone(learner) if is_volmin else VolMin() if transition is None else clone(transition)
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(LARGEST_SEED)
    try:
        T, fitted = resolve_transition(seeded(estimator, random_state), None, features, codes, classes, weights)
    except (TypeError, ValueError) as error:
        if transition is not None or is_volmin:
            raise
        raise ValueError(
            f"VolMin cannot estimate T from the X that {type(learner).__name__} was fitted to ({error}). Pass T as "
            "transition, or a Pipeline whose last step receives a table of numbers"
        ) from error
    if is_volmin:
        learner.set_params(scaling=fitted.scaling_)  # chosen once for all folds
    return T, getattr(fitted, "transition_std_", None)


def _predicted(model: Any, X: Any, classes: NDArray[Any]) -> FloatArray:
    """Return the model's probabilities of all classes, some of which it may not know, shape (n_samples, n_classes)."""
    proba = np.asarray(model.predict_proba(X), dtype=np.float64)
    p = np.zeros((len(proba), len(classes)))
    p[:, np.searchsorted(classes, model.classes_)] = proba
    return p


def speaks_of_noisy_labels(model: Any) -> bool:
    """Return whether the probabilities of a fitted model are those of noisy labels, which T has yet to correct."""
    learner, _ = _inside(model)
    if type(learner).__name__ == "TableClassifier":
        learner, _ = _inside(learner.classifier_)
    entry = registry.entry_of(learner)
    through_T = getattr(learner, "transition_", None) is not None and getattr(learner, "corrected_", True)
    if entry is not None and entry.family == "deep":
        # NoisyLabelClassifier keeps the T it was given even if its method, such as cross-entropy, does not use it.
        through_T = through_T and (entry.takes_transition or entry.learns_transition)
    return not (through_T or (entry is not None and entry.robust))


def _with_a_label(p: FloatArray, counts: FloatArray | IntArray) -> FloatArray:
    """Return probabilities of noisy labels as if one more label, spread like the others, had been learned from."""
    n = counts.sum()
    return (n * p + counts / n) / (n + 1)


def _with_even_flips(folds: list[_Fold], codes: IntArray) -> list[_Fold]:
    """Return the folds with a symmetric T if the held-out labels do not contradict it (see Notes), or unchanged."""
    c = len(folds[0].prior)
    rate = float(np.mean([fold.prior @ (1 - np.diag(fold.transition)) for fold in folds]))
    if not all(fold.estimated for fold in folds) or not 0 < rate < (c - 1) / c:
        return folds
    even = symmetric(c, rate)
    gain = sum(fold.log_likelihood(fold.used, codes) - fold.log_likelihood(even, codes) for fold in folds)
    held_out = sum(len(fold.proba) for fold in folds)
    if gain * len(codes) / held_out > c * (c - 1) - 1:  # a splitter may hold samples out more than once
        return folds
    spread = np.eye(c) + (1 - np.eye(c)) / (c - 1)  # of a rate with standard error one
    stds = [None if fold.std is None else fold.prior @ np.diag(fold.std) * spread for fold in folds]
    return [fold._replace(transition=even, used=even, std=std) for fold, std in zip(folds, stds, strict=True)]


def _posteriors(folds: list[_Fold], codes: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return P(clean = k | x, given) and P(clean = k | x), the means over the folds that hold the sample out."""
    n, c = len(codes), len(folds[0].prior)
    after, before, times = np.zeros((n, c)), np.zeros((n, c)), np.zeros((n, 1))
    for fold in folds:
        p = fold.p(fold.used)
        after[fold.test] += clean_posterior(p, codes[fold.test], fold.used, fold.prior)
        before[fold.test] += p
        times[fold.test] += 1
    if not times.all():
        never = int(np.sum(times == 0))
        raise ValueError(f"cv holds {never} of {n} samples out in no fold; use a splitter such as StratifiedKFold")
    return after / times, before / times


def _n_folds(cv: Any, codes: IntArray) -> int:
    if isinstance(cv, bool) or cv < 2:
        raise ValueError(f"cv must be at least 2 folds, because a sample is judged by a model of the others; got {cv}")
    return min(int(cv), int(np.bincount(codes).max()))  # StratifiedKFold takes no more folds


def _splits(
    cv: Any, X: Any, codes: IntArray, weights: Any, groups: Any, random: Any
) -> Iterable[tuple[IntArray, IntArray]]:
    if not isinstance(cv, Integral):
        if cv is None or not (hasattr(cv, "split") or hasattr(cv, "__iter__")) or isinstance(cv, str):
            raise ValueError(f"cv must be a number of folds, a splitter or (train, test) pairs; got {cv!r}")
        return check_cv(cv, codes, classifier=True).split(X, codes, groups)
    n_folds = _n_folds(cv, codes)
    if groups is not None:
        check_same_length(y=codes, groups=np.asarray(groups))
        n_folds = min(n_folds, len(np.unique(groups)))
        if n_folds < 2:
            raise ValueError("all samples are in one group, so that none can be held out; leave groups out")
    splitter = (StratifiedKFold if groups is None else StratifiedGroupKFold)(n_folds, shuffle=True, random_state=random)
    order = row_order(X, codes, weights, groups)
    groups = None if groups is None else np.asarray(groups)[order]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # see Notes
        folds = list(splitter.split(np.zeros(len(codes)), codes[order], groups))
    return [(order[train], order[test]) for train, test in folds]
