"""Each method against a loop from its rule, and all of them on a small task with a known answer."""

import inspect
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unflip import registry
from unflip.core import project_to_simplex
from unflip.deep import Method, find_method, make_method, make_network
from unflip.deep.methods.jocor import joint_losses
from unflip.noise import corrupt, pairflip, symmetric

C, D, B = 4, 6, 31
PAIR = pairflip(C, 0.3)
each_method = pytest.mark.parametrize("name", registry.names("deep"))
SMALL_LOSS = ["coteaching", "coteaching+", "jocor", "sigua"]


def linear():
    return nn.Linear(D, C)


def build(name, **settings):
    torch.manual_seed(0)
    return make_method(name, linear, C, PAIR, **settings).double()


@pytest.fixture
def batch():
    rng = np.random.default_rng(1)
    x, weight = torch.tensor(rng.standard_normal((B, D))), torch.tensor(rng.uniform(0.5, 2, size=B))
    return x, torch.tensor(rng.integers(C, size=B)), weight


def ce_of(z, y):
    """Cross-entropy of each sample, by a loop."""
    losses = []
    for row, k in zip(z.tolist(), y.tolist(), strict=True):
        losses.append(math.log(sum(math.exp(v) for v in row)) - row[k])
    return losses


def naive_forget(epoch, rate, num_gradual=10, exponent=1.0):
    schedule = [rate] * 1000
    schedule[:num_gradual] = np.linspace(0, rate**exponent, num_gradual)
    return schedule[epoch]


def ranked(losses, members=None):
    return sorted(range(len(losses)) if members is None else members, key=lambda i: losses[i])


def mean(values):
    return sum(values) / len(values)


class TestForgetSchedule:
    @pytest.mark.parametrize(("num_gradual", "exponent"), [(10, 1.0), (10, 2.0), (5, 0.5), (1, 1.0), (0, 1.0)])
    def test_equals_the_published_array(self, num_gradual, exponent):
        method = make_method("sigua", linear, C, forget_rate=0.4, num_gradual=num_gradual, exponent=exponent)
        for epoch in range(30):
            assert method.forget(epoch) == pytest.approx(naive_forget(epoch, 0.4, num_gradual, exponent))

    @pytest.mark.parametrize("name", SMALL_LOSS)
    def test_auto_is_the_noise_rate(self, name):
        T, prior = symmetric(C, 0.2) * 0.5 + np.eye(C) * 0.5, np.full(C, 1 / C)
        assert make_method(name, linear, C, T).forget_rate == pytest.approx(0.1)
        T[0], prior = [0.5, 0.5, 0, 0], np.array([0.7, 0.1, 0.1, 0.1])
        method = make_method(name, linear, C, T, prior)
        assert method.forget_rate == pytest.approx(0.7 * 0.5 + 0.3 * 0.1)
        assert method.needs_transition

    @pytest.mark.parametrize("name", SMALL_LOSS)
    def test_a_given_rate_needs_no_transition(self, name):
        method = make_method(name, linear, C, forget_rate=0.25)
        assert not method.needs_transition
        assert method.forget_rate == method.forget(10) == method.forget(200) == 0.25
        assert method.forget(0) == 0
        with pytest.raises(ValueError, match=f"method '{name}' needs transition".replace("+", r"\+")):
            make_method(name, linear, C)

    def test_number_of_samples_kept(self):
        method = make_method("sigua", linear, C, forget_rate=0.3)
        assert [method.n_kept(10, n) for n in (1, 2, 10, 128)] == [1, 1, 7, 89]
        assert method.n_kept(0, 128) == 128


class TestRules:
    """Losses of single batches by naive loops; each rule with and without weights, at several epochs."""

    @pytest.mark.parametrize("epoch", [0, 4, 20])
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("divide_twice", [False, True])
    def test_coteaching(self, batch, epoch, weighted, divide_twice):
        x, y, w = batch
        method = build("coteaching", divide_twice=divide_twice)
        a, b = (ce_of(network(x), y) for network in method.networks)
        k = int((1 - naive_forget(epoch, 0.3)) * B)
        v = w.tolist() if weighted else [1] * B
        expected = mean([v[i] * a[i] for i in ranked(b)[:k]]) + mean([v[i] * b[i] for i in ranked(a)[:k]])
        expected = expected / k if divide_twice else expected
        assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(expected)

    @pytest.mark.parametrize("epoch", [0, 4, 20])
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("quirks", [{}, {"double_softmax": True}, {"divide_twice": True}])
    def test_coteaching_plus(self, batch, epoch, weighted, quirks):
        x, y, w = batch
        method = build("coteaching+", **quirks)
        z1, z2 = (network(x) for network in method.networks)
        different = [i for i in range(B) if z1[i].argmax() != z2[i].argmax()]
        assert 3 < len(different) < B
        if quirks.get("double_softmax"):
            z1, z2 = z1.softmax(1), z2.softmax(1)
        a, b = ce_of(z1, y), ce_of(z2, y)
        k = int((1 - naive_forget(epoch, 0.3)) * len(different))
        v = w.tolist() if weighted else [1] * B
        expected = mean([v[i] * a[i] for i in ranked(b, different)[:k]])
        expected += mean([v[i] * b[i] for i in ranked(a, different)[:k]])
        expected = expected / k if quirks.get("divide_twice") else expected
        assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(expected)

    def test_coteaching_plus_warms_up_with_coteaching(self, batch):
        x, y, _ = batch
        plus, plain = build("coteaching+", init_epoch=3, double_softmax=True), build("coteaching")
        assert plus(x, y, 2).item() == plain(x, y, 2).item()
        assert plus(x, y, 3).item() != plain(x, y, 3).item()

    def test_coteaching_plus_keeps_all_of_a_tiny_disagreement(self, batch):
        x, y, _ = batch
        method = build("coteaching+", forget_rate=0.7)
        z1, z2 = (network(x) for network in method.networks)
        different = (z1.argmax(1) != z2.argmax(1)).nonzero()[:3, 0]
        agree = (z1.argmax(1) == z2.argmax(1)).nonzero()[:5, 0]
        chosen = torch.cat([different, agree])
        expected = mean(ce_of(z1[different], y[different])) + mean(ce_of(z2[different], y[different]))
        assert method(x[chosen], y[chosen], 20).item() == pytest.approx(expected)  # int(0.3 x 3) = 0

    def test_coteaching_plus_without_disagreement(self, batch):
        x, y, w = batch
        method = build("coteaching+", agreement_epochs=5)
        method.networks[1].load_state_dict(method.networks[0].state_dict())
        losses = ce_of(method.networks[0](x), y)
        assert method(x, y, 4).item() == pytest.approx(2 * mean(losses))
        weighted = mean([v * l for v, l in zip(w.tolist(), losses, strict=True)])
        assert method(x, y, 4, w).item() == pytest.approx(2 * weighted)
        late = method(x, y, 5)
        late.backward()
        assert late.item() == 0
        assert all((p.grad == 0).all() for p in method.parameters())
        assert build("coteaching+").agreement_epochs == 0

    @pytest.mark.parametrize("epoch", [0, 4, 20])
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("co_lambda", [0.0, 0.65, 0.9])
    def test_jocor(self, batch, epoch, weighted, co_lambda):
        x, y, w = batch
        method = build("jocor", co_lambda=co_lambda)
        z1, z2 = (network(x) for network in method.networks)
        joint = []
        for i in range(B):
            p, q = z1[i].softmax(0).tolist(), z2[i].softmax(0).tolist()
            kl_pq = sum(p[j] * math.log(p[j] / q[j]) for j in range(C))
            kl_qp = sum(q[j] * math.log(q[j] / p[j]) for j in range(C))
            ce = -math.log(p[y[i]]) - math.log(q[y[i]])
            joint.append((1 - co_lambda) * ce + co_lambda * (kl_pq + kl_qp))
        k = int((1 - naive_forget(epoch, 0.3)) * B)
        v = w.tolist() if weighted else [1] * B
        expected = mean([v[i] * joint[i] for i in ranked(joint)[:k]])
        assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(expected)

    def test_jocor_gradient_goes_through_both_networks(self):
        torch.manual_seed(0)
        z = torch.randn(2, 5, C, dtype=torch.float64, requires_grad=True)
        y = torch.tensor([0, 1, 2, 3, 0])
        assert torch.autograd.gradcheck(lambda v: joint_losses(v[0], v[1], y, 1.0), z)
        p, q = z.detach().softmax(2)
        kl = F.kl_div(p.log(), q.log(), log_target=True, reduction="none").sum(1)
        kl += F.kl_div(q.log(), p.log(), log_target=True, reduction="none").sum(1)
        torch.testing.assert_close(joint_losses(z[0], z[1], y, 1.0).detach(), kl)

    def test_jocor_survives_probabilities_that_underflow(self):
        z1 = torch.tensor([[300.0, 0.0]], requires_grad=True)
        z2 = torch.tensor([[0.0, 300.0]], requires_grad=True)
        loss = joint_losses(z1, z2, torch.tensor([0]), 0.9).sum()
        loss.backward()
        assert loss.item() == pytest.approx(0.1 * 300 + 0.9 * 600)
        assert torch.isfinite(z1.grad).all()
        assert torch.isfinite(z2.grad).all()

    @pytest.mark.parametrize("epoch", [0, 1, 4, 20])
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("rate", [0.0, 0.4, 1.0])
    def test_sigua(self, batch, epoch, weighted, rate):
        x, y, w = batch
        method = build("sigua", rate=rate, scale=0.05)
        losses = ce_of(method.networks[0](x), y)
        n_good = int((1 - naive_forget(epoch, 0.3)) * B)
        n_bad = min(max(1, int(rate * (B - n_good))), B - n_good)
        order = ranked(losses)
        v = w.tolist() if weighted else [1] * B
        expected = mean([v[i] * losses[i] for i in order[:n_good]])
        if n_bad:
            expected -= 0.05 * mean([v[i] * losses[i] for i in order[n_good : n_good + n_bad]])
        assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(expected)

    def test_gce_truncates_from_its_epoch(self, batch):
        x, y, _ = batch
        method = build("gce", q=0.5, k=0.3, truncate_from=2)
        p = method.logits(x).softmax(1)[torch.arange(B), y].tolist()
        plain = [(1 - v**0.5) / 0.5 for v in p]
        truncated = [(1 - max(v, 0.3) ** 0.5) / 0.5 for v in p]
        assert method(x, y, 1).item() == pytest.approx(mean(plain))
        assert method(x, y, 2).item() == pytest.approx(mean(truncated))
        assert build("gce", q=0.5)(x, y, 99).item() == pytest.approx(mean(plain))

    @pytest.mark.parametrize("name", ["ce", "gce", "mcldce", "forward"])
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


class TestPrediction:
    def test_two_networks_average_their_probabilities(self, batch):
        x, _, _ = batch
        method = build("jocor")
        a, b = (network(x).softmax(1) for network in method.networks)
        torch.testing.assert_close(method.predict(x).exp(), (a + b) / 2)

    def test_raw_mcldce_predicts_the_nearest_probabilities(self, batch):
        x, _, _ = batch
        method = build("mcldce", output="raw")
        h = method.networks[0](x).detach()
        p = method.predict(x).softmax(1).detach().numpy()
        np.testing.assert_allclose(p, project_to_simplex(h.numpy()), atol=1e-6)
        assert (p.argmax(axis=1) == h.argmax(1).numpy()).all()


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
    method.train()
    for epoch in range(steps):
        optimizer.zero_grad()
        method(x, y, epoch).backward()
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
            loss = method(x, y, epoch, weight)
            assert loss.shape == ()
            loss.backward()
            assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in method.parameters())

    def test_unit_weights_change_nothing(self, name, batch):
        x, y, _ = batch
        method = build(name)
        torch.testing.assert_close(method(x, y, 12, torch.ones(B, dtype=x.dtype)), method(x, y, 12))

    def test_order_of_the_batch_does_not_matter(self, name, batch):
        x, y, w = batch
        method, order = build(name), torch.randperm(B, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(method(x[order], y[order], 12, w[order]), method(x, y, 12, w))

    def test_a_batch_of_one(self, name, batch):
        x, y, _ = batch
        assert torch.isfinite(build(name)(x[:1], y[:1], 50))

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
        one, other = build(name), make_method(name, linear, C, PAIR).double()
        other.load_state_dict(one.state_dict())
        torch.testing.assert_close(one(x, y, 12), other(x, y, 12))

    def test_leaves_the_random_state_alone(self, name, batch):
        x, y, _ = batch
        method, before = build(name), torch.get_rng_state()
        method(x, y, 12).backward()
        assert torch.equal(torch.get_rng_state(), before)

    def test_network_with_another_number_of_outputs(self, name, batch):
        x, y, _ = batch
        method = make_method(name, lambda: nn.Linear(D, C + 1), C, PAIR).double()
        with pytest.raises(ValueError, match=r"shape \(b, 4\); got \(31, 5\)"):
            method(x, y, 0)

    def test_unknown_setting(self, name):
        with pytest.raises(ValueError, match="has no setting colour; it has"):
            make_method(name, linear, C, PAIR, colour="red")


@pytest.mark.parametrize("name", ["mcldce", "forward", "volminnet"])
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


@pytest.mark.parametrize("name", ["mcldce", "forward"])
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
    ],
)
def test_bad_settings(name, settings, message):
    with pytest.raises(ValueError, match=message):
        make_method(name, linear, C, PAIR, **settings)


def test_unknown_method():
    with pytest.raises(ValueError, match="unknown method 'elr'; choose one of ce, gce, coteaching"):
        make_method("elr", linear, C)


def test_every_class_is_a_name_of_the_package():
    import unflip.deep.methods as methods

    for entry in registry.ENTRIES:
        if entry.family == "deep":
            assert getattr(methods, entry.cls) is find_method(entry.name)
    with pytest.raises(AttributeError, match="has no attribute 'ELR'"):
        _ = methods.ELR


def test_a_signature_has_the_settings_of_the_base_classes():
    plus = inspect.signature(find_method("coteaching+")).parameters
    assert list(plus)[:4] == ["network_factory", "n_classes", "transition", "prior"]
    assert list(plus)[4:] == [
        *("forget_rate", "num_gradual", "exponent"),
        "divide_twice",
        *("init_epoch", "double_softmax", "agreement_epochs"),
    ]
    assert list(inspect.signature(find_method("forward")).parameters) == list(plus)[:4]
