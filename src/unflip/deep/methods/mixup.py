"""Mixup (Zhang et al. 2018)."""

from typing import Any

import torch
from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method, weighted_mean


class Mixup(Method):
    """Cross-entropy on weighted means of two samples and of their labels.

    ::

        l ~ Beta(alpha, alpha) and a permutation s, both drawn for each batch
        x'_i = l x_i + (1 - l) x_s(i)
        loss = l CE(x'_i, y_i) + (1 - l) CE(x'_i, y_s(i))

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are not used.
    alpha : float, default=1.0
        Small values leave the samples nearly as they are; zero is cross-entropy. The paper used 1 on CIFAR-10 with
        clean labels, and 8 and 32 where labels were wrong.

    Notes
    -----
    Each of the two labels counts with the weight of its own sample. The draws come from torch's generator, which the
    trainer seeds for each epoch.

    References
    ----------
    Zhang, Cisse, Dauphin and Lopez-Paz, mixup: Beyond Empirical Risk Minimization, ICLR 2018.
    """

    name = "mixup"

    def __init__(self, *arguments: Any, alpha: float = 1.0, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if alpha < 0:
            raise ValueError(f"alpha must not be negative; got {alpha!r}")
        self.alpha = alpha

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        if self.alpha == 0:
            return weighted_mean(cross_entropy(self.logits(x), y), weight)
        share = symmetric_beta(self.alpha, x)
        other = torch.randperm(len(x), device=x.device)
        z = self.logits(x.index_select(0, other).lerp(x, share))
        first = weighted_mean(cross_entropy(z, y), weight)
        second = weighted_mean(cross_entropy(z, y[other]), None if weight is None else weight[other])
        return share * first + (1 - share) * second


def symmetric_beta(alpha: float, like: Tensor) -> Tensor:
    """Return a draw from Beta(alpha, alpha), a tensor without dimensions, with the type and on the device of ``like``.

    A / (A + B) for A and B from Gamma(alpha), in logarithms: a small alpha would make both zero. Gamma(alpha) is
    Gamma(alpha + 1) U^(1 / alpha) for U uniform.
    """
    gamma = torch.distributions.Gamma(like.new_full((2,), alpha + 1), like.new_ones(2)).sample()
    log = gamma.log() - like.new_empty(2).exponential_() / alpha
    return (log[0] - log[1]).sigmoid()
