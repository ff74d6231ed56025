"""Generalized cross-entropy (Zhang and Sabuncu 2018)."""

from typing import Any

from torch import Tensor

from unflip.deep.losses import GCELoss, TruncatedGCELoss
from unflip.deep.methods._base import Method, weighted_mean


class GCE(Method):
    """The mean of :class:`unflip.deep.GCELoss`, or later of :class:`unflip.deep.TruncatedGCELoss`; see their notes.

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
        loss = self.loss if epoch < self.truncate_from else self.truncated_loss or self.loss
        return weighted_mean(loss(self.logits(x), y), weight)
