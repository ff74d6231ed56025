"""Decoupling "when to update" from "how to update" (Malach and Shalev-Shwartz 2017)."""

from typing import Any

from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method


class Decoupling(Method):
    """Two networks that learn only from the samples on which they disagree.

    ::

        D = samples of the batch whose predicted classes differ between the networks
        loss = sum of CE_1 + CE_2 over D / max(|D|, least_share b)

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are not used.
    init_epoch : int, default=0
        Epochs of plain cross-entropy at the beginning.
    least_share : float in (0, 1], default=0.1
        The share of the batch by which a smaller sum is divided, so that few samples do not take a whole step.

    Notes
    -----
    ``least_share`` is that of the published code, which also weights the two classes of its data; that is left out. Its
    start (0 or 5,000 steps of cross-entropy) depends on the experiment. The networks agree more and more, and then
    learn less and less; identical networks learn nothing.

    References
    ----------
    Malach and Shalev-Shwartz, Decoupling "when to update" from "how to update", NeurIPS 2017.
    """

    name = "decoupling"
    n_networks = 2

    def __init__(self, *arguments: Any, init_epoch: int = 0, least_share: float = 0.1, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if init_epoch < 0 or not 0 < least_share <= 1:
            got = f"{init_epoch!r} and {least_share!r}"
            raise ValueError(f"init_epoch must not be negative and least_share must lie in (0, 1]; got {got}")
        self.init_epoch = init_epoch
        self.least_share = least_share

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        z_1, z_2 = self.logits(x, 0), self.logits(x, 1)
        losses = cross_entropy(z_1, y) + cross_entropy(z_2, y)
        losses = losses if weight is None else weight * losses
        if epoch < self.init_epoch:
            return losses.mean()
        disagree = z_1.argmax(1) != z_2.argmax(1)  # (b,)
        # As a product with zeros, an empty selection still gives every parameter a gradient.
        return (losses * disagree).sum() / disagree.sum().clamp(min=self.least_share * len(y))
