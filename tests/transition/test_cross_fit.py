"""Cross-fitting: the data, losses and keys that VolMin's rounds are made of, and the choice of a scaling."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from tests import light_models
from unflip import load, registry
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import AnchorPoints, VolMin, _cross_fit
from unflip.transition._cross_fit import (
    ALPHA,
    choose_scaling,
    count_std,
    em_transition,
    held_out_loss,
    posterior_std,
    prepare,
    row_keys,
    shrunk_rows,
    tangent,
)
from unflip.transition.volmin import _transition, _unpack


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(400, centers=3, cluster_std=2.0, random_state=2)
    return X, corrupt(y, pairflip(3, 0.2), random_state=0)


def small_problem(sparse_X=False, n_classes=3):
    rng = np.random.default_rng(1)
    X = rng.normal(2, 3, size=(17, 4)) * (rng.random((17, 4)) < 0.7)
    codes, weights = rng.integers(n_classes, size=17), rng.uniform(0.5, 2, size=17)
    problem, _, _ = prepare(sparse.csr_array(X) if sparse_X else X, codes, weights, n_classes, 0.05, 0.3)
    theta = 0.5 * rng.normal(size=4 * n_classes + n_classes + n_classes**2)
    return problem, theta


def test_rows_have_one_key_in_any_form():
    X = np.random.default_rng(0).integers(-1, 2, size=(200, 3)).astype(np.float32) * -1.0
    keys = row_keys(X)
    np.testing.assert_array_equal(keys, row_keys(X.astype(np.float64) + 0.0))
    np.testing.assert_array_equal(keys, row_keys(sparse.csr_array(X)))
    np.testing.assert_array_equal(keys[::-1], row_keys(X[::-1]))
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_units_and_order_of_the_rows_do_not_change_the_folds(dtype):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 6)), rng.integers(3, size=300), rng.exponential(size=300) ** 4])
    X = X.astype(dtype)
    keys = row_keys(X)
    assert np.bincount(keys % 5).min() > 35
    for factors in (2.0 ** rng.integers(-20, 20, size=8), 10 ** rng.uniform(-3, 3, size=8)):
        scaled = X * factors.astype(dtype)
        np.testing.assert_array_equal(keys, row_keys(scaled))
        np.testing.assert_array_equal(keys, row_keys(sparse.csr_array(scaled)))
    order = rng.permutation(np.append(np.arange(300), rng.integers(300, size=200)))  # some rows twice and more
    np.testing.assert_array_equal(keys[order], row_keys(X[order]))


def test_rounding_in_another_unit_moves_few_rows():
    """Two values that become equal shift the ranks above them by one."""
    X = np.random.default_rng(0).normal(size=(1500, 10))
    X[:2, 0] = 0.3, np.nextafter(0.3, 1)
    merged = X.copy()
    merged[1, 0] = 0.3
    assert np.mean(row_keys(X) == row_keys(merged)) > 0.94


def test_few_columns_still_tell_rows_apart():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    assert len(np.unique(row_keys(X))) == len(np.unique(row_keys(X[:, :1]))) == 3000


def test_a_part_of_the_problem_has_the_loss_of_its_rows():
    problem, theta = small_problem()
    W, b, V = _unpack(theta, problem)
    T = _transition(V)[0]
    kept = np.arange(17) % 3 > 0
    problem = problem._replace(penalty=0.0)
    part, rest = (problem.take(rows).loss(W, b, T)[0] for rows in (kept, ~kept))
    share = problem.weights[kept].sum()
    whole = problem.loss(W, b, T)[0]
    assert share * part + (1 - share) * rest == pytest.approx(whole)


@pytest.mark.parametrize("sparse_X", [False, True])
def test_the_penalty_is_the_formula(sparse_X):
    rng = np.random.default_rng(0)
    X = rng.normal(3, [1.0, 5.0, 0.1, 0.0], size=(40, 4))
    W, v = rng.normal(size=(3, 4)), X.var(axis=0)
    X = sparse.csr_array(X) if sparse_X else X
    each, common = (
        0.3 * 4 * np.sum((W * prepare(X, np.arange(40) % 3, None, 3, 0.0, 0.0, scaling)[2]) ** 2)
        for scaling in ("each", "common")
    )
    varied = range(3)  # a weight on the constant feature has no effect, and any penalty makes it zero
    unseen = 0.3 * 4 * sum(W[k, 3] ** 2 for k in range(3))
    assert each - unseen == pytest.approx(0.3 * 4 * sum(v[j] * W[k, j] ** 2 for k in range(3) for j in varied))
    assert common == pytest.approx(0.3 * sum(v) * sum(w**2 for w in W.ravel()))


@pytest.mark.parametrize("scaling", ["each", "common"])
def test_held_out_loss_is_that_of_logistic_regression(blobs, scaling):
    X, y = blobs
    problem, mean, scale = prepare(X, y, None, 3, 0.0, ALPHA * 2, scaling)
    Z, fold = (X - mean) / scale, row_keys(X) % 5
    scores = np.empty((len(y), 3))
    for k in range(5):
        model = LogisticRegression(C=1 / (ALPHA * 2), tol=1e-8).fit(Z[fold != k], y[fold != k])
        scores[fold == k] = model.decision_function(Z[fold == k])
    best = min(log_loss(y, softmax(t * scores, axis=1)) for t in np.exp(np.linspace(-1, 1, 401)))
    assert held_out_loss(problem) == pytest.approx(best, abs=1e-4)


def test_weights_are_repetition_for_the_choice(blobs):
    X, y = blobs
    w = np.arange(len(y)) % 3
    a, _, _ = prepare(X, y, w.astype(float), 3, 0.0, ALPHA * 2, "common")
    b, _, _ = prepare(X.repeat(w, axis=0), y.repeat(w), None, 3, 0.0, ALPHA * 2, "common")
    one, other = held_out_loss(a), held_out_loss(b)
    assert one == pytest.approx(other, rel=1e-6)


def test_a_part_of_large_data_chooses_as_the_whole(monkeypatch):
    X, y = load_digits(return_X_y=True)
    noisy = corrupt(y, symmetric(10, 0.2), random_state=0)
    units = 10 ** np.random.default_rng(0).uniform(-2, 2, size=64)
    monkeypatch.setattr(_cross_fit, "DECIDING", 1000)
    monkeypatch.setattr(_cross_fit, "DECIDING_PER_FEATURE", 1)
    assert choose_scaling(X, noisy, None, 10) == "common"
    assert choose_scaling(X * units, noisy, None, 10) == "each"


def test_the_part_that_chooses_holds_all_copies_of_a_row(monkeypatch):
    X, y = load_digits(return_X_y=True)
    w = np.arange(len(y)) % 3
    seen, original = [], _cross_fit.prepare
    monkeypatch.setattr(_cross_fit, "DECIDING", 500)
    monkeypatch.setattr(_cross_fit, "DECIDING_PER_FEATURE", 1)
    monkeypatch.setattr(_cross_fit, "prepare", lambda X, *rest: seen.append((X, rest[1])) or original(X, *rest))
    monkeypatch.setattr(_cross_fit, "held_out_loss", lambda problem: 0.0)
    choose_scaling(X.repeat(w, axis=0), y.repeat(w), None, 10)
    choose_scaling(X, y, w.astype(float), 10)
    rows, counts = np.unique(seen[0][0], axis=0, return_counts=True)
    same, where = np.unique(seen[-1][0], axis=0, return_index=True)
    assert len(rows) == 500
    np.testing.assert_array_equal(rows, same)
    np.testing.assert_array_equal(counts, seen[-1][1][where])


def texts(n=900, n_classes=4, n_words=1500, seed=0):
    """Rows of unit length with 20 words each, half of them from the vocabulary of their class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    own = rng.integers(0, n_words // n_classes, size=(n, 10)) * n_classes + y[:, np.newaxis]
    words = np.concatenate([own, rng.integers(0, n_words, size=(n, 10))], axis=1)
    X = sparse.csr_array((np.ones(words.size), (np.repeat(np.arange(n), 20), words.ravel())), shape=(n, n_words))
    return X / 20, y


class TestWideSparse:
    def test_keys_depend_on_the_values_alone(self):
        X, _ = texts(50)
        X = sparse.csr_array(sparse.vstack([X, X]))
        keys = row_keys(X)
        np.testing.assert_array_equal(keys[:50], keys[50:])
        assert len(np.unique(keys)) == 50
        mixed = X.copy()
        first = slice(0, X.indptr[1])
        mixed.indices[first], mixed.data[first] = X.indices[first][::-1], X.data[first][::-1]
        np.testing.assert_array_equal(
            row_keys(sparse.csr_array((mixed.data, mixed.indices, mixed.indptr), X.shape)), keys
        )
        zeros = X.copy()
        zeros.data[0] = 0.0
        np.testing.assert_array_equal(row_keys(zeros)[1:], keys[1:])
        zeros.eliminate_zeros()
        assert row_keys(zeros)[0] != keys[0]

    def test_one_scaling_for_all_words(self):
        X, y = texts()
        assert choose_scaling(X, y, None, 4) == "common"

    @pytest.mark.parametrize("T", [pairflip(4, 0.35), symmetric(4, 0.4)], ids=["pair", "symmetric"])
    def test_better_than_logistic_regression(self, T):
        X, y = texts(2400)
        noisy = corrupt(y[:1200], T, random_state=0)
        plain = LogisticRegression().fit(X[:1200], noisy).score(X[1200:], y[1200:])
        model = VolMin().fit(X[:1200], noisy)
        assert model.score(X[1200:], y[1200:]) > plain
        assert np.abs(model.transition_ - T).sum() / 4 < 0.35
        assert VolMin(transition=T).fit(X[:1200], noisy).score(X[1200:], y[1200:]) > plain

    def test_weights_are_repetition(self):
        X, y = texts(300)
        twice = np.arange(300) % 2
        repeated = np.concatenate([np.arange(300), np.flatnonzero(twice)])
        a = VolMin().fit(X, y, sample_weight=1.0 + twice)
        b = VolMin().fit(X[repeated], y[repeated])
        np.testing.assert_allclose(a.transition_, b.transition_, atol=0.02)
        assert np.mean(a.predict(X) == b.predict(X)) > 0.98

    def test_too_few_rows_for_folds(self):
        X, y = texts(16)
        assert VolMin().fit(X, y).transition_.shape == (4, 4)


class TestShrunkRows:
    def test_symmetric_counts_become_symmetric(self):
        counts = 1000.0 * symmetric(20, 0.4)
        noisy = np.random.default_rng(0).poisson(counts / 25)
        np.testing.assert_allclose(shrunk_rows(noisy.astype(float)), symmetric(20, 0.4), atol=0.15)
        assert (
            np.abs(shrunk_rows(noisy.astype(float)) - symmetric(20, 0.4)).sum()
            < np.abs(noisy / noisy.sum(axis=1, keepdims=True) - symmetric(20, 0.4)).sum()
        )

    def test_many_counts_decide(self):
        T = pairflip(5, 0.3)
        np.testing.assert_allclose(shrunk_rows(1e6 * T), T, atol=1e-4)

    def test_a_row_without_counts_takes_the_common_rate(self):
        T = shrunk_rows(np.array([[60.0, 20, 20], [20, 60, 20], [0, 0, 0]]))
        np.testing.assert_allclose(T.sum(axis=1), 1)
        np.testing.assert_allclose(T[2], [0.2, 0.2, 0.6])

    def test_the_diagonal_stays_on_top(self):
        T = shrunk_rows(np.array([[900.0, 100, 0], [70, 30, 0], [0, 50, 450]]))
        assert (T.argmax(axis=1) == np.arange(3)).all()

    def test_in_em(self):
        posteriors = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
        y = np.random.default_rng(1).integers(3, size=200)
        start = symmetric(3, 0.3)
        joint = posteriors * start[:, y].T
        joint /= joint.sum(axis=1, keepdims=True)
        counts = joint.T @ np.eye(3)[y]
        np.testing.assert_allclose(em_transition(posteriors, y, start, shrink=True), shrunk_rows(counts))


ENTRIES = [entry for entry in registry.ENTRIES if entry.family == "transition" and not entry.networks]


def drawn(p, T, rng):
    """Return noisy labels of clean classes drawn from the rows of p."""
    c = len(T)
    clean = np.minimum((rng.random((len(p), 1)) > p.cumsum(axis=1)).sum(axis=1), c - 1)
    return corrupt(clean, T, random_state=rng, classes=range(c))


@pytest.mark.parametrize("T", [pairflip(3, 0.3), symmetric(3, 0.4)], ids=["pair", "symmetric"])
def test_is_the_spread_of_T_over_draws_of_the_labels(T):
    rng = np.random.default_rng(0)
    p = softmax(6 * rng.normal(size=(1000, 3)), axis=1)
    estimates = [em_transition(p, drawn(p, T, rng), 0.9 * T + 0.1 / 3, steps=150) for _ in range(80)]
    spread, std = np.std(estimates, axis=0), posterior_std(p, T)
    # The posteriors are known here; posterior_std allows for their temperature and biases too.
    assert np.all(std > 0.75 * spread)
    assert np.all(std[T > 0.1] < 1.6 * spread[T > 0.1])


def test_sure_posteriors_are_counts():
    clean = np.arange(900) % 3
    p = np.full((900, 3), 1e-9) + (1 - 3e-9) * np.eye(3)[clean]
    T = symmetric(3, 0.3)
    expected = np.sqrt(T * (1 - T) / 300)
    np.testing.assert_allclose(posterior_std(p, T), expected, rtol=0.03)
    np.testing.assert_allclose(count_std(T, np.full(3, 300.0)), expected, rtol=0.03)


def test_falls_with_the_root_of_the_samples_and_weights_are_repetition():
    p = softmax(4 * np.random.default_rng(0).normal(size=(500, 3)), axis=1)
    T = symmetric(3, 0.3)
    many = posterior_std(p.repeat(100, axis=0), T)
    np.testing.assert_allclose(many, posterior_std(p, T, np.full(500, 100.0)), rtol=1e-6)
    np.testing.assert_allclose(posterior_std(p, T) / many, 10, rtol=0.15)


def test_posteriors_that_say_nothing_leave_T_open():
    std = posterior_std(np.full((1000, 4), 0.25), symmetric(4, 0.2))
    assert std.min() > 0.2
    assert std.max() <= 0.5


def test_blocks_do_not_matter(monkeypatch):
    p = softmax(4 * np.random.default_rng(0).normal(size=(300, 3)), axis=1)
    whole = posterior_std(p, symmetric(3, 0.3))
    monkeypatch.setattr(_cross_fit, "NUMBERS", 500)
    np.testing.assert_allclose(whole, posterior_std(p, symmetric(3, 0.3)))


def test_many_classes_row_by_row(monkeypatch):
    p = softmax(9 * np.random.default_rng(0).normal(size=(3000, 4)), axis=1)
    T = symmetric(4, 0.3)
    together = posterior_std(p, T)
    monkeypatch.setattr(_cross_fit, "MANY", 3)
    apart = posterior_std(p, T)
    assert np.all(apart <= together)
    np.testing.assert_allclose(apart, together, rtol=0.5)


def test_zero_counts_are_not_sure():
    std = count_std(np.eye(2), np.array([10.0, 1000.0]))
    assert 0.05 < std[0, 1] < 0.15
    assert 0 < std[1, 1] < 0.002


def test_tangent_keeps_row_sums():
    B = tangent(3)
    np.testing.assert_allclose(B.T @ B, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(B.T.reshape(6, 3, 3).sum(axis=2), 0, atol=1e-12)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.cls)
def test_every_estimator_has_them_and_they_fall_with_more_samples(entry, monkeypatch):
    light_models.use(monkeypatch)
    means = []
    for n in (120, 480):
        X, y = make_blobs(n, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        model = entry.load()(random_state=0).fit(X, corrupt(y, pairflip(3, 0.2), random_state=0))
        assert model.transition_std_.shape == (3, 3)
        assert 0 <= model.transition_std_.min() <= model.transition_std_.max() < 0.5
        means.append(model.transition_std_.mean())
    assert means[0] > means[1] > 0


class TestVolMin:
    X, y = make_blobs(300, centers=3, cluster_std=2.0, random_state=2)
    y = corrupt(y, pairflip(3, 0.2), random_state=0)

    def test_a_given_T_has_no_error_and_that_of_an_estimator_is_kept(self):
        assert VolMin(transition=pairflip(3, 0.2)).fit(self.X, self.y).transition_std_.max() == 0
        std = VolMin(transition=AnchorPoints()).fit(self.X, self.y).transition_std_
        np.testing.assert_array_equal(std, AnchorPoints().fit(self.X, self.y).transition_std_)

    def test_without_cross_fitting_too(self):
        assert 0 < VolMin(rounds=0).fit(self.X, self.y).transition_std_.max() < 0.2

    def test_are_saved(self, tmp_path):
        model = VolMin().fit(self.X, self.y)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").transition_std_, model.transition_std_)
