"""VolMin: the objective against its formula, T against the truth, and the fit on hard inputs."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.special import softmax
from scipy.stats import ortho_group
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from tests.transition.test_cross_fit import small_problem
from unflip import load
from unflip.core.ldce import well_conditioned
from unflip.metrics import transition_error
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import VolMin
from unflip.transition.volmin import FLOOR, _transition, _unpack, objective


def linear_softmax(n, n_classes=3, n_features=4, seed=0):
    """Clean labels drawn from a known linear-softmax model that is sure of most samples."""
    rng = np.random.default_rng(seed)
    W = 4 * rng.normal(size=(n_features, n_classes))
    X = rng.normal(size=(n, n_features))
    cumulative = softmax(X @ W, axis=1).cumsum(axis=1)
    return X, np.minimum((rng.random((n, 1)) > cumulative).sum(axis=1), n_classes - 1)


def loop_objective(theta, problem):
    W, b, V = _unpack(theta, problem)
    c = len(b)
    A = np.array([[1.0 if i == j else 1 / (1 + np.exp(-V[i, j])) for j in range(c)] for i in range(c)])
    T = np.array([row / row.sum() for row in A])
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    loss = 0.0
    for j, rows in enumerate(problem.slices):
        for i in range(rows.start, rows.stop):
            scores = [W[k] @ (X[i] - problem.center) + b[k] for k in range(c)]
            p = np.exp(scores) / np.sum(np.exp(scores))
            loss -= problem.weights[i] * np.log(sum(p[k] * T[k, j] for k in range(c)))
    loss += problem.volume * np.log(abs(np.linalg.det(T)))
    loss += problem.penalty / (2 * problem.total) * sum(w**2 for w in W.ravel())
    for i in range(c):
        for j in range(c):
            loss -= (0.5 * (i == j) + 0.5 / c) * np.log(T[i, j]) / problem.total
    return loss


@pytest.mark.parametrize("sparse_X", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
class TestObjective:
    def test_is_the_formula(self, sparse_X, n_classes):
        problem, theta = small_problem(sparse_X, n_classes)
        # the volume's floor moves log|det T| by about FLOOR / smallest singular value squared
        np.testing.assert_allclose(objective(theta, problem)[0], loop_objective(theta, problem), atol=50 * FLOOR)

    def test_gradient_is_that_of_finite_differences(self, sparse_X, n_classes):
        problem, theta = small_problem(sparse_X, n_classes)
        numeric = approx_fprime(theta, lambda t: objective(t, problem)[0], 1e-7)
        np.testing.assert_allclose(objective(theta, problem)[1], numeric, atol=1e-6)


def test_parameterisation_has_unit_rows_and_the_diagonal_on_top():
    T = _transition(10 * np.random.default_rng(0).normal(size=(6, 6)))[0]
    np.testing.assert_allclose(T.sum(axis=1), 1)
    np.testing.assert_array_equal(T.argmax(axis=1), range(6))


@pytest.mark.parametrize("T", [np.full((3, 3), 1 / 3), [[0, 1, 0], [0, 1, 0], [0, 0, 1]], np.eye(3)])
def test_conditioning(T):
    mended = well_conditioned(np.asarray(T, dtype=float))
    assert np.linalg.cond(mended) <= 100
    np.testing.assert_allclose(mended.sum(axis=1), 1)


@pytest.mark.parametrize("T", [pairflip(3, 0.3), symmetric(3, 0.3)], ids=["pair", "symmetric"])
def test_error_falls_as_samples_grow(T):
    errors = []
    for n in (300, 30_000):
        X, y = linear_softmax(n)
        errors.append(transition_error(VolMin().fit(X, corrupt(y, T, random_state=0)).transition_, T))
    assert errors[0] > errors[1]
    assert errors[1] < 0.05


@pytest.mark.parametrize("data", [load_iris, load_digits])
def test_clean_labels_give_nearly_the_identity(data):
    X, y = data(return_X_y=True)
    model = VolMin().fit(X, y)
    assert transition_error(model.transition_, np.eye(len(model.classes_))) < 0.05
    np.testing.assert_allclose(model.class_prior_, np.bincount(y) / len(y), atol=0.02)


class TestCrossFitting:
    @pytest.mark.parametrize(("T", "error"), [(pairflip(10, 0.4), 0.12), (symmetric(10, 0.4), 0.25)])
    def test_little_data_no_longer_draw_T_to_the_identity(self, T, error):
        X, y = load_digits(return_X_y=True)
        X, y, X_test, y_test = X[:1000], y[:1000], X[1000:], y[1000:]
        noisy = corrupt(y, T, random_state=0)
        plain, refined = VolMin(rounds=0).fit(X, noisy), VolMin().fit(X, noisy)
        assert transition_error(refined.transition_, T) < error
        assert transition_error(refined.transition_, T) < 0.6 * transition_error(plain.transition_, T)
        assert refined.score(X_test, y_test) > plain.score(X_test, y_test) + 0.05

    def test_weights_are_repetition_here_too(self):
        X, y = load_digits(return_X_y=True)
        X, noisy = X[:500, 20:30], corrupt(y[:500], pairflip(10, 0.3), random_state=0)
        w = np.arange(500) % 3
        a = VolMin().fit(X, noisy, w)
        b = VolMin().fit(X.repeat(w, axis=0), noisy.repeat(w))
        np.testing.assert_allclose(a.transition_, b.transition_, atol=1e-4)

    def test_is_left_out_with_few_different_rows(self):
        """Three cells of a table: no fold can do without one."""
        rng = np.random.default_rng(0)
        cell = rng.integers(3, size=3000)
        noisy = corrupt(cell, pairflip(3, 0.2), random_state=0)
        X = np.eye(3)[cell]
        np.testing.assert_array_equal(VolMin().fit(X, noisy).transition_, VolMin(rounds=0).fit(X, noisy).transition_)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(400, centers=3, cluster_std=2.0, random_state=2)
    return X, corrupt(y, pairflip(3, 0.2), random_state=0)


def test_dense_is_sparse(blobs):
    X, y = blobs
    a, b = VolMin().fit(X, y), VolMin().fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(a.transition_, b.transition_, atol=1e-8)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(sparse.csr_array(X)), atol=1e-7)


def test_weights_are_repetition(blobs):
    X, y = blobs
    counts = np.random.default_rng(0).integers(0, 4, size=len(y))
    a, b = VolMin().fit(X, y, sample_weight=counts), VolMin().fit(X.repeat(counts, axis=0), y.repeat(counts))
    np.testing.assert_allclose(a.transition_, b.transition_, rtol=1e-8)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-7)


def test_scale_and_offset_of_the_features_do_not_matter(blobs):
    X, y = blobs
    moved = X * [1e3, 1e-3] + [5.0, -1e-2]
    for rounds, atol in ((0, 1e-7), (5, 1e-3)):  # the folds are the same, and models end within their tolerance
        a, b = VolMin(rounds=rounds).fit(X, y), VolMin(rounds=rounds).fit(moved, y)
        np.testing.assert_allclose(a.transition_, b.transition_, atol=atol)


class TestScaling:
    def test_each_knows_no_units_and_common_no_axes(self):
        X, y = linear_softmax(500)
        X *= [1.0, 1.5, 0.5, 1.0]
        y = corrupt(y, pairflip(3, 0.2), random_state=0)
        rotated = X @ ortho_group.rvs(4, random_state=0) + 2.0
        stretched = X * [1.0, 4.0, 0.5, 2.0] - 1.0
        T = {}
        for scaling in ("each", "common"):
            for name, form in {"given": X, "rotated": rotated, "stretched": stretched}.items():
                T[scaling, name] = VolMin(scaling=scaling, rounds=0, alpha=1.0).fit(form, y).transition_
        np.testing.assert_allclose(T["each", "stretched"], T["each", "given"], atol=1e-7)
        np.testing.assert_allclose(T["common", "rotated"], T["common", "given"], atol=1e-7)
        assert np.abs(T["each", "rotated"] - T["each", "given"]).max() > 1e-3
        assert np.abs(T["common", "stretched"] - T["common", "given"]).max() > 1e-3

    def test_common_does_not_see_the_unit_of_all_nor_constant_features(self, blobs):
        X, y = blobs
        more = np.hstack([30 * X - 7, np.full((len(y), 3), 5.0)])
        a, b = (VolMin(scaling="common", rounds=0).fit(form, y) for form in (X, more))
        np.testing.assert_allclose(a.transition_, b.transition_, atol=1e-7)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(more), atol=1e-6)

    def test_equal_variances_make_both_the_same(self, blobs):
        X, y = blobs
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        a, b = (VolMin(scaling=scaling, rounds=0).fit(X, y) for scaling in ("each", "common"))
        np.testing.assert_allclose(a.transition_, b.transition_, atol=1e-7)

    def test_features_that_are_all_constant_leave_the_shares(self):
        model = VolMin(scaling="common").fit(np.ones((30, 2)), np.arange(30) % 3)
        np.testing.assert_allclose(model.predict_proba(np.ones((1, 2))) @ model.transition_, 1 / 3, atol=1e-3)

    @pytest.mark.parametrize("noise", [symmetric(10, 0.2), pairflip(10, 0.4)], ids=["symmetric", "pair"])
    def test_auto_takes_pixels_as_they_are_and_not_what_has_odd_units(self, noise):
        X, y = load_digits(return_X_y=True)
        noisy = corrupt(y, noise, random_state=0)
        units = 10 ** np.random.default_rng(0).uniform(-2, 2, size=64)
        for form, right in ((X, "common"), (X * units, "each")):
            auto, fixed = (VolMin(scaling=s, rounds=0).fit(form, noisy) for s in ("auto", right))
            assert auto.scaling_ == right
            np.testing.assert_array_equal(auto.coef_, fixed.coef_)
            np.testing.assert_array_equal(auto.transition_, fixed.transition_)

    def test_auto_scales_the_columns_of_a_table(self):
        X, y = load_wine(return_X_y=True)  # the largest variance is a million times the smallest
        for T in (symmetric(3, 0.2), pairflip(3, 0.4)):
            assert VolMin(scaling="auto").fit(X, corrupt(y, T, random_state=0)).scaling_ == "each"

    @pytest.mark.parametrize("unit", [1, 10, 30, 100])
    def test_auto_takes_no_common_scale_for_a_column_of_another_unit(self, unit):
        """It would fit the labels no better, and T far worse."""
        rng = np.random.default_rng(1)
        y = rng.integers(3, size=1000)
        X = rng.normal(size=(1000, 3)) * [1, 1, unit] + np.outer(y, [2, -2, 0])
        T = pairflip(3, 0.2)
        auto = VolMin(scaling="auto").fit(X, corrupt(y, T, random_state=1))
        assert auto.scaling_ == "each"
        assert transition_error(auto.transition_, T) < 0.08

    def test_auto_is_each_for_few_rows(self):
        X, y = load_digits(return_X_y=True)
        assert VolMin(scaling="auto", max_iter=2000).fit(X[:150], y[:150]).scaling_ == "each"

    def test_pixels_are_better_with_a_common_scale(self):
        X, y = load_digits(return_X_y=True)
        noisy = corrupt(y[:1200], symmetric(10, 0.4), random_state=0)
        each, common = (VolMin(scaling=s).fit(X[:1200], noisy).score(X[1200:], y[1200:]) for s in ("each", "common"))
        assert common > each + 0.005

    def test_is_saved(self, blobs, tmp_path):
        X, y = blobs
        model = VolMin(scaling="auto").fit(X, y)
        model.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert (loaded.scaling, loaded.scaling_) == ("auto", model.scaling_)
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


class TestKnownT:
    """With T given, VolMin is the logistic model of the clean class behind it."""

    def test_is_logistic_regression_with_the_identity(self, blobs):
        X, y = blobs
        known = VolMin(transition=np.eye(3), scaling="each").fit(X, y)
        np.testing.assert_array_equal(known.transition_, np.eye(3))
        logistic = LogisticRegression(C=2).fit((X - X.mean(axis=0)) / X.std(axis=0), y)  # C = 1 / (ALPHA d)
        direction = (logistic.coef_ - logistic.coef_.mean(axis=0)) / X.std(axis=0)
        ours = known.coef_ - known.coef_.mean(axis=0)
        scale = np.vdot(ours, direction) / np.vdot(direction, direction)  # the temperature
        np.testing.assert_allclose(ours, scale * direction, atol=1e-2)

    @pytest.mark.parametrize(("rows", "accuracy"), [(1200, 0.88), (150, 0.45)])  # 150 rows are too few for folds
    def test_predicts_the_clean_class_and_keeps_T(self, rows, accuracy):
        X, y = load_digits(return_X_y=True)
        T = pairflip(10, 0.4)
        noisy = corrupt(y, T, random_state=0)
        model = VolMin(transition=T).fit(X[:rows], noisy[:rows])
        np.testing.assert_array_equal(model.transition_, T)
        assert model.score(X[1200:], y[1200:]) > accuracy

    def test_is_checked(self, blobs):
        with pytest.raises(ValueError, match="2 x 2 but there are 3 classes"):
            VolMin(transition=np.eye(2)).fit(*blobs)


def test_float32_path_agrees_with_float64(blobs, monkeypatch):
    X, y = blobs
    X = X.astype(np.float32)
    exact = VolMin().fit(X, y)
    monkeypatch.setattr("unflip.transition._cross_fit.SMALL", 0)
    rough = VolMin().fit(X, y)
    np.testing.assert_allclose(rough.transition_, exact.transition_, atol=0.02)


@pytest.mark.parametrize("names", [["x", "yy", "zzz"], [1, 5, 10], [-1.0, 0.0, 2.0]])
def test_labels_of_any_kind(blobs, names):
    X, y = blobs
    model = VolMin().fit(X, np.array(names)[y])
    np.testing.assert_array_equal(model.transition_, VolMin().fit(X, y).transition_)
    assert set(model.predict(X)) <= set(names)


def test_absent_class(blobs):
    X, y = blobs
    model = VolMin(classes=[0, 1, 2, 3]).fit(X, y)
    assert model.transition_.shape == (4, 4)
    assert model.coef_.shape == (4, 2)
    assert np.linalg.cond(model.transition_) <= 100
    assert model.class_prior_[3] < 0.1


@pytest.mark.parametrize(("n", "d", "c"), [(6, 2, 2), (12, 3, 3), (20, 60, 3), (30, 1, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_tiny_data_of_pure_noise_give_a_usable_matrix(n, d, c, seed):
    rng = np.random.default_rng(seed)
    X = 100 * rng.normal(size=(n, d))
    X[:, 0] = 7.0
    model = VolMin().fit(X, np.arange(n) % c)
    assert np.linalg.cond(model.transition_) <= 100
    np.testing.assert_array_equal(model.transition_.argmax(axis=1), range(c))
    assert np.isfinite(model.predict_proba(X)).all()


def test_warns_when_it_stops_early(blobs):
    X, y = blobs
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        VolMin(max_iter=2).fit(X, y)
    enough = VolMin().fit(X, y).n_iter_ - 1  # just short of 1e-10, which changes nothing
    VolMin(max_iter=enough).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=f"max_iter={enough}"):
        VolMin(max_iter=enough, tol=1e-10).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"volume": -1}, "volume must be"),
        ({"alpha": "big"}, "alpha must be"),
        ({"tol": np.nan}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"scaling": "both"}, "scaling must be 'each', 'common' or 'auto'; got 'both'"),
        ({"scaling": None}, "scaling must be"),
        ({"classes": [0, 1]}, "outside classes"),
    ],
)
def test_bad_parameters(blobs, parameters, message):
    with pytest.raises(ValueError, match=message):
        VolMin(**parameters).fit(*blobs)


def test_bad_data(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="one class"):
        VolMin().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="zero"):
        VolMin().fit(X, y, sample_weight=np.zeros(len(y)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("T", "bound"),
    [
        pytest.param(pairflip(10, 0.4), 0.04, id="pair 0.4"),
        pytest.param(symmetric(10, 0.2), 0.05, id="symmetric 0.2"),
        pytest.param(symmetric(10, 0.6), 0.07, id="symmetric 0.6"),
    ],
)
def test_error_on_cifar10_features(features, T, bound):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = VolMin().fit(features.x_train, corrupt(features.y_train, T, random_state=0))
    assert transition_error(model.transition_, T) <= bound
