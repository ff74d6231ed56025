"""The noise models give transition matrices; the draw reproduces them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import transitions
from unflip.noise import asymmetric, corrupt, instance_dependent, pairflip, symmetric

rates = st.floats(0, 1)
sizes = st.integers(2, 12)


@given(sizes, rates)
def test_rows_sum_to_one_and_the_rate_is_what_leaves(c, rate):
    for T in (symmetric(c, rate), pairflip(c, rate), asymmetric(c, {c - 1: (0, rate)})):
        assert T.min() >= 0
        np.testing.assert_allclose(T.sum(axis=1), 1)
        assert 1 - T[c - 1, c - 1] == pytest.approx(rate)


@given(sizes)
def test_rate_zero_is_the_identity(c):
    for T in (symmetric(c, 0), pairflip(c, 0), asymmetric(c, {})):
        np.testing.assert_array_equal(T, np.eye(c))


def test_pair_goes_to_the_next_class_and_round():
    T = pairflip(10, 0.4)
    assert T[3, 4] == T[9, 0] == 0.4
    assert np.count_nonzero(T) == 20


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: symmetric(1, 0.1), "at least two classes"),
        (lambda: symmetric(10, 1.5), "rate must be a probability"),
        (lambda: pairflip(10, 40), "percentage"),
        (lambda: asymmetric(3, {0: (3, 0.1)}), "0 -> 3"),
        (lambda: asymmetric(3, {1: (1, 0.1)}), "1 -> 1"),
    ],
)
def test_bad_noise_is_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@given(transitions(), st.integers(0, 100))
def test_empirical_confusion_reproduces_T(T, seed):
    c, n = len(T), 4000
    y = np.arange(c * n) % c
    noisy = corrupt(y, T, random_state=seed)
    confusion = np.stack([np.bincount(noisy[y == i], minlength=c) for i in range(c)]) / n
    deviation = np.sqrt(T * (1 - T) / n)
    assert (np.abs(confusion - T) <= 5.5 * deviation + 1e-12).all()


LABELS = {
    "int64": np.arange(3),
    "int8, gaps": np.array([-4, 7, 100], dtype=np.int8),
    "1..3 float": np.array([1.0, 2.0, 3.0]),
    "str": np.array(["ant", "bee", "cat"]),
    "object": np.array(["ant", "bee", "cat"], dtype=object),
    "bytes": np.array([b"a", b"b", b"c"]),
}


@pytest.mark.parametrize("classes", LABELS.values(), ids=LABELS)
def test_any_label_dtype(classes):
    codes = np.arange(300) % 3
    noisy = corrupt(classes[codes], pairflip(3, 0.5), random_state=0)
    assert noisy.dtype == classes.dtype
    # the same draw, whatever the labels are called
    np.testing.assert_array_equal(noisy, classes[corrupt(codes, pairflip(3, 0.5), random_state=0)])


@given(st.integers(0, 2**31), transitions())
def test_seeds_repeat_and_differ(seed, T):
    y = np.arange(2000) % len(T)
    first = corrupt(y, T, random_state=seed)
    np.testing.assert_array_equal(first, corrupt(y, T, random_state=seed))
    if T.diagonal().min() < 0.9:
        assert (first != corrupt(y, T, random_state=seed + 1)).any()


def test_rate_zero_changes_nothing():
    y = np.array(["b", "a", "c"] * 50)
    np.testing.assert_array_equal(corrupt(y, np.eye(3), random_state=0), y)
    X = np.random.default_rng(0).normal(size=(150, 2))
    np.testing.assert_array_equal(instance_dependent(X, y, 0.0, random_state=0), y)


def test_random_state_of_every_kind_and_never_the_global_one():
    y, T = np.arange(100) % 2, symmetric(2, 0.5)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for random_state in (0, np.random.default_rng(0), np.random.RandomState(0), None):
        assert set(corrupt(y, T, random_state)) == {0, 1}
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    generator = np.random.default_rng(0)
    assert (corrupt(y, T, generator) != corrupt(y, T, generator)).any()  # a generator goes on


def test_classes_that_are_missing():
    y = np.array(["ant", "cat"] * 50)
    noisy = corrupt(y, pairflip(3, 0.5), random_state=0, classes=["ant", "buffalo", "cat"])
    assert set(noisy) == {"ant", "buffalo", "cat"}  # names longer than any in y are not cut
    with pytest.raises(ValueError, match=r"3 x 3 but there are 2 classes.*classes=\[\.\.\.\]"):
        corrupt(y, pairflip(3, 0.5))
    with pytest.raises(ValueError, match="outside classes"):
        corrupt(y, pairflip(3, 0.5), classes=["ant", "bee", "dog"])


def test_classes_out_of_order_are_refused():
    """The rows of T follow the classes: silently sorting them would apply another row to each class."""
    with pytest.raises(ValueError, match="sorted"):
        corrupt(["low", "high"], symmetric(2, 0.1), classes=["low", "high"])


def test_a_row_that_sums_to_a_little_less_than_one_draws_no_impossible_class():
    T = np.array([[0.5, 0.5 - 5e-7, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert set(corrupt(np.zeros(200_000, int), T, random_state=0, classes=[0, 1, 2])) <= {0, 1}


def test_singular_noise_can_be_drawn():
    noisy = corrupt(np.zeros(3000, int), symmetric(3, 2 / 3), random_state=0, classes=[0, 1, 2])
    np.testing.assert_allclose(np.bincount(noisy) / 3000, 1 / 3, atol=0.05)


def test_instance_dependent_rate_depends_on_x():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 4)), rng.integers(3, size=20_000)
    flipped = instance_dependent(X, y, 0.3, random_state=1) != y
    assert flipped.mean() == pytest.approx(0.3, abs=0.015)
    # some direction of x tells the rate: noise that ignores x leaves every correlation within 4 / sqrt(n)
    assert np.abs(np.corrcoef(X.T, flipped)[-1, :-1]).max() > 0.05
    blind = corrupt(y, symmetric(3, 0.3), random_state=1) != y
    assert np.abs(np.corrcoef(X.T, blind)[-1, :-1]).max() < 0.03


def test_instance_dependent_target_depends_on_x():
    X = np.repeat(np.eye(4), 500, axis=0)
    y = np.zeros(2000, int)
    noisy = instance_dependent(X, y, 0.5, random_state=0, classes=[0, 1, 2, 3])
    shares = np.stack([np.bincount(noisy[i * 500 : (i + 1) * 500], minlength=4)[1:] for i in range(4)])
    assert len(set(shares.argmax(axis=1))) > 1
    np.testing.assert_array_equal(noisy, instance_dependent(X, y, 0.5, random_state=0, classes=[0, 1, 2, 3]))


@given(st.floats(0, 1), st.integers(0, 50))
def test_instance_dependent_rates_stay_probabilities(rate, seed):
    X = np.random.default_rng(seed).normal(size=(60, 2))
    X[:, 1] = 1.0  # a constant feature
    noisy = instance_dependent(X, np.arange(60) % 3, rate, random_state=seed)
    assert set(noisy) <= {0, 1, 2}
    if rate in (0, 1):
        assert (noisy != np.arange(60) % 3).mean() == rate


@pytest.mark.parametrize(
    ("X", "rate", "spread", "match"),
    [
        (np.ones((3, 2)), 0.1, 0.1, "lengths differ"),
        (np.full((4, 2), np.nan), 0.1, 0.1, "finite"),
        (np.ones((4, 2)), 2.0, 0.1, "probability"),
        (np.ones((4, 2)), 0.1, -1.0, "negative"),
    ],
)
def test_bad_instance_dependent_noise_is_refused(X, rate, spread, match):
    with pytest.raises(ValueError, match=match):
        instance_dependent(X, [0, 1, 0, 1], rate, spread=spread)
