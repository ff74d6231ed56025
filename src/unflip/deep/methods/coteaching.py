"""Co-teaching (Han et al. 2018)."""

from typing import Any

from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import SmallLossMethod, mean_of_smallest


class CoTeaching(SmallLossMethod):
    """Two networks; each learns from the samples that the other one finds easy.

    ::

        S_a = the int((1 - forget(epoch)) b) samples of the batch with the smallest cross-entropy of network a
        loss = mean of CE_1 over S_2  +  mean of CE_2 over S_1

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are only used for ``forget_rate="auto"``.
    forget_rate : float in [0, 1) or "auto", default="auto"
        The share of a batch that is left out in the end, the noise rate. "auto" is 1 - sum_i prior_i T[i, i].
    num_gradual : int, default=10
        Epochs over which the share grows from 0.
    exponent : float, default=1.0
        The share grows linearly towards forget_rate ** exponent.
    divide_twice : bool, default=False
        Divide each mean by the number of its samples again.

    Notes
    -----
    ``divide_twice`` is what the published code does: it takes a mean and divides it again; Adam hardly notices. That
    code reports each network's accuracy alone; ``predict`` here averages both.

    References
    ----------
    Han, Yao, Yu, Niu, Xu, Hu, Tsang and Sugiyama, Co-teaching: Robust Training of Deep Neural Networks with Extremely
    Noisy Labels, NeurIPS 2018.
    """

    name = "coteaching"
    n_networks = 2

    def __init__(self, *arguments: Any, divide_twice: bool = False, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.divide_twice = divide_twice

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        return self.exchange(self.logits(x, 0), self.logits(x, 1), y, epoch, weight)

    def exchange(self, z_1: Tensor, z_2: Tensor, y: Tensor, epoch: int, weight: Tensor | None) -> Tensor:
        """Return the loss for both networks' logits, each (b, c), where each network selects for the other."""
        losses_1, losses_2 = cross_entropy(z_1, y), cross_entropy(z_2, y)
        k = self.n_kept(epoch, len(y))
        loss = mean_of_smallest(losses_1, losses_2, k, weight) + mean_of_smallest(losses_2, losses_1, k, weight)
        return loss / k if self.divide_twice else loss
