"""Standard errors of T: against draws, against limits, and as attributes of every estimator."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import make_blobs

from unflip import load, registry
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import AnchorPoints, VolMin, _uncertainty
from unflip.transition._cross_fit import em_transition
from unflip.transition._uncertainty import count_std, posterior_std, tangent

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
    monkeypatch.setattr(_uncertainty, "NUMBERS", 500)
    np.testing.assert_allclose(whole, posterior_std(p, symmetric(3, 0.3)))


def test_many_classes_row_by_row(monkeypatch):
    p = softmax(9 * np.random.default_rng(0).normal(size=(3000, 4)), axis=1)
    T = symmetric(4, 0.3)
    together = posterior_std(p, T)
    monkeypatch.setattr(_uncertainty, "MANY", 3)
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
def test_every_estimator_has_them_and_they_fall_with_more_samples(entry):
    means = []
    for n in (150, 1500):
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
