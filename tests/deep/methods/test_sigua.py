"""SIGUA against a loop from its rule."""

import pytest

from tests.deep.methods.conftest import B, build, ce_of, mean, naive_forget, ranked


@pytest.mark.parametrize("epoch", [0, 1, 4, 20])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.4, 1.0])
def test_sigua(batch, epoch, weighted, rate):
    x, y, w = batch
    method = build("sigua", rate=rate, scale=0.05)
    losses = ce_of(method.networks[0](x), y)
    n_good = int((1 - naive_forget(epoch, 0.3)) * B)
    n_bad = min(max(1, int(rate * (B - n_good))), B - n_good)
    order = ranked(losses)
    v = w.tolist() if weighted else [1] * B
    expected = mean([v[i] * losses[i] for i in order[:n_good]])
    if n_bad:
        expected -= 0.05 * mean([v[i] * losses[i] for i in order[n_good : n_good + n_bad]])
    assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(expected)
