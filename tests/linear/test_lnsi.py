"""LNSIClassifier: its solver against a numerical minimiser and the optimality conditions, its graph, its outliers."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import has_fit_parameter

from unflip.linear.lnsi import (
    LNSIClassifier,
    ScaledFeatures,
    gaussian_graph,
    laplacian,
    nearest_neighbors,
    shrink_rows,
    shrink_singular_values,
    solve_low_rank,
)
from unflip.noise import corrupt, pairflip, symmetric


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 3
    X = 2 * rng.normal(size=(3, 3))[y] + rng.normal(1, 1, size=(40, 3))
    return X, y, corrupt(y, symmetric(3, 0.3), random_state=0)


@pytest.fixture(scope="module")
def digits():
    """Without the ties of distances that whole numbers have: which neighbour wins one is no business of a test."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:900] * np.random.default_rng(0).uniform(0.9, 1.1, size=(900, 64)), y[:900]
    return X, y, corrupt(y, symmetric(10, 0.2), random_state=0)


def graph_matrix(A, k=5):
    return A.gram(gaussian_graph(*nearest_neighbors(A.X, k)))


def objective(A, Y, H, W, b, alpha, beta, smooth=0.0):
    """With E = Y - A W - 1 b'; smooth rounds the corners of the two norms."""
    rows = np.sum((Y - A.times(W) - b) ** 2, axis=1)
    singular = np.linalg.svd(W, compute_uv=False)
    nuclear = np.sum(np.sqrt(singular**2 + smooth**2))
    return nuclear + alpha * np.sum(np.sqrt(rows + smooth**2)) + beta / 2 * np.trace(W.T @ H @ W)


class TestSolver:
    @pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.0), (1.0, 1.0), (5.0, 0.5), (2.0, 50.0)])
    def test_minimises_the_objective(self, problem, alpha, beta):
        """Against BFGS on the objective with rounded corners, from which the corners are sharpened step by step."""
        X, _, noisy = problem
        A, Y = ScaledFeatures(X), np.eye(3)[noisy]
        H = graph_matrix(A)
        fit = solve_low_rank(A, Y, H, alpha=alpha, beta=beta, tol=1e-9, max_iter=5000)
        theta = np.zeros(12)
        for smooth in (1e-1, 1e-2, 1e-3, 1e-4):
            theta = minimize(
                lambda t, s=smooth: objective(A, Y, H, t[:9].reshape(3, 3), t[9:], alpha, beta, s), theta, method="BFGS"
            ).x
        reached = objective(A, Y, H, fit.W, fit.b, alpha, beta)
        twin = objective(A, Y, H, theta[:9].reshape(3, 3), theta[9:], alpha, beta)
        assert reached <= twin * (1 + 1e-7)
        assert reached == pytest.approx(twin, rel=1e-4)

    @pytest.mark.parametrize(("alpha", "beta"), [(0.7, 0.0), (3.0, 2.0)])
    def test_satisfies_the_optimality_conditions(self, problem, alpha, beta):
        """G, the gradient of the errors, has no mean, and A'G - beta H W is a subgradient of the nuclear norm at W."""
        X, _, noisy = problem
        A, Y = ScaledFeatures(X), np.eye(3)[noisy]
        H = graph_matrix(A)
        W, b, E, *_ = solve_low_rank(A, Y, H, alpha=alpha, beta=beta, tol=1e-10, max_iter=5000)
        errors = Y - A.times(W) - b
        np.testing.assert_allclose(E, errors, atol=1e-8)
        lengths = np.linalg.norm(errors, axis=1, keepdims=True)
        assert lengths.min() > 1e-3  # else the gradient is not unique
        G = alpha * errors / lengths
        np.testing.assert_allclose(G.sum(axis=0), 0, atol=1e-6)
        Z = A.transposed_times(G) - beta * H @ W
        assert np.linalg.norm(Z, 2) <= 1 + 1e-6
        assert np.sum(Z * W) == pytest.approx(np.linalg.norm(W, "nuc"), abs=1e-6)
        assert np.linalg.norm(W) > 0.1

    def test_errors_too_cheap_give_no_scores(self, problem):
        """|A'G| < 1 for every G if alpha is small: W = 0, and b is the geometric median of the labels."""
        X, _, noisy = problem
        A, Y = ScaledFeatures(X), np.eye(3)[noisy]
        fit = solve_low_rank(A, Y, np.zeros((3, 3)), alpha=0.05, beta=0.0, tol=1e-8, max_iter=5000)
        np.testing.assert_array_equal(fit.W, 0)
        median = minimize(lambda b: np.sum(np.linalg.norm(Y - b, axis=1)), np.full(3, 1 / 3), tol=1e-12).x
        np.testing.assert_allclose(fit.b, median, atol=1e-4)

    def test_errors_too_dear_give_none(self):
        """With more features than samples the labels are met exactly; the rows of E are then zero, not just small."""
        rng = np.random.default_rng(0)
        A, Y = ScaledFeatures(rng.normal(size=(12, 30))), np.eye(3)[np.arange(12) % 3]
        fit = solve_low_rank(A, Y, np.zeros((30, 30)), alpha=1e3, beta=0.0, tol=1e-8, max_iter=5000)
        np.testing.assert_array_equal(fit.E, 0)
        np.testing.assert_allclose(A.times(fit.W) + fit.b, Y, atol=1e-6)

    def test_a_heavy_graph_flattens_the_scores(self, problem):
        X, _, noisy = problem
        A, Y = ScaledFeatures(X), np.eye(3)[noisy]
        H = graph_matrix(A)
        rough = [
            np.trace(fit.W.T @ H @ fit.W)
            for beta in (0.0, 1.0, 10.0, 100.0)
            for fit in [solve_low_rank(A, Y, H, alpha=5.0, beta=beta, tol=1e-7, max_iter=5000)]
        ]
        assert np.all(np.diff(rough) < 0)

    def test_goes_on_from_an_earlier_solution(self, problem):
        X, _, noisy = problem
        A, Y = ScaledFeatures(X), np.eye(3)[noisy]
        options = {"alpha": 2.0, "beta": 1.0, "tol": 1e-6, "max_iter": 5000}
        H = graph_matrix(A)
        first = solve_low_rank(A, Y, H, **options)
        kept = [np.copy(part) for part in first.state]
        again = solve_low_rank(A, Y, H, start=first, **options)
        assert again.n_iter < first.n_iter
        np.testing.assert_allclose(again.W, first.W, atol=1e-4)
        for before, after in zip(kept, first.state, strict=True):
            np.testing.assert_array_equal(before, after)

    def test_a_basis_of_the_rows(self, problem):
        """Against BFGS over the coefficients in that basis, whose nuclear norm is that of W."""
        X, _, noisy = problem
        A, Y = ScaledFeatures(X), np.eye(3)[noisy]
        H = graph_matrix(A)
        basis = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 2)))[0]
        fit = solve_low_rank(A, Y, H, alpha=3.0, beta=1.0, basis=basis, tol=1e-9, max_iter=5000)
        np.testing.assert_allclose(fit.W @ basis @ basis.T, fit.W, atol=1e-12)

        def bounded(t, smooth):
            return objective(A, Y, H, t[:6].reshape(3, 2) @ basis.T, t[6:], 3.0, 1.0, smooth)

        theta = np.zeros(9)
        for smooth in (1e-1, 1e-2, 1e-3, 1e-4):
            theta = minimize(bounded, theta, args=(smooth,), method="BFGS").x
        reached = objective(A, Y, H, fit.W, fit.b, 3.0, 1.0)
        assert reached <= bounded(theta, 0) * (1 + 1e-7)
        assert reached == pytest.approx(bounded(theta, 0), rel=1e-4)

    @pytest.mark.parametrize("threshold", [0.0, 0.8, 100.0])
    def test_rows_shrink_as_in_a_loop(self, threshold):
        Q = np.random.default_rng(0).normal(size=(20, 3))
        Q[0] = 0
        expected = np.zeros_like(Q)
        for i, q in enumerate(Q):
            length = np.sqrt(sum(v**2 for v in q))
            if length > threshold:
                expected[i] = (1 - threshold / length) * q
        np.testing.assert_allclose(shrink_rows(Q, threshold), expected, atol=1e-14)

    def test_singular_values_shrink_as_in_a_loop(self):
        Q = np.random.default_rng(0).normal(size=(6, 4))
        U, s, V = np.linalg.svd(Q)
        expected = sum(max(s[i] - 1.2, 0) * np.outer(U[:, i], V[i]) for i in range(4))
        np.testing.assert_allclose(shrink_singular_values(Q, 1.2), expected, atol=1e-14)
        assert 0 < np.sum(s > 1.2) < 4  # the threshold takes some and leaves some


class TestGraph:
    def test_laplacian_as_in_a_loop(self, problem):
        X, _, noisy = problem
        n, k = len(X), 4
        D = np.array([[np.linalg.norm(a - b) for b in X] for a in X])
        near = [set(np.argsort(row)[1 : k + 1]) for row in D]
        h = np.median([D[i, j] for i in range(n) for j in near[i]])
        graph = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                if j in near[i] or i in near[j]:
                    graph[i, j] = np.exp(-(D[i, j] ** 2) / (2 * h**2))
        graph *= n / graph.sum()
        made = gaussian_graph(*nearest_neighbors(X, k))
        np.testing.assert_allclose(made.toarray(), graph, atol=1e-12)
        F = np.eye(3)[noisy] + X
        energy = sum(graph[i, j] * np.sum((F[i] - F[j]) ** 2) for i in range(n) for j in range(n)) / 2
        assert np.trace(F.T @ (laplacian(made) @ F)) == pytest.approx(energy)

    def test_the_quadratic_form_of_the_features(self, problem):
        X, _, _ = problem
        graph = gaussian_graph(*nearest_neighbors(X, 5))
        L = laplacian(graph)
        Z = (X - X.mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0))
        for kind in (np.asarray, sparse.csr_array):
            A = ScaledFeatures(kind(X))
            np.testing.assert_allclose(A.gram(graph), Z.T @ L.toarray() @ Z, atol=1e-12)
            np.testing.assert_allclose(A.gram(), Z.T @ Z, atol=1e-12)
            np.testing.assert_allclose(A.times(X[:3]), Z @ X[:3], atol=1e-12)
            np.testing.assert_allclose(A.transposed_times(X), Z.T @ X, atol=1e-12)

    def test_equal_samples(self):
        graph = gaussian_graph(*nearest_neighbors(np.ones((6, 2)), 3))
        assert np.isfinite(graph.data).all()
        assert graph.sum() == pytest.approx(6)

    def test_one_sample_has_no_neighbour(self):
        with pytest.raises(ValueError, match="at least two samples; got one"):
            LNSIClassifier(classes=[0, 1]).fit([[1.0, 2.0]], [0])


class TestClassifier:
    def test_outliers_are_the_flipped_labels(self, digits):
        X, y, noisy = digits
        model = LNSIClassifier().fit(X, noisy)
        assert model.outlier_score_.shape == (len(y),)
        assert roc_auc_score(noisy != y, model.outlier_score_) > 0.98
        assert model.score(X, y) > 0.9

    def test_the_scores_and_the_errors_make_up_the_labels(self, digits):
        X, _, noisy = digits
        model = LNSIClassifier(tol=1e-6).fit(X, noisy)
        left = np.linalg.norm(np.eye(10)[noisy] - model.decision_function(X), axis=1)
        np.testing.assert_allclose(model.outlier_score_, left, atol=1e-4)
        assert model.residuals_.max() <= 1e-6

    def test_alpha_lowers_the_rank(self, digits):
        X, _, noisy = digits
        ranks = [np.linalg.matrix_rank(LNSIClassifier(alpha=a).fit(X, noisy).coef_) for a in (0.1, 1.0, 10.0)]
        assert ranks[0] < ranks[1] < ranks[2] == 9  # the scores of the classes sum to one

    def test_units_and_origin_of_the_features_do_not_matter(self, digits):
        X, _, noisy = digits
        a = LNSIClassifier().fit(X, noisy)
        b = LNSIClassifier().fit(1000 * X - 70, noisy)
        np.testing.assert_allclose(a.outlier_score_, b.outlier_score_, atol=1e-6)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(1000 * X - 70), atol=1e-6)

    def test_twice_the_samples_want_the_same_alpha(self, digits):
        """Copies of all samples double each sum but |W|_*: sqrt(2) of it comes back by the norm of A."""
        X, _, noisy = digits
        a = LNSIClassifier(alpha=10.0, beta=0.0, tol=1e-7).fit(X, noisy)
        b = LNSIClassifier(alpha=10.0 / np.sqrt(2), beta=0.0, tol=1e-7).fit(np.vstack([X, X]), np.tile(noisy, 2))
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-5)

    def test_permuting_classes_permutes_everything(self, digits):
        X, _, noisy = digits
        order = np.random.default_rng(0).permutation(10)
        a, b = LNSIClassifier().fit(X, noisy), LNSIClassifier().fit(X, order[noisy])
        np.testing.assert_array_equal(a.coef_, b.coef_[order])
        np.testing.assert_array_equal(a.intercept_, b.intercept_[order])
        np.testing.assert_array_equal(order[a.predict(X)], b.predict(X))

    @pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
    def test_sparse_equals_dense(self, digits, kind):
        X, _, noisy = digits
        a, b = LNSIClassifier().fit(X, noisy), LNSIClassifier().fit(kind(X), noisy)
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)
        np.testing.assert_allclose(a.intercept_, b.intercept_, atol=1e-8)

    @pytest.mark.parametrize("alpha", [1.0, 10.0, 1000.0])
    def test_float32(self, digits, alpha):
        """Also where alpha multiplies what rounding leaves of the residuals."""
        X, _, noisy = digits
        a = LNSIClassifier(alpha=alpha).fit(X, noisy)
        b = LNSIClassifier(alpha=alpha).fit(X.astype(np.float32), noisy)
        assert b.decision_function(X.astype(np.float32)).dtype == np.float32
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-2)

    def test_constant_features_leave_the_most_frequent_class(self):
        y = np.array([0, 1, 1, 2, 1, 1])
        assert np.all(LNSIClassifier().fit(np.ones((6, 3)), y).predict(np.ones((2, 3))) == 1)

    def test_without_a_graph_no_neighbours_are_sought(self, digits, monkeypatch):
        X, _, noisy = digits
        monkeypatch.setattr("unflip.linear.lnsi.nearest_neighbors", None)
        assert LNSIClassifier(beta=0.0).fit(X, noisy).score(X, noisy) > 0.7

    def test_says_when_it_has_not_converged(self, digits):
        X, _, noisy = digits
        with pytest.warns(ConvergenceWarning, match="max_iter=3 iterations.*above tol=0.0001; raise max_iter"):
            model = LNSIClassifier(max_iter=3).fit(X, noisy)
        assert model.n_iter_ == 3
        assert model.residuals_.max() > 1e-4

    def test_refuses_weights(self, problem):
        X, _, noisy = problem
        with pytest.raises(TypeError, match="sample_weight has no place.*leave it out"):
            LNSIClassifier().fit(X, noisy, sample_weight=np.ones(40))
        assert not has_fit_parameter(LNSIClassifier(), "sample_weight")


BAD = {
    "alpha": ({"alpha": 0.0}, "alpha must be a number > 0; got 0.0"),
    "alpha of text": ({"alpha": "big"}, "alpha must be a number > 0; got 'big'"),
    "beta": ({"beta": -1.0}, "beta must be a number >= 0"),
    "tol": ({"tol": np.nan}, "tol must be a number > 0"),
    "neighbours": ({"n_neighbors": 0}, "n_neighbors must be a whole number >= 1; got 0"),
    "iterations": ({"max_iter": 2.5}, "max_iter must be a whole number >= 1; got 2.5"),
    "classes": ({"classes": [0, 1]}, r"outside classes: \[2\]"),
}


@pytest.mark.parametrize(("parameters", "match"), BAD.values(), ids=BAD)
def test_bad_input(problem, parameters, match):
    X, _, noisy = problem
    with pytest.raises(ValueError, match=match):
        LNSIClassifier(**parameters).fit(X, noisy)


@pytest.mark.parametrize(
    "T",
    [symmetric(10, 0.4), pytest.param(symmetric(10, 0.6), marks=pytest.mark.slow), pairflip(10, 0.4)],
    ids=["sym40", "sym60", "pair40"],
)
def test_beats_ridge_on_few_real_features(features, T):
    """5,000 rows of 320 features: the penalty and the row lengths resist what the squared loss follows."""
    X, y, X_test, y_test = features
    noisy = corrupt(y[:5000], T, random_state=0)
    model = clone(LNSIClassifier()).fit(X[:5000], noisy)
    ridge = RidgeClassifier().fit(X[:5000], noisy)
    assert model.score(X_test, y_test) > ridge.score(X_test, y_test) + 0.01
    assert roc_auc_score(noisy != y[:5000], model.outlier_score_) > 0.9
