"""Fitted models of scikit-learn as arrays: the same probabilities, saved and loaded, or a reason why not."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import unflip
from tests.models.conftest import T
from unflip.corrected import CorrectedClassifier
from unflip.linear import MCLDCEClassifier
from unflip.models import as_arrays
from unflip.models.arrays import Blend, LinearScores, Projected, Radial, Scaled
from unflip.models.trees import TreeEnsemble

MODELS = {
    "trees": (lambda: HistGradientBoostingClassifier(max_iter=5), TreeEnsemble),
    "logistic": (lambda: LogisticRegression(max_iter=1000), LinearScores),
    "no intercept": (lambda: LogisticRegression(max_iter=1000, fit_intercept=False), LinearScores),
    "scaled": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), Scaled),
    "scaled trees": (lambda: make_pipeline(StandardScaler(), ExtraTreesClassifier(5, random_state=0)), Scaled),
    "scaled twice": (
        lambda: make_pipeline(StandardScaler(with_mean=False), StandardScaler(with_std=False), LogisticRegression()),
        Scaled,
    ),
    "complement naive Bayes": (lambda: ComplementNB(), LinearScores),
    "naive Bayes": (lambda: MultinomialNB(), LinearScores),
    "a single step": (lambda: make_pipeline(LogisticRegression(max_iter=1000)), LinearScores),
    "projected": (
        lambda: make_pipeline(TruncatedSVD(2, random_state=0), ExtraTreesClassifier(5, random_state=0)),
        Projected,
    ),
    "kernel": (lambda: make_pipeline(Nystroem(n_components=20, random_state=0), LogisticRegression()), Radial),
    "scaled kernel": (
        lambda: make_pipeline(
            StandardScaler(), Nystroem(gamma=0.3, n_components=20, random_state=0), LogisticRegression()
        ),
        Scaled,
    ),
    "ours": (lambda: make_pipeline(StandardScaler(), MCLDCEClassifier(T)), Scaled),
}


@pytest.mark.parametrize(("make", "cls"), MODELS.values(), ids=MODELS)
def test_probabilities_are_kept_also_through_a_file(make, cls, iris, tmp_path):
    X, y = iris
    model = make().fit(X, np.array(["ash", "beech", "cedar"])[y])
    arrays = as_arrays(model)
    assert type(arrays) is cls
    np.testing.assert_allclose(arrays.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(arrays.predict(X), model.predict(X))
    arrays.save(tmp_path / "model")
    back = unflip.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict_proba(X), arrays.predict_proba(X))
    np.testing.assert_array_equal(as_arrays(back).predict_proba(X), arrays.predict_proba(X))  # it stays as it is


def test_two_classes(iris):
    X, y = iris
    model = LogisticRegression().fit(X[y < 2], y[y < 2])
    arrays = as_arrays(model)
    assert arrays.coef_.shape == (2, X.shape[1])
    np.testing.assert_allclose(arrays.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-12)


def test_a_classifier_of_the_package_is_returned_as_it_is(iris):
    model = MCLDCEClassifier(T).fit(*iris)
    assert as_arrays(model) is model
    with pytest.raises(ValueError, match="not fitted"):
        as_arrays(MCLDCEClassifier(T))


def test_sparse_rows_are_scaled_but_not_centered(iris):
    X, y = iris
    scaler = StandardScaler(with_mean=False)
    model = make_pipeline(scaler, LogisticRegression(max_iter=1000)).fit(csr_matrix(X), y)
    arrays, sparse = as_arrays(model), csr_matrix(X)
    np.testing.assert_allclose(arrays.predict_proba(sparse), model.predict_proba(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(sparse.toarray(), X)  # not changed in place
    centered = as_arrays(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y))
    with pytest.raises(ValueError, match="give a dense X"):
        centered.predict_proba(sparse)


def test_a_blend_is_the_weighted_mean(iris, tmp_path):
    X, y = iris
    members = [make().fit(X, y) for make, _ in MODELS.values()]
    weights = np.arange(1, len(members) + 1)
    blend = Blend(members, weights)  # of fitted models of any kind
    mean = np.average([member.predict_proba(X) for member in members], axis=0, weights=weights)
    np.testing.assert_allclose(blend.predict_proba(X), mean, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(blend.predict(X), mean.argmax(axis=1))
    as_arrays(blend).save(tmp_path / "model")
    back = unflip.load(tmp_path / "model")
    np.testing.assert_allclose(back.predict_proba(X), mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(back.weights_, weights / weights.sum())
    single = Blend([members[0]])
    np.testing.assert_array_equal(single.predict_proba(X), members[0].predict_proba(X))
    with pytest.raises(ValueError, match="HistGradientBoostingClassifier is not a classifier that can be saved"):
        single.save(tmp_path / "other")


def test_a_blend_is_calibrated(iris, tmp_path):
    X, y = iris
    members = [LogisticRegression(C=C, max_iter=1000).fit(X, y) for C in (0.1, 10)]
    temperatures, theta = np.array([2.0, 0.5]), np.array([1.5, 0.3, -0.2, 0.0])
    blend = as_arrays(Blend(members, temperatures=temperatures, calibration=theta))
    powers = [member.predict_proba(X) ** t for member, t in zip(members, temperatures, strict=True)]
    mean = np.mean([p / p.sum(axis=1, keepdims=True) for p in powers], axis=0)
    expected = mean**1.5 * np.exp(theta[1:])
    blend.save(tmp_path / "model")
    found = unflip.load(tmp_path / "model").predict_proba(X)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)
    with pytest.raises(ValueError, match="temperatures and calibration"):
        Blend(members, temperatures=[1.0])


def test_a_member_may_lack_a_class(iris, tmp_path):
    X, y = iris
    whole = LogisticRegression(max_iter=1000).fit(X, y)
    part = ExtraTreesClassifier(5, random_state=0).fit(X[y != 1], y[y != 1])
    blend = as_arrays(Blend([part, whole], [1, 3], classes=[0, 1, 2]))
    expected = 0.75 * whole.predict_proba(X)
    expected[:, [0, 2]] += 0.25 * part.predict_proba(X)
    np.testing.assert_allclose(blend.predict_proba(X), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(unflip.load(blend.save(tmp_path / "m")).predict_proba(X), blend.predict_proba(X))


def test_classes_by_other_names(iris, tmp_path):
    X, y = iris
    for make, _ in MODELS.values():
        model = make().fit(X[y != 1], np.minimum(y[y != 1], 1)) if make is not MODELS["ours"][0] else make().fit(X, y)
        model.codes_ = "left by somebody"
        names = np.array(["ash", "beech", "cedar"][: len(model.classes_)])
        arrays = as_arrays(model, names)
        assert arrays.predict(X[:1])[0] in names
        arrays.save(tmp_path / "model")
        assert model.classes_.tolist() == list(range(len(names)))  # the model itself is left alone
    with pytest.raises(ValueError, match="3 names were given for 2 classes"):
        as_arrays(LogisticRegression().fit(X[y < 2], y[y < 2]), np.arange(3))


def test_members_that_do_not_fit_together(iris):
    X, y = iris
    model = LogisticRegression(max_iter=1000).fit(X, y)
    for weights in ([-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0], [1.0]):
        with pytest.raises(ValueError, match="weights"):
            Blend([model, model], weights)
    for other in (LogisticRegression(max_iter=1000).fit(X, y + 1), LogisticRegression(max_iter=1000).fit(X[:, :2], y)):
        with pytest.raises(ValueError, match="other classes or features"):
            Blend([model, other])
    with pytest.raises(ValueError, match="0 members"):
        Blend([])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: KNeighborsClassifier(), "KNeighborsClassifier cannot be saved.*HistGradientBoosting.*skops"),
        (lambda: make_pipeline(MinMaxScaler(), LogisticRegression()), "MinMaxScaler cannot be saved.*StandardScaler"),
        (lambda: make_pipeline(StandardScaler(), KNeighborsClassifier()), "KNeighborsClassifier cannot be saved"),
    ],
)
def test_what_cannot_be_saved_says_why_and_what_to_do(make, match, iris):
    with pytest.raises(ValueError, match=match):
        as_arrays(make().fit(*iris))


HOSTILE = {
    "a scale of zero": {"scale_": np.array([1.0, 0, 1, 1])},
    "a mean of NaN": {"mean_": np.full(4, np.nan)},
    "a scale that is too short": {"scale_": np.ones(3)},
    "other classes": {"classes_": np.array([5, 6, 7])},
    "no classifier": {"classifier_": "os.system"},
    "an empty classifier": {"classifier_": TreeEnsemble()},
}


@pytest.mark.parametrize("edit", HOSTILE.values(), ids=HOSTILE)
def test_hostile_scalers_are_refused(edit, iris):
    arrays = as_arrays(make_pipeline(StandardScaler(), LogisticRegression()).fit(*iris))
    vars(arrays).update(edit)
    with pytest.raises(ValueError, match=r"\w"):
        arrays._check_fitted_state()


@pytest.mark.parametrize(
    "edit",
    [
        {"weights_": np.array([0.5, 0.6])},
        {"weights_": np.array([-0.5, 1.5])},
        {"weights_": np.array([np.nan, 1.0])},
        {"weights_": [0.5, 0.5]},
        {"members_": []},
        {"members_": [1, 2]},
        {"members_": {}},
        {"classes_": np.array([3, 4, 5])},
    ],
)
def test_hostile_blends_are_refused(edit, iris):
    model = LinearScores.from_estimator(LogisticRegression(max_iter=1000).fit(*iris))
    blend = Blend([model, model])
    vars(blend).update(edit)
    with pytest.raises(ValueError, match=r"\w"):
        blend._check_fitted_state()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExtraTreesClassifier(10, random_state=0),
        lambda: HistGradientBoostingClassifier(max_iter=5, random_state=0),
        lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=["extra-trees", "boosted trees", "pipeline"],
)
def test_corrected_classifier_is_saved(make, iris, tmp_path):
    X, y = iris
    model = CorrectedClassifier(make(), transition=T, cv=3, random_state=0).fit(X, np.array(["ash", "elm", "fir"])[y])
    back = unflip.load(model.save(tmp_path / "m"))
    np.testing.assert_allclose(back.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    for name in ("transition_", "class_prior_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    assert (back.notes_, back.overlap_) == (model.notes_, model.overlap_)
    assert np.array_equal(unflip.load(back.save(tmp_path / "again")).predict_proba(X), back.predict_proba(X))


def test_a_model_that_cannot_be_saved_can_still_be_corrected(iris, tmp_path):
    model = CorrectedClassifier(KNeighborsClassifier(), transition=T, cv=3, random_state=0).fit(*iris)
    with pytest.raises(ValueError, match="CorrectedClassifier with KNeighborsClassifier cannot be saved.*skops"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_data_frames_are_taken_by_name_after_loading(iris, tmp_path):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    forest = make_pipeline(StandardScaler(), ExtraTreesClassifier(5, random_state=0))
    model = CorrectedClassifier(forest, transition=T, cv=3, random_state=0).fit(frame, y)
    back = unflip.load(model.save(tmp_path / "m"))
    np.testing.assert_allclose(back.predict_proba(frame), model.predict_proba(frame), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        back.predict_proba(frame[list("dcba")])


def test_missing_values_are_still_taken_after_loading(iris, tmp_path):
    X, y = iris
    X = np.where(np.random.default_rng(0).uniform(size=X.shape) < 0.1, np.nan, X)
    trees = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    model = CorrectedClassifier(trees, transition=T, cv=3, random_state=0).fit(X, y)
    back = unflip.load(model.save(tmp_path / "m"))
    np.testing.assert_allclose(back.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-12)
