import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from unflip import load
from unflip.linear import ForwardLogisticClassifier
from unflip.linear.forward_logistic import LossOf
from unflip.metrics import transition_error
from unflip.noise import corrupt, pairflip, symmetric
from unflip.tables import BlockError
from unflip.tables.blocks import Block
from unflip.transition import DualT, VolMin
from unflip.transition._cross_fit import ALPHA, prepare
from unflip.transition._lbfgs import lbfgs

T = pairflip(3, 0.35)


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs(6000, centers=3, n_features=4, cluster_std=4.0, random_state=2)
    X = X * [1, 10, 0.1, 3] + [0, 500, 0, 0]
    return X, y, corrupt(y, T, random_state=0)


@pytest.fixture(scope="module")
def in_memory(data):
    X, _, noisy = data
    return ForwardLogisticClassifier(transition=T, scaling="each").fit(X, noisy)


class TestFit:
    def test_is_the_model_of_volmin(self, data):
        X, _, noisy = data
        a, b = ForwardLogisticClassifier().fit(X, noisy), VolMin().fit(X, noisy)
        np.testing.assert_array_equal(a.coef_, b.coef_)
        np.testing.assert_array_equal(a.transition_, b.transition_)

    def test_identity_gives_logistic_regression(self, data):
        X, y, _ = data
        X = StandardScaler().fit_transform(X)
        plain = LogisticRegression(C=1 / (ALPHA * 4), tol=1e-8).fit(X, y)
        model = ForwardLogisticClassifier(transition=np.eye(3), scaling="each").fit(X, y)
        difference = model.coef_ - model.coef_.mean(axis=0)
        scale = np.linalg.norm(difference) / np.linalg.norm(plain.coef_)  # of the temperature
        np.testing.assert_allclose(difference, scale * plain.coef_, atol=1e-3)
        assert scale == pytest.approx(1, abs=0.1)

    def test_takes_an_estimator_of_t(self, data):
        X, _, noisy = data
        model = ForwardLogisticClassifier(transition=DualT(random_state=0)).fit(X, noisy)
        np.testing.assert_array_equal(model.transition_, DualT(random_state=0).fit(X, noisy).transition_)

    def test_dense_is_sparse(self, data):
        X, _, noisy = data
        X = np.where(np.abs(X) > 3, X, 0)
        a, b = (ForwardLogisticClassifier(transition=T).fit(x, noisy) for x in (X, sparse.csr_array(X)))
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-3)

    def test_corrects_where_logistic_regression_follows_the_noise(self):
        X, y = load_digits(return_X_y=True)
        noisy = corrupt(y[:1200], pairflip(10, 0.35), random_state=0)
        model = ForwardLogisticClassifier().fit(X[:1200], noisy)
        plain = LogisticRegression(max_iter=200).fit(X[:1200] / 16, noisy)
        assert model.score(X[1200:], y[1200:]) > plain.score(X[1200:] / 16, y[1200:]) + 0.1

    def test_saved_and_loaded(self, data, tmp_path):
        X, _, noisy = data
        model = ForwardLogisticClassifier().fit(X, noisy)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


class TestFitSource:
    def test_same_minimum_as_in_memory(self, data):
        X, _, noisy = data
        problem, mean, scale = prepare(X, noisy, None, 3, 0.0, ALPHA * 4, "each")

        def loss(theta):
            value, g_U, g_b, _ = problem.loss(*problem.unpack(theta), T)
            return value, np.concatenate([g_U.ravel(), g_b])

        W, b = problem.unpack(lbfgs(loss, np.zeros(15), gtol=1e-8, maxiter=500)[0])
        model = ForwardLogisticClassifier(transition=T, scaling="each", tol=1e-7)
        model.fit_source((X, noisy), sample_size=500, rows=700)
        assert model.n_passes_ > 1
        W, b = W / scale, b - W / scale @ mean
        expected = X @ (W - W.mean(axis=0)).T + b - b.mean()
        scores = X @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(scores - scores.mean(axis=1, keepdims=True), expected, atol=1e-4)

    def test_same_answer_as_fit(self, data, in_memory):
        X, _, noisy = data
        model = ForwardLogisticClassifier(transition=T, scaling="each").fit_source(
            (X, noisy), sample_size=500, rows=700
        )
        np.testing.assert_allclose(model.predict_proba(X), in_memory.predict_proba(X), atol=0.02)
        np.testing.assert_allclose(model.class_prior_, in_memory.class_prior_, atol=0.005)

    def test_the_sample_holds_all_rows(self, data):
        X, _, noisy = data
        a, b = ForwardLogisticClassifier().fit(X, noisy), ForwardLogisticClassifier().fit_source((X, noisy), rows=900)
        assert b.n_passes_ == 0
        np.testing.assert_allclose(a.transition_, b.transition_, atol=1e-4)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-3)

    def test_t_in_the_passes_is_better_than_t_of_the_sample(self, data):
        X, _, noisy = data
        options = {"sample_size": 600, "rows": 1000}
        model = ForwardLogisticClassifier(guard=False, random_state=3).fit_source((X, noisy), **options)
        start = ForwardLogisticClassifier(guard=False, random_state=3)
        start._fit_passes = lambda *_: None
        start.fit_source((X, noisy), **options)
        assert transition_error(model.transition_, T) < transition_error(start.transition_, T)

    def test_a_guarded_t_is_that_of_the_sample(self, data):
        """All rows would give T several rates again, if the sample did not call for them."""
        X, y, _ = data
        model = ForwardLogisticClassifier(random_state=3).fit_source((X, y), sample_size=600, rows=1000)
        assert model.n_passes_ > 0
        np.testing.assert_allclose(model.transition_, np.eye(3), atol=1e-3)

    def test_a_function_of_blocks_a_file_and_dask(self, data, tmp_path):
        pandas, dask_array = pytest.importorskip("pandas"), pytest.importorskip("dask.array")
        pytest.importorskip("pyarrow")
        X, _, noisy = data
        names = np.array(["ash", "beech", "cedar"])
        frame = pandas.DataFrame(X, columns=list("abcd")).assign(label=names[noisy])
        frame.to_parquet(tmp_path / "rows.parquet", row_group_size=1500)

        def blocks():
            yield from ((X[start : start + 1500], names[noisy[start : start + 1500]]) for start in range(0, 6000, 1500))

        chunked = dask_array.from_array(X, chunks=(1500, 4)), dask_array.from_array(names[noisy], chunks=1500)
        model = ForwardLogisticClassifier(transition=T, scaling="each", tol=1e-6)
        found = [
            clone(model).fit_source(blocks, sample_size=500),
            clone(model).fit_source(tmp_path / "rows.parquet", label="label", sample_size=500),
            clone(model).fit_source(*chunked, sample_size=500),
            clone(model).fit_source((X, names[noisy]), sample_size=500, threads=1),
        ]
        for one in found:
            assert one.classes_.tolist() == names.tolist()
            np.testing.assert_allclose(one.coef_ - found[0].coef_, 0, atol=1e-3)
        assert found[1].feature_names_in_.tolist() == list("abcd")
        assert (found[1].predict(frame[list("abcd")]) == found[0].predict(X)).all()

    def test_weights_are_repetition(self, data):
        X, _, noisy = data
        twice = np.arange(6000) % 2
        repeated = np.concatenate([np.arange(6000), np.flatnonzero(twice)])
        model, options = ForwardLogisticClassifier(transition=T, scaling="each"), {"sample_size": 500, "rows": 1000}
        a = clone(model).fit_source((X, noisy), weights=1.0 + twice, **options)
        b = clone(model).fit_source((X[repeated], noisy[repeated]), **options)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=2e-3)

    def test_sparse_blocks(self, data):
        X, _, noisy = data
        X = np.where(np.abs(X) > 3, X, 0)
        model, options = ForwardLogisticClassifier(transition=T, scaling="each"), {"sample_size": 500, "rows": 1000}
        a, b = (clone(model).fit_source((x, noisy), **options) for x in (X, sparse.csr_array(X)))
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=2e-3)

    def test_a_generator_is_refused(self):
        with pytest.raises(ValueError, match="only once"):
            ForwardLogisticClassifier(classes=[0, 1]).fit_source(iter([]))

    def test_a_bad_row_is_named(self, data):
        X, _, noisy = data
        X = X.copy()
        X[4321, 2] = np.nan
        with pytest.raises(BlockError, match="4321"):
            ForwardLogisticClassifier().fit_source((X, noisy), sample_size=500, rows=1000)

    def test_blocks_add_to_the_loss_of_all_rows(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(90, 4)), rng.integers(3, size=90)
        function = LossOf(
            np.arange(3), rng.normal(size=4), np.arange(1.0, 5), np.float64, rng.normal(size=(3, 4)), np.ones(3),
            symmetric(3, 0.2),
        )  # fmt: skip
        whole = function(Block(X, y))
        parts = function(Block(X[:31], y[:31])) + function(Block(X[31:], y[31:]))
        for name in ("loss", "g_W", "g_b", "counts"):
            np.testing.assert_allclose(getattr(parts, name), getattr(whole, name))
