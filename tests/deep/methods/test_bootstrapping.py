"""Bootstrapping against a loop from its rule."""

import math

import pytest
import torch

from tests.deep.methods.conftest import B, C, build, mean


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("hard", "beta", "share"), [(False, None, 0.95), (True, None, 0.8), (False, 0.3, 0.3)])
def test_bootstrapping(batch, weighted, hard, beta, share):
    x, y, w = batch
    method = build("bootstrapping", hard=hard, beta=beta)
    losses = []
    for p, label in zip(method.logits(x).softmax(1).tolist(), y.tolist(), strict=True):
        own = [float(k == p.index(max(p))) for k in range(C)] if hard else p
        target = [share * (k == label) + (1 - share) * own[k] for k in range(C)]
        losses.append(-sum(t * math.log(v) for t, v in zip(target, p, strict=True)))
    v = w.tolist() if weighted else [1] * B
    expected = mean([a * b for a, b in zip(v, losses, strict=True)])
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected)


@pytest.mark.parametrize("hard", [False, True])
def test_with_all_of_the_label_it_is_cross_entropy(batch, hard):
    x, y, w = batch
    torch.testing.assert_close(build("bootstrapping", hard=hard, beta=1.0)(x, y, 0, w), build("ce")(x, y, 0, w))


def test_without_the_label_the_gradient_is_that_of_the_entropy(batch):
    x, y, _ = batch
    method = build("bootstrapping", beta=0.0)
    method(x, y, 0).backward()
    p = method.logits(x).softmax(1)
    entropy = -(p * p.log()).sum(1).mean()
    (expected,) = torch.autograd.grad(entropy, [method.networks[0].weight])
    torch.testing.assert_close(method.networks[0].weight.grad, expected)
