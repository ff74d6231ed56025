"""What holds for all methods, and all of them on a small task with a known answer."""

import inspect
import math

import numpy as np
import pytest
import torch
from torch import nn

import unflip
from tests.deep.methods.conftest import PAIR, B, C, D, begun, build, linear, loss_of, mean
from tests.deep.recorder import tensors
from unflip import registry
from unflip.deep import Method, NoisyLabelClassifier, Trainer, find_method, make_method, make_network
from unflip.noise import corrupt, pairflip, symmetric

RANDOM = {"mixup"}  # these draw from torch's generator, as dropout does
each_method = pytest.mark.parametrize("name", registry.names("deep"))


class TestRules:
    """Losses of single batches by naive loops; each rule with and without weights, at several epochs."""

    @pytest.mark.parametrize(
        "name", ["ce", "gce", "mcldce", "forward", "t-revision", "bootstrapping", "label-smoothing"]
    )
    def test_one_network_without_selection_weights_the_mean(self, name, batch):
        x, y, w = batch
        method = build(name)
        single = [method(x[i : i + 1], y[i : i + 1], 0).item() for i in range(B)]
        assert method(x, y, 0).item() == pytest.approx(mean(single))
        weighted = mean([v * l for v, l in zip(w.tolist(), single, strict=True)])
        assert method(x, y, 0, w).item() == pytest.approx(weighted)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_volminnet(self, batch, weighted):
        x, y, w = batch
        method = build("volminnet", volume=0.5)
        T = method.transition
        p = method.logits(x).softmax(1).tolist()
        losses = [-math.log(sum(p[n][i] * T[i, y[n]] for i in range(C))) for n in range(B)]
        v = w.tolist() if weighted else [1] * B
        expected = mean([a * b for a, b in zip(v, losses, strict=True)]) + 0.5 * math.log(abs(np.linalg.det(T)))
        assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected)


def blobs(T, n=600, seed=0):
    """Three Gaussian blobs, two-dimensional; noisy labels to train on, clean ones to score."""
    rng = np.random.default_rng(seed)
    centres = 3 * np.array([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])
    clean = np.arange(n) % 3
    x = centres[clean] + rng.standard_normal((n, 2))
    noisy = corrupt(clean, T, random_state=seed)
    return (
        torch.tensor(x, dtype=torch.float32),
        torch.tensor(noisy, dtype=torch.int64),
        torch.tensor(clean, dtype=torch.int64),
    )


def train(method, x, y, steps=60, lr=0.02):
    optimizer = torch.optim.Adam(method.parameter_groups(lr))
    begun(method.train(), y)
    for epoch in range(steps):
        optimizer.zero_grad()
        loss_of(method, x, y, epoch).backward()
        optimizer.step()
    return method.eval()


def accuracy(method, x, clean):
    with torch.no_grad():
        return (method.predict(x).argmax(1) == clean).double().mean().item()


@each_method
class TestEveryMethod:
    """What holds for all methods; a new one is tested by its line in the registry."""

    def test_learns_blobs_with_thirty_per_cent_of_wrong_labels(self, name):
        T = symmetric(3, 0.3)
        x, y, clean = blobs(T)
        torch.manual_seed(0)
        method = train(make_method(name, make_network("mlp", 2, 3, hidden=32), 3, T), x, y)
        assert accuracy(method, x, clean) > 0.97  # the best possible is 0.99

    def test_is_a_method_by_its_name(self, name):
        assert find_method(name).name == name
        assert issubclass(find_method(name), Method)
        method = make_method(name, linear, C, PAIR)
        assert len(method.networks) == method.n_networks
        assert find_method(name).wants_transition() == find_method(name).needs_transition

    def test_loss_is_a_scalar_with_gradients_for_all_parameters(self, name, batch):
        x, y, w = batch
        method = build(name)
        for epoch, weight in [(0, None), (12, w)]:
            method.zero_grad()
            loss = loss_of(method, x, y, epoch, weight)
            assert loss.shape == ()
            loss.backward()
            assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in method.parameters())

    def test_unit_weights_change_nothing(self, name, batch):
        x, y, _ = batch
        weighted = loss_of(build(name), x, y, 12, torch.ones(B, dtype=x.dtype))  # build also sets the seed
        torch.testing.assert_close(weighted, loss_of(build(name), x, y, 12))

    def test_order_of_the_batch_does_not_matter(self, name, batch):
        if name in RANDOM:
            pytest.skip("it draws at random which samples to mix, so another order gives another loss")
        x, y, w = batch
        order = torch.randperm(B, generator=torch.Generator().manual_seed(0))
        there = loss_of(build(name), x[order], y[order], 12, w[order], order)
        torch.testing.assert_close(there, loss_of(build(name), x, y, 12, w))

    def test_a_batch_of_one(self, name, batch):
        x, y, _ = batch
        assert torch.isfinite(loss_of(build(name), x[:1], y[:1], 50))

    def test_prediction_is_one_logit_a_class(self, name, batch):
        x, _, _ = batch
        method = build(name)
        assert method.predict(x).shape == (B, C)
        torch.testing.assert_close(method.predict(x).softmax(1).sum(1), torch.ones(B, dtype=x.dtype))

    def test_groups_hold_every_parameter_once(self, name):
        method = build(name)
        given = [id(p) for group in method.parameter_groups(0.1) for p in group["params"]]
        assert sorted(given) == sorted(id(p) for p in method.parameters())
        assert all("lr" in group for group in method.parameter_groups(0.1))

    def test_state_goes_to_another_instance(self, name, batch):
        x, y, _ = batch
        one, other = build(name), begun(make_method(name, linear, C, PAIR).double())
        other.load_state_dict(one.state_dict())
        losses = []
        for method in (one, other):
            torch.manual_seed(0)
            losses.append(loss_of(method, x, y, 12))
        torch.testing.assert_close(*losses)

    def test_leaves_the_random_state_alone(self, name, batch):
        x, y, _ = batch
        method, before = build(name), torch.get_rng_state()
        loss_of(method, x, y, 12).backward()
        assert torch.equal(torch.get_rng_state(), before) == (name not in RANDOM)

    def test_network_with_another_number_of_outputs(self, name, batch):
        x, y, _ = batch
        method = begun(make_method(name, lambda: nn.Linear(D, C + 1), C, PAIR).double())
        with pytest.raises(ValueError, match=r"shape \(b, 4\); got \(31, 5\)"):
            loss_of(method, x, y, 0)

    def test_continues_from_a_checkpoint(self, name, tmp_path):
        x, y, _ = blobs(symmetric(3, 0.3), n=60)
        trainers = []
        for checkpoint, epochs in [(None, 2), (tmp_path / "run.pt", 1), (tmp_path / "run.pt", 2)]:
            torch.manual_seed(0)
            method = make_method(name, make_network("mlp", 2, 3, hidden=4, dropout=0.5), 3, symmetric(3, 0.3))
            trainer = Trainer(method, epochs=epochs, batch_size=16, ema=0.9, checkpoint=checkpoint)
            trainer.fit(x, y)
            trainers.append(trainer)
        straight, _, resumed = map(tensors, trainers)
        assert straight.keys() == resumed.keys()
        assert all(torch.equal(straight[key], resumed[key]) for key in straight)

    def test_a_saved_model_predicts_the_same(self, name, tmp_path):
        x, y, _ = blobs(symmetric(3, 0.3), n=60)
        settings = {"epochs": 2, "network_options": {"hidden": 4}, "transition": symmetric(3, 0.3), "random_state": 0}
        model = NoisyLabelClassifier(name, **settings).fit(x.numpy(), y.numpy())
        back = unflip.load(model.save(tmp_path / "model"))
        np.testing.assert_array_equal(back.predict_proba(x.numpy()), model.predict_proba(x.numpy()))
        np.testing.assert_array_equal(back.transition_, model.transition_)

    def test_unknown_setting(self, name):
        with pytest.raises(ValueError, match="has no setting colour; it has"):
            make_method(name, linear, C, PAIR, colour="red")


@pytest.mark.parametrize("name", ["mcldce", "forward", "volminnet", "t-revision"])
def test_correction_undoes_one_sided_noise(name):
    # 45 % of each class flip to the next: of the noisy labels near a centre barely more than half are right, so that
    # an uncorrected network gets there too; but its probabilities are those of the noisy labels.
    T = pairflip(3, 0.45)
    x, y, clean = blobs(T)
    probabilities = {}
    for kind in ("ce", name):
        torch.manual_seed(0)
        settings = {"transition_lr": 0.05} if kind == "volminnet" else {}
        method = train(make_method(kind, make_network("mlp", 2, 3, hidden=32), 3, T, **settings), x, y)
        with torch.no_grad():
            probabilities[kind] = method.predict(x).softmax(1)[torch.arange(600), clean].mean().item()
    assert probabilities["ce"] < 0.65
    assert probabilities[name] > 0.9


def test_volminnet_learns_the_transition():
    T = symmetric(3, 0.3)
    x, y, _ = blobs(T, n=6000)
    torch.manual_seed(0)
    method = make_method("volminnet", lambda: nn.Linear(2, 3), 3, transition_lr=0.05)  # too small to learn the noise
    start = np.abs(method.transition - T).sum() / 3
    train(method, x, y, steps=200, lr=0.1)
    error = np.abs(method.transition - T).sum() / 3
    assert error < 0.06 < start / 3


@pytest.mark.parametrize("name", ["mcldce", "forward", "discounted-forward", "t-revision"])
def test_methods_with_T_refuse_to_do_without(name):
    assert find_method(name).needs_transition
    with pytest.raises(ValueError, match=f"method '{name}' needs transition"):
        make_method(name, linear, C)
    with pytest.raises(ValueError, match="transition is 4 x 4 but there are 3 classes"):
        make_method(name, linear, 3, PAIR)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("coteaching", {"forget_rate": "half"}, r"forget_rate must be 'auto' or a number in \[0, 1\); got 'half'"),
        ("coteaching", {"forget_rate": 1.0}, r"forget_rate must be 'auto' or a number in \[0, 1\)"),
        ("sigua", {"num_gradual": -1}, "num_gradual must not be negative"),
        ("sigua", {"rate": 2.0}, r"rate must lie in \[0, 1\]"),
        ("jocor", {"co_lambda": 1.5}, r"co_lambda must lie in \[0, 1\]; got 1.5"),
        ("gce", {"q": 2}, "q must lie between 0"),
        ("mcldce", {"operator": "paper"}, "operator must be 'exact'"),
        ("volminnet", {"volume": -1.0}, "volume and transition_lr must not be negative"),
        ("t-revision", {"correction": "backward"}, "correction must be 'reweight' or 'forward'; got 'backward'"),
        ("t-revision", {"revision_lr": -1.0}, "revise_from and revision_lr must not be negative"),
        ("noise-adaptation", {"init": "random"}, "init must be 'confusion', 'transition' or 'identity'; got 'random'"),
        ("noise-adaptation", {"layer_dropout": 1.0}, r"layer_dropout must be None or lie in \[0, 1\); got 1.0"),
        ("noise-adaptation", {"layer_lr": -1.0}, "warm_up and layer_lr must not be negative"),
        ("bootstrapping", {"beta": 1.1}, r"beta, the share of the given label, must lie in \[0, 1\]; got 1.1"),
        ("label-smoothing", {"rate": 1.0}, "rate must be below 1, and .* not be negative; got 1.0, 0 and 0.0"),
        ("cores", {"ramp": -1}, "beta, warm_up, ramp and sieve_from must not be negative; got 2.0, 10, -1 and 31"),
        ("elr", {"beta": 1.0}, r"strength must not be negative and beta must lie in \[0, 1\); got 3.0 and 1.0"),
        ("mixup", {"alpha": -1.0}, "alpha must not be negative; got -1.0"),
    ],
)
def test_bad_settings(name, settings, message):
    with pytest.raises(ValueError, match=message):
        make_method(name, linear, C, PAIR, **settings)


def test_unknown_method():
    with pytest.raises(ValueError, match="got an object of type Linear. Pass a network by"):
        find_method(nn.Linear(4, 2))
    with pytest.raises(ValueError, match="unknown method 'magic'; choose one of ce, gce, coteaching"):
        make_method("magic", linear, C)


def test_every_class_is_a_name_of_the_package():
    import unflip.deep.methods as methods

    for entry in registry.ENTRIES:
        if entry.family == "deep":
            assert getattr(methods, entry.cls) is find_method(entry.name)
    with pytest.raises(AttributeError, match="has no attribute 'Magic'"):
        _ = methods.Magic


def test_a_signature_has_the_settings_of_the_base_classes():
    plus = inspect.signature(find_method("coteaching+")).parameters
    assert list(plus)[:4] == ["network_factory", "n_classes", "transition", "prior"]
    assert list(plus)[4:] == [
        *("forget_rate", "num_gradual", "exponent"),
        "divide_twice",
        *("init_epoch", "double_softmax", "agreement_epochs"),
    ]
    assert list(inspect.signature(find_method("forward")).parameters) == list(plus)[:4]
