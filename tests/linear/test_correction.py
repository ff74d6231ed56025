"""The correction of sums: one matrix for a few classes, factors for many, all the same numbers."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import unflip.linear._correction as correction
from unflip.core import ClassSums, clean_prior, corrected_labels
from unflip.linear import MCLDCEClassifier, MCLDCEClassifierCV
from unflip.linear._correction import Correction
from unflip.noise import asymmetric, corrupt, pairflip, symmetric

MATRICES = {
    "pair": pairflip(6, 0.4),
    "symmetric": symmetric(6, 0.6),
    "columns alike": 0.4 * np.eye(6) + 0.6 * np.tile([0.1, 0.3, 0.2, 0.05, 0.05, 0.3], (6, 1)),
    "one-sided": asymmetric(6, {0: (1, 0.3), 4: (2, 0.45)}),
    "dense": 0.5 * np.eye(6) + 0.5 * np.random.default_rng(0).dirichlet(np.ones(6), size=6),
    "not dominant": 0.3 * np.eye(6) + 0.7 * np.roll(np.eye(6), 1, axis=1),
}


@pytest.fixture
def sums():
    rng = np.random.default_rng(0)
    y = np.arange(600) % 6
    X = rng.normal(size=(6, 4))[y] + rng.normal(1, 1, size=(600, 4))
    return ClassSums.of(X, corrupt(y, pairflip(6, 0.2), random_state=0), 6)


def pairflip_sparse(c, rate):
    i = np.arange(c)
    entries = np.append(np.full(c, 1 - rate), np.full(c, rate))
    return sparse.csr_array((entries, (np.append(i, i), np.append(i, (i + 1) % c))), shape=(c, c))


@pytest.mark.parametrize("operator", ["exact", "published"])
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("kind", ["few", "many", "sparse"])
def test_is_the_product_with_the_corrected_labels(sums, name, operator, kind, monkeypatch):
    T = MATRICES[name]
    prior = clean_prior(sums.noisy_prior, T)
    labels = corrected_labels(T, prior, operator)
    if kind == "many":
        monkeypatch.setattr(correction, "MANY_CLASSES", 2)
    correct = Correction(sparse.csc_array(T) if kind == "sparse" else T, sums.noisy_prior, operator)
    clean = correct(sums)
    np.testing.assert_allclose(correct.prior, prior, atol=1e-12)
    np.testing.assert_allclose(clean.counts, sums.counts @ labels, atol=1e-9)
    np.testing.assert_allclose(clean.centred_sums, labels.T @ sums.centred_sums, atol=1e-9)
    assert clean.weight == pytest.approx(600)
    assert clean.scatter is sums.scatter


def test_a_published_operator_that_is_singular_has_a_pseudo_inverse(sums, monkeypatch):
    T = np.roll(np.eye(6), 3, axis=1)  # every label flips, half of them each way: the published M mixes pairs fully
    labels = corrected_labels(T, clean_prior(sums.noisy_prior, T), "published")
    monkeypatch.setattr(correction, "MANY_CLASSES", 2)
    for given in (T, sparse.csc_array(T)):
        clean = Correction(given, sums.noisy_prior, "published")(sums)
        np.testing.assert_allclose(clean.centred_sums, labels.T @ sums.centred_sums, atol=1e-8)


def test_structure_is_seen_where_it_is_and_only_there():
    found = correction._diagonal_plus_columns(MATRICES["columns alike"])
    np.testing.assert_allclose(found[0], 0.4)
    np.testing.assert_allclose(found[1], [0.06, 0.18, 0.12, 0.03, 0.03, 0.18])
    assert correction._diagonal_plus_columns(MATRICES["symmetric"]) is not None
    for name in ("pair", "dense", "one-sided"):
        assert correction._diagonal_plus_columns(MATRICES[name]) is None


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize("operator", ["exact", "published"])
def test_a_sparse_T_gives_the_same_model(kind, operator, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(3, 5))[y] * 2 + rng.normal(size=(300, 5))
    T = asymmetric(3, {0: (1, 0.3), 2: (0, 0.2)})
    noisy = corrupt(y, T, random_state=0)
    dense = MCLDCEClassifier(T, operator=operator).fit(X, noisy)
    model = MCLDCEClassifier(kind(T), operator=operator).fit(X, noisy)
    assert sparse.issparse(model.transition_)
    again = MCLDCEClassifier(kind(T), operator=operator).partial_fit(X[:100], noisy[:100], [0, 1, 2])
    again.partial_fit(X[100:], noisy[100:])
    solved = MCLDCEClassifier(kind(T), operator=operator).fit_sums(dense.sums_)
    for other in (model, again, solved):
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-10)
        np.testing.assert_allclose(other.centroid_, dense.centroid_, atol=1e-10)
        np.testing.assert_allclose(other.class_prior_, dense.class_prior_, atol=1e-10)
    cv, dense_cv = (MCLDCEClassifierCV(t, operator=operator, random_state=0).fit(X, noisy) for t in (kind(T), T))
    np.testing.assert_allclose(cv.risk_, dense_cv.risk_, rtol=1e-10)
    assert cv.alpha_ == dense_cv.alpha_


def test_a_sparse_T_goes_through_a_wide_fit_and_a_file(tmp_path, monkeypatch):
    pytest.importorskip("safetensors")
    import unflip

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 3
    T = asymmetric(3, {0: (1, 0.3)})
    model = MCLDCEClassifier(sparse.csr_array(T)).fit(X, y)
    loaded = unflip.load(model.save(tmp_path / "model"))
    assert sparse.issparse(loaded.transition_)
    np.testing.assert_array_equal(loaded.transition_.toarray(), T)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(loaded.fit_sums(loaded.sums_).coef_, model.coef_, atol=1e-12)
    monkeypatch.setattr("unflip.linear._centroid_ridge.WIDE_SPARSE", 1)
    wide = MCLDCEClassifier(sparse.csr_array(T)).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(wide.coef_, model.coef_, atol=1e-6)


def test_thousands_of_classes_never_fill_in_a_sparse_T():
    """2,000 x 2,000 numbers are 32 MB; sums of 2,000 x 8 and a sparse T need a twentieth of that."""
    c, d = 2_000, 8
    rng = np.random.default_rng(0)
    T = pairflip_sparse(c, 0.4)
    clean = ClassSums.of(rng.normal(size=(20_000, d)) + 3, np.arange(20_000) % c, c)
    noisy = ClassSums(T.T @ clean.counts, clean.mean, T.T @ clean.centred_sums, clean.scatter)
    tracemalloc.start()
    model = MCLDCEClassifier(T).fit_sums(noisy)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32e6 / 10
    np.testing.assert_allclose(model.centroid_, clean.centroid, atol=1e-10)
    np.testing.assert_allclose(model.class_prior_, 1 / c)
    ridge = MCLDCEClassifier(sparse.eye_array(c)).fit_sums(clean)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-10)
