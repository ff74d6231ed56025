"""The noise adaptation layer against loops from its rules."""

import math

import numpy as np
import pytest
import torch

from tests.deep.methods.conftest import PAIR, B, C, build, linear, mean
from unflip.deep import find_method, make_method


def moved(**settings):
    """A method whose layer has been trained."""
    method = build("noise-adaptation", warm_up=0, **settings)
    with torch.no_grad():
        method.layer.copy_(torch.tensor(np.random.default_rng(0).standard_normal((C, C))))
    return method


def softmax(row):
    total = sum(math.exp(v) for v in row)
    return [math.exp(v) / total for v in row]


@pytest.mark.parametrize("weighted", [False, True])
def test_goldberger(batch, weighted):
    x, y, w = batch
    method = moved(init="transition")
    W = method.layer.tolist()
    T = [softmax([math.log(PAIR[i, j] + 1e-8) + W[i][j] for j in range(C)]) for i in range(C)]
    p = method.networks[0](x).softmax(1).tolist()
    losses = [-math.log(sum(p[n][i] * T[i][y[n]] for i in range(C))) for n in range(B)]
    v = w.tolist() if weighted else [1] * B
    expected = mean([a * b for a, b in zip(v, losses, strict=True)])
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(method.transition, T, rtol=1e-6)


def test_jindal(batch):
    x, y, _ = batch
    method = moved(init="identity", layer_dropout=0.25)
    W = method.layer.tolist()
    p = method.networks[0](x).softmax(1).tolist()
    scores = [[sum(p[n][i] * (W[i][j] + (i == j)) for i in range(C)) for j in range(C)] for n in range(B)]
    torch.manual_seed(3)
    loss = method(x, y, 0)
    torch.manual_seed(3)
    kept = torch.nn.functional.dropout(torch.ones(B, C, dtype=x.dtype), 0.25).tolist()  # zero, or 1 / 0.75
    rows = [[a * b for a, b in zip(scores[n], kept[n], strict=True)] for n in range(B)]
    assert loss.item() == pytest.approx(mean([-math.log(softmax(rows[n])[y[n]]) for n in range(B)]))
    method.eval()
    assert method(x, y, 0).item() == pytest.approx(mean([-math.log(softmax(scores[n])[y[n]]) for n in range(B)]))
    row = softmax([W[0][j] + (j == 0) for j in range(C)])
    np.testing.assert_allclose(method.transition[0], row)


def test_started_at_T_and_frozen_it_is_forward_correction(batch):
    x, y, w = batch
    frozen = build("noise-adaptation", init="transition", warm_up=0, layer_lr=0.0)
    forward = build("forward")
    for method in (frozen, forward):
        optimizer = torch.optim.Adam(method.parameter_groups(0.1), weight_decay=0.1)
        for epoch in range(3):
            optimizer.zero_grad()
            method(x, y, epoch, w).backward()
            optimizer.step()
    np.testing.assert_allclose(frozen.transition, PAIR, atol=1e-6)
    torch.testing.assert_close(frozen.networks[0].weight, forward.networks[0].weight, rtol=1e-5, atol=1e-5)


def test_starts_at_the_confusion_of_the_last_epoch_of_the_warm_up(batch):
    x, y, w = batch
    method = build("noise-adaptation", warm_up=3)
    for epoch in (0, 1, 2, 2):  # two batches in the last epoch
        torch.testing.assert_close(method(x, y, epoch, w), build("ce")(x, y, epoch, w))
    counts = np.eye(C)
    for predicted, label in zip(method.logits(x).argmax(1).tolist(), y.tolist(), strict=True):
        counts[predicted, label] += 2
    np.testing.assert_allclose(method.transition, counts / counts.sum(1, keepdims=True), atol=1e-6)
    before = method.start.clone()
    method(x, y, 3)
    assert torch.equal(before, method.start)


def test_only_init_transition_needs_T():
    assert not find_method("noise-adaptation").wants_transition()
    assert find_method("noise-adaptation").wants_transition(init="transition")
    np.testing.assert_allclose(make_method("noise-adaptation", linear, C).transition, np.eye(C), atol=1e-6)
    with pytest.raises(ValueError, match="method 'noise-adaptation' needs transition"):
        make_method("noise-adaptation", linear, C, init="transition")


def test_a_layer_that_cannot_be_inverted_is_moved_to_the_identity():
    method = build("noise-adaptation", init="identity")
    method.start.fill_(1 / C)
    T = method.transition
    np.testing.assert_allclose(T.sum(1), 1)
    assert 1 < np.linalg.cond(T) < 1e6
