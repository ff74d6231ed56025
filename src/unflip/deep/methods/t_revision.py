"""T-revision (Xia et al. 2019)."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from unflip._validation import FloatArray
from unflip.core.ldce import well_conditioned
from unflip.deep.losses import cross_entropy, forward_losses
from unflip.deep.methods._base import Method, weighted_mean

Correction = Literal["reweight", "forward"]


class TRevision(Method):
    """Correction through T + dT, where dT is learned with the network.

    ::

        R = max(T + dT, 0), each row divided by its sum
        "reweight"    loss = w CE_y,    w = p_y / (R'p)_y    with p in w as a constant
        "forward"     loss = -log (R'p)_y

    w is the ratio of the clean to the noisy probability of the label, so that the mean of the loss over noisy labels is
    that of cross-entropy over clean ones.

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T is required, the prior is not used.
    correction : {"reweight", "forward"}, default="reweight"
        The loss; the paper prefers the first.
    revise_from : int, default=20
        First epoch that changes dT, which is zero until then.
    revision_lr : float, default=5e-7
        Learning rate of dT.

    Notes
    -----
    The published code trains with T first (100 epochs on MNIST), and then for 200 epochs with T + dT, where one Adam of
    rate 5e-7 moves dT and the network, and the network's gradient goes through w as well. Here one run has both parts,
    the network keeps its own rate, and w is a constant for it: otherwise the network could lower the loss by making
    the given labels unlikely. The published T + dT is not brought back to rows that sum to one, so that the loss could
    be lowered by making all its entries larger. T there comes from anchor points at the 97th percentile; here it is
    whatever ``transition`` is.

    References
    ----------
    Xia, Liu, Wang, Han, Gong, Niu and Sugiyama, Are Anchor Points Really Indispensable in Label-Noise Learning?,
    NeurIPS 2019. The weights: Liu and Tao, Classification with Noisy Labels by Importance Reweighting, TPAMI 2016.
    """

    name = "t-revision"
    needs_transition = True
    start: Tensor  # T, (c, c)

    def __init__(
        self,
        *arguments: Any,
        correction: Correction = "reweight",
        revise_from: int = 20,
        revision_lr: float = 5e-7,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        if correction not in ("reweight", "forward"):
            raise ValueError(f"correction must be 'reweight' or 'forward'; got {correction!r}")
        if revise_from < 0 or revision_lr < 0:
            got = f"{revise_from!r} and {revision_lr!r}"
            raise ValueError(f"revise_from and revision_lr must not be negative; got {got}")
        self.correction = correction
        self.revise_from = revise_from
        self.revision_lr = revision_lr
        self.register_buffer("start", torch.as_tensor(self.required_transition(), dtype=torch.get_default_dtype()))
        self.revision = nn.Parameter(torch.zeros_like(self.start))

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        z = self.logits(x)
        log_columns = self._log_transition(float(epoch >= self.revise_from)).T
        if self.correction == "forward":
            return weighted_mean(forward_losses(z, y, log_columns), weight)
        losses = cross_entropy(z, y)
        ratio = (forward_losses(z.detach(), y, log_columns) - losses.detach()).exp()
        return weighted_mean(ratio * losses, weight)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Return the network's group, and that of dT with its own learning rate and no weight decay."""
        return [
            {"params": list(self.networks.parameters()), "lr": lr},
            {"params": [self.revision], "lr": self.revision_lr, "weight_decay": 0.0},
        ]

    @property
    def transition(self) -> FloatArray:
        """The revised T, shape (n_classes, n_classes)."""
        return well_conditioned(self._log_transition().detach().double().exp().cpu().numpy())

    def _log_transition(self, share: float = 1.0) -> Tensor:
        # Not zero, whose logarithm has no gradient: dT may raise any entry of T. Before the revision, dT has a gradient
        # of zero.
        T = (self.start + share * self.revision).clamp(min=0) + 1e-12
        return (T / T.sum(1, keepdim=True)).log()
