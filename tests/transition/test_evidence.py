"""Shapes of T, bounds on it, calibrations that mix classes, and the guard: which T the labels call for."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits, make_blobs, make_moons

from unflip import MCLDCEClassifier
from unflip.metrics import transition_error
from unflip.noise import asymmetric, corrupt, pairflip, symmetric
from unflip.transition import VolMin
from unflip.transition._evidence import (
    SHAPES,
    even_rate,
    expected_counts,
    fitted_shape,
    guarded,
    label_probability,
    learned_rows,
    lower_bounds,
    mixing_map,
    one_target,
    one_way,
    repaired,
    shared_rate,
)


def sure_posteriors(T, n=4000, seed=0, spread=0.1):
    """Clean posteriors that are sure of most rows, and labels drawn from them through T."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(len(T), spread), size=n)
    clean = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    return p, corrupt(clean, T, random_state=seed, classes=np.arange(len(T)))


class TestShapes:
    @pytest.mark.parametrize(
        ("shape", "T"),
        [
            ("symmetric", symmetric(4, 0.3)),
            ("one target", pairflip(4, 0.3)),
            ("one target", asymmetric(4, {1: (0, 0.4), 2: (0, 0.4)})),
            ("learned", symmetric(4, 0.3)),
            ("learned", pairflip(4, 0.3)),
            ("learned", asymmetric(4, {1: (0, 0.4), 3: (2, 0.2)})),
        ],
    )
    def test_every_shape_keeps_what_it_can_express(self, shape, T):
        np.testing.assert_allclose(SHAPES[shape](1e6 * T), T, atol=2e-3)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_every_shape_is_a_transition_matrix(self, shape):
        counts = np.random.default_rng(0).integers(0, 50, size=(4, 4)) + 100.0 * np.eye(4)
        for N in (counts, np.diag([5.0, 0, 1, 200]), np.array([[7.0]])):
            T = SHAPES[shape](N)
            np.testing.assert_allclose(T.sum(axis=1), 1)
            assert T.min() >= 0

    def test_learned_rows_take_small_counts_for_chance_where_flips_are_few(self):
        few = np.array([[60.0, 38, 0.4, 0], [0, 90, 50, 0.3], [0, 0.4, 80, 41], [40, 0, 0, 70]])
        T = learned_rows(few)
        assert T[0, 2] < 0.5 * 0.4 / 98.4  # half of the share of the counts
        assert T[0, 1] == pytest.approx(0.37, abs=0.03)

    def test_learned_rows_lean_on_each_other_where_they_are_alike(self):
        many = 300 * symmetric(5, 0.4)
        many[4] *= 0.01  # three samples, all of them kept
        many[4] = [0, 0, 0, 0, 3]
        assert learned_rows(many)[4, 4] == pytest.approx(0.6, abs=0.1)

    def test_one_target_names_none_where_nothing_flips(self):
        np.testing.assert_allclose(one_target(np.diag([50.0, 60, 70])), np.eye(3), atol=1e-3)

    def test_counts_are_those_of_bayes_rule(self):
        T = pairflip(3, 0.4)
        p, y = sure_posteriors(T, 50)
        w = np.linspace(0.5, 2, 50)
        expected = np.zeros((3, 3))
        for row, label, weight in zip(p, y, w, strict=True):
            expected[:, label] += weight * row * T[:, label] / (row @ T[:, label])
        np.testing.assert_allclose(expected_counts(p, y, w, T), expected)

    def test_no_step_lowers_the_likelihood(self):
        p, y = sure_posteriors(pairflip(3, 0.3), 800)
        T, w, last = symmetric(3, 0.5), np.ones(800), -np.inf
        for _ in range(10):
            T = expected_counts(p, y, w, T)
            T /= T.sum(axis=1, keepdims=True)
            value = np.log(label_probability(p, y, T)).sum()
            assert value >= last - 1e-9
            last = value

    def test_shared_rate_is_the_symmetric_matrix(self):
        np.testing.assert_allclose(shared_rate(100 * pairflip(4, 0.2)), symmetric(4, 0.2))

    @pytest.mark.parametrize(
        ("shape", "T"), [("one target", asymmetric(5, {1: (0, 0.4), 2: (0, 0.4)})), ("learned", pairflip(5, 0.3))]
    )
    def test_em_recovers_T_with_growing_n(self, shape, T):
        errors, start = [], 0.7 * T + 0.3 / 5
        for n in (300, 3000, 30_000):
            p, y = sure_posteriors(T, n)
            errors.append(transition_error(fitted_shape(p, y, np.ones(n), start, SHAPES[shape]), T))
        assert errors[2] < 0.02
        assert errors[2] < errors[0]


class TestBounds:
    def test_bounds_hold_and_come_close(self):
        T = pairflip(4, 0.35)
        wrong = 0
        for seed in range(10):
            p, y = sure_posteriors(T, 2000, seed)
            bounds = lower_bounds(p @ T, y)
            wrong += np.sum(bounds > 0.65)
            assert bounds.mean() > 0.5
        assert wrong <= binom.ppf(0.999, 40, 0.1)

    def test_repair(self):
        T = np.array([[0.1, 0.9, 0], [0, 1, 0], [0.3, 0.3, 0.4]])
        better = repaired(T, np.array([0.5, 0.9, 0.2]))
        np.testing.assert_allclose(better.sum(axis=1), 1)
        assert better[0, 0] >= 0.5
        assert np.linalg.cond(better) <= 10
        np.testing.assert_allclose(better[2] / better[2].sum(), T[2], atol=1e-12)

    def test_weights_are_repetition(self):
        p, y = sure_posteriors(pairflip(3, 0.2), 300)
        w = np.random.default_rng(0).integers(1, 4, size=300)
        q = p @ pairflip(3, 0.2)
        again = lower_bounds(q.repeat(w, axis=0), y.repeat(w))
        np.testing.assert_allclose(lower_bounds(q, y, w=w.astype(float)), again)

    def test_order_of_equal_rows_does_not_matter(self):
        """Labels in order, as VolMin has them, would make the first classes look sure."""
        random = np.random.default_rng(0)
        q = np.repeat(random.dirichlet(np.ones(3), 10), 40, axis=0)
        y = random.integers(3, size=400)
        bounds = [lower_bounds(q[order], y[order], w=np.ones(400)) for order in (np.arange(400), np.argsort(y))]
        np.testing.assert_allclose(*bounds)
        assert max(bounds[0]) < 0.5


def test_flips_that_two_classes_exchange_are_left_out():
    prior = np.full(3, 1 / 3)
    exchanged = asymmetric(3, {0: (1, 0.4), 1: (0, 0.4)})
    assert np.diag(one_way(exchanged, prior)).min() > 0.9
    np.testing.assert_allclose(one_way(pairflip(3, 0.3), prior), pairflip(3, 0.3), atol=1e-12)


def test_label_probability_is_the_sum_over_clean_classes():
    T = pairflip(3, 0.3)
    p, y = sure_posteriors(T, 50)
    expected = [sum(p[i, k] * T[k, y[i]] for k in range(3)) for i in range(50)]
    np.testing.assert_allclose(label_probability(p, y, T), expected)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
def test_the_common_rate_is_found(rate):
    p, y = sure_posteriors(symmetric(4, rate), 20_000)
    assert even_rate(p, y, np.ones(len(y))) == pytest.approx(rate, abs=0.02)


class TestGuard:
    """Which of three explanations the labels call for."""

    def verdict(self, T, given, n=3000, spread=0.1):
        """Return the guarded T for labels through T, if an estimator came up with ``given``."""
        p, y = sure_posteriors(T, n, spread=spread)
        # The models know the clean posterior, whatever they are fitted through.
        return guarded(given, lambda _: p, y, np.ones(n), np.arange(n) % 5)

    @pytest.mark.parametrize("T", [pairflip(4, 0.3), asymmetric(4, {1: (0, 0.4), 2: (0, 0.4)})])
    def test_a_T_that_explains_the_labels_stays(self, T):
        np.testing.assert_allclose(self.verdict(T, T), T, atol=0.02)

    def test_flips_of_few_classes_need_few_labels(self):
        """Two of ten classes flip: 90 free rates could not be proved by 600 labels."""
        T = asymmetric(10, {1: (0, 0.4), 2: (0, 0.4)})
        np.testing.assert_allclose(self.verdict(T, symmetric(10, 0.2), n=600), T, atol=0.1)

    def test_rates_of_their_own(self):
        """Flips of the same class to several others, at several rates: no shape of one target."""
        T = np.array([[0.5, 0.3, 0.2, 0], [0, 1, 0, 0], [0, 0.3, 0.7, 0], [0, 0, 0, 1.0]])
        np.testing.assert_allclose(self.verdict(T, pairflip(4, 0.3), n=8000), T, atol=0.06)

    def test_a_false_T_becomes_the_symmetric_one(self):
        found = self.verdict(symmetric(4, 0.4), pairflip(4, 0.4))
        off = found[~np.eye(4, dtype=bool)]
        assert np.ptp(off) < 1e-12
        assert off[0] == pytest.approx(0.4 / 3, abs=0.02)

    @pytest.mark.parametrize("spread", [0.1, 1.0])
    def test_without_noise_there_is_none(self, spread):
        """Even where classes overlap."""
        found = self.verdict(np.eye(4), pairflip(4, 0.3), spread=spread)
        assert transition_error(found, np.eye(4)) < 0.02

    def test_flips_that_two_classes_exchange_are_taken_for_overlap(self):
        found = self.verdict(asymmetric(4, {0: (1, 0.4), 1: (0, 0.4)}), pairflip(4, 0.3))
        assert found[0, 1] + found[1, 0] < 0.2

    def test_what_says_nothing_is_not_noise(self):
        """Labels that are independent of the features would fit any rate."""
        random = np.random.default_rng(0)
        for c in (2, 3, 5):
            y = random.integers(c, size=600)
            flat = np.full((600, c), 1 / c) + random.normal(0, 1e-3, (600, c))
            found = guarded(
                symmetric(c, 0.5),
                lambda _, p=flat: p / p.sum(axis=1, keepdims=True),
                y,
                np.ones(600),
                np.arange(600) % 5,
            )
            np.testing.assert_array_equal(found, np.eye(c))

    def test_two_classes(self):
        T = np.array([[1.0, 0.0], [0.3, 0.7]])
        np.testing.assert_allclose(self.verdict(T, T), T, atol=0.02)
        assert transition_error(self.verdict(np.eye(2), T), np.eye(2)) < 0.02


class TestGuardedVolMin:
    @pytest.mark.parametrize(("T", "error"), [(np.eye(6), 0.001), (pairflip(6, 0.4), 0.1), (symmetric(6, 0.6), 0.1)])
    def test_digits(self, T, error):
        X, y = load_digits(n_class=6, return_X_y=True)
        noisy = corrupt(y[:700], T, random_state=0)
        model = VolMin().fit(X[:700], noisy)
        assert transition_error(model.transition_, T) < error
        assert model.score(X[700:], y[700:]) > 0.75
        np.testing.assert_allclose(model.transition_.sum(axis=1), 1)

    def test_linear_classifiers_use_it(self):
        X, y = load_digits(n_class=5, return_X_y=True)
        noisy = corrupt(y[:600], symmetric(5, 0.4), random_state=0)
        T = VolMin().fit(X[:600], noisy).transition_
        model = MCLDCEClassifier().fit(X[:600], noisy)
        np.testing.assert_array_equal(model.transition_, T)
        plain = MCLDCEClassifier(np.eye(5)).fit(X[:600], noisy)
        assert model.score(X[600:], y[600:]) >= plain.score(X[600:], y[600:])

    @pytest.mark.parametrize("flips", [(0, 3), (3, 0)])
    def test_rows_that_repeat(self, flips):
        random = np.random.default_rng(0)
        y = random.integers(4, size=2400)
        X = (random.random((2400, 10)) < np.where(random.random((4, 10)) < 0.5, 0.1, 0.9)[y]) * 1.0
        T = asymmetric(4, {flips[0]: (flips[1], 0.45)})
        found = VolMin().fit(X, corrupt(y, T, random_state=0)).transition_
        assert found[flips[0], flips[0]] == pytest.approx(0.55, abs=0.12)

    def test_weights_are_repetition(self):
        for seed in range(3):
            X, y = make_moons(160, noise=0.3, random_state=10 + seed)
            noisy = corrupt(y, symmetric(2, 0.2), random_state=seed)
            weighted = VolMin().fit(X, noisy, sample_weight=np.full(160, 3.0)).transition_
            np.testing.assert_allclose(
                VolMin().fit(np.tile(X, (3, 1)), np.tile(noisy, 3)).transition_, weighted, atol=1e-3
            )

    @pytest.mark.parametrize("T", [symmetric(3, 0.4), pairflip(3, 0.3)])
    def test_classes_without_labels_change_nothing(self, T):
        X, y = make_blobs(600, centers=3, random_state=0)
        noisy = corrupt(y, T, random_state=0)
        few, many = (VolMin(classes=range(c)).fit(X, noisy).transition_ for c in (3, 8))
        np.testing.assert_allclose(many[:3, :3], few, atol=0.02)
        np.testing.assert_allclose(many[3:, 3:], np.eye(5), atol=1e-3)

    @pytest.mark.parametrize("c", [3, 6])
    def test_classes_that_overlap_are_not_noise(self, c):
        for seed in range(3):
            X, y = make_blobs(900, centers=c, cluster_std=3.0, random_state=seed)
            assert transition_error(VolMin().fit(X, y).transition_, np.eye(c)) < 0.05

    def test_constant_features(self):
        y = np.random.default_rng(5).integers(5, size=600)
        assert VolMin().fit(np.ones((600, 3)), y).transition_.shape == (5, 5)

    def test_guard_must_be_a_bool(self):
        with pytest.raises(ValueError, match="guard must be True or False; got 'yes'"):
            VolMin(guard="yes").fit([[0.0], [1.0]], [0, 1])

    def test_too_few_rows_are_left_alone(self):
        X, y = make_moons(30, noise=0.1, random_state=0)
        plain = VolMin(guard=False).fit(X, y)
        np.testing.assert_array_equal(VolMin().fit(X, y).transition_, plain.transition_)


class TestMixingMap:
    """The calibration of the explanations that cannot mix classes by themselves."""

    def labels(self, n=4000):
        random = np.random.default_rng(0)
        p = random.dirichlet([0.7, 1.0, 0.5], n)
        return p, (random.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)

    def test_it_undoes_models_that_mix_classes(self):
        p, codes = self.labels()
        A = np.array([[1.3, 0.2, 0.0], [-0.1, 0.8, 0.3], [0.0, 0.1, 1.1]])
        wrong = np.log(p) @ A.T
        wrong -= np.logaddexp.reduce(wrong, axis=1, keepdims=True)
        M, b = mixing_map(wrong, codes, np.ones(len(p)), np.eye(3))
        found = wrong @ M.T + b
        found = np.exp(found - np.logaddexp.reduce(found, axis=1, keepdims=True))
        assert np.abs(found - p).mean() < 0.02 < np.abs(np.exp(wrong) - p).mean()

    def test_what_is_calibrated_stays_as_it_is_through_t(self):
        p, codes = self.labels()
        T = symmetric(3, 0.3)
        noisy = corrupt(codes, T, random_state=0)
        M, b = mixing_map(np.log(p), noisy, np.ones(len(p)), T)
        found = np.log(p) @ M.T + b
        found = np.exp(found - np.logaddexp.reduce(found, axis=1, keepdims=True))
        assert np.abs(found - p).mean() < 0.03

    def test_it_is_the_minimum_of_its_penalized_loss(self):
        p, codes = self.labels(300)
        T, z = pairflip(3, 0.2), np.log(p)
        M, b = mixing_map(z, codes, np.ones(300), T)

        def loss(M, b):
            u = np.exp(z @ M.T + b)
            q = [(u[i] / u[i].sum() @ T)[codes[i]] for i in range(300)]
            t = np.trace(M) / 3  # the best t for a given A = t I + B is not exactly this, but B is then a bound
            B = M - t * np.eye(3)
            return -np.mean(np.log(q)) + (100 * (B**2).sum() + (b**2).sum()) / 600

        random = np.random.default_rng(1)
        least = loss(M, b)
        for _ in range(30):
            assert loss(M + 0.1 * random.normal(size=(3, 3)), b + 0.1 * random.normal(size=3)) > least
