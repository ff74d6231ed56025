"""MC-LDCE: loss decomposition and centroid estimation with a network."""

from typing import Any

import torch
from torch import Tensor

from unflip.core.ldce import Operator
from unflip.deep.losses import MCLDCELoss, Metric, Output
from unflip.deep.methods._base import Method


class MCLDCE(Method):
    """The mean of :class:`unflip.deep.MCLDCELoss`: the squared loss, its label-dependent part corrected through T.

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T is required, and only the published operator reads the prior.
    operator, output, metric
        As in the loss. With ``output="raw"`` the outputs are estimates of the
        probabilities themselves; ``predict`` then returns the logarithm of the nearest probabilities.
    """

    name = "mcldce"
    needs_transition = True

    def __init__(
        self,
        *arguments: Any,
        operator: Operator = "exact",
        output: Output = "softmax",
        metric: Metric | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        T, prior = self.required_transition(), self.given_prior
        self.loss = MCLDCELoss(T, operator, output, metric, prior=prior, reduction="none")

    def predict(self, x: Tensor) -> Tensor:
        h = self.logits(x)
        if self.loss.output == "softmax":
            return h
        # The nearest probabilities, p = max(h - tau, 0), as in unflip.core.project_to_simplex.
        ordered = h.sort(1, descending=True).values
        tau = (ordered.cumsum(1) - 1) / torch.arange(1, self.n_classes + 1, device=h.device)
        last = (ordered > tau).sum(1, keepdim=True) - 1  # the smallest score that stays positive
        return (h - tau.gather(1, last)).clamp(min=torch.finfo(h.dtype).eps).log()
