"""Co-teaching against a loop from its rule."""

import pytest

from tests.deep.methods.conftest import B, build, ce_of, mean, naive_forget, ranked


@pytest.mark.parametrize("epoch", [0, 4, 20])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("divide_twice", [False, True])
def test_coteaching(batch, epoch, weighted, divide_twice):
    x, y, w = batch
    method = build("coteaching", divide_twice=divide_twice)
    a, b = (ce_of(network(x), y) for network in method.networks)
    k = int((1 - naive_forget(epoch, 0.3)) * B)
    v = w.tolist() if weighted else [1] * B
    expected = mean([v[i] * a[i] for i in ranked(b)[:k]]) + mean([v[i] * b[i] for i in ranked(a)[:k]])
    expected = expected / k if divide_twice else expected
    assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(expected)
