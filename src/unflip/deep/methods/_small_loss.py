"""Shared base of the methods that trust small losses: the forget rate, its schedule, and the selection.

A network learns labels that are consistent with each other before it learns the wrong ones, so in a batch the samples
with small losses mostly have correct labels. The share ``forget(epoch)`` with the largest losses is left out.
"""

from typing import Any, Literal

from torch import Tensor

from unflip.deep.methods._base import Method, weighted_mean


class SmallLossMethod(Method):
    """A method with a forget rate; its parameters are those of :class:`unflip.deep.methods.CoTeaching`."""

    needs_transition = True  # for forget_rate="auto"; with a given rate it is False

    def __init__(
        self,
        *arguments: Any,
        forget_rate: float | Literal["auto"] = "auto",
        num_gradual: int = 10,
        exponent: float = 1.0,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.needs_transition = self.wants_transition(forget_rate=forget_rate)
        if forget_rate == "auto":
            forget_rate = max(1 - float(self.given_prior @ self.required_transition().diagonal()), 0.0)
        if isinstance(forget_rate, str) or not 0 <= forget_rate < 1:
            raise ValueError(f"forget_rate must be 'auto' or a number in [0, 1); got {forget_rate!r}")
        if num_gradual < 0 or exponent <= 0:
            raise ValueError(
                f"num_gradual must not be negative and exponent must be positive; got {num_gradual} and {exponent}"
            )
        self.forget_rate = float(forget_rate)
        self.num_gradual = num_gradual
        self.exponent = exponent

    def forget(self, epoch: int) -> float:
        """Return the share left out in an epoch: ``linspace(0, forget_rate ** exponent, num_gradual)``, then the rate.

        Epochs count from 0, so nothing is left out in the first one. The published loops train from their epoch 1 on:
        they skip the zero and are one step ahead.
        """
        if epoch >= self.num_gradual:
            return self.forget_rate
        return self.forget_rate**self.exponent * epoch / (self.num_gradual - 1) if self.num_gradual > 1 else 0.0

    def n_kept(self, epoch: int, size: int) -> int:
        """Return how many of ``size`` samples are kept: int((1 - forget) size), but at least one."""
        return max(1, int((1 - self.forget(epoch)) * size))

    @classmethod
    def wants_transition(cls, **settings: Any) -> bool:
        return settings.get("forget_rate", "auto") == "auto"

    def extra_repr(self) -> str:
        return f"forget_rate={self.forget_rate:.4g}, num_gradual={self.num_gradual}, exponent={self.exponent}"


def mean_of_smallest(losses: Tensor, ranking: Tensor, k: int, weight: Tensor | None) -> Tensor:
    """Return the mean of weight x loss over the samples with the k smallest entries of ``ranking``, a scalar."""
    chosen = ranking.detach().topk(k, largest=False, sorted=False).indices
    return weighted_mean(losses.index_select(0, chosen), None if weight is None else weight.index_select(0, chosen))
