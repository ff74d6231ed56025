"""Forward correction (Patrini et al. 2017)."""

from typing import Any

from unflip.deep.losses import ForwardLoss
from unflip.deep.methods._base import Method


class Forward(Method):
    """The mean of :class:`unflip.deep.ForwardLoss`, the cross-entropy of the noisy labels through T.

    The parameters are those of :class:`unflip.deep.methods.Method`; T is required, the prior is not used.
    """

    name = "forward"
    needs_transition = True

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.loss = ForwardLoss(self.required_transition(), reduction="none")
