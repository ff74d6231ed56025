"""Which labels are wrong: Bayes' rule against loops, recovery on digits, every kind of classifier and of data."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_blobs
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import unflip.audit
from tests import quick_corrected
from unflip.audit import LabelAuditor
from unflip.audit.find import _Fold, _label_errors, _with_share, speaks_of_noisy_labels
from unflip.core import inverted_posterior
from unflip.linear import MCLDCEClassifier, MuSGDClassifier, RankPruningClassifier
from unflip.metrics import clean_accuracy, transition_error
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import DualT, VolMin, estimate_transition
from unflip.transition._row_order import row_order


def find_label_errors(X, y, classifier=None, transition=None, cv=5, **options):
    """By the linear judge, unless a test names another; the default is tested in TestDefault."""
    classifier = VolMin() if classifier is None else classifier
    return unflip.audit.find_label_errors(X, y, classifier, transition, cv, **options)


T3 = np.array([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.3, 0.1, 0.6]])


class ReadsFromX(ClassifierMixin, BaseEstimator):
    """Its probabilities are the columns of X; with ``clean`` it has a T and calls them clean."""

    def __init__(self, clean=True, estimate=T3):
        self.clean = clean
        self.estimate = estimate

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        if self.clean:
            self.transition_ = self.estimate
        return self

    def predict_proba(self, X):
        return X


class ReadsAll(ReadsFromX):
    """It knows three classes, whatever it sees."""

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = np.arange(3)
        return self


@pytest.fixture(scope="module")
def probabilities():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(3), size=60), np.arange(60) % 3


@pytest.fixture(scope="module")
def blobs():
    """Three easy classes, 30 per cent pair noise: X, noisy labels, and which are wrong."""
    X, y = make_blobs(450, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    noisy = corrupt(y, pairflip(3, 0.3), random_state=0)
    return X, noisy, noisy != y


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=6, return_X_y=True)
    noisy = corrupt(y, pairflip(6, 0.4), random_state=0)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, noisy))
    return X / 16, noisy, y, folds, find_label_errors(X / 16, noisy, cv=folds)


def test_scores_are_bayes_rule(probabilities):
    X, y = probabilities
    found = find_label_errors(X, y, ReadsFromX(), T3)
    for i in range(len(y)):
        joint = [X[i, k] * T3[k, y[i]] for k in range(3)]
        for k in range(3):
            assert found.posterior[i, k] == pytest.approx(joint[k] / sum(joint))
        assert found.scores[i] == pytest.approx(1 - joint[y[i]] / sum(joint))
        assert found.suggested[i] == int(np.argmax(joint))
    for j in range(3):
        assert found.n_errors[j] == pytest.approx(sum(found.scores[i] for i in range(len(y)) if y[i] == j))
    assert found.total == pytest.approx(found.scores.sum())
    assert found.rate == pytest.approx(found.scores.mean())
    np.testing.assert_allclose(found.transition, T3)


def drawn(T, n=600, seed=0):
    """Sharp probabilities, and labels that were flipped by T."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(len(T), 0.05), size=n)
    return p, np.array([rng.choice(len(T), p=row) for row in p @ T])


def test_noise_rates_are_counted_in_the_data():
    """The symmetric T that replaced the estimate has one rate for all classes, but one class here has all the noise."""
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=300)
    y = np.where((clean == 2) & (rng.random(300) < 0.2), rng.integers(2, size=300), clean)
    X = np.full((300, 3), 0.01)
    X[np.arange(300), clean] = 0.98
    found = find_label_errors(X, y, ReadsFromX(estimate=symmetric(3, 0.07)), random_state=0)
    np.testing.assert_allclose(np.diag(found.transition), found.transition[0, 0])
    P = found.posterior
    for k in range(3):
        wrong = sum(P[i, k] for i in range(300) if y[i] != k)
        assert found.noise_rates[k] == pytest.approx(wrong / sum(P[i, k] for i in range(300)))
    assert found.noise_rates.argmax() == 2
    assert found.noise_rates[2] == pytest.approx(np.mean(y[clean == 2] != 2), abs=0.06)
    assert found.noise_rates[:2].max() < 0.02


def test_the_interval_of_the_accuracy_covers_both_kinds_of_noise(digits):
    _, noisy, y, _, found = digits
    predicted, score = found.proba.argmax(axis=1), found.accuracy()
    alone = clean_accuracy(noisy, predicted, found.transition, transition_std=found.transition_std)
    right = found.posterior[np.arange(len(y)), predicted].mean()
    assert score.estimate == alone.estimate
    assert score.low <= min(alone.low, right)
    assert score.high >= max(alone.high, right)
    assert score.low <= np.mean(predicted == y) <= score.high
    assert found.accuracy(y).estimate > score.estimate  # of other predictions


def test_noise_that_overlap_explains_as_well_widens_the_interval():
    random = np.random.default_rng(0)
    p = random.dirichlet(np.full(2, 0.7), 600)
    codes = (random.random(600) < 0.9 * p[:, 1] + 0.1 * p[:, 0]).astype(int)
    plain = 0.9 * p + 0.1 * p[:, ::-1]  # the same labels, explained by overlap
    fold = _Fold(np.arange(600), plain, False, np.eye(2), np.eye(2), np.full(2, 0.5), True, None)
    sure, unsure = (
        _label_errors(codes, np.arange(2), codes, [fold._replace(doubt=doubt)])
        for doubt in (None, (p, symmetric(2, 0.1)))
    )
    np.testing.assert_array_equal(unsure.scores, sure.scores)
    assert sure.suspected is None
    assert unsure.suspected > unsure.total + 30
    low, high = unsure.interval
    assert low == 0
    assert high == pytest.approx(600 - plain[np.arange(600), codes].sum())
    assert high > max(sure.interval[1], unsure.suspected, 60)
    right, score = unsure.doubt[np.arange(600), plain.argmax(axis=1)].mean(), unsure.accuracy()
    assert score.low <= right <= score.high
    assert score.estimate == sure.accuracy().estimate


def test_noise_that_is_averaged_with_none_may_be_none():
    p, y = drawn(symmetric(3, 0.2))[:2]
    T, prior = symmetric(3, 0.2), np.full(3, 1 / 3)
    fold = _Fold(np.arange(len(y)), p, False, T, T, prior, True, None)
    sure, unsure = (_label_errors(y, np.arange(3), y, [fold._replace(averaged=averaged)]) for averaged in (False, True))
    np.testing.assert_array_equal(unsure.scores, sure.scores)
    assert not sure.undecided
    assert sure.interval[0] > 0
    assert unsure.interval[0] == 0
    assert unsure.interval[1] == pytest.approx(len(y) - (p @ T)[np.arange(len(y)), y].sum())
    assert unsure.suspected is None


def test_the_noise_of_labels_that_show_none_is_told_as_a_range(monkeypatch):
    for module in ("corrected", "transition.stacked"):
        monkeypatch.setattr(f"unflip.{module}.default_models", lambda X, c: [("logistic", LogisticRegression())])
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    gold, given = (np.where(random.random(300) < expit(1.5 * X[:, 0]), "a", "b") for _ in range(2))
    auditor = LabelAuditor(random_state=0).fit(X, given)
    found = auditor.errors_  # both know no more than x
    assert found.transition.diagonal().min() == 1
    assert found.total <= found.suspected
    assert found.total < 0.5 * np.sum(gold != given)
    assert found.interval[0] <= np.sum(gold != given) <= found.interval[1]
    assert unflip.audit.find_label_errors(X, given, transition=np.eye(2), random_state=0).suspected is None
    judged = auditor.find(X[:100], given[:100])
    assert judged.undecided
    assert judged.interval[0] == 0
    assert judged.interval[1] > np.sum(gold[:100] != given[:100])


def test_classes_far_apart_tell_that_there_is_no_noise(monkeypatch):
    for module in ("corrected", "transition.stacked"):
        monkeypatch.setattr(f"unflip.{module}.default_models", lambda X, c: [("logistic", LogisticRegression())])
    X, y = make_blobs(200, centers=[[-9, 0], [9, 0], [0, 9]], random_state=0)
    found = unflip.audit.find_label_errors(X, y, random_state=0)
    assert not found.undecided
    assert found.suspected is None
    assert found.interval[1] < 3


@pytest.mark.parametrize("wrong", [0.05, 0.3])
def test_odds_are_multiplied_by_one_factor(wrong):
    random = np.random.default_rng(0)
    R, codes = random.dirichlet(np.ones(3), 50), random.integers(0, 3, 50)
    moved = _with_share(np.log(R), codes, wrong)
    kept, before = moved[np.arange(50), codes], R[np.arange(50), codes]
    assert 1 - kept.mean() == pytest.approx(wrong)
    factors = kept / (1 - kept) / (before / (1 - before))
    np.testing.assert_allclose(factors, factors[0], rtol=1e-6)
    assert _with_share(np.log(R), codes, -0.1) is None


def test_noise_rates_of_a_class_without_samples_are_zero():
    X = np.array([[1.0, 0, 0]] * 10 + [[0, 1.0, 0]] * 10)
    found = find_label_errors(X, np.arange(20) // 10, ReadsAll(), np.eye(3), classes=[0, 1, 2])
    assert found.noise_rates.tolist() == [0, 0, 0]


class TestOneT:
    """The same T for the same samples, whoever is asked."""

    def test_of_the_audit_is_that_of_every_other_way(self, blobs):
        X, noisy, _ = blobs
        folds = list(StratifiedKFold(3).split(X, noisy))
        T = estimate_transition(X, noisy)
        np.testing.assert_array_equal(find_label_errors(X, noisy, cv=folds).transition, T)
        np.testing.assert_array_equal(MCLDCEClassifier().fit(X, noisy).transition_, T)
        in_pipeline = make_pipeline(FunctionTransformer(), VolMin())
        for classifier in (in_pipeline, MCLDCEClassifier()):
            np.testing.assert_array_equal(find_label_errors(X, noisy, classifier, cv=folds).transition, T)

    def test_of_a_given_estimator_is_learned_once_from_all_samples(self, blobs):
        X, noisy, _ = blobs
        found = find_label_errors(X, noisy, LogisticRegression(), DualT(), cv=2)
        np.testing.assert_array_equal(found.transition, estimate_transition(X, noisy, "dual-t"))
        np.testing.assert_array_equal(found.transition_std, DualT().fit(X, noisy).transition_std_)

    def test_has_standard_errors_unless_it_is_given(self, blobs):
        X, noisy, _ = blobs
        np.testing.assert_array_equal(
            find_label_errors(X, noisy, cv=2).transition_std, VolMin().fit(X, noisy).transition_std_
        )
        assert find_label_errors(X, noisy, transition=pairflip(3, 0.3), cv=2).transition_std is None
        of_the_folds = find_label_errors(X, noisy, LogisticRegression(), cv=2).transition_std
        assert of_the_folds.shape == (3, 3)

    def test_of_even_flips_has_the_standard_error_of_a_rate(self):
        X, y = make_blobs(450, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        found = find_label_errors(X, corrupt(y, symmetric(3, 0.2), random_state=0), cv=2)
        rate = found.transition_std[0, 0]
        assert rate > 0
        np.testing.assert_allclose(found.transition_std, rate * (np.eye(3) + (1 - np.eye(3)) / 2))

    def test_reaches_the_default_classifier(self, blobs):
        X, noisy, _ = blobs
        T, folds = pairflip(3, 0.3), list(StratifiedKFold(3).split(X, noisy))
        found = find_label_errors(X, noisy, transition=T, cv=folds)
        numbers = np.empty(len(noisy), dtype=int)
        for k, (_, test) in enumerate(folds):
            numbers[test] = k
        np.testing.assert_array_equal(found.proba, VolMin(transition=T).fit_held_out(X, noisy, folds=numbers))
        for train, test in folds:  # what a model of the other folds says, except for its temperature
            said = VolMin(transition=T).fit(X[train], noisy[train]).predict(X[test])
            assert np.mean(found.proba[test].argmax(axis=1) == said) > 0.98


@pytest.mark.parametrize(
    "classifier",
    [
        None,
        make_pipeline(FunctionTransformer(), VolMin()),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(make_pipeline(FunctionTransformer(), MCLDCEClassifier()), {"mcldceclassifier__alpha": [1.0]}),
        KNeighborsClassifier(20),  # takes no weights, but T does
    ],
    ids=["default", "VolMin", "logistic", "search", "neighbors"],
)
def test_weights_count_in_T_and_in_the_classifier(blobs, classifier):
    X, noisy, wrong = blobs
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, noisy))
    equal, plain = (find_label_errors(X, noisy, classifier, cv=folds, sample_weight=w) for w in (np.ones(450), None))
    np.testing.assert_allclose(equal.scores, plain.scores, atol=1e-6)
    weights = np.where(wrong, 0.2, 1.0)  # so that there is less noise
    found = find_label_errors(X, noisy, classifier, cv=folds, sample_weight=weights)
    assert np.diag(found.transition).mean() > np.diag(plain.transition).mean() + 0.1
    if classifier is None:
        np.testing.assert_array_equal(found.transition, VolMin().fit(X, noisy, weights).transition_)
    with pytest.raises(ValueError, match="sample_weight"):
        find_label_errors(X, noisy, classifier, cv=folds, sample_weight=weights[1:])


def test_an_estimated_T_gets_one_sample_of_any_label_a_class():
    X, y = drawn(T3)
    halves = [(np.arange(300, 600), np.arange(300)), (np.arange(300), np.arange(300, 600))]
    found = find_label_errors(X, y, ReadsFromX(), cv=halves)
    for train, test in halves:
        pi = np.linalg.solve(T3.T, [np.mean(y[train] == k) for k in range(3)])
        assert pi.min() > 0  # the prior is then the solution itself
        for i in test:
            joint = [X[i, k] * (300 * pi[k] * T3[k, y[i]] + 1 / 3) / (300 * pi[k] + 1) for k in range(3)]
            np.testing.assert_allclose(found.posterior[i], np.array(joint) / sum(joint))
    np.testing.assert_allclose(found.transition, T3)  # shown as it was estimated


def test_without_noise_the_order_is_that_of_the_probabilities():
    rng = np.random.default_rng(0)
    X = rng.dirichlet([8, 2, 1], size=400)
    y = np.array([rng.choice(3, p=p) for p in X])
    found = find_label_errors(X, y, ReadsFromX(estimate=np.eye(3)), random_state=0)
    doubts = 1 - X[np.arange(400), y]
    np.testing.assert_array_equal(found.ranked, np.argsort(-doubts, kind="stable"))


class TestEvenFlips:
    NEARLY = np.array([[0.62, 0.22, 0.16], [0.2, 0.6, 0.2], [0.17, 0.25, 0.58]])

    def found(self, T, n=600, estimated=NEARLY):
        X, y = drawn(T, n)
        return X, y, find_label_errors(X, y, ReadsFromX(estimate=estimated), random_state=0)

    def test_take_the_place_of_a_T_that_the_labels_do_not_tell_from_them(self):
        X, y, found = self.found(symmetric(3, 0.4))
        off = found.transition[~np.eye(3, dtype=bool)]
        np.testing.assert_allclose(off, off[0])
        assert 2 * off[0] == pytest.approx(0.4, abs=0.02)
        by_probability = 1 - X[np.arange(len(y)), y]
        assert np.diff(found.scores[np.argsort(by_probability)]).min() > -1e-12  # the same order
        even = symmetric(3, 2 * off[0])
        joint = X * even[:, y].T
        np.testing.assert_allclose(found.posterior, joint / joint.sum(axis=1, keepdims=True))

    def test_but_not_of_one_that_explains_the_labels_better(self):
        X, y, found = self.found(T3, estimated=T3)
        even = symmetric(3, 0.25)
        gain = sum(np.log(X[i] @ T3[:, y[i]]) - np.log(X[i] @ even[:, y[i]]) for i in range(len(y)))
        assert gain > 3 * 2 - 1  # what Akaike's criterion asks for
        np.testing.assert_allclose(found.transition, T3)

    def test_nor_of_one_that_was_given(self):
        X, y = drawn(symmetric(3, 0.4))
        np.testing.assert_allclose(find_label_errors(X, y, ReadsFromX(), self.NEARLY).transition, self.NEARLY)

    def test_more_labels_tell_more(self):
        few, many = (self.found(self.NEARLY, n)[2].transition for n in (60, 6000))
        np.testing.assert_allclose(np.diag(few), few[0, 0])
        np.testing.assert_allclose(many, self.NEARLY)


def test_order_of_samples(probabilities):
    X, y = probabilities
    X, y = np.vstack([X, X]), np.concatenate([y, y])  # every score twice
    found = find_label_errors(X, y, ReadsFromX())
    assert found.ranked.tolist() == sorted(range(len(y)), key=lambda i: (-found.scores[i], i))
    assert found.suspects.tolist() == [i for i in found.ranked if found.suggested[i] != y[i]]
    assert 0 < len(found.suspects) < len(y)


def test_noisy_probabilities_go_through_T(probabilities):
    """Eight steps of EM towards the p of q = p T, as a loop."""
    q, y = probabilities
    halves = [(np.arange(30, 60), np.arange(30)), (np.arange(30), np.arange(30, 60))]  # ten labels of each class
    found = find_label_errors(q, y, ReadsFromX(clean=False), T3, cv=halves)
    pi = np.linalg.solve(T3.T, np.full(3, 1 / 3))
    for i in range(60):
        seen = [(30 * q[i, j] + 1 / 3) / 31 for j in range(3)]
        p = [0.01 / 3 + 0.99 * pi[k] for k in range(3)]
        for _ in range(8):
            explained = [sum(p[k] * T3[k, j] for k in range(3)) for j in range(3)]
            p = [p[k] * sum(T3[k, j] * seen[j] / explained[j] for j in range(3)) for k in range(3)]
        joint = np.array([p[k] * T3[k, y[i]] for k in range(3)])
        np.testing.assert_allclose(found.posterior[i], joint / joint.sum())


def test_the_explanation_of_a_mixture_is_near_its_weights():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=50)
    gap = [
        np.abs(inverted_posterior(p @ T, T, np.full(3, 1 / 3)) - p).max() for T in (np.eye(3), symmetric(3, 0.1), T3)
    ]
    assert gap[0] < 1e-12
    assert gap[0] < gap[1] < gap[2] < 0.25
    np.testing.assert_allclose(inverted_posterior(p @ T3, T3, np.array([1.0, 0, 0])).sum(axis=1), 1)


def test_nothing_is_wrong_under_the_identity(probabilities):
    X, y = probabilities
    found = find_label_errors(X, y, ReadsFromX(clean=False), np.eye(3))
    np.testing.assert_allclose(found.scores, 0, atol=1e-12)
    assert len(found.suspects) == 0
    np.testing.assert_array_equal(found.suggested, y)


def test_a_label_that_says_nothing_leaves_the_probabilities(probabilities):
    X, y = probabilities
    found = find_label_errors(X, y, ReadsFromX(), symmetric(3, 2 / 3 - 1e-6))
    np.testing.assert_allclose(found.scores, 1 - X[np.arange(len(y)), y], atol=1e-5)


def test_a_tie_leaves_the_given_label():
    X = np.full((30, 3), 1 / 3)
    found = find_label_errors(X, np.arange(30) % 3, ReadsFromX(), symmetric(3, 2 / 3 - 1e-6))
    assert len(found.suspects) == 0


def test_recovers_the_flipped_labels_of_digits(digits):
    X, noisy, y, folds, found = digits
    wrong = noisy != y
    logistic = LogisticRegression(max_iter=1000)
    q = cross_val_predict(logistic, X, noisy, cv=folds, method="predict_proba")
    plain = average_precision_score(wrong, 1 - q[np.arange(len(y)), noisy])
    assert average_precision_score(wrong, found.scores) > max(0.99, plain + 0.3)
    assert np.mean(found.suggested == y) > 0.97
    assert transition_error(found.transition, pairflip(6, 0.4)) < 0.15
    # The same logistic regression, read through T, is far better than by itself.
    through = find_label_errors(X, noisy, logistic, found.transition, cv=folds)
    assert average_precision_score(wrong, through.scores) > plain + 0.3


def test_the_default_finds_the_scale_of_the_features():
    X, y = load_digits(return_X_y=True)
    noisy = corrupt(y, symmetric(10, 0.2), random_state=0)
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, noisy))
    found, common, each = (
        find_label_errors(X, noisy, classifier, cv=folds).scores
        for classifier in (None, VolMin(scaling="common"), VolMin(scaling="each"))
    )
    np.testing.assert_array_equal(found, common)
    assert average_precision_score(noisy != y, found) > average_precision_score(noisy != y, each) + 0.005


def test_counts_the_flipped_labels_of_digits(digits):
    _, noisy, y, _, found = digits
    truth = np.bincount(noisy[noisy != y], minlength=6)
    assert found.total == pytest.approx(truth.sum(), rel=0.05)
    assert found.rate == pytest.approx(np.mean(noisy != y), abs=0.02)
    np.testing.assert_allclose(found.n_errors, truth, atol=15)  # of about 72 each


@pytest.mark.parametrize(
    "classifier",
    [
        None,
        VolMin(),
        DualT(),
        MCLDCEClassifier(),
        MuSGDClassifier(random_state=0),
        RankPruningClassifier(random_state=0),
        LogisticRegression(),
        ExtraTreesClassifier(20, min_samples_leaf=10, random_state=0),
        CalibratedClassifierCV(RidgeClassifier(), cv=3),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), MCLDCEClassifier()),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        GridSearchCV(
            make_pipeline(StandardScaler(), MCLDCEClassifier()), {"mcldceclassifier__alpha": [1.0, 9.0]}, cv=2
        ),
    ],
    ids=lambda c: type(c).__name__,
)
def test_any_classifier(blobs, classifier):
    X, noisy, wrong = blobs
    found = find_label_errors(X, noisy, classifier, cv=3, random_state=0)
    assert average_precision_score(wrong, found.scores) > 0.97
    assert transition_error(found.transition, pairflip(3, 0.3)) < 0.3  # DualT's is the largest


@pytest.mark.parametrize("method", ["forward", "t-revision", "ce", "mixup"])  # clean probabilities, and noisy ones
def test_a_network(blobs, method):
    pytest.importorskip("torch")
    from unflip.deep import NoisyLabelClassifier

    X, noisy, wrong = blobs
    images = (X / 5).astype(np.float32).reshape(-1, 1, 1, 2)
    network = NoisyLabelClassifier(method, epochs=25, lr=0.01, progress=False)
    found = find_label_errors(images, noisy, network, pairflip(3, 0.3), cv=2, random_state=0).scores
    assert average_precision_score(wrong, found) > 0.95
    if method == "forward":
        again = find_label_errors(images, noisy, network, pairflip(3, 0.3), cv=2, random_state=0).scores
        np.testing.assert_array_equal(found, again)


def test_a_given_T_reaches_the_classifier(blobs):
    X, noisy, _ = blobs
    T = pairflip(3, 0.3)
    folds = StratifiedKFold(3)
    inside = find_label_errors(X, noisy, make_pipeline(StandardScaler(), MCLDCEClassifier(T)), cv=folds)
    outside = find_label_errors(X, noisy, make_pipeline(StandardScaler(), MCLDCEClassifier()), T, cv=folds)
    np.testing.assert_array_equal(inside.scores, outside.scores)
    estimated = find_label_errors(X, noisy, MCLDCEClassifier(), VolMin(), cv=folds)
    np.testing.assert_array_equal(estimated.scores, find_label_errors(X, noisy, MCLDCEClassifier(), cv=folds).scores)
    # A T of the classifier's own trains it; the one that is given judges the labels.
    other = find_label_errors(X, noisy, MCLDCEClassifier(symmetric(3, 0.1)), T, cv=folds)
    np.testing.assert_allclose(other.transition, T)


def test_a_given_estimator_of_T_is_left_alone(blobs):
    X, noisy, _ = blobs
    estimator = DualT()
    found = find_label_errors(X, noisy, LogisticRegression(), estimator, cv=2, random_state=0)
    assert transition_error(found.transition, pairflip(3, 0.3)) < 0.3
    assert estimator.random_state is None
    assert not hasattr(estimator, "transition_")


@pytest.mark.parametrize("grouped", [False, True])
def test_the_order_of_the_rows_does_not_matter(blobs, grouped):
    X, noisy = blobs[0], blobs[1]
    rows, groups = np.random.default_rng(0).permutation(len(X)), np.arange(len(X)) // 5
    forest = RandomForestClassifier(10, min_samples_leaf=5, random_state=0)
    found, permuted = (
        find_label_errors(X[r], noisy[r], forest, cv=2, groups=groups[r] if grouped else None, random_state=0)
        for r in (slice(None), rows)
    )
    np.testing.assert_allclose(found.scores[rows], permuted.scores, atol=1e-9)


def test_sparse_is_the_array(blobs):
    X, noisy, _ = blobs
    found, dense = (find_label_errors(form, noisy, cv=2, random_state=0).scores for form in (sparse.csr_array(X), X))
    np.testing.assert_allclose(found, dense, atol=1e-6)


def test_other_forms_are_the_array(blobs):
    pd = pytest.importorskip("pandas")
    X, noisy, _ = blobs
    rest = {"classifier": LogisticRegression(), "transition": pairflip(3, 0.3), "cv": 2, "random_state": 0}
    dense = find_label_errors(X, noisy, **rest).scores
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(len(X))[::-1])
    for form, y in [
        (frame, pd.Series(noisy, index=frame.index)),
        (frame, pd.Series(noisy).map({0: "a", 1: "b", 2: "c"}).astype("category")),
        (X.tolist(), noisy.tolist()),
    ]:
        np.testing.assert_array_equal(find_label_errors(form, y, **rest).scores, dense)
    np.testing.assert_allclose(find_label_errors(sparse.coo_matrix(X), noisy, **rest).scores, dense, atol=1e-6)


def test_T_is_estimated_from_what_reaches_the_last_step(blobs):
    """Categories are no numbers for VolMin, but their one-hot codes are."""
    X, noisy, _ = blobs
    words = np.array([["near", "far"][int(value > 3)] for value in X.ravel()], dtype=object).reshape(X.shape)
    found = find_label_errors(words, noisy, make_pipeline(OneHotEncoder(), LogisticRegression()), cv=3, random_state=0)
    assert transition_error(found.transition, pairflip(3, 0.3)) < 0.3


@pytest.mark.parametrize(
    "names", [["ant", "bee", "cat"], [10, 20, 30], np.array([1, 5, 9], dtype=np.uint8), [-1.0, 0.0, 1.0]], ids=str
)
def test_labels_of_any_kind(blobs, names):
    X, noisy, _ = blobs
    coded = find_label_errors(X, noisy, cv=3, random_state=0)
    y = np.array(names)[noisy]
    found = find_label_errors(X, y, cv=3, random_state=0)
    np.testing.assert_array_equal(found.scores, coded.scores)
    np.testing.assert_array_equal(found.suggested, np.array(names)[coded.suggested])
    np.testing.assert_array_equal(found.classes, names)
    assert found.suggested.dtype == y.dtype
    logistic = find_label_errors(X, y, LogisticRegression(), cv=3, random_state=0)
    assert set(logistic.suggested.tolist()) == set(np.array(names).tolist())


@pytest.mark.parametrize("classifier", [None, LogisticRegression(), MCLDCEClassifier()], ids=str)
def test_a_class_that_noise_emptied(blobs, classifier):
    X, noisy, _ = blobs
    T = symmetric(4, 0.2)
    y = np.array(["a", "b", "c"])[noisy]
    found = find_label_errors(X, y, classifier, T, cv=3, classes=["a", "b", "c", "other"], random_state=0)
    assert found.posterior.shape == (len(y), 4)
    assert found.n_errors[3] == 0
    assert found.suggested.dtype.itemsize >= np.dtype("U5").itemsize  # "other" would not fit into the type of y


@pytest.mark.parametrize("classifier", [None, LogisticRegression()], ids=str)
def test_rare_classes(blobs, classifier):
    """Fewer samples than folds, one of them alone: a misspelt label scores high and is mended."""
    X, noisy, _ = blobs
    y = np.array(["ant", "bee", "cat"])[noisy].astype(object)
    clear = np.flatnonzero((noisy == 0) & (X.sum(axis=1) < 1))
    y[clear[0]] = "amt"
    y[clear[1:4]] = "rare"
    found = find_label_errors(X, y, classifier, cv=4, random_state=0)
    assert found.scores[clear[0]] > 0.8
    assert found.suggested[clear[0]] == "ant"
    assert found.suggested.dtype == object
    assert np.isfinite(found.scores).all()


def test_small_data_take_fewer_folds():
    X, y = make_blobs(6, centers=[[0, 0], [9, 9]], random_state=0)
    assert find_label_errors(X, y, LogisticRegression(), symmetric(2, 0.1), cv=10).scores.max() < 0.5


def test_same_seed_same_result_and_splitters(blobs):
    X, noisy, _ = blobs
    forest = RandomForestClassifier(5, max_depth=2)
    T = pairflip(3, 0.3)
    first, again, other = (find_label_errors(X, noisy, forest, T, cv=2, random_state=s).scores for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    assert forest.random_state is None
    random = np.random.RandomState(3)
    order = row_order(X, noisy)
    X, noisy = X[order], noisy[order]
    folds = StratifiedKFold(4, shuffle=True, random_state=np.random.RandomState(3))
    by_number = find_label_errors(X, noisy, LogisticRegression(), T, cv=4, random_state=random)
    by_splitter = find_label_errors(X, noisy, LogisticRegression(), T, cv=folds)
    np.testing.assert_array_equal(by_number.scores, by_splitter.scores)


def test_repeats_are_averaged(blobs):
    X, noisy, _ = blobs
    T = pairflip(3, 0.3)
    repeated = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    splits = list(repeated.split(X, noisy))
    parts = [find_label_errors(X, noisy, LogisticRegression(), T, cv=splits[i : i + 2]) for i in (0, 2)]
    found = find_label_errors(X, noisy, LogisticRegression(), T, cv=repeated)
    np.testing.assert_allclose(found.posterior, (parts[0].posterior + parts[1].posterior) / 2)
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)


def test_neighbours_that_rule_a_label_out_doubt_it(blobs):
    X, noisy, _ = blobs
    neighbours, folds = KNeighborsClassifier(20), KFold(3)
    q = cross_val_predict(neighbours, X, noisy, cv=folds, method="predict_proba")
    i = np.flatnonzero((noisy == 0) & (q[:, 2] == 0))[0]
    y = noisy.copy()
    y[i] = 2
    found = find_label_errors(X, y, neighbours, symmetric(3, 0.4), cv=folds)
    assert found.scores[i] > 0.9
    assert found.suggested[i] != 2


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"classifier": LinearSVC()}, "predict_proba.*LinearSVC has none. Wrap it in .*CalibratedClassifierCV"),
        ({"classifier": make_pipeline(StandardScaler(), LinearSVC())}, "Pipeline has none"),
        ({"classifier": LogisticRegression}, "must be a scikit-learn classifier.*got"),
        ({"classifier": "volmin"}, "must be a scikit-learn classifier.*'volmin'"),
        ({"transition": np.eye(2)}, "2 x 2 but there are 3 classes"),
        ({"transition": "volmin"}, "matrix of numbers"),
        ({"transition": VolMin}, "matrix of numbers"),
        ({"transition": np.full((3, 3), 1 / 3)}, "singular"),
        ({"transition": LogisticRegression()}, "LogisticRegression does not. AnchorPoints"),
        ({"cv": 1}, "at least 2 folds.*got 1"),
        ({"cv": "five"}, "a number of folds, a splitter.*'five'"),
        ({"cv": None}, "a number of folds"),
        ({"cv": ShuffleSplit(1, test_size=0.5, random_state=0)}, "225 of 450 samples out in no fold.*StratifiedKFold"),
        ({"y": np.zeros(450)}, "one class only"),
        ({"y": np.arange(450)}, "450 labels occurs once"),
        ({"y": np.arange(450) // 5 / 7}, "continuous"),
        ({"y": np.zeros(449)}, "X has 450 samples but y has 449 labels"),
        ({"y": np.where(np.arange(450) < 2, np.nan, 1.0)}, "2 missing labels"),
        ({"classes": [0, 1]}, "labels outside classes: .2."),
        ({"X": np.full((450, 2), np.nan)}, "NaN"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_bad_input(blobs, changed, match):
    X, noisy, _ = blobs
    with pytest.raises(ValueError, match=match):
        find_label_errors(**{"X": X, "y": noisy, **changed})


class TestDefault:
    """Without a classifier, CorrectedClassifier judges: its own T, and its own predictions for held-out rows."""

    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch):
        quick_corrected.register(monkeypatch)

    def test_bayes_rule_with_its_own_posterior_and_transition(self, blobs):
        X, noisy, wrong = blobs
        begun = []
        found = unflip.audit.find_label_errors(X, noisy, cv=3, random_state=0, on_fold=begun.append)
        model = quick_corrected.CorrectedClassifier(cv=3, random_state=0).fit(X, noisy)
        np.testing.assert_array_equal(found.transition, model.transition_)
        np.testing.assert_array_equal(found.proba, model.oof_proba_)
        size = len(noisy) * model.class_prior_[:, np.newaxis]
        T = (size * model.transition_ + 1 / 3) / (size + 1)
        joint = model.oof_proba_ * T[:, noisy].T
        np.testing.assert_allclose(found.posterior, joint / joint.sum(axis=1, keepdims=True))
        assert wrong[found.suspects].mean() > 0.95
        assert found.candidates == model.candidates_
        assert found.notes == model.notes_
        assert begun == [0]

    def test_a_given_transition_and_own_folds(self, blobs):
        X, noisy, _ = blobs
        T = pairflip(3, 0.3)
        model = quick_corrected.CorrectedClassifier(cv=4)
        found = unflip.audit.find_label_errors(X, noisy, model, T, random_state=0)
        np.testing.assert_array_equal(found.transition, T)
        again = model.set_params(transition=T).fit(X, noisy)
        np.testing.assert_array_equal(found.proba, again.oof_proba_)  # in its own four folds

    def test_a_splitter_fits_it_again_in_each_fold(self, blobs):
        X, noisy, wrong = blobs
        found = unflip.audit.find_label_errors(X, noisy, cv=StratifiedKFold(2), random_state=0)
        assert wrong[found.suspects].mean() > 0.95

    @pytest.mark.parametrize(
        ("changed", "match"),
        [
            ({"cv": 1}, "at least 2 folds.*got 1"),
            ({"X": np.zeros((450, 1, 4, 4))}, r"table, but X has shape \(450, 1, 4, 4\).*reshape"),
        ],
    )
    def test_bad_input(self, blobs, changed, match):
        X, noisy, _ = blobs
        with pytest.raises(ValueError, match=match):
            unflip.audit.find_label_errors(**{"X": X, "y": noisy, **changed})


def test_says_how_to_give_T_where_X_is_no_table_of_numbers(blobs):
    X, noisy, _ = blobs
    words = np.where(X > 3, "far", "near").astype(object)

    class ReadsWords(LogisticRegression):
        def fit(self, X, y):
            return super().fit(X == "far", y)

        def predict_proba(self, X):
            return super().predict_proba(X == "far")

    with pytest.raises(ValueError, match="VolMin cannot estimate T from the X that ReadsWords.*Pass T as transition"):
        find_label_errors(words, noisy, ReadsWords(), cv=KFold(2))
    pipeline = make_pipeline(FunctionTransformer(lambda X: (X == "far").astype(float)), LogisticRegression())
    assert find_label_errors(words, noisy, pipeline, cv=KFold(2)).rate > 0
    assert find_label_errors(words, noisy, ReadsWords(), pairflip(3, 0.3), cv=KFold(2)).rate > 0


@pytest.fixture(scope="module")
def given(blobs):
    X, noisy, wrong = blobs
    model = make_pipeline(StandardScaler(), LogisticRegression())
    return cross_val_predict(model, X, noisy, cv=5, method="predict_proba"), noisy, wrong


class TestProbabilities:
    """Out-of-sample probabilities of noisy labels, from whatever model."""

    def test_find_the_flipped_labels_and_count_them(self, given):
        q, noisy, wrong = given
        found = unflip.audit.find_label_errors(y=noisy, pred_probs=q, random_state=0)
        assert average_precision_score(wrong, found.scores) > 0.97
        assert found.total == pytest.approx(wrong.sum(), rel=0.15)
        assert transition_error(found.transition, pairflip(3, 0.3)) < 0.15

    def test_clean_labels_are_left_alone(self):
        rng = np.random.default_rng(0)
        q = rng.dirichlet(np.full(3, 0.3), size=600)  # classes overlap
        y = np.array([rng.choice(3, p=row) for row in q])
        found = unflip.audit.find_label_errors(y=y, pred_probs=q, random_state=0)
        assert len(found.suspects) == 0

    def test_a_given_T_judges(self, given):
        q, noisy, _ = given
        found = unflip.audit.find_label_errors(None, noisy, transition=pairflip(3, 0.3), pred_probs=q, random_state=0)
        assert np.array_equal(found.transition, pairflip(3, 0.3))
        joint = found.proba * found.transition.T[noisy]
        np.testing.assert_allclose(found.posterior, joint / joint.sum(axis=1, keepdims=True))

    def test_an_estimator_of_T_learns_from_the_probabilities(self, given):
        q, noisy, _ = given
        found = unflip.audit.find_label_errors(y=noisy, transition=VolMin(), pred_probs=q, random_state=0)
        assert transition_error(found.transition, pairflip(3, 0.3)) < 0.2

    def test_perfect_probabilities_of_noisy_labels(self):
        p, y = drawn(pairflip(3, 0.3), n=900)
        found = unflip.audit.find_label_errors(y=y, pred_probs=p @ pairflip(3, 0.3), random_state=0)
        assert found.total == pytest.approx(0.3 * 900, rel=0.15)
        np.testing.assert_allclose(found.proba, p, atol=0.35)

    @pytest.mark.parametrize(
        ("changed", "match"),
        [
            ({"pred_probs": np.ones((450, 2)) / 2}, "one column per class, shape .450, 3"),
            ({"pred_probs": np.ones((450, 3))}, "sum to one"),
            ({"classifier": VolMin()}, "not both"),
            ({"y": None}, "y is missing"),
            ({"pred_probs": None}, "X is missing"),
        ],
    )
    def test_bad_input(self, given, changed, match):
        with pytest.raises(ValueError, match=match):
            unflip.audit.find_label_errors(**({"y": given[1], "pred_probs": given[0]} | changed))


@pytest.fixture(scope="module")
def copies():
    """Each sample occurs three times with the same label, with a little noise in X; 25 per cent are wrong."""
    rng = np.random.default_rng(0)
    X, y = make_blobs(150, centers=3, n_features=30, cluster_std=4.0, random_state=0)
    noisy = corrupt(y, symmetric(3, 0.25), random_state=0)
    X, noisy, y = (np.repeat(values, 3, axis=0) for values in (X, noisy, y))
    return X + rng.normal(scale=0.01, size=X.shape), noisy, noisy != y, np.repeat(np.arange(150), 3)


class TestGroups:
    """Copies of a sample must not judge each other."""

    @pytest.mark.parametrize("classifier", [VolMin(), ExtraTreesClassifier(20, random_state=0)])
    def test_stay_in_one_fold(self, copies, classifier):
        X, noisy, wrong, groups = copies
        options = {"transition": symmetric(3, 0.25), "random_state": 0}
        apart = find_label_errors(X, noisy, classifier, **options)
        together = find_label_errors(X, noisy, classifier, groups=groups, **options)
        precision = [average_precision_score(wrong, found.scores) for found in (apart, together)]
        assert precision[1] > 0.9
        assert precision[1] > precision[0] or isinstance(classifier, VolMin)  # which is too simple to memorize
        order = row_order(X, noisy, groups=groups)
        X, noisy, groups = X[order], noisy[order], groups[order]
        pairs = StratifiedGroupKFold(5, shuffle=True, random_state=np.random.RandomState(0)).split(X, noisy, groups)
        by_pairs = find_label_errors(X, noisy, classifier, cv=pairs, **options)
        np.testing.assert_allclose(by_pairs.scores, together.scores[order], atol=1e-9)

    def test_reach_the_default(self, copies, monkeypatch):
        X, noisy, _, groups = copies
        seen = {}

        class Spy(quick_corrected.CorrectedClassifier):
            def fit(self, X, y, sample_weight=None, groups=None):
                seen["groups"] = groups
                return super().fit(X, y, sample_weight)

        Spy.__name__ = "CorrectedClassifier"
        unflip.audit.find_label_errors(X, noisy, Spy(), groups=groups, random_state=0)
        assert seen["groups"] is groups

    def test_mistakes(self, copies):
        X, noisy, *_ = copies
        with pytest.raises(ValueError, match="one group"):
            find_label_errors(X, noisy, groups=np.zeros(len(noisy)))
        with pytest.raises(ValueError, match="groups"):
            find_label_errors(X, noisy, groups=np.zeros(3))


class TestLinearPath:
    """VolMin's own cross-fitting judges the samples: T and the folds' models are fitted once."""

    def test_is_one_fit(self, digits):
        X, noisy = digits[0][:300], digits[1][:300]
        model = VolMin()
        proba = model.fit_held_out(X, noisy)
        found = find_label_errors(X, noisy)
        np.testing.assert_array_equal(found.proba, proba)
        np.testing.assert_array_equal(VolMin().fit(X, noisy).coef_, model.coef_)

    def test_a_model_does_not_see_its_fold(self, blobs):
        """Garbage in the labels of one fold changes the models of the others, but not what judges that fold."""
        X, noisy, _ = blobs
        T, folds = pairflip(3, 0.3), np.arange(len(noisy)) % 3
        changed = np.where(folds == 0, (noisy + 1) % 3, noisy)
        before, after = (
            VolMin(transition=T, scaling="each").fit_held_out(X, labels, folds=folds) for labels in (noisy, changed)
        )
        # Only the temperature is common to all folds, and it changes no order.
        same = folds == 0
        assert np.array_equal(before[same].argmax(axis=1), after[same].argmax(axis=1))
        assert np.mean(before[~same].argmax(axis=1) == after[~same].argmax(axis=1)) < 1

    def test_rows_of_weight_zero_are_judged_by_the_model_of_the_others(self, blobs):
        X, noisy, _ = blobs
        w = np.ones(len(noisy))
        w[::7] = 0
        model = VolMin()
        proba = model.fit_held_out(X, noisy, w)
        np.testing.assert_allclose(proba[::7], model.predict_proba(X[::7]))

    def test_too_few_rows_hold_none_out(self, blobs):
        X, noisy, _ = blobs
        assert VolMin().fit_held_out(X[:30], noisy[:30]) is None


class TestAuditor:
    """A fitted auditor judges new rows as it judged its own."""

    @pytest.mark.parametrize("classifier", [VolMin(), LogisticRegression(), MCLDCEClassifier(), None])
    def test_finds_the_errors_of_new_rows(self, blobs, classifier, monkeypatch):
        if classifier is None:
            monkeypatch.setattr("unflip.registry.make", lambda name: quick_corrected.CorrectedClassifier())
        X, noisy, wrong = blobs
        auditor = LabelAuditor(classifier, random_state=0).fit(X[:300], noisy[:300])
        own = unflip.audit.find_label_errors(X[:300], noisy[:300], classifier, random_state=0)
        np.testing.assert_array_equal(auditor.errors_.scores, own.scores)
        found = auditor.find(X[300:], noisy[300:])
        assert average_precision_score(wrong[300:], found.scores) > 0.95
        # A label at a time gives the same as all of them.
        np.testing.assert_allclose(auditor.find(X[300:301], noisy[300:301]).scores, found.scores[:1])

    def test_of_a_fitted_model(self, blobs):
        X, noisy, wrong = blobs
        model = MCLDCEClassifier().fit(X[:300], noisy[:300])
        found = LabelAuditor.of(model).find(X[300:], noisy[300:])
        assert average_precision_score(wrong[300:], found.scores) > 0.95
        given = LabelAuditor.of(model, np.eye(3)).find(X[300:], noisy[300:])
        assert len(given.suspects) == 0
        with pytest.raises(ValueError, match="has no T"):
            LabelAuditor.of(LogisticRegression().fit(X, noisy))

    def test_a_label_that_it_does_not_know(self, blobs):
        X, noisy, _ = blobs
        auditor = LabelAuditor(VolMin()).fit(X, noisy)
        with pytest.raises(ValueError, match="7"):
            auditor.find(X[:2], [7, 0])


def test_a_model_that_T_did_not_reach_speaks_of_noisy_labels():
    X, y = np.arange(6.0)[:, np.newaxis], np.array([0, 0, 0, 1, 1, 1])  # too few rows to hold any out
    model = unflip.CorrectedClassifier(LogisticRegression(), transition=pairflip(2, 0.2)).fit(X, y)
    assert speaks_of_noisy_labels(model)
    q = model.predict_proba(X)
    inverted = LabelAuditor.of(model).judge(q, y).proba
    assert np.all(np.abs(inverted - 0.5) > np.abs(q - 0.5))  # T takes the noise out of them
    np.testing.assert_array_equal(LabelAuditor.of(model).find(X, y).proba, inverted)
    model.corrected_ = True
    assert not speaks_of_noisy_labels(model)
    np.testing.assert_array_equal(LabelAuditor.of(model).judge(q, y).proba, q)
