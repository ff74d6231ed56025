"""A batch, the methods on a linear network, and the naive loops that they are compared with."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from unflip.deep import make_method
from unflip.noise import pairflip

C, D, B = 4, 6, 31
PAIR = pairflip(C, 0.3)


def linear():
    return nn.Linear(D, C)


def build(name, T=PAIR, **settings):
    torch.manual_seed(0)
    return begun(make_method(name, linear, C, T, **settings).double())


def begun(method, y=None):
    """The method as the trainer prepares it; y are the labels of ``batch`` by default."""
    if method.per_sample:
        y = torch.tensor(np.random.default_rng(2).integers(C, size=B)) if y is None else y
        method.begin(len(y), y)
    return method


def loss_of(method, x, y, epoch, weight=None, index=None):
    """The loss of a batch; a method that keeps something for each sample is told which ones, by default the first."""
    if not method.per_sample:
        return method(x, y, epoch, weight)
    return method(x, y, epoch, weight, index=torch.arange(len(y)) if index is None else index)


@pytest.fixture
def batch():
    rng = np.random.default_rng(1)
    x, weight = torch.tensor(rng.standard_normal((B, D))), torch.tensor(rng.uniform(0.5, 2, size=B))
    return x, torch.tensor(np.random.default_rng(2).integers(C, size=B)), weight


def ce_of(z, y):
    """Cross-entropy of each sample, by a loop."""
    losses = []
    for row, k in zip(z.tolist(), y.tolist(), strict=True):
        losses.append(math.log(sum(math.exp(v) for v in row)) - row[k])
    return losses


def naive_forget(epoch, rate, num_gradual=10, exponent=1.0):
    schedule = [rate] * 1000
    schedule[:num_gradual] = np.linspace(0, rate**exponent, num_gradual)
    return schedule[epoch]


def ranked(losses, members=None):
    return sorted(range(len(losses)) if members is None else members, key=lambda i: losses[i])


def mean(values):
    return sum(values) / len(values)
