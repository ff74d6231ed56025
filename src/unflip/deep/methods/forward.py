"""Forward correction (Patrini et al. 2017)."""

from numpy.typing import ArrayLike
from torch import Tensor

from unflip.deep.losses import ForwardLoss
from unflip.deep.methods._base import Method, required_transition, weighted_mean
from unflip.deep.networks import NetworkFactory


class Forward(Method):
    """Cross-entropy of the noisy labels under the network's clean probabilities, moved by T.

    ::

        loss = mean of -log (softmax(logits) T)[y]

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T is required, the prior is not used.

    See Also
    --------
    unflip.deep.ForwardLoss : the loss alone.
    """

    name = "forward"
    needs_transition = True

    def __init__(
        self,
        network_factory: NetworkFactory,
        n_classes: int,
        transition: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> None:
        super().__init__(network_factory, n_classes, transition, prior)
        self.loss = ForwardLoss(required_transition(self, transition, invertible=False), reduction="none")

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        return weighted_mean(self.loss(self.logits(x), y), weight)
