"""Several annotators: the model against naive loops, its limits, and what it recovers."""

import numpy as np
import pandas as pd
import pytest

from tests import light_models
from unflip import AnnotatorModel, CorrectedClassifier, estimate_transition, find_label_errors
from unflip.crowd import (
    FEWEST_SHARED,
    annotations_of,
    dominant,
    fit_annotators,
    is_matrix,
    krippendorff_alpha,
    long_annotations,
    next_label_value,
)

PLAIN = {"ability": False, "hard_rows": False, "ungiven": 1.0}


def drawn(n=400, m=8, c=3, accuracy=(0.55, 0.9), missing=0.4, seed=0):
    """Return labels of annotators with one accuracy each, -1 where missing, the classes and the accuracies."""
    random = np.random.default_rng(seed)
    y, skill = random.integers(c, size=n), random.uniform(*accuracy, size=m)
    wrong = (y[:, None] + random.integers(1, c, size=(n, m))) % c
    Y = np.where(random.random((n, m)) < skill, y[:, None], wrong)
    Y[random.random((n, m)) < missing] = -1
    Y[np.flatnonzero((Y < 0).all(axis=1)), 0] = 0
    return Y, y, skill


def dawid_skene(Y, c, steps):
    """Dawid and Skene's EM as they wrote it, one label at a time."""
    n, m = Y.shape
    q = np.zeros((n, c))
    for i in range(n):
        for a in range(m):
            if Y[i, a] >= 0:
                q[i, Y[i, a]] += 1
    q /= q.sum(axis=1, keepdims=True)
    for _ in range(steps):
        T, prior = np.zeros((m, c, c)), (q.sum(axis=0) + 1) / (n + c)
        for a in range(m):
            for i in range(n):
                if Y[i, a] >= 0:
                    T[a, :, Y[i, a]] += q[i]
            T[a] /= T[a].sum(axis=1, keepdims=True)
        for i in range(n):
            p = np.log(prior)
            for a in range(m):
                if Y[i, a] >= 0:
                    p = p + np.log(np.maximum(T[a, :, Y[i, a]], 1e-12))
            q[i] = np.exp(p - p.max()) / np.exp(p - p.max()).sum()
    return q, T


def test_without_shrinkage_it_is_dawid_and_skenes_model():
    Y, _, _ = drawn(n=60, m=5)
    q, T = dawid_skene(Y, 3, 7)
    fit = fit_annotators(annotations_of(Y), strength=0.0, max_iter=7, tol=0, **PLAIN)
    np.testing.assert_allclose(fit.posterior, q, atol=1e-6)
    np.testing.assert_allclose(fit.transitions, T, atol=1e-6)


def test_infinite_strength_gives_all_annotators_the_pool():
    a = annotations_of(drawn()[0])
    T = fit_annotators(a, strength=np.inf, **PLAIN).transitions
    assert np.ptp(T, axis=0).max() < 1e-12
    weak, strong = (fit_annotators(a, strength=s, **PLAIN).transitions for s in (1.0, 100.0))
    assert np.ptp(strong, axis=0).mean() < np.ptp(weak, axis=0).mean() / 2


def test_infinite_strength_leaves_rules_their_coverage_only():
    Y = np.where(np.random.default_rng(0).random((300, 4)) < 0.5, np.array([0, 0, 1, 1]), -1)
    model = AnnotatorModel(strength=np.inf, abstain=True).fit(Y)
    near = AnnotatorModel(strength=1e9, abstain=True).fit(Y)
    np.testing.assert_allclose(model.posterior_, near.posterior_, atol=1e-5)
    np.testing.assert_allclose(model.fit_.transitions.sum(axis=2), 1)


def test_more_rows_recover_the_annotators_and_the_classes():
    errors, accuracies = [], []
    for n in (100, 1000, 10_000):
        Y, y, skill = drawn(n=n, seed=1)
        model = AnnotatorModel().fit(Y)
        errors.append(np.abs(model.quality_ - skill).mean())
        accuracies.append(np.mean(model.consensus_ == y))
        assert accuracies[-1] >= np.mean(annotations_of(Y).majority == y)
    assert errors[-1] < 0.02
    assert errors[-1] < errors[0]
    sure = model.fit_.posterior.max(axis=1).mean()
    assert abs(sure - accuracies[-1]) < 0.02  # these annotators are independent
    assert model.confidence_.mean() < sure


def test_few_labels_are_drawn_to_the_others():
    Y, y, _ = drawn(n=2000, m=10, accuracy=(0.8, 0.8))
    Y[:, 0] = -1
    Y[:2, 0] = (y[:2] + 1) % 3  # two labels, both wrong
    quality = AnnotatorModel().fit(Y).quality_
    assert 0.5 < quality[0] < quality[1:].min()


def test_the_order_of_annotators_and_the_names_of_classes_do_not_matter():
    Y, _, _ = drawn()
    model = AnnotatorModel().fit(Y)
    order = np.random.default_rng(0).permutation(Y.shape[1])
    np.testing.assert_allclose(AnnotatorModel().fit(Y[:, order]).posterior_, model.posterior_, atol=1e-8)
    np.testing.assert_allclose(AnnotatorModel().fit(Y[:, order]).quality_, model.quality_[order], atol=1e-8)
    renamed = np.where(Y >= 0, (Y + 1) % 3, -1)
    np.testing.assert_allclose(
        AnnotatorModel().fit(renamed).posterior_, np.roll(model.posterior_, 1, axis=1), atol=1e-6
    )


def test_every_form_of_missing_labels_means_the_same():
    Y, _, _ = drawn(n=50)
    names = np.array(["a", "b", "c"])
    text = np.where(Y >= 0, names[Y], "")
    objects = np.where(Y >= 0, names[Y].astype(object), None)
    masked = np.ma.masked_array(Y, Y < 0)
    items, annotators = np.nonzero(Y >= 0)
    expected = AnnotatorModel().fit(Y).posterior_
    floats = np.where(Y >= 0, Y, np.nan)
    for form in (text, objects, objects.tolist(), pd.DataFrame(objects), floats, masked):
        np.testing.assert_allclose(AnnotatorModel().fit(form).posterior_, expected)
    long = AnnotatorModel().fit_long(items, annotators, names[Y[items, annotators]])
    np.testing.assert_allclose(long.posterior_, expected)
    assert long.items_.tolist() == list(range(50))
    assert AnnotatorModel().fit(floats).classes_.dtype.kind == "i"


def test_long_form_keeps_the_order_of_the_items():
    items, a = long_annotations(["b", "a", "b", "a"], [1, 1, 2, 2], ["x", "y", "x", "x"])
    assert items.tolist() == ["b", "a"]
    assert a.counts.tolist() == [[2, 0], [1, 1]]


def test_shared_errors_make_the_posterior_less_sure():
    Y, y, _ = drawn(n=1000, m=8, missing=0)
    assert AnnotatorModel().fit(Y).temperature_ > 0.85
    shared = np.random.default_rng(1).random((1000, 1)) < 0.3  # rows that most of them get wrong in the same way
    Y = np.where(shared & (np.random.default_rng(2).random(Y.shape) < 0.6), ((y + 1) % 3)[:, None], Y)
    model = AnnotatorModel(hard_rows=False).fit(Y)
    assert model.temperature_ < 0.8
    np.testing.assert_array_equal(model.posterior_.argmax(axis=1), model.fit_.posterior.argmax(axis=1))
    assert model.confidence_.mean() < model.fit_.posterior.max(axis=1).mean()


def test_n_labels_count_as_the_square_root_of_n():
    Y, _, _ = drawn(n=200, m=9, missing=0.5)
    model = AnnotatorModel().fit(Y)
    for q, given, found in zip(model.fit_.posterior, (Y >= 0).sum(axis=1), model.posterior_, strict=True):
        power = min(model.temperature_, 1 / np.sqrt(max(given, 1)))
        np.testing.assert_allclose(found, np.maximum(q, 1e-12) ** power / np.sum(np.maximum(q, 1e-12) ** power))
    single = np.where(np.arange(9) == np.arange(200)[:, None] % 9, Y.clip(0), -1)
    alone = AnnotatorModel().fit(single)
    np.testing.assert_allclose(alone.posterior_, alone.fit_.posterior, atol=1e-9)


def test_a_rare_class_does_not_become_that_of_the_hard_rows():
    random = np.random.default_rng(0)
    y = (random.random(2000) < 0.5).astype(int)
    hard = random.random(2000) < 0.3
    Y = np.where(random.random((2000, 6)) < np.where(hard, 0.6, 0.97)[:, None], y[:, None], 1 - y[:, None])
    Y[:5, 0] = 2  # a class that five labels name
    model = AnnotatorModel().fit(Y)
    assert (model.consensus_ == 2).mean() < 0.01
    assert np.mean(model.consensus_ == y) >= np.mean(annotations_of(Y).majority == y) - 0.002
    g = model.fit_.guesses
    assert g[hard].mean() > 2 * g[~hard].mean()


def test_rules_that_give_one_class_are_told_from_people():
    random = np.random.default_rng(0)
    y = random.integers(2, size=3000)
    precision = np.array([0.95, 0.9, 0.6, 0.95, 0.9, 0.6])
    side = np.array([0, 0, 0, 1, 1, 1])
    Y = np.full((3000, 6), -1)
    for a in range(6):
        fires = random.random(3000) < np.where(y == side[a], precision[a], 1 - precision[a]) * 0.5
        Y[fires, a] = side[a]
    model = AnnotatorModel().fit(Y)
    assert model.abstain_
    covered = (Y >= 0).any(axis=1)
    assert np.mean(model.consensus_[covered] == y[covered]) >= np.mean(
        annotations_of(Y).majority[covered] == y[covered]
    )
    assert model.quality_[[2, 5]].max() < model.quality_[[0, 1, 3, 4]].min()
    assert model.coverage_[0, 0] > 3 * model.coverage_[0, 1]
    assert not AnnotatorModel().fit(drawn()[0]).abstain_


def test_of_two_rules_that_disagree_the_rare_one_wins():
    Y = np.full((600, 2), -1)
    Y[:, 0] = 0  # a rule that fires everywhere, and one that fires in some of these rows
    Y[:60, 1] = 1
    model = AnnotatorModel().fit(Y)
    assert model.abstain_
    assert (model.consensus_[:60] == 1).all()
    assert (model.consensus_[60:] == 0).all()


def test_a_classifier_is_one_more_witness():
    Y, y, _ = drawn(missing=0.7)
    p = 0.8 * np.eye(3)[y] + 0.2 / 3
    alone, joined = AnnotatorModel().fit(Y), AnnotatorModel().fit(Y, proba=p)
    assert np.mean(joined.consensus_ == y) > np.mean(alone.consensus_ == y)
    for model in (alone, joined):  # to be less sure changes no label
        assert model.consensus_.tolist() == model.fit_.posterior.argmax(axis=1).tolist()


def test_posteriors_at_a_power_do_not_discount_classes_that_nobody_gave():
    Y, _, _ = drawn(n=60, m=4)
    model = AnnotatorModel().fit(Y)
    powers = np.linspace(0, 1, 60)
    for labels, q, t, found in zip(Y, model.fit_.posterior, powers, model.posterior_at(powers), strict=True):
        given = np.isin([0, 1, 2], labels)
        p = np.where(given, q, q / model.fit_.ungiven) ** t
        np.testing.assert_allclose(found, p / p.sum(), atol=1e-9)
    joined = AnnotatorModel().fit(Y, proba=np.full((60, 3), 1 / 3))  # a classifier knows which classes are likely
    np.testing.assert_allclose(joined.posterior_at(), joined.fit_.posterior, atol=1e-9)


def test_the_audit_counts_the_wrong_votes_of_independent_annotators():
    covered, counted, wrong = 0, 0.0, 0
    for seed in range(10):
        Y, y, _ = drawn(n=400, seed=seed)
        found = find_label_errors(y=Y)
        low, high = found.interval
        covered += low <= np.sum(found.given != y) <= high
        counted, wrong = counted + found.total, wrong + np.sum(found.given != y)
        assert low <= found.total <= high
    assert covered >= 8
    assert counted == pytest.approx(wrong, rel=0.15)


def test_the_interval_of_the_audit_ends_where_all_annotators_of_a_row_are_one():
    copied = np.random.default_rng(0).random((500, 5)) < 0.6  # of an annotator who is right in 70 % of the rows
    y = np.random.default_rng(1).integers(2, size=500)
    first = np.where(np.random.default_rng(2).random(500) < 0.7, y, 1 - y)
    own = np.where(np.random.default_rng(3).random((500, 5)) < 0.8, y[:, None], 1 - y[:, None])
    found = find_label_errors(y=np.where(copied, first[:, None], own))
    assert found.interval[0] < np.sum(found.given != y) < found.interval[1]
    single = find_label_errors(y=np.where(np.arange(5) == np.arange(500)[:, None] % 5, own, -1))
    chance = 1.645 * np.sqrt(np.sum(single.scores * (1 - single.scores)))  # with one label per row, all there is
    assert single.interval[1] == pytest.approx(single.total + chance, rel=1e-3)


def test_annotators_that_copy_depend_on_each_other():
    Y, _, _ = drawn(n=1500, m=10, missing=0.1)
    Y[:, 1] = np.where(Y[:, 0] >= 0, Y[:, 0], Y[:, 1])
    pairs = AnnotatorModel().fit(Y).dependence()
    assert (pairs[0].first, pairs[0].second) == (0, 1)
    assert pairs[0].p_value < 1e-6
    assert pairs[0].agreement > pairs[0].expected
    independent = AnnotatorModel().fit(drawn(n=1500, m=6, missing=0.1)[0]).dependence()
    assert len(independent) == 15
    assert sum(pair.p_value < 0.01 for pair in independent) <= 1
    assert min(pair.n_rows for pair in pairs) >= FEWEST_SHARED


def test_agreement_is_krippendorffs_alpha():
    # the example of Krippendorff (2011), nominal, with missing labels
    observed = """
        1 2 3 3 2 1 4 1 2 . . .
        1 2 3 3 2 2 4 1 2 5 . 3
        . 3 3 3 2 3 4 2 2 5 1 .
        1 2 3 3 2 4 4 1 2 5 1 ."""
    Y = np.array(
        [[-1 if v == "." else int(v) for v in line.split()] for line in observed.split("\n") if line.strip()]
    ).T
    assert krippendorff_alpha(annotations_of(Y).counts) == pytest.approx(0.743, abs=5e-4)
    assert np.isnan(krippendorff_alpha(np.eye(3)))
    assert krippendorff_alpha(2 * np.eye(3)) == 1


def test_the_next_label_goes_where_it_tells_most():
    fit = fit_annotators(annotations_of(drawn()[0]))
    q = np.array([[1 / 3, 1 / 3, 1 / 3], [0.98, 0.01, 0.01], [1 / 3, 1 / 3, 1 / 3]])
    fit = fit._replace(posterior=q, guesses=np.array([0.0, 0.0, 1.0]), guessed=np.full((3, 3), 1 / 3))
    value = next_label_value(fit)
    assert value[0] > value[1] > value[2] == pytest.approx(0, abs=1e-9)
    label = q[0] @ fit.pool
    naive = sum(q[0, k] * fit.pool[k, j] * np.log(fit.pool[k, j] / label[j]) for k in range(3) for j in range(3))
    assert value[0] == pytest.approx(naive)


def test_a_dominant_matrix_has_its_largest_entries_on_the_diagonal():
    T = dominant(np.array([[0.1, 0.5, 0.4], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]]))
    np.testing.assert_allclose(T, [[1 / 3, 1 / 3, 1 / 3], [0.1, 0.8, 0.1], [0, 0, 1]])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.full((3, 2), -1), "every entry is missing"),
        ([[0.0, np.inf], [1.0, 0.0]], "infinite"),
        ([["a", "a"], ["a", None]], "one class only"),
        ([["a", 1], ["b", None]], ""),
    ],
)
def test_bad_labels_are_refused(Y, message):
    if message:
        with pytest.raises(ValueError, match=message):
            AnnotatorModel().fit(np.array(Y, dtype=object) if isinstance(Y[0][0], str) else np.array(Y))
    else:
        assert len(AnnotatorModel().fit(Y).classes_) == 3  # everything becomes text


def test_bad_parameters_are_refused():
    Y, _, _ = drawn(n=20)
    with pytest.raises(ValueError, match="strength must be"):
        AnnotatorModel(strength=-1).fit(Y)
    with pytest.raises(ValueError, match="abstain must be"):
        AnnotatorModel(abstain="maybe").fit(Y)
    with pytest.raises(ValueError, match="proba must be"):
        AnnotatorModel().fit(Y, proba=np.ones((20, 2)))
    with pytest.raises(ValueError, match="matrix"):
        AnnotatorModel().fit(np.zeros(5))
    with pytest.raises(ValueError, match="lengths differ"):
        AnnotatorModel().fit_long([1, 2], [1], ["a"])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    light_models.use(monkeypatch)


def features(y, seed=0):
    return np.eye(3)[y] * 2 + np.random.default_rng(seed).normal(size=(len(y), 3))


def test_a_matrix_is_taken_where_a_vector_is():
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import LinearSVC

    Y, y, _ = drawn(n=300, m=5, missing=0.6, accuracy=(0.5, 0.8))
    X = features(y)
    assert is_matrix(Y)
    assert not is_matrix(y)
    assert not is_matrix(Y[:, :1])
    X_new = features(y, seed=1)
    majority = LogisticRegression().fit(X, annotations_of(Y).majority).score(X_new, y)
    for estimator in (LogisticRegression(), KNeighborsClassifier(15), LinearRegression(), LinearSVC()):
        model = CorrectedClassifier(estimator, random_state=0).fit(X, Y)
        assert model.score(X_new, y) > majority - 0.03
    model = CorrectedClassifier(LogisticRegression(), random_state=0).fit(X, Y)
    alone = AnnotatorModel().fit(Y)
    assert np.mean(model.annotator_model_.consensus_ == y) > np.mean(alone.consensus_ == y)
    assert model.oof_proba_.shape == (300, 3)
    found = find_label_errors(X, Y, LogisticRegression(), random_state=0)
    truly = found.given != y
    assert np.mean(truly[found.suspects]) > 0.7
    assert found.total == pytest.approx(truly.sum(), rel=0.5)
    assert found.annotators is not None
    assert find_label_errors(y=Y).total > 0
    with pytest.raises(ValueError, match="leave transition out"):
        find_label_errors(X, Y, transition=np.eye(3))


def test_extreme_numbers_are_refused_with_several_annotators_as_with_one():
    Y, y, _ = drawn(n=60, m=4)
    X = features(y)
    with pytest.raises(ValueError, match="weight"):
        CorrectedClassifier().fit(X, Y, sample_weight=np.zeros(60))
    X[:, 1] *= 1e200
    for labels in (Y, y):
        with pytest.raises(ValueError, match="column 1"):
            CorrectedClassifier().fit(X, labels)


def test_majority_votes_of_one_class_are_fitted():
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(0)
    X, Y = random.normal(size=(60, 2)), np.zeros((60, 3), dtype=int)
    Y[random.random((60, 3)) < 0.2 * (X[:, :1] > 0)] = 1
    Y[Y.sum(axis=1) > 1] = [0, 0, 1]
    for estimator in (None, LogisticRegression()):
        model = CorrectedClassifier(estimator, cv=2, random_state=0).fit(X, Y)
        assert model.classes_.tolist() == [0, 1]
        assert model.predict(X).shape == (60,)


def test_the_default_model_learns_from_several_annotators(tmp_path):
    from unflip import load

    Y, y, _ = drawn(n=90, m=5)
    Y[0] = -1  # a row that nobody labeled
    X = features(y)
    model = CorrectedClassifier(random_state=0, cv=2).fit(X, Y)
    assert model.score(X, y) > 0.8
    assert "no label" in model.notes_[-1]
    assert [one.name for one in model.candidates_ if one.chosen] == ["blend"]
    loaded = load(model.save(tmp_path / "model"))
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-6)
    T = estimate_transition(X, Y, random_state=0)
    assert T.shape == (3, 3)
    assert np.diag(T).min() > 0.5
    with pytest.raises(ValueError, match="leave out method"):
        estimate_transition(X, Y, method="hoc")
    with pytest.raises(ValueError, match="leave transition out"):
        CorrectedClassifier(transition=np.eye(3)).fit(X, Y)


@pytest.mark.parametrize("tree", [True, False])
def test_another_order_of_the_rows_changes_nothing_with_several_annotators(tree):
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    Y, y, _ = drawn(n=120, m=6, missing=0.6)
    X, weights = features(y), np.random.default_rng(1).uniform(0.5, 2, size=120)
    X[:10] = X[10:20]  # rows that differ in their labels only
    Y[40] = -1  # a row that nobody labeled
    order = np.random.default_rng(2).permutation(120)
    estimator = DecisionTreeClassifier(min_samples_leaf=5) if tree else LogisticRegression()
    one, two = (
        CorrectedClassifier(estimator, random_state=0).fit(X[rows], Y[rows], sample_weight=weights[rows])
        for rows in (np.arange(120), order)
    )
    X_new = features(y, seed=1)
    np.testing.assert_allclose(two.predict_proba(X_new), one.predict_proba(X_new), atol=1e-9)
    kept = order[order != 40]  # what is known about rows is in the order of those with a label
    place = kept - (kept > 40)
    np.testing.assert_allclose(two.oof_proba_, one.oof_proba_[place], atol=1e-9)
    for name in ("posterior_", "confidence_", "next_label_value_"):
        ours, theirs = (getattr(model.annotator_model_, name) for model in (one, two))
        np.testing.assert_allclose(theirs, ours[place], atol=1e-9)
    crowd = one.annotator_model_
    np.testing.assert_array_equal(crowd.annotations_.counts, annotations_of(np.delete(Y, 40, axis=0)).counts)
    np.testing.assert_array_equal(crowd.consensus_, crowd.fit_.posterior.argmax(axis=1))
    found, again = (find_label_errors(X[rows], Y[rows], estimator, random_state=0) for rows in (np.sort(kept), kept))
    np.testing.assert_allclose(again.scores, found.scores[place], atol=1e-9)
    np.testing.assert_array_equal(again.given, found.given[place])


@pytest.mark.slow
def test_a_hundred_thousand_labels_take_seconds():
    import time

    random = np.random.default_rng(0)
    items, who = random.integers(20_000, size=100_000), random.integers(700, size=100_000)
    labels = np.where(random.random(100_000) < 0.7, items % 4, random.integers(4, size=100_000))
    start = time.process_time()
    model = AnnotatorModel().fit_long(items, who, labels)
    assert time.process_time() - start < 20
    assert np.mean(model.consensus_ == model.items_ % 4) > 0.9


@pytest.mark.parametrize("make", [list, lambda Y: pd.DataFrame(Y).mask(pd.DataFrame(Y) < 0).astype("Int64")])
def test_missing_labels_in_lists_and_in_nullable_columns(make):
    Y, _, _ = drawn(n=30, m=4)
    given = make(Y.tolist())
    a, expected = annotations_of(given), annotations_of(Y)
    assert a.classes.tolist() == expected.classes.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(a.counts, expected.counts)


def test_who_labels_a_row_twice_depends_on_nobody():
    random = np.random.default_rng(0)
    y = random.integers(2, size=60)
    items, annotators = np.tile(np.arange(60), 3), np.repeat(["ann", "bob", "bob"], 60)
    _, a = long_annotations(items, annotators, np.tile(y, 3))
    (pair,) = AnnotatorModel().fit(a).dependence()
    assert pair.agreement == 1.0
