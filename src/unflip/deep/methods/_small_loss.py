"""What the methods that trust small losses share: the forget rate and its schedule, and the selection.

A network learns the labels that fit together before it learns the wrong ones, so that in a batch the samples with small
losses are mostly right. A share ``forget(epoch)`` of the batch, that with the largest losses, is left out.
"""

from typing import Any, Literal

from numpy.typing import ArrayLike
from torch import Tensor

from unflip._validation import FloatArray
from unflip.deep.methods._base import Method, optional_prior, required_transition, weighted_mean
from unflip.deep.networks import NetworkFactory

ForgetRate = float | Literal["auto"]


class SmallLossMethod(Method):
    """A method with a forget rate.

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`Method`.
    forget_rate : float in [0, 1) or "auto", default="auto"
        The share of a batch that is left out in the end: the noise rate. "auto" takes it from T and the clean prior,
        1 - sum_i prior_i T[i, i], and needs T for it.
    num_gradual : int, default=10
        Epochs over which the rate grows from 0.
    exponent : float, default=1.0
        The rate grows linearly towards forget_rate ** exponent.
    """

    needs_transition = True  # forget_rate="auto"; a given rate sets it to False

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
    ) -> None:
        super().__init__(network_factory, n_classes, transition, prior)
        self.needs_transition = self.wants_transition(forget_rate=forget_rate)
        if isinstance(forget_rate, str):
            if forget_rate != "auto":
                raise ValueError(f"forget_rate must be 'auto' or a number; got {forget_rate!r}")
            T = required_transition(self, transition, invertible=False)
            forget_rate = noise_rate(T, optional_prior(prior, n_classes))
        if not 0 <= forget_rate < 1:
            raise ValueError(f"forget_rate must be 'auto' or lie in [0, 1); got {forget_rate!r}")
        if num_gradual < 0 or exponent <= 0:
            raise ValueError(
                f"num_gradual must not be negative and exponent must be positive; got {num_gradual} and {exponent}"
            )
        self.forget_rate = float(forget_rate)
        self.num_gradual = num_gradual
        self.exponent = exponent

    def forget(self, epoch: int) -> float:
        """Return the share that is left out in an epoch."""
        return forget_schedule(epoch, self.forget_rate, self.num_gradual, self.exponent)

    @classmethod
    def wants_transition(cls, **settings: Any) -> bool:
        return settings.get("forget_rate", "auto") == "auto"

    def extra_repr(self) -> str:
        return f"forget_rate={self.forget_rate:.4g}, num_gradual={self.num_gradual}, exponent={self.exponent}"


def forget_schedule(epoch: int, forget_rate: float, num_gradual: int = 10, exponent: float = 1.0) -> float:
    """Return the share left out in an epoch: ``linspace(0, forget_rate ** exponent, num_gradual)``, then the rate.

    Epochs count from 0, so nothing is left out in the first one. The published loops train from their epoch 1 on: they
    skip the zero and are one step ahead.

    Examples
    --------
    >>> [round(forget_schedule(epoch, 0.45), 2) for epoch in (0, 1, 9, 10, 99)]
    [0.0, 0.05, 0.45, 0.45, 0.45]
    """
    if epoch >= num_gradual:
        return forget_rate
    return forget_rate**exponent * epoch / (num_gradual - 1) if num_gradual > 1 else 0.0


def noise_rate(transition: FloatArray, prior: FloatArray) -> float:
    """Return the probability that a label is wrong, 1 - sum_i prior_i T[i, i]."""
    return min(max(1 - float(prior @ transition.diagonal()), 0.0), 1.0)


def num_remember(forget: float, size: int) -> int:
    """Return how many of ``size`` samples are kept: int((1 - forget) size), at least one."""
    return max(1, int((1 - forget) * size))


def smallest(losses: Tensor, k: int) -> Tensor:
    """Return the indices of the k smallest losses, shape (k,), in any order and outside the gradient."""
    return losses.detach().topk(k, largest=False, sorted=False).indices


def mean_of(losses: Tensor, chosen: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean of weight x loss over the chosen samples, a scalar."""
    return weighted_mean(losses.index_select(0, chosen), None if weight is None else weight.index_select(0, chosen))
