"""Discounted forward correction against a loop from its rule."""

import math

import numpy as np
import pytest
import torch

from tests.deep.methods.conftest import PAIR, B, C, build, mean
from unflip.noise import asymmetric


@pytest.mark.parametrize("weighted", [False, True])
def test_discounted_forward(batch, weighted):
    x, y, w = batch
    T = asymmetric(C, {0: (1, 0.4), 2: (1, 0.2)})
    method = build("discounted-forward", T, trust=0.4)
    p = method.networks[0](x).softmax(1).tolist()
    S = [[T[i, j] ** 0.4 / sum(T[i, k] ** 0.4 for k in range(C)) for j in range(C)] for i in range(C)]
    losses = [-math.log(sum(p[n][i] * S[i][y[n]] for i in range(C))) for n in range(B)]
    v = w.tolist() if weighted else [1] * B
    expected = mean([a * b for a, b in zip(v, losses, strict=True)])
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected)


def test_full_trust_is_forward_correction(batch):
    x, y, _ = batch
    method, forward = build("discounted-forward", trust=1), build("forward")
    forward.load_state_dict(method.state_dict())
    torch.testing.assert_close(method(x, y, 0), forward(x, y, 0))


@pytest.mark.parametrize("trust", [0, 1.1, -0.5, float("nan")])
def test_a_trust_outside_its_range_is_refused(trust):
    with pytest.raises(ValueError, match="trust must be above 0 and at most 1"):
        build("discounted-forward", trust=trust)


@pytest.mark.parametrize("name", ["discounted-forward", "forward", "proper"])
def test_a_T_with_zeros_has_finite_weights(name):
    assert np.any(PAIR == 0)
    assert all(tensor.isfinite().all() for tensor in build(name).state_dict().values())
