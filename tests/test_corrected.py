"""CorrectedClassifier: every kind of model through T, the choice, and scikit-learn's contract."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, make_blobs
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import BayesianRidge, LogisticRegression, LogisticRegressionCV, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from tests import light_models, sklearn_checks
from unflip import CorrectedClassifier
from unflip.core import corrected_labels
from unflip.corrected import fit_soft, noise_notes
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import VolMin

T4 = pairflip(4, 0.4)
# The old defaults of LogisticRegressionCV warn where there are new ones.
NEW_DEFAULTS = {"use_legacy_attributes": False, "l1_ratios": (0,)}
NOT_LEGACY = NEW_DEFAULTS if "use_legacy_attributes" in LogisticRegressionCV().get_params() else {}
FOREST = ExtraTreesClassifier(50, min_samples_leaf=3, random_state=0)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """T is judged, and estimated, by one model, unless a test is about those of the default."""
    for module in ("corrected", "transition.stacked"):
        monkeypatch.setattr(f"unflip.{module}.default_models", lambda X, c: [("logistic", LogisticRegression())])


@pytest.fixture(scope="module")
def blobs():
    """Four classes at the corners of a square, 40 % of the labels moved to the next class."""
    X, y = make_blobs(900, centers=[[0, 0], [0, 4], [4, 0], [4, 4]], random_state=0)
    return X[:600], corrupt(y[:600], T4, random_state=0), X[600:], y[600:]


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(min_samples_leaf=10, random_state=0),
        HistGradientBoostingClassifier(max_iter=10),
        make_pipeline(StandardScaler(), LogisticRegression()),
        KNeighborsClassifier(15),
        RidgeClassifier(),
        Ridge(),
        BayesianRidge(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_any_model_learns_the_clean_classes(blobs, model):
    X, noisy, X_test, y_test = blobs
    corrected = CorrectedClassifier(model, transition=T4, cv=3, random_state=0).fit(X, noisy)
    assert corrected.score(X_test, y_test) > 0.9
    assert hasattr(corrected, "predict_proba") == (not isinstance(model, RidgeClassifier))
    if hasattr(corrected, "predict_proba"):
        np.testing.assert_allclose(corrected.predict_proba(X_test).sum(axis=1), 1)
    np.testing.assert_allclose(corrected.transition_, T4, atol=1e-12)


def test_t_is_estimated_if_it_is_not_given(blobs):
    X, noisy, X_test, y_test = blobs
    corrected = CorrectedClassifier(KNeighborsClassifier(15), cv=3, random_state=0).fit(X, noisy)
    assert corrected.score(X_test, y_test) > 0.9
    assert np.abs(corrected.transition_ - T4).max() < 0.15


class TestLimits:
    def test_the_identity_is_the_uncorrected_model(self, blobs):
        X, noisy, X_test, _ = blobs
        corrected = CorrectedClassifier(FOREST, transition=np.eye(4)).fit(X, noisy)
        np.testing.assert_allclose(corrected.predict_proba(X_test), clone(FOREST).fit(X, noisy).predict_proba(X_test))

    def test_a_regressor_learns_the_rows_of_the_inverse(self, blobs):
        X, noisy, X_test, _ = blobs
        corrected = CorrectedClassifier(Ridge(), transition=T4).fit(X, noisy)
        twin = Ridge().fit(X, corrected_labels(T4)[noisy])
        np.testing.assert_allclose(corrected.estimator_.predict(X_test), twin.predict(X_test))

    def test_soft_labels_are_weights(self, blobs):
        X, _, X_test, _ = blobs
        R = np.random.default_rng(0).dirichlet([1, 1, 1, 1], size=len(X))
        kept = (R > 0.02) & (np.argsort(np.argsort(-R, axis=1), axis=1) < 3)
        rows, labels = np.nonzero(kept)
        twin = LogisticRegression(tol=1e-8).fit(X[rows], labels, sample_weight=R[rows, labels])
        fitted = fit_soft(LogisticRegression(tol=1e-8), X, np.zeros(len(X), dtype=int), R, None)
        np.testing.assert_allclose(fitted.predict_proba(X_test), twin.predict_proba(X_test), atol=1e-5)

    def test_clean_labels_give_the_uncorrected_model(self):
        X, y = load_digits(n_class=4, return_X_y=True)
        model = CorrectedClassifier(FOREST, cv=3, random_state=0).fit(X[:400], y[:400])
        np.testing.assert_array_equal(model.transition_, np.eye(4))
        np.testing.assert_array_equal(model.predict(X[400:]), clone(FOREST).fit(X[:400], y[:400]).predict(X[400:]))


class TestAutomatic:
    @pytest.fixture(autouse=True)
    @staticmethod
    def all_models(quick, monkeypatch):
        light_models.use(monkeypatch)

    def test_beats_every_uncorrected_model(self):
        X, y = load_digits(n_class=6, return_X_y=True)
        noisy = corrupt(y[:600], pairflip(6, 0.35), random_state=0)
        model = CorrectedClassifier(cv=3, random_state=0).fit(X[:600], noisy)
        scores = {c.name: c.accuracy.estimate for c in model.candidates_ if not c.corrected}
        trees = {"extra-trees", "boosted trees", "shallow boosted trees"}
        assert {"logistic", "joint logistic", "kernel", "blend"} | trees == set(scores)
        (chosen,) = (c for c in model.candidates_ if c.chosen)
        assert chosen.corrected
        assert chosen.accuracy.estimate > max(scores.values())
        test = model.score(X[600:], y[600:])
        assert test > clone(FOREST).fit(X[:600], noisy).score(X[600:], y[600:]) + 0.05
        assert chosen.accuracy.low - 0.03 < test < chosen.accuracy.high + 0.03

    def test_says_when_noise_and_overlap_look_alike(self):
        X, y = make_blobs(150, centers=[[0, 0], [1, 0], [0, 1]], random_state=3)
        model = CorrectedClassifier(LogisticRegression(), cv=2, random_state=0).fit(X, y)
        model.witness_.overlap_, model.witness_.suspected_ = True, symmetric(3, 0.3)
        (note,) = (note for note in noise_notes(model.witness_, y, None) if "overlap" in note)
        assert "or 30% of the labels are wrong" in note
        model.witness_.overlap_ = False
        assert not any("overlap" in note for note in noise_notes(model.witness_, y, None))

    def test_symmetric_noise_gives_clean_probabilities(self):
        X, y = make_blobs(500, centers=[[0, 0], [0, 5], [5, 0]], random_state=0)
        noisy = corrupt(y, symmetric(3, 0.3), random_state=0)
        model = CorrectedClassifier(cv=3, random_state=0).fit(X, noisy)
        assert model.predict_proba(X).max(axis=1).mean() > 0.85  # P(noisy label) is at most 0.7
        assert model.oof_proba_.max(axis=1).mean() > 0.85

    def test_says_when_there_are_too_few_rows(self):
        model = CorrectedClassifier(random_state=0).fit(np.eye(6), list("ababab"))
        assert "too few rows" in model.notes_[0]
        assert model.candidates_ == []
        assert set(model.predict(np.eye(6))) <= {"a", "b"}

    def test_a_given_T_is_used_with_few_rows(self):
        X, y = np.repeat([[0.0], [1.0]], [6, 6], axis=0), np.repeat(["a", "b"], 6)
        flipped = [[0.1, 0.9], [0.9, 0.1]]
        model = CorrectedClassifier(transition=flipped, random_state=0).fit(X, y)
        assert list(model.predict([[0.0], [1.0]])) == ["b", "a"]
        assert "too few rows" in model.notes_[0]

    def test_sparse(self, blobs):
        X, noisy, X_test, y_test = blobs
        model = CorrectedClassifier(cv=3, random_state=0).fit(sparse.csr_array(X), noisy)
        assert model.score(sparse.csr_array(X_test), y_test) > 0.9

    def test_words(self):
        """Naive Bayes is far less sure of words than it should be, whatever labels it learns; the blend is not."""
        random = np.random.default_rng(0)
        y = random.integers(3, size=2400)
        rank = np.arange(1200)
        own = (rank % 12 == 8 + np.arange(3)[:, np.newaxis]) & (rank >= 20)  # rare words are typical of a class
        words = (1 + 5 * own) / (1 + rank)
        counts = np.stack([random.multinomial(15, p / p.sum()) for p in words[y]])
        X = TfidfTransformer().fit_transform(sparse.csr_array(counts.astype(float)))
        noisy = corrupt(y[:1000], symmetric(3, 0.3), random_state=0)
        model = CorrectedClassifier(cv=3, random_state=0).fit(X[:1000], noisy)
        p = model.predict_proba(X[1000:])
        right = p.argmax(axis=1) == y[1000:]
        assert right.mean() > 0.8
        assert abs(p.max(axis=1).mean() - right.mean()) < 0.12  # 0.24 with the weights of the models of noisy labels

    def test_same_seed_same_result(self, blobs):
        X, noisy, X_test, _ = blobs
        X, noisy = X[:150], noisy[:150]
        a, b = (CorrectedClassifier(cv=3, random_state=1).fit(X, noisy).predict_proba(X_test) for _ in range(2))
        np.testing.assert_array_equal(a, b)


class TestContract:
    def test_labels_of_any_kind(self, blobs):
        X, noisy, X_test, y_test = blobs
        names = np.array(["ant", "bee", "cat", "dog"])
        model = CorrectedClassifier(FOREST, transition=T4, cv=3, random_state=0).fit(X, names[noisy])
        assert model.score(X_test, names[y_test]) > 0.9
        assert list(model.classes_) == list(names)

    def test_a_class_that_noise_emptied(self, blobs):
        X, noisy, _, _ = blobs
        model = CorrectedClassifier(FOREST, transition=symmetric(5, 0.2), classes=range(5), cv=3).fit(X, noisy)
        p = model.predict_proba(X)
        assert p.shape == (600, 5)
        np.testing.assert_allclose(p.sum(axis=1), 1)

    def test_data_frame_with_categories(self, blobs):
        X, noisy, X_test, y_test = blobs
        frame, test = (pd.DataFrame(np.where(A > 2, "high", "low"), columns=["a", "b"]) for A in (X, X_test))
        model = make_pipeline(OneHotEncoder(), LogisticRegression())
        corrected = CorrectedClassifier(model, cv=3, random_state=0).fit(frame, noisy)
        assert corrected.score(test, y_test) > 0.9
        assert list(corrected.feature_names_in_) == ["a", "b"]

    def test_columns_are_chosen_by_name(self, blobs):
        X, noisy, X_test, y_test = blobs
        frame, test = (pd.DataFrame(A, columns=["a", "b"]) for A in (X, X_test))
        model = make_pipeline(ColumnTransformer([("scaled", StandardScaler(), ["a", "b"])]), LogisticRegression())
        assert CorrectedClassifier(model, cv=3, random_state=0).fit(frame, noisy).score(test, y_test) > 0.9

    def test_texts(self):
        words = np.array(["red apple", "green pear", "blue plum"])
        y = np.arange(120) % 3
        model = make_pipeline(CountVectorizer(), LogisticRegression())
        texts = [f"{word} {i % 7}" for i, word in enumerate(words[y])]
        noisy = corrupt(y, pairflip(3, 0.3), random_state=0)
        corrected = CorrectedClassifier(model, transition=pairflip(3, 0.3), cv=3, random_state=0).fit(texts, noisy)
        assert corrected.score(texts, y) == 1

    @pytest.mark.parametrize(
        "model",
        [
            LogisticRegressionCV(Cs=2, cv=2, scoring="accuracy", **NOT_LEGACY),
            make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression())),
            CalibratedClassifierCV(KNeighborsClassifier(15), cv=2),
        ],
        ids=["search", "nested", "calibrated"],
    )
    def test_weights_find_their_way(self, blobs, model):
        X, noisy, X_test, y_test = blobs
        assert CorrectedClassifier(model, transition=T4, cv=2, random_state=0).fit(X, noisy).score(X_test, y_test) > 0.9

    def test_metadata_routing(self, blobs):
        X, noisy, X_test, y_test = blobs
        with config_context(enable_metadata_routing=True):
            inner = make_pipeline(StandardScaler(), LogisticRegression())
            model = CorrectedClassifier(inner, transition=T4, cv=3, random_state=0).set_fit_request(sample_weight=True)
            scaler = StandardScaler().set_fit_request(sample_weight=False)
            pipeline = make_pipeline(scaler, model).fit(X, noisy, sample_weight=np.ones(600))
            assert pipeline.score(X_test, y_test) > 0.9

    def test_an_estimator_of_T_keeps_its_errors(self, blobs):
        X, noisy, _, _ = blobs
        model = CorrectedClassifier(FOREST, transition=VolMin(), cv=3, random_state=0).fit(X, noisy)
        assert model.transition_std_.max() > 0

    def test_regressors_take_weights(self, blobs):
        X, noisy, X_test, y_test = blobs
        regressor = make_pipeline(StandardScaler(), BayesianRidge())
        model = CorrectedClassifier(regressor, transition=T4, cv=3, random_state=0)
        assert model.fit(X, noisy, sample_weight=np.ones(600)).score(X_test, y_test) > 0.9

    def test_grid_search_and_pipeline(self, blobs):
        X, noisy, X_test, y_test = blobs
        tree = DecisionTreeClassifier(min_samples_leaf=10, random_state=0)
        grid = {"correctedclassifier__estimator__max_depth": [1, 4]}
        pipeline = make_pipeline(StandardScaler(), CorrectedClassifier(tree, transition=T4, cv=2, random_state=0))
        assert GridSearchCV(pipeline, grid, cv=2).fit(X, noisy).score(X_test, y_test) > 0.9

    def test_groups_stay_together(self, blobs):
        X, noisy, _, _ = blobs
        groups = np.arange(600) // 4
        for cv in (GroupKFold(3), 3):
            model = CorrectedClassifier(FOREST, transition=T4, cv=cv, random_state=0)
            model.fit(X, noisy, groups=groups)
            assert all(not set(groups[train]) & set(groups[test]) for train, test in model.witness_.folds_)

    @pytest.mark.parametrize("model", [None, FOREST, KNeighborsClassifier(15)], ids=["auto", "weighted", "inverted"])
    def test_the_order_of_the_rows_does_not_matter(self, blobs, model, monkeypatch):
        if model is None:
            light_models.use(monkeypatch)
        X, noisy, X_test, _ = blobs
        X = np.vstack([X[:150], X[:50]])  # some rows twice, with other labels
        rows = np.random.default_rng(0).permutation(200)
        weights, groups = 1 + np.arange(200) % 2, np.arange(200) // 4
        given = {"sample_weight": weights, "groups": groups}
        permuted = {name: value[rows] for name, value in given.items()}
        fresh = CorrectedClassifier(model, transition=None if model is None else T4, cv=2, random_state=0)
        first = clone(fresh).fit(X, noisy[:200], **given)
        second = clone(fresh).fit(1024 * X[rows], noisy[rows], **permuted)  # a unit that rounds nothing
        np.testing.assert_allclose(first.transition_, second.transition_, atol=1e-9)
        np.testing.assert_allclose(first.oof_proba_[rows], second.oof_proba_, atol=1e-9)
        np.testing.assert_allclose(first.predict_proba(X_test), second.predict_proba(1024 * X_test), atol=1e-9)
        R = first.witness_.soft_labels(noisy[:200]), second.witness_.soft_labels(noisy[rows])
        np.testing.assert_allclose(R[0][rows], R[1], atol=1e-9)

    def test_rows_of_weight_zero_do_not_count(self, blobs):
        X, noisy, X_test, y_test = blobs
        wrong = np.concatenate([noisy, np.zeros(600, dtype=int)])
        weights = np.repeat([1.0, 0.0], 600)
        model = CorrectedClassifier(FOREST, transition=T4, cv=3, random_state=0)
        assert model.fit(np.vstack([X, X]), wrong, sample_weight=weights).score(X_test, y_test) > 0.9

    @pytest.mark.slow
    def test_seeds_matter_little(self):
        X, y = load_digits(return_X_y=True)
        noisy = corrupt(y[:1000], pairflip(10, 0.35), random_state=0)
        scores = [
            CorrectedClassifier(FOREST, cv=StratifiedKFold(3, shuffle=True, random_state=k), random_state=0)
            .fit(X[:1000], noisy)
            .score(X[1000:], y[1000:])
            for k in range(3)
        ]
        assert np.std(scores) < 0.01

    @pytest.mark.parametrize(
        ("model", "message"), [(StandardScaler(), "classifier or regressor"), (FOREST.__class__, "classifier or reg")]
    )
    def test_other_objects_are_refused(self, blobs, model, message):
        with pytest.raises(ValueError, match=message):
            CorrectedClassifier(model).fit(*blobs[:2])


@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_boosting_libraries(blobs, package):
    library = pytest.importorskip(package)
    X, noisy, X_test, y_test = blobs
    if package == "lightgbm":
        model = library.LGBMClassifier(n_estimators=20, min_child_samples=10, verbose=-1, n_jobs=1)
    else:
        model = library.XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1)
    labels = np.array(["a", "b", "c", "d"])
    corrected = CorrectedClassifier(model, transition=T4, cv=3, random_state=0).fit(X, labels[noisy])
    assert corrected.score(X_test, labels[y_test]) > 0.9


NOT_REPETITION = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "repeated rows fall into different folds",
)


@sklearn_checks.parametrize(
    [CorrectedClassifier(LogisticRegression(), transition=VolMin(rounds=0), cv=3)],
    expected_failed_checks=lambda _: NOT_REPETITION,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@sklearn_checks.parametrize(
    [CorrectedClassifier(cv=3), CorrectedClassifier(DecisionTreeClassifier(random_state=0), cv=3)],
    expected_failed_checks=lambda model: NOT_REPETITION if model.estimator is None else {},
)
def test_scikit_learn_with_all_models(estimator, check, monkeypatch):
    light_models.use(monkeypatch)
    check(estimator)
