"""Sizes of the networks, and what make_network makes of names, modules and callables."""

import pytest
import torch
from torch import nn

from unflip.deep import CNN6, MLP, LeNet, make_network
from unflip.deep.networks import Dropout

SHAPES = [(1, 28, 28), (3, 32, 32), (3, 64, 64)]


def size(network):
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("mlp", (203_530, 789_258, 3_148_554)),
        ("cnn6", (2_365_578, 2_367_882, 2_367_882)),
        ("lenet", (61_706, 83_126, 390_326)),
    ],
)
def test_output_shape_and_number_of_parameters(name, counts):
    for shape, count in zip(SHAPES, counts, strict=True):
        network = make_network(name, shape, 10)().eval()
        assert size(network) == count
        with torch.no_grad():
            assert network(torch.rand(2, *shape)).shape == (2, 10)


def test_the_papers_mlp():
    network = MLP(784, 10)
    x = torch.rand(5, 1, 28, 28)
    first, last = network[1], network[-1]
    hidden = nn.functional.leaky_relu(x.flatten(1) @ first.weight.T + first.bias, 0.01)
    torch.testing.assert_close(network(x), hidden @ last.weight.T + last.bias)
    assert not any(isinstance(module, nn.Dropout) for module in network)


def test_cnn6_is_the_papers_table():
    channels = [m.out_channels for m in CNN6(3, 10) if isinstance(m, nn.Conv2d)]
    assert channels == [128, 128, 128, 512, 256, 128]
    padding = [m.padding[0] for m in CNN6(3, 10) if isinstance(m, nn.Conv2d)]
    assert padding == [1, 1, 1, 0, 0, 0]
    assert [m.p for m in CNN6(3, 10) if isinstance(m, nn.Dropout2d)] == [0.25]
    assert size(CNN6(3, 10)) - size(CNN6(3, 10, batch_norm=False)) == 2 * (3 * 128 + 512 + 256 + 128)
    narrow = CNN6(3, 10, width=0.25)
    assert [m.out_channels for m in narrow if isinstance(m, nn.Conv2d)] == [32, 32, 32, 128, 64, 32]


@pytest.mark.parametrize("network", [CNN6(1, 3, width=0.1), LeNet((1, 28, 28), 3), MLP((1, 28, 28), 3, dropout=0.5)])
def test_every_parameter_has_a_gradient(network):
    network(torch.rand(4, 1, 28, 28)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters() if p.ndim > 1)


@pytest.mark.parametrize(("name", "smallest"), [("cnn6", 14), ("lenet", 12)])
def test_smallest_image(name, smallest):
    network = make_network(name, (1, smallest, smallest), 3)().eval()
    assert network(torch.rand(1, 1, smallest, smallest)).shape == (1, 3)
    with pytest.raises(ValueError, match=f"needs images of {smallest} x {smallest} or larger"):
        make_network(name, (1, smallest - 1, 30), 3)


class TestDropout:
    @pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
    def test_drops_a_share_and_keeps_the_mean(self, p):
        torch.manual_seed(0)
        x = torch.ones(400, 251, requires_grad=True)  # not a multiple of four entries
        out = Dropout(p)(x)
        kept = out != 0
        assert abs((~kept).double().mean().item() - p) < 0.006
        torch.testing.assert_close(out[kept], torch.full_like(out[kept], 1 / (1 - p)), rtol=1e-3, atol=0)
        out.sum().backward()
        torch.testing.assert_close(x.grad, out.detach())

    def test_entries_are_independent(self):
        torch.manual_seed(0)
        kept = (Dropout(0.5)(torch.ones(2000, 64)) != 0).double()
        correlation = torch.corrcoef(kept.T) - torch.eye(64)
        assert correlation.abs().max() < 0.12

    def test_follows_the_seed(self):
        x, drop = torch.ones(3, 5), Dropout(0.5)
        torch.manual_seed(1)
        first = drop(x)
        torch.manual_seed(1)
        torch.testing.assert_close(drop(x), first)

    def test_is_off_in_evaluation_and_at_the_ends(self):
        x = torch.ones(3, 5)
        assert torch.equal(Dropout(0.5).eval()(x), x)
        assert torch.equal(Dropout(0.0)(x), x)
        assert torch.equal(Dropout(1.0)(x), torch.zeros(3, 5))


class TestMakeNetwork:
    def test_networks_start_apart(self):
        factory = make_network("mlp", 6, 3, hidden=8, dropout=0.5, slope=0.1)
        a, b = factory(), factory()
        assert a[1].out_features == 8
        assert a[2].negative_slope == 0.1
        assert not torch.equal(a[1].weight, b[1].weight)

    def test_module_is_copied_and_initialised_anew(self):
        own = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))
        nn.init.constant_(own[0].weight, 7.0)
        own[1].running_mean.fill_(5.0)
        factory = make_network(own, 6, 3)
        a, b = factory(), factory()
        assert not torch.equal(a[0].weight, b[0].weight)
        assert a[0].weight.abs().max() < 1
        assert a[1].running_mean.abs().max() == 0
        assert (own[0].weight == 7).all()

    def test_callable_is_called_with_the_options(self):
        factory = make_network(lambda hidden: MLP(6, 3, hidden=hidden), 6, 3, hidden=5)
        assert factory()[1].out_features == 5

    @pytest.mark.parametrize(
        ("arguments", "options", "message"),
        [
            (("resnet", 6, 3), {}, "network must be 'mlp', 'cnn6', 'lenet', an nn.Module or a callable; got 'resnet'"),
            (("cnn6", (784,), 10), {}, r"samples of shape \(channels, height, width\); got \(784,\)"),
            (("lenet", (28, 28), 10), {}, r"got \(28, 28\)"),
            (("mlp", (), 10), {}, "input_shape must be the shape of one sample"),
            (("mlp", (0, 3), 10), {}, "input_shape must be the shape of one sample"),
            (("lenet", (1, 28, 28), 10), {"dropout": 0.5}, "network 'lenet' has no option dropout; it has none"),
            (("mlp", 6, 1), {}, "n_classes must be at least 2; got 1"),
            ((nn.Linear(6, 3), 6, 3), {"hidden": 5}, r"options \['hidden'\] are for a network given by name"),
        ],
    )
    def test_bad_arguments(self, arguments, options, message):
        with pytest.raises(ValueError, match=message):
            make_network(*arguments, **options)


def test_cnn6_gives_the_same_whatever_the_layout_of_its_input():
    network = CNN6(3, 10, width=0.125).eval()
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    layers = torch.nn.Sequential(*network)  # without the change of layout
    expected = layers(x)
    for given in (x, x.contiguous(memory_format=torch.channels_last), x.transpose(2, 3).contiguous().transpose(2, 3)):
        torch.testing.assert_close(network(given), expected)
