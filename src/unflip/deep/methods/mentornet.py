"""The predefined curricula of MentorNet (Jiang et al. 2018): self-paced learning, also with a moving threshold."""

from typing import Any

import torch
from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method, weighted_mean


class MentorNet(Method):
    """Cross-entropy of the samples whose loss is below a threshold.

    ::

        v_i = 1[CE_i < threshold]                          self-paced, with a given threshold
        v_i = 1[CE_i <= a],   a <- decay a + (1 - decay) q     with a moving one

        q = the percentile of the losses of the batch
        loss = mean of v_i CE_i over the batch, a random share example_dropout of the v set to zero

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are not used.
    threshold : float or None, default=None
        The largest loss that counts, the lambda of self-paced learning. If None, the threshold moves with the losses.
    percentile : float in (0, 1], default=0.75
        Where the losses of a batch are cut, about the share of samples that count.
    decay : float in [0, 1), default=0.5
        How much of the moving threshold stays at each step.
    burn_in : int, default=7
        Epochs at the beginning in which all samples count.
    example_dropout : tuple of two floats in [0, 1), default=(0.0, 0.0)
        The random share of each batch that is left out: while burning in, and after it.

    Attributes
    ----------
    moving_threshold : Tensor
        a, before the first step -1.

    Notes
    -----
    The published code has percentile 0.75, decay 0.5, and burns in for 18 % of the steps (7 of 40 epochs) with
    ``example_dropout=(0.5, 0.05)``. It trains a small network, the mentor, to imitate v; here v is computed. Its moving
    threshold starts at 0, here at the first q, which only matters without burning in. The curriculum that MentorNet
    learns from clean labels is not implemented.

    Under ``torchrun``, each process takes the percentile of its own share of the batch.

    References
    ----------
    Jiang, Zhou, Leung, Li and Fei-Fei, MentorNet: Learning Data-Driven Curriculum for Very Deep Neural Networks on
    Corrupted Labels, ICML 2018. Kumar, Packer and Koller, Self-Paced Learning for Latent Variable Models, NeurIPS 2010.
    """

    name = "mentornet"
    moving_threshold: Tensor

    def __init__(
        self,
        *arguments: Any,
        threshold: float | None = None,
        percentile: float = 0.75,
        decay: float = 0.5,
        burn_in: int = 7,
        example_dropout: tuple[float, float] = (0.0, 0.0),
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        if threshold is not None and not threshold > 0:
            raise ValueError(f"threshold must be a positive number, or None for a moving one; got {threshold!r}")
        if not 0 < percentile <= 1 or not 0 <= decay < 1:
            got = f"{percentile!r} and {decay!r}"
            raise ValueError(f"percentile must lie in (0, 1] and decay in [0, 1); got {got}")
        if len(example_dropout) != 2 or not all(0 <= rate < 1 for rate in example_dropout):
            raise ValueError(f"example_dropout must be two numbers in [0, 1); got {example_dropout!r}")
        self.threshold = threshold
        self.percentile = percentile
        self.decay = decay
        self.burn_in = burn_in
        self.example_dropout = (float(example_dropout[0]), float(example_dropout[1]))
        self.register_buffer("moving_threshold", torch.tensor(-1.0))

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        losses = cross_entropy(self.logits(x), y)
        chosen = self.chosen(losses.detach())
        if epoch < self.burn_in:
            chosen = torch.ones_like(chosen)
        rate = self.example_dropout[epoch >= self.burn_in]
        if rate > 0:
            dropped = torch.randperm(len(y), device=y.device)[int((1 - rate) * len(y)) :]
            chosen = chosen.index_fill(0, dropped, False)
        return weighted_mean(losses * chosen, weight)

    def chosen(self, losses: Tensor) -> Tensor:
        """Return the mask (b,) of the losses (b,) that count; a moving threshold moves."""
        if self.threshold is not None:
            return losses < self.threshold
        q = losses.quantile(self.percentile, interpolation="nearest")
        before = self.moving_threshold.to(q.dtype)
        self.moving_threshold.copy_(torch.where(before < 0, q, before.lerp(q, 1 - self.decay)))
        return losses <= self.moving_threshold
