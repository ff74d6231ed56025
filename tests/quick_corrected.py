"""A quick stand-in for CorrectedClassifier: its attributes without its search, for the tests of what is built on it."""

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from unflip import registry
from unflip._base import resolve_transition
from unflip._validation import check_labels
from unflip.core.ldce import solve_prior
from unflip.metrics import CleanAccuracy
from unflip.models import Savable, as_arrays
from unflip.transition import VolMin


@dataclass(frozen=True)
class Candidate:
    name: str
    corrected: bool
    accuracy: CleanAccuracy
    log_likelihood: float
    chosen: bool


def accuracy(p, error=0.05):
    return CleanAccuracy(estimate=p, low=p - 2 * error, high=p + 2 * error, standard_error=error)


class CorrectedClassifier(Savable, ClassifierMixin, BaseEstimator):
    """T and the predictions for held-out rows by VolMin; a small forest, trained on VolMin's labels, predicts."""

    estimator_: Any
    notes_: list[str]
    overlap_ = False
    witness_ = SimpleNamespace(shape_="learned", share_=1.0)

    def __init__(self, estimator=None, *, transition=None, cv=5, classes=None, random_state=None):
        self.estimator = estimator
        self.transition = transition
        self.cv = cv
        self.classes = classes
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        self.classes_, codes = check_labels(np.asarray(y), self.classes)
        T, judge = resolve_transition(self.transition, VolMin(), X, codes, self.classes_, sample_weight)
        self.transition_, self.transition_std_, self.n_features_in_ = T, None, X.shape[1]
        counts = np.bincount(codes, sample_weight, minlength=len(T))
        self.class_prior_ = solve_prior(counts / counts.sum(), T)
        judge = VolMin(transition=T, scaling=getattr(judge, "scaling_", "each"), classes=np.arange(len(T)))
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=0)
        params = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.oof_proba_ = cross_val_predict(judge, X, codes, cv=folds, method="predict_proba", params=params)
        model = ExtraTreesClassifier(10, random_state=0) if self.estimator is None else clone(self.estimator)
        self.estimator_ = model.fit(X, self.classes_[judge.fit(X, codes, sample_weight).predict(X)])
        self.notes_ = ["The classes overlap, and noise cannot be told from overlap."]
        found = {("boosted trees", False): 0.7, ("boosted trees", True): 0.9, ("logistic", True): 0.8}
        self.candidates_ = [
            Candidate(name, corrected, accuracy(p), -1.0, p == 0.9) for (name, corrected), p in found.items()
        ]
        return self

    def predict_proba(self, X):
        return self.estimator_.predict_proba(X)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _fitted_state(self):
        names = ("classes_", "n_features_in_", "transition_", "class_prior_", "notes_")
        state = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return state | ({"estimator_": as_arrays(self.estimator_)} if state else {})


def register(monkeypatch):
    """Put the stand-in on the registry's line."""
    monkeypatch.setitem(sys.modules, "unflip.quick_corrected", SimpleNamespace(CorrectedClassifier=CorrectedClassifier))
    flags = {"takes_transition": True, "saved": True, "own_scale": True}
    entry = registry.Entry(None, "quick_corrected", "CorrectedClassifier", "any", **flags)
    others = [other for other in registry.ENTRIES if other.cls != "CorrectedClassifier"]
    monkeypatch.setattr(registry, "ENTRIES", [*others, entry])
