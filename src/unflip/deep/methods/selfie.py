"""SELFIE, selectively refurbishing unclean samples (Song et al. 2019)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import NoiseRateMethod


class SELFIE(NoiseRateMethod):
    """Learn from samples with small losses, and from those whose class was predicted consistently, as that class.

    ::

        C = the ceil((1 - forget_rate) b) samples of the batch with the smallest cross-entropy
        R = samples with entropy(shares of the classes among the last predictions) / log(n_classes) <= uncertainty
        y_i <- the most frequent of the last predictions, for i in R, now and in all later epochs
        loss = mean of CE over C, R and all samples that were ever in R

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are only used for ``forget_rate="auto"``.
    forget_rate : float in [0, 1) or "auto", default="auto"
        The noise rate. "auto" is 1 - sum_i prior_i T[i, i].
    warm_up : int, default=25
        Epochs of plain cross-entropy at the beginning.
    history : int, default=15
        How many of the last predictions of a sample are compared. As long as there are fewer, it is not in R.
    uncertainty : float, default=0.05
        The largest entropy, relative to that of equal shares.
    restart_every : int or None, default=None
        Start again with the first weights and an empty history every so many epochs; the new labels stay. If None,
        there are no restarts.

    Notes
    -----
    The defaults are published, for 100 epochs; the authors restart twice, which are 300 epochs in all with
    ``restart_every=100``. With the default uncertainty and ten classes, all of 15 predictions must agree. As published,
    predictions are those of the training steps, and the step itself is not among the last predictions.

    References
    ----------
    Song, Kim and Lee, SELFIE: Refurbishing Unclean Samples for Robust Deep Learning, ICML 2019.
    """

    name = "selfie"
    per_sample = True
    predicted: Tensor  # (n_samples, history), -1 where nothing was predicted yet
    refurbished: Tensor  # (n_samples,), -1 where the label stays

    def __init__(
        self,
        *arguments: Any,
        warm_up: int = 25,
        history: int = 15,
        uncertainty: float = 0.05,
        restart_every: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        if warm_up < 0 or history < 1 or (restart_every is not None and restart_every < 1):
            got = f"{warm_up!r}, {history!r} and {restart_every!r}"
            raise ValueError(f"warm_up must be at least 0, history and restart_every at least 1; got {got}")
        self.warm_up = warm_up
        self.history = history
        self.uncertainty = uncertainty
        self.restart_every = restart_every

    def begin(self, n_samples: int, y: Tensor) -> None:
        self.keep("predicted", torch.full((n_samples, self.history), -1, device=y.device))
        self.keep("refurbished", torch.full_like(y, -1))

        if self.restart_every is not None:
            self.keep_networks()

    def between_epochs(self, epoch: int, predict: Callable[..., Tensor]) -> None:
        if epoch > 0 and self.restart_every is not None and epoch % self.restart_every == 0:
            self.restart_networks()
            self.predicted.fill_(-1)

    def forward(  # type: ignore[override]
        self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None, *, index: Tensor
    ) -> Tensor:
        z = self.logits(x)
        losses = cross_entropy(z, y)
        kept = torch.ones_like(losses)
        if epoch % (self.restart_every or epoch + 1) >= self.warm_up:
            label = self.refurbish(index)
            n_clean = math.ceil(round((1 - self.forget_rate) * len(y), 9))
            clean = losses.detach().topk(n_clean, largest=False, sorted=False).indices
            kept = (label >= 0).to(losses.dtype).index_fill(0, clean, 1.0)
            losses = cross_entropy(z, torch.where(label >= 0, label, y))
        self.predicted[index, epoch % self.history] = z.detach().argmax(1)
        total = losses * kept if weight is None else losses * kept * weight
        return total.sum() / kept.sum()

    def refurbish(self, index: Tensor) -> Tensor:
        """Give consistent samples their new labels; return the labels (b,) of the samples, -1 for those without."""
        last = self.predicted.index_select(0, index)  # (b, history)
        counts = torch.zeros(len(index), self.n_classes, device=last.device)
        counts.scatter_add_(1, last.clamp(min=0), torch.ones_like(last, dtype=counts.dtype))
        share = counts / self.history
        entropy = -torch.xlogy(share, share).sum(1) / math.log(self.n_classes)
        consistent = (last >= 0).all(1) & (entropy <= self.uncertainty)
        label = torch.where(consistent, counts.argmax(1), self.refurbished.index_select(0, index))
        self.refurbished.index_copy_(0, index, label)
        return label
