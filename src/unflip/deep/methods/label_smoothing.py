"""Label smoothing with positive or negative rates (Wei et al. 2022)."""

from typing import Any

from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method, weighted_mean


class LabelSmoothing(Method):
    """Cross-entropy with a share of the label spread over all classes; a negative share makes the network surer.

    ::

        loss = (1 - rate) CE_y + rate mean_k CE_k,    CE_k = -log p_k, in the mean -log(p_k + floor)

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are not used.
    rate : float below 1, default=0.1
        Zero is cross-entropy. The paper tries 0.8 to -8; the more noise, the lower its best rate.
    warm_up : int, default=0
        Epochs of cross-entropy at the beginning, which the paper advises for heavy noise.
    floor : float, default=0.0
        If positive, it gives the loss with a negative rate a lower bound, as in :class:`unflip.deep.methods.CORES`.

    Notes
    -----
    For symmetric noise, :class:`unflip.deep.BackwardLoss` is this loss with ``rate = -s / (1 - s)``, where s is the
    noise rate times c / (c - 1): -2 for 60 % of noise and ten classes. Like it, the loss with a negative rate has no
    lower bound. After the warm-up, the published code trains with a learning rate of 1e-6, at which that hardly
    matters; here the learning rate is that of the trainer, and ``floor=1e-8`` keeps the network from growing without
    end.

    References
    ----------
    Wei, Liu, Liu, Niu and Liu, To Smooth or Not? When Label Smoothing Meets Noisy Labels, ICML 2022. Positive rates:
    Lukasik, Bhojanapalli, Menon and Kumar, Does Label Smoothing Mitigate Label Noise?, ICML 2020.
    """

    name = "label-smoothing"

    def __init__(
        self, *arguments: Any, rate: float = 0.1, warm_up: int = 0, floor: float = 0.0, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        if not rate < 1 or warm_up < 0 or floor < 0:
            got = f"{rate!r}, {warm_up!r} and {floor!r}"
            raise ValueError(f"rate must be below 1, and warm_up and floor must not be negative; got {got}")
        self.rate = rate
        self.warm_up = warm_up
        self.floor = floor

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        rate = 0.0 if epoch < self.warm_up else self.rate
        return weighted_mean(smoothed_losses(self.logits(x), y, 1 - rate, rate, self.floor), weight)


def smoothed_losses(logits: Tensor, y: Tensor, a: float, b: float, floor: float = 0.0) -> Tensor:
    """Return a CE_y + b mean_k CE_k of each sample, shape (b,), where the mean has log(p_k + floor) for log p_k."""
    losses = a * cross_entropy(logits, y)
    if b == 0:
        return losses
    log_p = logits.softmax(1).add(floor).log() if floor else logits.log_softmax(1)
    return losses - b * log_p.mean(1)
