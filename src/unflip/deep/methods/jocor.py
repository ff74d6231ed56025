"""JoCoR, joint training with co-regularization (Wei et al. 2020)."""

from typing import Any

from torch import Tensor

from unflip.deep.methods._base import SmallLossMethod, mean_of_smallest


class JoCoR(SmallLossMethod):
    """Two networks with one loss that pulls their predictions together; the samples with small joint losses count.

    ::

        l = (1 - co_lambda) (CE_1 + CE_2) + co_lambda (KL(p_1 || p_2) + KL(p_2 || p_1))
        loss = mean of l over the int((1 - forget(epoch)) b) samples of the batch with the smallest l

    Parameters
    ----------
    network_factory, n_classes, transition, prior, forget_rate, num_gradual, exponent
        As in :class:`unflip.deep.methods.CoTeaching`.
    co_lambda : float in [0, 1], default=0.9
        The share of the agreement term.

    Notes
    -----
    The published code's own default for ``co_lambda`` is 0.1, but its authors ran 0.9 on CIFAR-10 (symmetric 20 and
    50 %, asymmetric 40 %), 0.65 at symmetric 80 %, 0.85 on CIFAR-100 and 0.95 on MNIST; none is known for pair noise.
    For asymmetric noise they halve the forget rate: give ``forget_rate`` to do so.

    Gradients go through both arguments of both divergences. Both are taken in log space, where their sum is
    <p_1 - p_2, log p_1 - log p_2>: probabilities that underflow made the published code end in NaN.

    References
    ----------
    Wei, Feng, Chen and An, Combating Noisy Labels by Agreement: A Joint Training Method with Co-Regularization,
    CVPR 2020.
    """

    name = "jocor"
    n_networks = 2

    def __init__(self, *arguments: Any, co_lambda: float = 0.9, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if not 0 <= co_lambda <= 1:
            raise ValueError(f"co_lambda must lie in [0, 1]; got {co_lambda!r}")
        self.co_lambda = co_lambda

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        losses = joint_losses(self.logits(x, 0), self.logits(x, 1), y, self.co_lambda)
        return mean_of_smallest(losses, losses, self.n_kept(epoch, len(y)), weight)


def joint_losses(z_1: Tensor, z_2: Tensor, y: Tensor, co_lambda: float) -> Tensor:
    """Return the joint loss of each sample, shape (b,), from both networks' logits, each (b, c)."""
    log_p1, log_p2 = z_1.log_softmax(1), z_2.log_softmax(1)
    divergence = ((log_p1.exp() - log_p2.exp()) * (log_p1 - log_p2)).sum(1)
    ce = -(log_p1 + log_p2).gather(1, y.unsqueeze(1)).squeeze(1)
    return (1 - co_lambda) * ce + co_lambda * divergence
