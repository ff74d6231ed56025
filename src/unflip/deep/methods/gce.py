"""Generalised cross-entropy (Zhang and Sabuncu 2018)."""

from numpy.typing import ArrayLike
from torch import Tensor

from unflip.deep.losses import GCELoss, TruncatedGCELoss
from unflip.deep.methods._base import Method, weighted_mean
from unflip.deep.networks import NetworkFactory


class GCE(Method):
    """Generalised cross-entropy, L_q = (1 - p_y^q) / q, and its truncated variant.

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are not used.
    q : float in [0, 1], default=0.7
    k : float in (0, 1), default=None
        Truncate: a label with p_y <= k has no gradient (0.5 in the paper). None never truncates.
    truncate_from : int, default=40
        First epoch that truncates, if ``k`` is given; the paper's is 40 of 120 epochs. Training for fewer epochs than
        that never truncates.

    Notes
    -----
    The published pruning keeps the choice of the best network so far for ten epochs; here the network that is trained
    chooses, at every step (:class:`unflip.deep.TruncatedGCELoss`).

    References
    ----------
    Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels, NeurIPS 2018.
    """

    name = "gce"

    def __init__(
        self,
        network_factory: NetworkFactory,
        n_classes: int,
        transition: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        *,
        q: float = 0.7,
        k: float | None = None,
        truncate_from: int = 40,
    ) -> None:
        super().__init__(network_factory, n_classes, transition, prior)
        self.loss = GCELoss(q, reduction="none")
        self.truncated_loss = None if k is None else TruncatedGCELoss(q, k, reduction="none")
        self.truncate_from = truncate_from

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        loss = self.loss
        if self.truncated_loss is not None and epoch >= self.truncate_from:
            loss = self.truncated_loss
        return weighted_mean(loss(self.logits(x), y), weight)
