"""AnchorPoints, and DualT which shares its classifier: T from the noisy posterior."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from unflip.metrics import transition_error
from unflip.noise import corrupt, pairflip
from unflip.transition import AnchorPoints, DualT
from unflip.transition.anchor_points import anchor_rows

BOTH = pytest.mark.parametrize("estimator", [AnchorPoints, DualT])


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(2000, centers=[[0, 0], [4, 0], [0, 4]], random_state=2)
    T = pairflip(3, 0.2)
    return X, corrupt(y, T, random_state=0), T


class TestAnchorRows:
    def test_maximum(self):
        proba = np.array([[0.7, 0.3], [0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
        np.testing.assert_allclose(anchor_rows(proba, np.ones(4), None), [[0.9, 0.1], [0.2, 0.8]])

    def test_percentile_is_the_inverted_distribution(self):
        p = np.random.default_rng(0).random(101)
        proba = np.column_stack([p, 1 - p])
        for percentile in (10.0, 50.0, 97.0, 100.0):
            expected = np.percentile(p, percentile, method="inverted_cdf")
            assert anchor_rows(proba, np.ones(101), percentile)[0, 0] == pytest.approx(expected)

    def test_weights_are_repetition(self):
        rng = np.random.default_rng(0)
        proba, counts = rng.dirichlet(np.ones(3), size=50), rng.integers(1, 5, size=50)
        repeated = proba.repeat(counts, axis=0)
        np.testing.assert_array_equal(
            anchor_rows(proba, counts.astype(float), 90.0), anchor_rows(repeated, np.ones(len(repeated)), 90.0)
        )

    def test_class_without_samples_keeps_its_row(self):
        assert anchor_rows(np.array([[1.0, 0.0], [1.0, 0.0]]), np.ones(2), 97.0)[1].tolist() == [0, 1]


# The shares among 200 neighbours are a calibrated posterior: the anchors' rows are T, and T_spade doubles the noise.
@pytest.mark.parametrize(("estimator", "power"), [(AnchorPoints, 1), (DualT, 2)])
def test_calibrated_posterior_gives_a_power_of_the_truth(estimator, power, blobs):
    X, y, T = blobs
    model = estimator(KNeighborsClassifier(200), percentile=80.0).fit(X, y)
    assert transition_error(model.transition_, np.linalg.matrix_power(T, power)) < 0.3


@BOTH
class TestBoth:
    def test_clean_labels_give_nearly_the_identity(self, estimator):
        X, y = make_blobs(600, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
        assert transition_error(estimator().fit(X, y).transition_, np.eye(3)) < 0.05

    def test_dense_is_sparse(self, estimator, blobs):
        X, y, _ = blobs
        a, b = estimator().fit(X, y), estimator().fit(sparse.csr_array(X), y)
        np.testing.assert_allclose(a.transition_, b.transition_, atol=1e-6)

    def test_labels_of_any_kind(self, estimator, blobs):
        X, y, _ = blobs
        a, b = estimator().fit(X, y), estimator().fit(X, np.array(["p", "q", "r"])[y])
        np.testing.assert_array_equal(a.transition_, b.transition_)
        assert b.predict(X).dtype.kind == "U"

    def test_absent_class(self, estimator, blobs):
        X, y, _ = blobs
        model = estimator(classes=[0, 1, 2, 3]).fit(X, y)
        assert model.transition_.shape == (4, 4)
        assert model.predict_proba(X).shape == (len(X), 4)
        np.testing.assert_allclose(model.transition_.sum(axis=1), 1)

    def test_maximum_and_random_state_of_the_classifier(self, estimator, blobs):
        X, y, _ = blobs
        model = estimator(LogisticRegression(), percentile=None, random_state=5).fit(X, y)
        assert model.classifier_.random_state == 5

    def test_bad_input(self, estimator, blobs):
        X, y, _ = blobs
        with pytest.raises(ValueError, match="percentile must be in"):
            estimator(percentile=0).fit(X, y)
        with pytest.raises(ValueError, match="LinearSVC has none"):
            estimator(LinearSVC()).fit(X, y)
        with pytest.raises(ValueError, match="does not take sample_weight"):
            estimator(KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(len(y)))
        with pytest.raises(ValueError, match="zero"):
            estimator().fit(X, y, sample_weight=np.zeros(len(y)))
