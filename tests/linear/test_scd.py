"""SCDClassifier: affinities on the simplex, graphs of exactly c components, and what the two stages make together."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.utils.validation import has_fit_parameter

from unflip.linear.lnsi import LNSIClassifier, nearest_neighbors
from unflip.linear.scd import (
    SCDClassifier,
    graph_of_components,
    join_islands,
    simplex_affinities,
    spectral_clusters,
    spectral_embedding,
)
from unflip.noise import corrupt, symmetric


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[:900] * np.random.default_rng(0).uniform(0.9, 1.1, size=(900, 64)), y[:900]
    return X, y, corrupt(y, symmetric(10, 0.2), random_state=0)


def rng():
    return np.random.RandomState(0)


def components(graph):
    return connected_components(graph, directed=False)


def check_graph(graph, component, n_components):
    """Symmetric, not negative, of mean degree one, and its components are those that were said."""
    n, found = components(graph)
    assert n == n_components
    assert adjusted_rand_score(found, component) == 1
    assert abs(graph - graph.T).max() < 1e-12
    assert graph.data.min(initial=1) > 0
    assert graph.sum() == pytest.approx(len(component)) or graph.nnz == 0


class TestAffinities:
    def test_as_in_a_loop(self):
        D = np.random.default_rng(0).uniform(size=(30, 8))
        S = simplex_affinities(D, 3)
        for d, s in zip(D, S, strict=True):
            near = np.argsort(d)
            for j in range(8):
                expected = (d[near[3]] - d[j]) / (3 * d[near[3]] - sum(d[near[:3]])) if j in near[:3] else 0
                assert s[j] == pytest.approx(expected)
        np.testing.assert_allclose(S.sum(axis=1), 1)
        assert np.all(np.count_nonzero(S, axis=1) == 3)

    def test_minimises_over_the_simplex(self):
        """sum_j d_j s_j + gamma s_j^2 with the gamma that leaves k = 2: (k d_(k+1) - sum) / 2."""
        d = np.array([0.4, 0.1, 0.9, 0.2, 0.7])
        gamma = (2 * 0.4 - 0.3) / 2
        best = minimize(
            lambda s: d @ s + gamma * s @ s,
            np.full(5, 0.2),
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda s: s.sum() - 1},
            options={"ftol": 1e-12},
        ).x
        np.testing.assert_allclose(simplex_affinities(d[np.newaxis], 2)[0], best, atol=1e-5)

    def test_equal_distances_share_alike(self):
        S = simplex_affinities(np.full((2, 5), 0.3), 3)
        np.testing.assert_allclose(np.sort(S, axis=1), [[0, 0, 1 / 3, 1 / 3, 1 / 3]] * 2)

    @pytest.mark.parametrize("k", [1, 2, 3, 10])
    def test_more_neighbours_asked_for_than_there_are(self, k):
        D = np.random.default_rng(0).uniform(size=(6, 2))
        np.testing.assert_allclose(np.sort(simplex_affinities(D, k), axis=1), [[0, 1]] * 6)
        np.testing.assert_array_equal(simplex_affinities(D[:, :1], k), 1)


class TestEmbedding:
    def test_lanczos_spans_the_space_of_all_eigenvectors(self, digits, monkeypatch):
        X, _, _ = digits
        distances, indices = nearest_neighbors(X, 12)
        S = simplex_affinities(distances**2, 8)
        graph = sparse.csr_array((S.ravel(), indices.ravel(), np.arange(0, S.size + 1, 12)), shape=(900, 900))
        graph = (graph + graph.T) / 2
        quick = spectral_embedding(graph, 10, rng())
        monkeypatch.setattr("unflip.linear.scd.SMALL", 10_000)
        full = spectral_embedding(graph, 10, rng())
        for Q in (quick, full):
            assert np.mean(np.sum(Q**2, axis=1)) == pytest.approx(1)
        # Rows of the same subspace have the same inner products, whatever the basis.
        assert np.linalg.norm(quick @ quick.T - full @ full.T) < 0.01 * np.linalg.norm(full @ full.T)

    def test_clusters_are_never_empty(self):
        for Q in (np.ones((7, 3)), np.zeros((7, 3)), np.eye(7)[:, :3]):
            clusters = spectral_clusters(Q, np.zeros(7, dtype=np.intp), 3)
            assert np.all(np.bincount(clusters, minlength=3) > 0)

    def test_a_class_that_nobody_is_predicted_as_gets_its_cluster(self):
        Q = np.eye(3)[np.repeat([0, 1, 2], 5)]
        clusters = spectral_clusters(Q, np.repeat([0, 0, 2], 5), 3)
        assert adjusted_rand_score(clusters, np.repeat([0, 1, 2], 5)) == 1
        np.testing.assert_array_equal(clusters[10:], 2)


class TestGraphOfComponents:
    @pytest.mark.parametrize("n", [400, 1600])
    def test_blobs_with_islands(self, n):
        """Four blobs far apart, and three islands of twelve samples, small or not so small beside a blob."""
        centres = [(0, 0), (0, 20), (20, 0), (20, 20)]
        X, y = make_blobs(n, centers=centres, cluster_std=0.3, random_state=0)
        islands, i = make_blobs(36, centers=[(-6, 0), (26, 20), (20, -6)], cluster_std=0.05, random_state=0)
        X, y = np.vstack([X, islands]), np.concatenate([y, np.array([0, 3, 2])[i]])  # with the nearest blob
        _, indices = nearest_neighbors(X, 10)
        everyone = (np.ones(indices.size), indices.ravel(), np.arange(0, indices.size + 1, 10))
        assert components(sparse.csr_array(everyone, shape=(n + 36, n + 36)))[0] == 7
        scores = -np.stack([np.hypot(*(X - centre).T) for centre in centres], axis=1)
        given = indices.copy()
        graph, component = graph_of_components(scores, indices, 4, 5, rng())
        check_graph(graph, component, 4)
        np.testing.assert_array_equal(component, y)
        np.testing.assert_array_equal(indices, given)  # they serve the next round too

    @pytest.mark.parametrize("n_components", [2, 7, 10, 25])
    def test_digits(self, digits, n_components):
        X, y, noisy = digits
        _, indices = nearest_neighbors(X, 30)
        scores = LNSIClassifier().fit(X, noisy).decision_function(X)
        graph, component = graph_of_components(scores[:, :n_components], indices, n_components, 10, rng())
        check_graph(graph, component, n_components)
        if n_components == 10:
            assert adjusted_rand_score(y, component) > 0.8
            assert np.mean(component == y) > 0.85

    @pytest.mark.parametrize(("n", "c", "k"), [(2, 2, 1), (2, 3, 5), (3, 2, 10), (10, 3, 10), (12, 12, 2), (30, 2, 1)])
    def test_few_samples(self, n, c, k):
        F = np.random.default_rng(0).normal(size=(n, c))
        graph, component = graph_of_components(F, nearest_neighbors(F, 3 * k)[1], c, k, rng())
        check_graph(graph, component, min(n, c))

    @pytest.mark.parametrize("n", [20, 500])
    def test_equal_samples(self, n):
        F = np.ones((n, 3))
        graph, component = graph_of_components(F, nearest_neighbors(F, 9)[1], 3, 3, rng())
        check_graph(graph, component, 3)

    @pytest.mark.parametrize("converged", [0, 1, 3])
    def test_lanczos_that_does_not_converge(self, digits, monkeypatch, converged):
        X, _, noisy = digits
        scores = np.eye(10)[noisy] + X[:, :10] / 100
        calls = []

        def fail(operator, k, **options):
            calls.append(options["ncv"])
            vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(900, 3)))[0][:, :converged]
            raise ArpackNoConvergence("no convergence", np.ones(converged), vectors)

        monkeypatch.setattr("unflip.linear.scd.eigsh", fail)
        graph, component = graph_of_components(scores, nearest_neighbors(X, 15)[1], 10, 5, rng())
        check_graph(graph, component, 10)
        assert calls[0] < calls[1]  # it tried again with more vectors

    def test_islands_are_joined_where_they_come_nearest(self):
        F = np.array([[0.0], [1.0], [2.0], [5.0], [4.0], [20.0], [21.0], [23.0]])
        parts = np.array([0, 0, 0, 0, 0, 1, 1, 0])  # the last sample is nearer to the other part
        graph = np.zeros((8, 8))
        for i, j in [(0, 1), (1, 2), (3, 4), (5, 6)]:
            graph[i, j] = graph[j, i] = 1
        joined, component = join_islands(sparse.csr_array(graph), parts, F, 0.25)
        graph[4, 2] = graph[2, 4] = graph[6, 7] = graph[7, 6] = 0.25
        np.testing.assert_array_equal(joined.toarray(), graph)
        np.testing.assert_array_equal(component, [0, 0, 0, 0, 0, 1, 1, 1])


class TestClassifier:
    def test_on_digits(self, digits):
        X, y, noisy = digits
        model = SCDClassifier(random_state=0).fit(X, noisy)
        assert model.score(X, y) > 0.9
        assert roc_auc_score(noisy != y, model.outlier_score_) > 0.98
        assert np.unique(model.component_).tolist() == list(range(10))
        assert np.mean(model.component_ == y) > 0.85
        assert 1 <= model.n_rounds_ <= 3

    def test_components_are_the_classes_where_those_lie_apart(self):
        X, y = make_blobs(400, centers=4, n_features=5, cluster_std=0.5, random_state=3)
        noisy = corrupt(y, symmetric(4, 0.4), random_state=0)
        model = SCDClassifier(random_state=0).fit(X, np.array(list("abcd"))[noisy])
        np.testing.assert_array_equal(model.classes_[model.component_], np.array(list("abcd"))[y])
        assert np.mean(model.predict(X) == np.array(list("abcd"))[y]) == 1

    def test_without_weight_of_the_graph_it_is_lnsi(self, digits):
        X, _, noisy = digits
        a = SCDClassifier(beta=0.0, tol=1e-7, random_state=0).fit(X, noisy)
        b = LNSIClassifier(beta=0.0, tol=1e-7).fit(X, noisy)
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-4)
        assert a.n_rounds_ == 1  # no prediction changed

    def test_the_learned_graph_smooths_the_scores_within_components(self, digits):
        X, _, noisy = digits

        def spread(model):
            F = model.decision_function(X)
            F = F / F.std()
            return sum(
                np.sum((F[part] - F[part].mean(axis=0)) ** 2) for part in model.component_ == np.arange(10)[:, None]
            )

        weak, strong = (SCDClassifier(beta=beta, random_state=0).fit(X, noisy) for beta in (0.0, 100.0))
        strong.component_ = weak.component_
        assert spread(strong) < 0.95 * spread(weak)

    def test_rank(self, digits):
        X, _, noisy = digits
        model = SCDClassifier(rank=4, random_state=0).fit(X, noisy)
        assert np.linalg.matrix_rank(model.coef_) == 4
        free, full = (SCDClassifier(rank=rank, random_state=0).fit(X, noisy) for rank in (None, 10))
        np.testing.assert_array_equal(free.coef_, full.coef_)

    def test_permuting_classes_permutes_everything(self, digits):
        X, _, noisy = digits
        order = np.random.default_rng(0).permutation(10)
        a = SCDClassifier(random_state=0).fit(X, noisy)
        b = SCDClassifier(random_state=0).fit(X, order[noisy])
        np.testing.assert_array_equal(a.coef_, b.coef_[order])
        np.testing.assert_array_equal(order[a.component_], b.component_)

    def test_same_seed_same_result(self, digits):
        X, _, noisy = digits
        a, b = (SCDClassifier(random_state=5).fit(X, noisy) for _ in range(2))
        np.testing.assert_array_equal(a.coef_, b.coef_)
        np.testing.assert_array_equal(a.component_, b.component_)

    def test_sparse_equals_dense(self, digits):
        X, _, noisy = digits
        a = SCDClassifier(random_state=0).fit(X, noisy)
        b = SCDClassifier(random_state=0).fit(sparse.csr_array(X), noisy)
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
        np.testing.assert_array_equal(a.component_, b.component_)

    @pytest.mark.parametrize("n", [4, 10, 25])
    def test_few_samples(self, n):
        X, y = make_blobs(n, centers=2, cluster_std=0.3, random_state=0)
        model = SCDClassifier(random_state=0).fit(X, y)
        assert set(model.component_) == {0, 1}
        assert model.score(X, y) == 1

    def test_an_emptied_class_has_its_component(self, digits):
        X, _, noisy = digits
        rows = noisy != 3
        model = SCDClassifier(classes=np.arange(10), random_state=0).fit(X[rows], noisy[rows])
        assert model.predict_proba(X).shape == (900, 10)
        assert len(np.unique(model.component_)) == 10
        assert not np.any(model.predict(X) == 3)

    def test_says_when_it_has_not_converged(self, digits):
        X, _, noisy = digits
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            SCDClassifier(max_iter=2, n_rounds=1, random_state=0).fit(X, noisy)

    def test_refuses_weights(self, digits):
        X, _, noisy = digits
        with pytest.raises(TypeError, match="sample_weight has no place.*leave it out"):
            SCDClassifier().fit(X, noisy, sample_weight=np.ones(900))
        assert not has_fit_parameter(SCDClassifier(), "sample_weight")

    @pytest.mark.parametrize(
        ("parameters", "match"),
        [
            ({"rank": 0}, "rank must be a whole number >= 1; got 0"),
            ({"n_rounds": 0}, "n_rounds must be a whole number >= 1; got 0"),
            ({"n_neighbors": True}, "n_neighbors must be a whole number >= 1; got True"),
            ({"alpha": np.inf}, "alpha must be a number > 0"),
        ],
    )
    def test_bad_parameters(self, digits, parameters, match):
        X, _, noisy = digits
        with pytest.raises(ValueError, match=match):
            SCDClassifier(**parameters).fit(X, noisy)


def test_learns_on_few_real_features(features):
    """5,000 rows of 320 features with two labels of five wrong: about what LNSI reaches."""
    X, y, X_test, y_test = features
    noisy = corrupt(y[:5000], symmetric(10, 0.4), random_state=0)
    model = SCDClassifier(random_state=0).fit(X[:5000], noisy)
    assert model.score(X_test, y_test) > 0.79
    assert adjusted_rand_score(y[:5000], model.component_) > 0.5
