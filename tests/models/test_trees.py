"""Trees as arrays: the same predictions as scikit-learn's, saved and loaded, and hostile arrays refused."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import unflip
from unflip.models import trees
from unflip.models.trees import TreeEnsemble

ESTIMATORS = {
    "boosting": HistGradientBoostingClassifier(max_iter=8, random_state=0),
    "few leaves": HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=3, random_state=0),
    "early stopping": HistGradientBoostingClassifier(max_iter=30, early_stopping=True, random_state=0),
    "extra-trees": ExtraTreesClassifier(12, min_samples_leaf=2, random_state=0),
    "random forest": RandomForestClassifier(12, random_state=0),
    "best first": RandomForestClassifier(8, max_leaf_nodes=7, random_state=0),
    "class weights": RandomForestClassifier(8, class_weight="balanced", random_state=0),
    "tree": DecisionTreeClassifier(random_state=0),
}


def data(n_classes, missing=0.0, n=300):
    X, y = make_classification(n, 8, n_informative=6, n_classes=n_classes, random_state=n_classes)
    X[np.random.default_rng(0).uniform(size=X.shape) < missing] = np.nan
    return X, y


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_probabilities_are_those_of_scikit_learn(estimator, n_classes, missing, monkeypatch):
    X, y = data(n_classes, missing)
    names = np.array(["ash", "beech", "cedar", "date"])[y]
    estimator.fit(X[:200], names[:200])
    ours = TreeEnsemble.from_estimator(estimator)
    for Z in (X, np.full((1, 8), np.nan), 1e30 * X[:20], X.astype(np.float32)):  # what training did not see, too
        np.testing.assert_allclose(ours.predict_proba(Z), estimator.predict_proba(Z), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(ours.predict(X), estimator.predict(X))
    assert (ours.n_features_in_, ours.classes_.tolist()) == (8, estimator.classes_.tolist())
    whole = ours.predict_proba(X)
    monkeypatch.setattr(trees, "PATHS", 100)
    np.testing.assert_array_equal(ours.predict_proba(X), whole)  # in small blocks of rows


def test_values_on_a_threshold_go_left():
    X = np.repeat([[0.0], [1.0], [2.0], [3.0]], 30, axis=0)
    y = (X[:, 0] > 1).astype(int)
    for estimator in (HistGradientBoostingClassifier(max_iter=3), RandomForestClassifier(5, random_state=0)):
        ours = TreeEnsemble.from_estimator(estimator.fit(X, y))
        cuts = np.unique(ours.threshold_)[:, np.newaxis]
        Z = np.vstack([cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)])
        np.testing.assert_allclose(ours.predict_proba(Z), estimator.predict_proba(Z), rtol=0, atol=1e-12)


def test_boosted_trees_take_infinity_and_forests_refuse_it():
    X, y = data(3)
    Z = X[:10].copy()
    Z[::2, 3], Z[1::2, 4] = np.inf, -np.inf
    boosted, forest = ESTIMATORS["boosting"].fit(X, y), ESTIMATORS["random forest"].fit(X, y)
    ours = TreeEnsemble.from_estimator(boosted)
    np.testing.assert_allclose(ours.predict_proba(Z), boosted.predict_proba(Z), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="infinity"):
        TreeEnsemble.from_estimator(forest).predict_proba(Z[::2])


def test_a_tree_may_be_a_single_leaf():
    X, y = data(3)
    for estimator in (
        HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=200),
        RandomForestClassifier(3, min_samples_leaf=200, random_state=0),
    ):
        ours = TreeEnsemble.from_estimator(estimator.fit(X, y))
        assert len(ours.feature_) == 0
        np.testing.assert_allclose(ours.predict_proba(X), estimator.predict_proba(X), rtol=0, atol=1e-12)
        ours._check_fitted_state()


def test_sparse_rows_and_data_frames():
    X, y = data(3)
    X[X < 0.5] = 0
    forest = ESTIMATORS["extra-trees"].fit(csr_matrix(X), y)
    ours = TreeEnsemble.from_estimator(forest)
    np.testing.assert_allclose(ours.predict_proba(csr_matrix(X)), forest.predict_proba(X), rtol=0, atol=1e-12)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)])
    ours = TreeEnsemble.from_estimator(forest.fit(frame, y))
    np.testing.assert_allclose(ours.predict_proba(frame), forest.predict_proba(frame), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        ours.predict_proba(frame.rename(columns={"x0": "other"}))
    with pytest.raises(ValueError, match="8 features"):
        TreeEnsemble.from_estimator(forest.fit(X, y)).predict_proba(X[:, :2])


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_saved_and_loaded(estimator, tmp_path):
    X, y = data(3, missing=0.1)
    ours = TreeEnsemble.from_estimator(estimator.fit(X, y))
    ours.save(tmp_path / "model")
    back = unflip.load(tmp_path / "model")
    assert (type(back), back.link) == (TreeEnsemble, ours.link)
    np.testing.assert_array_equal(back.predict_proba(X), ours.predict_proba(X))


def test_what_cannot_become_arrays_is_refused():
    X, y = data(3)
    frame = pd.DataFrame({"x": X[:, 0], "town": pd.Categorical(np.array(["Ulm", "Bonn", "Rome"])[y])})
    with pytest.raises(ValueError, match="sets of categories.*Preprocessor"):
        TreeEnsemble.from_estimator(HistGradientBoostingClassifier(max_iter=2).fit(frame, y))
    with pytest.raises(ValueError, match="2 labels at once"):
        TreeEnsemble.from_estimator(RandomForestClassifier(2).fit(X, np.column_stack([y, y])))
    with pytest.raises(ValueError, match="GradientBoostingClassifier is not a HistGradient"):
        TreeEnsemble.from_estimator(GradientBoostingClassifier(n_estimators=2).fit(X, y))
    with pytest.raises(ValueError, match="not fitted"):
        TreeEnsemble.from_estimator(RandomForestClassifier())


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


HOSTILE = {
    "a circle": lambda m: {"children_": changed(m.children_, (3, 0), 1)},
    "a node that is its own child": lambda m: {"children_": changed(m.children_, (0, 0), 0)},
    "a node that is not there": lambda m: {"children_": changed(m.children_, (0, 1), len(m.feature_))},
    "a leaf that is not there": lambda m: {"children_": changed(m.children_, (0, 1), ~len(m.value_))},
    "a root that is not there": lambda m: {"roots_": changed(m.roots_, (0, 0), len(m.feature_))},
    "no trees": lambda m: {"roots_": m.roots_[:0]},
    "a column of trees too many": lambda m: {"roots_": np.hstack([m.roots_, m.roots_])},
    "a feature that is not there": lambda m: {"feature_": changed(m.feature_, 0, m.n_features_in_)},
    "a negative feature": lambda m: {"feature_": changed(m.feature_, 0, -1)},
    "a feature that is not whole": lambda m: {"feature_": m.feature_.astype(float)},
    "a threshold of NaN": lambda m: {"threshold_": changed(m.threshold_, 0, np.nan)},
    "too few thresholds": lambda m: {"threshold_": m.threshold_[1:]},
    "a leaf of NaN": lambda m: {"value_": changed(m.value_, (0, 0), np.nan)},
    "an infinite leaf": lambda m: {"value_": changed(m.value_, (0, 0), np.inf)},
    "a leaf of the wrong width": lambda m: {"value_": np.hstack([m.value_, m.value_])},
    "a flat leaf": lambda m: {"value_": m.value_.ravel()},
    "a base of the wrong length": lambda m: {"base_": np.zeros(7)},
    "a base of NaN": lambda m: {"base_": np.full_like(m.base_, np.nan)},
    "an array that is a list": lambda m: {"base_": m.base_.tolist()},
    "a class too many": lambda m: {"classes_": np.arange(5)},
    "another link": lambda m: {"link": "mean" if m.link == "softmax" else "softmax"},
}


@pytest.mark.parametrize("edit", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("name", ["boosting", "random forest"])
def test_hostile_arrays_are_refused(edit, name):
    X, y = data(3)
    ours = TreeEnsemble.from_estimator(ESTIMATORS[name].fit(X, y))
    vars(ours).update(edit(ours))
    with pytest.raises(ValueError, match=r"\w"):
        ours._check_fitted_state()


def test_shares_that_are_not_probabilities_are_refused(tmp_path):
    X, y = data(3)
    ours = TreeEnsemble.from_estimator(ESTIMATORS["random forest"].fit(X, y))
    ours.value_ = 2 * ours.value_
    with pytest.raises(ValueError, match="load would refuse it: the shares"):
        ours.save(tmp_path / "model")
