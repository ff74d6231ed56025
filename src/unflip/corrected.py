"""MODEL: any scikit-learn estimator, trained through T."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import Tags, _safe_indexing, assert_all_finite, check_array, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    indexable,
    validate_data,
)

from unflip._base import (
    check_rows,
    check_samples,
    check_training_data,
    fit_codes,
    predicted_codes,
    resolve_transition,
    seeded,
    weighting,
)
from unflip._validation import FloatArray, IntArray, bounded_weights, check_labels
from unflip.core.ldce import project_to_simplex, pseudo_inverse
from unflip.core.posterior import blended, inverted_posterior, tempered
from unflip.crowd import AnnotatorModel, annotations_of, is_matrix
from unflip.metrics import CleanAccuracy, clean_accuracy
from unflip.models import Savable
from unflip.models.arrays import Blend as SavedBlend
from unflip.models.arrays import as_arrays
from unflip.transition._cross_fit import ALPHA, is_wide, standard_errors
from unflip.transition._row_order import in_caller_order, row_order, sparse_ranks
from unflip.transition.stacked import Stack, StackedEM, default_models, fit_stack, make_folds, noise_rate
from unflip.transition.volmin import VolMin

LEAST_WEIGHT = 0.02  # classes of a row that are less likely are left out
MOST_LABELS = 3  # classes of a row that are trained on
LEAST_SHARE = 0.02  # models with a smaller weight are left out of the blend
SURELY = 2.0  # standard errors by which a single model must lead the blend: the best of many leads by chance
DISAGREEMENT = 0.1  # difference of estimated noise rates that is worth a note
CROWD_ROUNDS = 2  # of models and annotators in turn; more changed nothing
RARE = 20  # rows of a class below which its row of T is mostly that of the others
JOINT, BLEND = "joint logistic", "blend"


@dataclass(frozen=True)
class Candidate:
    """A model that :class:`CorrectedClassifier` compared.

    Attributes
    ----------
    name : str
    corrected : bool
        Whether it is trained through T, or on the labels as they are.
    accuracy : CleanAccuracy
        Its accuracy on clean labels, estimated from noisy labels that it did not see. The interval allows for other T
        that the data do not rule out, and for the rows that were held out, from which the final model learns as well.
    log_likelihood : float
        The mean log-likelihood of these labels, through T if it is corrected.
    chosen : bool
    """

    name: str
    corrected: bool
    accuracy: CleanAccuracy
    log_likelihood: float
    chosen: bool


class CorrectedClassifier(Savable, ClassifierMixin, BaseEstimator):
    """Any scikit-learn estimator, trained through T as if the labels were clean.

    A classifier that takes sample weights is fitted to soft labels: models that did not see a row predict its clean
    class, p(x), the noisy label is evidence as strong as T makes it, and each row is trained on with its likeliest
    classes, weighted by::

        P(clean = k | x, noisy = y)  =  p_k(x) T[k, y] / sum_l p_l(x) T[l, y]

    A classifier without sample weights learns the noisy posterior q(x), and its predictions are inverted through T
    (:func:`unflip.core.inverted_posterior`). A regressor learns the rows of T^-1, whose mean given x is the clean
    posterior: the corrected risk of the paper for any model, min sum_i |T^-1[y_i] - h(x_i)|^2.

    Parameters
    ----------
    estimator : classifier, regressor or None, default=None
        The model. If None, logistic regression, a kernel model, boosted trees, shallow ones and extra-trees (on sparse
        X, ridge regression and naive Bayes), each as it is and through T, and their blend are compared on labels that
        they did not see, and the best is fitted; see ``candidates_``.
    transition : array-like of shape (n_classes, n_classes), estimator or None, default=None
        T[i, j] = P(noisy = j | clean = i), or an estimator of it. If None, :class:`unflip.transition.StackedEM`
        estimates it, with the model among its own. If the labels do not show that they are noisy, T is the identity,
        and the model is fitted as it is.
    cv : int, splitter or iterable of (train, test), default=5
        The folds that predict rows which their models did not see. An int is the number of stratified, shuffled folds,
        which depend neither on the order of the rows nor on the units of the features.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, if the noisy labels lack some of them.
    random_state : int, RandomState instance or None, default=None
        Seeds the folds, and the models that have no ``random_state`` of their own.

    Attributes
    ----------
    classes_, class_prior_ : ndarray of shape (n_classes,)
        The classes, and their clean prior.
    transition_, transition_std_ : ndarray of shape (n_classes, n_classes)
        T, and the standard error of its entries.
    estimator_ : object
        The fitted model. Its own ``classes_`` are codes, 0 for the first class.
    candidates_ : list of Candidate
        What was compared, the chosen one among them.
    corrected_ : bool
        Whether probabilities are those of the clean label under ``transition_``: not if a model as it is was chosen
        although noise was found, or if there are too few rows to train the model through a given T.
    overlap_ : bool
        Whether overlapping classes may explain the labels as well as noise does; see ``StackedEM``.
    alternatives_ : list of ndarray of shape (n_classes, n_classes)
        Other T that the data do not rule out; intervals of the accuracy include what they say.
    notes_ : list of str
        What the data cannot tell, in sentences.
    oof_proba_ : ndarray of shape (n_samples, n_classes)
        P(clean = k | x) of the training rows, from models that did not see them; None if there are too few rows.

    Notes
    -----
    *The choice.* Out-of-fold predictions of each candidate are scored by :func:`unflip.metrics.clean_accuracy`. The
    blend, whose weights make held-out labels likeliest, is taken unless a single model leads it by two standard errors
    of the paired difference, and leads it with every other T that the data do not rule out. It learns through T if the
    labels show noise, and the less it trusts T the weaker the evidence is: soft labels are the average of both
    explanations.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> noisy = corrupt(y[:300], pairflip(4, 0.35), random_state=0)
    >>> forest = ExtraTreesClassifier(50, min_samples_leaf=2, random_state=0)
    >>> model = CorrectedClassifier(forest, random_state=0).fit(X[:300], noisy)
    >>> bool(model.score(X[300:], y[300:]) > forest.fit(X[:300], noisy).score(X[300:], y[300:]) + 0.05)
    True
    """

    estimator_: Any
    annotator_model_: AnnotatorModel | None = None
    corrected_: bool
    overlap_: bool
    notes_: list[str]
    oof_proba_: FloatArray | None
    transition_std_: FloatArray | None

    def __init__(
        self,
        estimator: Any = None,
        *,
        transition: Any = None,
        cv: Any = 5,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.transition = transition
        self.cv = cv
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:
        """Fit to noisy labels ``y`` of any kind; rows of a group stay in one fold if ``cv`` is a group splitter.

        ``y`` may be a matrix, rows x annotators, with missing entries: :class:`unflip.AnnotatorModel` and the model,
        which predicts rows that it did not see, then find the class of each row together. ``annotator_model_`` has
        what they found, and ``transition_`` is the T of all labels together.
        """
        self._check_estimator()
        self.annotator_model_, self.corrected_ = None, True
        if is_matrix(y):
            return self._fit_crowd(X, y, sample_weight, groups)
        X, codes, weights = self._check_data(X, y, sample_weight, self.classes)
        order = None
        if isinstance(self.cv, Integral):  # folds of a splitter may count on the order of the rows
            check_consistent_length(codes, groups)
            order = row_order(X, codes, weights, groups)
            X, codes = _safe_indexing(X, order), codes[order]
            weights = None if weights is None else weights[order]
            groups = None if groups is None else np.asarray(groups)[order]
        random = check_random_state(self.random_state)
        self._witness(X, codes, weights, groups, random)
        seed = random.randint(2**31 - 1)
        if self.estimator is None:
            self._fit_best(X, codes, weights, seed)
        else:
            self._fit_given(X, codes, weights, seed)
        self.notes_ = list(noise_notes(self.witness_, codes, weights))
        if order is not None:
            self.witness_.restore(order)
            self.oof_proba_ = in_caller_order(self.oof_proba_, order)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely clean label of each sample, shape (n_samples,)."""
        check_is_fitted(self)
        X = self._features(X)
        if self._kind() == "labels":  # a classifier without probabilities
            return self.classes_[self.estimator_.codes_[self.estimator_.predict(X)]]
        labels: NDArray[Any] = self.classes_[self._proba(X).argmax(axis=1)]
        return labels

    @available_if(lambda self: self._kind() != "labels")
    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean class | x), shape (n_samples, n_classes).

        They are probabilities of the noisy label if not ``corrected_``.
        """
        check_is_fitted(self)
        return self._proba(self._features(X))

    def _proba(self, X: Any) -> FloatArray:
        c, kind = len(self.classes_), self._kind()
        if kind == "regressor":
            return project_to_simplex(np.asarray(self.estimator_.predict(X), dtype=np.float64).reshape(-1, c))
        p = predicted_codes(self.estimator_, X, c)
        if kind != "inverted" or self.annotator_model_ is not None:
            return p
        before, after = self.temperatures_
        p = tempered((self.n_samples_ * p + self.noisy_prior_) / (self.n_samples_ + 1), before)
        share = self.witness_.share_
        clean = tempered(inverted_posterior(p, self.transition_, self.class_prior_), after)
        return share * clean + (1 - share) * p

    # -- what the parameters mean

    def _kind(self) -> str:
        """Return how the model learns: "auto", "weighted", "labels" (weighted, no probabilities), "inverted", ..."""
        model = self.estimator
        if model is None:
            return "auto"
        if is_regressor(model):
            return "regressor"
        if weighting(model, np.ones(1)):
            return "weighted" if hasattr(model, "predict_proba") else "labels"
        return "inverted"

    def _check_estimator(self) -> None:
        model = self.estimator
        if model is None:
            return
        if isinstance(model, type) or not hasattr(model, "fit") or not (is_classifier(model) or is_regressor(model)):
            raise ValueError(f"estimator must be a scikit-learn classifier or regressor, or None; got {model!r}")
        if self._kind() == "inverted" and not hasattr(model, "predict_proba"):
            raise ValueError(
                f"{type(model).__name__} takes no sample weights and has no predict_proba, so T cannot correct it; "
                "choose a model with either, or wrap it in CalibratedClassifierCV"
            )

    def _check_data(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> tuple[Any, IntArray, FloatArray | None]:
        if hasattr(X, "dask"):
            raise ValueError(
                "X is a Dask collection, but CorrectedClassifier holds its data in memory; pass X.compute(), or fit "
                "MCLDCEClassifier or ForwardLogisticClassifier, which read data of any size"
            )
        if self.estimator is None:
            return check_training_data(self, X, y, sample_weight, classes=classes)
        check_rows(X, y)
        _check_table(X)
        X, y = validate_data(self, X, y, skip_check_array=True)  # the model checks X as it takes it
        (X,) = indexable(X)
        y = column_or_1d(y, warn=True)
        if np.asarray(y).dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_, codes = check_labels(y, classes)
        if sample_weight is None:
            return X, codes, None
        weights = _check_sample_weight(sample_weight, codes, dtype=np.float64, ensure_non_negative=True)
        return X, codes, bounded_weights(weights)

    def _features(self, X: Any) -> Any:
        if self.estimator is None:
            # A loaded model does not have the estimator it was made with, which may have taken missing values.
            finite: Any = "allow-nan" if isinstance(self.estimator_, SavedBlend) else True
            return check_samples(self, X, ensure_all_finite=finite)
        _check_table(X)
        return validate_data(self, X, reset=False, skip_check_array=True)

    # -- saving

    def _fitted_state(self) -> dict[str, Any]:
        """Return what predicts and what T says; ``estimator_`` is stored as arrays, the rest of the fit is left out."""
        names = ("classes_", "n_features_in_", "feature_names_in_", "class_prior_", "transition_", "transition_std_")
        more = ("corrected_", "overlap_", "notes_")
        state = {name: getattr(self, name) for name in names + more if hasattr(self, name)}
        if not hasattr(self, "estimator_"):
            return state
        if self._kind() not in ("auto", "weighted"):
            raise ValueError(
                f"a CorrectedClassifier with {_name(self.estimator)} cannot be saved without code; choose a classifier "
                "that takes sample weights, or save it with skops: skops.io.dump(model, 'model.skops')"
            )
        return state | {"estimator_": self._as_arrays()}

    def _as_arrays(self) -> SavedBlend:
        model, codes = self.estimator_, np.arange(len(self.classes_))
        if isinstance(model, SavedBlend):
            return model
        if not isinstance(model, Blend):
            return SavedBlend([as_arrays(model, codes[model.codes_])], classes=codes)
        members = [as_arrays(one, codes[one.codes_]) for one in model.members]
        return SavedBlend(members, model.weights, codes, model.temperatures, model.calibration)

    # -- several annotators

    def _fit_crowd(self, X: Any, Y: Any, sample_weight: Any, groups: Any) -> Self:
        """Fit to the labels of several annotators; the models are one more witness, in the place of the class prior.

        In turn, models predict the classes of rows that they did not see, and the annotators' labels update them::

            p(x)    models fitted to q, blended by the weights that make the labels of held-out rows likeliest
            q_i(k)  ~  p_k(x_i) prod_a T_a[k, y_ia]
        """
        if self.transition is not None:
            raise ValueError("each annotator has a T of their own, which is estimated; leave transition out")
        a, kind = annotations_of(Y, self.classes), self._kind()
        # The labels are checked already; most votes of all rows may be for one class, and others still have samples.
        X, _, weights = self._check_data(X, np.repeat(a.classes[:1], a.n_rows), sample_weight, a.classes)
        self.classes_, c = a.classes, len(a.classes)
        n_rows, given = a.n_rows, a.counts.sum(axis=1) > 0
        order = np.arange(n_rows)
        if isinstance(self.cv, Integral):
            check_consistent_length(order, groups)
            order = row_order(X, sparse_ranks(a.by_column), weights, groups)
        order, labeled = order[given[order]], np.flatnonzero(given)  # rows without a label teach nothing
        X, as_given, a = _safe_indexing(X, order), a if given.all() else a.take(labeled), a.take(order)
        weights = None if weights is None else weights[order]
        groups = None if groups is None else np.asarray(groups)[order]
        random = check_random_state(self.random_state)
        crowd = AnnotatorModel().fit(a)
        # Models learn from posteriors before they are made less sure, which would only blur what they learn.
        alone, q = crowd.posterior_, crowd.fit_.posterior
        prior = np.tile(np.full(c, 1 / c) if crowd.abstain_ else crowd.class_prior_, (a.n_rows, 1))
        folds, seed = make_folds(self.cv, q.argmax(axis=1), groups, random), random.randint(2**31 - 1)
        named = default_models(X, c) if kind == "auto" else [(_name(self.estimator), self.estimator)]
        models = {name: seeded(clone(model), seed) for name, model in named}
        shares, held_out = np.full(len(models), 1 / len(models)), {}
        witnesses = kind in ("auto", "weighted", "inverted") and not crowd.abstain_  # a model of rules repeats them
        for _ in range(CROWD_ROUNDS if folds and (witnesses or kind == "auto") else 0):
            R = q if kind != "inverted" else None
            held_out = {name: _soft_out_of_fold(model, X, q, R, weights, folds) for name, model in models.items()}
            likelihood = crowd.fit_.posterior / np.maximum(prior, 1e-9)
            shares, t = _witness_shares(list(held_out.values()), likelihood, weights)
            even = np.ones(len(shares))
            prior = blended(list(held_out.values()), shares, even, np.concatenate([[t], np.zeros(c)]))
            prior = 0.99 * prior + 0.01 / c  # no classifier is ever sure
            if not witnesses:  # only the weights of the models are needed
                break
            crowd.fit(a, proba=prior)
            q = crowd.fit_.posterior
        place, self.annotator_model_ = np.searchsorted(labeled, order), crowd
        self.transition_, self.class_prior_ = crowd.transition_, crowd.class_prior_
        size = (a.counts.sum(axis=1) @ q)[:, np.newaxis]  # labels of each class
        self.transition_std_ = np.sqrt(self.transition_ * (1 - self.transition_) / np.maximum(size, 1))
        self.overlap_, self.oof_proba_ = False, in_caller_order(prior, place) if held_out else None
        self.alternatives_: list[FloatArray] = []
        codes = q.argmax(axis=1)
        self._fit_to_posterior(X, codes, q, weights, models, shares, kind)
        self.candidates_ = self._crowd_candidates(held_out, shares, alone, weights) if kind == "auto" else []
        self.notes_ = list(_crowd_sentences(crowd, n_rows))
        crowd._restore(as_given, place)
        return self

    def _fit_to_posterior(
        self, X: Any, codes: IntArray, q: FloatArray, weights: Any, models: Any, shares: FloatArray, kind: str
    ) -> None:
        if kind == "auto":
            kept = [k for k, share in enumerate(shares) if share > LEAST_SHARE]
            members = [fit_soft(list(models.values())[k], X, codes, q, weights) for k in kept]
            share = shares[kept] / shares[kept].sum()
            self.estimator_ = Blend(members, share, np.ones(len(share)), np.eye(1, 1 + q.shape[1])[0])
        elif kind == "regressor":
            (model,) = models.values()
            model = model if get_tags(model).target_tags.multi_output else MultiOutputRegressor(model)
            self.estimator_ = model.fit(X, q)
        else:
            (model,) = models.values()
            self.estimator_ = fit_soft(model, X, codes, None if kind == "inverted" else q, weights)

    def _crowd_candidates(self, held_out: Any, shares: FloatArray, alone: FloatArray, weights: Any) -> list[Candidate]:
        """Return the models with their expected accuracy, judged by what the annotators say without them."""
        found = dict(held_out)
        if found:
            found[BLEND] = sum(w * p for w, p in zip(shares, held_out.values(), strict=True))
        return [
            Candidate(
                name,
                True,
                posterior_accuracy(alone, p.argmax(axis=1), weights),
                float(np.average(np.log(np.maximum((p * alone).sum(axis=1), 1e-12)), weights=weights)),
                name == BLEND,
            )
            for name, p in found.items()
        ]

    # -- T and the posteriors of the training rows

    def _witness(self, X: Any, codes: IntArray, weights: Any, groups: Any, random: Any) -> None:
        """Set T, and p(x) of the rows from models that did not see them."""
        kind, T, models, joint, c = self._kind(), self.transition, None, True, len(self.classes_)
        numbers = _numbers(X)
        source = None
        if hasattr(T, "fit"):
            T = seeded(clone(T), random.randint(2**31 - 1))
            T, source = resolve_transition(T, None, X, codes, self.classes_, weights)
        if kind in ("weighted", "inverted"):
            own = (_name(self.estimator), self.estimator)
            if T is not None or numbers is None:
                models, joint = [own], False
            else:
                models = [m for m in default_models(numbers, c) if _inner(m[1]) is not _inner(self.estimator)] + [own]
        elif numbers is None:
            raise ValueError(
                f"{_name(self.estimator)} has no predict_proba, so other models estimate T, which take only finite "
                "numbers. Encode X and fill its gaps before, or choose a classifier with predict_proba"
            )
        self.witness_ = StackedEM(
            estimators=models, joint=joint, transition=T, cv=self.cv, random_state=random.randint(2**31 - 1)
        )
        self.witness_.classes_ = self.classes_
        self.witness_.fit_codes(X, codes, weights, groups, numbers)
        for name in ("transition_", "transition_std_", "class_prior_", "overlap_", "oof_proba_", "alternatives_"):
            setattr(self, name, getattr(self.witness_, name))
        self.transition_std_ = getattr(source, "transition_std_", self.transition_std_)

    # -- fitting

    def _soft_labels(self, codes: IntArray) -> FloatArray | None:
        """Return P(clean = k | x, noisy), shape (n, c); None if the labels are taken as they are."""
        if self.oof_proba_ is None or self.witness_.shape_ == "none":
            return None
        return self.witness_.soft_labels(codes)

    def _fit_given(self, X: Any, codes: IntArray, weights: FloatArray | None, seed: int) -> None:
        model, kind, w = seeded(clone(self.estimator), seed), self._kind(), self.witness_
        if kind == "regressor":
            model = model if get_tags(model).target_tags.multi_output else MultiOutputRegressor(model)
            c = len(self.classes_)
            targets = w.share_ * pseudo_inverse(self.transition_)[codes] + (1 - w.share_) * np.eye(c)[codes]
            passed = weighting(self.estimator, weights)
            if isinstance(model, MultiOutputRegressor):  # it passes weights on, but not into a pipeline
                passed = {name: value for name, value in passed.items() if name == "sample_weight"}
            self.estimator_ = model.fit(X, targets, **passed)
        elif kind == "inverted":
            self.estimator_ = fit_codes(model, X, codes, weights)
            counts = np.bincount(codes, weights, minlength=len(self.classes_))
            self.noisy_prior_, self.n_samples_ = counts / counts.sum(), len(codes)
            own = w.names_.index(_name(self.estimator))
            stacks = () if w.stack_ is None else (w.plain_, w.stack_)
            self.temperatures_ = [float(stack.temperatures[own]) for stack in stacks] or [1.0, 1.0]
        else:
            R = self._soft_labels(codes)
            self.corrected_ = R is not None or w.shape_ == "none"
            self.estimator_ = fit_soft(model, X, codes, R, weights)
        self.candidates_ = []
        if w.oof_proba_ is None or kind in ("regressor", "labels"):
            return
        name, found = _name(self.estimator), w.shape_ != "none"
        predictions = {(name, False): w.noisy_proba_[name]} | ({(name, True): w.posteriors_[name]} if found else {})
        self.candidates_ = self._candidates(predictions, codes, weights, (name, found))

    def _fit_best(self, X: Any, codes: IntArray, weights: FloatArray | None, seed: int) -> None:
        w, c = self.witness_, len(self.classes_)
        models = {name: seeded(clone(model), seed) for name, model in default_models(X, c)}
        if w.oof_proba_ is None:
            if w.shape_ == "given":  # T is known, so that a linear model needs no rows that are held out
                models[JOINT] = VolMin(transition=self.transition_, classes=np.arange(c))
            self.estimator_ = self._member(
                models, JOINT if JOINT in models else next(iter(models)), X, codes, None, weights
            )
            self.candidates_ = []
            return
        found = w.shape_ != "none"
        predictions = {(name, False): q for name, q in w.noisy_proba_.items()}
        predictions[BLEND, False] = w.plain_proba_
        if found:
            sharp = zip(w.posteriors_.items(), w.stack_.temperatures, strict=True)
            predictions |= {(name, True): tempered(p, t) for (name, p), t in sharp}
            predictions[BLEND, True] = w.oof_proba_
        chosen = self._choose(predictions, codes, weights, (BLEND, found))
        self.candidates_ = self._candidates(predictions, codes, weights, chosen)
        name, corrected = chosen
        self.corrected_ = corrected or not found
        if self.corrected_:
            self.oof_proba_ = predictions[chosen]
        linear = self.transition_ if corrected else np.eye(c)
        models[JOINT] = VolMin(transition=linear, scaling=w.scaling_, alpha=ALPHA, classes=np.arange(c))
        stack = w.stack_ if corrected else w.plain_
        R = w.soft_labels(codes) if corrected else None
        if name != BLEND:
            self.estimator_ = self._member(models, name, X, codes, R, weights)
            return
        bare = np.eye(1, 1 + c)[0]
        if R is not None and is_wide(X) and "extra-trees" not in models:  # all of them are fast
            stack = self._soft_stack(models, X, codes, R, weights)._replace(calibration=bare)
        elif R is not None:  # soft labels are calibrated already
            stack = stack._replace(temperatures=np.ones(len(w.names_)), calibration=bare)
        shares = dict(zip(w.names_, stack.weights, strict=True))
        sharpness = dict(zip(w.names_, stack.temperatures, strict=True))
        sharpness[JOINT] = 1.0  # the fit found its own
        shares = {key: share for key, share in shares.items() if share > LEAST_SHARE}
        members = [self._member(models, key, X, codes, R, weights) for key in shares]
        share = np.array(list(shares.values())) / sum(shares.values())
        self.estimator_ = Blend(members, share, np.array([sharpness[key] for key in shares]), stack.calibration)

    def _soft_stack(
        self, models: dict[str, Any], X: Any, codes: IntArray, R: FloatArray, weights: FloatArray | None
    ) -> Stack:
        """Return the weights and temperatures of models of words that learn soft labels R, from rows they did not see.

        Naive Bayes counts, so that soft labels do not calibrate it, and smoothing that suits noisy labels is too strong
        for soft ones.
        """
        w = self.witness_
        held_out = [
            w.posteriors_[name] if name == JOINT else _soft_out_of_fold(models[name], X, R, R, weights, w.folds_)
            for name in w.names_
        ]
        size = np.ones(len(codes)) if weights is None else weights * (len(codes) / weights.sum())
        T = w.share_ * self.transition_ + (1 - w.share_) * np.eye(R.shape[1])
        return fit_stack(held_out, codes, size, T, None)

    def _member(
        self, models: dict[str, Any], name: str, X: Any, codes: IntArray, R: FloatArray | None, weights: Any
    ) -> Any:
        if name != JOINT:
            return fit_soft(models[name], X, codes, R, weights)
        model = models[name].fit(X, codes, sample_weight=weights)  # through T itself
        model.codes_ = np.arange(len(self.classes_))
        return model

    def _choose(
        self,
        predictions: dict[Any, FloatArray],
        codes: IntArray,
        weights: FloatArray | None,
        preferred: tuple[str, bool],
    ) -> tuple[str, bool]:
        """Return the best candidate that surely leads the preferred one, whichever T is right, or the preferred."""
        w = np.ones(len(codes)) if weights is None else weights
        inverses = [pseudo_inverse(T) for T in (self.transition_, *self.alternatives_)]
        best, most, base = preferred, 0.0, predictions[preferred].argmax(axis=1)
        for key, p in predictions.items():
            leads = [A[codes, p.argmax(axis=1)] - A[codes, base] for A in inverses]
            means = [float(np.average(lead, weights=w)) for lead in leads]
            if means[0] > most and min(means) > 0 and standard_errors(leads[0], w) > SURELY:
                best, most = key, means[0]
        return best

    def _candidates(
        self, predictions: dict[Any, FloatArray], codes: IntArray, weights: FloatArray | None, chosen: tuple[str, bool]
    ) -> list[Candidate]:
        c, candidates = len(self.classes_), []
        for (name, corrected), p in predictions.items():
            T = self.transition_ if corrected else np.eye(c)
            score = clean_accuracy(
                codes,
                p.argmax(axis=1),
                self.transition_,
                classes=np.arange(c),
                sample_weight=weights,
                transition_std=self.transition_std_,
                alternatives=self.alternatives_,
            )
            # The models learned from the rows of all folds but one. An error that falls with 1/sqrt(n) falls further.
            score = score._replace(high=1 - (1 - score.high) * np.sqrt(1 - 1 / len(self.witness_.folds_)))
            likelihood = np.log(np.maximum(np.einsum("nk,kn->n", p, T[:, codes]), 1e-12))
            mean = float(np.average(likelihood, weights=weights))
            candidates.append(Candidate(name, corrected, score, mean, (name, corrected) == chosen))
        return candidates

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.estimator is None or get_tags(self.estimator).input_tags.sparse
        if self.estimator is not None:
            tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


class Blend:
    """The weighted average of fitted classifiers' probabilities, each at its temperature, calibrated."""

    def __init__(
        self, members: list[Any], weights: FloatArray, temperatures: FloatArray, calibration: FloatArray
    ) -> None:
        self.members, self.weights, self.temperatures, self.calibration = members, weights, temperatures, calibration
        self.codes_ = self.classes_ = np.arange(len(calibration) - 1)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of all classes, shape (n_samples, n_classes)."""
        p = [predicted_codes(model, X, len(self.codes_)) for model in self.members]
        return blended(p, self.weights, self.temperatures, self.calibration)


def noise_notes(w: StackedEM, codes: IntArray, weights: FloatArray | None) -> Any:
    """Yield what the data cannot tell about the noise, in sentences."""
    counts = np.bincount(codes, weights, minlength=len(w.classes_))
    prior, found = counts / counts.sum(), w.shape_ not in ("none", "given")
    rate = noise_rate(prior, w.suspected_)
    if not w.folds_:
        yield (
            "There are too few rows to hold any out, so noise was not looked for"
            + (", and only linear models and regressors are trained through T." if w.shape_ == "given" else ".")
        )
    if w.overlap_:
        if not found:
            corrected = "Nothing was corrected."
        elif w.share_ < 1:
            corrected = "Both explanations are averaged."
        elif np.array_equal(w.transition_, w.suspected_):
            corrected = "They are corrected as if all of this were noise."
        else:
            corrected = "Only what is surely noise counts as such."
        yield (
            "Noise and overlapping classes cannot be told apart in these data: either the classes overlap, or "
            f"{rate:.0%} of the labels are wrong if all samples of a class are mislabeled in the same way. "
            f"{corrected} More rows or better features may tell."
        )
    linear = noise_rate(prior, w.linear_transition_) if found and hasattr(w, "linear_transition_") else rate
    if abs(rate - linear) > DISAGREEMENT:
        yield (
            f"The estimators disagree: {rate:.0%} of the labels are wrong according to all models, {linear:.0%} "
            "according to a linear model alone, which may be too weak for these features."
        )
    rare = [str(name) for name, count in zip(w.classes_, counts, strict=True) if count < RARE]
    if rare and found:
        listed = ", ".join(rare[:5]) + (", ..." if len(rare) > 5 else "")
        yield (
            "These classes have too few rows to tell how they are flipped, so their rates are drawn to those of "
            f"the others: {listed}."
        )


def fit_soft(model: Any, X: Any, codes: IntArray, R: FloatArray | None, weights: FloatArray | None) -> Any:
    """Fit a classifier to soft labels R, shape (n, c): each row with its likeliest classes, weighted by R."""
    if R is None:
        return fit_codes(model, X, codes, weights)
    labels = np.argsort(-R, axis=1, kind="stable")[:, :MOST_LABELS]
    rows = np.repeat(np.arange(len(R)), labels.shape[1])
    share = R[rows, labels.ravel()] * (1 if weights is None else weights[rows])
    kept = np.flatnonzero(R[rows, labels.ravel()] > LEAST_WEIGHT)
    return fit_codes(model, _safe_indexing(X, rows[kept]), labels.ravel()[kept], share[kept])


def posterior_accuracy(posterior: FloatArray, predicted: IntArray, weights: FloatArray | None = None) -> CleanAccuracy:
    """Return the expected accuracy of predictions, given P(class) of each row, with its 95 % interval."""
    right = posterior[np.arange(len(posterior)), predicted]
    w = np.ones(len(right)) if weights is None else weights
    mean = float(np.average(right, weights=w))
    # The class of a row is a draw from its posterior, and the rows are a draw themselves.
    spread = 1.96 * np.sqrt(max(mean * (1 - mean), 1e-4) * np.sum(w**2)) / np.sum(w)
    return CleanAccuracy(mean, max(mean - spread, 0.0), min(mean + spread, 1.0), spread / 1.96)


def _soft_out_of_fold(
    model: Any, X: Any, q: FloatArray, R: FloatArray | None, weights: FloatArray | None, folds: Any
) -> FloatArray:
    """Return what a model that learned soft labels R, or the likeliest class, predicts for rows that it did not see."""
    p = np.zeros_like(q)
    for train, test in folds:
        w, soft = (None if one is None else one[train] for one in (weights, R))
        fitted = fit_soft(clone(model), _safe_indexing(X, train), q[train].argmax(axis=1), soft, w)
        p[test] = predicted_codes(fitted, _safe_indexing(X, test), q.shape[1])
    return p


def _witness_shares(
    predictions: list[FloatArray], likelihood: FloatArray, weights: FloatArray | None
) -> tuple[FloatArray, float]:
    """Return the weights of models and the temperature of their average that make the annotators' labels likeliest.

    ``likelihood`` is P(labels of the row | class), up to a factor for each row, shape (n, c).
    """
    explained = np.column_stack([np.maximum((p * likelihood).sum(axis=1), 1e-12) for p in predictions])
    w = np.ones(len(explained)) if weights is None else weights
    shares = np.full(len(predictions), 1 / len(predictions))
    for _ in range(200):  # EM of the weights of a mixture
        parts = shares * explained
        shares = np.average(parts / parts.sum(axis=1, keepdims=True), axis=0, weights=w)
    mean = sum(share * p for share, p in zip(shares, predictions, strict=True))

    def loss(log_t: float) -> float:
        p = tempered(mean, float(np.exp(log_t)))
        return -float(np.average(np.log(np.maximum((p * likelihood).sum(axis=1), 1e-12)), weights=w))

    return shares, float(np.exp(minimize_scalar(loss, bounds=(-1.5, 1.5), method="bounded").x))


def _crowd_sentences(crowd: AnnotatorModel, n_rows: int) -> Any:
    dependent = [pair for pair in crowd.dependence() if pair.p_value < 0.01 and pair.z > 0]
    if dependent:
        first = dependent[0]
        yield (
            f"{len(dependent):,} pairs of annotators agree more often than independent ones would, {first.first} and "
            f"{first.second} most of all. What they say together may count for too much."
        )
    unlabeled = n_rows - crowd.annotations_.n_rows
    if unlabeled:
        yield f"{unlabeled:,} rows have no label of any annotator and are left out."


def _numbers(X: Any) -> Any:
    """Return X as a finite array or sparse matrix, or None if it is not one."""
    try:
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    except (TypeError, ValueError):
        return None


def _check_table(X: Any) -> None:
    """Refuse a single row or column with scikit-learn's message."""
    if len(getattr(X, "shape", (0, 0))) == 1 and X.dtype.kind in "fiub":
        check_array(X)


def _inner(model: Any) -> type:
    return type(model[-1] if hasattr(model, "steps") else model)


def _name(model: Any) -> str:
    return _inner(model).__name__
