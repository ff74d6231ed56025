"""Forward correction against a loop from its rule."""

import math

import pytest

from tests.deep.methods.conftest import PAIR, B, C, build, mean


@pytest.mark.parametrize("weighted", [False, True])
def test_forward(batch, weighted):
    x, y, w = batch
    method = build("forward")
    p = method.networks[0](x).softmax(1).tolist()
    losses = [-math.log(sum(p[n][i] * PAIR[i, y[n]] for i in range(C))) for n in range(B)]
    v = w.tolist() if weighted else [1] * B
    expected = mean([a * b for a, b in zip(v, losses, strict=True)])
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected)
