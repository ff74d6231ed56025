"""The networks of the comparisons, and ``make_network``, which makes a factory from whatever network a user gives."""

import copy
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

NetworkFactory = Callable[[], nn.Module]
InputShape = int | tuple[int, ...]


class MLP(nn.Sequential):
    """The paper's two layers: d -> hidden, leaky ReLU, -> n_classes. Inputs of any shape are flattened.

    Parameters
    ----------
    input_shape : int or tuple of int
        Number of features, or the shape of one sample.
    n_classes : int
    hidden : int, default=256
        Units of the hidden layer. With 0 there is none, and the network is linear; dropout then acts on the inputs.
    dropout : float, default=0.0
        Dropout of the hidden layer. The paper's table has none; 0.5 guards against memorizing the noise.
    slope : float, default=0.01
        Slope of the leaky ReLU; 0 gives the ReLU of the Co-teaching+ and JoCoR code.

    Examples
    --------
    >>> sum(p.numel() for p in MLP((1, 28, 28), 10).parameters())
    203530
    """

    def __init__(
        self, input_shape: InputShape, n_classes: int, hidden: int = 256, dropout: float = 0.0, slope: float = 0.01
    ) -> None:
        inputs = math.prod(_shape(input_shape))
        layer = [nn.Linear(inputs, hidden), nn.LeakyReLU(slope, inplace=True)] if hidden else []
        super().__init__(
            nn.Flatten(),
            *layer,
            *([Dropout(dropout)] if dropout else []),
            nn.Linear(hidden or inputs, n_classes),
        )


class CNN6(nn.Sequential):
    """The paper's six convolutions: 3 x 128, max-pool, dropout, 512, 256, 128, global average pool, dense.

    Every convolution is 3 x 3 and followed by batch norm and a leaky ReLU (0.01). Images must be 14 x 14 or larger.

    Parameters
    ----------
    in_channels, n_classes : int
    width : float, default=1.0
        Multiplies the numbers of channels.
    dropout : float, default=0.25
        Dropout of whole channels after the pooling, in training only.
    batch_norm : bool, default=True

    Notes
    -----
    It has 2,367,882 parameters for 3 channels and 10 classes. The paper's table names neither batch norm nor padding.
    As in the nine-layer Co-teaching network, from which this one differs by the missing middle block, batch norm comes
    before every activation, convolutions keep their biases, the first three keep the size (padding 1) and the last
    three do not (padding 0). The Co-teaching code calls ``F.dropout2d`` without ``training=``: never active in the
    torch of its time, active even at test time in today's. Here it is a module, off at test time.

    Examples
    --------
    >>> CNN6(3, 10, width=0.125).eval()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, in_channels: int, n_classes: int, width: float = 1.0, dropout: float = 0.25, batch_norm: bool = True
    ) -> None:
        a, b, c = (max(1, round(width * channels)) for channels in (128, 256, 512))

        def block(inner: int, outer: int, padding: int) -> list[nn.Module]:
            norm = [nn.BatchNorm2d(outer)] if batch_norm else []
            return [nn.Conv2d(inner, outer, 3, padding=padding), *norm, nn.LeakyReLU(0.01, inplace=True)]

        super().__init__(
            *block(in_channels, a, 1),
            *block(a, a, 1),
            *block(a, a, 1),
            nn.MaxPool2d(2),
            *([nn.Dropout2d(dropout)] if dropout else []),
            *block(a, c, 0),
            *block(c, b, 0),
            *block(b, a, 0),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(a, n_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        # Channels last in memory: every layer passes it on, and convolutions on a CPU are faster with it.
        return super().forward(x.contiguous(memory_format=torch.channels_last))


class LeNet(nn.Sequential):
    """LeNet-5 as VolMinNet uses it on MNIST: 6 @ 5 x 5, pool, 16 @ 5 x 5, pool, dense 120, 84, n_classes; ReLU.

    ``input_shape`` is (channels, height, width) of one image, 12 x 12 or larger; 28 x 28 gives the published 400-120-84
    dense part.

    Examples
    --------
    >>> sum(p.numel() for p in LeNet((1, 28, 28), 10).parameters())
    61706
    """

    def __init__(self, input_shape: tuple[int, int, int], n_classes: int) -> None:
        channels, height, width = input_shape
        flat = 16 * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
        super().__init__(
            *(nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(flat, 120), nn.ReLU(inplace=True)),
            *(nn.Linear(120, 84), nn.ReLU(inplace=True)),
            nn.Linear(84, n_classes),
        )


class Dropout(nn.Dropout):
    """Dropout for a CPU, where torch's own makes a step of the MLP 10 to 25 % slower (``benchmarks/deep_step.py``).

    Each random 64-bit number serves eight entries if p is a multiple of 1/256, otherwise four, and p is rounded to a
    multiple of 2^-16 (and 1 / (1 - p) with it). On other devices it is torch's own.
    """

    def forward(self, input: Tensor) -> Tensor:
        narrow = (self.p * 2**8).is_integer()
        dtype, levels = (torch.int8, 2**8) if narrow else (torch.int16, 2**16)
        dropped = round(self.p * levels)
        if not self.training or input.device.type != "cpu" or self.inplace or dropped in (0, levels):
            return super().forward(input)
        n, size = input.numel(), 8 if narrow else 4
        words = torch.empty(-(-n // size), dtype=torch.int64).random_(-(2**63), None)
        bits = words.view(dtype)[:n].view(input.shape)  # uniform on -levels / 2 .. levels / 2 - 1
        # Written as floats at once: a mask of bools and its conversion would cost three times as much.
        mask = torch.ge(bits, dropped - levels // 2, out=torch.empty_like(input, requires_grad=False))
        return input * mask.mul_(levels / (levels - dropped))


NAMED: dict[str, type[nn.Module]] = {"mlp": MLP, "cnn6": CNN6, "lenet": LeNet}


def check_options(network: Any, options: Iterable[str]) -> None:
    """Refuse options that a network given by name does not have; what a callable takes is not known here."""
    if not isinstance(network, str) or network not in NAMED:
        return
    known = list(inspect.signature(NAMED[network]).parameters)[2:]  # after the shape of a sample and n_classes
    if unknown := sorted(set(options) - set(known)):
        its = f"its options are {', '.join(known)}" if known else "it has none"
        raise ValueError(f"network {network!r} has no option {', '.join(unknown)}; {its}")


def make_network(
    network: str | nn.Module | Callable[..., nn.Module], input_shape: InputShape, n_classes: int, **options: Any
) -> NetworkFactory:
    """Return a function without arguments that makes a fresh network at each call.

    Parameters
    ----------
    network : {"mlp", "cnn6", "lenet"}, nn.Module or callable
        A module is copied and initialized again (``reset_parameters`` of each of its layers) at each call, because two
        networks of one method must start from different weights. To start from trained ones, give a callable that
        loads them.
        A callable is called with the options alone and returns a network with ``n_classes`` outputs.
    input_shape : int or tuple of int
        The shape of one sample: (n_features,) or (channels, height, width).
    n_classes : int
    **options
        Options of the network: ``hidden``, ``dropout``, ``slope`` (mlp); ``width``, ``dropout``, ``batch_norm`` (cnn6).

    Examples
    --------
    >>> factory = make_network("mlp", (1, 28, 28), 10, dropout=0.5)
    >>> factory()(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    if isinstance(network, nn.Module):
        if options:
            raise ValueError(f"options {sorted(options)} are for a network given by name; build the module with them")
        return lambda: _fresh_copy(network)
    if callable(network):
        return lambda: network(**options)
    check_options(network, options)
    shape = _shape(input_shape)
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2; got {n_classes}")
    if network == "mlp":
        return lambda: MLP(shape, n_classes, **options)
    if network not in ("cnn6", "lenet"):
        raise ValueError(f"network must be 'mlp', 'cnn6', 'lenet', an nn.Module or a callable; got {network!r}")
    if len(shape) != 3:
        fault = f"network {network!r} needs images, samples of shape (channels, height, width); got {shape}"
        raise ValueError(f"{fault}. Reshape the samples, or use network='mlp'")
    smallest = 14 if network == "cnn6" else 12
    if min(shape[1:]) < smallest:
        raise ValueError(f"network {network!r} needs images of {smallest} x {smallest} or larger; got {shape[1:]}")
    return lambda: CNN6(shape[0], n_classes, **options) if network == "cnn6" else LeNet(shape, n_classes, **options)


def _fresh_copy(network: nn.Module) -> nn.Module:
    fresh = copy.deepcopy(network)
    for module in fresh.modules():
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
    return fresh


def _shape(input_shape: InputShape) -> tuple[int, ...]:
    sizes = (input_shape,) if isinstance(input_shape, int | np.integer) else input_shape
    shape = tuple(int(size) for size in sizes)
    if not shape or min(shape) < 1:
        raise ValueError(
            f"input_shape must be the shape of one sample, such as 784 or (1, 28, 28); got {input_shape!r}"
        )
    return shape
