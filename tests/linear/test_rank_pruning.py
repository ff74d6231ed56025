"""RankPruningClassifier: the published algorithm as loops, limits, rates, tiny classes, weights, and any classifier."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import unflip
from unflip.core.one_vs_rest import binary_rates
from unflip.linear import RankPruningClassifier
from unflip.linear.rank_pruning import confident_rates, to_prune
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import AnchorPoints

T3 = symmetric(3, 0.3)


def blobs(n, c=3, spread=0.5, seed=0):
    """Classes on a circle, one against the rest separable by a line."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    angle = 2 * np.pi * y / c
    return 4 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(0, spread, (n, 2)), y


@pytest.fixture
def problem():
    X, y = blobs(300, spread=1.0)
    return X, y, corrupt(y, T3, random_state=0)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y, corrupt(y, symmetric(10, 0.3), random_state=0)


def published_rates(p, s, folds):
    """Confident counts in each fold, then the mean over folds; as in the paper's section 2.2."""
    found = []
    for rows in folds:
        lower = np.mean([p[i] for i in rows if s[i]])
        upper = np.mean([p[i] for i in rows if not s[i]])
        positive_1 = positive_0 = negative_1 = negative_0 = 0
        for i in rows:
            if p[i] >= lower:
                positive_1, positive_0 = positive_1 + s[i], positive_0 + (not s[i])
            if p[i] <= upper:
                negative_1, negative_0 = negative_1 + s[i], negative_0 + (not s[i])
        found.append([positive_0 / (positive_0 + positive_1), negative_1 / (negative_0 + negative_1)])
    return np.mean(found, axis=0)


def published_pruning(p, s, rho1, rho0):
    """The rows that stay, after removing the int(pi1 |P|) lowest of P and the int(pi0 |N|) highest of N."""
    P, N = [i for i in range(len(s)) if s[i]], [i for i in range(len(s)) if not s[i]]
    share = len(P) / len(s)
    prior = (share - rho0) / (1 - rho1 - rho0)
    pi1 = min(max(rho0 * (1 - prior) / share, 0), 0.9999)
    pi0 = min(max(rho1 * prior / (1 - share), 0), 0.9999)
    out = sorted(P, key=lambda i: p[i])[: max(min(int(pi1 * len(P)), len(P) - 10), 0)]
    out += sorted(N, key=lambda i: -p[i])[: max(min(int(pi0 * len(N)), len(N) - 10), 0)]
    return [i for i in range(len(s)) if i not in set(out)]


class TestMathematics:
    @pytest.mark.parametrize("seed", range(5))
    def test_rates_and_pruning_are_the_published_ones(self, seed):
        rng = np.random.default_rng(seed)
        p = rng.uniform(size=200)
        s = rng.uniform(size=200) < 0.1 + 0.7 * p**2
        folds = np.array_split(rng.permutation(200), 3)
        rates = confident_rates(p, s, np.ones(200), folds)
        np.testing.assert_allclose(rates, published_rates(p, s, folds), rtol=1e-12)
        for rho in (rates, (0.1234, 0.3456), (0.4567, 0.0), (0.0, 0.8765)):
            pruned = to_prune(p, s, np.ones(200), *rho)
            np.testing.assert_array_equal(np.flatnonzero(~pruned), published_pruning(p, s, *rho))

    def test_the_whole_path_on_digits(self, digits):
        X, y, noisy = digits
        base = LogisticRegression(C=0.1, max_iter=1000)
        splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, noisy))
        model = RankPruningClassifier(classifier=base, cv=splits).fit(X, noisy)
        scores = np.empty((len(y), 10))
        for k in range(10):
            s, p = noisy == k, np.empty(len(y))
            for train, test in splits:
                p[test] = LogisticRegression(C=0.1, max_iter=1000).fit(X[train], s[train]).predict_proba(X[test])[:, 1]
            rho1, rho0 = published_rates(p, s, [test for _, test in splits])
            np.testing.assert_allclose(model.noise_rates_[k], [rho1, rho0], atol=1e-12)
            kept = published_pruning(p, s, rho1, rho0)
            weights = [1 / (1 - rho1) if s[i] else 1 / (1 - rho0) for i in kept]
            refit = LogisticRegression(C=0.1, max_iter=1000).fit(X[kept], s[kept], weights)
            scores[:, k] = refit.predict_proba(X)[:, 1]
        np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-9)
        np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))
        np.testing.assert_allclose(model.predict_proba(X), scores / scores.sum(axis=1, keepdims=True), atol=1e-9)

    def test_confident_counts_by_hand(self):
        """LB = 0.7: a quarter of those above has s = 0. UB = 0.3: a quarter of those below has s = 1."""
        p = np.array([0.9, 0.9, 0.9, 0.1, 0.9, 0.05, 0.05, 0.2])
        s = np.array([1, 1, 1, 1, 0, 0, 0, 0], dtype=bool)
        rho1, rho0 = confident_rates(p, s, np.ones(8), [np.arange(8)])
        assert (rho1, rho0) == pytest.approx((1 / 4, 1 / 4))
        weights = np.array([1, 1, 1, 1, 3, 1, 1, 1.0])  # UB = 0.5, LB = 0.7
        assert confident_rates(p, s, weights, [np.arange(8)]) == pytest.approx((3 / 6, 1 / 4))

    def test_rates_that_leave_no_information_are_scaled(self):
        p, s = np.array([0.1, 0.2, 0.8, 0.9]), np.array([1, 1, 0, 0], dtype=bool)
        rho1, rho0 = confident_rates(p, s, np.ones(4), [np.arange(4)])
        assert rho1 + rho0 == pytest.approx(0.9999)
        assert rho1 > 0.4
        assert rho0 > 0.4

    @pytest.mark.parametrize(
        "base", [None, GaussianNB(), KNeighborsClassifier()], ids=["default", "bayes", "neighbours"]
    )
    @pytest.mark.parametrize("c", [2, 3])
    def test_identity_gives_the_classifier_one_against_the_rest(self, base, c):
        """Nothing is pruned or weighted, so the classifier need not take weights."""
        X, y = blobs(200, c, spread=2.5)
        noisy = corrupt(y, symmetric(c, 0.2), random_state=0)
        model = RankPruningClassifier(np.eye(c), classifier=base).fit(X, noisy)
        logistic = LogisticRegression(solver="newton-cholesky", tol=1e-8)
        expected = OneVsRestClassifier(base or make_pipeline(StandardScaler(with_mean=False), logistic)).fit(X, noisy)
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba, expected.predict_proba(X), atol=1e-9)
        first, second = np.sort(proba, axis=1)[:, -2:].T
        clear = second - first > 1e-6  # neighbours vote alike for several classes
        assert clear.mean() > 0.8
        np.testing.assert_array_equal(model.predict(X)[clear], expected.predict(X)[clear])
        np.testing.assert_array_equal(model.noise_rates_, 0)

    @pytest.mark.parametrize("T", [[[0.9, 0.1], [0.3, 0.7]], symmetric(3, 0.4)], ids=["one-sided", "symmetric"])
    def test_estimated_rates_approach_the_true_ones(self, T):
        errors, c = [], len(T)
        for n in (300, 3_000, 30_000):
            X, y = blobs(n, c)
            model = RankPruningClassifier(random_state=0).fit(X, corrupt(y, T, random_state=1))
            true = np.column_stack(binary_rates(np.array(T), np.full(c, 1 / c)))
            errors.append(np.abs(model.noise_rates_ - true).max())
        assert errors[2] < errors[0]
        assert errors[2] < 0.02
        np.testing.assert_allclose(model.class_prior_, 1 / c, atol=0.02)

    def test_given_rates_agree_with_estimated_ones(self):
        X, y = blobs(3_000)
        noisy = corrupt(y, T3, random_state=0)
        given = RankPruningClassifier(T3, random_state=0).fit(X, noisy)
        found = RankPruningClassifier(random_state=0).fit(X, noisy)
        np.testing.assert_allclose(given.noise_rates_, found.noise_rates_, atol=0.04)
        np.testing.assert_allclose(given.class_prior_, found.class_prior_, atol=0.04)
        np.testing.assert_array_equal(given.transition_, T3)
        np.testing.assert_allclose(given.noise_rates_, np.column_stack(binary_rates(T3, given.class_prior_)))
        assert given.score(X, y) > 0.99
        assert found.score(X, y) > 0.99

    def test_lost_and_gained_are_not_confused(self):
        """Class 1 loses four of ten labels, which class 0 gains."""
        X, y = blobs(4_000, 2)
        T = [[1, 0], [0.4, 0.6]]
        model = RankPruningClassifier(random_state=0).fit(X, corrupt(y, T, random_state=0))
        np.testing.assert_allclose(model.noise_rates_, [[0, 0.4], [0.4, 0]], atol=0.04)

    def test_pruned_numbers(self):
        """100 of s = 1 and 300 of s = 0, so P(s=1) = 0.25."""
        s = np.arange(400) < 100
        p = np.random.default_rng(0).permutation(400) / 400
        prior = (0.25 - 0.05) / (1 - 0.2 - 0.05)
        pruned = to_prune(p, s, np.ones(400), 0.2, 0.05)
        assert pruned[s].sum() == int(0.05 * (1 - prior) * 400)
        assert pruned[~s].sum() == int(0.2 * prior * 400)
        assert p[s & pruned].max() < p[s & ~pruned].min()
        assert p[~s & pruned].min() > p[~s & ~pruned].max()

    def test_ten_of_each_side_stay(self):
        p = np.linspace(0.1, 0.9, 30)
        s = np.arange(30) < 22
        assert to_prune(p, s, np.ones(30), 0.0, 0.95).sum() == 12
        assert not to_prune(p, s, np.ones(30), 0.95, 0.0).any()  # eight there are, and eight stay

    def test_samples_that_rank_alike_stay_together(self):
        s = np.arange(60) < 30
        p = np.where(s, 0.2, 0.8)
        p[:3] = 0.1
        p *= 1 + 1e-14 * np.arange(60)  # as a matrix product may round equal rows
        np.testing.assert_array_equal(np.flatnonzero(to_prune(p, s, np.ones(60), 0.0, 0.2)), [0, 1, 2])

    def test_anti_identity_flips_any_classifier(self, problem):
        X, y, _ = problem
        X, y = X[y < 2], y[y < 2]
        base = RandomForestClassifier(20, random_state=0)
        straight = RankPruningClassifier(np.eye(2), classifier=base).fit(X, y)
        flipped = RankPruningClassifier([[0, 1], [1, 0]], classifier=base).fit(X, y)
        np.testing.assert_array_equal(flipped.predict(X), 1 - straight.predict(X))
        np.testing.assert_allclose(flipped.noise_rates_, 1)

    def test_labels_that_mostly_lie_are_complemented(self):
        X, y = blobs(2_000, 2)
        T = [[0.2, 0.8], [0.7, 0.3]]
        model = RankPruningClassifier(T, random_state=0).fit(X, corrupt(y, T, random_state=0))
        assert model.score(X, y) > 0.99
        np.testing.assert_allclose(model.noise_rates_, [[0.8, 0.7], [0.7, 0.8]], atol=1e-12)

    @pytest.mark.parametrize("base", [None, RandomForestClassifier(10)], ids=["default", "forest"])
    @pytest.mark.parametrize("order", [[1, 0], [2, 0, 1]], ids=str)
    def test_permuting_classes_permutes_everything(self, base, order):
        """The folds depend on the samples alone, not on the names or the order of the classes."""
        order, c = np.array(order), len(order)
        X, y = blobs(200, c, spread=2.0)
        noisy = corrupt(y, pairflip(c, 0.2), random_state=0)
        a = RankPruningClassifier(classifier=base, random_state=0).fit(X, noisy)
        b = RankPruningClassifier(classifier=base, random_state=0).fit(X, order[noisy])
        np.testing.assert_allclose(b.predict_proba(X)[:, order], a.predict_proba(X))
        np.testing.assert_allclose(b.noise_rates_[order], a.noise_rates_)
        np.testing.assert_allclose(b.class_prior_[order], a.class_prior_)


class TestWeights:
    @pytest.mark.parametrize("transition", [None, T3], ids=["estimated", "given"])
    def test_weights_are_repetition(self, problem, transition):
        X, _, noisy = problem
        w = np.arange(300) % 3
        a = RankPruningClassifier(transition, random_state=0).fit(X, noisy, w)
        b = RankPruningClassifier(transition, random_state=0).fit(X.repeat(w, 0), noisy.repeat(w))
        np.testing.assert_allclose(a.noise_rates_, b.noise_rates_, atol=1e-12)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-6)
        plain = RankPruningClassifier(transition, random_state=0).fit(X, noisy)
        assert np.abs(plain.predict_proba(X) - a.predict_proba(X)).max() > 1e-3

    def test_order_of_the_samples_does_not_matter(self, problem):
        X, _, noisy = problem
        order = np.random.default_rng(0).permutation(300)
        a = RankPruningClassifier(random_state=0).fit(X, noisy)
        b = RankPruningClassifier(random_state=0).fit(X[order], noisy[order])
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-6)

    def test_pruning_takes_weight_not_rows(self):
        p, s = np.linspace(0.1, 0.9, 60), np.arange(60) < 30
        w = np.ones(60)
        w[0] = 5
        # 35 of 65 are s = 1, and rho0 (1 - prior) 65 of them are wrong: about 6.9, so the first (5) and one more.
        wrong = 0.2 * (1 - (35 / 65 - 0.2) / 0.8) * 65
        assert 6 <= wrong < 8
        np.testing.assert_array_equal(np.flatnonzero(to_prune(p, s, w, 0.0, 0.2)), np.arange(int(wrong) - 4))

    def test_weights_that_sum_to_one_prune_alike(self):
        p, s = np.linspace(0.1, 0.9, 60), np.arange(60) % 2 == 0
        ones = np.ones(60)
        assert to_prune(p, s, ones, 0.1, 0.2).any()
        np.testing.assert_array_equal(to_prune(p, s, ones / 60, 0.1, 0.2), to_prune(p, s, ones, 0.1, 0.2))

    def test_weights_reach_the_steps_of_a_pipeline(self, problem):
        X, _, noisy = problem
        w = np.arange(300) % 3
        pipe = make_pipeline(MinMaxScaler(), StandardScaler(), LogisticRegression(tol=1e-10, max_iter=1000))
        a = RankPruningClassifier(T3, classifier=pipe, random_state=0).fit(X, noisy, w)
        b = RankPruningClassifier(T3, classifier=pipe, random_state=0).fit(X.repeat(w, 0), noisy.repeat(w))
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-5)

    def test_weights_of_zero_leave_given_folds_in_step(self, problem):
        X, _, noisy = problem
        w = (np.arange(300) % 4 > 0).astype(float)
        splits = list(KFold(3).split(X))
        rows = np.flatnonzero(w)
        place = np.full(300, -1)
        place[rows] = np.arange(len(rows))
        fewer = [tuple(place[part][place[part] >= 0] for part in split) for split in splits]
        a = RankPruningClassifier(cv=splits).fit(X, noisy, w)
        b = RankPruningClassifier(cv=fewer).fit(X[rows], noisy[rows])
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-6)


class TestInputs:
    @pytest.mark.parametrize("transition", [None, T3], ids=["estimated", "given"])
    def test_sparse_equals_dense(self, problem, transition):
        X, _, noisy = problem
        X[np.abs(X) < 0.5] = 0
        dense = RankPruningClassifier(transition, random_state=0).fit(X, noisy)
        model = RankPruningClassifier(transition, random_state=0).fit(sparse.csr_array(X), noisy)
        np.testing.assert_allclose(model.predict_proba(sparse.csr_array(X)), dense.predict_proba(X), atol=1e-6)

    def test_float32(self, problem):
        X, _, noisy = problem
        X = X.astype(np.float32)
        a = RankPruningClassifier(T3, random_state=0).fit(X, noisy)
        b = RankPruningClassifier(T3, random_state=0).fit(X.astype(np.float64), noisy)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-3)

    def test_many_features(self):
        X = np.random.default_rng(0).normal(size=(60, 600))
        y = (X[:, 0] > 0).astype(int)
        assert RankPruningClassifier(random_state=0).fit(X, y).predict_proba(X).shape == (60, 2)

    @pytest.mark.parametrize("transition", [None, T3], ids=["estimated", "given"])
    def test_a_class_without_labels_scores_nothing(self, problem, transition):
        X, _, noisy = problem
        rows = noisy != 1
        model = RankPruningClassifier(transition, classes=[0, 1, 2], random_state=0).fit(X[rows], noisy[rows])
        np.testing.assert_array_equal(model.decision_function(X)[:, 1], 0)
        np.testing.assert_array_equal(np.unique(model.predict(X)), [0, 2])
        assert model.class_prior_.sum() == pytest.approx(1)

    def test_labels_of_one_class(self, problem):
        X, _, _ = problem
        model = RankPruningClassifier(classes=["a", "b", "c"]).fit(X, np.full(300, "b"))
        np.testing.assert_array_equal(model.predict_proba(X), np.tile([0, 1, 0], (300, 1)))
        np.testing.assert_array_equal(model.class_prior_, [0, 1, 0])

    @pytest.mark.parametrize("members", [1, 2, 4])
    @pytest.mark.parametrize("transition", [None, T3], ids=["estimated", "given"])
    def test_tiny_classes(self, problem, members, transition):
        X, y, noisy = problem
        rows = np.concatenate([np.flatnonzero(noisy != 2), np.flatnonzero((noisy == 2) & (y == 2))[:members]])
        model = RankPruningClassifier(transition, cv=5, random_state=0).fit(X[rows], noisy[rows])
        assert np.isfinite(model.predict_proba(X)).all()
        assert (model.noise_rates_.sum(axis=1) < 1).all()
        two = model.predict(X[y < 2])
        assert np.mean(two == y[y < 2]) > 0.9

    def test_equal_samples_are_no_features(self):
        """All probabilities are equal, so all reach both means: the rates are the noisy shares, scaled to 0.9999."""
        y = np.arange(60) % 3
        model = RankPruningClassifier(random_state=0).fit(np.ones((60, 2)), y)
        np.testing.assert_allclose(model.noise_rates_, np.tile([0.9999 * 2 / 3, 0.9999 / 3], (3, 1)))
        np.testing.assert_allclose(model.predict_proba(np.ones((1, 2))), 1 / 3, atol=1e-6)

    def test_folds_by_groups(self, problem):
        X, _, noisy = problem
        splits = list(GroupKFold(3).split(X, noisy, np.arange(300) // 10))
        a = RankPruningClassifier(cv=splits).fit(X, noisy)
        b = RankPruningClassifier(cv=splits).fit(X, noisy)
        np.testing.assert_array_equal(a.noise_rates_, b.noise_rates_)  # no other randomness
        assert not np.array_equal(a.noise_rates_, RankPruningClassifier(cv=KFold(3)).fit(X, noisy).noise_rates_)

    def test_folds_that_lack_a_side(self):
        """Sorted labels and KFold: no classifier sees the class that it predicts, and no fold has two sides."""
        X, y = blobs(90)
        order = np.argsort(y, kind="stable")
        model = RankPruningClassifier(cv=KFold(3)).fit(X[order], y[order])
        assert np.isfinite(model.predict_proba(X)).all()
        np.testing.assert_allclose(model.noise_rates_.sum(axis=1), 0.9999)

    def test_transition_from_an_estimator(self, problem):
        X, _, noisy = problem
        model = RankPruningClassifier(AnchorPoints(), random_state=0).fit(X, noisy)
        np.testing.assert_array_equal(model.transition_, AnchorPoints().fit(X, noisy).transition_)
        assert isinstance(model.transition_estimator_, AnchorPoints)
        assert not hasattr(model.set_params(transition=None).fit(X, noisy), "transition_")

    def test_the_seed_reaches_the_classifier(self, problem):
        X, _, noisy = problem
        pipe = make_pipeline(StandardScaler(), RandomForestClassifier(5))
        for seed in (3, np.random.RandomState(3)):
            models = []
            for _ in range(2):
                state = np.random.RandomState(3) if isinstance(seed, np.random.RandomState) else seed
                models.append(RankPruningClassifier(classifier=pipe, random_state=state).fit(X, noisy))
            np.testing.assert_array_equal(models[0].predict_proba(X), models[1].predict_proba(X))

    def test_the_given_classifier_stays_unfitted(self, problem):
        X, _, noisy = problem
        base = GaussianNB()
        RankPruningClassifier(classifier=base).fit(X, noisy)
        assert not hasattr(base, "classes_")


class TestSaved:
    @pytest.mark.parametrize("transition", [None, T3], ids=["estimated", "given"])
    def test_there_and_back(self, problem, tmp_path, transition):
        X, _, noisy = problem
        rows = noisy != 1  # one classifier is a constant
        model = RankPruningClassifier(transition, classes=[0, 1, 2], random_state=0).fit(X[rows], noisy[rows])
        again = unflip.models.load(model.save(tmp_path / "model"))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(again.noise_rates_, model.noise_rates_)

    def test_another_classifier_needs_code(self, problem, tmp_path):
        X, _, noisy = problem
        model = RankPruningClassifier(classifier=GaussianNB()).fit(X, noisy)
        with pytest.raises(ValueError, match="only the default classifier"):
            model.save(tmp_path / "model")


BAD = {
    "cv": ({"cv": 1}, {}, "at least 2 folds; got 1"),
    "no partition": ({"cv": ShuffleSplit(2, random_state=0)}, {}, "hold out each sample once"),
    "no folds": ({"cv": []}, {}, "hold out each sample once"),
    "no probabilities": ({"classifier": RidgeClassifier()}, {}, "predict_proba, which RidgeClassifier does not"),
    "no weights": ({"classifier": KNeighborsClassifier()}, {}, "KNeighborsClassifier.fit does not take sample_weight"),
    "no weights at the end": (
        {"classifier": make_pipeline(StandardScaler(), KNeighborsClassifier())},
        {},
        "KNeighborsClassifier.fit does not take",
    ),
    "no weights for T = I": (
        {"classifier": KNeighborsClassifier(), "transition": np.eye(3)},
        {"sample_weight": np.ones(300)},
        "does not take sample_weight",
    ),
    "all weights zero": ({}, {"sample_weight": np.zeros(300)}, "zero"),
    "singular": ({"transition": np.full((3, 3), 1 / 3)}, {}, "singular"),
    "wrong size": ({"transition": np.eye(4)}, {}, "4 x 4 but there are 3 classes"),
    "lengths": ({}, {"y": np.arange(5)}, "300 samples but y has 5 labels"),
}


@pytest.mark.parametrize(("parameters", "data", "match"), BAD.values(), ids=BAD)
def test_bad_input(problem, parameters, data, match):
    X, _, noisy = problem
    with pytest.raises(ValueError, match=match):
        RankPruningClassifier(**parameters).fit(**{"X": X, "y": noisy, **data})


def test_a_class_that_keeps_no_information_is_refused(problem):
    """Class 1 keeps half of its labels and gains half of those of the rest, 0.4 from one and 0.6 from the other."""
    X, _, _ = problem
    T = [[0.6, 0.4, 0], [0.2, 0.5, 0.3], [0, 0.6, 0.4]]
    with pytest.raises(ValueError, match="class 1 against the rest keeps no information"):
        RankPruningClassifier(T).fit(X, np.repeat([0, 1, 2], [80, 150, 70]))


def test_better_than_its_classifier_where_the_noise_is_one_sided(digits):
    """Odd digits lose 40 % of their labels: a classifier that believes the labels calls too many of them even."""
    X, y, _ = digits
    odd = y % 2
    T = [[0.98, 0.02], [0.4, 0.6]]
    train = np.arange(len(y)) % 3 > 0
    noisy = corrupt(odd, T, random_state=0)[train]
    plain = RankPruningClassifier(np.eye(2)).fit(X[train], noisy).score(X[~train], odd[~train])
    for transition in (None, T):
        model = RankPruningClassifier(transition, random_state=0).fit(X[train], noisy)
        assert model.score(X[~train], odd[~train]) > plain + 0.08
