"""VolMinNet: T against the truth, the epoch that is taken, and the ways in which data come."""

import math
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sklearn.base import clone  # noqa: E402
from sklearn.datasets import make_blobs  # noqa: E402

from unflip.deep import make_method  # noqa: E402
from unflip.metrics import transition_error  # noqa: E402
from unflip.noise import corrupt, pairflip, symmetric  # noqa: E402
from unflip.transition.volminnet import TransitionMatrix, VolMinNet, mean_log_likelihood  # noqa: E402

T = pairflip(3, 0.3)
SMALL = {"network_options": {"hidden": 32}, "batch_size": 64, "random_state": 0}


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr("unflip.transition.volminnet.LEAST_STEPS", 1)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(2000, centers=3, n_features=4, random_state=1)
    return (X - X.mean(axis=0)) / X.std(axis=0), y, corrupt(y, T, random_state=0)


@pytest.fixture(scope="module")
def fitted(blobs):
    X, _, noisy = blobs
    return VolMinNet(epochs=40, volume=0.01, **SMALL).fit(X, noisy)


def test_recovers_the_transition_and_the_clean_classes(fitted, blobs):
    X, y, _ = blobs
    assert transition_error(fitted.transition_, T) < 0.1
    assert fitted.score(X, y) > 0.98
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)


def test_takes_the_epoch_of_least_validation_loss(fitted):
    losses = [record["validation_loss"] for record in fitted.history_]
    assert len(losses) == 40
    assert fitted.best_epoch_ == int(np.argmin(losses))
    np.testing.assert_allclose(fitted.transition_, fitted.history_[fitted.best_epoch_]["transition"])


def test_first_epochs_hold_the_published_start(blobs, few_steps):
    X, _, noisy = blobs
    model = VolMinNet(epochs=1, transition_lr=1e-12, **SMALL).fit(X, noisy)
    s = 1 / (1 + np.exp(2.0))
    expected = np.full((3, 3), s / (1 + 2 * s))
    np.fill_diagonal(expected, 1 / (1 + 2 * s))
    np.testing.assert_allclose(model.transition_, expected, atol=1e-6)


def test_network_has_sgd_and_transition_has_adam():
    model = VolMinNet(lr=0.02, momentum=0.8, weight_decay=1e-3)
    w, v = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    groups = [{"params": [w], "lr": 0.02}, {"params": [v], "lr": 0.01, "weight_decay": 0.0}]
    optimizer = model._optimizer(groups)
    sgd, adam = optimizer.parts
    assert isinstance(sgd, torch.optim.SGD)
    assert isinstance(adam, torch.optim.Adam)
    assert (sgd.defaults["momentum"], sgd.defaults["weight_decay"]) == (0.8, 1e-3)
    assert [group["lr"] for group in optimizer.param_groups] == [0.02, 0.01]
    assert optimizer.param_groups[1]["weight_decay"] == 0
    w.grad, v.grad = torch.ones(1), 5 * torch.ones(1)
    optimizer.step()
    assert w.item() == pytest.approx(-0.02)
    assert v.item() == pytest.approx(-0.01, rel=1e-4)  # Adam's first step is lr times the sign


def test_standard_errors(fitted):
    assert fitted.transition_std_.shape == fitted.transition_.shape
    assert 0 < fitted.transition_std_.min() <= fitted.transition_std_.max() < 0.1


def test_same_seed_same_result_and_the_global_state_is_left_alone(blobs, few_steps):
    X, _, noisy = blobs
    before = torch.random.get_rng_state()
    a, b = (VolMinNet(epochs=2, **SMALL).fit(X, noisy) for _ in range(2))
    c = VolMinNet(epochs=2, **SMALL | {"random_state": 1}).fit(X, noisy)
    np.testing.assert_array_equal(a.transition_, b.transition_)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    assert np.abs(a.transition_ - c.transition_).max() > 0
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("names", [["ash", "beech", "cedar"], [1.0, 2.0, 7.0], [-3, 0, 9]])
def test_labels_of_any_kind(blobs, few_steps, names):
    X, _, noisy = blobs
    labels = np.array(names)
    model = VolMinNet(epochs=2, **SMALL).fit(X, labels[noisy])
    plain = VolMinNet(epochs=2, **SMALL).fit(X, noisy)
    np.testing.assert_array_equal(model.classes_, labels)
    np.testing.assert_array_equal(model.transition_, plain.transition_)
    assert model.predict(X).dtype == labels.dtype


def test_a_class_emptied_by_the_noise(blobs, few_steps):
    X, _, noisy = blobs
    model = VolMinNet(epochs=2, classes=[0, 1, 2], **SMALL).fit(X[noisy != 1], noisy[noisy != 1])
    assert model.transition_.shape == (3, 3)
    assert model.predict_proba(X).shape == (len(X), 3)


def test_samples_of_weight_zero_do_not_count_in_the_validation_loss():
    p, y = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])
    matrix = np.array([[0.7, 0.3], [0.4, 0.6]])
    assert mean_log_likelihood(p, y, matrix, np.array([1.0, 0.0])) == pytest.approx(np.log(0.9 * 0.7 + 0.1 * 0.4))
    assert mean_log_likelihood(p, y, matrix) == pytest.approx(np.log([0.67, 0.2 * 0.7 + 0.8 * 0.4]).mean())


def test_sample_weight(blobs, few_steps):
    X, _, noisy = blobs
    ones = VolMinNet(epochs=2, **SMALL).fit(X, noisy, sample_weight=np.full(len(X), 3.0))
    none = VolMinNet(epochs=2, **SMALL).fit(X, noisy)
    np.testing.assert_allclose(ones.transition_, none.transition_, atol=1e-4)
    half = VolMinNet(epochs=2, **SMALL).fit(X, noisy, sample_weight=(noisy == 0) + 0.1)
    assert np.abs(half.transition_ - none.transition_).max() > 1e-4


def test_images_as_bytes_are_scaled(few_steps):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.integers(0, 100, size=(200, 1, 12, 12), dtype=np.uint8) + (100 * y[:, None, None, None]).astype(np.uint8)
    model = VolMinNet("lenet", epochs=1, batch_size=64, random_state=0).fit(X, y)
    assert model.input_shape_ == (1, 12, 12)
    scaled = model.predict_proba((X / 255).astype(np.float32))
    np.testing.assert_allclose(model.predict_proba(X), scaled, atol=1e-5)
    with pytest.raises(ValueError, match="shape seen in fit"):
        model.predict(X[:, :, :11])


def test_own_network(blobs, few_steps):
    X, _, noisy = blobs
    model = VolMinNet(torch.nn.Linear(4, 3), epochs=2, random_state=0).fit(X, noisy)
    assert isinstance(model.methods_[0].networks[0], torch.nn.Linear)


def test_no_validation_takes_the_last_epoch(blobs, few_steps):
    X, _, noisy = blobs
    model = VolMinNet(epochs=4, validation_fraction=0, **SMALL).fit(X, noisy)
    assert model.best_epoch_ == len(model.history_) - 1
    assert "validation_loss" not in model.history_[0]


def test_small_data_are_gone_through_more_often():
    X, y = make_blobs(50, centers=2, random_state=0)
    model = VolMinNet(epochs=1, batch_size=16, random_state=0).fit(X, y)
    assert 1000 <= len(model.history_) * 3 <= 1003


def test_pickle_and_clone(fitted, blobs):
    X, _, _ = blobs
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert not hasattr(clone(fitted), "transition_")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"epochs": 0}, "epochs must be a whole number >= 1; got 0"),
        ({"batch_size": 1.5}, "batch_size must be a whole number"),
        ({"lr": 0}, "lr must be a number > 0; got 0"),
        ({"volume": -1}, "volume must be a number >= 0; got -1"),
        ({"validation_fraction": 1}, r"validation_fraction must be a number in \[0, 1\); got 1"),
        ({"network": "resnet"}, "network must be"),
        ({"network": "lenet"}, "needs images"),
        ({"classes": [0, 1]}, "outside classes"),
    ],
)
def test_bad_settings(blobs, settings, match):
    X, _, noisy = blobs
    with pytest.raises(ValueError, match=match):
        VolMinNet(**settings).fit(X, noisy)


def test_bad_data(blobs):
    X, _, noisy = blobs
    with pytest.raises(ValueError, match="NaN"):
        VolMinNet().fit(np.where(X > 1, np.nan, X), noisy)
    with pytest.raises(ValueError, match="one class only"):
        VolMinNet().fit(X, np.zeros(len(X), int))
    with pytest.raises(ValueError, match="sample_weight is zero for every sample; give at least one non-zero"):
        VolMinNet().fit(X, noisy, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="one label for each row"):
        VolMinNet().fit(X[1:], noisy)


def test_unknown_name():
    import unflip.transition

    assert {"VolMinNet", "CrossFitEM"} <= set(dir(unflip.transition))
    with pytest.raises(AttributeError, match="has no attribute 'VolMaxNet'"):
        _ = unflip.transition.VolMaxNet


C, D = 4, 6
PAIR = pairflip(C, 0.3)


def linear():
    return torch.nn.Linear(D, C)


class TestTransitionMatrix:
    @pytest.mark.parametrize(("init", "weight"), [(-2.0, -2.0), ("paper", math.log(1 / 8)), (-4.5, -4.5)])
    def test_start(self, init, weight):
        T = make_method("volminnet", lambda: torch.nn.Linear(D, 10), 10, init=init).transition
        s = 1 / (1 + math.exp(-weight))
        np.testing.assert_allclose(T.diagonal(), 1 / (1 + 9 * s), rtol=1e-6)
        np.testing.assert_allclose(T[~np.eye(10, dtype=bool)], s / (1 + 9 * s), rtol=1e-6)
        if init == -2.0:
            assert T[0, 0] == pytest.approx(0.482, abs=1e-3)
            assert T[0, 1] == pytest.approx(0.0575, abs=1e-4)

    def test_formula(self):
        module = TransitionMatrix(C)
        torch.manual_seed(0)
        w = module.weight.data.normal_(0, 3)
        A = [[1.0 if i == j else 1 / (1 + math.exp(-w[i, j])) for j in range(C)] for i in range(C)]
        expected = [[A[i][j] / sum(A[i]) for j in range(C)] for i in range(C)]
        torch.testing.assert_close(module().exp(), torch.tensor(expected))

    def test_diagonal_is_the_largest_of_its_row(self):
        method = make_method("volminnet", linear, C)
        method.transition_matrix.weight.data.fill_(4.0)
        T = method.transition
        assert (T.argmax(axis=1) == np.arange(C)).all()
        np.testing.assert_allclose(T.sum(axis=1), 1, rtol=1e-12)

    def test_starts_at_a_given_transition(self):
        T = symmetric(C, 0.4)
        np.testing.assert_allclose(make_method("volminnet", linear, C, T).transition, T, atol=1e-6)
        np.testing.assert_allclose(make_method("volminnet", linear, C, PAIR).transition, PAIR, atol=2e-3)

    def test_has_its_own_parameter_group(self):
        method = make_method("volminnet", linear, C, transition_lr=0.02)
        networks, transition = method.parameter_groups(0.5)
        assert networks["lr"] == 0.5
        assert transition["lr"] == 0.02
        assert transition["weight_decay"] == 0
        assert transition["params"] == [method.transition_matrix.weight]
        given = {id(p) for group in (networks, transition) for p in group["params"]}
        assert given == {id(p) for p in method.parameters()}

    def test_paper_start_needs_three_classes(self):
        with pytest.raises(ValueError, match="needs at least three classes"):
            TransitionMatrix(2, "paper")
        with pytest.raises(ValueError, match="init must be a number or 'paper'"):
            TransitionMatrix(3, "zero")
