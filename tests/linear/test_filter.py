"""FilterClassifier: the published rule as loops, limits, rare classes, weights, any classifiers, and saving."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import KFold, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import unflip
from unflip.linear import FilterClassifier
from unflip.linear.filter import default_classifier, stratified, to_keep
from unflip.noise import corrupt, pairflip, symmetric

MODELS = [GaussianNB(), DecisionTreeClassifier(random_state=0), KNeighborsClassifier(3)]


def blobs(n=240, c=3, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    angle = 2 * np.pi * y / c
    return 3 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(0, spread, (n, 2)), y


@pytest.fixture
def problem():
    X, y = blobs()
    return X, y, corrupt(y, symmetric(3, 0.3), random_state=0)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("vote", ["majority", "consensus"])
def test_is_the_published_rule(problem, vote, m):
    X, _, noisy = problem
    cv = KFold(5, shuffle=True, random_state=0)
    model = FilterClassifier(LogisticRegression(), MODELS[:m], vote=vote, cv=cv).fit(X, noisy)
    kept = []
    predictions = []
    for voter in MODELS[:m]:
        found = np.empty(len(X), dtype=int)
        for train, test in cv.split(X):
            found[test] = clone(voter).fit(X[train], noisy[train]).predict(X[test])
        predictions.append(found)
    for i, label in enumerate(noisy):
        wrong = sum(found[i] != label for found in predictions)
        assert model.mistakes_[i] == wrong
        if not (wrong > m / 2 if vote == "majority" else wrong == m):
            kept.append(i)
    np.testing.assert_array_equal(np.flatnonzero(model.kept_), kept)
    assert 0 < len(kept) < len(X)
    alone = LogisticRegression().fit(X[kept], noisy[kept])
    np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))
    np.testing.assert_allclose(model.class_prior_, np.bincount(noisy[kept]) / len(kept))


def test_nothing_is_dropped_if_all_models_agree_with_the_labels():
    X, y = blobs(spread=0.1)
    model = FilterClassifier(random_state=0).fit(X, y)
    assert model.kept_.all()
    assert not model.mistakes_.any()
    np.testing.assert_array_equal(model.predict_proba(X), default_classifier(X).fit(X, y).predict_proba(X))


def test_consensus_drops_no_more_than_the_majority(problem):
    X, clean, noisy = problem
    majority, consensus = (FilterClassifier(vote=v, random_state=0).fit(X, noisy) for v in ("majority", "consensus"))
    assert (majority.kept_ <= consensus.kept_).all()
    assert majority.kept_.sum() < consensus.kept_.sum() < len(X)
    wrong = noisy != clean
    assert (~majority.kept_)[wrong].mean() > 0.7  # of the wrong labels
    assert (~consensus.kept_)[~wrong].mean() < 0.05  # of the correct ones


@pytest.mark.parametrize("vote", ["majority", "consensus"])
def test_helps_against_noise(vote):
    X, y = blobs(600, spread=0.8)
    noisy = corrupt(y, pairflip(3, 0.3), random_state=1)
    test_X, test_y = blobs(600, spread=0.8, seed=1)
    tree = DecisionTreeClassifier(random_state=0)
    model = FilterClassifier(tree, vote=vote, random_state=0).fit(X, noisy)
    assert model.score(test_X, test_y) > clone(tree).fit(X, noisy).score(test_X, test_y) + 0.1


def test_a_class_that_loses_all_its_samples_keeps_them(problem):
    X, _, noisy = problem
    zero = DummyClassifier(strategy="constant", constant=0)  # disputes every other label
    model = FilterClassifier(models=[zero], random_state=0).fit(X, noisy)
    assert model.kept_.all()
    np.testing.assert_array_equal(
        to_keep(np.array([2, 0, 3, 3, 2]), np.array([0, 0, 1, 1, 2]), 3, "majority"), [False, True, True, True, True]
    )


def test_folds_are_stratified_and_hold_out_each_sample_once():
    codes = np.repeat([0, 1, 2, 3], [40, 22, 3, 1])
    splits = stratified(codes, 4, np.random.RandomState(0))
    held_out = np.concatenate([test for _, test in splits])
    np.testing.assert_array_equal(np.sort(held_out), np.arange(len(codes)))
    for train, test in splits:
        assert not set(train) & set(test)
        assert (np.bincount(codes[test], minlength=4)[:2] >= [10, 5]).all()
    assert len(stratified(np.array([0, 0, 1]), 4, np.random.RandomState(0))) == 2
    assert stratified(np.arange(3), 4, np.random.RandomState(0)) == []  # one of each: nobody can judge


def test_weights_reach_the_classifiers_and_zero_means_absent(problem):
    X, _, noisy = problem
    weights = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    model = FilterClassifier(random_state=0).fit(X, noisy, weights)
    rows = weights > 0
    alone = FilterClassifier(random_state=0).fit(X[rows], noisy[rows], weights[rows])
    np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(model.kept_[rows], alone.kept_)
    assert not model.kept_[~rows].any()
    unweighted = FilterClassifier(random_state=0).fit(X[rows], noisy[rows])
    assert not np.allclose(alone.predict_proba(X), unweighted.predict_proba(X))


def test_a_sparse_matrix_and_folds_that_are_masks(problem):
    X, y, noisy = problem
    X = np.abs(X)
    first = np.arange(len(X)) < 120
    masks = [(first, ~first), (~first, first)]
    model = FilterClassifier(cv=masks, random_state=0).fit(sparse.csr_matrix(X), noisy)
    rows = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in masks]
    same = FilterClassifier(cv=rows, random_state=0).fit(sparse.csr_matrix(X), noisy)
    assert model.kept_.tolist() == same.kept_.tolist()
    assert not model.kept_.all()
    assert model.predict(sparse.csr_matrix(X)).shape == y.shape


def test_a_classifier_without_probabilities(problem):
    X, y, noisy = problem
    model = FilterClassifier(RidgeClassifier(), random_state=0).fit(X, np.array(["a", "b", "c"])[noisy])
    assert not hasattr(model, "predict_proba")
    assert model.score(X, np.array(["a", "b", "c"])[y]) > 0.9


@pytest.mark.parametrize("estimator", [None, ExtraTreesClassifier(5, random_state=0)])
def test_saves_its_classifier_as_arrays(problem, tmp_path, estimator):
    X, _, noisy = problem
    model = FilterClassifier(estimator, [GaussianNB()], classes=[0, 1, 2, 3], random_state=0).fit(X, noisy)
    back = unflip.load(model.save(tmp_path / "m"))
    np.testing.assert_allclose(back.predict_proba(X), model.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.predict_proba(X).shape == (len(X), 4)
    again = unflip.load(back.save(tmp_path / "again"))
    np.testing.assert_array_equal(again.predict_proba(X), back.predict_proba(X))


def test_what_cannot_be_saved_says_why(problem, tmp_path):
    X, _, noisy = problem
    model = FilterClassifier(KNeighborsClassifier(), random_state=0).fit(X, noisy)
    with pytest.raises(ValueError, match="a KNeighborsClassifier cannot be saved without code"):
        model.save(tmp_path / "m")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vote": "all"}, "vote must be 'majority' or 'consensus'; got 'all'"),
        ({"cv": 1}, "cv must be at least 2 folds; got 1"),
        ({"cv": RepeatedStratifiedKFold(n_splits=3, n_repeats=2)}, "cv must hold each row out exactly once"),
        ({"cv": [(np.arange(100), np.arange(100, 150))]}, "cv must hold each row out exactly once"),
        ({"models": []}, "models is empty"),
        ({"models": [StratifiedKFold()]}, "must be scikit-learn classifiers; got StratifiedKFold"),
        ({"estimator": LogisticRegression}, "must be scikit-learn classifiers; got <class"),
    ],
)
def test_bad_settings(problem, settings, message):
    X, _, noisy = problem
    with pytest.raises(ValueError, match=message):
        FilterClassifier(**settings).fit(X, noisy)
