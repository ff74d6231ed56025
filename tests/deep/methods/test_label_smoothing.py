"""Label smoothing against a loop from its rule."""

import math

import pytest
import torch

from tests.deep.methods.conftest import B, C, build, mean
from unflip.deep import BackwardLoss
from unflip.noise import symmetric


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("rate", "floor"), [(0.1, 0.0), (-2.0, 0.0), (-2.0, 0.1)])
def test_label_smoothing(batch, weighted, rate, floor):
    x, y, w = batch
    method = build("label-smoothing", rate=rate, floor=floor)
    losses = []
    for p, label in zip(method.logits(x).softmax(1).tolist(), y.tolist(), strict=True):
        losses.append(-(1 - rate) * math.log(p[label]) - rate * mean([math.log(v + floor) for v in p]))
    v = w.tolist() if weighted else [1] * B
    expected = mean([a * b for a, b in zip(v, losses, strict=True)])
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected)


def test_a_rate_of_zero_and_the_warm_up_are_cross_entropy(batch):
    x, y, w = batch
    expected = build("ce")(x, y, 0, w)
    torch.testing.assert_close(build("label-smoothing", rate=0.0)(x, y, 0, w), expected)
    warm = build("label-smoothing", rate=-1.0, warm_up=3)
    torch.testing.assert_close(warm(x, y, 2, w), expected)
    assert warm(x, y, 3, w) > expected


def test_a_negative_rate_is_the_backward_correction_of_symmetric_noise(batch):
    x, y, _ = batch
    share = 0.3 * C / (C - 1)
    method = build("label-smoothing", rate=-share / (1 - share))
    torch.testing.assert_close(method(x, y, 0), BackwardLoss(symmetric(C, 0.3)).double()(method.logits(x), y))
