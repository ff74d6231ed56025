"""The decomposed risk: equal to the plain squared loss without noise, unbiased with it, the same from sums."""

import numpy as np
import pytest

from unflip.core import ClassSums, corrected_labels, decomposed_risk, linear_risk
from unflip.noise import corrupt, pairflip, symmetric


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.integers(3, size=200)
    return X, y, rng.normal(size=(4, 3)), rng.normal(size=3)


def test_equals_the_squared_loss_when_nothing_flips(problem):
    X, y, W, b = problem
    h = X @ W + b
    plain = np.mean([np.sum((np.eye(3)[k] - row) ** 2) for row, k in zip(h, y, strict=True)])
    for operator in ("exact", "published"):
        assert decomposed_risk(h, y, corrected_labels(np.eye(3), operator=operator)).total == pytest.approx(plain)


def test_only_the_second_part_sees_the_label(problem):
    X, y, W, b = problem
    labels = corrected_labels(pairflip(3, 0.3))
    clean, noisy = (decomposed_risk(X @ W + b, codes, labels) for codes in (y, (y + 1) % 3))
    assert clean.label_free == noisy.label_free
    assert clean.label_dependent != noisy.label_dependent


def test_label_dependent_part_is_the_trace(problem):
    """Eq. (final_loss) with the transpose that its shapes need: -2 tr(W' mu M^+)."""
    X, y, W, _ = problem
    labels = corrected_labels(pairflip(3, 0.3))
    mu = ClassSums.of(X, y, 3).centroid
    assert decomposed_risk(X @ W, y, labels).label_dependent == pytest.approx(-2 * np.trace(W.T @ mu @ labels))


@pytest.mark.parametrize("weights", [None, np.arange(200) % 3], ids=["plain", "weighted"])
def test_sums_give_the_same_two_parts(problem, weights):
    X, y, W, b = problem
    labels = corrected_labels(pairflip(3, 0.3))
    np.testing.assert_allclose(
        linear_risk(ClassSums.of(X, y, 3, weights), W, b, labels), decomposed_risk(X @ W + b, y, labels, weights)
    )


def test_no_labels_are_the_identity(problem):
    X, y, W, b = problem
    sums = ClassSums.of(X, y, 3)
    np.testing.assert_allclose(linear_risk(sums, W, b), linear_risk(sums, W, b, np.eye(3)))


@pytest.mark.parametrize("T", [symmetric(3, 0.5), pairflip(3, 0.4)], ids=["symmetric", "pair"])
def test_is_unbiased_over_draws_of_the_noise(problem, T):
    X, y, W, b = problem
    h = X @ W + b
    draws = [decomposed_risk(h, corrupt(y, T, random_state=s), corrected_labels(T)).total for s in range(400)]
    error = np.std(draws) / np.sqrt(len(draws))
    assert abs(np.mean(draws) - decomposed_risk(h, y, np.eye(3)).total) < 3.5 * error
