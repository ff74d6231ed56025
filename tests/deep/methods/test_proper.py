"""Proper scores through T against a loop from their rule."""

import pytest

from tests.deep.methods.conftest import PAIR, B, C, build, mean


@pytest.mark.parametrize("weighted", [False, True])
def test_proper(batch, weighted):
    x, y, w = batch
    b = 0.3
    method = build("proper", power=b)
    p = method.networks[0](x).softmax(1).tolist()
    losses = []
    for n in range(B):
        u = [sum(p[n][i] * PAIR[i, j] for i in range(C)) for j in range(C)]
        losses.append(sum(v ** (1 + b) for v in u) - (1 + 1 / b) * u[y[n]] ** b + 1 / b)
    v = w.tolist() if weighted else [1] * B
    expected = mean([a * b for a, b in zip(v, losses, strict=True)])
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected, rel=1e-5)


def test_a_power_outside_its_range_is_refused():
    with pytest.raises(ValueError, match="power must lie between 0"):
        build("proper", power=1.5)
