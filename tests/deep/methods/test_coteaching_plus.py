"""Co-teaching+ against a loop from its rule."""

import pytest
import torch

from tests.deep.methods.conftest import B, build, ce_of, mean, naive_forget, ranked


@pytest.mark.parametrize("epoch", [0, 4, 20])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("quirks", [{}, {"double_softmax": True}, {"divide_twice": True}])
def test_coteaching_plus(batch, epoch, weighted, quirks):
    x, y, w = batch
    method = build("coteaching+", **quirks)
    z1, z2 = (network(x) for network in method.networks)
    different = [i for i in range(B) if z1[i].argmax() != z2[i].argmax()]
    assert 3 < len(different) < B
    if quirks.get("double_softmax"):
        z1, z2 = z1.softmax(1), z2.softmax(1)
    a, b = ce_of(z1, y), ce_of(z2, y)
    k = int((1 - naive_forget(epoch, 0.3)) * len(different))
    v = w.tolist() if weighted else [1] * B
    expected = mean([v[i] * a[i] for i in ranked(b, different)[:k]])
    expected += mean([v[i] * b[i] for i in ranked(a, different)[:k]])
    expected = expected / k if quirks.get("divide_twice") else expected
    assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(expected)


def test_coteaching_plus_warms_up_with_coteaching(batch):
    x, y, _ = batch
    plus, plain = build("coteaching+", init_epoch=3, double_softmax=True), build("coteaching")
    assert plus(x, y, 2).item() == plain(x, y, 2).item()
    assert plus(x, y, 3).item() != plain(x, y, 3).item()


def test_coteaching_plus_keeps_all_of_a_tiny_disagreement(batch):
    x, y, _ = batch
    method = build("coteaching+", forget_rate=0.7)
    z1, z2 = (network(x) for network in method.networks)
    different = (z1.argmax(1) != z2.argmax(1)).nonzero()[:3, 0]
    agree = (z1.argmax(1) == z2.argmax(1)).nonzero()[:5, 0]
    chosen = torch.cat([different, agree])
    expected = mean(ce_of(z1[different], y[different])) + mean(ce_of(z2[different], y[different]))
    assert method(x[chosen], y[chosen], 20).item() == pytest.approx(expected)  # int(0.3 x 3) = 0


def test_coteaching_plus_without_disagreement(batch):
    x, y, w = batch
    method = build("coteaching+", agreement_epochs=5)
    method.networks[1].load_state_dict(method.networks[0].state_dict())
    losses = ce_of(method.networks[0](x), y)
    assert method(x, y, 4).item() == pytest.approx(2 * mean(losses))
    weighted = mean([v * l for v, l in zip(w.tolist(), losses, strict=True)])
    assert method(x, y, 4, w).item() == pytest.approx(2 * weighted)
    late = method(x, y, 5)
    late.backward()
    assert late.item() == 0
    assert all((p.grad == 0).all() for p in method.parameters())
    assert build("coteaching+").agreement_epochs == 0
