"""Co-teaching+ (Yu et al. 2019)."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods.coteaching import CoTeaching


class CoTeachingPlus(CoTeaching):
    """Co-teaching among the samples on which the two networks disagree.

    ::

        D = samples of the batch whose predicted classes differ between the networks
        S_a = the int((1 - forget(epoch)) |D|) samples of D with the smallest cross-entropy of network a; all of D if 0
        loss = mean of CE_1 over S_2  +  mean of CE_2 over S_1

    Parameters
    ----------
    network_factory, n_classes, transition, prior, forget_rate, num_gradual, exponent, divide_twice
        As in :class:`unflip.deep.methods.CoTeaching`.
    init_epoch : int, default=0
        Epochs of plain Co-teaching at the beginning. Published: 0 for the MLP on MNIST, 20 for CIFAR-10, 5 for
        CIFAR-100.
    double_softmax : bool, default=False
        Give the softmax of the logits to a cross-entropy that takes the softmax again.
    agreement_epochs : int, default=0
        Epochs in which a batch without any disagreement gives the cross-entropy of all its samples; later, and by
        default always, it gives nothing.

    Notes
    -----
    The published code has all three quirks: ``double_softmax`` (after ``init_epoch``), which bounds and flattens the
    loss and is probably part of its robustness on MNIST; ``divide_twice``; and cross-entropy on batches without
    disagreement while epoch x batch index < 5000, about ``agreement_epochs=10`` on MNIST.

    The disagreement set stays a mask, so that a GPU need not wait for its size.

    References
    ----------
    Yu, Han, Yao, Niu, Tsang and Sugiyama, How does Disagreement Help Generalization against Label
    Corruption?, ICML 2019.
    """

    name = "coteaching+"

    def __init__(
        self,
        *arguments: Any,
        init_epoch: int = 0,
        double_softmax: bool = False,
        agreement_epochs: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.init_epoch = init_epoch
        self.double_softmax = double_softmax
        self.agreement_epochs = agreement_epochs

    def exchange(self, z_1: Tensor, z_2: Tensor, y: Tensor, epoch: int, weight: Tensor | None) -> Tensor:
        if epoch < self.init_epoch:
            return super().exchange(z_1, z_2, y, epoch, weight)
        disagree = z_1.argmax(1) != z_2.argmax(1)  # (b,)
        if self.double_softmax:
            z_1, z_2 = z_1.softmax(1), z_2.softmax(1)
        losses_1, losses_2 = cross_entropy(z_1, y), cross_entropy(z_2, y)
        k = _kept_counts(self.forget(epoch), len(y), y.device)[disagree.sum()]  # stays on the device
        kept_1, kept_2 = (_smallest_of(losses, disagree, k) for losses in (losses_2, losses_1))
        if epoch < self.agreement_epochs:
            everything = k == 0
            kept_1, kept_2, k = kept_1 | everything, kept_2 | everything, torch.where(everything, len(y), k)
        # As a product with zeros, an empty selection still gives every parameter a gradient.
        total = losses_1 * kept_1 + losses_2 * kept_2
        n = k.clamp(min=1)
        loss = (total if weight is None else total * weight).sum() / n
        return loss / n if self.divide_twice else loss


def _smallest_of(losses: Tensor, members: Tensor, k: Tensor) -> Tensor:
    """Return the mask of the k smallest losses among the members, shape (b,); k is a tensor, at most their number."""
    order = losses.detach().masked_fill(~members, torch.inf).argsort()
    kept = torch.zeros_like(members)
    return kept.scatter_(0, order, torch.arange(len(order), device=order.device) < k)


@lru_cache(maxsize=64)
def _kept_counts(forget: float, size: int, device: torch.device) -> Tensor:
    """Return how many of n = 0 .. size disagreeing samples are kept: all of them if the rate leaves none."""
    return torch.tensor([int((1 - forget) * n) or n for n in range(size + 1)], device=device)
