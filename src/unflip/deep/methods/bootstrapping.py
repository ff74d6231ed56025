"""Bootstrapping (Reed et al. 2015)."""

from typing import Any

from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method


class Bootstrapping(Method):
    """Cross-entropy with targets that are partly the network's own predictions.

    ::

        soft    loss = -sum_k (beta e_y[k] + (1 - beta) p_k) log p_k    = beta CE + (1 - beta) entropy of p
        hard    loss = -sum_k (beta e_y[k] + (1 - beta) e_m[k]) log p_k    where m = argmax p

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T and the prior are not used.
    hard : bool, default=False
        Whether the predicted class takes the place of the predicted probabilities.
    beta : float in [0, 1], default=None
        The share of the given label. If None, the paper's values are used: 0.95 for soft and 0.8 for hard targets.

    Notes
    -----
    The gradient goes through both places of p in the soft loss, which makes it an entropy penalty, as the paper says.

    References
    ----------
    Reed, Lee, Anguelov, Szegedy, Erhan and Rabinovich, Training Deep Neural Networks on Noisy Labels with
    Bootstrapping, ICLR 2015 workshop.
    """

    name = "bootstrapping"

    def __init__(self, *arguments: Any, hard: bool = False, beta: float | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if beta is not None and not 0 <= beta <= 1:
            raise ValueError(f"beta, the share of the given label, must lie in [0, 1]; got {beta!r}")
        self.hard = hard
        self.beta = (0.8 if hard else 0.95) if beta is None else beta

    def loss(self, logits: Tensor, y: Tensor) -> Tensor:
        log_p = logits.log_softmax(1)
        own = -log_p.amax(1) if self.hard else -(log_p.exp() * log_p).sum(1)
        return self.beta * cross_entropy(logits, y) + (1 - self.beta) * own
