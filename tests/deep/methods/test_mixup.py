"""Mixup against a loop from its rule."""

import numpy as np
import pytest
import torch
from scipy.stats import beta, kstest

from tests.deep.methods.conftest import B, build, ce_of, mean
from unflip.deep.methods.mixup import symmetric_beta


def drawn(method, x, y, w=None):
    """The loss, and what is drawn for it."""
    torch.manual_seed(7)
    loss = method(x, y, 0, w)
    torch.manual_seed(7)
    share = symmetric_beta(method.alpha, x).item()
    return loss, share, torch.randperm(len(x)).tolist()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_mixup(batch, weighted, alpha):
    x, y, w = batch
    method = build("mixup", alpha=alpha)
    loss, share, other = drawn(method, x, y, w if weighted else None)
    z = method.networks[0](torch.stack([share * x[i] + (1 - share) * x[other[i]] for i in range(B)]))
    first, second = ce_of(z, y), ce_of(z, y[other])
    v = w.tolist() if weighted else [1] * B
    losses = [share * v[i] * first[i] + (1 - share) * v[other[i]] * second[i] for i in range(B)]
    assert loss.item() == pytest.approx(mean(losses))


@pytest.mark.parametrize("alpha", [0.0, 1e-4])
def test_without_mixing_it_is_cross_entropy(batch, alpha):
    x, y, w = batch
    torch.testing.assert_close(build("mixup", alpha=alpha)(x, y, 0, w), build("ce")(x, y, 0, w))


@pytest.mark.parametrize("alpha", [0.1, 8.0])
def test_shares_are_those_of_a_beta_distribution(alpha):
    torch.manual_seed(0)
    like = torch.zeros(1, dtype=torch.float64)
    shares = np.array([symmetric_beta(alpha, like).item() for _ in range(2000)])
    assert kstest(shares, beta(alpha, alpha).cdf).pvalue > 0.01
