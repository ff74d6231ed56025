"""A method that records its batches, and small data, for the tests of training."""

import numpy as np
import torch
from torch import nn

from unflip.deep.methods import Method
from unflip.deep.networks import make_network


class Recorder(Method):
    """Cross-entropy that keeps what it was given."""

    name = "recorder"

    def __init__(self, network_factory, n_classes=3):
        super().__init__(network_factory, n_classes)
        self.seen = []

    def forward(self, x, y, epoch, weight=None):
        assert self.training
        self.seen.append((x.clone(), y.clone(), epoch, None if weight is None else weight.clone()))
        losses = nn.functional.cross_entropy(self.logits(x), y, reduction="none")
        return (losses if weight is None else losses * weight).mean()


class Awkward(nn.Module):
    """Batch norm, dropout, a layer used twice and one that is never used."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.norm, self.dropout, self.unused = nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(4, 4)

    def forward(self, x):
        h = self.norm(self.first(x)).relu()
        return self.last(self.shared(self.dropout(self.shared(h).relu())))


def small_data():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=101)
    x = rng.integers(0, 200, size=(101, 6), dtype=np.uint8)
    x[np.arange(101), y] += 55
    return x, y


def method(factory=None, seed=0):
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return Recorder(factory or make_network("mlp", 6, 3, hidden=8))


def tensors(trainer):
    """Everything that training changes, by name."""
    found = {f"method.{name}": value for name, value in trainer.method.state_dict().items()}
    if trainer.average is not None:
        found |= {f"average.{name}": value for name, value in trainer.average.state_dict().items()}
    for k, state in trainer.optimizer.state_dict()["state"].items():
        found |= {f"optimizer.{k}.{name}": value for name, value in state.items()}
    return found


def without_seconds(history):
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]
