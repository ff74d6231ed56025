"""Generalized cross-entropy against a loop from its rule."""

import pytest
import torch

from tests.deep.methods.conftest import B, build, mean


def test_gce_truncates_from_its_epoch(batch):
    x, y, _ = batch
    method = build("gce", q=0.5, k=0.3, truncate_from=2)
    p = method.logits(x).softmax(1)[torch.arange(B), y].tolist()
    plain = [(1 - v**0.5) / 0.5 for v in p]
    truncated = [(1 - max(v, 0.3) ** 0.5) / 0.5 for v in p]
    assert method(x, y, 1).item() == pytest.approx(mean(plain))
    assert method(x, y, 2).item() == pytest.approx(mean(truncated))
    assert build("gce", q=0.5)(x, y, 99).item() == pytest.approx(mean(plain))
