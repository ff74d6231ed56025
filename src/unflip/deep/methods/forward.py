"""Forward correction (Patrini et al. 2017)."""

from typing import Any

from unflip.deep.losses import ForwardLoss
from unflip.deep.methods._base import Method


class Forward(Method):
    """Cross-entropy of the noisy labels under the network's clean probabilities, moved by T.

    ::

        loss = mean of -log (softmax(logits) T)[y]

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T is required, the prior is not used. The loss alone is
        :class:`unflip.deep.ForwardLoss`.
    """

    name = "forward"
    needs_transition = True

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.loss = ForwardLoss(self.required_transition(), reduction="none")
