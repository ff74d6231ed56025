"""Decoupling against a loop from its rule."""

import pytest

from tests.deep.methods.conftest import B, build, ce_of, linear, mean
from unflip.deep import make_method


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("least_share", [0.1, 1.0])
def test_decoupling(batch, weighted, least_share):
    x, y, w = batch
    method = build("decoupling", least_share=least_share)
    z1, z2 = (network(x) for network in method.networks)
    different = [i for i in range(B) if z1[i].argmax() != z2[i].argmax()]
    assert 0.1 * B < len(different) < B
    a, b = ce_of(z1, y), ce_of(z2, y)
    v = w.tolist() if weighted else [1] * B
    expected = sum(v[i] * (a[i] + b[i]) for i in different) / max(len(different), least_share * B)
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected)


def test_identical_networks_learn_nothing(batch):
    x, y, w = batch
    method = build("decoupling", init_epoch=2)
    method.networks[1].load_state_dict(method.networks[0].state_dict())
    loss = method(x, y, 2, w)
    loss.backward()
    assert loss.item() == 0
    assert all((p.grad == 0).all() for p in method.parameters())
    assert method(x, y, 1).item() == pytest.approx(2 * mean(ce_of(method.networks[0](x), y)))  # not yet


@pytest.mark.parametrize("settings", [{"init_epoch": -1}, {"least_share": 0.0}, {"least_share": 1.5}])
def test_bad_settings(settings):
    with pytest.raises(ValueError, match="init_epoch must not be negative and least_share must lie in"):
        make_method("decoupling", linear, 4, **settings)
