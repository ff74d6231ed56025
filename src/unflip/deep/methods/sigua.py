"""SIGUA, gradient ascent on rejected samples (Han et al. 2020), in its self-teaching variant."""

from typing import Any

from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import SmallLossMethod


class SIGUA(SmallLossMethod):
    """SIGUA_SL: descend on the samples with small losses, and ascend a little on some of the rest.

    ::

        good = the int((1 - forget(epoch)) b) samples of the batch with the smallest cross-entropy
        bad = the int(rate (b - |good|)) samples that follow, at least one if any is left
        loss = mean of CE over good  -  scale x mean of CE over bad

    Parameters
    ----------
    network_factory, n_classes, transition, prior, forget_rate, num_gradual, exponent
        As in :class:`unflip.deep.methods.CoTeaching`.
    rate : float in [0, 1], default=0.4
        The share of the rejected samples on which the gradient is reversed.
    scale : float, default=0.01
        The weight of the reversed gradient.

    Notes
    -----
    ``bad`` are the rejected samples with the smallest losses, not the largest, as in the published code. Its settings
    (scale, rate): symmetric 20 % 0.01, 0.4; symmetric 50 % 0.01, 0.3; pair 45 % 0.001, 0.7 on MNIST and 0.01, 0.3 on
    CIFAR-10. SIGUA_BC, which reverses the gradient where a backward-corrected loss is negative, is not implemented.

    References
    ----------
    Han, Niu, Yu, Yao, Xu, Tsang and Sugiyama, SIGUA: Forgetting May Make Learning with Noisy Labels More Robust,
    ICML 2020.
    """

    name = "sigua"

    def __init__(self, *arguments: Any, rate: float = 0.4, scale: float = 0.01, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if not 0 <= rate <= 1 or scale < 0:
            raise ValueError(f"rate must lie in [0, 1] and scale must not be negative; got {rate!r} and {scale!r}")
        self.rate = rate
        self.scale = scale

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        losses = cross_entropy(self.logits(x), y)
        n_good = self.n_kept(epoch, len(y))
        rejected = len(y) - n_good
        n_bad = max(1, int(self.rate * rejected)) if rejected else 0
        order = losses.detach().topk(n_good + n_bad, largest=False).indices  # ascending
        counted = (losses if weight is None else weight * losses).index_select(0, order)
        good = counted[:n_good].mean()
        return good - self.scale * counted[n_good:].mean() if n_bad else good
