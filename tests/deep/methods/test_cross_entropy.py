"""Cross-entropy against a loop from its rule."""

import pytest

from tests.deep.methods.conftest import B, build, ce_of, mean


@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(batch, weighted):
    x, y, w = batch
    method = build("ce")
    v = w.tolist() if weighted else [1] * B
    expected = mean([a * b for a, b in zip(v, ce_of(method.networks[0](x), y), strict=True)])
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected)
