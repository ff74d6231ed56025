"""Generalized cross-entropy (Zhang and Sabuncu 2018)."""

from typing import Any

from torch import Tensor

from unflip.deep.losses import GCELoss, TruncatedGCELoss
from unflip.deep.methods._base import Method, weighted_mean


class GCE(Method):
    """Generalized cross-entropy, L_q = (1 - p_y^q) / q, and its truncated variant.

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are not used.
    q : float in [0, 1], default=0.7
    k : float in (0, 1), default=None
        Truncate: a label with p_y <= k has no gradient (0.5 in the paper). If None, nothing is truncated.
    truncate_from : int, default=40
        First epoch that truncates, if ``k`` is given; the paper's is 40 of 120 epochs. Training for fewer epochs than
        that never truncates.

    Notes
    -----
    The published pruning keeps the choice of the best network so far for ten epochs; here the network being trained
    chooses, in every step (:class:`unflip.deep.TruncatedGCELoss`).

    References
    ----------
    Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels, NeurIPS 2018.
    """

    name = "gce"

    def __init__(
        self, *arguments: Any, q: float = 0.7, k: float | None = None, truncate_from: int = 40, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self.loss = GCELoss(q, reduction="none")
        self.truncated_loss = None if k is None else TruncatedGCELoss(q, k, reduction="none")
        self.truncate_from = truncate_from

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        loss = self.loss
        if self.truncated_loss is not None and epoch >= self.truncate_from:
            loss = self.truncated_loss
        return weighted_mean(loss(self.logits(x), y), weight)
