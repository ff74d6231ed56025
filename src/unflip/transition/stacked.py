"""T from the out-of-fold posteriors of several models, and whether noise explains the labels at all."""

import warnings
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_random_state

from unflip._base import check_held_out_once, check_training_data, fit_codes, predicted_codes, seeded
from unflip._validation import FloatArray, IntArray, check_transition
from unflip.core.ldce import solve_prior, well_conditioned
from unflip.core.posterior import bayes, blended, calibrated, inverted_posterior, tempered
from unflip.transition._cross_fit import (
    ALPHA,
    ALPHA_SPARSE,
    fit_model,
    is_wide,
    posterior_std,
    prepare,
    standard_errors,
)
from unflip.transition._evidence import (
    EVIDENCE,
    LEVEL,
    MIXED,
    SHAPES,
    SHARPNESS,
    STEPS,
    UNEVEN,
    WORST_CONDITION,
    expected_counts,
    lower_bounds,
    mixing_map,
    one_way,
    repaired,
    shared_rate,
)
from unflip.transition._row_order import in_caller_order, row_order
from unflip.transition.ridge import RidgeModel
from unflip.transition.volmin import VolMin

Folds = list[tuple[IntArray, IntArray]]

VAIN = 0.5  # standard errors by which a bias of the classes must raise the accuracy on the labels as they are
CERTAIN = 3.0  # standard errors from which on noise alone explains the labels; below, both explanations are averaged
SURE, SURE_ROWS = 0.9, 0.05  # the probability of their class that so many rows must have, or noise is never certain
LEAST_RATE = 0.02  # a smaller estimated noise rate counts as none
SMALL_RATE = 0.05  # a smaller one counts as none unless the evidence is certain
UNKNOWN = 1.5  # standard errors that take the posteriors and the shape of T as known are too small by about this factor
MOST_ROWS = 10_000  # that the models of a fold learn from
WIDEST_TREES = 5_000  # features times classes; boosted trees beyond it would take longer than all other models
SPLIT_FEATURES = 50  # that boosted trees choose from at each split
CENTERS = 300  # of the radial features of the kernel model
KERNEL_ROWS = 50_000  # beyond which these features would fill the memory
LEAST_PER_CLASS = 3  # rows of the largest class per fold, below which nothing is estimated


class Stack(NamedTuple):
    """Posteriors of several models, averaged with weights, each at its own temperature, and T through them.

    ``calibration`` is the temperature of the average, and a bias for each class.
    """

    transition: FloatArray
    weights: FloatArray  # (n_models,)
    temperatures: FloatArray  # (n_models,)
    calibration: FloatArray  # (1 + n_classes,)

    def mean(self, posteriors: Sequence[FloatArray]) -> FloatArray:
        """Return the calibrated average of posteriors, shape (n, c) each."""
        return blended(posteriors, self.weights, self.temperatures, self.calibration)


class LinearModel(ClassifierMixin, BaseEstimator):
    """The linear model of VolMin through a fixed T, for folds: without the inner folds that find its temperature."""

    def __init__(self, transition: FloatArray, scaling: str) -> None:
        self.transition = transition
        self.scaling = scaling

    def fit(self, X: Any, y: IntArray, sample_weight: FloatArray | None = None) -> Self:
        c = len(self.transition)
        problem, mean, scale = prepare(X, y, sample_weight, c, 0.0, ALPHA * X.shape[1], self.scaling)
        start = None
        if problem.is_wide:  # the loss through T has many minima, that of the labels as they are has one
            problem = problem.with_penalty(ALPHA_SPARSE * X.shape[1])
            start = fit_model(problem, np.eye(c), rough=True)
        W, b = problem.unpack(fit_model(problem, self.transition, start, rough=problem.is_wide))
        self.coef_ = W / scale
        self.intercept_ = b - self.coef_ @ mean
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        proba: FloatArray = softmax(X @ self.coef_.T + self.intercept_, axis=1)
        return proba


class StackedEM(BaseEstimator):
    r"""T from the out-of-fold posteriors of logistic regression, trees and VolMin's model, and whether there is noise.

    Each model m, fitted to the noisy labels, predicts the labels of rows that it did not see, q_m(x). Through a T, it
    explains them by a clean posterior p_m(x) (EM inversion, :func:`unflip.core.inverted_posterior`), and T, the weights
    a of the models and a temperature t of each are fitted together, by EM::

        max over T, a, t   sum_i log (p(x_i) T)[y_i] + log prior(T),     p(x) = sum_m a_m  p_m(x)^t_m / Z

    The average is calibrated last, through T, by a temperature and a bias for each class, softmax(t log p + b). So
    whichever model suits the data decides: VolMin's where the classes are linear in the features, trees elsewhere.

    Parameters
    ----------
    estimators : list of (str, classifier), default=None
        Models of the noisy posterior, with ``predict_proba``. If None: logistic regression, extra-trees,
        logistic regression on 300 radial features ("kernel"), boosted trees and shallow ones (of more than 50 features,
        they choose from 50 at each split, and use 63 bins); on sparse X, ridge regression and, if X is not negative,
        complement naive Bayes with two degrees of smoothing; and unless X is wide and not negative, as words of texts
        are, extra-trees on 100 singular vectors.
    joint : bool, default=True
        Whether :class:`VolMin`, the joint model of T and a clean linear model, takes part and gives the start of T. If
        not, T starts from the label shares in the regions that the models are most sure about.
    transition : array-like of shape (n_classes, n_classes), default=None
        T if it is known. Then only the weights and temperatures are fitted.
    cv : int, splitter or iterable of (train, test), default=5
        An int is the number of stratified, shuffled folds; they depend neither on the order of the rows nor on the
        units of the features.
    classes : array-like of shape (n_classes,), default=None
        As in :class:`VolMin`.
    random_state : int, RandomState instance or None, default=None
        Seeds the folds and the models.

    Attributes
    ----------
    transition_, transition_std_ : ndarray of shape (n_classes, n_classes)
        T, or the identity if noise does not explain the labels; and the standard error of its entries.
    classes_, class_prior_ : ndarray of shape (n_classes,)
    shape_ : {"none", "symmetric", "one target", "learned", "given"}
        The family of T that explains held-out labels best; "none" if the best-calibrated model without noise is not
        clearly worse.
    evidence_, share_ : float
        The lead of the best T over no noise in the log-likelihood of held-out labels, in standard errors; and the
        weight of this explanation in ``oof_proba_`` and ``soft_labels``, the rest being that of no noise.
    suspected_ : ndarray of shape (n_classes, n_classes)
        The best T with noise, also where the evidence does not suffice, and with flips that two classes exchange.
    overlap_ : bool
        Whether overlapping classes may explain the labels as well: if more labels look wrong than ``transition_``
        says, if the evidence for noise is below three standard errors, or if there is no region in which the class is
        sure (fewer than 5 % of the rows have a class with a probability of 0.9).
    alternatives_ : list of ndarray of shape (n_classes, n_classes)
        Other T that the data do not rule out: ``suspected_`` if classes may overlap, and where noise is not certain the
        identity and the T with the most noise that ``lower_bounds_`` allow.
    lower_bounds_ : ndarray of shape (n_classes,)
        What the diagonal of T is at least, see Notes.
    oof_proba_ : ndarray of shape (n_samples, n_classes)
        P(clean = k | x) of the rows, from models that did not see them.
    names_, weights_ : list of str and ndarray of shape (n_models,)
        The models, and their weights in ``oof_proba_``.

    Notes
    -----
    *Shapes of T.* c (c - 1) rates are too many for the labels of most tables, so families compete: "symmetric", one
    rate for all flips; "one target", where each class keeps its labels or loses a share of them, the same for all, to
    one other class; and "learned", whose rows have a prior that all rows together decide. Each is fitted to the
    out-of-fold posteriors of all folds but one, and the likelihood of the labels of that one chooses.

    *Noise or overlap.* Classes that overlap make labels as hard to predict as noise does. But noise leaves a trace that
    overlap does not: no label is ever predicted with more than probability max_i T_ij, however typical the row. So T
    must explain held-out labels better than the same models with T = I, stacked and calibrated in the same way; and a T
    with more than one rate must lead the symmetric one by 2.5 standard errors of the difference. T = I and the
    symmetric T, which do not mix the classes, are calibrated by a map softmax(A log p + b) that does, if that is better
    (for 3 to 20 classes). If T leads by less than half a standard error, or the estimated rate is below 2 % (5 % unless
    the lead is three standard errors), T is the identity, and ``overlap_`` tells whether noise remains possible. Below
    three standard errors the posteriors of both explanations are averaged, with the weights that make held-out labels
    likeliest.

    *Flips in both directions.* Two classes that share a region, such as the digits 6 and 9 in features that ignore
    rotation, cannot be told from two classes that noise exchanges. So unless T is symmetric, or there are only two
    classes, ``transition_`` leaves the labels that two classes exchange out, the more of them the more alike their rows
    of T are.

    *Certified bounds.* Whatever T is, the share of label j in any region of rows is at most the largest entry of column
    j, which is T_jj if the diagonal dominates. The regions are the k rows with the largest out-of-fold q_j, for k
    between 10 and 200; the bound is Clopper and Pearson's, corrected for the number of regions and models. A smaller
    T_jj is raised to its bound.
    """

    folds_: Folds
    stack_: Any
    clean_proba_: Any
    oof_proba_: Any
    weights_: Any

    def __init__(
        self,
        *,
        estimators: list[tuple[str, Any]] | None = None,
        joint: bool = True,
        transition: ArrayLike | None = None,
        cv: Any = 5,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimators = estimators
        self.joint = joint
        self.transition = transition
        self.cv = cv
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels ``y`` of any kind; ``X`` may be sparse."""
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
        if not isinstance(self.cv, Integral):  # folds of a splitter may count on the order of the rows
            return self.fit_codes(X, codes, weights)
        order = row_order(X, codes, weights)
        self.fit_codes(X[order], codes[order], None if weights is None else weights[order])
        return self.restore(order)

    def restore(self, order: IntArray) -> Self:
        """Put what belongs to rows, which were taken in an order, back into the order in which they came."""
        for name in ("oof_proba_", "clean_proba_", "noisy_proba_", "posteriors_"):
            setattr(self, name, in_caller_order(getattr(self, name), order))
        self.folds_ = [(order[train], order[test]) for train, test in self.folds_]
        return self

    def fit_codes(
        self, X: Any, codes: IntArray, weights: FloatArray | None, groups: Any = None, numbers: Any = None
    ) -> Self:
        """Fit to checked data of any kind that the models take; VolMin takes ``numbers``. ``classes_`` is set."""
        numbers = X if numbers is None else numbers
        c = len(self.classes_)
        random = check_random_state(self.random_state)
        w = np.ones(len(codes)) if weights is None else weights * (len(codes) / weights.sum())
        counts = np.bincount(codes, w, minlength=c)
        noisy_prior = counts / counts.sum()
        models = default_models(numbers, c) if self.estimators is None else list(self.estimators)
        models = [(name, seeded(clone(model), random.randint(2**31 - 1))) for name, model in models]
        self.folds_ = make_folds(self.cv, codes, groups, random)
        self.names_ = [name for name, _ in models]
        self.lower_bounds_, self.noisy_proba_ = np.zeros(c), {}
        given = None if self.transition is None else check_transition(self.transition, c)
        if not self.folds_ or not (models or self.joint):  # too few rows to hold any out, or no model to ask
            return self._finish("none" if given is None else "given", given, None, codes, w, [])
        held_out = [out_of_fold(model, X, codes, weights, self.folds_, c) for _, model in models]
        linear = None
        if self.joint:
            with warnings.catch_warnings():  # it is one start of several, which need not be exact
                warnings.simplefilter("ignore", ConvergenceWarning)
                volmin = VolMin(guard=False, classes=np.arange(c)).fit(numbers, codes, sample_weight=weights)
            self.scaling_, self.linear_transition_ = volmin.scaling_, volmin.transition_
            linear = partial(self._linear, numbers, codes, weights)
            self.names_ = ["joint logistic", *self.names_]
            held_out = [linear(np.eye(c)), *held_out]
        q = [(len(codes) * p + noisy_prior) / (len(codes) + 1) for p in held_out]  # no label is ruled out
        self.plain_ = without_vain_bias(fit_stack(q, codes, w, np.eye(c), None), q, codes, w)
        self.noisy_proba_ = {
            name: tempered(p, t) for name, p, t in zip(self.names_, q, self.plain_.temperatures, strict=True)
        }
        sharp = list(self.noisy_proba_.values())
        count = w > 0
        level = LEVEL / len(sharp)
        self.lower_bounds_ = np.max([lower_bounds(p[count], codes[count], level) for p in sharp], axis=0)

        def explained(T: FloatArray, joint: FloatArray | None) -> list[FloatArray]:
            prior = solve_prior(noisy_prior, T)
            inverted = [inverted_posterior(p, T, prior) for p in sharp]
            return inverted if joint is None else [joint, *inverted[1:]]

        if given is not None:
            posteriors = explained(given, linear(given) if linear else None)
            return self._finish("given", given, fit_stack(posteriors, codes, w, given, None), codes, w, posteriors)
        starts = [anchor_rows(np.tensordot(self.plain_.weights, sharp, 1)[count], codes[count])]
        joint = None
        if linear:
            starts.append(volmin.transition_)
            joint = linear(repaired(volmin.transition_, self.lower_bounds_))
        starts = [repaired(T, self.lower_bounds_) for T in starts]

        def loss_of(posteriors: list[FloatArray], T: FloatArray, step: Any) -> FloatArray:
            """Return the loss of each held-out label; a symmetric T cannot mix the classes, so a calibration may."""
            maps = {False, step in (None, shared_rate) and c in MIXED}
            losses = [held_out_loss(posteriors, codes, w, T, step, self.folds_, mixing) for mixing in maps]
            return min(losses, key=lambda loss: float(w @ loss))

        plain = loss_of(q, np.eye(c), None)
        found = {}
        for shape, step in SHAPES.items():
            bounds = None if shape == "symmetric" else self.lower_bounds_
            fits = [two_passes(partial(explained, joint=joint), codes, w, T, step, bounds) for T in starts]
            likelihoods = [w @ log_likelihood(s.mean(p), codes, s.transition) for p, s in fits]
            posteriors, stack = fits[int(np.argmax(likelihoods))]
            found[shape] = plain - loss_of(posteriors, stack.transition, step), posteriors, stack
        shape = max(found, key=lambda shape: float(w @ found[shape][0]))
        even = found["symmetric"]
        even_rate = noise_rate(noisy_prior, even[2].transition)
        if standard_errors(found[shape][0] - even[0], w) < UNEVEN and even_rate > LEAST_RATE:
            shape = "symmetric"
        lead, posteriors, stack = found[shape]
        self.evidence_ = standard_errors(lead, w)
        self.share_ = 1.0 if self.evidence_ > CERTAIN else share_of(lead, w)
        return self._finish(shape, None, stack, codes, w, posteriors)

    def soft_labels(self, codes: IntArray) -> FloatArray:
        """Return P(clean = k | x, noisy) of the training rows, whose noisy codes are given, shape (n, n_classes)."""
        R = self.share_ * bayes(self.clean_proba_, codes, self.suspected_)
        R[np.arange(len(codes)), codes] += 1 - self.share_
        return R

    def _linear(self, X: Any, codes: IntArray, weights: FloatArray | None, T: FloatArray) -> FloatArray:
        """Return what a linear model through T predicts for the rows of each fold."""
        p = np.empty((len(codes), len(T)))
        for train, test in self.folds_:
            w = None if weights is None else weights[train]
            p[test] = LinearModel(T, self.scaling_).fit(X[train], codes[train], w).predict_proba(X[test])
        return p

    def _finish(
        self, shape: str, given: FloatArray | None, stack: Stack | None, codes: IntArray, w: FloatArray, posteriors: Any
    ) -> Self:
        c = len(self.classes_)
        noisy_prior = np.bincount(codes, w, minlength=c) / w.sum()
        if given is not None or stack is None:
            self.evidence_, self.share_ = (np.inf, 1.0) if given is not None else (0.0, 0.0)
        self.suspected_ = np.eye(c) if stack is None else stack.transition
        # Between two classes an exchange is symmetric noise.
        T = self.suspected_ if shape in ("symmetric", "given") or c == 2 else one_way(self.suspected_, noisy_prior)
        least = LEAST_RATE if self.evidence_ > CERTAIN else SMALL_RATE
        found = given is not None or (self.evidence_ > EVIDENCE and noise_rate(noisy_prior, T) > least)
        self.shape_ = shape if found else "none"
        more = noise_rate(noisy_prior, self.suspected_) - found * noise_rate(noisy_prior, T) > LEAST_RATE
        p = None if stack is None else stack.mean(posteriors)
        sure = p is None or float(np.quantile(p[w > 0].max(axis=1), 1 - SURE_ROWS)) > SURE
        certain = given is not None or (self.evidence_ > CERTAIN and sure)
        self.overlap_ = more or (found and not certain)
        self.share_ = self.share_ if found else 0.0
        self.transition_ = given if given is not None else T if found else np.eye(c)
        doubted = [self.suspected_] if more else []
        if not certain and stack is not None:
            doubted += [np.eye(c), repaired(shared_rate(np.ones((c, c))), self.lower_bounds_)]
        self.alternatives_ = [A for A in doubted if not np.array_equal(A, self.transition_)]
        self.class_prior_ = solve_prior(noisy_prior, self.transition_)
        self.posteriors_ = dict(zip(self.names_, posteriors, strict=True)) if found and stack is not None else {}
        self.stack_ = stack if found or stack is None else self.plain_
        self.oof_proba_ = self.clean_proba_ = self.weights_ = None
        if stack is not None:
            self.clean_proba_ = p
            self.oof_proba_ = self.share_ * self.clean_proba_ + (1 - self.share_) * self.plain_proba_
            self.weights_ = self.stack_.weights
        estimated = found and given is None
        self.transition_std_ = np.zeros((c, c))
        if estimated:
            self.transition_std_ = UNKNOWN * posterior_std(self.oof_proba_, self.transition_, w)
        return self

    @property
    def plain_proba_(self) -> FloatArray:
        """The posteriors of all models with T = I, averaged and calibrated, shape (n_samples, n_classes)."""
        average = np.tensordot(self.plain_.weights, list(self.noisy_proba_.values()), 1)
        return calibrated(average, self.plain_.calibration)


def default_models(X: Any, n_classes: int) -> list[tuple[str, Any]]:
    """Return the models of the noisy posterior, by name."""
    forest = ExtraTreesClassifier(200, min_samples_leaf=2)
    if sparse.issparse(X):
        models = [("ridge", RidgeModel())]
        counts = not X.nnz or X.data.min() >= 0
        if counts:
            models.append(("naive Bayes", ComplementNB()))
            # The TF-IDF of a rare term sums to less than one, which the usual count of one may smooth too much.
            models.append(("naive Bayes, less smoothed", ComplementNB(alpha=0.3)))
        if not (counts and is_wide(X)):  # words of texts alone are left to linear models
            wide = X.shape[1] > 200
            models.append(("extra-trees", make_pipeline(TruncatedSVD(100), forest) if wide else forest))
        return models
    models = [("logistic", make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))), ("extra-trees", forest)]
    if len(X) <= KERNEL_ROWS:
        features = Nystroem(n_components=min(CENTERS, max(len(X) // 2, 1)))
        models.append(("kernel", make_pipeline(StandardScaler(), features, LogisticRegression(C=3.0, max_iter=300))))
    if X.shape[1] * n_classes <= WIDEST_TREES:
        boosting = HistGradientBoostingClassifier(max_iter=int(np.clip(900 // n_classes, 20, 60)), early_stopping=False)
        if X.shape[1] > SPLIT_FEATURES:  # as accurate as with all features and 255 bins, and several times as fast
            boosting.set_params(max_features=SPLIT_FEATURES / X.shape[1], max_bins=63)
        models.append(("boosted trees", boosting))
        # Eight leaves cannot memorize single labels, so that they are better with many wrong ones, and worse with few.
        shallow = {"max_leaf_nodes": 8, "learning_rate": 0.08, "l2_regularization": 5.0}
        models.append(("shallow boosted trees", clone(boosting).set_params(**shallow)))
    return models


def make_folds(cv: Any, codes: IntArray, groups: Any, random: np.random.RandomState) -> Folds:
    """Return (train, test) pairs; none if there are too few rows. At most MOST_ROWS rows of a fold are trained on."""
    if isinstance(cv, Integral):
        if isinstance(cv, bool) or int(cv) < 2:
            raise ValueError(f"cv must be at least 2 folds, because T is judged by labels that are held out; got {cv}")
        if int(np.bincount(codes).max()) < LEAST_PER_CLASS * int(cv):
            return []
        splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
        cv = splitter(int(cv), shuffle=True, random_state=random)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        folds = list(check_cv(cv, codes, classifier=True).split(np.zeros(len(codes)), codes, groups))
    check_held_out_once([test for _, test in folds], len(codes))
    return [(random.permutation(train)[:MOST_ROWS] if len(train) > MOST_ROWS else train, test) for train, test in folds]


def out_of_fold(
    model: Any, X: Any, codes: IntArray, weights: FloatArray | None, folds: Folds, n_classes: int
) -> FloatArray:
    """Return the probabilities that a model predicts for rows that it did not see, shape (n, n_classes)."""
    p = np.zeros((len(codes), n_classes))
    for train, test in folds:
        fitted = fit_codes(
            clone(model), _safe_indexing(X, train), codes[train], None if weights is None else weights[train]
        )
        p[test] = predicted_codes(fitted, _safe_indexing(X, test), n_classes)
    return p


def log_likelihood(p: FloatArray, codes: IntArray, T: FloatArray) -> FloatArray:
    """Return log (p T)[y] of each row."""
    return np.log(np.maximum(np.einsum("nk,kn->n", p, T[:, codes]), 1e-12))


def temperature(p: FloatArray, codes: IntArray, T: FloatArray, w: FloatArray) -> float:
    """Return the t that makes the labels most likely under p^t and T."""
    logits, columns = np.log(np.maximum(p, 1e-12)), T[:, codes].T

    def loss(log_t: float) -> float:
        q = np.einsum("nk,nk->n", softmax(np.exp(log_t) * logits, axis=1), columns)
        return -float(w @ np.log(np.maximum(q, 1e-12)))

    return float(np.exp(minimize_scalar(loss, bounds=np.log(SHARPNESS), method="bounded", options={"xatol": 0.02}).x))


def fit_stack(posteriors: Sequence[FloatArray], codes: IntArray, w: FloatArray, T: FloatArray, step: Any) -> Stack:
    """Return T, weights, temperatures and calibration; a ``step`` of None leaves T as it is."""
    a = np.full(len(posteriors), 1 / len(posteriors))
    T = shared_rate(T) if step is shared_rate else T
    for k in range(STEPS):
        if k % 10 == 0:
            t = [temperature(p, codes, T, w) for p in posteriors]
            sharp = [tempered(p, s) for p, s in zip(posteriors, t, strict=True)]
        likelihoods = np.stack([np.einsum("nk,kn->n", p, T[:, codes]) for p in sharp])
        r = a[:, np.newaxis] * np.maximum(likelihoods, 1e-12)
        a = (r / r.sum(axis=0)) @ w / w.sum()
        if step is not None:
            T = step(expected_counts(np.tensordot(a, sharp, 1), codes, w, T))
    return Stack(T, a, np.array(t), calibration(np.tensordot(a, sharp, 1), codes, w, T))


def two_passes(
    explained: Any, codes: IntArray, w: FloatArray, T: FloatArray, step: Any, bounds: FloatArray | None
) -> tuple[list[FloatArray], Stack]:
    """Return posteriors through T, and T through the posteriors, twice."""
    for _ in range(2):
        posteriors = explained(T)
        stack = fit_stack(posteriors, codes, w, T, step)
        T = (
            well_conditioned(stack.transition, WORST_CONDITION)
            if bounds is None
            else repaired(stack.transition, bounds)
        )
    return posteriors, stack._replace(transition=T)


def calibration(p: FloatArray, codes: IntArray, w: FloatArray, T: FloatArray) -> FloatArray:
    """Return theta = (t, b) that makes the labels most likely under softmax(t log p + b) and T; b is penalized."""
    data = np.log(np.maximum(p, 1e-9)), T[:, codes].T, w / w.sum()
    start = np.concatenate([[1.0], np.zeros(p.shape[1])])
    bounds = [SHARPNESS] + [(None, None)] * p.shape[1]
    return np.asarray(minimize(_calibration, start, args=data, jac=True, method="L-BFGS-B", bounds=bounds).x)


def _calibration(theta: FloatArray, z: FloatArray, columns: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
    """Return the penalized loss of softmax(t z + b) through T[:, y] and its gradient in theta = (t, b)."""
    p = softmax(theta[0] * z + theta[1:], axis=1)
    R = p * columns
    q = np.maximum(R.sum(axis=1), 1e-12)
    G = (p - R / q[:, np.newaxis]) * v[:, np.newaxis]
    penalty = theta[1:] / len(z)
    value = -float(v @ np.log(q)) + float(theta[1:] @ penalty) / 2
    return value, np.concatenate([[np.sum(G * z)], G.sum(axis=0) + penalty])


def without_vain_bias(stack: Stack, posteriors: Sequence[FloatArray], codes: IntArray, w: FloatArray) -> Stack:
    """Return the stack uncalibrated unless calibration predicts clearly more labels.

    Where models know little, a bias makes held-out labels likelier, but it follows the shares of the noisy labels.
    """
    bare = stack._replace(calibration=np.eye(1, len(stack.calibration))[0])
    before, after = (one.mean(posteriors).argmax(axis=1) == codes for one in (bare, stack))
    return stack if standard_errors(after.astype(float) - before, w) > VAIN else bare


def held_out_loss(
    posteriors: Sequence[FloatArray],
    codes: IntArray,
    w: FloatArray,
    T: FloatArray,
    step: Any,
    folds: Folds,
    mixing: bool = False,
) -> FloatArray:
    """Return -log of the probability of each label, with everything fitted to the other folds.

    With ``mixing``, the average is calibrated by softmax(A log p + b), see :func:`mixing_map`.
    """
    losses = np.empty(len(codes))
    for _, test in folds:
        rest = np.ones(len(codes), dtype=bool)
        rest[test] = False
        stack = fit_stack([p[rest] for p in posteriors], codes[rest], w[rest], T, step)
        if mixing:
            bare = stack._replace(calibration=np.eye(1, 1 + len(T))[0])
            seen, unseen = (np.log(np.maximum(bare.mean([p[rows] for p in posteriors]), 1e-9)) for rows in (rest, test))
            A, b = mixing_map(seen, codes[rest], w[rest], stack.transition)
            p = softmax(unseen @ A.T + b, axis=1)
        else:
            p = stack.mean([p[test] for p in posteriors])
        losses[test] = -log_likelihood(p, codes[test], stack.transition)
    return losses


def share_of(lead: FloatArray, w: FloatArray, steps: int = 200) -> float:
    """Return the weight of an explanation whose log-likelihood leads another's, by EM on their mixture."""
    odds, a = np.exp(lead), 0.5
    for _ in range(steps):
        a = float(np.average(a * odds / (a * odds + 1 - a), weights=w))
    return a


def noise_rate(noisy_prior: FloatArray, T: FloatArray) -> float:
    """Return the share of labels that are wrong according to T."""
    return 1 - float(solve_prior(noisy_prior, T) @ np.diag(T))


def anchor_rows(q: FloatArray, codes: IntArray) -> FloatArray:
    """Return T from the label shares among the rows with the largest q_j, half as many as have label j."""
    c = q.shape[1]
    counts = np.bincount(codes, minlength=c)
    T = np.empty((c, c))
    for j, count in enumerate(counts):
        rows = np.argsort(-q[:, j], kind="stable")[: max(count // 2, 10)]
        T[j] = np.bincount(codes[rows], minlength=c) + counts / counts.sum()
    return T / T.sum(axis=1, keepdims=True)
