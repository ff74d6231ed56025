"""T-revision against loops from its rules."""

import math

import numpy as np
import pytest
import torch

from tests.deep.methods.conftest import PAIR, B, C, build, mean


def revised(**settings):
    """A method with a correction of T, and the T that it makes."""
    method = build("t-revision", revise_from=5, **settings)
    dT = np.random.default_rng(0).uniform(-0.2, 0.2, size=(C, C))
    with torch.no_grad():
        method.revision.copy_(torch.tensor(dT))
    T = [[max(PAIR[i, j] + dT[i, j], 0) for j in range(C)] for i in range(C)]
    return method, [[v / sum(row) for v in row] for row in T]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("correction", ["reweight", "forward"])
@pytest.mark.parametrize("epoch", [4, 5])
def test_t_revision(batch, weighted, correction, epoch):
    x, y, w = batch
    method, T = revised(correction=correction)
    np.testing.assert_allclose(method.transition, T, atol=1e-6)
    T = T if epoch == 5 else PAIR.tolist()
    losses = []
    for p, label in zip(method.networks[0](x).softmax(1).tolist(), y.tolist(), strict=True):
        noisy = sum(p[i] * T[i][label] for i in range(C))
        losses.append(-math.log(noisy) if correction == "forward" else p[label] / noisy * -math.log(p[label]))
    v = w.tolist() if weighted else [1] * B
    expected = mean([a * b for a, b in zip(v, losses, strict=True)])
    assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(expected, rel=1e-6)


def test_the_weights_are_constants_for_the_network(batch):
    x, y, _ = batch
    method, T = revised()
    method(x, y, 5).backward()
    z = method.networks[0](x)
    p = z.softmax(1).detach()
    noisy = (p @ torch.tensor(T, dtype=p.dtype))[torch.arange(B), y]
    losses = torch.nn.functional.cross_entropy(z, y, reduction="none") * p[torch.arange(B), y] / noisy
    (expected,) = torch.autograd.grad(losses.mean(), [method.networks[0].weight])
    torch.testing.assert_close(method.networks[0].weight.grad, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("correction", ["reweight", "forward"])
def test_gradient_of_the_correction(batch, correction):
    x, y, _ = batch
    method, _ = revised(correction=correction)
    method(x, y, 5).backward()
    found, step = method.revision.grad.clone(), 1e-6
    for i, j in [(0, 0), (1, 2), (3, 0)]:
        with torch.no_grad():
            method.revision[i, j] += step
            up = method(x, y, 5)
            method.revision[i, j] -= 2 * step
            down = method(x, y, 5)
            method.revision[i, j] += step
        assert found[i, j].item() == pytest.approx((up - down).item() / (2 * step), abs=1e-7)


def steps_of(method, batch, epochs):
    x, y, w = batch
    optimizer = torch.optim.Adam(method.parameter_groups(0.05), weight_decay=0.1)
    for epoch in range(epochs):
        optimizer.zero_grad()
        method(x, y, epoch, w).backward()
        optimizer.step()
    return method


def test_without_a_rate_it_is_forward_correction(batch):
    frozen = steps_of(build("t-revision", correction="forward", revise_from=0, revision_lr=0.0), batch, 5)
    forward = steps_of(build("forward"), batch, 5)
    torch.testing.assert_close(frozen.networks[0].weight, forward.networks[0].weight)
    np.testing.assert_allclose(frozen.transition, PAIR, atol=1e-6)


def test_T_is_revised_from_its_epoch_on(batch):
    settings = {"correction": "forward", "revision_lr": 0.01, "revise_from": 3}
    np.testing.assert_allclose(steps_of(build("t-revision", **settings), batch, 3).transition, PAIR, atol=1e-6)
    T = steps_of(build("t-revision", **settings), batch, 6).transition
    assert np.abs(T - PAIR).max() > 0.01
    assert T[PAIR == 0].max() > 0.001  # an entry that was zero may grow
    np.testing.assert_allclose(T.sum(1), 1)
