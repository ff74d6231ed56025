"""Proper scores of the noisy label: the family between forward correction and MC-LDCE in the noisy metric."""

from typing import Any

from unflip.deep.losses import ProperLoss
from unflip.deep.methods._base import Method


class Proper(Method):
    """The mean of :class:`unflip.deep.ProperLoss`, a power of the noisy label's probability through T.

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T is required, the prior is not used.
    power : float in [0, 1], default=0.5
        0 is forward correction, 1 is MC-LDCE with the exact operator in the noisy metric.
    """

    name = "proper"
    needs_transition = True

    def __init__(self, *arguments: Any, power: float = 0.5, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.loss = ProperLoss(self.required_transition(), power, reduction="none")
