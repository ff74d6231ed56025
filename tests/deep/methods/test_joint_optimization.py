"""Joint optimization against loops from its rules, and its labels over several epochs."""

import math

import numpy as np
import pytest
import torch

from tests.deep.methods.conftest import PAIR, B, C, begun, build, ce_of, linear, loss_of, mean
from tests.deep.recorder import small_data, tensors, without_seconds
from unflip.deep import Trainer, make_method, make_network

NAME = "joint-optimization"
PRIOR = [0.4, 0.3, 0.2, 0.1]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_three_terms(batch, weighted):
    x, y, w = batch
    torch.manual_seed(0)
    method = begun(make_method(NAME, linear, C, PAIR, PRIOR, alpha=0.7, beta=0.3).double())
    s = np.random.default_rng(0).dirichlet(np.ones(C), size=B)
    method.targets.copy_(torch.tensor(s))
    s, p = method.targets.tolist(), method.logits(x).softmax(1).tolist()
    v = w.tolist() if weighted else [1] * B
    fit = mean([v[i] * -sum(s[i][k] * math.log(p[i][k]) for k in range(C)) for i in range(B)])
    average = [sum(v[i] * p[i][k] for i in range(B)) / sum(v) for k in range(C)]
    divergence = sum(PRIOR[k] * math.log(PRIOR[k] / average[k]) for k in range(C))
    entropy = mean([v[i] * -sum(q * math.log(q) for q in p[i]) for i in range(B)])
    expected = fit + 0.7 * divergence + 0.3 * entropy
    assert loss_of(method, x, y, 0, w if weighted else None).item() == pytest.approx(expected)


def test_without_the_other_terms_it_is_cross_entropy_until_labels_change(batch):
    x, y, w = batch
    method = build(NAME, alpha=0.0, beta=0.0)
    weighted = mean([a * b for a, b in zip(w.tolist(), ce_of(method.logits(x), y), strict=True)])
    assert loss_of(method, x, y, 0, w).item() == pytest.approx(weighted)


def test_labels_are_the_mean_of_the_last_ten_predictions(batch):
    x, y, _ = batch
    method = build(NAME, relabel_from=3, retrain_from=13)
    torch.testing.assert_close(method.targets, torch.eye(C)[y])
    order = torch.randperm(B, generator=torch.Generator().manual_seed(0))
    seen = []
    for epoch in range(16):
        before = method.targets.clone()
        method.between_epochs(epoch, None)
        if 3 <= epoch <= 13:
            torch.testing.assert_close(method.targets, torch.stack(seen[-10:]).mean(0).float())
        else:
            assert torch.equal(method.targets, before)  # noisy labels, and those of the network that is gone
        with torch.no_grad():  # another network in each epoch
            if epoch < 13:
                method.networks[0].bias += torch.linspace(-0.1, 0.1, C, dtype=torch.float64)
            seen.append(method.logits(x).softmax(1))
            loss_of(method, x[order], y[order], epoch, None, order)


def test_samples_that_are_not_drawn_count_for_nothing(batch):
    x, y, _ = batch
    method = build(NAME, relabel_from=1)
    p = method.logits(x).softmax(1).detach().float()
    half, once = torch.arange(B // 2), torch.arange(1)
    for epoch, rows in enumerate([half, once, once]):  # half the samples are drawn, then one of them
        loss_of(method, x[rows], y[rows], epoch, None, rows)
        method.between_epochs(epoch + 1, None)
        torch.testing.assert_close(method.targets[half], p[half])
        assert torch.equal(method.targets[B // 2 :], torch.eye(C)[y[B // 2 :]])
    for epoch in range(4, 12):
        method.between_epochs(epoch, None)
    assert not method.recent[1:].any()  # the only prediction of these is more than ten epochs old
    torch.testing.assert_close(method.targets[half], p[half])


def test_retraining_starts_with_the_first_weights_and_cross_entropy_alone(batch):
    x, y, w = batch
    method = build(NAME, relabel_from=1, retrain_from=2)
    loss_of(method, x, y, 0)
    first = method.networks[0].weight.clone()
    with torch.no_grad():
        method.networks[0].weight.add_(1)
        method.between_epochs(1, None)
        torch.testing.assert_close(method.networks[0].weight, first + 1)
        method.between_epochs(2, None)
    assert torch.equal(method.networks[0].weight, first)
    s, log_p = method.targets.double(), method.logits(x).log_softmax(1)
    recent = method.recent.clone()
    expected = -(w * (s * log_p).sum(1)).mean()
    torch.testing.assert_close(loss_of(method, x, y, 2, w), expected)
    assert torch.equal(method.recent, recent)


def test_the_average_starts_again_with_the_networks():
    torch.manual_seed(0)
    method = make_method(NAME, make_network("mlp", 6, 3, hidden=8), 3, relabel_from=1, retrain_from=3)
    first = method.networks[0][1].weight.detach().clone()
    trainer = Trainer(method, epochs=4, batch_size=32, ema=0.999, steps_per_epoch=1)
    trainer.fit(*small_data())
    weights, average = (model.networks[0][1].weight.detach() for model in (trainer.method, trainer.model))
    torch.testing.assert_close(average, first + (1 - 2 / 11) * (weights - first))  # after the first step of the new one


def test_a_run_resumes_exactly(tmp_path):
    data = small_data()

    def trainer(epochs, checkpoint=None):
        torch.manual_seed(0)
        method = make_method(NAME, make_network("mlp", 6, 3, hidden=8), 3, relabel_from=2, retrain_from=4)
        return Trainer(method, epochs=epochs, batch_size=32, ema=0.9, checkpoint=checkpoint)

    straight = trainer(5)
    straight.fit(*data)
    for epochs in (3, 4, 5):
        resumed = trainer(epochs, tmp_path / "c.pt")
        resumed.fit(*data)
    assert without_seconds(resumed.history) == without_seconds(straight.history)
    ours, theirs = tensors(resumed), tensors(straight)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1.0}, "alpha and beta must not be negative"),
        ({"relabel_from": 0}, "relabel_from must be at least 1"),
        ({"relabel_from": 5, "retrain_from": 4}, "retrain_from not before it; got 5 and 4"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        make_method(NAME, linear, C, **settings)


@pytest.mark.parametrize("weight", [None, 0.0])
def test_a_class_without_prior_does_not_spoil_the_network(batch, weight):
    x, y, _ = batch
    method = build("joint-optimization")
    method.prior.copy_(torch.eye(C)[0])
    method.begin(len(y), y)
    w = None if weight is None else torch.full_like(x[:, 0], weight)
    method(x, y, 0, w, index=torch.arange(len(y))).backward()
    assert all(torch.isfinite(p.grad).all() for p in method.parameters() if p.grad is not None)
