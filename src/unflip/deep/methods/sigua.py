"""SIGUA, gradient ascent on rejected samples (Han et al. 2020), in its self-teaching variant."""

from numpy.typing import ArrayLike
from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._small_loss import ForgetRate, SmallLossMethod, num_remember
from unflip.deep.networks import NetworkFactory


class SIGUA(SmallLossMethod):
    """SIGUA_SL: descend on the samples with small losses, and ascend a little on some of the rest.

    ::

        good = the int((1 - forget(epoch)) b) samples of the batch with the smallest cross-entropy
        bad = the int(rate (b - |good|)) samples that follow, at least one if any is left
        loss = mean of CE over good  -  scale x mean of CE over bad

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior only serve ``forget_rate="auto"``.
    forget_rate : float in [0, 1) or "auto", default="auto"
        The noise rate; "auto" is 1 - sum_i prior_i T[i, i].
    num_gradual : int, default=10
        Epochs over which the forget rate grows from 0.
    exponent : float, default=1.0
        The rate grows linearly towards forget_rate ** exponent.
    rate : float in [0, 1], default=0.4
        The share of the rejected samples on which the gradient is reversed.
    scale : float, default=0.01
        How strongly.

    Notes
    -----
    ``bad`` are the rejected samples with the smallest losses, not the largest, as in the published code. Its settings
    (scale, rate): symmetric 20 % 0.01, 0.4; symmetric 50 % 0.01, 0.3; pair 45 % 0.001, 0.7 on MNIST and 0.01, 0.3 on
    CIFAR-10. SIGUA_BC, which reverses the gradient where a backward-corrected loss is negative, is not here.

    References
    ----------
    Han, Niu, Yu, Yao, Xu, Tsang and Sugiyama, SIGUA: Forgetting May Make Learning with Noisy Labels More Robust,
    ICML 2020.
    """

    name = "sigua"

    def __init__(
        self,
        network_factory: NetworkFactory,
        n_classes: int,
        transition: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        *,
        forget_rate: ForgetRate = "auto",
        num_gradual: int = 10,
        exponent: float = 1.0,
        rate: float = 0.4,
        scale: float = 0.01,
    ) -> None:
        super().__init__(
            network_factory,
            n_classes,
            transition,
            prior,
            forget_rate=forget_rate,
            num_gradual=num_gradual,
            exponent=exponent,
        )
        if not 0 <= rate <= 1 or scale < 0:
            raise ValueError(f"rate must lie in [0, 1] and scale must not be negative; got {rate!r} and {scale!r}")
        self.rate = rate
        self.scale = scale

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        losses = cross_entropy(self.logits(x), y)
        n_good = num_remember(self.forget(epoch), len(y))
        rejected = len(y) - n_good
        n_bad = max(1, int(self.rate * rejected)) if rejected else 0
        order = losses.detach().topk(n_good + n_bad, largest=False).indices  # ascending
        counted = (losses if weight is None else weight * losses).index_select(0, order)
        if n_bad == 0:
            return counted.mean()
        return counted[:n_good].mean() - self.scale * counted[n_good:].mean()
