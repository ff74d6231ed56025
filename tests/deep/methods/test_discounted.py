"""Forward correction with discounted labels against a loop from its rule."""

import math

import pytest
import torch

from tests.deep.methods.conftest import PAIR, B, C, build, mean


@pytest.mark.parametrize("weighted", [False, True])
def test_discounted(batch, weighted):
    x, y, w = batch
    method = build("discounted", trust=0.4)
    p = method.networks[0](x).softmax(1).tolist()
    losses = [-math.log(sum(p[n][i] * PAIR[i, y[n]] ** 0.4 for i in range(C))) for n in range(B)]
    v = w.tolist() if weighted else [1] * B
    expected = mean([a * b for a, b in zip(v, losses, strict=True)])
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected)


def test_full_trust_is_forward_correction(batch):
    x, y, _ = batch
    method, forward = build("discounted", trust=1), build("forward")
    forward.load_state_dict(method.state_dict())
    torch.testing.assert_close(method(x, y, 0), forward(x, y, 0))


@pytest.mark.parametrize("trust", [0, 1.1, -0.5, float("nan")])
def test_a_trust_outside_its_range_is_refused(trust):
    with pytest.raises(ValueError, match="trust must be above 0 and at most 1"):
        build("discounted", trust=trust)


@pytest.mark.parametrize("name", ["discounted", "forward"])
def test_a_T_with_zeros_has_finite_weights(name):
    assert (PAIR == 0).any()
    assert all(tensor.isfinite().all() for tensor in build(name).state_dict().values())
