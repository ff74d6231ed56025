"""CrossFitEM: its EM step against loops, T against the truth, and the ways in which it can start."""

import gzip
import itertools
import os
import pickle
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from sklearn.datasets import make_blobs  # noqa: E402

from unflip.metrics import transition_error  # noqa: E402
from unflip.noise import asymmetric, corrupt, pairflip, symmetric  # noqa: E402
from unflip.transition import VolMin  # noqa: E402
from unflip.transition.crossfit import CrossFitEM, em_transition  # noqa: E402
from unflip.transition.volminnet import VolMinNet, mean_log_likelihood  # noqa: E402

SMALL = {"network_options": {"hidden": 32}, "batch_size": 64, "random_state": 0, "lr": 5e-3}
SYMMETRIC = symmetric(3, 0.4)
UNSURE = np.eye(3) / 2 + 1 / 6


def problem(seed=0, n=60, c=4):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(c, 0.5), size=n)
    y = rng.integers(c, size=n)
    T = rng.dirichlet(np.ones(c), size=c) / 2 + np.eye(c) / 2
    return P, y, T, rng.uniform(0, 2, size=n)


def loop_em(P, y, T, w, volume):
    n, c = P.shape
    N = np.zeros((c, c))
    for k in range(n):
        joint = [P[k, i] * T[i, y[k]] for i in range(c)]
        for i in range(c):
            N[i, y[k]] += w[k] * joint[i] / sum(joint)
    inverse = np.linalg.inv(T)
    new = np.zeros((c, c))
    for i in range(c):
        for j in range(c):
            new[i, j] = max(N[i, j] / sum(N[i]) - volume * T[i, j] * inverse[j, i], 0)
        new[i] /= sum(new[i])
    return new


class TestEM:
    @pytest.mark.parametrize("volume", [0, 0.005])
    def test_a_step_is_its_formula(self, volume):
        P, y, T, w = problem()
        expected = loop_em(P, y, T, w, volume)
        assert (expected.argmax(axis=1) == np.arange(4)).all()
        np.testing.assert_allclose(em_transition(P, y, T, volume=volume, sample_weight=w), expected)

    def test_steps_follow_each_other(self):
        P, y, T, w = problem()
        once = em_transition(P, y, T, volume=0.01, sample_weight=w)
        twice = em_transition(P, y, T, volume=0.01, sample_weight=w, steps=2)
        np.testing.assert_allclose(em_transition(P, y, once, volume=0.01, sample_weight=w), twice)

    @given(st.integers(0, 10_000))
    def test_the_likelihood_never_falls(self, seed):
        P, y, T, w = problem(seed, n=25)
        before = mean_log_likelihood(P, y, T, w)
        for _ in range(3):
            T = em_transition(P, y, T, sample_weight=w)
            after = mean_log_likelihood(P, y, T, w)
            assert after >= before - 1e-12
            before = after

    @given(st.integers(0, 10_000), st.floats(0, 5))
    def test_rows_stay_probabilities(self, seed, volume):
        P, y, T, _ = problem(seed, n=10)
        T = em_transition(P, y, T, volume=volume, steps=5)
        assert T.min() >= 0
        np.testing.assert_allclose(T.sum(axis=1), 1)

    def test_weights_are_repetitions(self):
        P, y, T, _ = problem()
        w = np.random.default_rng(1).integers(0, 4, size=len(y))
        repeated = em_transition(np.repeat(P, w, axis=0), np.repeat(y, w), T, volume=0.01, steps=3)
        np.testing.assert_allclose(em_transition(P, y, T, volume=0.01, steps=3, sample_weight=w), repeated)

    def test_volume_draws_inwards(self):
        P, y, T, _ = problem(n=400)
        size = [abs(np.linalg.det(em_transition(P, y, T, volume=v))) for v in (0, 0.01, 0.02)]
        assert size[0] > size[1] > size[2]

    def test_the_volume_term_is_the_gradient_of_the_log_determinant(self):
        *_, T, _ = problem()
        numeric = np.empty_like(T)
        for i, j in np.ndindex(T.shape):
            d = np.zeros_like(T)
            d[i, j] = 1e-6
            numeric[i, j] = (np.linalg.slogdet(T + d)[1] - np.linalg.slogdet(T - d)[1]) / 2e-6
        np.testing.assert_allclose(np.linalg.inv(T).T, numeric, rtol=1e-6)

    def test_posteriors_that_are_sure_give_counts(self):
        rng = np.random.default_rng(0)
        clean = rng.integers(3, size=500)
        y = corrupt(clean, SYMMETRIC, random_state=0)
        counts = np.stack([np.bincount(y[clean == k], minlength=3) for k in range(3)])
        T = em_transition(np.eye(3)[clean], y, UNSURE)
        np.testing.assert_allclose(T, counts / counts.sum(axis=1, keepdims=True))

    def test_a_class_without_samples_keeps_its_row(self):
        P, y, T, _ = problem()
        P = P.copy()
        P[:, 2] = 0
        np.testing.assert_array_equal(em_transition(P, y, T)[2], T[2])

    def test_a_label_that_never_occurs(self):
        P, y, T, _ = problem()
        assert np.all(em_transition(P, np.where(y == 3, 0, y), T)[:, 3] == 0)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(2000, centers=3, n_features=4, random_state=1)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.fixture(scope="module")
def fitted(blobs):
    X, y = blobs
    return CrossFitEM(UNSURE, rounds=9, **SMALL).fit(X, corrupt(y, SYMMETRIC, random_state=0))


def test_recovers_symmetric_noise(fitted, blobs):
    X, y = blobs
    noisy = corrupt(y, SYMMETRIC, random_state=0)
    counts = np.stack([np.bincount(noisy[y == k], minlength=3) for k in range(3)])
    assert transition_error(fitted.start_, SYMMETRIC) > 0.13
    assert transition_error(fitted.transition_, counts / counts.sum(axis=1, keepdims=True)) < 0.04
    assert fitted.score(X, y) > 0.98
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("T", [pairflip(3, 0.3), asymmetric(3, {0: (1, 0.4)}), np.eye(3)], ids=["pair", "one", "none"])
def test_does_not_lose_a_good_start(blobs, T):
    X, y = blobs
    model = CrossFitEM(0.9 * T + 0.1 / 3, rounds=9, **SMALL).fit(X, corrupt(y, T, random_state=0))
    assert transition_error(model.transition_, T) < 0.05 < transition_error(model.start_, T)


def test_history(fitted):
    assert [record["round"] for record in fitted.history_] == list(range(9))
    volumes = [record["volume"] for record in fitted.history_]
    assert volumes[0] == 0.04
    assert volumes[6:] == [0] * 3
    assert (np.diff(volumes[:7]) < 0).all()
    np.testing.assert_allclose(fitted.history_[1]["transition"], 0.99 * fitted.start_ + 0.01 / 3)  # warmup
    assert fitted.history_[-1]["log_likelihood"] > fitted.history_[0]["log_likelihood"]
    free = [record["transition"] for record in fitted.history_ if record["volume"] == 0]
    assert any(np.allclose(T, fitted.transition_) for T in free)


def test_networks_that_know_little_leave_t_alone(blobs):
    X, y = blobs
    slow = SMALL | {"lr": 1e-4}
    history = CrossFitEM(UNSURE, rounds=6, warmup=0, **slow).fit(X[:600], y[:600]).history_
    moved = [not np.allclose(record["transition"], 0.99 * UNSURE + 0.01 / 3) for record in history]
    assert moved == [False] * 3 + [True] * 3  # each round adds much to what they know, so half of the rounds pass


def test_the_round_that_explains_unseen_labels_best_gives_t(blobs, monkeypatch):
    """Scores are asked for twice in a round: before T moves, which decides when it may, and after."""
    X, y = blobs
    moved = iter([-0.1, -0.9, -0.9, -0.9, -0.5, -0.3, -0.4])  # the first is best, but of a round with volume
    asked = itertools.count()
    monkeypatch.setattr(
        "unflip.transition.crossfit.mean_log_likelihood", lambda *a: next(moved) if next(asked) % 2 else -1.0
    )
    copies = []
    monkeypatch.setattr("unflip.transition.crossfit.deepcopy", lambda one: copies.append(deepcopy(one)) or copies[-1])
    model = CrossFitEM(UNSURE, rounds=7, warmup=0, **SMALL)
    model.fit(X[:300], corrupt(y[:300], SYMMETRIC, random_state=0))
    assert [id(one) for one in copies] == [id(one) for one in model.methods_]  # those of the best round
    best, last = model.history_[5], model.history_[6]
    assert best["volume"] == last["volume"] == 0
    np.testing.assert_allclose(model.transition_, best["transition"])
    assert not np.allclose(model.transition_, last["transition"], atol=1e-6)


def test_an_exchanged_start_is_repaired(blobs):
    X, y = blobs
    start = UNSURE[[1, 0, 2]]
    model = CrossFitEM(start, rounds=6, volume=0, **SMALL).fit(X[:900], corrupt(y[:900], SYMMETRIC, random_state=0))
    assert np.array_equal(model.transition_.argmax(axis=1), np.arange(3))


def test_networks_that_know_enough_let_t_go_early(fitted):
    moved = [not np.allclose(record["transition"], 0.99 * UNSURE + 0.01 / 3) for record in fitted.history_]
    assert moved.index(True) < len(moved) // 2


def test_the_diagonal_stays_on_top(blobs, monkeypatch):
    X, y = blobs
    monkeypatch.setattr("unflip.transition.crossfit.em_transition", lambda *a, **k: np.eye(3)[[1, 0, 2]] * 0.7 + 0.1)
    T = CrossFitEM(UNSURE, rounds=2, warmup=0, **SMALL).fit(X[:300], y[:300]).transition_
    assert np.array_equal(T.argmax(axis=1), np.arange(3))


def test_no_network_sees_its_own_fold(blobs, monkeypatch):
    from unflip.deep.trainer import Trainer

    X, y = blobs
    X = np.hstack([X[:300], np.arange(300.0)[:, None]])  # a column that tells who is who
    seen, asked = {}, {}
    fit, predict = Trainer.fit, Trainer.predict_logits
    monkeypatch.setattr(
        Trainer, "fit", lambda self, x, *a, **k: (seen.setdefault(id(self), set(x[:, -1])), fit(self, x, *a, **k))[1]
    )
    monkeypatch.setattr(
        Trainer, "predict_logits", lambda self, x: (asked.setdefault(id(self), set(x[:, -1])), predict(self, x))[1]
    )
    CrossFitEM(UNSURE, rounds=2, warmup=0, folds=4, **SMALL).fit(X, y[:300])
    assert len(seen) == 4
    assert all(not seen[key] & asked[key] and len(seen[key] | asked[key]) == 300 for key in seen)
    assert set.union(*asked.values()) == set(range(300))


def test_standard_errors(fitted):
    assert fitted.transition_std_.shape == fitted.transition_.shape
    assert 0 < fitted.transition_std_.min() <= fitted.transition_std_.max() < 0.1


def test_same_seed_same_result_and_the_global_state_is_left_alone(blobs):
    X, y = blobs[0][:400], blobs[1][:400]
    before = torch.random.get_rng_state()
    short = {"rounds": 2, "warmup": 0}
    a, b = (CrossFitEM(UNSURE, **short, **SMALL).fit(X, y) for _ in range(2))
    c = CrossFitEM(UNSURE, **short, **SMALL | {"random_state": 1}).fit(X, y)
    np.testing.assert_array_equal(a.transition_, b.transition_)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    assert np.abs(a.transition_ - c.transition_).max() > 0
    assert torch.equal(before, torch.random.get_rng_state())


def test_labels_of_any_kind(blobs):
    X, y = blobs[0][:400], blobs[1][:400]
    short = {"rounds": 2, "warmup": 0}
    codes = CrossFitEM(VolMin(), **short, **SMALL).fit(X, y)
    for labels in map(np.array, (["ash", "beech", "cedar"], [-3, 0, 9])):
        model = CrossFitEM(VolMin(), **short, **SMALL).fit(X, labels[y])
        np.testing.assert_array_equal(model.classes_, labels)
        np.testing.assert_array_equal(model.transition_, codes.transition_)
        assert model.score(X, labels[y]) > 0.9


def test_starts(blobs, monkeypatch):
    monkeypatch.setattr("unflip.transition.volminnet.LEAST_STEPS", 1)
    X, y = blobs
    short = {"rounds": 1, "warmup": 0, **SMALL}
    given_ = VolMin()
    model = CrossFitEM(given_, **short).fit(X, y)
    assert isinstance(model.start_estimator_, VolMin)
    assert not hasattr(given_, "transition_")
    default = CrossFitEM(**short).fit(X[:300], y[:300])
    assert isinstance(default.start_estimator_, VolMinNet)
    assert default.start_estimator_.network_options == {"hidden": 32}
    assert CrossFitEM(np.eye(3), **short).fit(X, y).start_estimator_ is None


def test_a_class_emptied_by_the_noise(blobs):
    X, y = blobs
    model = CrossFitEM(UNSURE, rounds=2, warmup=0, classes=[0, 1, 2], **SMALL).fit(X[y != 1], y[y != 1])
    assert model.transition_.shape == (3, 3)
    assert model.predict_proba(X).shape == (len(X), 3)


def test_sample_weight(blobs):
    X, y = blobs
    noisy = corrupt(y, SYMMETRIC, random_state=0)
    weight = np.where(np.arange(len(X)) < 1000, 1.0, 0.0)
    noisy[1000:] = y[1000:]  # clean, but they do not count
    model = CrossFitEM(UNSURE, rounds=9, **SMALL).fit(X, noisy, sample_weight=weight)
    assert transition_error(model.transition_, SYMMETRIC) < 0.12


def test_pickle(fitted, blobs):
    X, _ = blobs
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"rounds": 0}, "rounds must be a whole number >= 1; got 0"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"em_steps": 0}, "em_steps must be a whole number"),
        ({"volume": -1}, "volume must be a number >= 0; got -1"),
        ({"warmup": 24}, "warmup must be"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"lr": 0}, "lr must be a number > 0"),
        ({"start": np.eye(2)}, "2 x 2"),
        ({"start": np.full((3, 3), 1 / 3)}, "singular"),
    ],
)
def test_bad_settings(blobs, settings, match):
    X, y = blobs
    with pytest.raises(ValueError, match=match):
        CrossFitEM(**{"start": UNSURE} | settings).fit(X, y)


@pytest.mark.parametrize("settings", [{"ema": 1.0}, {"network": "resnet"}, {"network_options": {"dropout": 2.0}}])
def test_settings_are_checked_before_the_start(blobs, monkeypatch, settings):
    monkeypatch.setattr(VolMinNet, "fit", lambda *_: pytest.fail("the start was estimated"))
    X, y = blobs
    with pytest.raises(ValueError, match="ema must be|network must be|dropout probability"):
        CrossFitEM(**settings).fit(X, y)


def test_a_round_has_enough_steps(blobs, monkeypatch):
    from unflip.deep.trainer import Trainer

    X, y = blobs
    trainers = set()
    fit = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", lambda self, *a, **k: (trainers.add(self), fit(self, *a, **k))[1])
    CrossFitEM(UNSURE, rounds=2, warmup=0, **SMALL).fit(X[:300], y[:300])
    assert {trainer.steps for trainer in trainers} == {2 * 52}  # 200 samples are four steps: 13 epochs per round


def test_fewer_samples_than_folds():
    with pytest.raises(ValueError, match="5 folds need at least 5 samples; got 4"):
        CrossFitEM(np.eye(2), folds=5).fit(np.zeros((4, 2)), [0, 1, 0, 1])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fashion_mnist_symmetric_60():
    """The hardest cell of ``benchmarks/deep_transition.py``."""
    directory = Path(os.environ.get("UNFLIP_DATA", "")) / "fashion-mnist"
    if not directory.is_dir():
        pytest.skip("UNFLIP_DATA names no directory with fashion-mnist")

    def read(name, skip):
        with gzip.open(directory / f"{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip)

    X, y = read("train-images-idx3", 16).reshape(-1, 784), read("train-labels-idx1", 8)
    T = symmetric(10, 0.6)
    model = CrossFitEM(random_state=0).fit(X, corrupt(y, T, random_state=0))
    assert transition_error(model.start_, T) > 0.1
    assert transition_error(model.transition_, T) < 0.05
