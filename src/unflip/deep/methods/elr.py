"""ELR, early-learning regularization (Liu et al. 2020)."""

from typing import Any

import torch
from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method, weighted_mean


class ELR(Method):
    """Cross-entropy and a term that holds each prediction near the average of the earlier ones for the same sample.

    ::

        t_i <- beta t_i + (1 - beta) p_i    each time sample i is seen; t_i = 0 at the start
        loss = CE_y + strength log(1 - <t_i, p_i>)

    A network learns the labels that are consistent with each other first. The gradient of the second term grows with
    the agreement of t_i and p_i, so that a wrong label, learned later, hardly pulls the prediction away.

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are not used.
    strength : float, default=3.0
        The weight of the second term, the paper's lambda: 3 for symmetric noise on CIFAR-10, 1 for asymmetric noise.
    beta : float in [0, 1), default=0.7
        How much of the average stays: 0.7 for symmetric noise, 0.9 for asymmetric noise.

    Notes
    -----
    As in the published code, the p of the second term lies in [1e-4, 1 - 1e-4], and the p that enters t_i also sums to
    one. Each sample has its own average, so that training needs arrays and one process. ELR+, with two networks,
    averaged weights and mixup, is not implemented.

    References
    ----------
    Liu, Niles-Weed, Razavian and Fernandez-Granda, Early-Learning Regularization Prevents Memorization of Noisy Labels,
    NeurIPS 2020.
    """

    name = "elr"
    per_sample = True
    targets: Tensor  # (n_samples, n_classes)

    def __init__(self, *arguments: Any, strength: float = 3.0, beta: float = 0.7, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if strength < 0 or not 0 <= beta < 1:
            got = f"{strength!r} and {beta!r}"
            raise ValueError(f"strength must not be negative and beta must lie in [0, 1); got {got}")
        self.strength = strength
        self.beta = beta

    def begin(self, n_samples: int, y: Tensor) -> None:
        self.keep("targets", torch.zeros(n_samples, self.n_classes, device=y.device))

    def forward(  # type: ignore[override]
        self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None, *, index: Tensor
    ) -> Tensor:
        z = self.logits(x)
        p = z.softmax(1).clamp(1e-4, 1 - 1e-4)
        now = p.detach() / p.detach().sum(1, keepdim=True)
        t = self.targets.index_select(0, index).to(p.dtype).lerp(now, 1 - self.beta)
        self.targets.index_copy_(0, index, t.to(self.targets.dtype))
        agreement = (t * p).sum(1)
        return weighted_mean(cross_entropy(z, y) + self.strength * (1 - agreement).log(), weight)
