"""Forward correction that trusts the labels less than T does."""

from typing import Any

from unflip.deep.losses import ForwardLoss
from unflip.deep.methods._base import Method


class DiscountedForward(Method):
    """The mean of :class:`unflip.deep.ForwardLoss` with a ``trust`` below one; the default of ``NoisyLabelClassifier``.

    ::

        loss = -log sum_i p_i S[i, y],    S[i, j] = T[i, j]^trust / sum_k T[i, k]^trust

    A network that trains on the same noisy label for many epochs leans towards it by itself. Forward correction takes
    it in full each time, as if it were new, and memorizes more noise than it has to; see the notes of the loss. The
    price is that probabilities are biased where classes overlap: too sharp under symmetric noise.

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T is required, the prior is not used.
    trust : float in (0, 1], default=0.7
        1 is forward correction.
    """

    name = "discounted-forward"
    needs_transition = True

    def __init__(self, *arguments: Any, trust: float = 0.7, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.loss = ForwardLoss(self.required_transition(), "none", trust=trust)
