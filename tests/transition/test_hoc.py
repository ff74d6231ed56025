"""HOC: the likelihood of triples against its formula, T against the truth, and the neighbors."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from sklearn.datasets import load_digits, make_blobs

from unflip.metrics import transition_error
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import HOC, hoc
from unflip.transition.hoc import Triples, _two_others, fit_triples, objective

SIZES = (200, 1500, 10_000)
CENTERS = [[0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]]


def blobs(n, T, seed=0):
    X, y = make_blobs(n, centers=CENTERS[: len(T)], random_state=seed)
    return X, corrupt(y, T, random_state=seed)


class TestObjective:
    rng = np.random.default_rng(1)
    triples = Triples(rng.integers(3, size=(20, 3)), rng.uniform(0.5, 2, size=20))
    theta = rng.normal(size=12)

    def test_is_the_formula(self):
        A, pi = np.exp(self.theta[:9].reshape(3, 3)), np.exp(self.theta[9:])
        T, pi, T_0 = A / A.sum(axis=1, keepdims=True), pi / pi.sum(), np.eye(3) / 2 + 1 / 6
        value = np.sum(T_0 * np.log(T)) + np.log(pi).mean()
        for (i, j, k), w in zip(*self.triples, strict=True):
            value += w * np.log(sum(pi[c] * T[c, i] * T[c, j] * T[c, k] for c in range(3)))
        assert objective(self.theta, self.triples, 3)[0] == pytest.approx(-value / self.triples.weights.sum())

    def test_gradient_is_that_of_finite_differences(self):
        numeric = approx_fprime(self.theta, lambda t: objective(t, self.triples, 3)[0], 1e-7)
        np.testing.assert_allclose(objective(self.theta, self.triples, 3)[1], numeric, atol=1e-6)


@pytest.mark.parametrize("T", [pairflip(4, 0.35), symmetric(4, 0.5)], ids=["pair", "symmetric"])
def test_exact_shares_give_the_truth(T):
    """First, second and third order consensus of infinitely many samples determine T and the prior."""
    pi = np.array([0.1, 0.2, 0.3, 0.4])
    codes = np.array(list(np.ndindex(4, 4, 4)))
    shares = np.einsum("k,ki,kj,kl->ijl", pi, T, T, T).ravel()
    estimated, prior = fit_triples(Triples.of(codes, 1e8 * shares), 4)
    np.testing.assert_allclose(estimated, T, atol=2e-3)
    np.testing.assert_allclose(prior, pi, atol=2e-3)


def test_triples_in_any_order_are_one():
    triples = Triples.of(np.array([[0, 1, 2], [2, 1, 0], [1, 1, 0]]), np.array([1.0, 2.0, 4.0]))
    assert triples.codes.tolist() == [[0, 1, 1], [0, 1, 2]]
    assert triples.weights.tolist() == [4, 3]


@pytest.mark.parametrize("T", [pairflip(4, 0.35), symmetric(4, 0.4)], ids=["pair", "symmetric"])
def test_error_falls_as_samples_grow(T):
    errors = [np.mean([transition_error(HOC().fit(*blobs(n, T, s)).transition_, T) for s in range(3)]) for n in SIZES]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.08


def test_standard_errors_cover_the_truth():
    T, covered, z = pairflip(3, 0.3), [], []
    for seed in range(20):
        model = HOC().fit(*blobs(600, T, seed))
        error = model.transition_ - T
        covered.append(np.abs(error) < 1.96 * model.transition_std_)
        z.append((error / model.transition_std_).diagonal())
    assert np.mean(covered) > 0.9
    assert 0.6 < np.std(z) < 1.3  # and no wider than they must be


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_digits(metric):
    X, y = load_digits(return_X_y=True)
    T = pairflip(10, 0.3)
    model = HOC(metric=metric).fit(X[:1200], corrupt(y[:1200], T, random_state=0))
    assert transition_error(model.transition_, T) < 0.2
    assert model.score(X[1200:], y[1200:]) > 0.85
    np.testing.assert_allclose(model.class_prior_, np.bincount(y) / len(y), atol=0.03)


def test_dense_is_sparse():
    X, y = blobs(300, pairflip(3, 0.2))
    X = X * (np.abs(X) > 0.5)
    a, b = HOC().fit(X, y), HOC().fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(a.transition_, b.transition_, atol=1e-6)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(sparse.csr_array(X)), atol=1e-6)


def test_units_and_order_of_the_samples_do_not_matter():
    X, y = blobs(300, pairflip(3, 0.2))
    order = np.random.default_rng(0).permutation(300)
    a, b = HOC().fit(X, y), HOC().fit((X * [8.0, 0.25, 3.0] + 1)[order], y[order])
    np.testing.assert_allclose(a.transition_, b.transition_, atol=1e-6)


def test_weights_count_the_triples():
    X, y = blobs(300, pairflip(3, 0.2))
    a, b = HOC().fit(X, y), HOC().fit(X, y, sample_weight=np.full(300, 2.0))
    np.testing.assert_allclose(a.transition_, b.transition_, atol=0.02)  # twice the data, the same pseudo-labels
    kept = np.arange(300) < 250
    a, b = HOC().fit(X[kept], y[kept]), HOC().fit(X, y, sample_weight=kept.astype(float))
    np.testing.assert_allclose(a.transition_, b.transition_, atol=1e-6)


def test_some_of_many_samples_are_asked(monkeypatch):
    X, y = blobs(2000, pairflip(3, 0.2))
    whole = HOC().fit(X, y).transition_
    monkeypatch.setattr(hoc, "ROWS", 1000)
    assert transition_error(HOC().fit(X, y).transition_, whole) < 0.1


def test_a_sample_is_not_its_own_neighbor():
    near = np.array([[0, 5, 6], [7, 1, 8], [4, 3, 9]])  # the third has two copies that came before itself
    assert _two_others(near, np.array([0, 1, 2])).tolist() == [[5, 6], [7, 8], [4, 3]]


def test_absent_class_keeps_a_diagonal_on_top():
    X, y = blobs(300, pairflip(3, 0.2))
    model = HOC(classes=[0, 1, 2, 3]).fit(X, y)
    assert model.transition_[3].argmax() == 3
    assert model.predict_proba(X).shape == (300, 4)


def test_many_classes_take_seconds():
    rng = np.random.default_rng(0)
    y = rng.integers(30, size=1500)
    X = 5 * np.eye(30)[y] + rng.normal(size=(1500, 30))
    T = pairflip(30, 0.3)
    model = HOC().fit(X, corrupt(y, T, random_state=0))
    assert transition_error(model.transition_, T) < 0.3


def test_bad_input():
    X, y = blobs(30, pairflip(3, 0.2))
    with pytest.raises(ValueError, match="metric must be 'euclidean' or 'cosine'; got 'l1'"):
        HOC(metric="l1").fit(X, y)
    with pytest.raises(ValueError, match="at least 3 samples; got 2"):
        HOC().fit(X[:2], [0, 1])
