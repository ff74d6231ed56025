"""CORES against a loop from its rule."""

import math

import numpy as np
import pytest
import torch

from tests.deep.methods.conftest import B, build, mean


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("epoch", [0, 11, 30, 31, 60])
def test_cores(batch, weighted, epoch):
    x, y, w = batch
    method = build("cores")
    schedule = np.concatenate([np.zeros(10), np.linspace(0, 2, 30), np.full(60, 2.0)])  # as published
    v, losses = w.tolist() if weighted else [1] * B, []
    for i, p in enumerate(method.logits(x).softmax(1).tolist()):
        label = -math.log(p[y[i]])
        if epoch > 30 and label > mean([-math.log(k) for k in p]):
            continue
        losses.append(v[i] * (label - schedule[epoch] * mean([-math.log(k + 1e-8) for k in p])))
    assert (len(losses) < B) == (epoch > 30)
    assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(mean(losses))


def test_schedule():
    method = build("cores", beta=3.0, warm_up=2, ramp=4)
    assert [method.beta_of(epoch) for epoch in range(8)] == [0, 0, 0, 1, 2, 3, 3, 3]
    assert [build("cores", warm_up=0, ramp=ramp).beta_of(0) for ramp in (0, 1, 2)] == [2, 2, 0]


def test_without_a_reward_and_a_sieve_it_is_cross_entropy(batch):
    x, y, w = batch
    torch.testing.assert_close(build("cores", beta=0.0, sieve_from=99)(x, y, 50, w), build("ce")(x, y, 50, w))


def test_a_batch_of_wrong_labels_is_left_out(batch):
    x, _, _ = batch
    method = build("cores", sieve_from=0)
    loss = method(x, method.logits(x).argmin(1), 0)
    loss.backward()
    assert loss.item() == 0
    assert method.networks[0].weight.grad.abs().max() == 0


def test_the_reward_for_confidence_is_bounded(batch):
    x, _, _ = batch
    method = build("cores", sieve_from=0)
    with torch.no_grad():
        method.networks[0].weight.mul_(1e6)
    loss = method(x, method.logits(x).argmax(1), 50)
    assert -2 * -math.log(1e-8) <= loss.item() < 0
