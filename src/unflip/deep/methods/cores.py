"""CORES, confidence-regularized sample sieve (Cheng et al. 2021)."""

from typing import Any

from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method
from unflip.deep.methods.label_smoothing import smoothed_losses


class CORES(Method):
    """Cross-entropy with a reward for confidence, and a sieve for samples whose label the network finds unlikely.

    ::

        loss = CE_y - beta(epoch) mean_k CE_k,    CE_k = -log p_k
        kept from epoch sieve_from on: samples with CE_y <= mean_k CE_k

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are not used.
    beta : float, default=2.0
        The weight of the reward in the end.
    warm_up : int, default=10
        Epochs with weight 0.
    ramp : int, default=30
        Epochs after these over which the weight grows, ``linspace(0, beta, ramp)``.
    sieve_from : int, default=31
        First epoch with the sieve.

    Notes
    -----
    The loss is that of :class:`unflip.deep.methods.LabelSmoothing` with other weights. It is bounded below because, as
    in the published code, the mean has log(p_k + 1e-8). The defaults are the published ones for 100 epochs. That code
    weights the mean by the frequencies of the labels among the kept samples; here all classes count the same. It
    divides the learning rate of SGD by 1 + beta, which Adam makes unnecessary, since its steps do not grow with the
    gradient. Its second phase, consistency training on the samples that the sieve left out, is not implemented.

    References
    ----------
    Cheng, Zhu, Li, Gong, Sun and Liu, Learning with Instance-Dependent Label Noise: A Sample Sieve Approach, ICLR 2021.
    """

    name = "cores"

    def __init__(
        self,
        *arguments: Any,
        beta: float = 2.0,
        warm_up: int = 10,
        ramp: int = 30,
        sieve_from: int = 31,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        if min(beta, warm_up, ramp, sieve_from) < 0:
            got = f"{beta!r}, {warm_up!r}, {ramp!r} and {sieve_from!r}"
            raise ValueError(f"beta, warm_up, ramp and sieve_from must not be negative; got {got}")
        self.beta = beta
        self.warm_up = warm_up
        self.ramp = ramp
        self.sieve_from = sieve_from

    def beta_of(self, epoch: int) -> float:
        """Return the weight of the reward in an epoch."""
        step = epoch - self.warm_up
        if step < 0:
            return 0.0
        return self.beta * step / (self.ramp - 1) if step < self.ramp - 1 else self.beta

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        z = self.logits(x)
        losses = smoothed_losses(z, y, 1.0, -self.beta_of(epoch), floor=1e-8)
        losses = losses if weight is None else weight * losses
        if epoch < self.sieve_from:
            return losses.mean()
        kept = cross_entropy(z, y).detach() <= -z.detach().log_softmax(1).mean(1)
        # A mask, so that a GPU need not wait for the number of samples. Without any, the loss is zero.
        return losses.where(kept, 0).sum() / kept.sum().clamp(min=1)
