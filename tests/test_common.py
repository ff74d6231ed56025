"""Checks that every classifier of the package passes: scikit-learn's own, and those of this field.

A new classifier joins by its line in the registry.
"""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.validation import has_fit_parameter

from tests import sklearn_checks
from unflip import linear, registry
from unflip.linear._base import TransitionClassifier
from unflip.models import Savable
from unflip.noise import asymmetric, corrupt, pairflip
from unflip.transition import AnchorPoints

# Networks have tests of their own.
ENTRIES = [entry for entry in registry.ENTRIES if entry.family in ("linear", "transition") and not entry.networks]
# These two are not classifiers; CorrectedClassifier makes one of StackedEM.
ENTRIES = [entry for entry in ENTRIES if entry.cls not in ("StackedEM", "RidgeEM")]
CLASSIFIERS = [entry.load()() for entry in ENTRIES]
OWN_DEFAULT = ("MCLDCEClassifier", "RankPruningClassifier")
for model in CLASSIFIERS:
    if type(model).__name__ == "Selective":  # its 200 trees take minutes over all checks
        model.set_params(classifier=ExtraTreesClassifier(10, min_samples_leaf=2))
    elif isinstance(model, TransitionClassifier) and type(model).__name__ not in OWN_DEFAULT:
        model.set_params(transition=AnchorPoints())  # their default T is that of MCLDCEClassifier, and takes longer
# A copy of a sample would be its nearest neighbor, and trees count samples, not weights, in a leaf.
WEIGHTS_ARE_NOT_REPETITION = ("HOC", "Selective", "FilterClassifier")
TAKES_TRANSITION = [model for model in CLASSIFIERS if "transition" in model.get_params()]
ONE_VS_REST = OneVsRestClassifier(LogisticRegression(max_iter=10_000, tol=1e-8))
UNCORRECTED = {  # what is left of a method that takes T if T = I
    "MCLDCEClassifier": RidgeClassifier(),
    "MCLDCEClassifierCV": RidgeClassifier(),
    "ULEClassifier": ONE_VS_REST,
    "MuSGDClassifier": ONE_VS_REST,
    "RankPruningClassifier": make_pipeline(StandardScaler(), ONE_VS_REST),
    "LICSClassifier": RidgeClassifier(),
    "CEGEClassifier": RidgeClassifier(),
    "ForwardLogisticClassifier": make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)),
    "VolMin": make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)),
}
TAKES_NO_WEIGHTS = [model for model in CLASSIFIERS if not has_fit_parameter(model, "sample_weight")]


def name(model):
    return type(model).__name__


def expected_failures(model):
    checks = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(checks if name(model) in WEIGHTS_ARE_NOT_REPETITION else [], "weights are not repetition")


@sklearn_checks.parametrize(CLASSIFIERS, expected_failed_checks=expected_failures)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    T = pairflip(3, 0.2)
    return X, y, corrupt(y, T, random_state=0), T


@pytest.fixture(scope="module")
def fits(iris):
    """A function that returns a classifier fitted to iris, which is fitted once."""
    X, _, noisy, _ = iris
    return cache(lambda k: clone(CLASSIFIERS[k]).set_params(random_state=0).fit(X, noisy))


@pytest.fixture
def fitted(fits, model):
    return fits(CLASSIFIERS.index(model))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name)
class TestEveryClassifier:
    def test_same_seed_same_result_and_leaves_its_input_alone(self, model, iris, fitted):
        X, _, noisy, _ = iris
        before = X.copy(), noisy.copy()
        again = clone(model).set_params(random_state=0).fit(X, noisy)
        np.testing.assert_array_equal(fitted.predict_proba(X), again.predict_proba(X))
        np.testing.assert_array_equal(X, before[0])
        np.testing.assert_array_equal(noisy, before[1])

    def test_names_of_the_classes_do_not_matter(self, model, iris, fitted):
        X, _, noisy, _ = iris
        names = np.array(["ash", "beech", "cedar"])
        a = fitted
        b = clone(model).set_params(random_state=0).fit(X, names[noisy])
        np.testing.assert_array_equal(names[a.predict(X)], b.predict(X))

    def test_keeps_a_transition_matrix_over_its_classes(self, model, fitted):
        if not hasattr(fitted, "transition_"):
            pytest.skip("fits without T")
        assert fitted.transition_.shape == (3, 3)
        np.testing.assert_allclose(fitted.transition_.sum(axis=1), 1)
        assert np.linalg.cond(fitted.transition_) < 1e8

    def test_order_of_the_classes_does_not_matter(self, model, iris, fitted):
        X, _, noisy, _ = iris
        order, a = np.array([2, 0, 1]), fitted
        b = clone(model).set_params(random_state=0).fit(X, order[noisy])
        assert (
            np.mean(order[a.predict(X)] == b.predict(X)) > 0.99
        )  # T, where it is estimated, ends within its tolerance

    def test_learns_through_noise(self, model):
        X, y = load_wine(return_X_y=True)
        X = scale(X)
        noisy = corrupt(y, pairflip(3, 0.2), random_state=0)
        assert clone(model).set_params(random_state=0).fit(X, noisy).score(X, y) > 0.85

    def test_a_class_emptied_by_the_noise(self, model, iris):
        X, _, noisy, _ = iris
        rows = noisy != 1
        model = clone(model).set_params(classes=[0, 1, 2]).fit(X[rows], noisy[rows])
        assert model.predict_proba(X).shape == (150, 3)


@pytest.mark.parametrize("model", TAKES_TRANSITION, ids=name)
class TestEveryClassifierThatTakesT:
    def test_anti_identity_flips_a_binary_learner(self, model, iris):
        X, y, _, _ = iris
        X, y = X[y < 2], y[y < 2]
        straight = clone(model).set_params(transition=np.eye(2), random_state=0).fit(X, y)
        flipped = clone(model).set_params(transition=[[0, 1], [1, 0]], random_state=0).fit(X, y)
        np.testing.assert_array_equal(straight.predict(X), 1 - flipped.predict(X))

    def test_permuting_classes_permutes_predictions(self, model, iris):
        X, _, noisy, _ = iris
        T, order = asymmetric(3, {0: (1, 0.3), 1: (2, 0.1)}), np.array([2, 0, 1])
        renamed = np.empty((3, 3))
        renamed[np.ix_(order, order)] = T
        a = clone(model).set_params(transition=T, random_state=0).fit(X, noisy)
        b = clone(model).set_params(transition=renamed, random_state=0).fit(X, order[noisy])
        np.testing.assert_array_equal(order[a.predict(X)], b.predict(X))

    def test_takes_an_estimator_and_leaves_it_unfitted(self, model, iris):
        X, _, noisy, _ = iris
        given = AnchorPoints()
        clone(model).set_params(transition=given).fit(X, noisy)
        assert not hasattr(given, "transition_")

    def test_bad_transition_is_refused(self, model, iris):
        X, _, noisy, T = iris
        for bad, match in [(np.full((3, 3), 1 / 3), "singular"), (2 * T, "sums to"), (np.eye(2), "2 x 2")]:
            with pytest.raises(ValueError, match=match):
                clone(model).set_params(transition=bad).fit(X, noisy)


@pytest.mark.parametrize("model", TAKES_TRANSITION, ids=name)
def test_identity_gives_the_uncorrected_learner(model, iris):
    X, y, _, _ = iris
    model = clone(model).set_params(transition=np.eye(3), random_state=0)
    if "epochs" in model.get_params():
        model.set_params(epochs=3000)
    model.fit(X, y)
    if name(model) not in UNCORRECTED:
        pytest.skip("UNCORRECTED does not say what it is without noise")
    plain = clone(UNCORRECTED[name(model)])
    if isinstance(plain, RidgeClassifier) and hasattr(model, "alpha_"):
        plain.set_params(alpha=model.alpha_)  # its choice is not the point
    plain.fit(X, y)
    assert np.mean(model.predict(X) == plain.predict(X)) > (0.98 if hasattr(model, "epochs") else 0.999)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.cls)
def test_the_registry_tells_who_takes_T(entry):
    assert entry.takes_transition == ("transition" in entry.load()().get_params())


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.family == "linear"], ids=lambda entry: entry.cls)
def test_at_most_two_bases_of_our_own(entry):
    cls = entry.load()
    cls = linear.MCLDCEClassifier if cls is linear.MCLDCEClassifierCV else cls  # two names of one class
    own = [kind for kind in cls.__mro__[1:] if kind.__module__.startswith("unflip.")]
    assert len([kind for kind in own if kind is not Savable]) <= 2


def test_linear_offers_what_the_registry_lists():
    assert sorted(linear.__all__) == sorted(["class_sums", *(e.cls for e in ENTRIES if e.family == "linear")])
    assert set(linear.__all__) <= set(dir(linear))
    for name in linear.__all__:
        assert getattr(linear, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'NoSuchClassifier'"):
        linear.NoSuchClassifier  # noqa: B018


@pytest.mark.parametrize("model", TAKES_NO_WEIGHTS, ids=name)
def test_refuses_weights_that_it_cannot_use(model, iris):
    X, _, noisy, _ = iris
    with pytest.raises(TypeError, match="sample_weight"):
        clone(model).fit(X, noisy, sample_weight=np.ones(len(X)))
